// Loop nests over tensors: what a schedule becomes before its tensors get addresses.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/te/operation.h"

namespace aipu::te {

struct StmtNode;
using Stmt = std::shared_ptr<StmtNode>;

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
// Memory for the outputs of an operation, as long as `body` runs: the box `region`, in indices of the tensor.
struct Realize {
  OperationPtr op;
  std::vector<Range> region;
  std::string scope;
  Stmt body;
};
struct Seq {
  std::vector<Stmt> body;
};
struct Pragma {
  std::string key;
  Expr value;  // may be null
  Stmt body;
};

struct StmtNode {
  const std::variant<For, If, Store, Let, Realize, Seq, Pragma> node;

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&node);
  }
};

Stmt make_stmt(decltype(StmtNode::node) node);
Stmt sequence(std::vector<Stmt> statements);  // null ones left out; one alone is itself

std::string to_text(const Stmt& stmt, int indent = 0);

// A parameter of a function: a tensor, or a scalar variable where `tensor.op` is null.
struct Parameter {
  Tensor tensor;
  Expr var;
};

// A lowered schedule.
struct Function {
  std::string name;
  std::vector<Parameter> params;
  Stmt body;
};
std::string to_text(const Function& function);

}  // namespace aipu::te
