#include <cstring>

#include "runtime/engines/engine.h"

namespace aipu::runtime {
namespace {

template <typename T>
int64_t read(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return static_cast<int64_t>(value);
}

int64_t read_integer(DType dtype, const void* address) {
  switch (dtype) {
    case DType::kBool:
      return read<uint8_t>(address) != 0 ? 1 : 0;
    case DType::kI8:
      return read<int8_t>(address);
    case DType::kU8:
      return read<uint8_t>(address);
    case DType::kI16:
      return read<int16_t>(address);
    case DType::kU16:
      return read<uint16_t>(address);
    case DType::kI32:
      return read<int32_t>(address);
    case DType::kU32:
      return read<uint32_t>(address);
    default:
      return read<int64_t>(address);  // kI64 and kU64: check.cpp admits integers and bool only
  }
}

}  // namespace

void bind_symbols(const fb::Model& model, std::span<const unsigned long long> addresses, uint32_t first,
                  std::span<SymbolValue> symbols) {
  const auto tensors = items(model.tensors());
  for (uint32_t i = 0; i < addresses.size(); ++i) {
    const auto dtype = static_cast<DType>(tensors[items(model.symbols())[first + i]->tensor()]->dtype());
    symbols[first + i] = {read_integer(dtype, reinterpret_cast<const void*>(addresses[i])), true};
  }
}

}  // namespace aipu::runtime
