#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "graph/ir/op_def.h"
#include "graph/passes/min_cut.h"
#include "graph/passes/passes.h"
#include "runtime/base/file.h"

namespace aipu::graph {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Graph> parse(std::string_view text) {
  auto graph = parse_graph(text, {});
  if (!graph.ok()) {
    ADD_FAILURE() << graph.status().message();
    return std::make_unique<Graph>();
  }
  return *std::move(graph);
}

constexpr std::string_view kRelus =
    R"(graph "g" { input %x: float32[4]  %a = Identity(%x)  %b = Relu(%a) from "r" (Relu)  %c = Neg(%x)  output "b" = %b })";

TEST(RunPasses, DumpsOnlyWhatChanged) {
  const auto dir = std::filesystem::temp_directory_path() / str_cat("aipu_run_passes_", ::getpid());
  const auto graph = parse(kRelus);
  PassContext context;
  RunOptions options;
  options.dump_dir = dir.string();
  ASSERT_TRUE(run_passes(*graph, graph_pipeline(), context, options).ok());
  EXPECT_TRUE(std::filesystem::exists(dir / "00.graph.imported.txt"));
  EXPECT_TRUE(std::filesystem::exists(dir / "02.graph.eliminate_dead_nodes.txt"));
  EXPECT_TRUE(std::filesystem::exists(dir / "09.graph.simplify_algebra.txt"));
  EXPECT_FALSE(std::filesystem::exists(dir / "04.graph.resolve_shape_operands.txt"));
  const std::string index = read_text_file((dir / "index.txt").string()).value();
  EXPECT_THAT(index, HasSubstr("04 resolve_shape_operands unchanged"));
  EXPECT_THAT(index, HasSubstr("02 eliminate_dead_nodes 1 rewrites"));
  std::filesystem::remove_all(dir);
}

TEST(RunPasses, DisableAndStop) {
  PassContext context;
  RunOptions options;
  options.disabled = {"simplify_algebra"};
  auto graph = parse(kRelus);
  ASSERT_TRUE(run_passes(*graph, graph_pipeline(), context, options).ok());
  EXPECT_THAT(print_graph(*graph), HasSubstr("Identity"));
  options = {};
  options.stop_after = "eliminate_dead_nodes";
  graph = parse(kRelus);
  ASSERT_TRUE(run_passes(*graph, graph_pipeline().first(6), context, options).ok());
  EXPECT_THAT(print_graph(*graph), HasSubstr("Identity"));
  options.stop_after = "eliminate_dead_notes";
  EXPECT_THAT(run_passes(*graph, graph_pipeline(), context, options).message(),
              HasSubstr("--stop-after: there is no graph pass 'eliminate_dead_notes'"));
  options = {};
  options.disabled = {"x"};
  EXPECT_THAT(run_passes(*graph, graph_pipeline(), context, options).message(),
              HasSubstr("--disable-pass: there is no graph pass 'x'"));
}

TEST(RunPasses, ErrorsNameThePass) {
  const Pass fails[] = {{"fails", "", [](Graph&, PassContext&) -> Result<int> { return internal_error("no luck"); }}};
  const Pass breaks[] = {{"breaks", "", [](Graph& g, PassContext&) -> Result<int> {
                            g.value(g.outputs()[0].value).type.shape[0] = 5;
                            return 1;
                          }}};
  PassContext context;
  auto graph = parse(kRelus);
  EXPECT_EQ(run_passes(*graph, fails, context, {}).message(), "pass fails: no luck");
  EXPECT_THAT(run_passes(*graph, breaks, context, {}).message(), HasSubstr("after pass breaks: node 'r' (Relu)"));
}

// An evaluator that knows Add of float32 scalars.
class AddEvaluator : public Evaluator {
 public:
  Result<std::vector<ConstantPtr>> evaluate(const Graph& graph, NodeId node) override {
    const Node& n = graph.node(node);
    if (n.op != "Add") return unsupported("only Add");
    const double sum = graph.constant(n.inputs[0])->to_doubles()[0] + graph.constant(n.inputs[1])->to_doubles()[0];
    return std::vector<ConstantPtr>{Constant::scalar_f32(static_cast<float>(sum))};
  }
};

TEST(FoldConstants, AsksTheEvaluator) {
  const auto graph = parse(R"(graph "g" {
    const %a = float32[] {1.5}
    const %b = float32[] {2}
    %s = Add(%a, %b)
    %t = Exp(%s)
    output "t" = %t
  })");
  AddEvaluator evaluator;
  PassContext context;
  context.evaluator = &evaluator;
  EXPECT_EQ(fold_constants(*graph, context).value(), 1);
  EXPECT_THAT(print_graph(*graph), HasSubstr("float32[] {3.5}"));
  EXPECT_THAT(print_graph(*graph), HasSubstr("Exp"));
  EXPECT_TRUE(verify_graph(*graph).ok());
}

TEST(FoldConstants, LimitsGrowth) {
  const auto graph = parse(
      R"(graph "g" { %z = ConstantOfShape() {shape=dims[1000000,1000]}  %s = ConstantOfShape() {shape=dims[3]}  output "z" = %z  output "s" = %s })");
  PassContext context;
  EXPECT_EQ(fold_constants(*graph, context).value(), 1);
  EXPECT_THAT(print_graph(*graph), HasSubstr("float32[3] {0, 0, 0}"));
}

TEST(FoldBatchNormalization, ComputesTheSameNumbers) {
  // scale / sqrt(var + eps) = 2 / sqrt(3 + 1) = 1 and 3 / sqrt(8 + 1) = 1; shifts 10 - 1*1 and 20 - 2*1, plus the bias
  // 5, 6.
  const auto graph = parse(R"(graph "g" {
    input %x: float32[1,1,4,4]
    const %w = float32[2,1,1,1] {7, 8}
    const %b = float32[2] {5, 6}
    const %scale = float32[2] {2, 6}
    const %shift = float32[2] {10, 20}
    const %mean = float32[2] {1, 2}
    const %var = float32[2] {3, 8}
    %c = Conv(%x, %w, %b)
    %y = BatchNormalization(%c, %scale, %shift, %mean, %var) {epsilon=1.0}
    output "y" = %y
  })");
  PassContext context;
  EXPECT_EQ(fold_batch_normalization(*graph, context).value(), 1);
  const Node& conv = std::as_const(*graph).node(NodeId{0});
  EXPECT_EQ(graph->constant(conv.inputs[1])->to_doubles(), (std::vector<double>{7, 16}));
  EXPECT_EQ(graph->constant(conv.inputs[2])->to_doubles(), (std::vector<double>{14, 28}));
  EXPECT_TRUE(verify_graph(*graph).ok());
}

TEST(FoldBatchNormalization, GroupedTransposedConvolution) {
  // Weight [Cin = 2, M / group = 1, 1, 1] with group 2: output channel 1 is made from input channel 1.
  const auto graph = parse(R"(graph "g" {
    input %x: float32[1,2,4,4]
    const %w = float32[2,1,1,1] {3, 5}
    const %s = float32[2,1,1] {10, 100}
    %c = ConvTranspose(%x, %w) {group=2}
    %y = Mul(%s, %c)
    output "y" = %y
  })");
  PassContext context;
  EXPECT_EQ(fold_batch_normalization(*graph, context).value(), 1);
  EXPECT_EQ(graph->constant(std::as_const(*graph).node(NodeId{0}).inputs[1])->to_doubles(),
            (std::vector<double>{30, 500}));
}

// ---- the cut

int64_t cost_of(const std::vector<std::array<int64_t, 3>>& edges, const std::vector<bool>& side) {
  int64_t cost = 0;
  for (const auto& [from, to, capacity] : edges)
    cost += side[static_cast<size_t>(from)] && !side[static_cast<size_t>(to)] ? capacity : 0;
  return cost;
}

TEST(MinCut, IsMinimalAndGivesTheSourceTheMost) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const int vertices = 2 + static_cast<int>(random() % 7);
    MinCut cut;
    for (int k = 2; k < vertices; ++k) cut.add_vertex();
    std::vector<std::array<int64_t, 3>> edges;
    const int count = static_cast<int>(random() % 20);
    for (int k = 0; k < count; ++k) {
      const int from = static_cast<int>(random()) % vertices;
      const std::array<int64_t, 3> edge = {std::abs(from),
                                           static_cast<int64_t>(random() % static_cast<unsigned>(vertices)),
                                           static_cast<int64_t>(random() % 5)};
      if (edge[0] == edge[1]) continue;
      edges.push_back(edge);
      cut.add_edge(static_cast<int>(edge[0]), static_cast<int>(edge[1]), edge[2]);
    }
    const std::vector<bool> side = cut.solve();
    ASSERT_TRUE(side[MinCut::kSource]);
    ASSERT_FALSE(side[MinCut::kSink]);
    int64_t best = INT64_MAX;
    std::ptrdiff_t most = 0;
    for (unsigned mask = 0; mask < (1u << vertices); ++mask) {
      if ((mask & 1) == 0 || (mask & 2) != 0) continue;
      std::vector<bool> other;
      for (int k = 0; k < vertices; ++k) other.push_back((mask >> k & 1) != 0);
      const int64_t cost = cost_of(edges, other);
      const auto size = std::count(other.begin(), other.end(), true);
      if (cost < best) most = 0;
      best = std::min(best, cost);
      if (cost == best) most = std::max(most, size);
    }
    EXPECT_EQ(cost_of(edges, side), best) << "round " << round;
    EXPECT_EQ(std::count(side.begin(), side.end(), true), most) << "round " << round;
  }
}

// ---- cost

TEST(Passes, AreCheapOnLongModels) {
  std::string text =
      "graph \"g\" {\n input %x0: float32[N,16,32,32]\n const %w = float32[16,16,3,3] splat 0.1\n const %b = "
      "float32[16,1,1] iota\n";
  const int blocks = 1000;
  for (int k = 0; k < blocks; ++k) {
    text += str_cat(" %c", k, " = Conv(%x", k, ", %w) {pads=[1,1,1,1]}\n %s", k, " = Shape(%c", k, ")\n %r", k,
                    " = Reshape(%c", k, ", %s", k, ")\n %p", k, " = Add(%r", k, ", %b)\n %a", k, " = Relu(%p", k,
                    ")\n %x", k + 1, " = Add(%a", k, ", %x", k, ")\n");
  }
  text += str_cat(" output \"y\" = %x", blocks, "\n}");
  const auto graph = parse(text);
  PassContext context;
  const auto start = std::chrono::steady_clock::now();
  const Status status = run_passes(*graph, graph_pipeline(), context, {});
  ASSERT_TRUE(status.ok()) << status.message();
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  size_t transposes = 0;
  size_t nodes = 0;
  for (const NodeId id : graph->topological_order()) {
    transposes += std::as_const(*graph).node(id).op == "Transpose" ? 1 : 0;
    ++nodes;
  }
  EXPECT_EQ(transposes, 2u);
  EXPECT_EQ(nodes, 3u * blocks + 2);
  EXPECT_LT(seconds, 20) << "quadratic work?";
}

}  // namespace
}  // namespace aipu::graph
