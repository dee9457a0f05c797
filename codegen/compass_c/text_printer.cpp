#include "codegen/compass_c/text_printer.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/c_spelling/c_names.h"
#include "codegen/compass_c/passes.h"
#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/visit.h"

namespace aipu::tir::c_text {
namespace {

// Without the casts between pointers around it.
const Expr& uncast(const Expr& pointer) {
  const Expr* at = &pointer;
  while ((*at)->as<Cast>() != nullptr && (*at)->as<Cast>()->operand->type.pointer && (*at)->type.pointer)
    at = &(*at)->as<Cast>()->operand;
  return *at;
}

bool is_zero(const Expr& e) { return as_int(e) == 0; }

// Whether its text has no type in it: 7, (c ? 7 : 8).
bool is_bare_number(const Expr& e) {
  if (const auto* n = e->as<Select>()) return is_bare_number(n->if_true) && is_bare_number(n->if_false);
  const auto value = as_int(e);
  return value && *value != INT32_MIN && e->type == Type::scalar(DType::kI32);
}

char mask_letter(int lanes) { return lanes == 8 ? 'w' : lanes == 16 ? 'h' : 'b'; }

bool is_mask_register(int lanes) { return lanes == 8 || lanes == 16 || lanes == 32; }

std::string no_lanes(const Type& mask) {
  if (is_mask_register(mask.lanes)) return fmt::format("__vmov_{}(0x00000000)", mask_letter(mask.lanes));
  std::string lanes = "false";
  for (int i = 1; i < mask.lanes; ++i) lanes += ",false";
  return fmt::format("({})({})", c_type(mask), lanes);
}

const PrinterShell::Dialect& dialect() {
  static const PrinterShell::Dialect one = {
      .text = "c_code",
      .names_end_with_blocks = false,
      .bare_return = "barrier(CLK_LOCAL_MEM_FENCE);return;",
      .sub_function = "",
      .constant = "__constant uchar __attribute__((aligned(32))) ",
      .reserved = with_cxx_words({"kernel", "global", "local", "constant"}),
  };
  return one;
}

}  // namespace

TextPrinter::TextPrinter(const Module& module, const std::vector<std::string>& function_names, const Spelling& spelling)
    : PrinterShell(module, function_names, dialect()), spelling_(spelling) {}

std::string valid_identifier(std::string_view name) { return c_identifier(name, dialect().reserved); }

void TextPrinter::use_dma_macro(const std::string& macro) {
  if (dma_macros_.find(macro + "\n") == std::string::npos) dma_macros_ += macro + "\n";
}

// ---- functions and statements ----

void TextPrinter::begin_definition() {
  if (!in_entry()) return;
  bool events = false;
  for (const PrimFuncPtr& any : module().functions) {
    walk(
        any->body,
        [&](const Expr& e) {
          const auto* call = e->as<IntrinsicCall>();
          events |= call != nullptr && call->intrinsic->name == "alloc_event";
        },
        [](const Stmt&) {});
  }
  if (events) raw("  *addr_of_event_state() = 0;\n");
}

void TextPrinter::end_definition() {
  if (in_entry()) raw("  barrier(CLK_LOCAL_MEM_FENCE);\n");
}

void TextPrinter::lane_write(const LaneWrite& n) {
  line(fmt::format("{}[{}] = {};", name_of(*n.var), expr(n.index), expr(n.value)));
}

void TextPrinter::store(const Store& n) {
  const std::string place = access(n.pointer, n.index);
  line(fmt::format("{} = {};", place, expr(n.value, place)));
}

void TextPrinter::for_loop(const For& n) {
  const std::string start = expr(n.start), step = expr(n.step);
  std::string bound = expr(n.stop);
  if (!is_zero(n.start))
    bound = fmt::format("{}+{}", start, expr(simplify(tir::binary(BinaryOp::kSub, n.stop, n.start))));
  const std::string name = declare(n.var);
  line(
      fmt::format("for ({} {} = {}; {} < {}; {} += {}) {{", c_type(n.var->type), name, start, name, bound, name, step));
  body(n.body);
  line("}");
}

void TextPrinter::alloc(const Alloc& n) {
  const Type element = n.buffer->type.pointee();
  const std::string_view qualifier = scope_qualifier(n.buffer->type.scope);
  if (n.data.empty()) {
    const std::string name = declare(n.buffer);
    line(fmt::format("{}{} {}[{}];", qualifier, c_type(element), name, std::max<int64_t>(n.count, 1)));
    if (n.buffer->type.scope != Scope::kPrivate) arrays_.push_back(n.buffer.get());
    return;
  }
  // Constant contents are bytes in front of the functions.
  const std::string array = constant_array(n);
  const bool plain = element == Type::scalar(DType::kU8);
  rename(*n.buffer, plain ? array : fmt::format("({}){}", c_type(n.buffer->type), array));
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
    return c_number(*value, DType::kI32);
  const auto* cast = e->as<Cast>();
  const bool widened = cast != nullptr && dtype_bits(e->type.element) == 64 && is_integer(cast->operand->type.element);
  return expr(widened ? cast->operand : e);
}

std::string TextPrinter::pointer_as(const Expr& pointer, const Type& pointee) {
  const Type wanted = Type::pointer_to(pointee.element, pointee.lanes, pointer->type.scope);
  if (pointer->type == wanted) return expr(pointer);
  const Expr& operand = uncast(pointer);
  return operand->type == wanted ? expr(operand) : fmt::format("({}){}", c_type(wanted), expr(operand));
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

std::string TextPrinter::splat(const Type& type, const std::string& scalar) {
  return fmt::format("({}){}", c_type(type), scalar);
}

// ---- masks ----

std::string TextPrinter::mask_or_all(const Expr& mask, int lanes) { return mask ? expr(mask) : all_true(lanes); }

std::string TextPrinter::open_lanes(const Type& type, const std::string& destination) {
  if (!destination.empty() && spelling_.revise_pass_through) return destination;
  const Expr zero = is_floating(type.element) ? float_imm(0, type.element) : int_imm(0, type.element);
  return expr(broadcast(zero, type.lanes));
}

// ---- expressions ----

std::string TextPrinter::load(const Load& n) { return access(n.pointer, n.index); }

std::string TextPrinter::lane_read(const LaneRead& n) { return fmt::format("{}[{}]", expr(n.vector), expr(n.index)); }

// In C the two have one type; of a prelude whose integers are classes a bare number is none.
std::string TextPrinter::choice(const Expr& e, const Expr& other) {
  return is_bare_number(e) && !is_bare_number(other) ? "(int)" + expr(e) : expr(e);
}

std::string TextPrinter::intrinsic(const IntrinsicCall& n, const Expr& e, const std::string& destination) {
  return spell_intrinsic(*this, n, e->type, destination);
}

std::string TextPrinter::conversion(const Cast& n, const Expr& e) {
  if (e->type.pointer && n.operand->type.pointer)
    return fmt::format("({}){}", c_type(e->type), expr(uncast(n.operand)));
  const bool plain = e->type.is_scalar() || e->type.pointer || n.operand->type.pointer;
  if (plain) return fmt::format("({}){}", c_type(e->type), expr(n.operand));
  const auto* call = n.operand->as<IntrinsicCall>();
  const bool rounds = call != nullptr && call->intrinsic->name == "rint" && !call->mask && is_integer(e->type.element);
  if (rounds && spelling_.combine_instructions)
    return fmt::format("__vcvt_{}({})", c_type(e->type), expr(call->args[0]));
  const Type from = n.operand->type;
  const bool same_bits = is_integer(from.element) && is_integer(e->type.element) &&
                         dtype_bits(from.element) == dtype_bits(e->type.element);
  return fmt::format("{}_{}({})", same_bits ? "as" : "convert", c_type(e->type), expr(n.operand));
}

std::string TextPrinter::broadcast_text(const Broadcast& n, const Expr& e) {
  if (!e->type.is_mask()) return splat(e->type, expr(n.scalar));
  const auto known = as_int(n.scalar);
  if (known && *known != 0) return all_true(e->type.lanes);
  const std::string none = no_lanes(e->type);
  return known ? none : fmt::format("({} ? {} : {})", expr(n.scalar), all_true(e->type.lanes), none);
}

std::string TextPrinter::binary(const Binary& n, const Expr& e) {
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
  const bool brought_back = arithmetic && !n.lhs->type.pointer && e->type.is_scalar() && e->type.element != DType::kI32;
  return brought_back ? fmt::format("({}){}", c_type(e->type), text) : text;
}

std::string TextPrinter::literal(const VectorLiteral& n, const Expr& e) {
  const int lanes = e->type.lanes;
  const bool constant =
      std::all_of(n.lanes.begin(), n.lanes.end(), [](const Expr& lane) { return as_int(lane).has_value(); });
  if (e->type.is_mask() && constant) {
    const auto on = [](const Expr& lane) { return *as_int(lane) != 0; };
    if (std::all_of(n.lanes.begin(), n.lanes.end(), on)) return all_true(lanes);
    if (is_mask_register(lanes)) {
      uint32_t bytes = 0;
      for (int i = 0; i < lanes; ++i) {
        if (on(n.lanes[static_cast<size_t>(i)])) bytes |= uint32_t{1} << (i * 32 / lanes);
      }
      return fmt::format("__vmov_{}(0x{:08x})", mask_letter(lanes), bytes);
    }
  }
  std::string text;
  for (const Expr& lane : n.lanes) text += fmt::format("{}{}", text.empty() ? "" : ",", expr(lane));
  return fmt::format("({})({})", c_type(e->type), text);
}

}  // namespace aipu::tir::c_text
