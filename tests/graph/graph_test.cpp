#include "graph/ir/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "graph/ir/attribute_error.h"
#include "graph/ir/op_def.h"

namespace aipu::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Graph> parse(std::string_view text, const ConstantTable& table = {}) {
  auto graph = parse_graph(text, table);
  if (!graph.ok()) {
    ADD_FAILURE() << graph.status().message();
    return std::make_unique<Graph>();
  }
  return *std::move(graph);
}

constexpr std::string_view kSmall = R"(graph "small" {
  input %x: float32[N,3,8,8]
  const %w = float32[4,3,3,3] splat 0.5
  const %b = float32[4] {0, -1.5, inf, 3}
  %y: float32[N,4,6,6] = Conv(%x, %w, %b) {auto_pad="NOTSET", dilations=[1,1], group=1, kernel_shape=[3,3], layout="NCHW", pads=[0,0,0,0], strides=[1,1]} from "conv 1" ("Conv") + "pad" ("Pad")
  %"odd name": float32[N,4,6,6] = Relu(%y)
  symbol N = extent 0 of %x
  output "result" = %"odd name"
}
)";

TEST(Attributes, ReadingAWrongNameOrKindIsAnError) {
  Attributes attributes;
  attributes.set("axis", int64_t{3});
  EXPECT_EQ(attributes.i("axis"), 3);
  const auto text_of = [](const auto& read) -> std::string {
    try {
      read();
    } catch (const AttributeError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(text_of([&] { return attributes.i("axsi"); }), "there is no attribute 'axsi', it is read as int");
  EXPECT_EQ(text_of([&] { return attributes.s("axsi").size(); }), "there is no attribute 'axsi', it is read as string");
  EXPECT_EQ(text_of([&] { return attributes.f("axis"); }), "attribute 'axis' is of kind int, it is read as float");
  EXPECT_EQ(text_of([&] { return attributes.f_or("axis", 1); }),
            "attribute 'axis' is of kind int, it is read as float");
  EXPECT_EQ(text_of([&] { return attributes.shape("axis").size(); }),
            "attribute 'axis' is of kind int, it is read as dims");
}

TEST(Attributes, RulesThatReadAWrongNameNameTheOp) {
  const auto ops = std::make_shared<OpSet>();
  OpDef def;
  def.name = "my::Op";
  def.inputs = {{"x", "f"}};
  def.outputs = {{"y", "f"}};
  def.infer = [](InferContext& context) -> Status {
    context.output_types[0] = context.input(0);
    return context.attributes().i("axsi") == 0 ? Status() : unsupported("no");
  };
  ASSERT_TRUE(ops->add(std::move(def)).ok());
  Graph graph(ops);
  const ValueId x = graph.add_input("x", {DType::kF32, {2}});
  EXPECT_EQ(graph.add_node("my::Op", {}, {x}, {"y"}, {}).status().message(),
            "my::Op: there is no attribute 'axsi', it is read as int");
}

// Only optional operands may be absent, not one of a variadic list: type rules look at all of those.
TEST(GraphNodes, VariadicOperandsMayNotBeAbsent) {
  for (const std::string op : {"Max", "Mean", "Concat", "Einsum"}) {
    for (const bool first : {true, false}) {
      Graph graph;
      const ValueId x = graph.add_input("x", {DType::kF32, {2, 3}});
      Attributes attributes;
      if (op == "Concat") attributes.set("axis", int64_t{0});
      if (op == "Einsum") attributes.set("equation", std::string("ab,ab->a"));
      const std::vector<ValueId> inputs =
          first ? std::vector<ValueId>{ValueId(), x} : std::vector<ValueId>{x, ValueId()};
      const auto node = graph.add_node(op, std::move(attributes), inputs, {"y"}, {{"y", op}});
      ASSERT_FALSE(node.ok()) << op;
      EXPECT_THAT(node.status().message(), HasSubstr(first ? "input 0 '" : "input 1 '")) << op;
      EXPECT_THAT(node.status().message(), HasSubstr("is missing")) << op;
    }
  }
}

TEST(GraphText, RoundTrip) {
  const auto graph = parse(kSmall);
  EXPECT_EQ(print_graph(*graph), kSmall);
  const Status status = verify_graph(*graph);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(GraphText, RoundTripOfEveryKindOfThing) {
  constexpr std::string_view text = R"(graph "all" {
  input %c: bool[]
  input %x: float32[N,4]
  input %s: int64[2] data [$s.0,$s.1]
  const %big = int32[40] hash HASH
  const %nan = float32[1] bytes 0100c07f
  const %half = float16[2] {0.5, -0.25}
  const %u = uint64[1] {18446744073709551615}
  const %no = bool[2] {0, 1}
  %r: float32[$s.0,$s.1] = Reshape(%x, %s) {allowzero=0}
  %y: float32[N,4] = If(%c, %x, %x) with
    graph "then" scope "then." captured 1 {
      input %x: float32[N,4]
      %t: float32[N,4] = Neg(%x)
      symbol N = extent 0 of %x
      output "t" = %t
    }
    graph "else" scope "else." captured 1 {
      input %x: float32[N,4]
      %e: float32[N,4] = Abs(%x)
      symbol N = extent 0 of %x
      output "e" = %e
    }
  %v: float32[$s.0,2], _ = TopK(%r) {axis=1, k=dims[2], largest=1, sorted=1}
  symbol N = extent 0 of %x
  symbol $s.0 = element 0 of %s
  symbol $s.1 = element 1 of %s
  output "y" = %y
  output "again" = %y
  output "v" = %v
}
)";
  std::vector<int32_t> numbers(40);
  for (size_t k = 0; k < numbers.size(); ++k) numbers[k] = static_cast<int32_t>(k);
  const ConstantPtr big = Constant::of<int32_t>(DType::kI32, {40}, numbers);
  std::string full(text);
  full.replace(full.find("HASH"), 4, big->hash().hex());
  ConstantTable table;
  table.by_hash[big->hash().hex()] = big;
  const auto graph = parse(full, table);
  EXPECT_EQ(print_graph(*graph), full);
  EXPECT_EQ(collect_constants(*graph).by_hash.size(), 5u);
  const Status status = verify_graph(*graph);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(GraphText, ErrorsNameTheLine) {
  const auto error = [](std::string_view text) { return parse_graph(text, {}).status().message(); };
  EXPECT_THAT(error("graph \"g\" {\n %y = Relu(%x)\n}"), HasSubstr("line 2: %x is not defined above"));
  EXPECT_THAT(error("graph \"g\" {\n input %x: float32[2]\n %y = Nope(%x)\n}"), HasSubstr("Nope: no such op"));
  EXPECT_THAT(error("graph \"g\" {\n input %x: float32[2]\n %y = Relu(%x) {color=1}\n}"),
              HasSubstr("Relu: has no attribute 'color'"));
  EXPECT_THAT(error("graph \"g\" {\n const %x = float32[1000000,1000000] splat 1\n}"), HasSubstr("too large"));
  EXPECT_THAT(error("graph \"g\" {\n const %x = int8[1] {200}\n}"), HasSubstr("does not fit int8"));
  EXPECT_THAT(error("graph \"g\" {\n const %x = float32[2] hash 00\n}"), HasSubstr("no constant with hash"));
}

TEST(GraphText, ConstantsTooLargeToWriteOutGoByHash) {
  Graph graph;
  const std::vector<std::byte> zeros((size_t{1} << 28) + 4);
  graph.add_output(graph.add_constant(Constant::borrow(DType::kF32, {(1 << 26) + 1}, zeros, nullptr)), "c");
  const std::string text = print_graph(graph);
  EXPECT_THAT(text, HasSubstr("hash"));
  auto again = parse_graph(text, collect_constants(graph));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(print_graph(**again), text);
}

TEST(GraphText, DamagedTextNeverCrashes) {
  std::mt19937_64 random(3);
  for (int k = 0; k < 3000; ++k) {
    std::string text(kSmall);
    const int edits = 1 + static_cast<int>(random() % 3);
    for (int e = 0; e < edits; ++e) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text.erase(at, 1 + random() % 8);
          break;
        case 1:
          text[at] = static_cast<char>(random() % 256);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), 6));
          break;
      }
      if (text.empty()) text = "g";
    }
    if (auto graph = parse_graph(text, {}); graph.ok()) {
      (void)verify_graph(**graph);
      EXPECT_FALSE(print_graph(**graph).empty());
    }
  }
}

TEST(Graph, UsersFollowRewrites) {
  const auto graph = parse(
      R"(graph "g" { input %x: float32[4]  %a = Relu(%x)  %b = Add(%a, %a)  %c = Neg(%a)  output "b" = %b  output "c" = %c })");
  const ValueId x = graph->inputs()[0];
  const ValueId a = graph->node(NodeId{0}).outputs[0];
  EXPECT_THAT(graph->users(a), ElementsAre(NodeId{1}, NodeId{2}));
  graph->node(NodeId{2}).inputs[0] = x;  // through a reference
  EXPECT_THAT(graph->users(a), ElementsAre(NodeId{1}));
  EXPECT_THAT(graph->users(x), ElementsAre(NodeId{0}, NodeId{2}));
  ASSERT_TRUE(graph->replace_uses(a, x).ok());
  EXPECT_TRUE(graph->users(a).empty());
  EXPECT_EQ(graph->erase_dead_nodes(), 1u);
  EXPECT_TRUE(graph->value(a).erased);
  EXPECT_TRUE(verify_graph(*graph).ok());
}

TEST(Graph, ReferenceKeptTooLongIsFound) {
  const auto graph = parse(R"(graph "g" { input %x: float32[4]  %a = Relu(%x)  %b = Neg(%a)  output "b" = %b })");
  Node& node = graph->node(NodeId{1});
  (void)graph->users(graph->inputs()[0]);
  node.inputs[0] = graph->inputs()[0];
  EXPECT_THAT(verify_graph(*graph).message(), HasSubstr("set_input"));
}

TEST(Graph, ConstantsWithEqualContentAreOne) {
  Graph graph;
  const ValueId a = graph.add_constant(Constant::int64s({1, 2}), "a");
  EXPECT_EQ(graph.add_constant(Constant::int64s({1, 2}), "b"), a);
  EXPECT_NE(graph.add_constant(Constant::int64s({1, 3}), "b"), a);
  EXPECT_NE(graph.add_constant(Constant::of<int64_t>(DType::kI64, {2, 1}, std::vector<int64_t>{1, 2}), "b"), a);
  EXPECT_EQ(Constant::create(DType::kF32, {2}, std::vector<std::byte>(7)), nullptr);
  EXPECT_EQ(Constant::create(DType::kF32, {INT64_MAX, INT64_MAX}, {}), nullptr);
}

TEST(Constant, DeferredBytesAreMadeOnceAndInPieces) {
  int calls = 0;
  const auto fill = [&](int64_t first, std::span<std::byte> out) {
    ++calls;
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(first * 2 + static_cast<int64_t>(i));
  };
  const auto constant = Constant::deferred(DType::kU8, {3, 2}, {1, 2}, 3, fill);
  ASSERT_NE(constant, nullptr);
  EXPECT_TRUE(constant->is_deferred());
  EXPECT_EQ(constant->byte_count(), 6u);
  EXPECT_EQ(constant->piece_bytes(), 2u);
  constant->hash();
  EXPECT_EQ(calls, 0);
  std::byte last[4];
  constant->copy_bytes(2, last);
  EXPECT_EQ(last[0], std::byte{2});
  EXPECT_EQ(last[3], std::byte{5});
  EXPECT_EQ(constant->to_int64s(), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(constant->bytes().size(), 6u);
  EXPECT_EQ(calls, 2);
}

TEST(Constant, DeferredOnesAreToldApartByRecipeDTypeAndShape) {
  const auto nothing = [](int64_t, std::span<std::byte>) {};
  const auto hash = [&](DType dtype, std::vector<int64_t> shape, Hash128 recipe) {
    return Constant::deferred(dtype, shape, recipe, 1, nothing)->hash();
  };
  const Hash128 usual = hash(DType::kF32, {4}, {1, 2});
  EXPECT_EQ(usual, hash(DType::kF32, {4}, {1, 2}));
  EXPECT_NE(usual, hash(DType::kF32, {4}, {1, 3}));
  EXPECT_NE(usual, hash(DType::kF32, {2, 2}, {1, 2}));
  EXPECT_NE(usual, hash(DType::kI32, {4}, {1, 2}));
  // Not the hash of bytes, even where the recipe is one.
  const auto given = Constant::of<float>(DType::kF32, {1}, std::vector<float>{1});
  EXPECT_NE(hash(DType::kF32, {1}, hash_bytes(given->bytes())), given->hash());
  EXPECT_EQ(Constant::deferred(DType::kU8, {7}, {}, 2, nothing), nullptr);
  EXPECT_EQ(Constant::deferred(DType::kU8, {7}, {}, 0, nothing), nullptr);
  EXPECT_EQ(Constant::deferred(DType::kU8, {-1}, {}, 1, nothing), nullptr);
}

TEST(Graph, RunSymbolsOrderAndKeepTheirTensor) {
  // The shape tensor is made after %x in id order and is an operand of nothing once the Reshape is resolved.
  const auto graph = parse(R"(graph "g" {
    input %x: float32[12]
    input %n: int64[2]
    %m = Abs(%n)
    %y = Reshape(%x, %m)
    output "y" = %y
  })");
  const OpDef* def = find_op("Reshape");
  ASSERT_NE(def, nullptr);
  ASSERT_TRUE(def->resolve(*graph, NodeId{1}).ok());
  EXPECT_EQ(graph->node(NodeId{1}).inputs.size(), 1u);
  EXPECT_EQ(graph->erase_dead_nodes(), 0u);
  EXPECT_THAT(graph->topological_order(), ElementsAre(NodeId{0}, NodeId{1}));
  EXPECT_EQ(graph->symbol_tensors(NodeId{1}).size(), 1u);
  // With the elements known the symbols are substituted and the tensor may go.
  const ValueId m = graph->node(NodeId{0}).outputs[0];
  ASSERT_TRUE(graph->replace_uses(m, graph->add_constant(Constant::int64s({3, 4}))).ok());
  EXPECT_EQ(graph->type(graph->node(NodeId{1}).outputs[0]).text(), "float32[3,4]");
  EXPECT_EQ(graph->erase_dead_nodes(), 1u);
  EXPECT_TRUE(graph->symbols().empty());
  EXPECT_TRUE(verify_graph(*graph).ok());
}

TEST(Graph, SubstitutionReachesTypesDataAndSubgraphs) {
  const auto graph = parse(
      R"(graph "g" { input %x: float32[N,2]  %s = Shape(%x)  %y = Reshape(%x) {shape=dims[2*N]}  output "s" = %s  output "y" = %y })");
  graph->substitute_symbols([](const std::string& name) { return name == "N" ? std::optional<Dim>(5) : std::nullopt; });
  EXPECT_EQ(graph->type(graph->inputs()[0]).text(), "float32[5,2]");
  EXPECT_EQ(graph->node(NodeId{1}).attributes.shape("shape"), Shape{10});
  EXPECT_EQ(graph->known_data(graph->outputs()[0].value), (std::vector<Dim>{5, 2}));
  EXPECT_TRUE(graph->symbols().empty());
  EXPECT_TRUE(verify_graph(*graph).ok());
}

TEST(Graph, AddNodeReportsSchemaErrors) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {4}});
  const ValueId i = graph.add_input("i", {DType::kI64, {4}});
  const auto message = [&](std::string op, std::vector<ValueId> inputs) {
    return graph.add_node(std::move(op), {}, std::move(inputs), {"y"}, {}).status().message();
  };
  EXPECT_THAT(message("Relu", {}), HasSubstr("Relu: input 0 'X' is missing"));
  EXPECT_THAT(message("Relu", {x, x}), HasSubstr("Relu: takes at most 1 inputs, found 2"));
  EXPECT_THAT(message("Exp", {i}), HasSubstr("Exp: input 0 'X' may not be int64"));
  EXPECT_THAT(message("Concat", {x}), HasSubstr("attribute 'axis' is missing"));
  EXPECT_EQ(graph.node_count(), 0u);
}

TEST(Verify, FindsWrongTypesAndCycles) {
  const auto wrong =
      parse(R"(graph "g" { input %x: float32[4]  %y: float32[5] = Relu(%x) from "act" (Relu)  output "y" = %y })");
  EXPECT_THAT(verify_graph(*wrong).message(),
              HasSubstr("node 'act' (Relu): Relu: output 0 %y is typed float32[5], its op yields float32[4]"));
  const auto cycle = parse(R"(graph "g" { input %x: float32[4]  %a = Relu(%x)  %b = Neg(%a)  output "b" = %b })");
  cycle->set_input(NodeId{0}, 0, cycle->node(NodeId{1}).outputs[0]);
  EXPECT_THAT(verify_graph(*cycle).message(), HasSubstr("cycle"));
}

TEST(Broadcast, SymbolicExtents) {
  const Dim n = Dim::symbol("N");
  const Dim m = Dim::symbol("M");
  const auto of = [](std::vector<Shape> shapes) { return broadcast_shapes(shapes); };
  EXPECT_EQ(*of({{n, 1}, {3}}), (Shape{n, 3}));
  EXPECT_EQ(*of({{n}, {n}}), (Shape{n}));
  EXPECT_EQ(*of({{n}, {4}}), (Shape{4}));
  const Dim both = select(min(n, m), max(n, m), 0);
  EXPECT_EQ(*of({{n}, {m}}), (Shape{both}));
  EXPECT_EQ(*of({{n}, {m}, {n}, {1}, {m}}), (Shape{both}));
  EXPECT_FALSE(of({{2}, {3}}).ok());
  EXPECT_TRUE(of({{0}, {1}}).value()[0] == Dim(0));
}

// In any order, and as many as people read: thousands of nodes may become one.
TEST(Origins, AreMergedAndBounded) {
  OriginSet some = {{"b", "Add"}, {"d", "Add"}};
  merge_origins(&some, {{"a", "Relu"}, {"b", "Add"}, {"c", "Mul"}});
  EXPECT_EQ(origins_text(some), "'a' (Relu) + 'b' (Add) + 'c' (Mul) + 'd' (Add)");
  OriginSet up, down;
  for (int k = 0; k < 500; ++k) {
    merge_origins(&up, {{str_cat("n", k), "Add"}});
    merge_origins(&down, {{str_cat("n", 499 - k), "Add"}});
  }
  EXPECT_EQ(up.size(), kMaxOrigins);
  EXPECT_EQ(up, down);
}

// Outputs and the symbols that are elements of a value follow it.
TEST(Graph, OutputsFollowReplacements) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {Dim(2)}});
  const ValueId a = *graph.emit("Neg", {}, {x}, {});
  const ValueId b = *graph.emit("Abs", {}, {x}, {});
  graph.add_output(a, "first");
  EXPECT_EQ(graph.user_count(a), 1u);
  graph.add_output(a, "second");
  EXPECT_EQ(graph.user_count(a), 2u);
  EXPECT_FALSE(graph.is_graph_output(b));
  ASSERT_TRUE(graph.replace_uses(a, b).ok());
  EXPECT_FALSE(graph.is_graph_output(a));
  EXPECT_EQ(graph.user_count(b), 2u);
  graph.mutable_outputs()[0].value = x;
  EXPECT_EQ(graph.user_count(b), 1u);
  EXPECT_TRUE(graph.is_graph_output(x));
}

}  // namespace
}  // namespace aipu::graph
