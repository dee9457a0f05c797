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

const PrinterShell::Dialect& dialect() {
  static const PrinterShell::Dialect one = {
      .text = "C printer",
      .names_end_with_blocks = true,
      .bare_return = "return;",
      .sub_function = "static ",
      .constant = "static __constant uchar __attribute__((aligned(64))) ",
      // words of libc and of the wrapper around an entry
      .reserved = with_cxx_words({"memcpy", "memset", "memmove", "main", "abs", "context", "arguments"}),
  };
  return one;
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

std::string native_identifier(std::string_view name) { return c_identifier(name, dialect().reserved); }

FunctionPrinter::FunctionPrinter(const Module& module, const LaunchNeeds& needs,
                                 const std::vector<std::string>& function_names, bool line_marks)
    : PrinterShell(module, function_names, dialect()), needs_(needs) {
  if (line_marks) mark_lines();
}

// ---- statements ----

void FunctionPrinter::lane_write(const LaneWrite& n) {
  const std::string name = name_of(*n.var);
  if (n.var->type.is_mask())
    line(fmt::format("__set_mask_lane({}, {}, {});", name, expr(n.index), expr(n.value)));
  else
    line(fmt::format("{}[{}] = {};", name, expr(n.index), expr(n.value)));
}

void FunctionPrinter::store(const Store& n) {
  const bool any_alignment = n.pointer->type.lanes > 1 && !is_array(n.pointer);
  if (any_alignment)
    line(fmt::format("__store({}, {}, {});", expr(n.pointer), wide_index(n.index), expr(n.value)));
  else
    line(fmt::format("{} = {};", access(n.pointer, n.index), expr(n.value)));
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

// The C of a bound; that of a variable in front of the loop where C would see it change.
std::string FunctionPrinter::once(const For& n, const Expr& value, std::string_view what) {
  if (!must_hoist(value, n.body)) return expr(value);
  const std::string text = expr(value);
  std::string name = reserve(fmt::format("{}_{}", n.var->name, what));
  line(fmt::format("const {} {} = {};", c_type(n.var->type), name, text));
  return name;
}

// This TEC's round of the loop, if it has one.
void FunctionPrinter::tec_loop(const For& n) {
  line("{");
  open_scope(1);
  const std::string start = expr(n.start), stop = expr(n.stop);
  const std::string name = declare(n.var);
  line(fmt::format("const {} {} = get_local_id(0);", c_type(n.var->type), name));
  line(fmt::format("if (({} <= {}) && ({} < {})) {{", start, name, name, stop));
  body(n.body);
  line("}");
  close_scope(1);
  line("}");
}

void FunctionPrinter::for_loop(const For& n) {
  if (n.kind == ForKind::kTec) return tec_loop(n);
  const bool braces = must_hoist(n.stop, n.body) || must_hoist(n.step, n.body);
  if (braces) line("{");
  open_scope(braces ? 1 : 0);
  const std::string start = expr(n.start), stop = once(n, n.stop, "stop"), step = once(n, n.step, "step");
  const std::string name = declare(n.var);
  line(fmt::format("for ({} {} = {}; {} < {}; {} += {}) {{", c_type(n.var->type), name, start, name, stop, name, step));
  body(n.body);
  line("}");
  close_scope(braces ? 1 : 0);
  if (braces) line("}");
}

void FunctionPrinter::alloc(const Alloc& n) {
  const Type element = n.buffer->type.pointee();
  const std::string type = c_type(element);
  const Scope scope = n.buffer->type.scope;
  const std::string name = declare(n.buffer);
  arrays_.insert(n.buffer.get());
  if (!n.data.empty()) {
    // Constant contents are bytes before the function; the variable points to them.
    const std::string array = constant_array(n);
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

std::string FunctionPrinter::splat(const Type& type, const std::string& scalar) {
  return fmt::format("__splat<{}>({})", c_type(type), scalar);
}

std::string FunctionPrinter::open_lanes(const Type& type, const std::string&) { return zero(type); }

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

std::string FunctionPrinter::broadcast_text(const Broadcast& n, const Expr& e) {
  if (!e->type.is_mask()) return splat(e->type, expr(n.scalar));
  return fmt::format("__splat_mask<{}>({})", e->type.lanes, expr(n.scalar));
}

std::string FunctionPrinter::load(const Load& n) {
  if (n.pointer->type.lanes > 1 && !is_array(n.pointer))
    return fmt::format("__load({}, {})", expr(n.pointer), wide_index(n.index));
  return access(n.pointer, n.index);
}

std::string FunctionPrinter::intrinsic(const IntrinsicCall& n, const Expr& e, const std::string&) {
  return print_intrinsic(*this, n, e->type);
}

std::string FunctionPrinter::lane_read(const LaneRead& n) {
  const Type& type = n.vector->type;
  if (type.is_mask()) return fmt::format("__get_mask_lane({}, {})", expr(n.vector), expr(n.index));
  if (is_16_bit_float(type.element) || n.vector->as<VarRef>() == nullptr)
    return fmt::format("__get_lane({}, {})", expr(n.vector), expr(n.index));
  return fmt::format("{}[{}]", expr(n.vector), expr(n.index));
}

std::string FunctionPrinter::binary(const Binary& n, const Expr& e) {
  const Type& operand = n.lhs->type;
  if (operand.is_vector()) return vector_binary(n, e->type);
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
  const DType element = e->type.element;
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
      return fmt::format("{}<{}>({}, {})", n.op == BinaryOp::kDiv ? "__div" : "__mod", c_type(e->type), lhs, rhs);
    }
  }
  if (n.op == BinaryOp::kMod && is_floating(element)) return fail("% on floats");
  const std::string text = fmt::format("({} {} {})", lhs, symbol, right);
  return element == DType::kI32 ? text : fmt::format("({}){}", c_type(e->type), text);
}

std::string FunctionPrinter::vector_binary(const Binary& n, const Type& type) {
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
  const std::string call_arguments = fmt::format("{}, {}, {}, {}", zero(type), lhs, rhs, all);
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

std::string FunctionPrinter::conversion(const Cast& n, const Expr& e) {
  const Type& from = n.operand->type;
  const Type& to = e->type;
  std::string operand = expr(n.operand);
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

std::string FunctionPrinter::literal(const VectorLiteral& n, const Expr& e) {
  const Type& type = e->type;
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
