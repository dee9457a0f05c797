// The element types of tensors, kernels and files, and what is known about each of them.
// One list (AIPU_FOR_EACH_DTYPE) yields the enum, the names, the sizes and the ONNX numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace aipu {

// Enumerator, name, Compass alias, bits, kind letter (b bool, i signed, u unsigned, f float, g bfloat), ONNX
// TensorProto number. The enumerator's value is written to aipu.bin: append only.
#define AIPU_FOR_EACH_DTYPE(X)              \
  X(kVoid, "void", "void", 0, '-', 0)       \
  X(kBool, "bool", "bool", 8, 'b', 9)       \
  X(kI8, "int8", "i8", 8, 'i', 3)           \
  X(kU8, "uint8", "u8", 8, 'u', 2)          \
  X(kI16, "int16", "i16", 16, 'i', 5)       \
  X(kU16, "uint16", "u16", 16, 'u', 4)      \
  X(kI32, "int32", "i32", 32, 'i', 6)       \
  X(kU32, "uint32", "u32", 32, 'u', 12)     \
  X(kI64, "int64", "i64", 64, 'i', 7)       \
  X(kU64, "uint64", "u64", 64, 'u', 13)     \
  X(kF16, "float16", "fp16", 16, 'f', 10)   \
  X(kBF16, "bfloat16", "bf16", 16, 'g', 16) \
  X(kF32, "float32", "fp32", 32, 'f', 1)    \
  X(kF64, "float64", "fp64", 64, 'f', 11)   \
  X(kString, "string", "string", 0, 's', 8)

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
  int bits;                // of one element in memory; a bool is stored as one byte
  char kind;
  int onnx;
};

// The row of a type; a value outside the enum (from a file) yields the row of kVoid.
const DTypeInfo& dtype_info(DType dtype);

inline std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }
inline size_t dtype_bytes(DType dtype) { return static_cast<size_t>(dtype_info(dtype).bits) / 8; }
inline int dtype_bits(DType dtype) { return dtype_info(dtype).bits; }
inline bool is_bool(DType d) { return d == DType::kBool; }
inline bool is_signed_int(DType d) { return dtype_info(d).kind == 'i'; }
inline bool is_unsigned_int(DType d) { return dtype_info(d).kind == 'u'; }
inline bool is_integer(DType d) { return is_signed_int(d) || is_unsigned_int(d); }
inline bool is_floating(DType d) { return dtype_info(d).kind == 'f' || dtype_info(d).kind == 'g'; }

// Accepts the name and the alias ("float32", "fp32").
std::optional<DType> parse_dtype(std::string_view text);
std::optional<DType> dtype_from_onnx(int onnx_number);

}  // namespace aipu
