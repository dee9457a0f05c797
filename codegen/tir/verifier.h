#pragma once

#include "codegen/tir/stmt.h"
#include "runtime/base/meter.h"
#include "runtime/base/status.h"

namespace aipu::tir {

// Types of all operands, definitions before uses, call signatures, loop kinds. The message has the offending line of
// the text form. `meter`, if there is one, ends it when its time is over.
Status verify(const Module& module, Meter* meter = nullptr);

}  // namespace aipu::tir
