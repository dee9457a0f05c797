#include "codegen/compass_c/text_printer.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/c_spelling/c_names.h"
#include "codegen/compass_c/passes.h"
#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/visit.h"

namespace aipu::tir::c_text {
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

// Without the casts between pointers around it.
const Expr& uncast(const Expr& pointer) {
  const Expr* at = &pointer;
  while ((*at)->as<Cast>() != nullptr && (*at)->as<Cast>()->operand->type.pointer && (*at)->type.pointer)
    at = &(*at)->as<Cast>()->operand;
  return *at;
}

bool is_zero(const Expr& e) { return as_int(e) == 0; }

}  // namespace

std::string TextPrinter::fail(std::string message) {
  if (status_.ok())
    status_ = internal_error(fmt::format("c_code of function {}: {}", module_.functions[function_]->name, message));
  return {};
}

void TextPrinter::line(std::string_view text) {
  out_.append(static_cast<size_t>(indent_) * 2, ' ');
  out_ += text;
  out_ += '\n';
}

void TextPrinter::use_dma_macro(const std::string& macro) {
  if (dma_macros_.find(macro + "\n") == std::string::npos) dma_macros_ += macro + "\n";
}

// ---- names: unique within the function ----

std::string TextPrinter::reserve(std::string_view wanted) {
  const std::string base = valid_identifier(wanted);
  std::string name = base;
  int& next = next_[base];
  while (!taken_.insert(name).second) name = fmt::format("{}_{}", base, ++next);
  return name;
}

std::string TextPrinter::declare(const VarPtr& var) { return names_[var.get()] = reserve(var->name); }

std::string TextPrinter::name_of(const Var& var) {
  const auto it = names_.find(&var);
  return it != names_.end() ? it->second : fail(fmt::format("variable {} is used before its definition", var.name));
}

// ---- functions ----

std::string TextPrinter::prototype(size_t function) {
  function_ = function;
  const PrimFunc& f = *module_.functions[function];
  names_.clear();
  next_.clear();
  taken_ = {function_names_.begin(), function_names_.end()};
  std::string text = function == 0 ? "__kernel " : "";
  if (f.inline_hint == InlineHint::kInline) text += "_CLC_INLINE ";
  if (f.inline_hint == InlineHint::kNoInline) text += "_CLC_NOINLINE ";
  text += fmt::format("{} {}(", type_name(f.return_type), function_names_[function]);
  for (size_t i = 0; i < f.params.size(); ++i) {
    const VarPtr& param = f.params[i];
    const bool restricted = param->restrict_ && param->type.pointer;
    text += fmt::format("{}{} {}{}", i == 0 ? "" : ", ", type_name(param->type), restricted ? "restrict " : "",
                        declare(param));
  }
  return text + ")";
}

std::string TextPrinter::definition(size_t function) {
  const std::string head = prototype(function);
  const PrimFunc& f = *module_.functions[function];
  out_.clear();
  indent_ = 0;
  line(head + " {");
  if (function == 0) {
    bool events = false;
    for (const PrimFuncPtr& any : module_.functions) {
      walk(
          any->body,
          [&](const Expr& e) {
            const auto* call = e->as<IntrinsicCall>();
            events |= call != nullptr && call->intrinsic->name == "alloc_event";
          },
          [](const Stmt&) {});
    }
    if (events) out_ += "  *addr_of_event_state() = 0;\n";
  }
  body(f.body);
  if (function == 0) out_ += "  barrier(CLK_LOCAL_MEM_FENCE);\n";
  line("}");
  return std::move(out_);
}

// ---- statements ----

void TextPrinter::body(const Stmt& s) {
  ++indent_;
  if (s) stmt(s);
  --indent_;
}

void TextPrinter::stmt(const Stmt& s) {
  match(
      s,
      [&](const Define& n) {
        // The value does not see the new name, but for the lanes that it leaves as they are.
        const std::string type = type_name(n.var->type);
        const std::string name = declare(n.var);
        names_.erase(n.var.get());
        const std::string value = n.value ? " = " + expr(n.value, name) : "";
        names_[n.var.get()] = name;
        line(fmt::format("{} {}{};", type, name, value));
      },
      [&](const Assign& n) {
        const std::string name = name_of(*n.var);
        line(fmt::format("{} = {};", name, expr(n.value, name)));
      },
      [&](const LaneWrite& n) { line(fmt::format("{}[{}] = {};", name_of(*n.var), expr(n.index), expr(n.value))); },
      [&](const Store& n) {
        const std::string place = access(n.pointer, n.index);
        line(fmt::format("{} = {};", place, expr(n.value, place)));
      },
      [&](const Alloc& n) { alloc(n); }, [&](const For& n) { for_loop(n); },
      [&](const While& n) {
        line(fmt::format("while ({}){{", expr(n.condition)));
        body(n.body);
        line("}");
      },
      [&](const If& n) {
        const std::string condition = expr(n.condition);
        line(fmt::format("if {} {{", is_parenthesised(condition) ? condition : fmt::format("({})", condition)));
        body(n.then_body);
        if (!is_empty(n.else_body)) {
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
          line(function_ == 0 ? "barrier(CLK_LOCAL_MEM_FENCE);return;" : "return;");
      },
      [&](const Break&) { line("break;"); },
      [&](const Block& n) {
        // Names are unique: no braces.
        for (const Stmt& child : n.body) stmt(child);
      },
      [&](const Comment& n) {
        std::string text;
        for (const char c : n.text) text += c == '\n' || c == '\r' || c == '\\' ? ' ' : c;
        line("// " + text);
      });
}

void TextPrinter::for_loop(const For& n) {
  const std::string start = expr(n.start), step = expr(n.step);
  std::string bound = expr(n.stop);
  if (!is_zero(n.start))
    bound = fmt::format("{}+{}", start, expr(simplify(tir::binary(BinaryOp::kSub, n.stop, n.start))));
  const std::string name = declare(n.var);
  line(fmt::format("for ({} {} = {}; {} < {}; {} += {}) {{", type_name(n.var->type), name, start, name, bound, name,
                   step));
  body(n.body);
  line("}");
}

void TextPrinter::alloc(const Alloc& n) {
  const Type element = n.buffer->type.pointee();
  const std::string_view qualifier = scope_qualifier(n.buffer->type.scope);
  if (n.data.empty()) {
    const std::string name = declare(n.buffer);
    line(fmt::format("{}{} {}[{}];", qualifier, type_name(element), name, std::max<int64_t>(n.count, 1)));
    return;
  }
  // Constant contents are bytes in front of the functions.
  const std::string base = fmt::format("{}_u8_{}", function_names_[function_], valid_identifier(n.buffer->name));
  std::string array = base;
  for (int i = 1; !constant_names_.insert(array).second; ++i) array = fmt::format("{}_{}", base, i);
  std::string bytes;
  for (const std::byte b : n.data) bytes += fmt::format("{}{}", bytes.empty() ? "" : ",", static_cast<unsigned>(b));
  constants_ +=
      fmt::format("__constant uchar __attribute__((aligned(32))) {}[{}] = {{{}}};\n", array, n.data.size(), bytes);
  const bool plain = element == Type::scalar(DType::kU8);
  names_[n.buffer.get()] = plain ? array : fmt::format("({}){}", type_name(n.buffer->type), array);
}

// ---- memory ----

std::string TextPrinter::access(const Expr& pointer, const Expr& index) {
  // (p + k)[0] is p[k].
  const auto* moved = pointer->as<Binary>();
  if (moved != nullptr && moved->op == BinaryOp::kAdd && is_zero(index)) return access(moved->lhs, moved->rhs);
  // A lane of an array of vectors is one of a vector.
  const auto* cast = pointer->as<Cast>();
  const auto lane = as_int(index);
  if (cast != nullptr && lane && *lane >= 0 && pointer->type.lanes == 1 && cast->operand->as<VarRef>() != nullptr) {
    const Type& array = cast->operand->type;
    if (array.scope == Scope::kPrivate && array.lanes > 1 && array.element == pointer->type.element)
      return fmt::format("{}[{}][{}]", expr(cast->operand), *lane / array.lanes, *lane % array.lanes);
  }
  std::string base = expr(pointer);
  // A cast binds weaker than the subscript.
  if (base.starts_with('(') && pointer->as<Binary>() == nullptr) base = fmt::format("({})", base);
  if (pointer->as<AddressOf>() != nullptr) base = fmt::format("({})", base);
  return fmt::format("{}[{}]", base, index_text(index));
}

std::string TextPrinter::index_text(const Expr& e) {
  if (const auto value = as_int(e); value && *value >= INT32_MIN && *value <= INT32_MAX)
    return number(*value, DType::kI32);
  const auto* cast = e->as<Cast>();
  const bool widened = cast != nullptr && dtype_bits(e->type.element) == 64 && is_integer(cast->operand->type.element);
  return expr(widened ? cast->operand : e);
}

std::string TextPrinter::pointer_as(const Expr& pointer, const Type& pointee) {
  const Type wanted = Type::pointer_to(pointee.element, pointee.lanes, pointer->type.scope);
  if (pointer->type == wanted) return expr(pointer);
  const Expr& operand = uncast(pointer);
  return operand->type == wanted ? expr(operand) : fmt::format("({}){}", type_name(wanted), expr(operand));
}

std::string TextPrinter::named_access(const Expr& pointer, const Type& pointee) {
  const Expr* root = &pointer;
  while (true) {
    if (const auto* n = (*root)->as<Binary>())
      root = &n->lhs;
    else if (const auto* cast = (*root)->as<Cast>(); cast != nullptr && cast->operand->type.pointer)
      root = &cast->operand;
    else
      break;
  }
  if ((*root)->as<VarRef>() == nullptr) return {};
  const Type wanted = Type::pointer_to(pointee.element, pointee.lanes, pointer->type.scope);
  return access(tir::cast(wanted, pointer), int_imm(0));
}

std::string TextPrinter::splat(const Type& type, const std::string& scalar) const {
  return fmt::format("({}){}", type_name(type), scalar);
}

// ---- masks ----

std::string TextPrinter::all_true(int lanes) {
  return lanes == 8 ? "ALL_TRUE_w" : lanes == 16 ? "ALL_TRUE_h" : lanes == 32 ? "ALL_TRUE_b" : "ALL_TRUE";
}

std::string TextPrinter::mask_or_all(const Expr& mask, int lanes) { return mask ? expr(mask) : all_true(lanes); }

// ---- expressions ----

std::string TextPrinter::expr(const Expr& e, const std::string& destination) {
  if (!e) return fail("an expression is missing");
  return match(
      e, [&](const IntImm& n) { return number(n.value, e->type.element); },
      [&](const FloatImm& n) { return number(n.value, e->type.element); },
      [&](const StringImm& n) { return quoted(n.value); }, [&](const VarRef& n) { return name_of(*n.var); },
      [&](const Unary& n) {
        const std::string operand = expr(n.operand);
        const bool is_bool_scalar = e->type.is_scalar() && e->type.element == DType::kBool;
        if (n.op == UnaryOp::kNot || is_bool_scalar) return fmt::format("(!{})", operand);
        const bool narrow = e->type.is_scalar() && e->type.element != DType::kI32;
        return narrow ? fmt::format("({})(~{})", type_name(e->type), operand) : fmt::format("(~{})", operand);
      },
      [&](const Binary& n) { return binary(n, *e); },
      [&](const Select& n) {
        return fmt::format("({} ? {} : {})", expr(n.condition), expr(n.if_true), expr(n.if_false));
      },
      [&](const Cast& n) {
        if (e->type.pointer && n.operand->type.pointer)
          return fmt::format("({}){}", type_name(e->type), expr(uncast(n.operand)));
        const bool plain = e->type.is_scalar() || e->type.pointer || n.operand->type.pointer;
        if (plain) return fmt::format("({}){}", type_name(e->type), expr(n.operand));
        const auto* call = n.operand->as<IntrinsicCall>();
        const bool rounds =
            call != nullptr && call->intrinsic->name == "rint" && !call->mask && is_integer(e->type.element);
        if (rounds && spelling_.combine_instructions)
          return fmt::format("__vcvt_{}({})", type_name(e->type), expr(call->args[0]));
        const Type from = n.operand->type;
        const bool same_bits = is_integer(from.element) && is_integer(e->type.element) &&
                               dtype_bits(from.element) == dtype_bits(e->type.element);
        return fmt::format("{}_{}({})", same_bits ? "as" : "convert", type_name(e->type), expr(n.operand));
      },
      [&](const Broadcast& n) {
        if (!e->type.is_mask()) return splat(e->type, expr(n.scalar));
        const auto known = as_int(n.scalar);
        if (known && *known != 0) return all_true(e->type.lanes);
        const std::string none = fmt::format("__vmov_{}(0x00000000)", e->type.lanes == 8    ? 'w'
                                                                      : e->type.lanes == 16 ? 'h'
                                                                                            : 'b');
        return known ? none : fmt::format("({} ? {} : {})", expr(n.scalar), all_true(e->type.lanes), none);
      },
      [&](const VectorLiteral& n) { return literal(n, *e); }, [&](const Load& n) { return access(n.pointer, n.index); },
      [&](const AddressOf& n) { return "&" + name_of(*n.var); },
      [&](const LaneRead& n) { return fmt::format("{}[{}]", expr(n.vector), expr(n.index)); },
      [&](const IntrinsicCall& n) { return spell_intrinsic(*this, n, *e, destination); },
      [&](const FunctionCall& n) {
        std::string text;
        for (size_t i = 0; i < module_.functions.size(); ++i) {
          if (module_.functions[i]->name == n.function) text = function_names_[i];
        }
        if (text.empty()) return fail(fmt::format("call of the unknown function {}", n.function));
        text += "(";
        for (size_t i = 0; i < n.args.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", expr(n.args[i]));
        return text + ")";
      });
}

std::string TextPrinter::binary(const Binary& n, const ExprNode& node) {
  const bool moves = n.lhs->type.pointer && !is_comparison(n.op);
  const std::string lhs = expr(n.lhs), rhs = moves ? index_text(n.rhs) : expr(n.rhs);
  const std::string_view symbol = binary_op_symbol(n.op);
  if (n.op == BinaryOp::kAnd) return fmt::format("({} && {})", lhs, rhs);
  if (n.op == BinaryOp::kOr) return fmt::format("({} || {})", lhs, rhs);
  if (n.op == BinaryOp::kMin || n.op == BinaryOp::kMax) return fmt::format("{}({}, {})", symbol, lhs, rhs);
  const std::string text = fmt::format("({} {} {})", lhs, symbol, rhs);
  // C computes in int or float; the cast brings the result back.
  const bool arithmetic =
      n.op == BinaryOp::kAdd || n.op == BinaryOp::kSub || n.op == BinaryOp::kMul || n.op == BinaryOp::kDiv;
  const bool brought_back =
      arithmetic && !n.lhs->type.pointer && node.type.is_scalar() && node.type.element != DType::kI32;
  return brought_back ? fmt::format("({}){}", type_name(node.type), text) : text;
}

std::string TextPrinter::literal(const VectorLiteral& n, const ExprNode& node) {
  const int lanes = node.type.lanes;
  const bool constant =
      std::all_of(n.lanes.begin(), n.lanes.end(), [](const Expr& lane) { return as_int(lane).has_value(); });
  if (node.type.is_mask() && constant) {
    const auto on = [](const Expr& lane) { return *as_int(lane) != 0; };
    if (std::all_of(n.lanes.begin(), n.lanes.end(), on)) return all_true(lanes);
    if (lanes == 8 || lanes == 16 || lanes == 32) {
      uint32_t bytes = 0;
      for (int i = 0; i < lanes; ++i) {
        if (on(n.lanes[static_cast<size_t>(i)])) bytes |= uint32_t{1} << (i * 32 / lanes);
      }
      return fmt::format("__vmov_{}(0x{:08x})", lanes == 8 ? 'w' : lanes == 16 ? 'h' : 'b', bytes);
    }
  }
  std::string text;
  for (const Expr& lane : n.lanes) text += fmt::format("{}{}", text.empty() ? "" : ",", expr(lane));
  return fmt::format("({})({})", type_name(node.type), text);
}

}  // namespace aipu::tir::c_text
