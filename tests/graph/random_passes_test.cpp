// Random graphs compute the same before and after the passes: without any pass, with all of them, and with all but
// each one, executed by the interpreter. Each pass declares what it promises (Exactness): bits are compared where it
// promises them, and roundings are allowed where not.
//
// AIPU_PASSES_FIRST and AIPU_PASSES_SEEDS in the environment choose other graphs, and how many.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "gbuilder/evaluator.h"
#include "graph/passes/pass.h"
#include "tests/graph/random_graph.h"

namespace aipu::graph {
namespace {

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// A built-in plugin that takes one node at a time: what each node rounds does not depend on its neighbours then.
class Alone final : public kernels::OpPlugin {
 public:
  explicit Alone(const Claimer* plugin) : plugin_(static_cast<const kernels::OpPlugin&>(*plugin)) {}
  std::string_view name() const override { return plugin_.name(); }
  ClaimResult claim(const Graph& graph, NodeId anchor, const ClaimTarget& target) const override {
    AIPU_ASSIGN_OR_RETURN(std::optional<Claim> claim, plugin_.claim(graph, anchor, target));
    if (claim) claim->nodes = {anchor};
    return claim;
  }
  Status setup(kernels::SetupContext& context) const override { return plugin_.setup(context); }

 private:
  const kernels::OpPlugin& plugin_;
};

using Outputs = std::vector<ConstantPtr>;

std::vector<std::string> all_passes() {
  std::set<std::string> names;
  for (const Pass& pass : graph_pipeline()) names.insert(std::string(pass.name));
  return {names.begin(), names.end()};
}

// Where a NaN stands for any NaN. Empty: the same.
std::string difference(const Constant& a, const Constant& b, double tolerance) {
  if (a.type() != b.type()) return str_cat(a.type().text(), " and ", b.type().text());
  if (std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0) return {};
  const auto left = a.to_doubles();
  const auto right = b.to_doubles();
  double largest = 1;
  for (const double v : left) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
  for (size_t k = 0; k < left.size(); ++k) {
    if (left[k] == right[k] || (std::isnan(left[k]) && std::isnan(right[k]))) continue;
    if (std::abs(left[k] - right[k]) <= tolerance * largest) continue;
    return str_cat("element ", k, " of ", a.type().text(), ": ", std::to_string(left[k]), " and ",
                   std::to_string(right[k]));
  }
  return {};
}

class Runner {
 public:
  Runner() {
    target_ = *tir::find_target("host-baseline");
    for (const Claimer* claimer : registry_.claimers()) alone_.push_back(std::make_unique<Alone>(claimer));
    for (const auto& plugin : alone_) claimers_.push_back(plugin.get());
    evaluator_ = gbuilder::make_evaluator(&registry_, &target_, {.native_threshold = 1e18});
  }

  // The graph of a seed after the passes that are not disabled, as text, and what it computes.
  struct Run {
    Status status;
    std::string text;
    Outputs outputs;
  };
  Run run(uint64_t seed, const std::vector<std::string>& disabled, bool fused = false) {
    RandomGraph made = random_graph(seed);
    PassContext context;
    context.evaluator = evaluator_.get();
    context.multiplies_unsigned_bytes = true;
    RunOptions options;
    options.disabled = disabled;
    Run result;
    if (result.status = run_passes(*made.graph, graph_pipeline(), context, options); !result.status.ok()) return result;
    result.text = print_graph(*made.graph);
    if (const auto known = computed_.find(result.text); known != computed_.end() && !fused) return known->second;
    auto outputs = gbuilder::run_graph(*made.graph, made.inputs, fused ? registry_.claimers() : claimers_,
                                       registry_.templates(), target_);
    if (outputs.ok()) {
      result.outputs = *std::move(outputs);
    } else {
      result.status = std::move(outputs).status();
    }
    if (!fused) computed_.emplace(result.text, result);
    return result;
  }
  void forget() { computed_.clear(); }

 private:
  tir::Target target_;
  kernels::PluginRegistry registry_ = kernels::PluginRegistry::with_builtins();
  std::vector<std::unique_ptr<Alone>> alone_;
  std::vector<const Claimer*> claimers_;
  std::unique_ptr<Evaluator> evaluator_;
  std::map<std::string, Run> computed_;  // by text: most passes leave most graphs alone
};

// A node that some pass has to rewrite before there is a kernel for it, or shapes that do not fit together once symbols
// have values. (The interpreter also refuses a stride of 0 that only the bound shapes tell.)
bool is_refusal(const Status& status) {
  if (status.message().find("The arg \"stride\" expect >= 1") != std::string::npos) return true;
  return status.code() == ErrorCode::kUnsupported || status.code() == ErrorCode::kInvalidModel;
}

class RandomPasses : public ::testing::Test {
 protected:
  void expect_same(const Outputs& expected, const Outputs& found, double tolerance, const std::string& what) {
    ASSERT_EQ(expected.size(), found.size()) << what;
    for (size_t k = 0; k < expected.size(); ++k) {
      const std::string text = difference(*expected[k], *found[k], tolerance);
      EXPECT_EQ(text, "") << what << ", output y" << k;
    }
  }

  // Whether the graph was compared with its reference.
  bool check(uint64_t seed) {
    runner_.forget();
    const bool dyadic = random_graph(seed).is_dyadic;
    const double roundings = dyadic ? 0 : 2e-4;
    const std::string where = str_cat("seed ", seed);
    const auto all = runner_.run(seed, {});
    EXPECT_TRUE(all.status.ok() || is_refusal(all.status)) << where << ", all passes: " << all.status.message();
    if (!all.status.ok()) {
      refusals_[all.status.message().substr(0, 60)]++;
      return false;
    }
    const auto fused = runner_.run(seed, {}, true);
    EXPECT_TRUE(fused.status.ok()) << where << ", fused: " << fused.status.message();
    // 16-bit floats are not rounded inside a group.
    if (fused.status.ok()) expect_same(all.outputs, fused.outputs, 2e-3, str_cat(where, ", fused"));

    for (const std::string& name : passes_) {
      const auto without = runner_.run(seed, {name});
      EXPECT_TRUE(without.status.ok() || is_refusal(without.status))
          << where << ", without " << name << ": " << without.status.message();
      if (without.status.ok()) expect_same(all.outputs, without.outputs, roundings, str_cat(where, ", without ", name));
    }
    return compare_exact(seed, where, roundings, all.outputs);
  }

  // The fewest passes that leave no node without a kernel are the reference of all others; those that promise bits are
  // compared with it bit by bit, together and without each one.
  bool compare_exact(uint64_t seed, const std::string& where, double roundings, const Outputs& all) {
    std::set<std::string> needed;
    const auto only = [&](const std::set<std::string>& passes) {
      std::vector<std::string> disabled;
      for (const std::string& pass : passes_) {
        if (!passes.contains(pass) && !needed.contains(pass)) disabled.push_back(pass);
      }
      return runner_.run(seed, disabled);
    };
    auto none = only({});
    for (const char* name : {"resolve_shape_operands", "inline_control_flow", "simplify_algebra", "decompose",
                             "assign_layout", "integer_arithmetic"}) {
      if (none.status.ok()) break;
      EXPECT_TRUE(is_refusal(none.status)) << where << ", no passes: " << none.status.message();
      needed.insert(name);
      none = only({});
    }
    EXPECT_TRUE(none.status.ok()) << where << ", the fewest passes: " << none.status.message();
    if (!none.status.ok()) return false;
    expect_same(none.outputs, all, roundings, str_cat(where, ", all passes"));
    std::set<std::string> exact;
    for (const Pass& pass : graph_pipeline()) {
      if (pass.exactness == Exactness::kExact) exact.insert(std::string(pass.name));
    }
    const auto compare = [&](const std::set<std::string>& passes, const std::string& what) {
      const auto run = only(passes);
      EXPECT_TRUE(run.status.ok() || is_refusal(run.status)) << what << ": " << run.status.message();
      if (run.status.ok()) expect_same(none.outputs, run.outputs, 0, what);
    };
    compare(exact, str_cat(where, ", all exact passes"));
    for (const std::string& name : exact) {
      std::set<std::string> others = exact;
      others.erase(name);
      compare(others, str_cat(where, ", all exact passes but ", name));
    }
    return true;
  }

  Runner runner_;
  std::vector<std::string> passes_ = all_passes();
  std::map<std::string, int> refusals_;
};

TEST_F(RandomPasses, ComputeTheSame) {
  const uint64_t first = from_environment("AIPU_PASSES_FIRST", 1);
  const uint64_t count = from_environment("AIPU_PASSES_SEEDS", 300);
  uint64_t compared = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    compared += check(seed) ? 1 : 0;
    if (HasFailure() && std::getenv("AIPU_PASSES_KEEP_GOING") == nullptr) {
      ADD_FAILURE() << print_graph(*random_graph(seed).graph);
      break;
    }
  }
  for (const auto& [message, times] : refusals_) std::printf("%4d refused: %s\n", times, message.c_str());
  std::printf("%llu of %llu graphs compared\n", static_cast<unsigned long long>(compared),
              static_cast<unsigned long long>(count));
  EXPECT_GE(compared * 10, count * 8) << "too many graphs are refused";
}

}  // namespace
}  // namespace aipu::graph
