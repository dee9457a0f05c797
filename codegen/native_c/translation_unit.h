// The C of whole kernels for hosts.
#pragma once

#include <string>
#include <string_view>

#include "codegen/driver/kernel_text.h"

namespace aipu::tir {

// The text of <compass/dsl.h> for hosts, and what that for Compass NPUs stands on.
std::string host_prelude(const Target& target);
Result<KernelText> print_host_kernel(const KernelSource& kernel, const Target& target, bool line_marks = false);

std::string_view kernel_abi_text();

}  // namespace aipu::tir
