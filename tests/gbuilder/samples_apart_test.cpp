// What op records say of their axes holds: nodes of random graphs that are said to keep samples apart compute the same
// for a batch as for its samples one by one.
//
// AIPU_SAMPLES_FIRST and AIPU_SAMPLES_SEEDS in the environment choose other graphs, and how many.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "gbuilder/evaluator.h"
#include "gbuilder/plan/batch_loops.h"
#include "graph/ir/op_def.h"
#include "graph/passes/pass.h"
#include "tests/graph/random_graph.h"

namespace aipu::gbuilder {
namespace {

using graph::Constant;
using graph::ConstantPtr;
using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Shape;
using graph::ValueId;

constexpr const char* kSamples = "N";
constexpr int64_t kCount = 3;  // samples of the batch

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// One node with inputs of its own; further inputs give the symbols their values.
struct Alone {
  Graph graph;
  std::vector<std::string> symbols;  // of inputs 0, 1, ...
};

std::unique_ptr<Alone> alone(const Graph& from, const Node& node) {
  auto result = std::make_unique<Alone>();
  std::set<std::string> names = {kSamples};
  const auto collect = [&](ValueId value) {
    std::vector<std::string> found;
    for (const Dim& extent : from.type(value).shape) extent.collect_symbols(&found);
    names.insert(found.begin(), found.end());
  };
  for (const ValueId value : node.inputs) value.valid() ? collect(value) : void();
  for (const ValueId value : node.outputs) value.valid() ? collect(value) : void();
  for (const std::string& name : names) {
    result->graph.add_input("extent_" + name, {DType::kI8, {Dim::symbol(name)}});
    result->symbols.push_back(name);
  }
  std::map<ValueId, ValueId> values;
  std::vector<ValueId> inputs;
  for (const ValueId value : node.inputs) {
    if (!value.valid()) {
      inputs.push_back({});
      continue;
    }
    const auto [it, fresh] = values.try_emplace(value);
    if (fresh && from.constant(value) != nullptr) {
      it->second = result->graph.add_constant(from.value(value).constant);
    } else if (fresh) {
      it->second = result->graph.add_input("x" + std::to_string(values.size()), from.type(value));
    }
    inputs.push_back(it->second);
  }
  std::vector<std::string> outputs;
  for (size_t k = 0; k < node.outputs.size(); ++k)
    outputs.push_back(node.outputs[k].valid() ? "y" + std::to_string(k) : "");
  const auto id = result->graph.add_node(node.op, node.attributes, inputs, outputs, {{"node", node.op}});
  if (!id.ok()) return nullptr;
  for (const ValueId output : std::as_const(result->graph).node(*id).outputs) {
    if (output.valid()) result->graph.add_output(output, result->graph.value(output).name);
  }
  return result;
}

// Small whole numbers, of which sums and products are exact.
ConstantPtr random_numbers(DType dtype, std::vector<int64_t> shape, std::mt19937& random) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  const auto fill = [&](auto zero) {
    std::vector<decltype(zero)> elements(static_cast<size_t>(count));
    for (auto& e : elements) e = static_cast<decltype(zero)>(random() % 2);
    return Constant::of<decltype(zero)>(dtype, std::move(shape), elements);
  };
  switch (dtype) {
    case DType::kF32:
      return fill(float{});
    case DType::kF64:
      return fill(double{});
    case DType::kBool:
    case DType::kI8:
    case DType::kU8:
      return fill(uint8_t{});
    case DType::kI16:
    case DType::kU16:
      return fill(uint16_t{});
    case DType::kI32:
    case DType::kU32:
      return fill(uint32_t{});
    case DType::kI64:
    case DType::kU64:
      return fill(uint64_t{});
    default:
      return nullptr;
  }
}

bool has_samples(const Shape& shape) {
  std::vector<std::string> names;
  for (const Dim& extent : shape) extent.collect_symbols(&names);
  return std::find(names.begin(), names.end(), kSamples) != names.end();
}

std::vector<int64_t> bound(const Shape& shape, int64_t samples) {
  std::vector<int64_t> extents;
  for (const Dim& extent : shape) {
    const Dim value =
        extent.substitute([&](const std::string& name) { return std::optional<Dim>(name == kSamples ? samples : 2); });
    extents.push_back(value.constant_or(-1));
  }
  return extents;
}

class SamplesApart : public ::testing::Test {
 protected:
  SamplesApart() : target_(*tir::find_target("host-baseline")) {
    evaluator_ = make_evaluator(&registry_, &target_, {.native_threshold = 1e18});
  }

  Result<std::vector<ConstantPtr>> run(const Graph& graph, const std::vector<ConstantPtr>& inputs) {
    return run_graph(graph, inputs, registry_.claimers(), registry_.templates(), target_);
  }

  // Whether the node could be run.
  bool check(const Graph& graph, const Node& node, std::mt19937& random, const std::string& where) {
    const auto made = alone(graph, node);
    if (made == nullptr) return false;
    std::vector<ConstantPtr> batch;
    for (const ValueId input : made->graph.inputs()) {
      const graph::TensorType& type = made->graph.type(input);
      const std::vector<int64_t> shape = bound(type.shape, kCount);
      if (std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; })) return false;
      batch.push_back(random_numbers(type.dtype, shape, random));
      if (batch.back() == nullptr) return false;
    }
    const auto whole = run(made->graph, batch);
    if (!whole.ok()) return false;
    for (int64_t sample = 0; sample < kCount; ++sample) {
      const auto part = run(made->graph, parts(made->graph, batch, sample));
      EXPECT_TRUE(part.ok()) << where << ": " << part.status().message();
      if (!part.ok()) return false;
      for (size_t k = 0; k < whole->size(); ++k) {
        const auto found = (*part)[k]->bytes();
        const auto all = (*whole)[k]->bytes();
        const bool batched = has_samples(made->graph.type(made->graph.outputs()[k].value).shape);
        const auto expected = batched ? all.subspan(static_cast<size_t>(sample) * all.size() / kCount,
                                                    all.size() / static_cast<size_t>(kCount))
                                      : all;
        EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin(), expected.end()))
            << where << ", output " << k << ", sample " << sample;
      }
    }
    return true;
  }

  static std::vector<ConstantPtr> parts(const Graph& graph, const std::vector<ConstantPtr>& batch, int64_t sample) {
    std::vector<ConstantPtr> result;
    for (size_t k = 0; k < batch.size(); ++k) {
      const graph::TensorType& type = graph.type(graph.inputs()[k]);
      if (!has_samples(type.shape)) {
        result.push_back(batch[k]);
        continue;
      }
      const auto bytes = batch[k]->bytes();
      const size_t size = bytes.size() / static_cast<size_t>(kCount);
      const auto part = bytes.subspan(static_cast<size_t>(sample) * size, size);
      result.push_back(Constant::create(type.dtype, bound(type.shape, 1), {part.begin(), part.end()}));
    }
    return result;
  }

  kernels::PluginRegistry registry_ = kernels::PluginRegistry::with_builtins();
  tir::Target target_;
  std::unique_ptr<graph::Evaluator> evaluator_;
};

TEST_F(SamplesApart, OneByOneIsTheSame) {
  const uint64_t first = from_environment("AIPU_SAMPLES_FIRST", 1);
  const uint64_t count = from_environment("AIPU_SAMPLES_SEEDS", 400);
  std::map<std::string, int> compared;
  for (uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    graph::RandomGraph made = graph::random_graph(seed);
    graph::PassContext context;
    context.evaluator = evaluator_.get();
    if (!run_passes(*made.graph, graph::graph_pipeline(), context, {}).ok()) continue;
    const Graph& graph = *made.graph;
    std::mt19937 random(static_cast<uint32_t>(seed));
    for (const NodeId id : graph.topological_order()) {
      const Node& node = graph.node(id);
      const bool batched = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId value) {
        return value.valid() && has_samples(graph.type(value).shape);
      });
      if (!batched || !keeps_samples_apart(graph, node, kSamples)) continue;
      compared[node.op] += check(graph, node, random, str_cat("seed ", seed, ", ", node.op)) ? 1 : 0;
    }
    if (HasFailure()) ADD_FAILURE() << print_graph(graph);
  }
  int ops = 0;
  for (const auto& [op, times] : compared) ops += times > 0 ? 1 : 0;
  for (const auto& [op, times] : compared) std::printf("%5d %s\n", times, op.c_str());
  EXPECT_GE(ops, 20) << "too few ops were compared";
}

// A record that says nothing would keep an op out of layouts and batch loops in silence.
TEST(AxisMaps, EveryOpAnswers) {
  for (const graph::OpDef* def : graph::all_ops())
    EXPECT_TRUE(def->axes != nullptr || (def->traits & graph::kElementwise) != 0) << def->name;
}

}  // namespace
}  // namespace aipu::gbuilder
