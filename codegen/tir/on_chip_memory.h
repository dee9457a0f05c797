// Where the arrays in lsram and shared memory lie. Arrays that are never needed at the same time share their place, so
// that a kernel needs as much as its most demanding path of calls, not as much as all its functions together.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "codegen/targets/target.h"
#include "codegen/tir/stmt.h"
#include "runtime/base/status.h"

namespace aipu::tir {

struct OnChipMemory {
  std::map<const Var*, int64_t> offsets;  // of the buffers, in bytes, multiples of 64
  int64_t lsram_bytes = 0;                // per TEC
  int64_t shared_bytes = 0;
};

// Of a verified module. In lsram two arrays share where one is not used any more before the other is declared. In
// shared memory a barrier has to stand between the two, because the TECs need not be at the same place of the text; or
// they are in the branches of an `if` that all TECs decide alike.
OnChipMemory plan_on_chip_memory(const Module& module);

// Whether a core of the target has that much; `function` is what the error names.
Status check_on_chip_memory(std::string_view function, int64_t lsram_bytes, int64_t shared_bytes, const Target& target);

}  // namespace aipu::tir
