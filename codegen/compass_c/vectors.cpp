#include <algorithm>
#include <utility>

#include "codegen/compass_c/passes.h"
#include "codegen/intrinsics/intrinsic_table.h"
#include "codegen/tir/visit.h"

namespace aipu::tir::c_text {
namespace {

Expr call_or(const Expr& fallback, std::string_view name, std::vector<Expr> operands) {
  Result<Expr> call = intrinsic_call(name, std::move(operands), {}, nullptr, nullptr, fallback->span);
  return call.ok() && (*call)->type == fallback->type ? *call : fallback;
}

std::string_view intrinsic_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::kDiv:
      return "vdiv";
    case BinaryOp::kMod:
      return "vmod";
    case BinaryOp::kMin:
      return "min";
    case BinaryOp::kMax:
      return "max";
    case BinaryOp::kBitAnd:
    case BinaryOp::kAnd:
      return "vand";
    case BinaryOp::kBitOr:
    case BinaryOp::kOr:
      return "vor";
    case BinaryOp::kBitXor:
      return "vxor";
    case BinaryOp::kShl:
      return "vsl";
    case BinaryOp::kShr:
      return "vsr";
    case BinaryOp::kEq:
      return "vceq";
    case BinaryOp::kNe:
      return "vcneq";
    case BinaryOp::kLt:
      return "vclt";
    case BinaryOp::kLe:
      return "vcle";
    case BinaryOp::kGt:
      return "vcgt";
    case BinaryOp::kGe:
      return "vcge";
    default:
      return {};
  }
}

class LowerStandard : public Mutator {
 public:
  using Mutator::mutate;
  Expr mutate(const Expr& expr) override {
    Expr e = mutate_children(expr);
    if (const auto* n = e->as<Unary>(); n != nullptr && e->type.is_vector()) return call_or(e, "vinv", {n->operand});
    const auto* n = e->as<Binary>();
    if (n == nullptr || !n->lhs->type.is_vector()) return e;
    if (n->lhs->type.is_mask() && n->op == BinaryOp::kNe) return call_or(e, "vxor", {n->lhs, n->rhs});
    const std::string_view name = intrinsic_of(n->op);
    return name.empty() ? e : call_or(e, name, {n->lhs, n->rhs});
  }
};

class StrengthReduce : public Mutator {
 public:
  using Mutator::mutate;
  Expr mutate(const Expr& expr) override {
    Expr e = mutate_children(expr);
    if (e->type.is_mask()) return mirrored_comparison(e);
    if (!e->type.is_vector() || !is_integer(e->type.element)) return e;
    Expr lhs, rhs;
    if (const auto* n = e->as<Binary>(); n != nullptr && n->op == BinaryOp::kMul) {
      lhs = n->lhs;
      rhs = n->rhs;
    } else if (const auto* call = e->as<IntrinsicCall>();
               call != nullptr && call->intrinsic->name == "vmul" && !call->mask) {
      lhs = call->args[0];
      rhs = call->args[1];
    }
    const auto* splat = rhs ? rhs->as<Broadcast>() : nullptr;
    const auto factor = splat != nullptr ? as_int(splat->scalar) : std::nullopt;
    if (!factor || *factor <= 0 || (*factor & (*factor - 1)) != 0 || lhs->type != e->type) return e;
    if (*factor == 1) return lhs;
    const Expr shift =
        broadcast(int_imm(__builtin_ctzll(static_cast<uint64_t>(*factor)), e->type.element), e->type.lanes);
    return call_or(e, "vsl", {lhs, shift});
  }

 private:
  // 3 < x is x > 3.
  static Expr mirrored_comparison(const Expr& e) {
    constexpr std::pair<std::string_view, std::string_view> kMirrors[] = {
        {"vclt", "vcgt"}, {"vcgt", "vclt"}, {"vcle", "vcge"}, {"vcge", "vcle"}, {"vceq", "vceq"}, {"vcneq", "vcneq"}};
    const auto is_constant = [](const Expr& operand) {
      const auto* splat = operand->as<Broadcast>();
      return splat != nullptr && (splat->scalar->as<IntImm>() != nullptr || splat->scalar->as<FloatImm>() != nullptr);
    };
    const auto* n = e->as<IntrinsicCall>();
    if (n == nullptr || n->args.size() != 2 || !is_constant(n->args[0]) || is_constant(n->args[1])) return e;
    for (const auto& [name, mirror] : kMirrors) {
      if (n->intrinsic->name != name) continue;
      const Result<Expr> call =
          intrinsic_call(mirror, {n->args[1], n->args[0]}, n->attributes, n->mask, nullptr, e->span);
      return call.ok() && (*call)->type == e->type ? *call : e;
    }
    return e;
  }
};

const IntrinsicCall* call_of(const Expr& e, std::string_view name) {
  const auto* n = e->as<IntrinsicCall>();
  return n != nullptr && n->intrinsic->name == name ? n : nullptr;
}

class Combine : public Mutator {
 public:
  using Mutator::mutate;
  Expr mutate(const Expr& expr) override {
    Expr e = mutate_children(expr);
    if (const auto* n = call_of(e, "vnsr")) return narrowing_shift(e, *n);
    const auto* product = e->as<Binary>();
    if (product != nullptr && product->op == BinaryOp::kMul && e->type.is_vector())
      return widening_product(e, product->lhs, product->rhs);
    if (const auto* n = call_of(e, "vmul"); n != nullptr && !n->mask)
      return widening_product(e, n->args[0], n->args[1]);
    return e;
  }

 private:
  static bool is_zero(const Expr& e) {
    if (const auto* splat = e->as<Broadcast>()) return is_zero(splat->scalar);
    if (const auto* converted = e->as<Cast>()) return is_zero(converted->operand);
    return as_int(e) == 0;
  }

  static Expr narrowing_shift(const Expr& e, const IntrinsicCall& n) {
    const auto* shift = call_of(n.args[0], "vsr");
    if (shift == nullptr || shift->mask || n.mask || !is_zero(n.args[1]) || shift->args[0]->type != n.args[0]->type)
      return e;
    auto attributes = n.attributes;
    if (shift->attribute("with_round") != 0) {
      attributes.emplace_back("with_round", 1);
      std::sort(attributes.begin(), attributes.end());
    }
    const Result<Expr> joined =
        intrinsic_call("vnsr", {shift->args[0], shift->args[1]}, attributes, nullptr, nullptr, e->span);
    return joined.ok() && (*joined)->type == e->type ? *joined : e;
  }

  // A scalar in all lanes that fits lanes of half the width, as such a vector; null: none.
  static Expr narrow_factor(const Expr& e, Type half) {
    const auto* splat = e->as<Broadcast>();
    if (splat == nullptr) return nullptr;
    if (const auto number = as_int(splat->scalar)) {
      for (const bool is_signed : {is_signed_int(half.element), !is_signed_int(half.element)}) {
        const DType element = sign_of(half.element, is_signed);
        if (wrap_int(*number, element) == *number) return broadcast(int_imm(*number, element), half.lanes);
      }
      return nullptr;
    }
    const auto* widened = splat->scalar->as<Cast>();
    if (widened == nullptr || !is_integer(widened->operand->type.element)) return nullptr;
    if (dtype_bits(widened->operand->type.element) != dtype_bits(half.element)) return nullptr;
    return broadcast(widened->operand, half.lanes);
  }

  static DType sign_of(DType dtype, bool is_signed) {
    if (dtype_bits(dtype) == 8) return is_signed ? DType::kI8 : DType::kU8;
    if (dtype_bits(dtype) == 16) return is_signed ? DType::kI16 : DType::kU16;
    return is_signed ? DType::kI32 : DType::kU32;
  }

  static Expr widening_product(const Expr& e, const Expr& lhs, const Expr& rhs) {
    for (const auto& [half, name] : {std::pair{"vxtl", "vmull"}, std::pair{"vxth", "vmulh"}}) {
      Expr a = extended_half(lhs, half), b = extended_half(rhs, half);
      if (a != nullptr && b == nullptr) b = narrow_factor(rhs, a->type);
      if (b != nullptr && a == nullptr) a = narrow_factor(lhs, b->type);
      if (a == nullptr || b == nullptr) continue;
      // Choices of the row: 1 unsigned, 2 signed.
      const std::pair<std::string, int64_t> sign = {"out_sign", is_signed_int(e->type.element) ? 2 : 1};
      const Result<Expr> product = intrinsic_call(name, {a, b}, {sign}, nullptr, nullptr, e->span);
      if (product.ok() && (*product)->type == e->type) return *product;
    }
    return e;
  }
};

}  // namespace

Expr extended_half(const Expr& e, std::string_view half) {
  if (const auto* n = call_of(e, half)) return n->args[0];
  for (const std::string_view sign : {"i", "u"}) {
    if (const auto* n = call_of(e, sign)) return extended_half(n->args[0], half);
  }
  return nullptr;
}

PrimFunc combine_instructions(const PrimFunc& function) {
  PrimFunc result = function;
  result.body = Combine().mutate(function.body);
  return result;
}

PrimFunc lower_standard(const PrimFunc& function) {
  PrimFunc result = function;
  result.body = LowerStandard().mutate(function.body);
  return result;
}

PrimFunc strength_reduce(const PrimFunc& function) {
  PrimFunc result = function;
  result.body = StrengthReduce().mutate(function.body);
  return result;
}

}  // namespace aipu::tir::c_text
