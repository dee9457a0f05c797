#include "runtime/base/dtype.h"

namespace aipu {
namespace {

constexpr DTypeInfo kTable[kDTypeCount] = {
#define X(enumerator, name, alias, bits, kind, onnx) {name, alias, bits, kind, onnx},
    AIPU_FOR_EACH_DTYPE(X)
#undef X
};

}  // namespace

const DTypeInfo& dtype_info(DType dtype) {
  const auto index = static_cast<int>(dtype);
  return kTable[index < kDTypeCount ? index : 0];
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kTable[i].name == text || kTable[i].alias == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_onnx(int onnx_number) {
  for (int i = 1; i < kDTypeCount; ++i) {
    if (kTable[i].onnx == onnx_number) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace aipu
