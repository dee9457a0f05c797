// Type constructors, S.cast, S.reinterpret, and masks as arguments.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/dsl/compiler.h"
#include "kernels/dsl/mask_text.h"
#include "kernels/dsl/type_rules.h"

namespace aipu::dsl {
namespace {

bool is_vector(const Value& v) {
  return v.is_expr() && !(*v.as<tir::Expr>())->type.pointer && (*v.as<tir::Expr>())->type.is_vector();
}

std::optional<double> special_float(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

}  // namespace

Value Compiler::construct(const TypeValue& self, CallArguments& arguments, Position position) {
  if (self.type.pointer) fail(position, "A pointer type can't be called.");
  if (self.type.element == DType::kBool) fail(position, "The function only can be used in type annotation.");
  const auto values = take(arguments, type_text(self.type), {"v"}, 1, position);
  Value result = cast_value(values[0], self.type, position);
  if (self.size_var && result.is_expr()) {
    // A node of its own, by which the assignment recognises it.
    const tir::Expr& e = *result.as<tir::Expr>();
    size_value_ = tir::make_expr(e->type, e->node, span(position));
    return {size_value_};
  }
  return result;
}

Value Compiler::s_cast(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "cast", {"x", "dtype", "part", "saturate"}, 2, position);
  const tir::Type type = type_argument(values[1], "dtype", position);
  const bool merge =
      values[0].elements() != nullptr && !values[0].elements()->empty() && is_vector(values[0].elements()->front());
  const bool default_part =
      values[2].is_none() || (values[2].as<std::string>() != nullptr && *values[2].as<std::string>() == "all");
  if (!merge && default_part && values[3].is_none()) return cast_value(values[0], type, position);
  if (!merge && !is_vector(values[0])) {
    if (!values[3].is_none()) {
      fail(position, values[0].elements() != nullptr
                         ? "Currently can't set \"saturate\" when the input is a list or tuple."
                         : "Currently can't set \"saturate\" when the input is scalar.");
    }
    // `part` says nothing about scalars, but it must be one of the parts.
  }
  Value saturate{int64_t{0}};
  if (const auto* flag = values[3].as<bool>()) {
    saturate = {int64_t{*flag ? 2 : 1}};
  } else if (!values[3].is_none()) {
    fail(position, "The arg \"saturate\" expect one of (None, True, False).");
  }
  ValueList operands;
  if (merge) {
    for (const Value& v : *values[0].elements()) {
      if (!is_vector(v)) fail(position, "The data type of all items must be same and must be vector.");
      operands.push_back(v);
    }
  } else if (!is_vector(values[0])) {
    const Value checked =
        call_intrinsic(*required_intrinsic("cast", position), {{constant(int64_t{0}, DType::kI32)}},
                       {{"dtype", {TypeValue{tir::Type::scalar(DType::kI32)}}}, {"part", values[2]}}, position);
    (void)checked;
    return cast_value(values[0], type, position);
  } else {
    operands.push_back(values[0]);
  }
  // The row takes the vectors of a merge as one flattened operand.
  const Value joined = operands.size() == 1 ? operands[0] : make_tuple(operands);
  const Value result = call_intrinsic(*required_intrinsic("cast", position),
                                      {joined, {TypeValue{type}}, values[2], saturate}, {}, position);
  return simplified_cast(result, position);
}

// A cast of all lanes without saturation is the plain node.
Value Compiler::simplified_cast(const Value& value, Position position) {
  const tir::Expr e = *value.as<tir::Expr>();
  const auto* call = e->as<tir::IntrinsicCall>();
  constexpr int64_t kSaturateTrue = 2;
  if (call == nullptr || call->args.size() != 1 || call->attribute("part") != 0 ||
      call->attribute("saturate") == kSaturateTrue)
    return value;
  if (call->args[0]->type.lanes != e->type.lanes) return value;
  return {tir::cast(e->type, call->args[0], span(position))};
}

Value Compiler::cast_value(const Value& value, tir::Type type, Position position) {
  if (type.pointer || type.element == DType::kVoid)
    fail(position, fmt::format("Can't cast to \"{}\".", type_text(type)));
  if (const auto* text = value.as<std::string>()) {
    const auto special = special_float(*text);
    if (!special) fail(position, "The 1st arg expect one of (\"inf\", \"-inf\", \"nan\").");
    if (!is_floating(type.element))
      fail(position, fmt::format("\"{}\" can't be represented by \"{}\".", *text, type_text(type)));
    return {tir::broadcast(constant(*special, type.element), type.lanes)};
  }
  if (value.elements() != nullptr || value.as<ArrayValue>() != nullptr) {
    const ValueList items = iterate(value, position);
    if (type.lanes == 1 && items.size() == 1) return {convert(items[0], type, position)};
    if (type.lanes == 1 && !items.empty()) type = type.with_lanes(static_cast<int>(items.size()));
    if (static_cast<int>(items.size()) != type.lanes) {
      fail(position,
           fmt::format("The length of the 1st arg expect \"{}\", but got: \"{}\".", type.lanes, items.size()));
    }
    std::vector<tir::Expr> lanes;
    for (const Value& item : items) {
      const tir::Expr e = to_expr(item, position);
      if (!e->type.is_scalar()) fail(position, "The items of a vector literal must be scalars.");
      lanes.push_back(convert_element(item, type.element, position));
    }
    return {tir::make_expr(type, tir::VectorLiteral{std::move(lanes)}, span(position))};
  }
  if (is_vector(value)) {
    const tir::Expr& e = *value.as<tir::Expr>();
    if (e->type == type || (type.lanes == 1 && e->type.element == type.element)) return value;
    if (e->type.element == DType::kBool || type.element == DType::kBool) {
      fail(position,
           fmt::format("Unsupported cast directly from \"{}\" to \"{}\"", type_text(e->type), type_text(type)));
    }
    return simplified_cast(
        call_intrinsic(*required_intrinsic("cast", position), {value, {TypeValue{type}}}, {}, position), position);
  }
  if (value.is_expr() && (*value.as<tir::Expr>())->type.pointer) {
    fail(position, fmt::format("Unexpect \"{}\" pointer as argument.", type_text((*value.as<tir::Expr>())->type)));
  }
  return {convert(value, type, position)};
}

Value Compiler::s_reinterpret(CallArguments& arguments, Position position) {
  auto values = take(arguments, "reinterpret", {"x", "dtype"}, 2, position);
  // "lsram i8 *", "fp32 *": a pointer, by default to global memory.
  if (const auto* text = values[1].as<std::string>(); text != nullptr && !text->empty() && text->back() == '*') {
    std::string rest = text->substr(0, text->size() - 1);
    while (!rest.empty() && rest.back() == ' ') rest.pop_back();
    tir::Scope scope = tir::Scope::kGlobal;
    if (const size_t space = rest.find(' '); space != std::string::npos) {
      const std::string name = rest.substr(0, space);
      bool known = false;
      for (int s = 0; s <= static_cast<int>(tir::Scope::kConstant); ++s) {
        if (tir::scope_name(static_cast<tir::Scope>(s)) != name) continue;
        scope = static_cast<tir::Scope>(s);
        known = true;
      }
      if (!known) fail(position, fmt::format("The arg \"dtype\" names an unknown scope \"{}\".", name));
      rest = rest.substr(space + 1);
    }
    const auto type = parse_type_text(rest);
    if (!type) fail(position, fmt::format("The arg \"dtype\" expect a data type, but got: \"{}\".", *text));
    values[1] = {TypeValue{tir::Type::pointer_to(type->element, type->lanes, scope)}};
  }
  const std::optional<int64_t> number = values[0].integer();
  const bool word = number && *number > INT32_MAX && *number <= UINT32_MAX;  // 32 bits, though no int32
  const tir::Expr x = word ? constant(*number, DType::kU32) : to_expr(values[0], position);
  return call_intrinsic(*required_intrinsic("reinterpret", position), {{x}, values[1]}, {}, position);
}

// --- masks ---

tir::Expr Compiler::mask_constant(const std::vector<bool>& bits) {
  std::vector<tir::Expr> lanes;
  lanes.reserve(bits.size());
  for (const bool bit : bits) lanes.push_back(tir::bool_imm(bit));
  return tir::make_expr(tir::Type::vector(DType::kBool, static_cast<int>(bits.size())),
                        tir::VectorLiteral{std::move(lanes)});
}

// The mask as it was written; the intrinsic's type rule pads it to its lanes and checks expressions.
tir::Expr Compiler::mask_expr(const Value& mask, Position position) {
  if (const auto* text = mask.as<std::string>()) {
    const auto bits = parse_mask_text(*text);
    if (!bits) fail(position, fmt::format("The arg \"mask\" is not a valid mask string: \"{}\".", *text));
    return mask_constant(*bits);
  }
  if (mask.elements() != nullptr || mask.as<ArrayValue>() != nullptr) {
    std::vector<bool> bits;
    for (const Value& v : iterate(mask, position)) {
      if (v.as<bool>() == nullptr) fail(position, "All elements of arg \"mask\" expect \"True\" or \"False\".");
      bits.push_back(*v.as<bool>());
    }
    if (bits.empty()) bits.push_back(false);  // what is missing is off
    return mask_constant(bits);
  }
  if (const auto* e = mask.as<tir::Expr>()) {
    if (!(*e)->type.is_mask())
      fail(position, fmt::format("The arg \"mask\" expect a boolean vector, but got: \"{}\".", type_text((*e)->type)));
    return *e;
  }
  fail(position, fmt::format("The arg \"mask\" expect a tuple or list, but got: \"{}\".", kind_text(mask)));
}

Value Compiler::s_const_mask(CallArguments& arguments, Position position) {
  const auto values = take(arguments, "const_mask", {"x"}, 1, position);
  const Value& x = values[0];
  if (x.is_expr()) fail(position, "The 1st arg expect a mask that is known at compile time.");
  const bool sized = x.as<std::string>() != nullptr || x.elements() != nullptr || x.as<ArrayValue>() != nullptr;
  const size_t size = x.as<std::string>() != nullptr ? x.as<std::string>()->size()
                      : sized                        ? iterate(x, position).size()
                                                     : 0;
  if (sized && size <= 1) fail(position, "The length of the 1st arg expect > 1");
  if (const auto* text = x.as<std::string>()) {
    auto bits = parse_mask_text(*text);
    if (!bits) fail(position, fmt::format("The 1st arg is not a valid mask string: \"{}\".", *text));
    // Fewer lanes than characters are padded, as upstream does.
    if (bits->size() < text->size()) bits->resize(text->size(), false);
    return {mask_constant(*bits)};
  }
  return {mask_expr(x, position)};
}

}  // namespace aipu::dsl
