#pragma once

#include "codegen/tir/stmt.h"
#include "runtime/base/status.h"

namespace aipu::tir {

// Types of all operands, definitions before uses, call signatures, loop kinds. The message has the offending line of
// the text form.
Status verify(const Module& module);

}  // namespace aipu::tir
