// What the printers of C share: functions, statements, blocks, names. A dialect says how memory, vectors and loops
// look.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "codegen/c_spelling/call_spellings.h"
#include "codegen/tir/stmt.h"
#include "runtime/base/status.h"

namespace aipu::tir {

class PrinterShell {
 public:
  struct Dialect {
    std::string_view text;          // what is printed, for errors: "c_code"
    bool names_end_with_blocks;     // and may be used again; else a name stands for one variable of the function
    std::string_view bare_return;   // of the entry
    std::string_view sub_function;  // in front of the type of functions that are not the entry
    std::string_view constant;      // in front of the name of a constant array
    std::set<std::string, std::less<>> reserved;  // words that are no names, beside those of C
  };

  // `function_names`: those of the functions in C, in the order of the module. All arguments outlive the printer.
  PrinterShell(const Module& module, const std::vector<std::string>& function_names, const Dialect& dialect)
      : module_(module), function_names_(function_names), dialect_(dialect) {}
  PrinterShell(const PrinterShell&) = delete;
  virtual ~PrinterShell() = default;

  std::string prototype(size_t function);  // without ';'
  // With the prototype in front; fills constants().
  std::string definition(size_t function);
  // Constant arrays, prototypes of the sub-functions, definitions: all of the module, the entry first, the others by
  // name.
  Result<std::string> all_functions();
  // Definitions of the constant arrays met so far, a line each.
  const std::string& constants() const { return constants_; }
  const Status& status() const { return status_; }
  // A #line in front of every statement whose place in the kernel's file is known.
  void mark_lines() { marks_lines_ = true; }

  // ---- for the spelling of calls ----

  std::string expr(const Expr& e) { return expr(e, {}); }
  // `destination`: the C of what the value is assigned to; "" if that is not known.
  std::string expr(const Expr& e, const std::string& destination);
  virtual std::string mask_or_all(const Expr& mask, int lanes) = 0;
  virtual std::string splat(const Type& type, const std::string& scalar) = 0;
  // What stands for lanes that may be anything.
  virtual std::string open_lanes(const Type& type, const std::string& destination) = 0;
  std::string fail(std::string message);  // records the first error

 protected:
  virtual void lane_write(const LaneWrite& n) = 0;
  virtual void store(const Store& n) = 0;
  virtual void alloc(const Alloc& n) = 0;
  virtual void for_loop(const For& n) = 0;
  virtual void begin_definition() {}
  virtual void end_definition() {}

  virtual std::string binary(const Binary& n, const Expr& e) = 0;
  virtual std::string conversion(const Cast& n, const Expr& e) = 0;
  virtual std::string broadcast_text(const Broadcast& n, const Expr& e) = 0;
  virtual std::string literal(const VectorLiteral& n, const Expr& e) = 0;
  virtual std::string load(const Load& n) = 0;
  virtual std::string lane_read(const LaneRead& n) = 0;
  // One of the two values that a condition chooses between.
  virtual std::string choice(const Expr& e, const Expr&) { return expr(e); }
  virtual std::string intrinsic(const IntrinsicCall& n, const Expr& e, const std::string& destination) = 0;

  const Module& module() const { return module_; }
  bool in_entry() const { return function_ == 0; }
  std::string declare(const VarPtr& var);
  void rename(const Var& var, std::string text) { names_[&var] = std::move(text); }
  std::string name_of(const Var& var);
  std::string reserve(std::string_view wanted);
  // Prints a constant array in front of the functions; its name.
  std::string constant_array(const Alloc& n);
  void line(std::string_view text);
  void raw(std::string_view text) { out_ += text; }
  void statement(const Stmt& s);
  void body(const Stmt& s);  // indented, in a scope of its own
  // A scope for names around lines that are no Block.
  void open_scope(int indentation);
  void close_scope(int indentation);

 private:
  std::string function_call(const FunctionCall& n);
  void if_else(const If& n);
  void line_mark(const Stmt& s);
  void comment(const Comment& n);

  const Module& module_;
  const std::vector<std::string>& function_names_;
  const Dialect& dialect_;
  Status status_;
  std::string out_;
  std::string constants_;
  std::set<std::string> constant_names_;
  int indent_ = 0;
  bool marks_lines_ = false;
  bool marked_ = false;  // the compiler takes what comes for lines of the kernel's file
  size_t function_ = 0;
  std::set<std::string> taken_;
  std::unordered_map<std::string, int> next_;     // the last number behind a name that was taken
  std::vector<std::vector<std::string>> scopes_;  // the names of each
  std::unordered_map<const Var*, std::string> names_;
};

}  // namespace aipu::tir
