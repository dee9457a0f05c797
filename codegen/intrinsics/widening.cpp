// Widening multiplies, pairwise operations, dot products, matrix multiplies (intrinsics.md 3.2 - 3.5 and 4.1).
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "codegen/intrinsics/families.h"
#include "codegen/intrinsics/lane_loops.h"
#include "codegen/intrinsics/type_rules.h"

namespace aipu::tir {
namespace {

using namespace rules;

// ---- vmull, vmulh: exact products of one half of the lanes ----

Result<Type> infer_vmull(InferInput& in) {
  const Sign sign = attribute(in, "out_sign") != 0 ? Sign::kMayDiffer : Sign::kMustAgree;
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0, 1}, false, sign));
  if (!is_integer(type.element) || dtype_bits(type.element) > 32) return refused("Only support integer instruction.");
  AIPU_RETURN_IF_ERROR(require_width(type, Widths::kNative));
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  const Type signed_type = with_out_sign(type, in);
  // 64-bit products are pairs of words, low word first.
  const Type result =
      dtype_bits(type.element) == 32 ? signed_type : Type::vector(widened(signed_type.element), type.lanes / 2);
  AIPU_RETURN_IF_ERROR(finish_pass_through(in, result));
  return result;
}

template <bool kHigh>
Status run_vmull(const LaneCall& c) {
  const LaneRef &x = c.operands[0], &y = c.operands[1];
  const int half = x.type.lanes / 2, first = kHigh ? half : 0;
  const bool words = dtype_bits(x.type.element) == 32;
  const LaneRef& out = c.result;
  for (int i = 0; i < half; ++i) {
    const bool active = c.active(first + i);
    const auto product = static_cast<int64_t>(wide_lane(x, first + i) * wide_lane(y, first + i));
    for (int word = 0; word < (words ? 2 : 1); ++word) {
      const int lane = words ? 2 * i + word : i;
      const int64_t off = c.pass_through ? read_int_lane(c.pass_through->type, c.pass_through->data, lane) : 0;
      write_int_lane(out.type, out.data, lane, !active ? off : word == 0 ? product : product >> 32);
    }
  }
  return {};
}

// ---- pairwise operations: op(x0, x1), op(x2, x3), ..., op(y0, y1), ... ----

Result<Type> infer_pairwise(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0, 1}, false));
  if (!is_integer(type.element)) return refused("Only support integer instruction.");
  AIPU_RETURN_IF_ERROR(require_width(type, Widths::kNativeOrMultiple));
  return type;
}

enum class Pair : uint8_t { kAdd, kSub, kMax, kMin };

template <Pair kOp>
Status run_pairwise(const LaneCall& c) {
  const int half = c.result.type.lanes / 2;
  map_wide(c, true, [&](int i) {
    const LaneRef& from = c.operands[i < half ? 0 : 1];
    const int pair = 2 * (i % half);
    const Wide a = wide_lane(from, pair), b = wide_lane(from, pair + 1);
    switch (kOp) {
      case Pair::kAdd:
        return a + b;
      case Pair::kSub:
        return a - b;
      case Pair::kMax:
        return a > b ? a : b;
      default:
        return a < b ? a : b;
    }
  });
  return {};
}

// Operands `first` and `second` are of no types for which there is an instruction; `reason` has the details.
Status no_form(const InferInput& in, size_t first, size_t second, std::string_view reason) {
  if (reason.starts_with("Argument type mismatch")) return refused(std::string(reason));
  return refused(fmt::format("Argument type mismatch: {}-th: \"{}\" vs. {}-th: \"{}\". {}", first,
                             type_text((*in.operands)[first]->type), second, type_text((*in.operands)[second]->type),
                             reason));
}

// ---- dot products ----

bool is_half(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

// The type of the products of x and y, `group` of which are added.
Result<Type> dot_type(InferInput& in, size_t first, int group) {
  AIPU_ASSIGN_OR_RETURN(const Type x, match_operands(in, {first, first + 1}, false, Sign::kMayDiffer));
  const Type y = (*in.operands)[first + 1]->type;
  const int bits = dtype_bits(x.element);
  if (group == 2 && !(is_integer(x.element) && bits <= 16))
    return refused("Only supports 8-bit or 16-bit integer instruction.");
  if (group == 4 && !is_half(x.element) && !(is_integer(x.element) && bits == 8)) {
    return refused("Only supports 8-bit integer instruction or 16-bit floating instruction.");
  }
  AIPU_RETURN_IF_ERROR(
      require_width(attribute(in, "half") != 0 ? x.with_lanes(2 * x.lanes) : x, Widths::kNativeOrMultiple));
  AIPU_RETURN_IF_ERROR(finish_mask(in, x));
  if (is_half(x.element)) return Type::vector(DType::kF32, x.lanes / 2);
  const DType wide = group == 2 ? widened(x.element) : DType::kI32;
  return Type::vector(with_sign(wide, is_signed_int(x.element) || is_signed_int(y.element)), x.lanes / group);
}

template <int kGroup>
Result<Type> infer_dot(InferInput& in) {
  return dot_type(in, 0, kGroup);
}

template <int kGroup>
Result<Type> infer_accumulating_dot(InferInput& in) {
  for (const size_t i : {0, 1, 2}) AIPU_RETURN_IF_ERROR(operand(in, i).status());
  const Result<Type> type = dot_type(in, 1, kGroup);
  if (!type.ok()) return no_form(in, 0, 1, type.status().message());
  // The sign of the accumulator decides about the range of the result.
  const Type got = (*in.operands)[0]->type;
  if (got.pointer || got.lanes != type->lanes || with_sign(got.element, true) != with_sign(type->element, true))
    return no_form(in, 0, 1, fmt::format("The sums are of \"{}\".", type_text(*type)));
  return got;
}

// Of `kGroup` products each; operand `first` and the next one.
template <int kGroup>
Status dot(const LaneCall& c, size_t first, const LaneRef* acc) {
  const LaneRef &x = c.operands[first], &y = c.operands[first + 1], &out = c.result;
  if (is_floating(x.type.element)) {
    for (int lane = 0; lane < out.type.lanes; ++lane) {
      const float start = acc ? acc->get<float>(lane) : 0.0f;
      // Summed in double and rounded once; the results are in the even lanes.
      double sum = start;
      for (int k = 0; k < kGroup && lane % 2 == 0; ++k) {
        const int from = lane / 2 * kGroup + k;
        if (c.active(from)) sum += read_float_lane(x.type, x.data, from) * read_float_lane(y.type, y.data, from);
      }
      out.set<float>(lane, lane % 2 == 0 ? static_cast<float>(sum) : start);
    }
    return {};
  }
  const bool wrap = c.attribute("wrap") != 0;
  with_int_type(out.type.element, [&]<typename R>(R) {
    for (int lane = 0; lane < out.type.lanes; ++lane) {
      Wide sum = acc ? wide_lane(*acc, lane) : 0;
      for (int k = 0; k < kGroup; ++k) {
        const int from = lane * kGroup + k;
        if (c.active(from)) sum += wide_lane(x, from) * wide_lane(y, from);
      }
      out.set<R>(lane, wrap ? static_cast<R>(sum) : clamp_to<R>(sum));
    }
  });
  return {};
}

template <int kGroup>
Status run_dot(const LaneCall& c) {
  return dot<kGroup>(c, 0, nullptr);
}
template <int kGroup>
Status run_accumulating_dot(const LaneCall& c) {
  return dot<kGroup>(c, 1, &c.operands[0]);
}

// ---- dot products of bfloat16, as the instruction vdpbf16ps computes them ----

// kLeastBits: of the registers that programs may write; the lowering makes halves of the language's 256 too.
template <int kLeastBits>
Result<Type> infer_bf16_dot(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr acc, operand(in, 0));
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {1, 2}, false));
  if (type.element != DType::kBF16) return no_form(in, 1, 2, "Only support bfloat16 instruction.");
  AIPU_RETURN_IF_ERROR(
      require_width(attribute(in, "half") != 0 || kLeastBits == 128 ? type.with_lanes(2 * type.lanes) : type,
                    Widths::kNativeOrMultiple));
  const Type result = Type::vector(DType::kF32, type.lanes / 2);
  if (acc->type != result) return no_form(in, 0, 1, fmt::format("The sums are of \"{}\".", type_text(result)));
  return result;
}

constexpr float kLeastNormal = 0x1p-126f;

float without_denormal(float x) { return std::fabs(x) < kLeastNormal ? std::copysign(0.0f, x) : x; }

// x * y + sum, rounded once; 0 where that is tiny. None of the operands is denormal.
float fma_without_denormal(float x, float y, float sum) {
  const float result = std::fma(x, y, sum);
  if (!(std::fabs(result) <= kLeastNormal)) return result;
  // Tiny is what would be less than the least normal number if exponents had no end. In double so small a sum is exact.
  constexpr double kTiny = 0x1p-126 - 0x1p-151;
  const double exact = static_cast<double>(x) * y + sum;
  return std::fabs(exact) < kTiny ? std::copysign(0.0f, result) : result;
}

// The odd product first, then the even one, each added by a fused multiply-add.
Status run_vdpbf16(const LaneCall& c) {
  const LaneRef &acc = c.operands[0], &x = c.operands[1], &y = c.operands[2];
  const auto lane = [](const LaneRef& from, int i) {
    return without_denormal(static_cast<float>(read_float_lane(from.type, from.data, i)));
  };
  for (int i = 0; i < c.result.type.lanes; ++i) {
    float sum = without_denormal(acc.get<float>(i));
    for (const int k : {2 * i + 1, 2 * i}) sum = fma_without_denormal(lane(x, k), lane(y, k), sum);
    c.result.set<float>(i, sum);
  }
  return {};
}

// ---- dot products of bfloat16, as the instruction BFDOT of 64-bit Arm computes them ----

Result<Type> infer_vbfdot(InferInput& in) {
  if (const int64_t lane = attribute(in, "lane", -1); lane < -1 || lane > 3)
    return invalid_argument(fmt::format("The \"lane\" is a pair of 128 bits, 0 to 3, got {}.", lane));
  return infer_bf16_dot<128>(in);
}

// Cut off, with the last bit set where that loses something; 0 where it is tiny.
float add_to_odd(float a, float b) {
  const double x = without_denormal(a), y = without_denormal(b), sum = x + y;
  if (std::isnan(sum)) return std::numeric_limits<float>::quiet_NaN();
  if (std::isinf(sum)) return static_cast<float>(sum);
  // What the sum lost (Knuth), and then what the cut to 24 bits loses.
  const double part = sum - x, lost = (x - (sum - part)) + (y - part);
  auto bits = std::bit_cast<uint64_t>(sum);
  if (lost != 0 && (bits & 1) == 0) bits += (lost > 0) == (sum > 0) ? 1 : -1;
  constexpr uint64_t kCut = (uint64_t{1} << 29) - 1;
  const auto odd = std::bit_cast<double>((bits & ~kCut) | ((bits & kCut) != 0 ? kCut + 1 : 0));
  if (std::fabs(odd) < 0x1p-126) return std::copysign(0.0f, static_cast<float>(sum));
  return std::fabs(odd) >= 0x1p128 ? std::copysign(INFINITY, static_cast<float>(sum)) : static_cast<float>(odd);
}

// The sum of both products, then that and `acc`.
Status run_vbfdot(const LaneCall& c) {
  const LaneRef &acc = c.operands[0], &x = c.operands[1], &y = c.operands[2];
  const auto lane = [](const LaneRef& from, int i) {
    return without_denormal(static_cast<float>(read_float_lane(from.type, from.data, i)));
  };
  const auto pair = static_cast<int>(c.attribute("lane", -1));
  for (int i = 0; i < c.result.type.lanes; ++i) {
    const int j = pair < 0 ? i : i / 4 * 4 + pair;
    const float even = lane(x, 2 * i) * lane(y, 2 * j), odd = lane(x, 2 * i + 1) * lane(y, 2 * j + 1);
    c.result.set<float>(i, add_to_odd(acc.get<float>(i), add_to_odd(even, odd)));
  }
  return {};
}

// ---- dot products of bytes, as the instructions SDOT and UDOT of 64-bit Arm compute them ----

Result<Type> infer_vsdot(InferInput& in) {
  if (const int64_t lane = attribute(in, "lane", -1); lane < -1 || lane > 3)
    return invalid_argument(fmt::format("The \"lane\" is four bytes of 128 bits, 0 to 3, got {}.", lane));
  AIPU_ASSIGN_OR_RETURN(const Expr acc, operand(in, 0));
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {1, 2}, false));
  if (!is_integer(type.element) || dtype_bits(type.element) != 8)
    return no_form(in, 1, 2, "Only support 8-bit integer instruction.");
  AIPU_RETURN_IF_ERROR(require_width(type.with_lanes(2 * type.lanes), Widths::kNativeOrMultiple));
  const Type result = Type::vector(DType::kI32, type.lanes / 4);
  if (acc->type != result) return no_form(in, 0, 1, fmt::format("The sums are of \"{}\".", type_text(result)));
  return result;
}

Status run_vsdot(const LaneCall& c) {
  const LaneRef &acc = c.operands[0], &x = c.operands[1], &y = c.operands[2];
  const auto four = static_cast<int>(c.attribute("lane", -1));
  for (int i = 0; i < c.result.type.lanes; ++i) {
    const int j = four < 0 ? i : i / 4 * 4 + four;
    Wide sum = wide_lane(acc, i);
    for (int k = 0; k < 4; ++k) sum += wide_lane(x, 4 * i + k) * wide_lane(y, 4 * j + k);
    c.result.set<int32_t>(i, static_cast<int32_t>(sum));
  }
  return {};
}

// ---- even and odd multiply-add ----

Result<Type> infer_vfma_part(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr acc, operand(in, 0));
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {1, 2}, false));
  if (!is_half(type.element)) return no_form(in, 1, 2, "Only support float16 and bfloat16 instruction.");
  AIPU_RETURN_IF_ERROR(require_width(type, Widths::kNative));
  const Type result = Type::vector(DType::kF32, type.lanes / 2);
  if (acc->type != result) return no_form(in, 0, 1, fmt::format("The sums are of \"{}\".", type_text(result)));
  AIPU_RETURN_IF_ERROR(finish_mask(in, result));
  return result;
}

template <int kOdd>
Status run_vfma_part(const LaneCall& c) {
  const LaneRef &acc = c.operands[0], &x = c.operands[1], &y = c.operands[2];
  for (int i = 0; i < c.result.type.lanes; ++i) {
    const auto a = static_cast<float>(read_float_lane(x.type, x.data, 2 * i + kOdd)),
               b = static_cast<float>(read_float_lane(y.type, y.data, 2 * i + kOdd));
    c.result.set<float>(i, c.active(i) ? acc.get<float>(i) + a * b : acc.get<float>(i));
  }
  return {};
}

// ---- 4x4 matrix multiply: x row-major, y column-major ----

Result<Type> infer_vmm(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr pointer, operand(in, 0));
  if (!pointer->type.pointer || pointer->type.element != DType::kF32)
    return refused("The 1st arg expect a float32 pointer.");
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {1, 2}, false));
  if (!is_half(type.element)) return no_form(in, 1, 2, "Only support float16 and bfloat16 instruction.");
  AIPU_RETURN_IF_ERROR(require_width(type, Widths::kNative));
  return Type::void_type();
}

template <bool kAccumulate>
Status run_vmm(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("a store is only possible when running");
  const LaneRef &x = c.operands[1], &y = c.operands[2];
  const auto pointer = c.operands[0].get<Pointer>();
  std::byte* data = c.machine->access(pointer, 0, 64, true);
  if (data == nullptr) return c.machine->access_error(pointer, 0, 64, true);
  const LaneRef out{Type::vector(DType::kF32, 16), data};
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      double sum = kAccumulate ? out.get<float>(4 * i + j) : 0.0f;
      for (int k = 0; k < 4; ++k)
        sum += read_float_lane(x.type, x.data, 4 * i + k) * read_float_lane(y.type, y.data, 4 * j + k);
      out.set<float>(4 * i + j, static_cast<float>(sum));
    }
  }
  return {};
}

// ---- products of blocks of bytes, as the tiles of AMX compute them ----

constexpr int64_t kTileColumns = 32, kTileStep = 64;

// c[rows][32] = a[rows][steps * 64] times b[steps][2][16][16][4], a's rows `stride` bytes apart.
Result<Type> infer_tile_dot(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr sums, operand(in, 0));
  if (!sums->type.pointer || sums->type.pointee() != Type::scalar(DType::kI32))
    return refused("The 1st arg expect an int32 pointer.");
  for (const size_t i : {1, 3}) {
    AIPU_ASSIGN_OR_RETURN(const Expr bytes, operand(in, i));
    const Type element = bytes->type;
    if (!element.pointer || element.lanes != 1 || !is_integer(element.element) || dtype_bits(element.element) != 8)
      return refused(fmt::format("The {} arg expect a pointer to 8-bit integers.", ordinal(i)));
  }
  for (const size_t i : {2, 4})
    AIPU_RETURN_IF_ERROR(
        to_integer(in, i, DType::kI64, fmt::format("The {} arg expect an integer scalar.", ordinal(i))));
  if (const int64_t rows = attribute(in, "rows", 32); rows != 16 && rows != 32)
    return refused(fmt::format("The arg \"rows\" expect 16 or 32, but got: \"{}\".", rows));
  return Type::void_type();
}

Status run_tile_dot(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("a store is only possible when running");
  const auto sums = c.operands[0].get<Pointer>(), left = c.operands[1].get<Pointer>(),
             right = c.operands[3].get<Pointer>();
  const int64_t stride = c.operands[2].get<int64_t>(), steps = c.operands[4].get<int64_t>(),
                rows = c.attribute("rows", 32);
  constexpr int64_t kMost = int64_t{1} << 40;
  if (steps < 0 || steps > kMost || stride < -kMost || stride > kMost)
    return invalid_argument(fmt::format("tile_dot: {} steps of rows {} bytes apart", steps, stride));
  AIPU_RETURN_IF_ERROR(c.machine->spend(rows * (kTileColumns + steps * kTileStep * kTileColumns)));
  const Type x = c.operands[1].type.pointee(), y = c.operands[3].type.pointee();
  const int64_t depth = steps * kTileStep, b_bytes = depth * kTileColumns;
  const std::byte* b = c.machine->access(right, 0, b_bytes, false);
  if (b == nullptr && b_bytes > 0) return c.machine->access_error(right, 0, b_bytes, false);
  const auto number = [](Type type, std::byte value) {
    return is_signed_int(type.element) ? int{static_cast<int8_t>(value)} : int{static_cast<uint8_t>(value)};
  };
  std::vector<uint32_t> results(static_cast<size_t>(rows * kTileColumns));
  for (int64_t i = 0; i < rows; ++i) {
    const std::byte* a = c.machine->access(left, i * stride, depth, false);
    if (a == nullptr && depth > 0) return c.machine->access_error(left, i * stride, depth, false);
    uint32_t* row = results.data() + i * kTileColumns;
    for (int64_t k = 0; k < depth; ++k) {
      const int factor = number(x, a[k]);
      const std::byte* at = b + k / kTileStep * kTileStep * kTileColumns + k % kTileStep / 4 * 64 + k % 4;
      for (int64_t j = 0; j < kTileColumns; ++j)
        row[j] += static_cast<uint32_t>(factor * number(y, at[j / 16 * 1024 + j % 16 * 4]));
    }
  }
  const auto bytes = static_cast<int64_t>(results.size() * sizeof(uint32_t));
  std::byte* out = c.machine->access(sums, 0, bytes, true);
  if (out == nullptr) return c.machine->access_error(sums, 0, bytes, true);
  std::memcpy(out, results.data(), static_cast<size_t>(bytes));
  return {};
}

// The third generation has neither matrix products nor dot products of floats.
std::string lacks_matrix(const IntrinsicCall& call, int generation) {
  return generation == 3 ? fmt::format("The \"{}\"", call.intrinsic->name) : "";
}
std::string lacks_float_dot(const IntrinsicCall& call, int generation) {
  return is_floating(call.args[1]->type.element) ? lacks_matrix(call, generation) : "";
}

}  // namespace

void add_widening_rows(std::vector<Intrinsic>& rows) {
  const auto add = [&](std::string_view name, std::vector<IntrinsicParam> params, Result<Type> (*infer)(InferInput&),
                       Status (*run)(const LaneCall&), Splitting splitting = Splitting::kNone) -> Intrinsic& {
    rows.push_back({.name = name, .params = std::move(params), .infer = infer, .splitting = splitting, .run = run});
    return rows.back();
  };
  const std::vector<IntrinsicParam> widening = {value("x"), value("y"), mask(), out_sign(), pass_through()};
  const std::vector<IntrinsicParam> pair = {value("x"), value("y")};
  const std::vector<IntrinsicParam> accumulating = {value("acc"), value("x"), value("y"), mask()};
  // `half` is set by the lowering to registers of 128 bits. `wrap` is ours: without saturation, which costs several
  // instructions where the CPU has no saturating dot product.
  const std::vector<IntrinsicParam> dot = {value("x"), value("y"), mask(), flag("half")};
  const std::vector<IntrinsicParam> accumulating_dot = {value("acc"), value("x"), value("y"), mask(), flag("half")};
  const std::vector<IntrinsicParam> wrapping_dot = {value("acc"), value("x"),   value("y"),
                                                    mask(),       flag("half"), flag("wrap")};
  add("vmull", widening, infer_vmull, run_vmull<false>);
  add("vmulh", widening, infer_vmull, run_vmull<true>);
  add("vaddh", pair, infer_pairwise, run_pairwise<Pair::kAdd>, Splitting::kSpecial).pairs_by = "vadd";
  add("vsubh", pair, infer_pairwise, run_pairwise<Pair::kSub>, Splitting::kSpecial).pairs_by = "vsub";
  add("vmaxh", pair, infer_pairwise, run_pairwise<Pair::kMax>, Splitting::kSpecial).pairs_by = "max";
  add("vminh", pair, infer_pairwise, run_pairwise<Pair::kMin>, Splitting::kSpecial).pairs_by = "min";
  add("vdot", dot, infer_dot<2>, run_dot<2>, Splitting::kSpecial).registerwise = true;
  add("vqdot", dot, infer_dot<4>, run_dot<4>, Splitting::kSpecial).registerwise = true;
  add("vdpa", wrapping_dot, infer_accumulating_dot<2>, run_accumulating_dot<2>, Splitting::kSpecial).registerwise =
      true;
  Intrinsic& quad =
      add("vqdpa", accumulating_dot, infer_accumulating_dot<4>, run_accumulating_dot<4>, Splitting::kSpecial);
  quad.registerwise = true;
  quad.lacks = lacks_float_dot;
  rows.push_back({.name = "vdpbf16",
                  .params = {value("acc"), value("x"), value("y"), flag("half")},
                  .infer = infer_bf16_dot<256>,
                  .splitting = Splitting::kSpecial,
                  .run = run_vdpbf16,
                  .registerwise = true,
                  .exposure = Exposure::kExtension});
  rows.push_back({.name = "vbfdot",
                  .params = {value("acc"), value("x"), value("y"), number("lane", -1), flag("half")},
                  .infer = infer_vbfdot,
                  .splitting = Splitting::kSpecial,
                  .run = run_vbfdot,
                  .registerwise = true,
                  .exposure = Exposure::kExtension});
  rows.push_back({.name = "vsdot",
                  .params = {value("acc"), value("x"), value("y"), number("lane", -1), flag("half")},
                  .infer = infer_vsdot,
                  .splitting = Splitting::kSpecial,
                  .run = run_vsdot,
                  .registerwise = true,
                  .exposure = Exposure::kExtension});
  add("vfmae", accumulating, infer_vfma_part, run_vfma_part<0>);
  add("vfmao", accumulating, infer_vfma_part, run_vfma_part<1>);
  rows.push_back({.name = "vmml",
                  .params = {pointer("ptr", Access::kReadWrite), value("x"), value("y")},
                  .infer = infer_vmm,
                  .pure = false,
                  .splitting = Splitting::kNone,
                  .run = run_vmm<false>,
                  .cost = CostClass::kMatrix,
                  .lacks = lacks_matrix});
  rows.push_back({.name = "vmma",
                  .params = {pointer("acc_ptr", Access::kReadWrite), value("x"), value("y")},
                  .infer = infer_vmm,
                  .pure = false,
                  .splitting = Splitting::kNone,
                  .run = run_vmm<true>,
                  .cost = CostClass::kMatrix,
                  .lacks = lacks_matrix});
  rows.push_back({.name = "tile_dot",
                  .params = {pointer("c", Access::kWrite), pointer("a", Access::kRead), value("stride"),
                             pointer("b", Access::kRead), value("steps"), number("rows", 32)},
                  .infer = infer_tile_dot,
                  .pure = false,
                  .splitting = Splitting::kNone,
                  .run = run_tile_dot,
                  .cost = CostClass::kMatrix,
                  .exposure = Exposure::kExtension});
}

}  // namespace aipu::tir
