// Loop nests over tensors: what a schedule becomes before its tensors get addresses.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/te/operation.h"
#include "kernels/te/visit.h"

namespace aipu::te {

enum class LoopKind : uint8_t { kSerial = 0, kParallel = 1, kVectorized = 2, kUnrolled = 3, kThread = 4 };

struct For {
  Expr var;
  Expr extent;  // from 0
  LoopKind kind;
  IterVarPtr thread;  // of kThread
  bool shared_out;    // its iterations may be dealt to the TECs
  Stmt body;
};
struct If {
  Expr condition;
  Stmt then_body;
  Stmt else_body = nullptr;  // may be null
};
// The condition is asked before each iteration; it may read what the body stores.
struct While {
  Expr condition;
  Stmt body;
};
struct Store {
  Tensor tensor;
  std::vector<Expr> indices;
  Expr value;
};
struct Let {
  Expr var, value;
  Stmt body;
};
// Of the stride of a dimension: the smallest that is not below the natural one and leaves the rest `offset`.
struct Alignment {
  int64_t factor = 0, offset = 0;  // factor 0: natural
};
// Strides of a box in elements, outermost first; `alignment` is empty or has one entry per dimension.
std::vector<Expr> strides_of(const std::vector<Expr>& extents, const std::vector<Alignment>& alignment);

// Memory for an output of an operation, as long as `body` runs: the box `region`, in indices of the tensor.
struct Realize {
  OperationPtr op;
  std::vector<Range> region;
  std::string scope;
  std::vector<Alignment> alignment;  // of the dimensions' strides; empty: compact
  Stmt body;
  int value_index = 0;
};
// Memory for each output, the first outermost.
Stmt realize_all(const OperationPtr& op, const std::vector<Range>& region, const std::string& scope,
                 const std::vector<Alignment>& alignment, Stmt body);
// `region`, or the whole shape where that is empty.
std::vector<Range> box_of(const Realize& realize);

struct Seq {
  std::vector<Stmt> body;
};
struct Pragma {
  std::string key;
  Expr value;  // may be null
  Stmt body;
};

// A part of a tensor's memory, as a function that is called by name sees it.
struct View {
  Tensor tensor;
  std::vector<Range> region;
  std::vector<bool> dropped;  // dimensions of extent 1 that the view does not have; may be empty
  bool pointer = false;       // the address alone
};
struct PackedArgument {
  Expr value;  // null: the view
  std::optional<View> view;
};
// A function of the registry, or a C function. Kernels do not have it: whoever runs them calls it between them.
struct PackedCall {
  std::string name;
  std::vector<PackedArgument> args;
  bool is_c = false;
};

struct StmtNode {
  const std::variant<For, If, Store, Let, Realize, Seq, Pragma, PackedCall, While> node;

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&node);
  }
};

Stmt make_stmt(decltype(StmtNode::node) node);
Stmt sequence(std::vector<Stmt> statements);  // null ones left out; one alone is itself

std::string to_text(const Stmt& stmt, int indent = 0);

// Calls by name whose value is used: of a function of the registry, and of one that watches a value as it passes.
inline constexpr std::string_view kPackedValue = "call_packed", kTrace = "trace";
bool is_packed_call(const Expr& e);

bool has_packed_call(const Stmt& stmt);

// What stands for a tensor in a statement that is made to be put somewhere: element [i, j] of it is element
// [base[0], base[1] + i, base[2] + j] of `tensor`.
struct BufferTarget {
  Tensor tensor;
  std::vector<Expr> base;  // empty: the same indices
};
using BufferTargets = std::map<std::pair<const Operation*, int>, BufferTarget>;
// The statement with other tensors, and with values for variables.
Stmt bind_buffers(const Stmt& stmt, const BufferTargets& targets, const Substitution& values);

Expr bind_buffers(const Expr& expr, const BufferTargets& targets, const Substitution& values);

// A parameter of a function: a tensor, or a scalar variable where `tensor.op` is null.
struct Parameter {
  Tensor tensor;
  Expr var;
  std::vector<Expr> strides = {};  // in elements; empty: compact
  std::vector<Range> region = {};  // the part of the tensor that lies there; empty: all of it
  std::string name = {};           // empty: the tensor's
};

// Scopes of memory that the threads of a block have together.
inline bool is_memory_of_block(std::string_view scope) {
  return scope == "shared" || scope == "warp" || scope == "lsram";
}

// A lowered schedule.
struct Function {
  std::string name;
  std::vector<Parameter> params;
  Stmt body;
  // A stage in memory of the block inside of thread loops is what all threads of a block need; else what one needs.
  bool shared_by_threads = false;
};
std::string to_text(const Function& function);

// The tensors that a statement reads or writes and does not make.
std::vector<Tensor> tensors_used(const Stmt& stmt);

// A part of a function's body as a function of its own. Its parameters are the tensors that it uses, out of `known`.
Function outline(std::string name, const Stmt& body, const std::vector<Parameter>& known);

}  // namespace aipu::te
