#include "codegen/c_spelling/printer_shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "codegen/c_spelling/c_names.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

bool is_empty(const Stmt& s) {
  const auto* n = s ? s->as<Block>() : nullptr;
  return !s || (n != nullptr && std::all_of(n->body.begin(), n->body.end(), is_empty));
}

// Whether the first parenthesis is closed by the last one.
bool is_parenthesised(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    if (quoted) continue;
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) return i > 0 && i + 1 == text.size();
  }
  return false;
}

}  // namespace

std::string PrinterShell::fail(std::string message) {
  if (status_.ok())
    status_ = internal_error(
        fmt::format("{} of function {}: {}", dialect_.text, module_.functions[function_]->name, message));
  return {};
}

void PrinterShell::line(std::string_view text) {
  out_.append(static_cast<size_t>(indent_) * 2, ' ');
  out_ += text;
  out_ += '\n';
}

// ---- names ----

std::string PrinterShell::reserve(std::string_view wanted) {
  const std::string base = c_identifier(wanted, dialect_.reserved);
  std::string name = base;
  int& next = next_[base];
  while (!taken_.insert(name).second) name = fmt::format("{}_{}", base, ++next);
  scopes_.back().push_back(name);
  return name;
}

std::string PrinterShell::declare(const VarPtr& var) { return names_[var.get()] = reserve(var->name); }

std::string PrinterShell::name_of(const Var& var) {
  const auto it = names_.find(&var);
  return it != names_.end() ? it->second : fail(fmt::format("variable {} is used before its definition", var.name));
}

void PrinterShell::open_scope(int indentation) {
  indent_ += indentation;
  scopes_.emplace_back();
}

void PrinterShell::close_scope(int indentation) {
  indent_ -= indentation;
  if (dialect_.names_end_with_blocks && !scopes_.back().empty()) {
    for (const std::string& name : scopes_.back()) taken_.erase(name);
    next_.clear();
  }
  scopes_.pop_back();
}

// ---- functions ----

std::string PrinterShell::prototype(size_t function) {
  function_ = function;
  const PrimFunc& f = *module_.functions[function];
  names_.clear();
  next_.clear();
  scopes_.assign(1, {});
  taken_ = {function_names_.begin(), function_names_.end()};
  std::string text(function == 0 ? "__kernel " : dialect_.sub_function);
  if (f.inline_hint == InlineHint::kInline) text += "_CLC_INLINE ";
  if (f.inline_hint == InlineHint::kNoInline) text += "_CLC_NOINLINE ";
  text += fmt::format("{} {}(", c_type(f.return_type), function_names_[function]);
  for (size_t i = 0; i < f.params.size(); ++i) {
    const VarPtr& param = f.params[i];
    const bool restricted = param->restrict_ && param->type.pointer;
    text += fmt::format("{}{} {}{}", i == 0 ? "" : ", ", c_type(param->type), restricted ? "restrict " : "",
                        declare(param));
  }
  return text + ")";
}

std::string PrinterShell::definition(size_t function) {
  const std::string head = prototype(function);
  out_.clear();
  indent_ = 0;
  line(head + " {");
  begin_definition();
  body(module_.functions[function]->body);
  end_definition();
  if (std::exchange(marked_, false)) raw("#line 1 \"generated\"\n");
  line("}");
  return std::move(out_);
}

Result<std::string> PrinterShell::all_functions() {
  std::map<std::string, size_t> sorted;
  for (size_t i = 1; i < function_names_.size(); i++) sorted[function_names_[i]] = i;
  std::vector<size_t> order = {0};
  for (const auto& [name, index] : sorted) order.push_back(index);

  std::string prototypes, definitions;
  for (size_t i : order) {
    // Nothing calls the entry.
    if (i != 0) prototypes += prototype(i) + ";\n";
    definitions += "\n" + definition(i);
  }
  if (!status_.ok()) return status_;
  std::string text = constants_;
  if (!text.empty()) text += "\n";
  return text + prototypes + definitions;
}

std::string PrinterShell::constant_array(const Alloc& n) {
  const std::string base =
      fmt::format("{}_u8_{}", function_names_[function_], c_identifier(n.buffer->name, dialect_.reserved));
  std::string name = base;
  for (int i = 1; !constant_names_.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
  std::string bytes;
  for (const std::byte b : n.data) bytes += fmt::format("{}{}", bytes.empty() ? "" : ",", static_cast<unsigned>(b));
  constants_ += fmt::format("{}{}[{}] = {{{}}};\n", dialect_.constant, name, n.data.size(), bytes);
  return name;
}

// ---- statements ----

void PrinterShell::body(const Stmt& s) {
  open_scope(1);
  if (const auto* block = s ? s->as<Block>() : nullptr) {
    for (const Stmt& child : block->body) statement(child);
  } else if (s) {
    statement(s);
  }
  close_scope(1);
}

void PrinterShell::if_else(const If& n) {
  const std::string condition = expr(n.condition);
  line(fmt::format("if {} {{", is_parenthesised(condition) ? condition : fmt::format("({})", condition)));
  body(n.then_body);
  if (!is_empty(n.else_body)) {
    line("} else {");
    body(n.else_body);
  }
  line("}");
}

void PrinterShell::comment(const Comment& n) {
  std::string text;
  for (const char c : n.text) text += c == '\n' || c == '\r' || c == '\\' ? ' ' : c;
  line("// " + text);
}

void PrinterShell::line_mark(const Stmt& s) {
  const SourceSpan& span = s->span;
  if (!marks_lines_ || span.file == nullptr || span.line < 1) return;
  std::string file;
  for (const char c : *span.file) {
    if (c == '"' || c == '\\') file += '\\';
    file += c == '\n' || c == '\r' ? ' ' : c;
  }
  raw(fmt::format("#line {} \"{}\"\n", span.line, file));
  marked_ = true;
}

void PrinterShell::statement(const Stmt& s) {
  line_mark(s);
  match(
      s,
      [&](const Define& n) {
        // The value does not see the new name.
        const std::string name = declare(n.var);
        names_.erase(n.var.get());
        const std::string value = n.value ? " = " + expr(n.value) : "";
        names_[n.var.get()] = name;
        line(fmt::format("{} {}{};", c_type(n.var->type), name, value));
      },
      [&](const Assign& n) {
        const std::string name = name_of(*n.var);
        line(fmt::format("{} = {};", name, expr(n.value, name)));
      },
      [&](const LaneWrite& n) { lane_write(n); }, [&](const Store& n) { store(n); }, [&](const Alloc& n) { alloc(n); },
      [&](const For& n) { for_loop(n); },
      [&](const While& n) {
        // The condition has parentheses of its own.
        line(fmt::format("while ({}){{", expr(n.condition)));
        body(n.body);
        line("}");
      },
      [&](const If& n) { if_else(n); }, [&](const Evaluate& n) { line(expr(n.value) + ";"); },
      [&](const Return& n) {
        if (n.value)
          line(fmt::format("return {};", expr(n.value)));
        else
          line(in_entry() ? dialect_.bare_return : "return;");
      },
      [&](const Break&) { line("break;"); },
      [&](const Block& n) {
        if (!dialect_.names_end_with_blocks) {
          for (const Stmt& child : n.body) statement(child);
          return;
        }
        line("{");
        body(s);
        line("}");
      },
      [&](const Comment& n) { comment(n); });
}

// ---- expressions ----

std::string PrinterShell::expr(const Expr& e, const std::string& destination) {
  if (!e) return fail("an expression is missing");
  return match(
      e, [&](const IntImm& n) { return c_number(n.value, e->type.element); },
      [&](const FloatImm& n) { return c_number(n.value, e->type.element); },
      [&](const StringImm& n) { return c_string(n.value); }, [&](const VarRef& n) { return name_of(*n.var); },
      [&](const Unary& n) {
        const std::string operand = expr(n.operand);
        const bool is_bool_scalar = e->type.is_scalar() && e->type.element == DType::kBool;
        if (n.op == UnaryOp::kNot || is_bool_scalar) return fmt::format("(!{})", operand);
        const bool narrow = e->type.is_scalar() && e->type.element != DType::kI32;
        return narrow ? fmt::format("({})(~{})", c_type(e->type), operand) : fmt::format("(~{})", operand);
      },
      [&](const Binary& n) { return binary(n, e); },
      [&](const Select& n) {
        return fmt::format("({} ? {} : {})", expr(n.condition), choice(n.if_true, n.if_false),
                           choice(n.if_false, n.if_true));
      },
      [&](const Cast& n) { return conversion(n, e); }, [&](const Broadcast& n) { return broadcast_text(n, e); },
      [&](const VectorLiteral& n) { return literal(n, e); }, [&](const Load& n) { return load(n); },
      [&](const AddressOf& n) { return "&" + name_of(*n.var); }, [&](const LaneRead& n) { return lane_read(n); },
      [&](const IntrinsicCall& n) { return intrinsic(n, e, destination); },
      [&](const FunctionCall& n) { return function_call(n); });
}

std::string PrinterShell::function_call(const FunctionCall& n) {
  std::string text;
  for (size_t i = 0; i < module_.functions.size(); ++i) {
    if (module_.functions[i]->name == n.function) text = function_names_[i];
  }
  if (text.empty()) return fail(fmt::format("call of the unknown function {}", n.function));
  text += "(";
  for (size_t i = 0; i < n.args.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", expr(n.args[i]));
  return text + ")";
}

}  // namespace aipu::tir
