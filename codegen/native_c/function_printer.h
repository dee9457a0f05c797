// What the parts of the C printer share: names, types and expressions of one function being printed.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/native_c/c_printer.h"
#include "codegen/tir/on_chip_memory.h"
#include "codegen/tir/stmt.h"

namespace aipu::tir {

// The C that gcc and clang compile, as C++ with the prelude. It reads like the Compass C of toolchain.md 6 (which
// compass_c prints) and differs where that is no C++ or means something else there:
//   (float8)x                       __splat<float8>(x)
//   (int8)(1,2,...)                 int8{1, 2, ...}, __lanes<half8>(...), __const_mask<8>(0x7)
//   convert_float8(x), as_int8(x)   __convert<float8>(x), __bits<int8>(x); also float to integer conversions of scalars
//   a[i] of a vector pointer        __load(a, i), __store(a, i, v): any alignment
//   __lsram half buf[64];           half* buf = __lsram_array<half>(offset);
//   an entry's last barrier         nothing: the engine waits for the launch
//   a / b of integers               __div(a, b) unless b is a constant: no trap
//   tail masks, DMA                 __tail_mask<8>(n), __dma_copy(dst, src, ...)

// What a launch needs; the ABI's aipu_kernel_info.
struct MemoryNeeds {
  OnChipMemory memory;
  bool uses_barrier = false;
  bool uses_context = false;  // the prelude's __tec must be set
  bool reports_faults = false;
};
Result<MemoryNeeds> memory_needs(const Module& module, const Target& target);

// "float8"; of a pointer "__global float8*".
std::string c_type(const Type& type);
std::string c_identifier(std::string_view name);
// The names of a kernel's functions in C, in order: the entry, then "<entry>_<function>" for the others. Unique within
// `taken`, which they join.
std::vector<std::string> function_names(const Module& module, const std::string& entry, std::set<std::string>& taken);

class FunctionPrinter {
 public:
  // `line_marks`: a #line before the C of every statement whose place in the kernel's file is known.
  FunctionPrinter(const Module& module, const Target& target, const MemoryNeeds& needs,
                  const std::vector<std::string>& function_names, bool line_marks = false);

  std::string prototype(size_t function);   // without ';'
  std::string definition(size_t function);  // without prototype; fills constants()
  // Definitions of the constant arrays met so far, a line each.
  const std::string& constants() const { return constants_; }
  const Status& status() const { return status_; }

  // Used by the intrinsics (intrinsics_c.cpp).
  const Target& target() const { return target_; }
  std::string expr(const Expr& e);
  std::string wide_index(const Expr& e);  // an element index or count, computed in 64 bits
  std::string zero(const Type& type);
  std::string splat(const Type& type, const std::string& scalar);
  std::string mask_or_all(const Expr& mask, int lanes);
  std::string all_true(int lanes);
  std::string pointer_as(const Expr& pointer, const Type& pointee);  // pointer cast unless it is one already
  std::string fail(std::string message);                             // records the first error

 private:
  struct NameScope {
    std::vector<std::string> names;
  };
  std::string binary(const Binary& n, const ExprNode& node);
  std::string vector_binary(const Binary& n, const ExprNode& node);
  std::string conversion(const Cast& n, const ExprNode& node);
  std::string literal(const VectorLiteral& n, const ExprNode& node);
  std::string lane_read(const LaneRead& n);
  std::string access(const Expr& pointer, const Expr& index);
  std::string condition(const Expr& e);
  bool is_array(const Expr& pointer) const;
  bool must_hoist(const Expr& bound, const Stmt& body) const;
  std::string declare(const VarPtr& var);
  std::string name_of(const Var& var);
  std::string reserve(std::string_view wanted);
  void stmt(const Stmt& s);
  void body(const Stmt& s);
  void for_loop(const For& n);
  void alloc(const Alloc& n);
  void line(std::string_view text);
  void mark(const SourceSpan& span);

  const Module& module_;
  const Target& target_;
  const MemoryNeeds& needs_;
  const std::vector<std::string>& function_names_;
  Status status_;
  const bool line_marks_;
  bool marked_ = false;  // the compiler takes what comes for lines of the kernel's file
  std::string out_;
  std::string constants_;
  std::set<std::string> constant_names_;
  int indent_ = 0;
  size_t function_ = 0;
  std::vector<NameScope> scopes_;
  std::set<std::string> active_;
  std::map<const Var*, std::string> names_;
  std::set<const Var*> arrays_;
};

// The C of an intrinsic call (intrinsics_c.cpp).
std::string print_intrinsic(FunctionPrinter& printer, const IntrinsicCall& call, const ExprNode& node);
// Functions that need aipu_tec_context.
bool intrinsic_uses_context(std::string_view name);

}  // namespace aipu::tir
