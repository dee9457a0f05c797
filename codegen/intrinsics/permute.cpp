#include <fmt/format.h>

#include <array>

#include "codegen/intrinsics/families.h"
#include "codegen/intrinsics/lane_loops.h"
#include "codegen/intrinsics/type_rules.h"

namespace aipu::tir {
namespace {

using namespace rules;

enum class Part : int64_t { kAll, kLow, kHigh, kEven, kOdd };
constexpr std::array<std::string_view, 5> kParts = {"all", "low", "high", "even", "odd"};

int part_lane(Part part, int i, int lanes) {
  switch (part) {
    case Part::kHigh:
      return lanes / 2 + i;
    case Part::kEven:
      return 2 * i;
    case Part::kOdd:
      return 2 * i + 1;
    default:
      return i;
  }
}

void copy_lane(const LaneRef& to, int64_t to_lane, const LaneRef& from, int64_t from_lane) {
  const auto bytes = static_cast<int64_t>(dtype_bytes(to.type.element));
  std::memcpy(to.data + to_lane * bytes, from.data + from_lane * bytes, static_cast<size_t>(bytes));
}
void clear_lane(const LaneRef& to, int64_t lane) {
  const auto bytes = static_cast<int64_t>(dtype_bytes(to.type.element));
  std::memset(to.data + lane * bytes, 0, static_cast<size_t>(bytes));
}

// Two or more operands of one type; scalars are broadcast.
Result<Type> match_all(InferInput& in) {
  std::vector<Expr>& operands = *in.operands;
  size_t first = operands.size();
  for (size_t i = 0; i < operands.size(); ++i) {
    AIPU_ASSIGN_OR_RETURN(const Expr e, operand(in, i));
    if (e->type.pointer) return refused(fmt::format("Unexpect \"{}\" pointer as argument.", type_text(e->type)));
    if (e->type.is_vector() && first == operands.size()) first = i;
  }
  if (first == operands.size()) return refused("All arguments are scalar.");
  const Type type = operands[first]->type;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i]->type.is_scalar()) AIPU_RETURN_IF_ERROR(convert_operand(in, i, type));
    if (operands[i]->type != type) {
      return refused(fmt::format("Argument type mismatch: {}-th: \"{}\" vs. {}-th: \"{}\".", first, type_text(type), i,
                                 type_text(operands[i]->type)));
    }
  }
  return type;
}

// vconcat(inps, part): every operand is one of inps. Other widths than multiples of the native one are an extension.
Result<Type> infer_vconcat(InferInput& in) {
  if (in.operands->size() < 2) return refused("The 1st arg expect at least 2 vectors.");
  AIPU_ASSIGN_OR_RETURN(const Type type, match_all(in));
  const auto part = static_cast<Part>(attribute(in, "part"));
  if (part != Part::kAll && type.lanes % 2 != 0)
    return refused(fmt::format("An even number of lanes is needed, but got: \"{}\".", type_text(type)));
  const int lanes = part == Part::kAll ? type.lanes : type.lanes / 2;
  return type.with_lanes(lanes * static_cast<int>(in.operands->size()));
}

Status run_vconcat(const LaneCall& c) {
  const auto part = static_cast<Part>(c.attribute("part"));
  const int lanes = c.operands[0].type.lanes;
  const int each = part == Part::kAll ? lanes : lanes / 2;
  for (int i = 0; i < c.result.type.lanes; ++i)
    copy_lane(c.result, i, c.operands[static_cast<size_t>(i / each)], part_lane(part, i % each, lanes));
  return {};
}

// One part of vsplit(x): lanes [index * lanes, (index + 1) * lanes). The front end makes vsplit a tuple of these.
Result<Type> infer_vpart(InferInput& in) {
  AIPU_RETURN_IF_ERROR(require_vector(in, 0));
  const Type type = (*in.operands)[0]->type;
  const int64_t lanes = attribute(in, "lanes"), index = attribute(in, "index");
  if (lanes < 1 || index < 0 || (index + 1) * lanes > type.lanes) {
    return refused(
        fmt::format("Lanes {} to {} are not in \"{}\".", index * lanes, (index + 1) * lanes - 1, type_text(type)));
  }
  return type.with_lanes(static_cast<int>(lanes));
}

Status run_vpart(const LaneCall& c) {
  const int64_t first = c.attribute("index") * c.attribute("lanes");
  for (int i = 0; i < c.result.type.lanes; ++i) copy_lane(c.result, i, c.operands[0], first + i);
  return {};
}

Result<Type> infer_vzip(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0, 1}, false));
  const auto part = static_cast<Part>(attribute(in, "part"));
  if (part == Part::kAll) return type.with_lanes(type.lanes * 2);
  if (type.lanes % 2 != 0)
    return refused(fmt::format("An even number of lanes is needed, but got: \"{}\".", type_text(type)));
  return type;
}

Status run_vzip(const LaneCall& c) {
  const auto part = static_cast<Part>(c.attribute("part"));
  const int lanes = c.operands[0].type.lanes;
  for (int i = 0; i < c.result.type.lanes; ++i)
    copy_lane(c.result, i, c.operands[static_cast<size_t>(i % 2)], part_lane(part, i / 2, lanes));
  return {};
}

// The mask becomes the last operand; none: all lanes.
Status mask_to_operand(InferInput& in, size_t index, Type type, bool required) {
  if (in.operands->size() <= index) in.operands->resize(index + 1);
  Expr& slot = (*in.operands)[index];
  if (in.mask && *in.mask) {
    slot = *in.mask;
    in.mask->reset();
  }
  if (!slot) {
    if (required) return refused("The arg \"mask\" is missing.");
    slot = broadcast(bool_imm(true), type.lanes);
  }
  InferInput with_mask{in.operands, {}, &slot, nullptr, in.attributes};
  return finish_mask(with_mask, type);
}

Result<Type> infer_vcompt(InferInput& in) {
  AIPU_RETURN_IF_ERROR(require_vector(in, 0));
  const Type type = (*in.operands)[0]->type;
  AIPU_RETURN_IF_ERROR(require_width(type, Widths::kNative));
  AIPU_RETURN_IF_ERROR(mask_to_operand(in, 1, type, true));
  return type;
}

Result<Type> infer_vcompc(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0, 1}, false));
  AIPU_RETURN_IF_ERROR(require_width(type, Widths::kNative));
  AIPU_RETURN_IF_ERROR(mask_to_operand(in, 2, type, true));
  return type;
}

Status run_vcompress(const LaneCall& c) {
  const LaneRef& keep = c.operands.back();
  const bool append = c.operands.size() == 3;
  int next = 0;
  for (int i = 0; i < c.result.type.lanes; ++i) {
    if (keep.data[i] != std::byte{0}) copy_lane(c.result, next++, c.operands[0], i);
  }
  for (int rest = 0; next < c.result.type.lanes; ++next, ++rest) {
    if (append)
      copy_lane(c.result, next, c.operands[1], rest);
    else
      clear_lane(c.result, next);
  }
  return {};
}

Result<Type> infer_vrevs(InferInput& in) {
  AIPU_RETURN_IF_ERROR(require_vector(in, 0));
  return (*in.operands)[0]->type;
}

Status run_vrevs(const LaneCall& c) {
  const int lanes = c.result.type.lanes;
  for (int i = 0; i < lanes; ++i) copy_lane(c.result, i, c.operands[0], lanes - 1 - i);
  return {};
}

// vsel(x, y, mask): the mask is the third operand of the call.
Result<Type> infer_vsel(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0, 1}, false));
  AIPU_RETURN_IF_ERROR(mask_to_operand(in, 2, type, false));
  return type;
}

Status run_vsel(const LaneCall& c) {
  for (int i = 0; i < c.result.type.lanes; ++i)
    copy_lane(c.result, i, c.operands[c.operands[2].data[i] != std::byte{0} ? 0 : 1], i);
  return {};
}

Result<Type> infer_vshfl(InferInput& in) {
  AIPU_RETURN_IF_ERROR(require_vector(in, 0));
  const Type type = (*in.operands)[0]->type;
  if (is_bool(type.element)) return refused("Only support integer and floating instruction.");
  AIPU_RETURN_IF_ERROR(to_integer(in, 1, DType::kI32, "The arg \"shift\" expect an integer scalar."));
  const auto shift = as_int((*in.operands)[1]);
  if (shift && is_literal(in, 1) && (*shift < 0 || *shift >= type.lanes)) {
    return refused(fmt::format("The arg \"shift\" expect in range [0, {}), but got: \"{}\".", type.lanes, *shift));
  }
  return type;
}

Status run_vshfl(const LaneCall& c) {
  const int64_t lanes = c.result.type.lanes;
  const int64_t shift = ((c.operands[1].get<int32_t>() % lanes) + lanes) % lanes;
  for (int64_t i = 0; i < lanes; ++i) copy_lane(c.result, i, c.operands[0], (i + shift) % lanes);
  return {};
}

// vbcast(x, mask, lanes)
Result<Type> infer_vbcast(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr x, operand(in, 0));
  if (!x->type.is_scalar()) return refused("The 1st arg expect a scalar.");
  if (!in.is_literal.empty() && in.is_literal[0])
    return refused("The 1st arg expect a scalar that contain type information.");
  int64_t lanes = attribute(in, "lanes");
  if (is_bool(x->type.element)) {
    if (lanes == 0) return refused("The arg \"lanes\" is required for a bool.");
    if (in.mask && *in.mask) return refused("The arg \"mask\" is not supported for a bool.");
  }
  if (lanes == 0) lanes = 256 / dtype_bits(x->type.element);
  if (lanes < 2) return refused(fmt::format("The arg \"lanes\" expect > 1, but got: \"{}\".", lanes));
  const Type type = x->type.with_lanes(static_cast<int>(lanes));
  AIPU_RETURN_IF_ERROR(finish_mask(in, type));
  return type;
}

Status run_vbcast(const LaneCall& c) {
  for (int i = 0; i < c.result.type.lanes; ++i) {
    if (c.active(i))
      copy_lane(c.result, i, c.operands[0], 0);
    else
      clear_lane(c.result, i);
  }
  return {};
}

Result<Type> infer_vsldl(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type type, match_operands(in, {0, 1}, false));
  AIPU_ASSIGN_OR_RETURN(const Expr shift, operand(in, 2));
  const auto constant = as_int(shift);
  if (!constant) return refused("The arg \"shift\" expect a constant integer scalar.");
  if (*constant < 0 || *constant >= type.lanes) {
    return refused(fmt::format("The arg \"shift\" expect in range [0, {}), but got: \"{}\".", type.lanes, *constant));
  }
  return type;
}

Status run_vsldl(const LaneCall& c) {
  const int lanes = c.result.type.lanes;
  const auto shift = static_cast<int>(read_int_lane(c.operands[2].type, c.operands[2].data, 0));
  for (int i = 0; i < lanes; ++i) copy_lane(c.result, i, c.operands[i + shift < lanes ? 0 : 1], (i + shift) % lanes);
  return {};
}

// vtbl(table, indices): the operands are the vectors of the table, then the indices.
Result<Type> infer_vtbl(InferInput& in) {
  const size_t count = in.operands->size();
  if (count < 3 || count > 5) return refused("The length of the arg \"table\" expect in range [2, 4]");
  AIPU_ASSIGN_OR_RETURN(const Expr indices, operand(in, count - 1));
  std::vector<Expr> table(in.operands->begin(), in.operands->end() - 1);
  InferInput of_table{&table, in.is_literal, nullptr, nullptr, in.attributes};
  AIPU_ASSIGN_OR_RETURN(const Type type, match_all(of_table));
  AIPU_RETURN_IF_ERROR(require_width(type, Widths::kNative));
  if (!indices->type.is_vector() || !is_integer(indices->type.element))
    return refused(fmt::format("The {} arg expect an integer vector.", ordinal(1)));
  if (dtype_bits(indices->type.element) != dtype_bits(type.element) || indices->type.lanes != type.lanes) {
    return refused(fmt::format("The bits mismatch: \"table\": \"{}\" vs. \"indices\": \"{}\".",
                               dtype_bits(type.element), dtype_bits(indices->type.element)));
  }
  std::copy(table.begin(), table.end(), in.operands->begin());
  return type;
}

Status run_vtbl(const LaneCall& c) {
  const int lanes = c.result.type.lanes;
  const auto tables = static_cast<int64_t>(c.operands.size()) - 1;
  const LaneRef& indices = c.operands.back();
  for (int i = 0; i < lanes; ++i) {
    const int64_t index = read_int_lane(indices.type, indices.data, i);
    if (index < 0 || index >= tables * lanes)
      clear_lane(c.result, i);
    else
      copy_lane(c.result, i, c.operands[static_cast<size_t>(index / lanes)], index % lanes);
  }
  return {};
}

Result<Type> infer_vreplic(InferInput& in) {
  AIPU_RETURN_IF_ERROR(require_vector(in, 0));
  const Type type = (*in.operands)[0]->type;
  if (in.operands->size() < 2) in.operands->push_back(nullptr);
  Expr& index = (*in.operands)[1];
  if (!index) index = int_imm(0);
  if (!index->type.is_scalar() || !is_integer(index->type.element))
    return refused("The arg \"index\" expects an integer scalar.");
  if (!is_native(type) && is_multiple_width(type) && !as_int(index))
    return refused("The arg \"index\" expects an integer constant value.");
  if (const auto constant = as_int(index);
      constant && is_literal(in, 1) && (*constant < 0 || *constant >= type.lanes)) {
    return refused(fmt::format("The arg \"index\" expect in range [0, {}), but got: \"{}\".", type.lanes, *constant));
  }
  index = cast(Type::scalar(DType::kI32), index, index->span);
  return type;
}

Status run_vreplic(const LaneCall& c) {
  const int32_t index = c.operands[1].get<int32_t>();
  if (index < 0 || index >= c.result.type.lanes) {
    return invalid_argument(
        fmt::format("The arg \"index\" expect in range [0, {}), but got: \"{}\".", c.result.type.lanes, index));
  }
  for (int i = 0; i < c.result.type.lanes; ++i) copy_lane(c.result, i, c.operands[0], index);
  return {};
}

// const_mask(x): x is a vector literal of bools.
Result<Type> infer_const_mask(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr x, operand(in, 0));
  if (!x->type.is_mask()) return refused("The length of the 1st arg expect > 1");
  return x->type;
}

Status run_const_mask(const LaneCall& c) {
  std::memcpy(c.result.data, c.operands[0].data, static_cast<size_t>(c.result.type.lanes));
  return {};
}

Result<Type> infer_tail_mask(InferInput& in) {
  const int64_t lanes = attribute(in, "lanes");
  if (lanes < 2) return refused(fmt::format("The arg \"lanes\" expect > 1, but got: \"{}\".", lanes));
  AIPU_RETURN_IF_ERROR(to_integer(in, 0, DType::kI32, "The arg \"n\" expect an integer scalar."));
  if (const auto n = as_int((*in.operands)[0]); n && is_literal(in, 0) && (*n < 0 || *n > lanes))
    return refused("The arg \"n\" expect in range [0, lanes]");
  return Type::vector(DType::kBool, static_cast<int>(lanes));
}

Status run_tail_mask(const LaneCall& c) {
  const int32_t n = c.operands[0].get<int32_t>();
  if (n < 0 || n > c.result.type.lanes)
    return invalid_argument(fmt::format("S.tail_mask: {} is not in [0, {}]", n, c.result.type.lanes));
  for (int i = 0; i < c.result.type.lanes; ++i) c.result.data[i] = static_cast<std::byte>(i < n);
  return {};
}

Status strict_vzip(const IntrinsicCall& call) {
  return call.attribute("part") == 0 ? Status() : strict_width<Widths::kNativeOrMultiple>(call);
}

Status strict_vshfl(const IntrinsicCall& call) {
  AIPU_RETURN_IF_ERROR(strict_width<Widths::kNativeOrMultiple>(call));
  return as_int(call.args[1]) ? Status() : strict_width<Widths::kNative>(call);
}

}  // namespace

void add_permute_rows(std::vector<Intrinsic>& rows) {
  const auto add = [&](std::string_view name, std::vector<IntrinsicParam> params, Result<Type> (*infer)(InferInput&),
                       Status (*run)(const LaneCall&), Splitting splitting) -> Intrinsic& {
    rows.push_back({.name = name, .params = std::move(params), .infer = infer, .splitting = splitting, .run = run});
    return rows.back();
  };
  constexpr auto kMultiple = strict_width<Widths::kNativeOrMultiple>;
  add("vconcat", {value("inps"), choice("part", {kParts.begin(), kParts.end()})}, infer_vconcat, run_vconcat,
      Splitting::kSpecial)
      .strict = kMultiple;
  add("vpart", {value("x"), required_number("index"), required_number("lanes")}, infer_vpart, run_vpart,
      Splitting::kSpecial)
      .exposure = Exposure::kExtension;
  add("vzip", {value("x"), value("y"), choice("part", {kParts.begin(), kParts.end()})}, infer_vzip, run_vzip,
      Splitting::kSpecial)
      .strict = strict_vzip;
  add("vcompt", {value("x"), mask()}, infer_vcompt, run_vcompress, Splitting::kNone);
  add("vcompc", {value("x"), value("y"), mask()}, infer_vcompc, run_vcompress, Splitting::kNone);
  add("vrevs", {value("x")}, infer_vrevs, run_vrevs, Splitting::kSpecial).strict = kMultiple;
  add("vsel", {value("x"), value("y"), mask()}, infer_vsel, run_vsel, Splitting::kElementwise);
  add("vshfl", {value("x"), value("shift")}, infer_vshfl, run_vshfl, Splitting::kSpecial).strict = strict_vshfl;
  add("vbcast", {value("x"), mask(), number("lanes", 0)}, infer_vbcast, run_vbcast, Splitting::kSpecial).computes =
      false;
  add("vsldl", {value("x"), value("y"), value("shift")}, infer_vsldl, run_vsldl, Splitting::kSpecial).strict =
      kMultiple;
  add("vtbl", {value("table"), value("indices")}, infer_vtbl, run_vtbl, Splitting::kNone);
  add("vreplic", {value("x"), optional_value("index")}, infer_vreplic, run_vreplic, Splitting::kSpecial).strict =
      kMultiple;
  add("const_mask", {value("x")}, infer_const_mask, run_const_mask, Splitting::kElementwise).cost = CostClass::kFree;
  add("tail_mask", {value("n"), required_number("lanes")}, infer_tail_mask, run_tail_mask, Splitting::kSpecial);
}

}  // namespace aipu::tir
