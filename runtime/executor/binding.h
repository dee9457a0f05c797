// What callers bind to sessions, of either kind: checked in one way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/model.h"
#include "runtime/session.h"

namespace aipu::runtime {

std::string shape_text(std::span<const int64_t> shape);

Status used_by_another_thread();

// Dtype, rank, extents, that there is data, and its alignment.
Status check_input(const TensorSpec& spec, const TensorView& tensor, bool any_alignment);
Status check_output_memory(const TensorSpec& spec, const void* data, size_t bytes);
// No memory of the caller's holds strings.
Status check_output_type(const TensorSpec& spec, const void* data);
Status check_capacity(const TensorSpec& spec, std::span<const int64_t> shape, int64_t bytes, int64_t capacity);

// Memory of an input or output; none if there are no bytes.
struct BoundMemory {
  std::string_view kind;
  const TensorSpec& spec;
  const void* data;
  int64_t bytes;
};
// The caller's memory for an output must be nobody else's.
Status check_overlap(const BoundMemory& output, const BoundMemory& other);

}  // namespace aipu::runtime
