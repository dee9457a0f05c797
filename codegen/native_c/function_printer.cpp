#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "codegen/c_spelling/c_names.h"
#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/intrinsics/lane_types.h"
#include "codegen/native_c/function_printer.h"
#include "codegen/tir/visit.h"

namespace aipu::tir {
namespace {

// What a variable may not be called: C++ keywords, and the prelude's names that do not start with two underscores.
const std::set<std::string, std::less<>>& reserved_names() {
  static const std::set<std::string, std::less<>> names = [] {
    std::set<std::string, std::less<>> all = {
        "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch",
        "char", "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return", "co_yield", "compl", "concept",
        "const", "const_cast", "consteval", "constexpr", "constinit", "continue", "decltype", "default", "delete", "do",
        "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend",
        "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
        "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires",
        "restrict", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch",
        "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "typeof", "union",
        "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq", "linux", "unix",
        // prelude and libc
        "half", "bf16", "uchar", "ushort", "uint", "ulong", "max", "min", "fma", "rint", "isnan", "isinf", "isfinite",
        "exp", "log", "tanh", "sin", "cos", "sqrt", "rsqrt", "floor", "ceil", "erf", "exp2", "pow", "trunc", "round",
        "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "vexp", "vexp2", "vlog", "vtanh",
        "verf", "vsin", "vcos", "vtan", "vasin", "vacos", "vatan", "vsinh", "vcosh", "vasinh", "vacosh", "vatanh",
        "vsqrt", "vrsqrt", "vfloor", "vceil", "vtrunc", "vround", "vpow", "ceildiv", "printf", "barrier",
        "get_local_id", "get_local_size", "alloc_event", "wait_events", "free_events", "INFINITY", "NAN", "ALL_TRUE",
        "log2", "log10", "sigmoid", "vlog2", "vlog10", "vsigmoid", "ALL_TRUE_w", "ALL_TRUE_h", "ALL_TRUE_b",
        "CLK_LOCAL_MEM_FENCE", "kGlobal", "kLsram", "kShared", "memcpy", "memset", "memmove", "main", "abs", "context",
        "arguments"};
    for (const char* base : {"char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bf16",
                             "float", "double", "bool"}) {
      for (int lanes : {2, 4, 8, 16, 32, 64}) all.insert(fmt::format("{}{}", base, lanes));
    }
    return all;
  }();
  return names;
}

std::string int_constant(int64_t value, DType dtype) {
  if (dtype == DType::kBool) return value != 0 ? "true" : "false";
  if (dtype == DType::kI32) return value == INT32_MIN ? "(int)-2147483648" : fmt::format("{}", value);
  if (dtype == DType::kU64) return fmt::format("(ulong){}u", static_cast<uint64_t>(value));
  if (value == INT64_MIN) return "(long)(-9223372036854775807 - 1)";
  return fmt::format("({}){}", c_element(dtype), value);
}

std::string float_constant(double value, DType dtype) {
  std::string text;
  if (std::isnan(value))
    text = "NAN";
  else if (std::isinf(value))
    text = value < 0 ? "-INFINITY" : "INFINITY";
  else
    text = fmt::format("{:a}{}/*{:e}*/", value, dtype == DType::kF64 ? "" : "f", value);
  return dtype == DType::kF32 || (dtype == DType::kF64 && std::isfinite(value))
             ? text
             : fmt::format("({}){}", c_element(dtype), text);
}

bool is_16_bit_float(DType d) { return d == DType::kF16 || d == DType::kBF16; }

std::string_view compare_name(BinaryOp op) {
  switch (op) {
    case BinaryOp::kEq:
      return "eq";
    case BinaryOp::kNe:
      return "neq";
    case BinaryOp::kLt:
      return "lt";
    case BinaryOp::kLe:
      return "le";
    case BinaryOp::kGt:
      return "gt";
    default:
      return "ge";
  }
}

}  // namespace

std::string c_type(const Type& type) {
  std::string text(type.pointer ? scope_qualifier(type.scope) : "");
  text += c_element(type.element);
  if (type.lanes > 1) text += std::to_string(type.lanes);
  if (type.pointer) text += "*";
  return text;
}

std::string c_identifier(std::string_view name) {
  std::string text;
  for (char c : name)
    text += (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ? c : '_';
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) text.insert(0, "v");
  if (text.starts_with("__")) text.insert(0, "v");
  if (reserved_names().contains(text)) text += "_";
  return text;
}

FunctionPrinter::FunctionPrinter(const Module& module, const Target& target, const MemoryNeeds& needs,
                                 const std::vector<std::string>& function_names, bool line_marks)
    : module_(module), target_(target), needs_(needs), function_names_(function_names), line_marks_(line_marks) {}

std::string FunctionPrinter::fail(std::string message) {
  if (status_.ok())
    status_ = internal_error(fmt::format("C printer: function {}: {}", module_.functions[function_]->name, message));
  return {};
}

void FunctionPrinter::line(std::string_view text) {
  out_.append(static_cast<size_t>(indent_) * 2, ' ');
  out_ += text;
  out_ += '\n';
}

void FunctionPrinter::mark(const SourceSpan& span) {
  if (!line_marks_ || span.file == nullptr || span.line < 1) return;
  std::string file;
  for (const char c : *span.file) {
    if (c == '"' || c == '\\') file += '\\';
    file += c == '\n' || c == '\r' ? ' ' : c;
  }
  out_ += fmt::format("#line {} \"{}\"\n", span.line, file);
  marked_ = true;
}

std::string FunctionPrinter::reserve(std::string_view wanted) {
  const std::string base = c_identifier(wanted);
  std::string name = base;
  for (int i = 1; !active_.insert(name).second; i++) name = fmt::format("{}_{}", base, i);
  scopes_.back().names.push_back(name);
  return name;
}

std::string FunctionPrinter::declare(const VarPtr& var) { return names_[var.get()] = reserve(var->name); }

std::string FunctionPrinter::name_of(const Var& var) {
  const auto it = names_.find(&var);
  return it != names_.end() ? it->second : fail(fmt::format("variable {} is used before its definition", var.name));
}

std::string FunctionPrinter::prototype(size_t function) {
  function_ = function;
  const PrimFunc& f = *module_.functions[function];
  names_.clear();
  arrays_.clear();
  scopes_.assign(1, {});
  active_ = {function_names_.begin(), function_names_.end()};
  std::string text = function == 0 ? "__kernel " : "static ";
  if (f.inline_hint == InlineHint::kInline) text += "_CLC_INLINE ";
  if (f.inline_hint == InlineHint::kNoInline) text += "_CLC_NOINLINE ";
  text += fmt::format("{} {}(", c_type(f.return_type), function_names_[function]);
  for (size_t i = 0; i < f.params.size(); i++) {
    const VarPtr& param = f.params[i];
    text += fmt::format("{}{} {}{}", i == 0 ? "" : ", ", c_type(param->type),
                        param->restrict_ && param->type.pointer ? "restrict " : "", declare(param));
  }
  return text + ")";
}

std::string FunctionPrinter::definition(size_t function) {
  const std::string head = prototype(function);
  const PrimFunc& f = *module_.functions[function];
  out_.clear();
  indent_ = 0;
  line(head + " {");
  body(f.body);
  line("}");
  if (std::exchange(marked_, false)) out_ += "#line 1 \"generated\"\n";
  return std::move(out_);
}

// ---- statements ----

void FunctionPrinter::body(const Stmt& s) {
  indent_++;
  scopes_.emplace_back();
  if (const auto* inner = s ? s->as<Block>() : nullptr) {
    for (const Stmt& child : inner->body) stmt(child);
  } else if (s) {
    stmt(s);
  }
  for (const std::string& name : scopes_.back().names) active_.erase(name);
  scopes_.pop_back();
  indent_--;
}

std::string FunctionPrinter::condition(const Expr& e) {
  std::string text = expr(e);
  // A comparison brings its own parentheses; the first of "(bool)(a | b)" are others.
  int depth = 0;
  size_t closed = 0;
  for (size_t i = 0; i < text.size() && closed == 0; i++) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) closed = i + 1;
  }
  if (e->as<Binary>() != nullptr && closed == text.size()) return text;
  return fmt::format("({})", text);
}

void FunctionPrinter::stmt(const Stmt& s) {
  mark(s->span);
  match(
      s,
      [&](const Define& n) {
        // The value is printed first: it must not see the new name.
        const std::string value = n.value ? " = " + expr(n.value) : "";
        line(fmt::format("{} {}{};", c_type(n.var->type), declare(n.var), value));
      },
      [&](const Assign& n) { line(fmt::format("{} = {};", name_of(*n.var), expr(n.value))); },
      [&](const LaneWrite& n) {
        const std::string name = name_of(*n.var);
        if (n.var->type.is_mask())
          line(fmt::format("__set_mask_lane({}, {}, {});", name, expr(n.index), expr(n.value)));
        else
          line(fmt::format("{}[{}] = {};", name, expr(n.index), expr(n.value)));
      },
      [&](const Store& n) {
        const bool any_alignment = n.pointer->type.lanes > 1 && !is_array(n.pointer);
        if (any_alignment)
          line(fmt::format("__store({}, {}, {});", expr(n.pointer), wide_index(n.index), expr(n.value)));
        else
          line(fmt::format("{} = {};", access(n.pointer, n.index), expr(n.value)));
      },
      [&](const Alloc& n) { alloc(n); }, [&](const For& n) { for_loop(n); },
      [&](const While& n) {
        line(fmt::format("while {}{{", condition(n.condition)));
        body(n.body);
        line("}");
      },
      [&](const If& n) {
        line(fmt::format("if {} {{", condition(n.condition)));
        body(n.then_body);
        if (n.else_body) {
          line("} else {");
          body(n.else_body);
        }
        line("}");
      },
      [&](const Evaluate& n) { line(expr(n.value) + ";"); },
      [&](const Return& n) {
        if (n.value)
          line(fmt::format("return {};", expr(n.value)));
        else
          line("return;");
      },
      [&](const Break&) { line("break;"); },
      [&](const Block&) {
        line("{");
        body(s);
        line("}");
      },
      [&](const Comment& n) {
        std::string text;
        for (char c : n.text) text += c == '\n' || c == '\r' || c == '\\' ? ' ' : c;
        line("// " + text);
      });
}

// Python evaluates a range once; C evaluates the bound before every iteration.
bool FunctionPrinter::must_hoist(const Expr& bound, const Stmt& loop_body) const {
  std::set<const Var*> used;
  bool effects = false;
  walk(
      make_stmt(Evaluate{bound}),
      [&](const Expr& e) {
        if (const auto* n = e->as<VarRef>()) used.insert(n->var.get());
        if (e->as<Load>() || e->as<IntrinsicCall>() || e->as<FunctionCall>()) effects = true;
      },
      [](const Stmt&) {});
  if (effects) return true;
  bool assigned = false;
  walk(
      loop_body,
      [&](const Expr& e) {
        if (const auto* n = e->as<AddressOf>()) assigned |= used.contains(n->var.get());
      },
      [&](const Stmt& s) {
        if (const auto* n = s->as<Assign>()) assigned |= used.contains(n->var.get());
        if (const auto* n = s->as<LaneWrite>()) assigned |= used.contains(n->var.get());
      });
  return assigned;
}

void FunctionPrinter::for_loop(const For& n) {
  const std::string type = c_type(n.var->type);
  if (n.kind == ForKind::kTec) {
    line("{");
    indent_++;
    scopes_.emplace_back();
    const std::string start = expr(n.start), stop = expr(n.stop);
    const std::string name = declare(n.var);
    line(fmt::format("const {} {} = get_local_id(0);", type, name));
    line(fmt::format("if (({} <= {}) && ({} < {})) {{", start, name, name, stop));
    body(n.body);
    line("}");
    for (const std::string& used : scopes_.back().names) active_.erase(used);
    scopes_.pop_back();
    indent_--;
    line("}");
    return;
  }
  const bool hoist_stop = must_hoist(n.stop, n.body), hoist_step = must_hoist(n.step, n.body);
  const bool block_needed = hoist_stop || hoist_step;
  if (block_needed) {
    line("{");
    indent_++;
  }
  scopes_.emplace_back();
  const std::string start = expr(n.start);
  std::string stop = expr(n.stop), step = expr(n.step);
  if (hoist_stop) {
    const std::string name = reserve(n.var->name + "_stop");
    line(fmt::format("const {} {} = {};", type, name, stop));
    stop = name;
  }
  if (hoist_step) {
    const std::string name = reserve(n.var->name + "_step");
    line(fmt::format("const {} {} = {};", type, name, step));
    step = name;
  }
  const std::string name = declare(n.var);
  line(fmt::format("for ({} {} = {}; {} < {}; {} += {}) {{", type, name, start, name, stop, name, step));
  body(n.body);
  line("}");
  for (const std::string& used : scopes_.back().names) active_.erase(used);
  scopes_.pop_back();
  if (block_needed) {
    indent_--;
    line("}");
  }
}

void FunctionPrinter::alloc(const Alloc& n) {
  const Type element = n.buffer->type.pointee();
  const std::string type = c_type(element);
  const Scope scope = n.buffer->type.scope;
  const std::string name = declare(n.buffer);
  arrays_.insert(n.buffer.get());
  if (!n.data.empty()) {
    // Constant contents are bytes before the function; the variable points to them.
    std::string array = fmt::format("{}_u8_{}", function_names_[function_], c_identifier(n.buffer->name));
    for (int i = 1; !constant_names_.insert(array).second; i++)
      array = fmt::format("{}_u8_{}_{}", function_names_[function_], c_identifier(n.buffer->name), i);
    constants_ += fmt::format("static __constant uchar __attribute__((aligned(64))) {}[{}] = {{", array, n.data.size());
    for (size_t i = 0; i < n.data.size(); i++)
      constants_ += fmt::format("{}{}", i == 0 ? "" : ",", static_cast<unsigned>(n.data[i]));
    constants_ += "};\n";
    line(fmt::format("{0}{1}* {2} = ({0}{1}*){3};", scope_qualifier(scope), type, name, array));
  } else if (scope == Scope::kLsram || scope == Scope::kShared) {
    const auto offset = needs_.memory.offsets.find(n.buffer.get());
    if (offset == needs_.memory.offsets.end()) {
      fail(fmt::format("array {} has no place", n.buffer->name));
      return;
    }
    line(fmt::format("{0}{1}* {2} = {3}<{1}>({4});", scope_qualifier(scope), type, name,
                     scope == Scope::kLsram ? "__lsram_array" : "__shared_array", offset->second));
  } else {
    line(fmt::format("{}{} {}[{}];", scope_qualifier(scope), type, name, std::max<int64_t>(n.count, 1)));
  }
}

// ---- expressions ----

bool FunctionPrinter::is_array(const Expr& pointer) const {
  const auto* ref = pointer->as<VarRef>();
  return (ref != nullptr && arrays_.contains(ref->var.get())) || pointer->as<AddressOf>() != nullptr;
}

std::string FunctionPrinter::access(const Expr& pointer, const Expr& index) {
  std::string base = expr(pointer);
  // A cast binds weaker than the subscript.
  if (pointer->as<Cast>() != nullptr || pointer->as<AddressOf>() != nullptr) base = fmt::format("({})", base);
  return fmt::format("{}[{}]", base, wide_index(index));
}

std::string FunctionPrinter::wide_index(const Expr& e) {
  const auto* n = e->as<Binary>();
  const bool arithmetic = n != nullptr && e->type.is_scalar() && e->type.element == DType::kI32 &&
                          (n->op == BinaryOp::kAdd || n->op == BinaryOp::kSub || n->op == BinaryOp::kMul);
  if (!arithmetic) return expr(e);
  const auto part = [&](const Expr& side, bool widen) {
    const auto* inner = side->as<Binary>();
    if (inner != nullptr) {
      std::string text = wide_index(side);
      if (inner->op == BinaryOp::kAdd || inner->op == BinaryOp::kSub || inner->op == BinaryOp::kMul) return text;
      return widen ? "(long)" + text : text;
    }
    return widen ? "(long)" + expr(side) : expr(side);
  };
  return fmt::format("({} {} {})", part(n->lhs, true), binary_op_symbol(n->op), part(n->rhs, false));
}

std::string FunctionPrinter::zero(const Type& type) { return splat(type, "0"); }

std::string FunctionPrinter::splat(const Type& type, const std::string& scalar) {
  return fmt::format("__splat<{}>({})", c_type(type), scalar);
}

std::string FunctionPrinter::all_true(int lanes) {
  switch (lanes) {
    case 8:
      return "ALL_TRUE_w";
    case 16:
      return "ALL_TRUE_h";
    case 32:
      return "ALL_TRUE_b";
    default:
      return "ALL_TRUE";
  }
}

std::string FunctionPrinter::mask_or_all(const Expr& mask, int lanes) {
  if (!mask) return all_true(lanes);
  if (const auto* n = mask->as<VectorLiteral>()) {
    bool all = true;
    for (const Expr& lane : n->lanes) all &= as_int(lane).value_or(0) != 0;
    if (all) return all_true(lanes);
  }
  if (const auto* n = mask->as<Broadcast>(); n != nullptr && as_int(n->scalar).value_or(0) != 0) return all_true(lanes);
  return expr(mask);
}

std::string FunctionPrinter::pointer_as(const Expr& pointer, const Type& pointee) {
  const Type wanted = Type::pointer_to(pointee.element, pointee.lanes, pointer->type.scope);
  if (pointer->type == wanted) return expr(pointer);
  return fmt::format("({}){}", c_type(wanted), expr(pointer));
}

std::string FunctionPrinter::expr(const Expr& e) {
  if (!e) return fail("an expression is missing");
  return match(
      e, [&](const IntImm& n) { return int_constant(n.value, e->type.element); },
      [&](const FloatImm& n) { return float_constant(n.value, e->type.element); },
      [&](const StringImm& n) {
        std::string text = "\"";
        for (char c : n.value) {
          if (c == '"' || c == '\\')
            text += fmt::format("\\{}", c);
          else if (c == '\n')
            text += "\\n";
          else if (c < ' ' || c > '~')
            text += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
          else
            text += c;
        }
        return text + "\"";
      },
      [&](const VarRef& n) { return name_of(*n.var); },
      [&](const Unary& n) {
        const std::string operand = expr(n.operand);
        if (n.op == UnaryOp::kNot || (e->type.is_scalar() && e->type.element == DType::kBool))
          return fmt::format("(!{})", operand);
        const bool cast = e->type.is_scalar() && e->type.element != DType::kI32;
        return cast ? fmt::format("({})(~{})", c_type(e->type), operand) : fmt::format("(~{})", operand);
      },
      [&](const Binary& n) { return binary(n, *e); },
      [&](const Select& n) {
        return fmt::format("({} ? {} : {})", expr(n.condition), expr(n.if_true), expr(n.if_false));
      },
      [&](const Cast& n) { return conversion(n, *e); },
      [&](const Broadcast& n) {
        if (e->type.is_mask()) {
          return fmt::format("__splat_mask<{}>({})", e->type.lanes, expr(n.scalar));
        }
        return splat(e->type, expr(n.scalar));
      },
      [&](const VectorLiteral& n) { return literal(n, *e); },
      [&](const Load& n) {
        if (n.pointer->type.lanes > 1 && !is_array(n.pointer))
          return fmt::format("__load({}, {})", expr(n.pointer), wide_index(n.index));
        return access(n.pointer, n.index);
      },
      [&](const AddressOf& n) { return "&" + name_of(*n.var); }, [&](const LaneRead& n) { return lane_read(n); },
      [&](const IntrinsicCall& n) { return print_intrinsic(*this, n, *e); },
      [&](const FunctionCall& n) {
        std::string text;
        for (size_t i = 0; i < module_.functions.size(); i++) {
          if (module_.functions[i]->name == n.function) text = function_names_[i];
        }
        if (text.empty()) return fail(fmt::format("call of the unknown function {}", n.function));
        text += "(";
        for (size_t i = 0; i < n.args.size(); i++) text += fmt::format("{}{}", i == 0 ? "" : ", ", expr(n.args[i]));
        return text + ")";
      });
}

std::string FunctionPrinter::lane_read(const LaneRead& n) {
  const Type& type = n.vector->type;
  if (type.is_mask()) return fmt::format("__get_mask_lane({}, {})", expr(n.vector), expr(n.index));
  if (is_16_bit_float(type.element) || n.vector->as<VarRef>() == nullptr)
    return fmt::format("__get_lane({}, {})", expr(n.vector), expr(n.index));
  return fmt::format("{}[{}]", expr(n.vector), expr(n.index));
}

std::string FunctionPrinter::binary(const Binary& n, const ExprNode& node) {
  const Type& operand = n.lhs->type;
  if (operand.is_vector()) return vector_binary(n, node);
  const std::string lhs = expr(n.lhs), rhs = expr(n.rhs);
  const std::string_view symbol = binary_op_symbol(n.op);
  if (operand.pointer) {
    if (is_comparison(n.op)) return fmt::format("({} {} {})", lhs, symbol, rhs);
    return fmt::format("({} {} {})", lhs, symbol, wide_index(n.rhs));
  }
  if (n.op == BinaryOp::kAnd) return fmt::format("({} && {})", lhs, rhs);
  if (n.op == BinaryOp::kOr) return fmt::format("({} || {})", lhs, rhs);
  if (is_comparison(n.op)) return fmt::format("({} {} {})", lhs, symbol, rhs);
  if (n.op == BinaryOp::kMin || n.op == BinaryOp::kMax) return fmt::format("{}({}, {})", symbol, lhs, rhs);
  const DType element = node.type.element;
  std::string right = rhs;
  if (n.op == BinaryOp::kShl || n.op == BinaryOp::kShr) {
    const int bits = scalar_shift_bits(dtype_bits(element));
    const auto count = as_int(n.rhs);
    right = count ? fmt::format("{}", static_cast<uint64_t>(*count) % static_cast<uint64_t>(bits))
                  : fmt::format("({} & {})", rhs, bits - 1);
  }
  if (is_integer(element) && (n.op == BinaryOp::kDiv || n.op == BinaryOp::kMod)) {
    const auto divisor = as_int(n.rhs);
    if (!divisor || *divisor == 0 || *divisor == -1) {
      return fmt::format("{}<{}>({}, {})", n.op == BinaryOp::kDiv ? "__div" : "__mod", c_type(node.type), lhs, rhs);
    }
  }
  if (n.op == BinaryOp::kMod && is_floating(element)) return fail("% on floats");
  const std::string text = fmt::format("({} {} {})", lhs, symbol, right);
  return element == DType::kI32 ? text : fmt::format("({}){}", c_type(node.type), text);
}

std::string FunctionPrinter::vector_binary(const Binary& n, const ExprNode& node) {
  const Type& operand = n.lhs->type;
  const std::string lhs = expr(n.lhs), rhs = expr(n.rhs);
  const std::string all = all_true(operand.lanes);
  if (is_comparison(n.op)) {
    if (operand.is_mask()) {
      if (n.op == BinaryOp::kNe) return fmt::format("({} ^ {})", lhs, rhs);
      if (n.op == BinaryOp::kEq) return fmt::format("(~({} ^ {}))", lhs, rhs);
      return fail("masks have no order");
    }
    const bool is_float = is_floating(operand.element);
    const std::string_view name = n.op == BinaryOp::kNe && is_float ? "ne" : compare_name(n.op);
    return fmt::format("__v{}{}({}, {}, {})", is_float ? "q" : "c", name, lhs, rhs, all);
  }
  const std::string call_arguments = fmt::format("{}, {}, {}, {}", zero(node.type), lhs, rhs, all);
  switch (n.op) {
    case BinaryOp::kDiv:
      return fmt::format("__vdiv({})", call_arguments);
    case BinaryOp::kMod:
      return fmt::format("__vmod({})", call_arguments);
    case BinaryOp::kMin:
      return fmt::format("__vmin({})", call_arguments);
    case BinaryOp::kMax:
      return fmt::format("__vmax({})", call_arguments);
    case BinaryOp::kShl:
      return fmt::format("__vlsl({}, {})", lhs, rhs);
    case BinaryOp::kShr:
      return fmt::format("{}({}, {})", is_signed_int(operand.element) ? "__vasr" : "__vlsr", lhs, rhs);
    case BinaryOp::kAnd:
      return fmt::format("({} & {})", lhs, rhs);
    case BinaryOp::kOr:
      return fmt::format("({} | {})", lhs, rhs);
    default:
      return fmt::format("({} {} {})", lhs, binary_op_symbol(n.op), rhs);
  }
}

std::string FunctionPrinter::conversion(const Cast& n, const ExprNode& node) {
  const Type& from = n.operand->type;
  const Type& to = node.type;
  const std::string operand = expr(n.operand);
  if (to.pointer || from.pointer) {
    // A pointer as an integer is its low bits, as on the device.
    if (from.pointer != to.pointer) return fmt::format("({})(ulong){}", c_type(to), operand);
    return fmt::format("({}){}", c_type(to), operand);
  }
  if (to.is_scalar()) {
    if (is_floating(from.element) && is_integer(to.element))
      return fmt::format("__convert<{}>({})", c_type(to), operand);
    return fmt::format("({}){}", c_type(to), operand);
  }
  if (from.is_mask() && to.is_mask()) return operand;
  if (from.is_mask()) return fmt::format("__mask_to<{}>({})", c_type(to), operand);
  if (to.is_mask()) return fmt::format("__to_mask({})", operand);
  return fmt::format("__convert<{}>({})", c_type(to), operand);
}

std::string FunctionPrinter::literal(const VectorLiteral& n, const ExprNode& node) {
  const Type& type = node.type;
  if (type.is_mask()) {
    uint64_t bits = 0;
    bool constant = n.lanes.size() <= 64;
    for (size_t i = 0; i < n.lanes.size(); i++) {
      const auto lane = as_int(n.lanes[i]);
      if (!lane)
        constant = false;
      else if (i < 64 && *lane != 0)
        bits |= uint64_t{1} << i;
    }
    const int lanes = type.lanes;
    if (constant) return fmt::format("__const_mask<{}>(0x{:x}ul)", lanes, bits);
  }
  std::string lanes;
  for (size_t i = 0; i < n.lanes.size(); i++) lanes += fmt::format("{}{}", i == 0 ? "" : ", ", expr(n.lanes[i]));
  if (type.is_mask()) return fmt::format("__mask_lanes<{}>({})", type.lanes, lanes);
  if (is_16_bit_float(type.element)) return fmt::format("__lanes<{}>({})", c_type(type), lanes);
  return fmt::format("{}{{{}}}", c_type(type), lanes);
}

}  // namespace aipu::tir
