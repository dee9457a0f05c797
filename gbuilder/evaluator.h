// Computes nodes with constant inputs at compile time, with the same plugins and kernels that a model runs with: a
// graph of just that node is claimed, set up and executed, small work by the TIR interpreter, large work as compiled
// code.
#pragma once

#include <memory>

#include "codegen/compass_c/cc_driver.h"
#include "codegen/targets/target.h"
#include "graph/passes/pass.h"
#include "kernels/plugin.h"

namespace aipu::gbuilder {

struct EvaluatorOptions {
  tir::CompileOptions compile;
  // Work beyond this many element operations is compiled; the results are the same either way.
  double native_threshold = 2e6;
};

// `registry` and `target` must outlive it. The kernels are those of `target`, so that folding gives the same bytes on
// every machine; they are compiled only if this CPU can run them.
std::unique_ptr<graph::Evaluator> make_evaluator(kernels::PluginRegistry* registry, const tir::Target* target,
                                                 EvaluatorOptions options = {});

}  // namespace aipu::gbuilder
