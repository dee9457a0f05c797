#include <bit>
#include <vector>

#include "codegen/intrinsics/families.h"
#include "codegen/intrinsics/lane_loops.h"
#include "codegen/intrinsics/type_rules.h"

namespace aipu::tir {
namespace {

using namespace rules;

// Any width is an extension: the language has native and multiple-width vectors here.
Result<Type> infer_vrpadd(InferInput& in) {
  AIPU_RETURN_IF_ERROR(require_vector(in, 0));
  const Type type = (*in.operands)[0]->type;
  if (is_bool(type.element)) return refused("Only support integer and floating instruction.");
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  if (type.element != DType::kF16 && type.element != DType::kBF16) return type;
  return Type::vector(DType::kF32, std::max(type.lanes / 2, 1));
}

// The order of the additions is fixed, so that splitting a vector does not change a sum: lanes are padded to a power of
// two with zeros, then the upper half is added to the lower half until one lane is left.
template <typename C, typename Op>
C halving(std::vector<C>& lanes, C padding, Op op) {
  lanes.resize(std::bit_ceil(lanes.size()), padding);
  for (size_t half = lanes.size() / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] = op(lanes[i], lanes[i + half]);
  }
  return lanes[0];
}

Status run_vrpadd(const LaneCall& c) {
  const LaneRef& x = c.operands[0];
  std::memset(c.result.data, 0, static_cast<size_t>(c.result.type.bytes()));
  with_number_type(x.type.element, [&]<typename T>(T) {
    using C = ComputeType<T>;
    std::vector<C> lanes(static_cast<size_t>(x.type.lanes));
    for (int i = 0; i < x.type.lanes; ++i)
      lanes[static_cast<size_t>(i)] = c.active(i) ? to_compute(lanes_of<T>(x)[i]) : C{};
    c.result.set<C>(0, halving(lanes, C{}, [](C a, C b) { return wrapping_add(a, b); }));
  });
  return {};
}

Result<Type> infer_vrpmax(InferInput& in) {
  AIPU_RETURN_IF_ERROR(require_vector(in, 0));
  const Type type = (*in.operands)[0]->type;
  if (is_bool(type.element)) return refused("Only support integer and floating instruction.");
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  return type;
}

// No active lane: the identity of the operation. NaN lanes lose against others, as in max and min.
template <bool kMax>
Status run_vrpmax(const LaneCall& c) {
  const LaneRef& x = c.operands[0];
  std::memset(c.result.data, 0, static_cast<size_t>(c.result.type.bytes()));
  with_number_type(x.type.element, [&]<typename T>(T) {
    using C = ComputeType<T>;
    using Limits = std::numeric_limits<C>;
    const C identity = kMax ? (std::is_floating_point_v<C> ? static_cast<C>(-Limits::infinity()) : Limits::lowest())
                            : (std::is_floating_point_v<C> ? Limits::infinity() : Limits::max());
    std::vector<C> lanes(static_cast<size_t>(x.type.lanes));
    for (int i = 0; i < x.type.lanes; ++i)
      lanes[static_cast<size_t>(i)] = c.active(i) ? to_compute(lanes_of<T>(x)[i]) : identity;
    const C best = halving(lanes, identity, [](C a, C b) { return kMax ? lane_max(a, b) : lane_min(a, b); });
    c.result.set<T>(0, from_compute<T>(best));
    if (c.attribute("return_idx") != 0 && x.type.lanes > 1) {
      int64_t index = 0;
      for (int i = x.type.lanes - 1; i >= 0; --i) {
        if (c.active(i) && to_compute(lanes_of<T>(x)[i]) == best) index = i;
      }
      std::memcpy(c.result.data + sizeof(T), &index, sizeof(T));
    }
  });
  return {};
}

// The second generation has no index of the extremum.
std::string lacks_index(const IntrinsicCall& call, int generation) {
  return generation == 2 && call.attribute("return_idx") != 0 ? "The arg \"return_idx\"" : "";
}

}  // namespace

void add_reduce_rows(std::vector<Intrinsic>& rows) {
  rows.push_back({.name = "vrpadd",
                  .params = {value("x"), mask()},
                  .infer = infer_vrpadd,
                  .splitting = Splitting::kSpecial,
                  .run = run_vrpadd,
                  .cost = CostClass::kReduction,
                  .reduces_by = "vadd",
                  .reduces_with = BinaryOp::kAdd,
                  .strict = strict_width<Widths::kNativeOrMultiple>});
  rows.push_back({.name = "vrpmax",
                  .params = {value("x"), mask(), flag("return_idx")},
                  .infer = infer_vrpmax,
                  .splitting = Splitting::kSpecial,
                  .run = run_vrpmax<true>,
                  .cost = CostClass::kReduction,
                  .reduces_by = "max",
                  .reduces_with = BinaryOp::kMax,
                  .strict = strict_width<Widths::kNative>,
                  .lacks = lacks_index});
  rows.push_back({.name = "vrpmin",
                  .params = {value("x"), mask(), flag("return_idx")},
                  .infer = infer_vrpmax,
                  .splitting = Splitting::kSpecial,
                  .run = run_vrpmax<false>,
                  .cost = CostClass::kReduction,
                  .reduces_by = "min",
                  .reduces_with = BinaryOp::kMin,
                  .strict = strict_width<Widths::kNative>,
                  .lacks = lacks_index});
}

}  // namespace aipu::tir
