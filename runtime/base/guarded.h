// Where exceptions end: the public functions, the bodies of threads and the C interfaces. Our own code throws none, but
// the standard library does when memory or threads run out.
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>

#include "runtime/base/status.h"

namespace aipu {

// "out of memory", an error that takes none: it comes from a reserve of errors made beforehand.
Status out_of_memory() noexcept;
// Replaces what was taken from the reserve. Called where work begins: by then there may be memory again.
void refill_error_reserve() noexcept;

// The exception that is being handled, as an error that begins with "where: " if there is memory for that; for memory
// that ran out it takes none. Call it in a catch block.
Status current_exception_status(std::string_view where = {}) noexcept;

// What `body` returns, a Status or a Result; an exception becomes an error of that type.
template <typename Body>
std::invoke_result_t<Body> guarded(Body&& body) noexcept {
  refill_error_reserve();
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return current_exception_status();
  }
}

}  // namespace aipu
