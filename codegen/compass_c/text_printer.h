// Prints TIR as the Compass C that users read (toolchain.md 6). Private to codegen/compass_c.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/c_spelling/printer_shell.h"

namespace aipu::tir::c_text {

// The passes of toolchain.md 4 that decide how a node is spelled.
struct Spelling {
  bool combine_instructions = true;  // vbclr, vnand, vcvt, ...
  bool revise_pass_through = true;   // the variable being defined or stored to as the operand for inactive lanes
  bool revert_to_standard = true;    // a[i] for plain loads and stores
  bool lower_virtual_isa = true;     // masked integer multiply as multiply and select
  bool converts_halves = false;      // a conversion to wider elements takes the low or high lanes, not every other one
};

class TextPrinter : public PrinterShell {
 public:
  TextPrinter(const Module& module, const std::vector<std::string>& function_names, const Spelling& spelling);

  const std::string& dma_macros() const { return dma_macros_; }  // a line per direction met so far
  // The arrays on the chip, in the order of their declarations in the text so far.
  const std::vector<const Var*>& arrays() const { return arrays_; }

  // ---- for the spelling of intrinsics ----

  const Spelling& spelling() const { return spelling_; }
  std::string index_text(const Expr& e);  // NarrowDataType: indices are 32 bits wide
  // The pointer as one to `pointee`.
  std::string pointer_as(const Expr& pointer, const Type& pointee);
  // pointer[0] of type `pointee`; empty when the pointer has no name.
  std::string named_access(const Expr& pointer, const Type& pointee);
  std::string mask_or_all(const Expr& mask, int lanes) override;
  std::string splat(const Type& type, const std::string& scalar) override;
  std::string open_lanes(const Type& type, const std::string& destination) override;
  void use_dma_macro(const std::string& line);

 private:
  std::string binary(const Binary& n, const Expr& e) override;
  std::string conversion(const Cast& n, const Expr& e) override;
  std::string broadcast_text(const Broadcast& n, const Expr& e) override;
  std::string literal(const VectorLiteral& n, const Expr& e) override;
  std::string load(const Load& n) override;
  std::string lane_read(const LaneRead& n) override;
  std::string choice(const Expr& e, const Expr& other) override;
  std::string intrinsic(const IntrinsicCall& n, const Expr& e, const std::string& destination) override;
  std::string access(const Expr& pointer, const Expr& index);
  void begin_definition() override;
  void end_definition() override;
  void lane_write(const LaneWrite& n) override;
  void store(const Store& n) override;
  void for_loop(const For& n) override;
  void alloc(const Alloc& n) override;

  const Spelling spelling_;
  std::string dma_macros_;
  std::vector<const Var*> arrays_;
};

// The C of an intrinsic call (text_intrinsics.cpp).
std::string spell_intrinsic(TextPrinter& printer, const IntrinsicCall& call, const Type& type,
                            const std::string& destination);

// A name that is no word of OpenCL C.
std::string valid_identifier(std::string_view name);

}  // namespace aipu::tir::c_text
