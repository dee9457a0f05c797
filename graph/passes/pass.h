// Graph passes: free functions with names, listed in pipeline.cpp in the order they run. The runner times, dumps,
// verifies and counts; a pass only rewrites.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"

namespace aipu::graph {

// Computes the outputs of a node whose inputs are all constant. `graph` owns the interface; gbuilder implements it with
// the op plugins and the TIR interpreter.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual Result<std::vector<ConstantPtr>> evaluate(const Graph& graph, NodeId node) = 0;
};

struct PrecisionRule {
  std::string pattern;  // of the names of a node's origins: fits_pattern()
  DType precision = DType::kF32;
};

struct PassContext {
  Evaluator* evaluator = nullptr;               // null: constant folding is limited to `data`
  int64_t fold_limit_bytes = int64_t{1} << 30;  // larger results stay computations
  // Whether kernels multiply bytes by signed bytes faster than wider integers.
  bool has_byte_products = false;
  // Whether these multiply unsigned bytes only, by signed ones.
  bool multiplies_unsigned_bytes = false;
  // Whether kernels multiply by constant weights of few bits as they are, rather than by floats made of them before.
  bool reads_codes = true;
  // Of such weights that are floats of 4 and 8 bits, or numbers of a table of 16: whether kernels make numbers of codes
  // by tables of bytes in registers, by tables of float32 there, and by converting float16 numbers. Else by nothing
  // that would pay, beside float32 weights.
  bool has_byte_tables = true, has_float_tables = true, converts_halves = true;
  // Whether kernels multiply float16 numbers by widening each, so that float32 is faster.
  bool widens_halves = false;
  // Whether kernels multiply bfloat16 numbers no faster than float32 ones.
  bool holds_bfloats = false;
  // Whether runs of a few elements are copied as fast as longer ones.
  bool copies_short_runs = true;
  // Of lower_precision, what products multiply (float32, bfloat16, float16): the first rule that fits a node decides,
  // `precision` where none does.
  DType precision = DType::kF32;
  std::vector<PrecisionRule> precision_rules = {};
};

// What a pass promises about results. kExact: the same bits, kernel for kernel. kRounds: floats may differ by a few
// roundings, as sums are taken in another order, or factors move from one product to another; what is computed without
// rounding stays the same.
enum class Exactness : uint8_t { kExact, kRounds };

struct Pass {
  std::string_view name;
  std::string_view summary;
  std::function<Result<int>(Graph&, PassContext&)> run;  // the number of rewrites, 0 = unchanged
  Exactness exactness = Exactness::kExact;
};

std::span<const Pass> graph_pipeline();

struct RunOptions {
  // "" = no dumps; files NN.graph.<pass>.txt for passes that changed something, and index.txt
  std::string dump_dir;
  std::vector<std::string> disabled;  // pass names; an unknown one is an error
  std::string stop_after;             // pass name
  bool verify_each = true;
  bool time_passes = false;
};

Status run_passes(Graph& graph, std::span<const Pass> passes, PassContext& context, const RunOptions& options);

}  // namespace aipu::graph
