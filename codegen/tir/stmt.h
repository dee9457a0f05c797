// TIR statements, functions and modules: immutable, shared.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "codegen/tir/expr.h"

namespace aipu::tir {

struct StmtNode;
using Stmt = std::shared_ptr<const StmtNode>;

enum class ForKind : uint8_t {
  kSerial,
  kTec,         // TEC t runs the body once with value t when start <= t < stop, else not at all
  kVectorized,  // constant extent; lowered to vector statements
  kUnrolled,    // constant extent; lowered to copies of the body
};

struct Define {
  VarPtr var;
  Expr value;
};  // declares var in the enclosing Block; the types are equal
struct Assign {
  VarPtr var;
  Expr value;
};
struct LaneWrite {
  VarPtr var;
  Expr index, value;
};  // one lane of a vector or mask variable
struct Store {
  Expr pointer, index, value;
};  // pointer[index] = value; value has the pointee's type
// An array of `count` elements of buffer->type.pointee(). `data`, when not empty, is its constant contents (scope
// kConstant).
struct Alloc {
  VarPtr buffer;
  int64_t count;
  std::vector<std::byte> data;
};
struct For {
  VarPtr var;
  Expr start, stop, step;
  ForKind kind;
  Stmt body;
};  // step > 0
struct While {
  Expr condition;
  Stmt body;
};
struct If {
  Expr condition;
  Stmt then_body, else_body;
};  // else_body may be null
struct Evaluate {
  Expr value;
};
struct Return {
  Expr value;
};  // null: no value
struct Break {};
struct Block {
  std::vector<Stmt> body;
};  // a scope, as in C
struct Comment {
  std::string text;
};

struct StmtNode {
  SourceSpan span;
  std::variant<AIPU_STMT_TYPES> node;

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&node);
  }
};

// Bodies of loops and branches that are no Block are put into one.
Stmt make_stmt(decltype(StmtNode::node) node, SourceSpan span = {});
Stmt block(std::vector<Stmt> body);

enum class InlineHint : uint8_t { kNone, kInline, kNoInline };

struct PrimFunc {
  std::string name;
  std::vector<VarPtr> params;
  Type return_type;  // void for an entry
  Stmt body;
  InlineHint inline_hint = InlineHint::kNone;
  SourceSpan span = {};  // where it is written; of the TIR that the DSL makes, not in the text
  // Parameters of an entry that passes took not to be negative; a launch refuses one that is. Not in the text.
  std::vector<size_t> non_negative_params = {};
};
using PrimFuncPtr = std::shared_ptr<const PrimFunc>;

// A kernel and the sub-functions that it calls, by name. functions[0] is the entry.
struct Module {
  std::vector<PrimFuncPtr> functions;
  const PrimFunc& entry() const { return *functions.front(); }
  const PrimFunc* find(std::string_view name) const;
};

bool structurally_equal(const Stmt& a, const Stmt& b);      // variables by identity; spans do not count
bool structurally_equal(const Module& a, const Module& b);  // variables correspond by the place of their declaration

}  // namespace aipu::tir
