// Memory in two halves: one is filled for the next iteration of a loop before the other is used in this one.
#pragma once

#include <string_view>

#include "kernels/te/stmt.h"
#include "runtime/base/status.h"

namespace aipu::te {

// The pragma around what fills the memory right around it.
inline constexpr std::string_view kDoubleBufferScope = "double_buffer_scope";

// That around what is run while a tensor is asked for in advance: a hint.
inline constexpr std::string_view kPrefetchScope = "prefetch_scope";

// Errors: no serial loop is around the memory, its size depends on the loop, or what fills it reads what else the loop
// computes.
Result<Stmt> inject_double_buffers(const Stmt& stmt);

}  // namespace aipu::te
