#include <algorithm>

#include "codegen/compass_c/passes.h"
#include "codegen/compass_c/vector_aligner.h"
#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/visit.h"

namespace aipu::tir::c_text {
namespace {

Expr zero(Type type) {
  const Expr lane = is_floating(type.element) ? float_imm(0, type.element) : int_imm(0, type.element);
  return broadcast(lane, type.lanes);
}

int64_t part_index(const IntrinsicCall& n, std::string_view part) {
  for (const IntrinsicParam& param : n.intrinsic->params) {
    if (param.name != "part") continue;
    const auto at = std::find(param.choices.begin(), param.choices.end(), part);
    return at - param.choices.begin();
  }
  return 0;
}

}  // namespace

Expr VectorAligner::call(std::string_view name, std::vector<Expr> operands,
                         std::vector<std::pair<std::string, int64_t>> attributes, Expr mask, Expr pass_through) {
  for (const Expr& operand : operands) {
    if (!operand) return give_up();
  }
  std::sort(attributes.begin(), attributes.end());
  Result<Expr> result =
      intrinsic_call(name, std::move(operands), std::move(attributes), std::move(mask), std::move(pass_through), span_);
  return result.ok() ? *result : give_up();
}

Expr VectorAligner::scaled(const Expr& index, int64_t lanes) {
  return lanes == 1 ? index : simplify(tir::binary(BinaryOp::kMul, index, int_imm(lanes, index->type.element)));
}

// (element*)pointer + offset
Expr VectorAligner::element_pointer(const Expr& pointer, DType element, const Expr& offset) {
  Expr base = cast(Type::pointer_to(element, 1, pointer->type.scope), whole(pointer));
  if (as_int(offset) == 0) return base;
  return simplify(tir::binary(BinaryOp::kAdd, base, offset));
}

// The given mask without the padding; null: all lanes.
Expr VectorAligner::valid_mask(int lanes, int valid, const Expr& mask) {
  if (valid >= lanes) return mask;
  std::vector<Expr> bits;
  for (int i = 0; i < lanes; ++i) bits.push_back(bool_imm(i < valid));
  const Expr inside = make_expr(Type::vector(DType::kBool, lanes), VectorLiteral{std::move(bits)});
  return mask ? simplify(call("vand", {mask, inside})) : inside;
}

// ---- values that are no parts ----

Expr VectorAligner::whole(const Expr& e) {
  if (failed_ || !e) return e;
  if (in_parts(e)) return joined(e);
  return match(
      e, [&](const IntImm&) { return e; }, [&](const FloatImm&) { return e; }, [&](const StringImm&) { return e; },
      [&](const VarRef& n) { return renamed(n.var) == n.var ? e : var_ref(renamed(n.var)); },
      [&](const AddressOf& n) {
        const Array* array = array_of(n.var);
        if (array == nullptr) return e;
        own_.erase(array->buffer.get());
        return cast(lowered(e->type), var_ref(array->buffer));
      },
      [&](const Unary& n) {
        return make_expr(e->type, Unary{n.op, whole(n.operand)}, e->span);
      },
      [&](const Binary& n) {
        if (n.lhs->type.pointer && !is_comparison(n.op)) {
          const Type type = n.lhs->type;
          const int64_t lanes = lowered(type) == type ? 1 : type.lanes;
          const Expr base = whole(n.lhs);
          return make_expr(lowered(e->type), Binary{n.op, base, scaled(whole(n.rhs), lanes)}, e->span);
        }
        if (n.op == BinaryOp::kAnd || n.op == BinaryOp::kOr) return logical(e, n);
        const Expr lhs = whole(n.lhs);
        return make_expr(e->type, Binary{n.op, lhs, whole(n.rhs)}, e->span);
      },
      [&](const Select& n) { return whole_select(e, n); },
      [&](const Cast& n) {
        const Type from = n.operand->type;
        if (!e->type.is_vector() || from.is_mask() || e->type.is_mask() ||
            !has_conversion(from.element, e->type.element))
          return cast(lowered(e->type), whole(n.operand), e->span);
        if (is_wide(from) || dtype_bits(from.element) != dtype_bits(e->type.element)) {
          const Parts one = cast_parts(e->type, parts(n.operand), from, false);
          return one.empty() ? give_up() : one[0];
        }
        return cast(e->type, whole(n.operand), e->span);
      },
      [&](const Broadcast& n) { return broadcast(whole(n.scalar), e->type.lanes); },
      [&](const VectorLiteral& n) {
        std::vector<Expr> lanes;
        for (const Expr& lane : n.lanes) lanes.push_back(whole(lane));
        return make_expr(e->type, VectorLiteral{std::move(lanes)}, e->span);
      },
      [&](const Load& n) {
        const Expr pointer = whole(n.pointer);
        return make_expr(e->type, Load{pointer, whole(n.index)}, e->span);
      },
      [&](const LaneRead& n) { return lane_read(e, n); }, [&](const IntrinsicCall& n) { return whole_intrinsic(e, n); },
      [&](const FunctionCall& n) {
        return make_expr(lowered(e->type), FunctionCall{n.function, arguments(n)}, e->span);
      });
}

// What the right side needs is not done when the left side decides.
Expr VectorAligner::logical(const Expr& e, const Binary& n) {
  const Expr lhs = whole(n.lhs);
  std::vector<Stmt> before;
  const Expr rhs = aside(before, [&] { return whole(n.rhs); });
  if (before.empty()) return make_expr(e->type, Binary{n.op, lhs, rhs}, e->span);
  const VarPtr result = new_var("t", e->type);
  emit(Define{result, lhs});
  before.push_back(make_stmt(Assign{result, rhs}, span_));
  Expr open = var_ref(result);
  if (n.op == BinaryOp::kOr) open = make_expr(e->type, Unary{UnaryOp::kNot, open});
  emit(If{open, block(std::move(before)), nullptr});
  return var_ref(result);
}

Expr VectorAligner::whole_select(const Expr& e, const Select& n) {
  const Expr condition = whole(n.condition);
  std::vector<Stmt> then_body, else_body;
  const Expr a = aside(then_body, [&] { return whole(n.if_true); }),
             b = aside(else_body, [&] { return whole(n.if_false); });
  const Type type = lowered(e->type);
  if (then_body.empty() && else_body.empty()) return make_expr(type, Select{condition, a, b}, e->span);
  if (type.pointer) return give_up();
  const VarPtr result = new_var("t", type);
  emit(Define{result, zero(type)});
  then_body.push_back(make_stmt(Assign{result, a}, span_));
  else_body.push_back(make_stmt(Assign{result, b}, span_));
  emit(If{condition, block(std::move(then_body)), block(std::move(else_body))});
  return var_ref(result);
}

VectorAligner::Parts VectorAligner::select_parts(const Expr& e, const Select& n, int lanes) {
  const Expr condition = bind(whole(n.condition));
  std::vector<Stmt> then_body, else_body;
  const Parts a = aside(then_body, [&] { return parts(n.if_true, lanes); }),
              b = aside(else_body, [&] { return parts(n.if_false, lanes); });
  if (failed_ || a.size() != b.size()) return {};
  if (then_body.empty() && else_body.empty()) {
    Parts result;
    for (size_t i = 0; i < a.size(); ++i)
      result.push_back(make_expr(a[i]->type, Select{condition, a[i], b[i]}, e->span));
    return result;
  }
  const Array array = allocate("t", e->type, lanes);
  aside(then_body, [&] { return store_parts(array, a, false), true; });
  aside(else_body, [&] { return store_parts(array, b, false), true; });
  emit(If{condition, block(std::move(then_body)), block(std::move(else_body))});
  return array_parts(array);
}

Expr VectorAligner::lane_read(const Expr& e, const LaneRead& n) {
  const Expr index = whole(n.index);
  if (!in_parts(n.vector)) return make_expr(e->type, LaneRead{whole(n.vector), index}, e->span);
  const int lanes = part_lanes(n.vector);
  if (const auto lane = as_int(index)) {
    const Parts values = parts(n.vector);
    const auto at = static_cast<size_t>(*lane / lanes);
    if (at >= values.size()) return give_up();
    return make_expr(e->type, LaneRead{values[at], int_imm(*lane % lanes)}, e->span);
  }
  if (n.vector->type.is_mask()) return make_expr(e->type, LaneRead{joined(n.vector), index}, e->span);
  const auto* ref = n.vector->as<VarRef>();
  const Array* array = ref != nullptr ? array_of(ref->var) : nullptr;
  Array temporary;
  if (array == nullptr) {
    Parts values = parts(n.vector);
    temporary = allocate("t", n.vector->type, lanes);
    store_parts(temporary, std::move(values), false);
    array = &temporary;
  }
  return load(cast(Type::pointer_to(e->type.element, 1, Scope::kPrivate), var_ref(array->buffer)), index, e->span);
}

Expr VectorAligner::whole_intrinsic(const Expr& e, const IntrinsicCall& n) {
  const std::string_view name = n.intrinsic->name;
  if (name == "vpart" && in_parts(n.args[0]) && e->type.lanes == part_lanes(n.args[0])) {
    const Parts values = parts(n.args[0]);
    const auto index = static_cast<size_t>(n.attribute("index"));
    return index < values.size() ? values[index] : give_up();
  }
  if ((name == "vall" || name == "vany") && in_parts(n.args[0]) && n.args[0]->type.lanes % part_lanes(n.args[0]) == 0) {
    Expr result;
    for (const Expr& part : parts(n.args[0])) {
      const Expr one = call(name, {part});
      result = result ? tir::binary(name == "vall" ? BinaryOp::kAnd : BinaryOp::kOr, result, one) : one;
    }
    return result;
  }
  const bool ints =
      name == "cast" && is_integer(e->type.element) && is_integer(n.args[0]->type.element) && e->type.is_vector();
  if (ints && n.args[0]->type.is_vector() && !e->type.is_mask() && !in_parts(n.args[0])) {
    const int from_bits = dtype_bits(n.args[0]->type.element), to_bits = dtype_bits(e->type.element);
    const bool saturate = n.attribute("saturate") == 2;
    if (from_bits > to_bits) {
      std::vector<Expr> values;
      for (const Expr& arg : n.args) values.push_back(whole(arg));
      return narrowed(values, e->type, saturate);
    }
    const int ratio = to_bits / from_bits;
    const auto part_is = [&](std::string_view part) { return n.attribute("part") == part_index(n, part); };
    if (!saturate && ratio == 2 && (part_is("low") || part_is("high")))
      return extended(whole(n.args[0]), e->type.element, 2, part_is("high"));
    if (!saturate && ratio == 4) {
      constexpr std::string_view kQuarters[] = {"ll", "lh", "hl", "hh"};
      for (int k = 0; k < 4; ++k) {
        if (part_is(kQuarters[k])) return extended(whole(n.args[0]), e->type.element, 4, k);
      }
    }
  }
  if (name == "cast" && e->type.is_vector() && !in_parts(n.args[0]) && are_rounded(n.args, e->type)) {
    std::vector<Expr> words;
    for (const Expr& arg : n.args) words.push_back(cast(arg->type.with_element(DType::kI32), whole(arg)));
    return narrowed(words, e->type, false);
  }
  if (name == "cast" && n.args.size() == 1 && is_wide(n.args[0]->type) && n.args[0]->type.lanes == e->type.lanes) {
    const Parts one = cast_parts(e->type, parts(n.args[0]), n.args[0]->type, n.attribute("saturate") == 2);
    return one.empty() ? give_up() : one[0];
  }
  const bool from_parts = std::any_of(n.args.begin(), n.args.end(),
                                      [&](const Expr& arg) { return arg && in_parts(arg) && !arg->type.is_mask(); });
  if (from_parts && e->type.is_vector() && !e->type.is_mask()) {
    const int lanes = native_lanes(e->type.element);
    const Parts one = name == "vload_gather" ? gather_parts(e, n, lanes) : rearranged_parts(e, n, lanes);
    if (one.size() == 1 || failed_) return failed_ ? e : one[0];
  }
  IntrinsicCall result = n;
  for (Expr& arg : result.args) {
    if (arg && arg->type.is_mask() && !n.args[0]->type.is_mask() && n.args[0]->type.is_vector()) {
      const Parts one = parts(arg, arg->type.lanes);
      arg = one.size() == 1 ? one[0] : give_up();
    } else {
      arg = whole(arg);
    }
  }
  if (n.mask) {
    const Parts one = parts(n.mask, n.mask->type.lanes);
    result.mask = one.size() == 1 ? one[0] : give_up();
  }
  result.pass_through = whole(n.pass_through);
  // Counts of vectors that are no registers are counts of their elements.
  if (n.args.size() > 1 && n.args[0] && n.args[0]->type.pointer && lowered(n.args[0]->type) != n.args[0]->type) {
    if (name == "dma_upsample" || name == "dma_transpose2d") return give_up();
  }
  if (failed_) return e;
  return make_expr(lowered(e->type), std::move(result), e->span);
}

// ---- values in parts ----

Expr VectorAligner::joined(const Expr& e) {
  const int lanes = part_lanes(e);
  const Parts values = parts(e, lanes);
  if (values.empty() || failed_) return give_up();
  if (e->type.is_mask()) {
    const Parts one = regroup(values, e->type.lanes, e->type.lanes);
    return one.size() == 1 ? one[0] : give_up();
  }
  Expr all = values.size() == 1 ? values[0] : call("vconcat", values);
  if (failed_ || all->type.lanes == e->type.lanes) return all;
  return call("vpart", {all}, {{"index", 0}, {"lanes", e->type.lanes}});
}

VectorAligner::Parts VectorAligner::array_parts(const Array& array) {
  Parts result;
  for (int i = 0; i < array.count; ++i) result.push_back(load(var_ref(array.buffer), int_imm(i)));
  return result;
}

VectorAligner::Parts VectorAligner::parts(const Expr& e, int lanes) {
  if (failed_) return {};
  const int own = part_lanes(e, lanes);
  if (lanes == 0 || own == lanes) return natural_parts(e, own);
  if (!e->type.is_mask()) {
    give_up();
    return {};
  }
  return regroup(natural_parts(e, own), e->type.lanes, lanes);
}

VectorAligner::Parts VectorAligner::regroup(const Parts& masks, int total, int lanes) {
  if (failed_ || masks.empty()) return {};
  const int own = masks[0]->type.lanes;
  Parts result;
  if (own == lanes) return masks;
  if (own > lanes && own % lanes == 0 && own <= 32) {
    for (const Expr& mask : masks) {
      for (int k = 0; k < own / lanes && static_cast<int>(result.size()) * lanes < total; ++k)
        result.push_back(call("vpart", {mask}, {{"index", k}, {"lanes", lanes}}));
    }
    return result;
  }
  if (lanes % own != 0 || total % own != 0) {
    Parts given;
    for (const Expr& mask : masks) given.push_back(named(mask));
    for (int first = 0; first < total; first += lanes) result.push_back(mask_of_lanes(given, total, first, lanes));
    return result;
  }
  const int ratio = lanes / own;
  for (size_t i = 0; i < masks.size(); i += static_cast<size_t>(ratio)) {
    Parts some(masks.begin() + static_cast<ptrdiff_t>(i),
               masks.begin() + static_cast<ptrdiff_t>(std::min(masks.size(), i + static_cast<size_t>(ratio))));
    while (static_cast<int>(some.size()) < ratio) some.push_back(zero(some[0]->type));
    result.push_back(call("vconcat", some));
  }
  return result;
}

Expr VectorAligner::mask_of_lanes(const Parts& masks, int total, int first, int lanes) {
  std::vector<Expr> bits;
  for (int i = first; i < first + lanes; ++i) {
    const int own = masks[0]->type.lanes;
    const auto part = static_cast<size_t>(i / own);
    const bool inside = i < total && part < masks.size();
    bits.push_back(inside ? make_expr(Type::scalar(DType::kBool), LaneRead{masks[part], int_imm(i % own)})
                          : bool_imm(false));
  }
  return make_expr(Type::vector(DType::kBool, lanes), VectorLiteral{std::move(bits)});
}

VectorAligner::Parts VectorAligner::natural_parts(const Expr& e, int lanes) {
  const Type type = e->type;
  const Type part = type.with_lanes(lanes);
  const int count = (type.lanes + lanes - 1) / lanes;
  if (type.lanes == lanes && !type.is_mask()) return {whole(e)};
  const auto each = [&](const auto& make) {
    Parts result;
    for (int i = 0; i < count && !failed_; ++i) result.push_back(make(static_cast<size_t>(i)));
    return result;
  };
  const auto elementwise = [&](const Parts& a, const auto& make) {
    return each([&](size_t i) { return i < a.size() ? make(a[i], i) : give_up(); });
  };
  return match(
      e, [&](const IntImm&) { return Parts(); }, [&](const FloatImm&) { return Parts(); },
      [&](const StringImm&) { return Parts(); }, [&](const AddressOf&) { return Parts(); },
      [&](const LaneRead&) { return Parts(); },
      [&](const VarRef& n) {
        const Array* array = array_of(n.var);
        return array != nullptr ? array_parts(*array) : Parts{var_ref(renamed(n.var))};
      },
      [&](const Unary& n) {
        return elementwise(parts(n.operand, lanes), [&](const Expr& x, size_t) {
          return make_expr(part, Unary{n.op, x}, e->span);
        });
      },
      [&](const Binary& n) {
        const Parts lhs = parts(n.lhs, lanes), rhs = parts(n.rhs, lanes);
        return elementwise(lhs, [&](const Expr& x, size_t i) {
          return i < rhs.size() ? make_expr(part, Binary{n.op, x, rhs[i]}, e->span) : give_up();
        });
      },
      [&](const Select& n) { return select_parts(e, n, lanes); },
      [&](const Cast& n) {
        const Type from = n.operand->type;
        if (from.is_mask() || type.is_mask() || !has_conversion(from.element, type.element))
          return spilled(cast(type, whole(n.operand), e->span));
        return cast_parts(type, parts(n.operand), from, false);
      },
      [&](const Broadcast& n) {
        const Expr lane = bind(whole(n.scalar));
        return each([&](size_t) { return broadcast(lane, lanes); });
      },
      [&](const VectorLiteral& n) {
        std::vector<Expr> all;
        for (const Expr& lane : n.lanes) all.push_back(whole(lane));
        while (static_cast<int>(all.size()) < count * lanes) all.push_back(zero(type.with_lanes(1)));
        return each([&](size_t i) {
          const auto first = all.begin() + static_cast<ptrdiff_t>(i) * lanes;
          return make_expr(part, VectorLiteral{{first, first + lanes}}, e->span);
        });
      },
      [&](const Load& n) {
        return load_parts(element_pointer(n.pointer, type.element, scaled(whole(n.index), type.lanes)), nullptr,
                          nullptr, type);
      },
      [&](const IntrinsicCall& n) { return intrinsic_parts(e, n, lanes); },
      [&](const FunctionCall& n) {
        if (!is_passed_in_parts(type)) return Parts{make_expr(type, FunctionCall{n.function, arguments(n)}, e->span)};
        const Array array = allocate("result", type, lanes);
        call_into(n, array);
        return array_parts(array);
      });
}

VectorAligner::Parts VectorAligner::load_parts(const Expr& pointer, const Expr& stride, const Expr& mask, Type type) {
  const int lanes = native_lanes(type.element);
  const Parts masks = mask ? parts(mask, lanes) : Parts();
  Parts result;
  for (int offset = 0; offset < type.lanes && !failed_; offset += lanes) {
    const size_t i = result.size();
    const Expr inside = valid_mask(lanes, std::min(lanes, type.lanes - offset), i < masks.size() ? masks[i] : nullptr);
    const Expr moved =
        stride ? simplify(tir::binary(BinaryOp::kMul, stride, int_imm(offset, stride->type.element))) : int_imm(offset);
    std::vector<Expr> operands = {element_pointer(pointer, type.element, moved)};
    if (stride) operands.push_back(stride);
    result.push_back(call("vload", std::move(operands), {{"lanes", lanes}}, inside));
  }
  return result;
}

VectorAligner::Parts VectorAligner::intrinsic_parts(const Expr& e, const IntrinsicCall& n, int lanes) {
  const Type type = e->type;
  const std::string_view name = n.intrinsic->name;
  Parts result;
  if (name == "vload") {
    const Expr stride = n.args.size() > 1 && as_int(n.args[1]) != 1 ? bind(whole(n.args[1])) : nullptr;
    return load_parts(n.args[0], stride, n.mask, type);
  }
  if (name == "tail_mask") {
    const Expr count = bind(whole(n.args[0]));
    for (int offset = 0; offset < type.lanes; offset += lanes) {
      Expr rest = count;
      if (offset > 0)
        rest = tir::binary(BinaryOp::kMax, tir::binary(BinaryOp::kSub, count, int_imm(offset, count->type.element)),
                           int_imm(0, count->type.element));
      if (offset + lanes < type.lanes || type.lanes % lanes != 0)
        rest = tir::binary(BinaryOp::kMin, rest, int_imm(lanes, count->type.element));
      if (type.lanes == lanes) rest = count;
      result.push_back(call("tail_mask", {simplify(rest)}, {{"lanes", lanes}}));
    }
    return result;
  }
  if (name == "const_mask") return parts(n.args[0], lanes);
  if (name == "vbcast") {
    const Expr lane = bind(whole(n.args[0]));
    const Parts masks = n.mask ? parts(n.mask, lanes) : Parts();
    for (int offset = 0; offset < type.lanes; offset += lanes)
      result.push_back(
          call(name, {lane}, {{"lanes", lanes}}, result.size() < masks.size() ? masks[result.size()] : nullptr));
    return result;
  }
  if (name == "cast" && n.args.size() == 1 && n.args[0]->type.lanes == type.lanes && !type.is_mask() &&
      !n.args[0]->type.is_mask())
    return cast_parts(type, parts(n.args[0]), n.args[0]->type, n.attribute("saturate") == 2);
  if (name == "vload_gather") return gather_parts(e, n, lanes);
  if (Parts moved = rearranged_parts(e, n, lanes); !moved.empty() || failed_) return moved;
  if (!n.intrinsic->reduces_by.empty()) {
    if (Parts reduced = reduced_parts(e, n, lanes); !reduced.empty() || failed_) return reduced;
  }
  if (Parts each = registerwise_parts(e, n, lanes); !each.empty() || failed_) return each;
  // Defined on all lanes together only.
  IntrinsicCall wide = n;
  for (Expr& arg : wide.args) arg = arg && in_parts(arg) ? joined(arg) : whole(arg);
  if (n.mask) wide.mask = in_parts(n.mask) ? joined(n.mask) : whole(n.mask);
  if (n.pass_through) wide.pass_through = in_parts(n.pass_through) ? joined(n.pass_through) : whole(n.pass_through);
  if (failed_) return {};
  return spilled(make_expr(type, std::move(wide), e->span));
}

// Intrinsics that work register by register: every vector in it has the same number of parts.
VectorAligner::Parts VectorAligner::registerwise_parts(const Expr& e, const IntrinsicCall& n, int lanes) {
  const std::string_view name = n.intrinsic->name;
  const bool grouped = n.intrinsic->registerwise;
  const bool bits = name == "reinterpret" && e->type.bytes() * 8 % kVectorBits == 0;
  if (!grouped && !bits && n.intrinsic->splitting != Splitting::kElementwise) return {};
  const auto count = static_cast<size_t>((e->type.lanes + lanes - 1) / lanes);
  if ((grouped || bits) && e->type.lanes % lanes != 0) return {};
  for (const Expr& arg : n.args) {
    if (!arg || !arg->type.is_vector()) continue;
    const int own = arg->type.is_mask() ? lanes : native_lanes(arg->type.element);
    if (static_cast<size_t>((arg->type.lanes + own - 1) / own) != count || (!grouped && !bits && own != lanes))
      return {};
  }
  std::vector<Parts> operands;
  for (const Expr& arg : n.args) {
    if (arg && arg->type.is_vector()) {
      operands.push_back(parts(arg, arg->type.is_mask() ? lanes : 0));
    } else {
      const Expr value =
          arg && arg->type.pointer ? element_pointer(arg, e->type.element, int_imm(0)) : bind(whole(arg));
      operands.emplace_back(count, value);
    }
  }
  // A mask has the lanes of the operands.
  const Type& operand = n.args.empty() || !n.args[0]->type.is_vector() ? e->type
                        : (name == "vdpa" || name == "vqdpa")          ? n.args[1]->type
                                                                       : n.args[0]->type;
  const int mask_lanes = operand.is_mask() ? lanes : native_lanes(operand.element);
  const Parts masks = n.mask ? parts(n.mask, mask_lanes) : Parts();
  const Parts pass_through = n.pass_through ? parts(n.pass_through) : Parts();
  Parts result;
  for (size_t i = 0; i < count && !failed_; ++i) {
    std::vector<Expr> args;
    for (const Parts& p : operands) args.push_back(i < p.size() ? p[i] : nullptr);
    auto attributes = n.attributes;
    for (auto& [key, value] : attributes) {
      if (key == "dtype") value = attribute_of_type(e->type.with_lanes(lanes));
    }
    Expr mask = i < masks.size() ? masks[i] : nullptr;
    if (!n.intrinsic->pure)
      mask = valid_mask(lanes, std::min(lanes, e->type.lanes - static_cast<int>(i) * lanes), mask);
    result.push_back(call(name, std::move(args), std::move(attributes), std::move(mask),
                          i < pass_through.size() ? pass_through[i] : nullptr));
  }
  return result;
}

VectorAligner::Parts VectorAligner::spilled(const Expr& value) {
  if (failed_) return {};
  const Type type = value->type;
  if (type.is_mask()) {
    if (mask_register_lanes(type.lanes) == type.lanes) return {value};
    return regroup({named(value)}, type.lanes, mask_register_lanes(type.lanes));
  }
  const Array array = allocate("t", type, native_lanes(type.element));
  emit(Evaluate{
      call("vstore", {value, cast(Type::pointer_to(type.element, 1, Scope::kPrivate), var_ref(array.buffer))})});
  return array_parts(array);
}

}  // namespace aipu::tir::c_text
