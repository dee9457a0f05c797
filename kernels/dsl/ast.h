// The syntax tree of the Python subset that kernels are written in. Built by parser.h, immutable afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/dsl/diagnostics.h"

namespace aipu::dsl::ast {

struct Expr;
using ExprPtr = std::shared_ptr<const Expr>;
struct Stmt;
using StmtPtr = std::shared_ptr<const Stmt>;
struct FunctionDef;
using FunctionPtr = std::shared_ptr<const FunctionDef>;
struct ClassDef;
using ClassPtr = std::shared_ptr<const ClassDef>;
using Body = std::vector<StmtPtr>;

enum class UnaryOp : uint8_t { kNegate, kPlus, kInvert, kNot };
enum class BinaryOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kShl,
  kShr,
  kBitAnd,
  kBitOr,
  kBitXor,
  kMatMul
};
enum class CompareOp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIs, kIsNot, kIn, kNotIn };

struct Name {
  std::string id;
};
struct NoneLiteral {};
struct BoolLiteral {
  bool value;
};
struct IntLiteral {
  int64_t value;
};
struct FloatLiteral {
  double value;
};
struct StringLiteral {
  std::string value;
};
struct FString {
  std::vector<ExprPtr> parts;
};  // string literals and expressions, to be joined
struct Attribute {
  ExprPtr object;
  std::string name;
};
struct Slice {
  ExprPtr lower, upper, step;
};  // any may be null
struct Subscript {
  ExprPtr object;
  std::vector<ExprPtr> indices;
  bool tuple_index = false;
};
struct Argument {
  std::string name;
  int stars = 0;
  ExprPtr value;
};  // name empty: positional; stars: 1 for *x, 2 for **x
struct Call {
  ExprPtr callee;
  std::vector<Argument> arguments;
};
struct Unary {
  UnaryOp op;
  ExprPtr operand;
};
struct Binary {
  BinaryOp op;
  ExprPtr lhs, rhs;
};
struct BoolOp {
  bool is_and;
  ExprPtr lhs, rhs;
};
struct Compare {
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};
struct Conditional {
  ExprPtr condition, if_true, if_false;
};
struct ListDisplay {
  std::vector<ExprPtr> elements;
};
struct TupleDisplay {
  std::vector<ExprPtr> elements;
};
struct DictDisplay {
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};
struct ComprehensionClause {
  ExprPtr target, iterable;
  std::vector<ExprPtr> conditions;
};
struct Comprehension {
  ExprPtr element;
  std::vector<ComprehensionClause> clauses;
};
struct Starred {
  ExprPtr value;
};
struct Lambda {
  FunctionPtr function;
};  // its body is one return statement
struct UnsupportedExpr {
  std::string node;
};  // "NamedExpr", "Set", ...: parsed so that the message can name it

struct Expr {
  Position position;
  int depth = 1;  // of the tree below, bounded by the parser
  std::variant<Name, NoneLiteral, BoolLiteral, IntLiteral, FloatLiteral, StringLiteral, FString, Attribute, Slice,
               Subscript, Call, Unary, Binary, BoolOp, Compare, Conditional, ListDisplay, TupleDisplay, DictDisplay,
               Comprehension, Starred, Lambda, UnsupportedExpr>
      node;

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&node);
  }
};

struct Parameter {
  std::string name;
  Position position;
  ExprPtr annotation;     // null: none
  ExprPtr default_value;  // null: none
  int stars = 0;          // 1 for *args, 2 for **kwargs
};
struct FunctionDef {
  std::string name;
  Position position;
  SourceFilePtr file;
  std::vector<ExprPtr> decorators;
  std::vector<Parameter> parameters;
  ExprPtr returns;  // null: none
  Body body;
};

// A class that is decorated as a record, or as a plugin of a graph builder (script_op/builder_plugin.h); others are
// skipped.
struct ClassDef {
  std::string name;
  Position position;
  SourceFilePtr file;
  bool is_record = true;
  bool has_bases = false;
  Body body;
};

struct ExpressionStmt {
  ExprPtr value;
};
struct Assign {
  std::vector<ExprPtr> targets;
  ExprPtr value;
};  // more than one target: a = b = value
struct AugAssign {
  ExprPtr target;
  BinaryOp op;
  ExprPtr value;
};
struct AnnAssign {
  ExprPtr target, annotation, value;
};  // value may be null
struct If {
  ExprPtr condition;
  Body then_body, else_body;
};
struct For {
  ExprPtr target, iterable;
  Body body, else_body;
};
struct While {
  ExprPtr condition;
  Body body, else_body;
};
struct Return {
  ExprPtr value;
};  // null: none
struct Break {};
struct Pass {};
struct With {
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
  Body body;
};  // (context, as-target or null)
// import a.b as c -> (a.b, c); from m import x as y -> (m.x, y).
struct Import {
  std::vector<std::pair<std::string, std::string>> names;
};
struct Function {
  FunctionPtr function;
};
struct Class {
  ClassPtr definition;
};
struct UnsupportedStmt {
  std::string node;
};  // "Continue", "Try", ...

struct Stmt {
  Position position;
  std::variant<ExpressionStmt, Assign, AugAssign, AnnAssign, If, For, While, Return, Break, Pass, With, Import,
               Function, Class, UnsupportedStmt>
      node;

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&node);
  }
};

struct Module {
  SourceFilePtr file;
  Body body;
};

}  // namespace aipu::dsl::ast
