#include <fmt/format.h>

#include <array>

#include "codegen/intrinsics/families.h"
#include "codegen/intrinsics/lane_loops.h"
#include "codegen/intrinsics/type_rules.h"

namespace aipu::tir {
namespace {

using namespace rules;

// ---- cast ----

enum class Part : int64_t { kAll, kLow, kHigh, kEven, kOdd, kLl, kLh, kHl, kHh };
enum class Saturate : int64_t { kNone, kFalse, kTrue };

constexpr std::array<std::string_view, 9> kParts = {"all", "low", "high", "even", "odd", "ll", "lh", "hl", "hh"};

bool forbidden_vector_cast(DType from, DType to) {
  const auto float16 = [](DType d) { return d == DType::kF16 || d == DType::kBF16; };
  const auto narrow_int = [](DType d) { return is_integer(d) && dtype_bits(d) <= 16; };
  if ((float16(from) && narrow_int(to)) || (narrow_int(from) && float16(to))) return true;
  if (from == DType::kU32) return to == DType::kF32 || float16(to);
  if (to == DType::kU32) return from == DType::kF32 || from == DType::kBF16;
  return false;
}

Result<Type> infer_cast(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr x, operand(in, 0));
  const Type to = type_of_attribute(attribute(in, "dtype"));
  const auto part = static_cast<Part>(attribute(in, "part"));
  const auto saturate = static_cast<Saturate>(attribute(in, "saturate"));
  const std::string_view part_name = kParts[static_cast<size_t>(part)];
  const Type from = x->type;
  if (from.pointer || to.pointer)
    return refused(fmt::format("Unexpect \"{}\" pointer as argument.", type_text(from.pointer ? from : to)));
  if (to.is_void() || to.element == DType::kString) return refused("The data type to cast to is missing.");
  const int from_bits = dtype_bits(from.element), to_bits = dtype_bits(to.element);

  // Several operands: the merge of narrowed vectors.
  if (in.operands->size() > 1) {
    for (const Expr& e : *in.operands) {
      if (!e || !e->type.is_vector() || e->type != from)
        return refused("The data type of all items must be same and must be vector.");
    }
    const int ratio = to_bits == 0 ? 0 : from_bits / to_bits;
    if (ratio != 2 && ratio != 4) return refused("Only cast to 1/2 or 1/4 narrower bits allow multiple inputs.");
    if (part != Part::kAll) return refused("The arg \"part\" only support \"all\" when cast to narrower bits.");
    if (in.operands->size() > static_cast<size_t>(ratio))
      return refused("Only cast to 1/2 or 1/4 narrower bits allow multiple inputs.");
    if (forbidden_vector_cast(from.element, to.element)) {
      return refused(fmt::format("Unsupported cast directly from \"{}\" to \"{}\"", type_text(from), type_text(to)));
    }
    return Type::vector(to.element, from.lanes * ratio);
  }

  if (from.is_scalar()) {
    if (saturate != Saturate::kNone) return refused("Currently can't set \"saturate\" when the input is scalar.");
    if (to.lanes > 1) {
      (*in.operands)[0] = broadcast(cast(to.with_lanes(1), x, x->span), to.lanes);
    }
    return to;
  }
  if (forbidden_vector_cast(from.element, to.element)) {
    return refused(fmt::format("Unsupported cast directly from \"{}\" to \"{}\"", type_text(from),
                               type_text(to.lanes > 1 ? to : to.with_lanes(from.lanes))));
  }
  if (is_floating(from.element) && is_integer(to.element)) {
    if (to.element == DType::kI32 && saturate == Saturate::kFalse) {
      return refused(
          fmt::format("Unsupported cast from \"{}\" to \"{}\" without saturation.", type_text(from), type_text(to)));
    }
    if (to.element != DType::kI32 && saturate != Saturate::kNone) {
      return refused(
          fmt::format("Unsupported cast from \"{}\" to \"{}\" with saturation.", type_text(from), type_text(to)));
    }
  }
  const auto wrong_part = [&] {
    return refused(fmt::format("Unsupported cast from \"{}\" to \"{}\" with part \"{}\".", type_text(from),
                               type_text(to), part_name));
  };
  int lanes = from.lanes;
  if (from_bits == to_bits) {
    if (part != Part::kAll) return refused("The arg \"part\" only support \"all\" when cast to same bits.");
  } else if (from_bits > to_bits) {
    if (part != Part::kAll) return refused("The arg \"part\" only support \"all\" when cast to narrower bits.");
    // Other lanes than those of x: the native vector that x fills in part.
    if (to.lanes > 1 && to.lanes != lanes) {
      if (!is_native(from) || !is_native(to)) return wrong_part();
      lanes = to.lanes;
    }
  } else if (part != Part::kAll) {
    const int ratio = to_bits / from_bits;
    const bool half = part <= Part::kOdd;
    AIPU_RETURN_IF_ERROR(require_width(from, Widths::kNative));
    if (ratio != (half ? 2 : 4)) return wrong_part();
    lanes /= ratio;
  }
  if (to.lanes > 1 && to.lanes != lanes) return wrong_part();
  return Type::vector(to.element, lanes);
}

// The lane of the operand that lane i of the result comes from.
int source_lane(Part part, int i, int lanes) {
  switch (part) {
    case Part::kAll:
    case Part::kLow:
    case Part::kLl:
      return i;
    case Part::kHigh:
      return lanes / 2 + i;
    case Part::kEven:
      return 2 * i;
    case Part::kOdd:
      return 2 * i + 1;
    case Part::kLh:
      return lanes / 4 + i;
    case Part::kHl:
      return lanes / 2 + i;
    case Part::kHh:
      return lanes / 4 * 3 + i;
  }
  return i;
}

template <typename To, typename From>
To convert_saturating(From value, bool saturate) {
  if constexpr (std::is_integral_v<From> && !std::is_same_v<From, bool> && kIsIntLane<To>) {
    if (saturate) return clamp_to<To>(static_cast<Wide>(value));
  }
  return convert_lane<To>(value);
}

Status run_cast(const LaneCall& c) {
  const auto part = static_cast<Part>(c.attribute("part"));
  const bool saturate = c.attribute("saturate") == static_cast<int64_t>(Saturate::kTrue);
  with_lane_type(c.result.type.element, [&]<typename To>(To) {
    To* out = lanes_of<To>(c.result);
    with_lane_type(c.operands[0].type.element, [&]<typename From>(From) {
      const int in_lanes = c.operands[0].type.lanes;
      for (int i = 0; i < c.result.type.lanes; ++i) {
        const int lane = source_lane(part, i, in_lanes);
        const auto which = static_cast<size_t>(lane / in_lanes);
        // Lanes that no operand fills are unspecified: 0.
        out[i] = which < c.operands.size()
                     ? convert_saturating<To>(to_compute(lanes_of<From>(c.operands[which])[lane % in_lanes]), saturate)
                     : To{};
      }
    });
  });
  return {};
}

// ---- reinterpretations ----

template <bool kSigned>
Result<Type> infer_sign(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr x, operand(in, 0));
  if (x->type.pointer || !is_integer(x->type.element)) return refused("The data type of arg must be integer");
  return x->type.with_element(with_sign(x->type.element, kSigned));
}

Status run_copy(const LaneCall& c) {
  std::memcpy(c.result.data, c.operands[0].data, static_cast<size_t>(value_bytes(c.result.type)));
  return {};
}

Result<Type> infer_reinterpret(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr x, operand(in, 0));
  const Type to = type_of_attribute(attribute(in, "dtype"));
  const Type from = x->type;
  if (from.pointer || to.pointer) {
    const Type other = from.pointer ? to : from;
    const bool address =
        other.pointer || (other.is_scalar() && is_integer(other.element) && dtype_bits(other.element) >= 32);
    if (!address)
      return refused(fmt::format("Unsupported reinterpret from \"{}\" to \"{}\".", type_text(from), type_text(to)));
    return to;
  }
  if (from.bytes() != to.bytes() || is_bool(from.element) != is_bool(to.element)) {
    return refused(
        fmt::format("The total bits of the 1st arg expect {}, but got: {}.", to.bytes() * 8, from.bytes() * 8));
  }
  return to;
}

Status run_reinterpret(const LaneCall& c) {
  const Type from = c.operands[0].type, to = c.result.type;
  if (from.pointer == to.pointer) return run_copy(c);
  if (c.machine == nullptr) return unsupported("an address is only known when running");
  if (from.pointer)
    write_int_lane(to, c.result.data, 0, static_cast<int64_t>(c.machine->address_of(c.operands[0].get<Pointer>())));
  else
    c.result.set<Pointer>(0, c.machine->pointer_at(static_cast<uint64_t>(read_int_lane(from, c.operands[0].data, 0))));
  return {};
}

template <bool kHigh>
Result<Type> infer_extend(InferInput& in) {
  AIPU_RETURN_IF_ERROR(require_vector(in, 0));
  const Type type = (*in.operands)[0]->type;
  if (!is_integer(type.element)) return refused("Only support integer instruction.");
  if (dtype_bits(type.element) > 16) return refused("Can't extend to 64bit.");
  AIPU_RETURN_IF_ERROR(require_width(type, Widths::kNative));
  return Type::vector(widened(type.element), type.lanes / 2);
}

template <bool kHigh>
Status run_extend(const LaneCall& c) {
  const int first = kHigh ? c.result.type.lanes : 0;
  for (int i = 0; i < c.result.type.lanes; ++i) {
    write_int_lane(c.result.type, c.result.data, i, read_int_lane(c.operands[0].type, c.operands[0].data, first + i));
  }
  return {};
}

}  // namespace

void add_convert_rows(std::vector<Intrinsic>& rows) {
  // saturate: None, False, True. Further operands: the other vectors of a merge.
  rows.push_back({.name = "cast",
                  .params = {value("x"), type_param("dtype"), choice("part", {kParts.begin(), kParts.end()}),
                             number("saturate", 0)},
                  .infer = infer_cast,
                  .splitting = Splitting::kSpecial,
                  .run = run_cast,
                  .computes = false});
  rows.push_back({.name = "i", .params = {value("x")}, .infer = infer_sign<true>, .run = run_copy});
  rows.push_back({.name = "u", .params = {value("x")}, .infer = infer_sign<false>, .run = run_copy});
  rows.push_back({.name = "reinterpret",
                  .params = {value("x"), type_param("dtype")},
                  .infer = infer_reinterpret,
                  .splitting = Splitting::kSpecial,
                  .run = run_reinterpret,
                  .cost = CostClass::kFree,
                  .computes = false});
  rows.push_back({.name = "vxtl",
                  .params = {value("x")},
                  .infer = infer_extend<false>,
                  .splitting = Splitting::kNone,
                  .run = run_extend<false>});
  rows.push_back({.name = "vxth",
                  .params = {value("x")},
                  .infer = infer_extend<true>,
                  .splitting = Splitting::kNone,
                  .run = run_extend<true>});
}

}  // namespace aipu::tir
