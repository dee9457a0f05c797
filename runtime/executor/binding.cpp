#include "runtime/executor/binding.h"

#include <algorithm>

namespace aipu::runtime {
namespace {

bool is_aligned(const void* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % std::max<size_t>(1, dtype_bytes(dtype)) == 0;
}

}  // namespace

std::string shape_text(std::span<const int64_t> shape) {
  std::string result = "[";
  for (size_t i = 0; i < shape.size(); ++i) result += (i > 0 ? "," : "") + std::to_string(shape[i]);
  return result + "]";
}

Status used_by_another_thread() {
  return invalid_argument(
      "the session is in use by another thread (or was when this process was forked); one thread at a time can use a "
      "session, so make one for each");
}

Status check_input(const TensorSpec& spec, const TensorView& tensor, bool any_alignment) {
  if (tensor.dtype != spec.dtype) {
    return invalid_argument(
        str_cat("input '", spec.name, "': expected ", dtype_name(spec.dtype), ", found ", dtype_name(tensor.dtype)));
  }
  if (tensor.shape.size() != spec.shape.size()) {
    return invalid_argument(str_cat("input '", spec.name, "': expected rank ", spec.shape.size(), " (", spec.text(),
                                    "), found ", shape_text(tensor.shape)));
  }
  bool is_empty = false;
  for (const int64_t extent : tensor.shape) {
    if (extent < 0) return invalid_argument(str_cat("input '", spec.name, "' has the negative extent ", extent));
    is_empty |= extent == 0;
  }
  if (tensor.data == nullptr && !is_empty) return invalid_argument(str_cat("input '", spec.name, "' has no data"));
  if (!any_alignment && !is_empty && !is_aligned(tensor.data, spec.dtype))
    return invalid_argument(str_cat("the data of input '", spec.name, "' is not aligned to its elements"));
  return {};
}

Status check_output_memory(const TensorSpec& spec, const void* data, size_t bytes) {
  if (bytes == 0 || is_aligned(data, spec.dtype)) return {};
  return invalid_argument(str_cat("the memory given for output '", spec.name, "' is not aligned to its elements"));
}

Status check_output_type(const TensorSpec& spec, const void* data) {
  if (data == nullptr || spec.dtype != DType::kString) return {};
  return unsupported(str_cat("output '", spec.name, "' has strings, which are given in memory of the session's only"));
}

Status check_capacity(const TensorSpec& spec, std::span<const int64_t> shape, int64_t bytes, int64_t capacity) {
  if (capacity >= bytes) return {};
  return invalid_argument(str_cat("output '", spec.name, "' ", shape_text(shape), " takes ", bytes,
                                  " bytes, but the memory given for it has ", capacity));
}

Status check_overlap(const BoundMemory& output, const BoundMemory& other) {
  const auto x = reinterpret_cast<uintptr_t>(output.data);
  const auto y = reinterpret_cast<uintptr_t>(other.data);
  const bool overlap = output.bytes > 0 && other.bytes > 0 && x < y + static_cast<uintptr_t>(other.bytes) &&
                       y < x + static_cast<uintptr_t>(output.bytes);
  if (!overlap) return {};
  return invalid_argument(str_cat("the memory given for output '", output.spec.name, "' overlaps that of ", other.kind,
                                  " '", other.spec.name, "'; each needs memory of its own"));
}

}  // namespace aipu::runtime
