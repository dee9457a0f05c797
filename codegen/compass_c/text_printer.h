// Prints TIR as the Compass C that users read (toolchain.md 6). Private to codegen/compass_c.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "codegen/tir/stmt.h"
#include "runtime/base/status.h"

namespace aipu::tir::c_text {

// The passes of toolchain.md 4 that decide how a node is spelled.
struct Spelling {
  bool combine_instructions = true;  // vbclr, vnand, vcvt, ...
  bool revise_pass_through = true;   // the variable being defined or stored to as the operand for inactive lanes
  bool revert_to_standard = true;    // a[i] for plain loads and stores
  bool lower_virtual_isa = true;     // masked integer multiply as multiply and select
  bool converts_halves = false;      // a conversion to wider elements takes the low or high lanes, not every other one
};

class TextPrinter {
 public:
  // `function_names`: those of the functions in C, in the order of the module.
  TextPrinter(const Module& module, const std::vector<std::string>& function_names, const Spelling& spelling)
      : module_(module), function_names_(function_names), spelling_(spelling) {}

  std::string prototype(size_t function);                        // without ';'
  std::string definition(size_t function);                       // fills constants() and dma_macros()
  const std::string& constants() const { return constants_; }    // a line per constant array met so far
  const std::string& dma_macros() const { return dma_macros_; }  // a line per direction met so far
  const Status& status() const { return status_; }

  // ---- for the spelling of intrinsics ----

  const Spelling& spelling() const { return spelling_; }
  std::string expr(const Expr& e) { return expr(e, {}); }
  // `destination`: the C of what the value is assigned to, if that is known.
  std::string expr(const Expr& e, const std::string& destination);
  std::string access(const Expr& pointer, const Expr& index);
  std::string index_text(const Expr& e);  // NarrowDataType: indices are 32 bits wide
  // The pointer as one to `pointee`.
  std::string pointer_as(const Expr& pointer, const Type& pointee);
  // pointer[0] of type `pointee`; empty when the pointer has no name.
  std::string named_access(const Expr& pointer, const Type& pointee);
  std::string mask_or_all(const Expr& mask, int lanes);
  static std::string all_true(int lanes);
  std::string splat(const Type& type, const std::string& scalar) const;
  void use_dma_macro(const std::string& line);
  std::string fail(std::string message);

 private:
  std::string binary(const Binary& n, const ExprNode& node);
  std::string literal(const VectorLiteral& n, const ExprNode& node);
  std::string name_of(const Var& var);
  std::string declare(const VarPtr& var);
  std::string reserve(std::string_view wanted);
  void stmt(const Stmt& s);
  void body(const Stmt& s);
  void for_loop(const For& n);
  void alloc(const Alloc& n);
  void line(std::string_view text);

  const Module& module_;
  const std::vector<std::string>& function_names_;
  const Spelling spelling_;
  Status status_;
  std::string out_;
  std::string constants_;
  std::string dma_macros_;
  std::set<std::string> constant_names_;
  int indent_ = 0;
  size_t function_ = 0;
  std::set<std::string> taken_;
  std::unordered_map<std::string, int> next_;  // the last number behind a name that was taken
  std::unordered_map<const Var*, std::string> names_;
};

// The C of an intrinsic call (text_intrinsics.cpp).
std::string spell_intrinsic(TextPrinter& printer, const IntrinsicCall& call, const ExprNode& node,
                            const std::string& destination);

// Pieces of names and numbers (text_types.cpp).
std::string type_name(const Type& type);  // "float8"; of a pointer "__global float8*"
std::string number(int64_t value, DType dtype);
std::string number(double value, DType dtype);
std::string quoted(const std::string& text);
std::string valid_identifier(std::string_view name);  // no keyword or type of OpenCL C

}  // namespace aipu::tir::c_text
