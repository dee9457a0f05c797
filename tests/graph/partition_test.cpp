#include "graph/partition/claim.h"
#include "graph/partition/crossings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

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

class Fake : public Claimer {
 public:
  using Function = std::function<ClaimResult(const Graph&, NodeId)>;
  Fake(std::string name, Function function) : name_(std::move(name)), function_(std::move(function)) {}
  std::string_view name() const override { return name_; }
  ClaimResult claim(const Graph& graph, NodeId anchor, const ClaimTarget&) const override {
    return function_(graph, anchor);
  }

 private:
  std::string name_;
  Function function_;
};

// Claims `op` and the chain of nodes behind it, following the first user, up to `reach` nodes.
Fake chain(std::string name, std::string op, int score, size_t reach) {
  return {std::move(name), [op = std::move(op), score, reach](const Graph& graph, NodeId anchor) -> ClaimResult {
            if (op != "*" && graph.node(anchor).op != op) return std::nullopt;
            Claim claim{anchor, {anchor}, score};
            while (claim.nodes.size() < reach) {
              const auto users = graph.users(graph.node(claim.nodes.back()).outputs[0]);
              if (users.empty()) break;
              claim.nodes.push_back(users[0]);
            }
            return claim;
          }};
}

std::string text_of(const Graph& graph, const std::vector<Group>& groups) {
  std::string text;
  for (const Group& group : groups) {
    text += str_cat(text.empty() ? "" : " | ", group.owner->name(), ":");
    for (const NodeId id : group.nodes) text += str_cat(' ', graph.value(graph.node(id).outputs[0]).name);
  }
  return text;
}

Result<std::vector<Group>> run(const Graph& graph, const std::vector<const Claimer*>& claimers) {
  return partition(graph, claimers, {"host"});
}

constexpr std::string_view kChain = R"(graph "g" {
  input %x: float32[4]
  const %k = float32[4] iota
  %a = Exp(%x)
  %b = Add(%a, %k)
  %c = Neg(%b)
  output "c" = %c
})";

// Whatever the scores, and also from the middle of what others would take.
TEST(Partition, PreferredClaimersGetWhatTheyWant) {
  const auto graph = parse(kChain);
  const Fake ours = chain("ours", "*", 100, 3);
  const Fake theirs = chain("theirs", "Add", 1, 1);
  const Fake nothing = chain("nothing", "Conv", 1, 1);
  const Claimer* const claimers[] = {&ours};
  const Claimer* const preferred[] = {&nothing, &theirs};
  const auto without = partition(*graph, claimers, {"host"});
  ASSERT_TRUE(without.ok()) << without.status().message();
  EXPECT_EQ(text_of(*graph, *without), "ours: a b c");
  const auto groups = partition(*graph, claimers, {"host"}, preferred);
  ASSERT_TRUE(groups.ok()) << groups.status().message();
  EXPECT_EQ(text_of(*graph, *groups), "ours: a | theirs: b | ours: c");
}

std::string targets_of(const Graph& graph, const std::vector<Group>& groups) {
  std::string text;
  for (const Group& group : groups) {
    text += str_cat(text.empty() ? "" : " | ", group.target, ":");
    for (const NodeId id : group.nodes) text += str_cat(' ', graph.value(graph.node(id).outputs[0]).name);
  }
  return text;
}

// What the first target refuses loses nodes from its end, and goes to the next one if nothing is left.
TEST(Partition, TargetsGetWhatTheyAccept) {
  const auto graph = parse(kChain);
  const Fake all = chain("all", "*", 1, 9);
  const Claimer* const claimers[] = {&all};
  PartitionTarget targets[] = {{{"npu"}}, {{"host"}}};
  const auto groups_for = [&](std::string_view refused) {
    targets[0].accepts = [&graph, refused](const Group& group) -> Status {
      for (const NodeId id : group.nodes) {
        if (graph->value(graph->node(id).outputs[0]).name == refused) return unsupported("not this one");
      }
      EXPECT_EQ(group.outputs.size(), 1u);
      return {};
    };
    const auto groups = partition_for_targets(*graph, claimers, targets);
    return groups.ok() ? targets_of(*graph, *groups) : groups.status().message();
  };
  EXPECT_EQ(groups_for("none"), "0: a b c");
  EXPECT_EQ(groups_for("c"), "0: a b | 1: c");
  EXPECT_EQ(groups_for("b"), "0: a | 1: b | 0: c");
  targets[0].left_to_others = {graph->value(graph->outputs()[0].value).producer};
  EXPECT_EQ(groups_for("b"), "0: a | 1: b c");
  const auto alone = partition_for_targets(*graph, claimers, std::span(targets).first(1));
  ASSERT_FALSE(alone.ok());
  EXPECT_THAT(alone.status().message(), HasSubstr("all: not this one"));
}

// A chain of cheap nodes between two of the other target's goes along, if less crosses that way.
TEST(Partition, CheapNodesMoveWhereLessCrosses) {
  const auto graph = parse(R"(graph "g" {
  input %x: float32[64,64]
  const %w = float32[64,64] iota
  %a = MatMul(%x, %w)
  %b = Exp(%a)
  %c = Neg(%b)
  %d = Abs(%c)
  %e = Exp(%d)
  %f = Neg(%e)
  %g = MatMul(%f, %w)
  output "g" = %g
})");
  const Fake one = chain("one", "*", 1, 1);
  const Claimer* const claimers[] = {&one};
  PartitionTarget targets[] = {{{"npu"}}, {{"host"}}};
  targets[0].accepts = [&](const Group& group) {
    return graph->node(group.anchor).op == "Exp" ? unsupported("no exponentials") : Status();
  };
  auto groups = partition_for_targets(*graph, claimers, targets);
  ASSERT_TRUE(groups.ok()) << groups.status().message();
  EXPECT_EQ(targets_of(*graph, *groups), "0: a | 1: b | 0: c | 0: d | 1: e | 0: f | 0: g");
  EXPECT_EQ(find_crossings(*graph, *groups, false).size(), 4u);
  const std::vector<NodeId> moved = nodes_to_move(*graph, *groups, false);
  targets[0].left_to_others = {moved.begin(), moved.end()};
  groups = partition_for_targets(*graph, claimers, targets);
  ASSERT_TRUE(groups.ok()) << groups.status().message();
  EXPECT_EQ(targets_of(*graph, *groups), "0: a | 1: b | 1: c | 1: d | 1: e | 0: f | 0: g");
  const auto crossings = find_crossings(*graph, *groups, false);
  ASSERT_EQ(crossings.size(), 2u);
  EXPECT_EQ(crossings[0].to, 1u);
  EXPECT_EQ(crossings[1].to, 0u);
  EXPECT_EQ(crossing_cost(*graph, crossings[0].value), kCrossingStartBytes + 64 * 64 * 4);
  // In a body the input is on the device, and so is the output.
  EXPECT_EQ(find_crossings(*graph, *groups, true).size(), 2u);
}

TEST(Partition, BestScoreWinsAndTiesGoToTheFirst) {
  const auto graph = parse(kChain);
  const Fake low = chain("low", "*", 1, 1);
  const Fake high = chain("high", "Add", 5, 1);
  const Fake same = chain("same", "*", 1, 1);
  auto groups = run(*graph, {&low, &same, &high});
  ASSERT_TRUE(groups.ok()) << groups.status().message();
  EXPECT_EQ(text_of(*graph, *groups), "low: a | high: b | low: c");
}

TEST(Partition, GroupsHaveTheirBoundary) {
  const auto graph = parse(kChain);
  const Fake all = chain("all", "*", 1, 9);
  auto groups = run(*graph, {&all});
  ASSERT_TRUE(groups.ok()) << groups.status().message();
  EXPECT_EQ(text_of(*graph, *groups), "all: a b c");
  const Group& group = groups->front();
  ASSERT_EQ(group.inputs.size(), 2u);
  EXPECT_EQ(group.inputs[0], graph->inputs()[0]);
  EXPECT_NE(graph->constant(group.inputs[1]), nullptr);
  ASSERT_EQ(group.outputs.size(), 1u);
  EXPECT_EQ(group.outputs[0], graph->outputs()[0].value);
}

TEST(Partition, InnerValueUsedOutsideCutsTheClaim) {
  const auto graph = parse(R"(graph "g" {
    input %x: float32[4]
    %a = Exp(%x)
    %b = Relu(%a)
    %c = Neg(%b)
    output "b" = %b
    output "c" = %c
  })");
  const Fake all = chain("all", "*", 1, 9);
  auto groups = run(*graph, {&all});
  ASSERT_TRUE(groups.ok()) << groups.status().message();
  EXPECT_EQ(text_of(*graph, *groups), "all: a b | all: c");
}

TEST(Partition, PathThroughAnotherGroupCutsTheClaim) {
  // {a, d} would need c, which needs a.
  const auto graph = parse(R"(graph "g" {
    input %x: float32[4]
    %a, %b = Split(%x) {num_outputs=2}
    %c = Exp(%a)
    %d = Add(%b, %c)
    output "d" = %d
  })");
  const Fake greedy("greedy", [](const Graph& g, NodeId anchor) -> ClaimResult {
    if (g.node(anchor).op == "Split") return Claim{anchor, {anchor, NodeId{2}}, 1};
    return Claim{anchor, {anchor}, 1};
  });
  auto groups = run(*graph, {&greedy});
  ASSERT_TRUE(groups.ok()) << groups.status().message();
  EXPECT_EQ(text_of(*graph, *groups), "greedy: a | greedy: c | greedy: d");
}

TEST(Partition, TwoGroupsMayNotNeedEachOther) {
  // {a1, a2} alone and {b1, b2} alone are convex; together each would wait for the other.
  const auto graph = parse(R"(graph "g" {
    input %x: float32[4]
    input %y: float32[4]
    %a1 = Exp(%x)
    %b1 = Exp(%y)
    %a2 = Add(%b1, %a1)
    %b2 = Sub(%a1, %b1)
    output "a" = %a2
    output "b" = %b2
  })");
  const Fake pairs("pairs", [](const Graph&, NodeId anchor) -> ClaimResult {
    if (anchor.index < 2) return Claim{anchor, {anchor, NodeId{anchor.index + 2}}, 1};
    return Claim{anchor, {anchor}, 1};
  });
  auto groups = run(*graph, {&pairs});
  ASSERT_TRUE(groups.ok()) << groups.status().message();
  EXPECT_EQ(groups->size(), 4u);
}

TEST(Partition, SecondOfTwoProducersTakesTheJoin) {
  // What the first convolution may not take (its sum waits for the second, which is fine) belongs to one of them only.
  const auto graph = parse(R"(graph "g" {
    input %x: float32[4]
    %a = Exp(%x)
    %b = Log(%x)
    %s = Add(%a, %b)
    %r = Relu(%s)
    output "r" = %r
  })");
  const Fake all = chain("all", "*", 1, 9);
  auto groups = run(*graph, {&all});
  ASSERT_TRUE(groups.ok()) << groups.status().message();
  // b is claimed alone, and runs before the group that needs it
  EXPECT_EQ(text_of(*graph, *groups), "all: b | all: a s r");
}

TEST(Partition, DequantizedSumIsThereForTheProduct) {
  // Whichever operand of the sum it is, and however early: the product is asked first.
  const auto graph = parse(R"(graph "g" {
    input %x: float32[4]
    input %y: uint8[4]
    const %scale = float32[] {0.5}
    %d = DequantizeLinear(%y, %scale)
    %a = Exp(%x)
    %s = Add(%d, %a)
    %q = Relu(%s)
    output "q" = %q
  })");
  const Fake all("all", [](const Graph& g, NodeId anchor) -> ClaimResult {
    const std::string& op = g.node(anchor).op;
    if (op == "Exp") return Claim{anchor, {anchor, NodeId{0}, NodeId{2}, NodeId{3}}, 1};
    if (op == "DequantizeLinear") return Claim{anchor, {anchor, NodeId{2}, NodeId{3}}, 1};
    return Claim{anchor, {anchor}, 1};
  });
  auto groups = run(*graph, {&all});
  ASSERT_TRUE(groups.ok()) << groups.status().message();
  EXPECT_EQ(text_of(*graph, *groups), "all: a d s q");
}

TEST(Partition, RunSymbolsAreDependencies) {
  const auto graph = parse(R"(graph "g" {
    input %n: int64[2]
    input %x: float32[12]
    %m: int64[2] data [$m.0,$m.1] = Abs(%n)
    %a = Exp(%x)
    %y: float32[$m.0,$m.1] = Reshape(%a) {shape=dims[$m.0,$m.1]}
    %z = Neg(%m)
    symbol $m.0 = element 0 of %m
    symbol $m.1 = element 1 of %m
    output "y" = %y
    output "z" = %z
  })");
  const Fake all = chain("all", "*", 1, 9);
  auto groups = run(*graph, {&all});
  ASSERT_TRUE(groups.ok()) << groups.status().message();
  // m is bound to symbols, so it leaves its group and may not be fused into z; y waits for it.
  EXPECT_EQ(text_of(*graph, *groups), "all: m | all: a y | all: z");
  EXPECT_EQ(groups->front().outputs.size(), 1u);
}

TEST(Partition, UnclaimedNodesAreReportedTogether) {
  const auto graph = parse(R"(graph "g" {
    input %x: float32[4]
    %a = Exp(%x) from "first" (Exp)
    %b = Exp(%a) from "second" (Exp)
    %c = Neg(%b) from "third" (Neg)
    output "c" = %c
  })");
  const Fake picky("picky", [](const Graph& g, NodeId anchor) -> ClaimResult {
    if (g.node(anchor).op == "Exp") return unsupported("float32 is not supported");
    return std::nullopt;
  });
  EXPECT_EQ(run(*graph, {&picky}).status().message(),
            "no kernel for 3 nodes: Exp (2 nodes, first node 'first' (Exp); picky: float32 is not supported); Neg (1 "
            "node, node 'third' (Neg)); "
            "a plugin may claim what is missing (--plugin FILE; plugins=[FILE] in Python)");
}

TEST(Partition, WrongClaimsAreErrors) {
  const auto graph = parse(kChain);
  const Fake other("other", [](const Graph&, NodeId) { return Claim{NodeId{0}, {NodeId{0}}, 1}; });
  EXPECT_THAT(run(*graph, {&other}).status().message(), HasSubstr("claimed nodes without the anchor"));
}

TEST(Partition, OnlyWhatIsUnsupportedIsLeftToOthers) {
  const auto graph = parse(kChain);
  const Fake broken("broken", [](const Graph&, NodeId) -> ClaimResult { return internal_error("no idea"); });
  const Fake all = chain("all", "*", 1, 1);
  const Status status = run(*graph, {&broken, &all}).status();
  EXPECT_EQ(status.code(), ErrorCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("plugin broken: no idea"));
}

TEST(Partition, AttributesThatAreNotThereAreErrors) {
  const auto graph = parse(kChain);
  const Fake typo("typo", [](const Graph& g, NodeId anchor) -> ClaimResult {
    return Claim{anchor, {anchor}, static_cast<int>(g.node(anchor).attributes.i("axsi"))};
  });
  EXPECT_THAT(run(*graph, {&typo}).status().message(),
              HasSubstr("plugin typo: there is no attribute 'axsi', it is read as int"));
}

TEST(Partition, LongModelsTakeNoTime) {
  std::string text = "graph \"g\" {\n input %x0: float32[4]\n";
  for (int k = 0; k < 5000; ++k) text += str_cat(" %x", k + 1, " = Neg(%x", k, ")\n");
  text += " output \"y\" = %x5000\n}";
  const auto graph = parse(text);
  const Fake triples = chain("triples", "*", 1, 3);
  const auto start = std::chrono::steady_clock::now();
  auto groups = run(*graph, {&triples});
  ASSERT_TRUE(groups.ok()) << groups.status().message();
  EXPECT_EQ(groups->size(), 1667u);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 5);
}

}  // namespace
}  // namespace aipu::graph
