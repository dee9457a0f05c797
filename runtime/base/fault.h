// The words for a fault that a kernel reports (runtime/abi/kernel_abi.h), and for a check that does not hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace aipu {

// `message` with the numbers in place of {value} and {limit}.
std::string fault_text(std::string_view message, int64_t value, int64_t limit);

}  // namespace aipu
