// What the parts of the C printer share: names, types and expressions of one function being printed.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/c_spelling/printer_shell.h"
#include "codegen/driver/kernel_text.h"
#include "codegen/tir/stmt.h"

namespace aipu::tir {

// The C of kernels for hosts, C++ with the prelude. It reads like the Compass C of toolchain.md 6 (which compass_c
// prints) and differs where that is no C++ or means something else there:
//   (float8)x                       __splat<float8>(x)
//   (int8)(1,2,...)                 int8{1, 2, ...}, __lanes<half8>(...), __const_mask<8>(0x7)
//   convert_float8(x), as_int8(x)   __convert<float8>(x), __bits<int8>(x); also float to integer conversions of scalars
//   a[i] of a vector pointer        __load(a, i), __store(a, i, v): any alignment
//   __lsram half buf[64];           half* buf = __lsram_array<half>(offset);
//   an entry's last barrier         nothing: the engine waits for the launch
//   a / b of integers               __div(a, b) unless b is a constant: no trap
//   tail masks, DMA                 __tail_mask<8>(n), __dma_copy(dst, src, ...)

// The names of a kernel's functions in C, in order: the entry, then "<entry>_<function>" for the others. Unique within
// `taken`, which they join.
std::vector<std::string> function_names(const Module& module, const std::string& entry, std::set<std::string>& taken);

class FunctionPrinter : public PrinterShell {
 public:
  // `line_marks`: a #line before the C of every statement whose place in the kernel's file is known.
  FunctionPrinter(const Module& module, const LaunchNeeds& needs, const std::vector<std::string>& function_names,
                  bool line_marks = false);

  // Used by the intrinsics (intrinsics_c.cpp).
  std::string wide_index(const Expr& e);  // an element index or count, computed in 64 bits
  std::string zero(const Type& type) { return splat(type, "0"); }
  std::string splat(const Type& type, const std::string& scalar) override;
  std::string open_lanes(const Type& type, const std::string& destination) override;
  std::string mask_or_all(const Expr& mask, int lanes) override;
  std::string pointer_as(const Expr& pointer, const Type& pointee);  // pointer cast unless it is one already

 protected:
  void begin_definition() override { arrays_.clear(); }
  void alloc(const Alloc& n) override;
  std::string intrinsic(const IntrinsicCall& n, const Expr& e, const std::string& destination) override;

 private:
  std::string binary(const Binary& n, const Expr& e) override;
  std::string vector_binary(const Binary& n, const Type& type);
  std::string conversion(const Cast& n, const Expr& e) override;
  std::string broadcast_text(const Broadcast& n, const Expr& e) override;
  std::string literal(const VectorLiteral& n, const Expr& e) override;
  std::string load(const Load& n) override;
  std::string lane_read(const LaneRead& n) override;
  std::string access(const Expr& pointer, const Expr& index);
  bool is_array(const Expr& pointer) const;
  bool must_hoist(const Expr& bound, const Stmt& body) const;
  std::string once(const For& n, const Expr& value, std::string_view what);
  void lane_write(const LaneWrite& n) override;
  void store(const Store& n) override;
  void for_loop(const For& n) override;
  void tec_loop(const For& n);

  const LaunchNeeds& needs_;
  std::set<const Var*> arrays_;
};

// The C of an intrinsic call (intrinsics_c.cpp).
std::string print_intrinsic(FunctionPrinter& printer, const IntrinsicCall& call, const Type& type);

// A name as C++ and the prelude have it.
std::string native_identifier(std::string_view name);

}  // namespace aipu::tir
