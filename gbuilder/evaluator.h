// Computes nodes with constant inputs at compile time, with the same plugins and kernels that a model runs with: a
// graph of just that node is claimed, set up and executed, small work by the TIR interpreter, large work as compiled
// code.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "codegen/driver/cc_driver.h"
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

// The outputs of a graph for given inputs (in the order of the graph's), without a C compiler, a plan or a file: groups
// of nodes are claimed and set up as for a model, and their kernels interpreted one after the other, each as the only
// TEC. Errors: what the partitioner and the plugins say, inputs of another type than the graph's, what a kernel does
// wrong.
Result<std::vector<graph::ConstantPtr>> run_graph(const graph::Graph& graph, std::span<const graph::ConstantPtr> inputs,
                                                  std::span<const graph::Claimer* const> claimers,
                                                  kernels::TemplateLibrary& templates, const tir::Target& target);

}  // namespace aipu::gbuilder
