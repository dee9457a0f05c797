// Graph IR: a mutable, indexed, SSA data-flow graph of canonical ONNX ops (semantics of opset 21) over symbolic shapes.
//
//  - Nodes and values live in vectors and are addressed by strong ids that stay valid through every rewrite; erased
//    ones leave tombstones. Node order in topological_order() is a valid execution order.
//  - A value that holds a Constant has no producer. An absent optional operand is an invalid ValueId.
//  - Every value has a dtype and a shape of known rank from the importer on; extents are Dims. There is no "static
//    only" road.
//  - `data`: for small integer (or bool) tensors the elements as Dims, where known. This is how Shape -> Gather ->
//    Concat -> Reshape chains fold. An integer tensor whose elements are needed as extents but known only at run time
//    gets *run symbols* (require_data): the runtime binds each from one element of that tensor, after the tensor's
//    producer has run. All data-dependent shapes reduce to that.
//  - Layout: ops are imported in ONNX's NCHW meaning; the layout pass rewrites spatial ops to attribute layout="NHWC"
//    with explicit Transposes around.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "graph/ir/dim.h"
#include "runtime/base/dtype.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

namespace aipu::graph {

class Graph;
class OpSet;
struct OpDef;

struct NodeId {
  int32_t index = -1;
  bool valid() const { return index >= 0; }
  friend auto operator<=>(NodeId, NodeId) = default;
};
struct ValueId {
  int32_t index = -1;
  bool valid() const { return index >= 0; }
  friend auto operator<=>(ValueId, ValueId) = default;
};

struct TensorType {
  DType dtype = DType::kVoid;
  Shape shape;
  int rank() const { return static_cast<int>(shape.size()); }
  std::string text() const;  // "float32[N,3,224,224]"
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

// Immutable bytes with a dtype and a static shape; shared, never copied to be looked at. The bytes of a borrowed one
// may be at any address: elements are read with memcpy.
class Constant {
 public:
  // Writes pieces first, first + 1, ... to `out`, whose size is that of whole pieces; every byte of it. Called from
  // several threads at a time.
  using Fill = std::function<void(int64_t first, std::span<std::byte> out)>;

  // `bytes` holds element_count * dtype_bytes in C order (strings: unsupported); null if the size is another.
  static std::shared_ptr<const Constant> create(DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes);
  // Borrows: `owner` keeps `bytes` alive (a mapped file, a protobuf message).
  static std::shared_ptr<const Constant> borrow(DType dtype, std::vector<int64_t> shape,
                                                std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  // Bytes that are made when they are asked for: `pieces` > 0 of equal size, one behind the other. Packed weights are
  // such, so that they go to the file without ever being in memory as a whole. `recipe` says what the bytes are:
  // constants with the same recipe, dtype and shape have the same bytes. Null if the size is not a multiple of the
  // number of pieces.
  static std::shared_ptr<const Constant> deferred(DType dtype, std::vector<int64_t> shape, const Hash128& recipe,
                                                  int64_t pieces, Fill fill);
  template <typename T>
  static std::shared_ptr<const Constant> of(DType dtype, std::vector<int64_t> shape, std::span<const T> elements) {
    const std::span<const std::byte> bytes = std::as_bytes(elements);
    return create(dtype, std::move(shape), {bytes.begin(), bytes.end()});
  }
  static std::shared_ptr<const Constant> int64s(std::vector<int64_t> elements);  // 1-D
  static std::shared_ptr<const Constant> scalar_f32(float value);                // rank 0

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t element_count() const;
  // Those of a deferred constant are made by the first call, and stay.
  std::span<const std::byte> bytes() const { return fill_ == nullptr ? bytes_ : made(); }
  size_t byte_count() const { return byte_count_; }
  bool is_deferred() const { return fill_ != nullptr; }
  // What copy_bytes() takes multiples of: 1 unless the constant is deferred.
  size_t piece_bytes() const { return piece_bytes_; }
  // The bytes from `offset` on, without keeping those of a deferred constant.
  void copy_bytes(size_t offset, std::span<std::byte> out) const;
  TensorType type() const;
  // Of dtype, shape and bytes (or recipe); computed once. Two that are equal have the same content.
  const Hash128& hash() const;

  // Elements of any integer or bool dtype as int64 / of any numeric dtype as double.
  std::vector<int64_t> to_int64s() const;
  std::vector<double> to_doubles() const;

 private:
  Constant() = default;
  std::span<const std::byte> made() const;

  DType dtype_ = DType::kVoid;
  std::vector<int64_t> shape_;
  size_t byte_count_ = 0;
  size_t piece_bytes_ = 1;
  Fill fill_;
  mutable std::once_flag once_;  // of storage_ where there is a fill_
  mutable std::vector<std::byte> storage_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  mutable std::optional<Hash128> hash_;
};
using ConstantPtr = std::shared_ptr<const Constant>;

// ---- attributes
// --------------------------------------------------------------------------------------------------

using AttributeValue = std::variant<int64_t, double, std::string, DType, std::vector<int64_t>, std::vector<double>,
                                    std::vector<std::string>, Shape, ConstantPtr>;

// A typed attribute map, sorted by name. The op's OpDef says which names exist, their types and defaults; after import
// every attribute with a default is present, so readers need no defaults of their own.
class Attributes {
 public:
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const AttributeValue* find(std::string_view name) const;
  void set(std::string_view name, AttributeValue value);
  void erase(std::string_view name);
  const std::map<std::string, AttributeValue, std::less<>>& all() const { return map_; }

  // Typed readers; the attribute must exist with that type (the verifier has checked it).
  int64_t i(std::string_view name) const;
  double f(std::string_view name) const;
  const std::string& s(std::string_view name) const;
  DType dtype(std::string_view name) const;
  const std::vector<int64_t>& ints(std::string_view name) const;
  const std::vector<double>& floats(std::string_view name) const;
  const Shape& shape(std::string_view name) const;
  const ConstantPtr& constant(std::string_view name) const;
  // With a fallback, for optional attributes without a default.
  int64_t i_or(std::string_view name, int64_t otherwise) const;
  double f_or(std::string_view name, double otherwise) const;
  std::string s_or(std::string_view name, std::string_view otherwise) const;

  friend bool operator==(const Attributes&, const Attributes&);

 private:
  std::map<std::string, AttributeValue, std::less<>> map_;
};

// ---- origins
// --------------------------------------------------------------------------------------------------

// The ONNX node an IR node came from, or the pass that made it.
struct Origin {
  std::string name;  // ONNX node name, or its first output if unnamed; "pass:<name>" for an invented node
  std::string op;    // ONNX op type
  friend auto operator<=>(const Origin&, const Origin&) = default;
};
using OriginSet = std::vector<Origin>;  // sorted, unique

// Of what thousands of nodes became, the first ones stand for all: messages are for people, and lists that grow with
// every merge would make conversion quadratic.
constexpr size_t kMaxOrigins = 64;
void merge_origins(OriginSet* into, const OriginSet& from);
std::string origins_text(const OriginSet& origins);  // "'conv1' (Conv) + 'relu1' (Relu)"

// ---- nodes, values
// --------------------------------------------------------------------------------------------------

struct Node {
  std::string op;  // canonical op name: ONNX's, or "domain::Name" outside the default domain
  Attributes attributes;
  std::vector<ValueId> inputs;                    // invalid where absent
  std::vector<ValueId> outputs;                   // invalid where an optional output is not asked for
  std::vector<std::unique_ptr<Graph>> subgraphs;  // If: then, else; Loop, Scan: body
  OriginSet origins;
  bool erased = false;
};

struct Value {
  std::string name;  // ONNX's where it has one; unique within the graph
  TensorType type;
  NodeId producer;  // invalid for graph inputs and constants
  int output_index = 0;
  ConstantPtr constant;
  std::optional<std::vector<Dim>> data;  // elements in C order, see the head of this file
  bool erased = false;
};

// What gives a symbol its value when a model is bound to inputs or run.
struct Symbol {
  enum class Kind : uint8_t { kInputExtent, kTensorElement };
  std::string name;
  Kind kind = Kind::kInputExtent;
  ValueId value;      // the graph input, or the integer tensor
  int64_t index = 0;  // axis, or element in C order
};

class Graph {
 public:
  // `ops`: the records that the nodes' ops are looked up in; null: the built-in ones. Sub-graphs have their owner's.
  explicit Graph(std::shared_ptr<const OpSet> ops = nullptr) : ops_(std::move(ops)) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::string name;
  // Put into the names of run symbols. Sub-graphs need one of their own (e.g. "then_3."), as symbols of one name are
  // one symbol everywhere.
  std::string symbol_scope;

  // ---- construction
  // new extents that are plain symbols become kInputExtent symbols
  ValueId add_input(std::string_view value_name, TensorType type);
  // equal content (by hash) yields the same value
  ValueId add_constant(ConstantPtr constant, std::string_view name_hint = "const");
  // Adds a node whose outputs (output_names.size() of them, "" = not asked for) get their types by inference; on error
  // nothing is added.
  Result<NodeId> add_node(std::string op, Attributes attributes, std::vector<ValueId> inputs,
                          std::vector<std::string> output_names, OriginSet origins,
                          std::vector<std::unique_ptr<Graph>> subgraphs = {});
  // The usual case: one output, named after hint.
  Result<ValueId> emit(std::string op, Attributes attributes, std::vector<ValueId> inputs, OriginSet origins,
                       std::string name_hint = "");
  // The same with types that are known already, unchecked: for the parser and for copies; verify_graph() tells whether
  // they hold.
  NodeId add_typed_node(Node node, std::vector<std::pair<std::string, TensorType>> outputs);
  // graph outputs have names of their own: one value may be given out twice
  void add_output(ValueId value, std::string name);

  // ---- access Inputs may be changed through the reference until the next call of users() or of anything that
  // rewrites; set_input() may be called at any time.
  Node& node(NodeId id) {
    touch(id);
    return nodes_[static_cast<size_t>(id.index)];
  }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id.index)]; }
  Value& value(ValueId id) { return values_[static_cast<size_t>(id.index)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id.index)]; }
  const TensorType& type(ValueId id) const { return value(id).type; }
  const Constant* constant(ValueId id) const { return id.valid() ? value(id).constant.get() : nullptr; }
  size_t node_count() const { return nodes_.size(); }  // with tombstones
  size_t value_count() const { return values_.size(); }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  struct Output {
    ValueId value;
    std::string name;
  };
  const std::vector<Output>& outputs() const { return outputs_; }
  std::vector<Output>& mutable_outputs() {
    outputs_are_indexed_ = false;
    return outputs_;
  }

  const std::shared_ptr<const OpSet>& ops() const { return ops_; }
  const OpDef* find_op(std::string_view op) const;  // null: there is no such op

  // Live nodes; as near to id order as possible. Run symbols count: what a node's output types mention is computed
  // before it. Nodes on a cycle are missing.
  std::vector<NodeId> topological_order() const;
  std::vector<NodeId> users(ValueId id) const;  // each node once, in id order; graph outputs do not count
  size_t user_count(ValueId id) const;          // users and graph outputs
  bool is_graph_output(ValueId id) const;
  // Tensors that a node's run symbols (in its output types and attributes) are elements of.
  std::vector<ValueId> symbol_tensors(NodeId id) const;

  // ---- symbols
  const std::vector<Symbol>& symbols() const { return symbols_; }
  const Symbol* find_symbol(std::string_view name) const;
  void add_symbol(Symbol symbol);  // of a name that is not taken
  Dim fresh_symbol(std::string_view name_hint, Symbol::Kind kind, ValueId value, int64_t index);
  // The elements of a small integer/bool tensor as Dims: known data, constant elements, or new run symbols
  // (kTensorElement) where the element count is static and at most `limit`; nullopt otherwise.
  std::optional<std::vector<Dim>> require_data(ValueId id, int64_t limit = 64);
  // The same without making symbols.
  std::optional<std::vector<Dim>> known_data(ValueId id) const;
  // Symbols that types and attributes mention, those of inner graphs included, and that nothing here binds: the
  // enclosing graph does. Sorted.
  std::vector<std::string> free_symbols() const;

  // ---- rewriting (used through passes; types must match at the seam)
  void set_input(NodeId id, size_t index, ValueId value);
  // Graph outputs and symbols included; refuses a dtype or rank change. Run symbols of `from` are substituted if the
  // elements of `to` are known.
  Status replace_uses(ValueId from, ValueId to);
  void erase_node(NodeId id);    // its outputs must be unused
  Status infer_node(NodeId id);  // recompute the output types after inputs or attributes changed
  // Nodes, constants and run symbols that no graph output, and no type that one depends on, needs; returns how many
  // nodes.
  size_t erase_dead_nodes();
  // in all types, data and attributes
  void substitute_symbols(const std::function<std::optional<Dim>(const std::string&)>& lookup);
  std::string unique_name(std::string_view hint);

  // For sub-graphs: values of enclosing graphs used inside are inputs here, listed after the formal ones; Node::inputs
  // of the owner ends with the matching outer values. captured_count says how many.
  int captured_count = 0;
  // Drops a captured, unused input; its owner has to drop the matching one. False for a formal input.
  bool erase_captured_input(ValueId id);

  // Whether users() agrees with the nodes, i.e. nobody wrote through an old reference; for verify_graph().
  bool users_are_consistent() const;

 private:
  void touch(NodeId id);
  void index_node(size_t node) const;
  // users() is safe from several threads only after one call with no node() of a mutable graph in between
  void update_users() const;
  const Symbol* symbol_entry(std::string_view symbol) const;
  void index_symbols();
  const std::vector<size_t>* output_positions(ValueId id) const;  // null: the value is no output
  template <typename Visit>
  void for_each_run_symbol(const Node& node, const Visit& visit) const;

  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<ValueId> inputs_;
  std::vector<Output> outputs_;
  std::vector<Symbol> symbols_;
  std::map<std::string, int, std::less<>> name_counts_;
  std::map<Hash128, ValueId> constants_by_hash_;
  std::map<std::string, size_t, std::less<>> symbol_indices_;

  // Who uses a value, kept up to date lazily: nodes handed out for writing are looked at again before the next
  // question.
  mutable std::vector<std::vector<NodeId>> users_by_value_;
  mutable std::vector<std::vector<ValueId>> indexed_inputs_;
  mutable std::vector<int32_t> touched_;
  mutable std::vector<char> is_touched_;

  std::shared_ptr<const OpSet> ops_;

  // Where a value is given out, and the run symbols that are its elements, by their places in the lists.
  mutable bool outputs_are_indexed_ = false;
  mutable std::unordered_map<int32_t, std::vector<size_t>> output_positions_;
  std::unordered_map<int32_t, std::vector<size_t>> element_symbols_;
};

// The text form: prints and parses back to itself (large constants as hash plus a side table given to the parser).
std::string print_graph(const Graph& graph);
struct ConstantTable {
  std::map<std::string, ConstantPtr> by_hash;  // hex of Constant::hash()
};
Result<std::unique_ptr<Graph>> parse_graph(std::string_view text, const ConstantTable& constants,
                                           std::shared_ptr<const OpSet> ops = nullptr);
ConstantTable collect_constants(const Graph& graph);

// Structure, schemas, types and topological order; the message names the node by origin.
Status verify_graph(const Graph& graph);

}  // namespace aipu::graph
