// Op records: one OpDef per canonical op says everything the graph knows about it. Printer, parser, verifier, importer,
// support table and fuzzer read the record. Records are registered by an explicit list, graph/ops/op_list.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/axis_map.h"
#include "graph/ir/graph.h"

namespace aipu::graph {

enum class AttributeKind : uint8_t { kInt, kFloat, kString, kDType, kInts, kFloats, kStrings, kShape, kConstant };

// What an attribute has to do with the axes of input 0.
enum class AttributeAxes : uint8_t {
  kNone,
  kAxis,     // it is one: an int
  kAxes,     // a sorted list of them
  kPerAxis,  // an element for each axis: ints or a shape
  kPerEnd,   // an element for the beginning of each axis, then one for the end of each: a shape
  kViewAs,   // of kView: the output's shape
};

struct AttributeDef {
  std::string name;
  AttributeKind kind;
  bool required = false;
  std::optional<AttributeValue> default_value;  // neither required nor default: optional
  AttributeAxes axes = AttributeAxes::kNone;
  bool own = false;  // the graph's only: no model has it, an importer or a pass sets it
};

struct OperandDef {
  std::string name;
  std::string types;  // letters: b bool, i signed, u unsigned, f float, q stored only; "*" any. E.g. "iuf"
  bool optional = false;
  bool variadic = false;  // the last operand only
};

// What a type rule sees and fills.
class InferContext {
 public:
  InferContext(Graph& graph, const Node& node)
      : output_types(node.outputs.size()), output_data(node.outputs.size()), graph_(graph), node_(node) {}

  const Node& node() const { return node_; }
  const Attributes& attributes() const { return node_.attributes; }
  Graph& graph() { return graph_; }
  bool has_input(size_t i) const { return i < node_.inputs.size() && node_.inputs[i].valid(); }
  const TensorType& input(size_t i) const { return graph_.type(node_.inputs[i]); }
  // Elements of input i if known / made known with run symbols.
  std::optional<std::vector<Dim>> known_data(size_t i) const { return graph_.known_data(node_.inputs[i]); }
  std::optional<std::vector<Dim>> require_data(size_t i) { return graph_.require_data(node_.inputs[i]); }
  // The elements of integer output i: what is known of them, and run symbols for what only the node itself finds out.
  // For the end of a type rule: nothing may fail behind it.
  std::vector<Dim> own_data(size_t i, const std::vector<std::optional<Dim>>& known);

  std::vector<TensorType> output_types;
  std::vector<std::optional<std::vector<Dim>>> output_data;

 private:
  Graph& graph_;
  const Node& node_;
};

enum OpTrait : uint32_t {
  kElementwise = 1u << 0,  // output element i depends on element i of the (multidirectionally broadcast) inputs only
  kCommutative = 1u << 1,
  kView = 1u << 2,         // the output has the same bytes as input 0 in C order (Reshape, Squeeze, Identity, ...)
  kNotFoldable = 1u << 3,  // random, or has effects: never folded nor merged
  // Some values of its operands have no result, such as an index outside of an axis (of elementwise ops: integers
  // only): the run ends with an error. May have the attribute kNeeded.
  kFaults = 1u << 5,
  kSpatial = 1u << 4,  // has a `layout` attribute; input 0 and output 0 are [N,C,spatial...] or [N,spatial...,C]
  // The axes of input 0 may stand in any order as long as the outputs' and the attributes' (AttributeAxes) follow: no
  // axis has its part in the computation by its place.
  kAnyAxisOrder = 1u << 6,
  // Output 0 sums products of elements of inputs 0 and 1. Of bfloat16 they are summed in float32.
  kSumsProducts = 1u << 7,
  // Floats of 16 bits are computed with in float32 and rounded where they are stored, as elementwise ops do.
  kFloatInside = 1u << 8,
  // Where a layer beside it reads a value rounded to few bits, it may read the same: its result loses no more by that
  // than by being rounded itself. What only moves elements, sums, gates, pooling, activations that are nowhere steep;
  // nothing that subtracts what is alike, such as the parts of a normalisation. Of the operands that have elements of
  // the type of input 0's.
  kTakesRounded = 1u << 9,
  // The library of texts or of images computes it (ops/text.h), by a command of the host.
  kOfTexts = 1u << 10,
  kOfImages = 1u << 11,
};

// nullopt: not known before shape-like operands have become attributes (OpDef::resolve).
using AxisRule = std::function<std::optional<AxisMap>(const Graph&, const Node&)>;
// Multiply-adds of one execution.
using WorkRule = std::function<Dim(const Graph&, const Node&)>;

// An elementwise op's value as a function of a Compass DSL file: of vectors, one per operand (bool as a mask, 16-bit
// floats as float32). It is all that fused expressions need, so the op is a part of them as ours are.
struct ValueFunction {
  std::string file, text;  // as errors name the file, and what stands in it
  std::string name;        // of a function at its top level
  // What each of its parameters gets: an operand, None (where the operand is absent), a list of operands, or a number.
  struct Absent {};
  using Argument = std::variant<Absent, size_t, std::vector<size_t>, AttributeValue>;
  std::vector<Argument> arguments;
  // What names of the file stand for in this node: attributes, and element types as text.
  std::vector<std::pair<std::string, AttributeValue>> constants;
  std::vector<std::string> lanes;  // names that stand for the number of lanes
};
using ValueRule = std::function<Result<ValueFunction>(const Graph&, const Node&)>;

// The attribute (one Dim) of a node that is computed although the model might not: one from a branch that became part
// of the graph around it. Where the Dim is 0 its results are not used, and it is no error if it has none.
constexpr std::string_view kNeeded = "needed";
Dim needed(const Node& node);  // 1 for most
bool may_fault(const Graph& graph, const Node& node);

struct OpDef {
  std::string name;
  std::vector<OperandDef> inputs;
  std::vector<OperandDef> outputs;
  std::vector<AttributeDef> attributes;
  uint32_t traits = 0;
  std::function<Status(InferContext&)> infer;
  std::function<Status(const Graph&, const Node&)> verify = nullptr;  // beyond the schema
  // Brings attributes to their normal form where that depends on the inputs' types: negative axes become positive,
  // absent strides, pads, kernel_shape appear, auto_pad becomes explicit pads. check_node_schema calls it after the
  // fixed defaults; doing it twice changes nothing.
  std::function<Status(const Graph&, Node*)> complete = nullptr;
  // Moves shape-like operands whose elements are known (or made known with run symbols) into attributes and makes them
  // absent; see graph/ops/shape_operands.h. Null: the op has none.
  std::function<Status(Graph&, NodeId)> resolve = nullptr;
  // How the axes behave. Null: nothing is known. Elementwise ops need none.
  AxisRule axes = nullptr;
  // Null: none, as far as profiles are concerned.
  WorkRule multiply_adds = nullptr;
  // Of an op of a plugin's with kElementwise and one output. Null: a plugin sets it up.
  ValueRule value = nullptr;
};

// Whether input i may be rounded where something beside it reads it so (kTakesRounded).
bool takes_rounded(const OpDef& def, size_t i);

// The axis map of a node, which must be complete; nullopt: nothing is known.
std::optional<AxisMap> axis_map(const OpDef& def, const Graph& graph, const Node& node);

// The built-in ops.
const OpDef* find_op(std::string_view name);
std::vector<const OpDef*> all_ops();

// The built-in ops and, over them, those of one build's plugins. What is found stays valid as long as the set.
class OpSet {
 public:
  const OpDef* find(std::string_view name) const;
  const OpDef* find_own(std::string_view name) const;  // of those that were added
  // An error when the name is taken.
  Status add(OpDef def);

 private:
  std::map<std::string, std::unique_ptr<const OpDef>, std::less<>> own_;
};

// Fills defaults, completes attributes and checks names, kinds, operand counts and dtypes. The message starts with the
// op's name.
Status check_node_schema(const OpDef& def, const Graph& graph, Node* node);
// The same for a node that must be complete already.
Status check_complete_node(const OpDef& def, const Graph& graph, const Node& node);

// NumPy/ONNX multidirectional broadcasting of symbolic shapes. Two different symbols facing each other are assumed
// equal only if one is constant 1; otherwise the result is max(a, b), or 0 if one is 0, and the runtime checks it.
Result<Shape> broadcast_shapes(std::span<const Shape> shapes);

}  // namespace aipu::graph
