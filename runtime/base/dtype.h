// The element types of tensors, kernels and files, and what is known about each of them.
// One list (AIPU_FOR_EACH_DTYPE) yields the enum, the names, the sizes and the ONNX numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace aipu {

// Enumerator, name, Compass alias, bits, kind letter (b bool, i signed, u unsigned, f float, g bfloat, s string, q
// stored only: stored_type.h), ONNX TensorProto number. The enumerator's value is written to aipu.bin: append only.
#define AIPU_FOR_EACH_DTYPE(X)                                   \
  X(kVoid, "void", "void", 0, '-', 0)                            \
  X(kBool, "bool", "bool", 8, 'b', 9)                            \
  X(kI8, "int8", "i8", 8, 'i', 3)                                \
  X(kU8, "uint8", "u8", 8, 'u', 2)                               \
  X(kI16, "int16", "i16", 16, 'i', 5)                            \
  X(kU16, "uint16", "u16", 16, 'u', 4)                           \
  X(kI32, "int32", "i32", 32, 'i', 6)                            \
  X(kU32, "uint32", "u32", 32, 'u', 12)                          \
  X(kI64, "int64", "i64", 64, 'i', 7)                            \
  X(kU64, "uint64", "u64", 64, 'u', 13)                          \
  X(kF16, "float16", "fp16", 16, 'f', 10)                        \
  X(kBF16, "bfloat16", "bf16", 16, 'g', 16)                      \
  X(kF32, "float32", "fp32", 32, 'f', 1)                         \
  X(kF64, "float64", "fp64", 64, 'f', 11)                        \
  X(kString, "string", "string", 64, 's', 8)                     \
  X(kF8E4M3FN, "float8e4m3fn", "float8e4m3fn", 8, 'q', 17)       \
  X(kF8E4M3FNUZ, "float8e4m3fnuz", "float8e4m3fnuz", 8, 'q', 18) \
  X(kF8E5M2, "float8e5m2", "float8e5m2", 8, 'q', 19)             \
  X(kF8E5M2FNUZ, "float8e5m2fnuz", "float8e5m2fnuz", 8, 'q', 20) \
  X(kF8E8M0, "float8e8m0", "float8e8m0", 8, 'q', 24)             \
  X(kF6E2M3, "float6e2m3", "float6e2m3", 6, 'q', 27)             \
  X(kF6E3M2, "float6e3m2", "float6e3m2", 6, 'q', 28)             \
  X(kF4E2M1, "float4e2m1", "float4e2m1", 4, 'q', 23)             \
  X(kI4, "int4", "int4", 4, 'q', 22)                             \
  X(kU4, "uint4", "uint4", 4, 'q', 21)                           \
  X(kI2, "int2", "int2", 2, 'q', 26)                             \
  X(kU2, "uint2", "uint2", 2, 'q', 25)                           \
  X(kC64, "complex64", "complex64", 64, 'q', 14)

enum class DType : uint8_t {
#define X(enumerator, name, alias, bits, kind, onnx) enumerator,
  AIPU_FOR_EACH_DTYPE(X)
#undef X
};

constexpr int kDTypeCount = 0
#define X(enumerator, name, alias, bits, kind, onnx) +1
    AIPU_FOR_EACH_DTYPE(X)
#undef X
    ;

struct DTypeInfo {
  std::string_view name;   // "float32": ONNX's and NumPy's spelling
  std::string_view alias;  // "fp32": Compass's short spelling
  int bits;                // of one element; a bool is stored as one byte, what has fewer than 8 bits: stored_type.h
  char kind;
  int onnx;
};

// The row of a type; a value outside the enum (from a file) yields the row of kVoid.
const DTypeInfo& dtype_info(DType dtype);

inline std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }
// Of one element in graphs and kernels.
inline size_t dtype_bytes(DType dtype) { return (static_cast<size_t>(dtype_info(dtype).bits) + 7) / 8; }
inline int dtype_bits(DType dtype) { return dtype_info(dtype).bits; }
inline bool is_bool(DType d) { return d == DType::kBool; }
inline bool is_signed_int(DType d) { return dtype_info(d).kind == 'i'; }
inline bool is_unsigned_int(DType d) { return dtype_info(d).kind == 'u'; }
inline bool is_integer(DType d) { return is_signed_int(d) || is_unsigned_int(d); }
inline bool is_floating(DType d) { return dtype_info(d).kind == 'f' || dtype_info(d).kind == 'g'; }
// Whether kernels know it: what can be the type of an expression.
inline bool is_computed(DType d) { return is_bool(d) || is_integer(d) || is_floating(d); }

// Accepts the name and the alias ("float32", "fp32").
std::optional<DType> parse_dtype(std::string_view text);
std::optional<DType> dtype_from_onnx(int onnx_number);

}  // namespace aipu
