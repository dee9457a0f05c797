// What templates/stage.py and templates/staging.py are told of a target.
#pragma once

#include <cstdint>

#include "codegen/targets/target.h"
#include "kernels/dsl/environment.h"

namespace aipu::dsl {

// Whether the target has memory of TECs, an engine that fills it beside their code, and figures of a timing model, by
// which tiles are chosen. Hosts have no such engine.
bool has_staging(const tir::Target& target);

// Those of S.stage. `local_bytes`: that its tiles may take; 0: all that there is.
void set_stage_parameters(const tir::Target& target, int64_t local_bytes, TemplateParams* params);

}  // namespace aipu::dsl
