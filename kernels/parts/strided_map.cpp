#include "kernels/parts/strided_map.h"

#include <algorithm>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "kernels/parts/axis_view.h"
#include "kernels/parts/narrow_rows.h"
#include "kernels/parts/staging.h"
#include "kernels/parts/transposed_copy.h"

namespace aipu::kernels {
namespace {

using graph::Dim;

// Work is handed to TECs in units of at most this many elements of the innermost dimension.
constexpr int kBlockElements = 4096;

bool is_zero(const Dim& d) { return d.is_constant() && *d.constant() == 0; }
bool is_one(const Dim& d) { return d.is_constant() && *d.constant() == 1; }

// Merges dimension i into i+1 where every operand walks both as one, after dropping extents of 1.
void merge_dimensions(StridedMap* map) {
  std::vector<MapOperand*> operands;
  for (MapOperand& input : map->inputs) operands.push_back(&input);
  operands.push_back(&map->output);
  map->keeps_samples = map->keeps_samples && !map->dims.empty() && !is_one(map->dims[0]);
  for (size_t i = map->dims.size(); i-- > 0;) {
    if (!is_one(map->dims[i])) continue;
    map->dims.erase(map->dims.begin() + static_cast<ptrdiff_t>(i));
    for (MapOperand* operand : operands) operand->strides.erase(operand->strides.begin() + static_cast<ptrdiff_t>(i));
  }
  for (size_t i = map->dims.size(); i-- > 1;) {
    const size_t outer = i - 1;
    const bool mergeable = std::all_of(operands.begin(), operands.end(), [&](const MapOperand* operand) {
      return operand->strides[outer] == operand->strides[i] * map->dims[i];
    });
    if (!mergeable || (outer == 0 && map->keeps_samples)) continue;
    map->dims[outer] = map->dims[outer] * map->dims[i];
    map->dims.erase(map->dims.begin() + static_cast<ptrdiff_t>(i));
    for (MapOperand* operand : operands) {
      operand->strides[outer] = operand->strides[i];
      operand->strides.erase(operand->strides.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  if (map->dims.empty()) {
    map->dims.push_back(1);
    for (MapOperand* operand : operands) operand->strides.push_back(operand == &map->output ? Dim(1) : Dim(0));
  }
}

// Extents of 0 have no elements that could be read.
bool is_backward(const Dim& stride) { return !is_zero(stride) && stride.upper_bound().value_or(1) <= 0; }
// 0 for an extent of 1 (broadcast_strides).
bool has_condition(const Dim& d) {
  return d.op() == graph::DimOp::kSelect || d.op() == graph::DimOp::kEq ||
         std::any_of(d.operands().begin(), d.operands().end(), has_condition);
}

std::string_view inner_mode(const Dim& stride) {
  if (is_zero(stride)) return "broadcast";
  if (is_one(stride)) return "contiguous";
  if (stride == Dim(-1)) return "reversed";
  if (is_backward(stride)) return "backward";
  if (has_condition(stride)) return "selected";
  return "strided";
}

std::string_view storage_name(DType dtype) { return dtype == DType::kBool ? "uint8" : dtype_name(dtype); }

std::string_view conversion(DType dtype) {
  if (dtype == DType::kBool) return "mask";
  if (dtype == DType::kF16 || dtype == DType::kBF16) return "float32";
  return "none";
}

// Rows of a few elements are not worth the masks of a register that is much wider: a CPU has narrower ones.
int lanes_for(const tir::Target& target, int bits, const Dim& row) {
  int lanes = std::max(2, target.lanes(bits));
  constexpr int kNarrowest = 128;
  const auto extent = row.constant();
  while (target.codegen == "native_c" && extent && lanes * bits > kNarrowest && 2 * *extent <= lanes) lanes /= 2;
  return lanes;
}

// How many elements in front of its own place a contiguous operand is fetched, of which a vector is a line of the
// cache: what is larger than a part of the second-level cache comes from further away, and the next page, which the CPU
// does not fetch by itself, is wanted soon. The quantisation of YOLO's image takes 0.7 of its time.
int64_t fetched_ahead(const tir::Target& target, int lanes, const StridedMap& map, const MapOperand& operand) {
  constexpr int64_t kLineBytes = 64, kAheadBytes = 4096, kLeastBytes = 1 << 20;
  const auto element = static_cast<int64_t>(dtype_bytes(storage_dtype(operand.dtype)));
  if (target.codegen != "native_c" || !is_one(operand.strides.back()) || lanes * element < kLineBytes) return 0;
  Dim elements = 1;
  for (size_t i = 0; i < map.dims.size(); ++i) {
    if (!is_zero(operand.strides[i])) elements = elements * map.dims[i];
  }
  const Dim of_one = elements.substitute([](const std::string&) { return std::optional<Dim>(1); });
  return of_one.constant_or(0) * element >= kLeastBytes ? kAheadBytes / element : 0;
}

// Where elements of an operand are along the innermost dimension, one after the other; empty: its stride tells.
using Places = std::vector<int32_t>;

// Rows of a few elements become longer ones: the innermost dimensions that the output walks as one become one, in which
// other operands are read by tables. Returns a table for each input; none where nothing changes.
std::vector<Places> widen_rows(const tir::Target& target, int lanes, StridedMap* map) {
  // A table costs a load for each element: rows of a third of a vector are as fast by themselves.
  constexpr int64_t kRowsInVector = 3;
  const auto narrow = map->dims.back().constant();
  if (target.codegen != "native_c" || !narrow || *narrow < 1 || kRowsInVector * *narrow > lanes ||
      !is_one(map->output.strides.back()))
    return {};
  const auto is_fixed = [](const Dim& stride) { return stride.is_constant() && *stride.constant() >= 0; };
  // Of the dimension in front of those that are taken whole a part may be taken: the greatest divisor with room.
  constexpr int64_t kMostPlaces = kBlockElements;
  size_t first = map->dims.size() - 1;
  int64_t length = *narrow, part = 1;
  const auto all_fixed = [&](size_t i) {
    return std::all_of(map->inputs.begin(), map->inputs.end(),
                       [&](const MapOperand& input) { return is_fixed(input.strides[i]); });
  };
  if (!all_fixed(first)) return {};
  while (first > 0 && part == 1) {
    const auto extent = map->dims[first - 1].constant();
    if (!extent || *extent < 1 || map->output.strides[first - 1] != Dim(length) || !all_fixed(first - 1)) break;
    part = std::min(*extent, kMostPlaces / length);
    while (*extent % part != 0) --part;
    if (part == 1) break;
    length *= part;
    part = part == *extent ? 1 : part;
    --first;
  }
  if (length < lanes) return {};
  // Places have 32 bits, and so do the positions of kernels that read by them.
  constexpr int64_t kMostElements = std::numeric_limits<int32_t>::max();
  const auto is_small = [&](const MapOperand& operand) {
    Dim reach = 0;
    for (size_t i = map->dims.size(); i-- > 0;) {
      reach = reach + (map->dims[i] - 1) * operand.strides[i];
      if (i <= first && reach.constant_or(0) > kMostElements) return false;
    }
    return true;
  };
  if (!is_small(map->output) || !std::all_of(map->inputs.begin(), map->inputs.end(), is_small)) return {};

  // Split the part off, so that all of the dimensions from `first` on are taken whole.
  if (part > 1) {
    const auto at = static_cast<ptrdiff_t>(first);
    map->dims[first] = Dim(*map->dims[first].constant() / part);
    map->dims.insert(map->dims.begin() + at + 1, Dim(part));
    const auto split = [&](MapOperand& operand) {
      operand.strides.insert(operand.strides.begin() + at + 1, operand.strides[first]);
      operand.strides[first] = operand.strides[first] * Dim(part);
    };
    for (MapOperand& input : map->inputs) split(input);
    split(map->output);
    ++first;
  }
  std::vector<Places> tables;
  const auto keep_first = [&](auto& list, const Dim& last) {
    list.resize(first);
    list.push_back(last);
  };
  for (MapOperand& input : map->inputs) {
    Places places{0};
    for (size_t i = first; i < map->dims.size(); ++i) {
      Places inner;
      for (const int32_t place : places) {
        for (int64_t k = 0; k < *map->dims[i].constant(); ++k)
          inner.push_back(static_cast<int32_t>(place + k * *input.strides[i].constant()));
      }
      places = std::move(inner);
    }
    bool is_row = true, is_one_place = true;
    for (size_t j = 0; j < places.size(); ++j) {
      is_row = is_row && places[j] == static_cast<int32_t>(j);
      is_one_place = is_one_place && places[j] == 0;
    }
    keep_first(input.strides, Dim(is_row ? 1 : 0));
    if (is_row || is_one_place) places.clear();
    tables.push_back(std::move(places));
  }
  keep_first(map->output.strides, Dim(1));
  keep_first(map->dims, Dim(length));
  return tables;
}

// Of the operands that go through local memory: those whose innermost dimension is contiguous, as is_staged() in
// elementwise_staged.py.
MapStaging staging_of(const SetupContext& context, const StridedMap& map, int lanes) {
  std::vector<StagedOperand> operands;
  const auto add = [&](const MapOperand& operand, bool is_result) {
    if (inner_mode(operand.strides.back()) != "contiguous") return;
    operands.push_back({static_cast<int>(dtype_bytes(storage_dtype(operand.dtype))), is_result});
  };
  for (const MapOperand& input : map.inputs) add(input, false);
  add(map.output, true);
  return plan_map_staging(context.target(), graph::element_count(map.dims), operands, lanes);
}

// Tensors of which the last launch walks whole rows.
void declare_strided_inputs(SetupContext& context, const StridedMap& map) {
  if (map.dims.size() != 2) return;
  for (size_t k = 0; k < map.inputs.size(); ++k) {
    const MapOperand& input = map.inputs[k];
    if (input.tensor.kind != TensorRef::Kind::kValue || !is_zero(input.element_offset)) continue;
    const graph::Shape& shape = context.graph().type(input.tensor.value).shape;
    const bool is_rows = !shape.empty() && shape.back() == map.dims[1] && is_one(input.strides[1]) &&
                         input.strides[0] == map.dims[1] &&
                         graph::element_count(shape) == graph::element_count(map.dims);
    if (!is_rows) continue;
    context.implementation.strided_inputs.push_back({input.tensor.value, context.implementation.launches.size() - 1,
                                                     fmt::format("ins[{}]", k), fmt::format("strides[{}]", 2 * k)});
  }
}

}  // namespace

void declare_strided_samples(SetupContext& context, const StridedMap& map, const std::vector<std::string>& pointers,
                             const std::vector<std::string>& strides) {
  if (map.dims.size() < 2 || map.dims[0].is_constant()) return;
  for (size_t k = 0; k <= map.inputs.size(); ++k) {
    const MapOperand& operand = k < map.inputs.size() ? map.inputs[k] : map.output;
    if (operand.tensor.kind != TensorRef::Kind::kValue || !operand.element_offset.is_constant()) continue;
    const graph::Shape& shape = context.graph().type(operand.tensor.value).shape;
    if (shape.empty() || !(shape[0] == map.dims[0]) ||
        !(operand.strides[0] == graph::element_count(graph::Shape(shape.begin() + 1, shape.end()))))
      continue;
    context.implementation.strided_samples.push_back(
        {operand.tensor.value, context.implementation.launches.size() - 1, pointers[k], strides[k]});
  }
}

DType compute_dtype(DType stored) { return stored == DType::kF16 || stored == DType::kBF16 ? DType::kF32 : stored; }

std::vector<Dim> contiguous_strides(const graph::Shape& shape) {
  std::vector<Dim> strides(shape.size(), Dim(1));
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::vector<Dim> broadcast_strides(const graph::Shape& shape, const graph::Shape& to) {
  const std::vector<Dim> own = contiguous_strides(shape);
  std::vector<Dim> strides(to.size(), Dim(0));
  for (size_t i = 0; i < shape.size(); ++i) {
    const size_t target = to.size() - shape.size() + i;
    if (is_one(shape[i])) continue;
    strides[target] =
        shape[i] == to[target] || shape[i].is_constant() ? own[i] : graph::select(graph::eq(shape[i], 1), 0, own[i]);
  }
  return strides;
}

dsl::Captured number_type(const FusedExpression::Number& number) {
  return {dsl::CapturedType{tir::Type::scalar(number.dtype)}};
}

KernelArgument number_argument(const FusedExpression::Number& number) {
  if (const auto* integer = std::get_if<int64_t>(&number.value)) return ScalarArgument{*integer};
  return FloatArgument{std::get<double>(number.value)};
}

Status launch_strided_map(SetupContext& context, StridedMap map) {
  return launch_strided_map(context, std::move(map), {});
}

void bind_copy(const StridedMap& map, const std::vector<size_t>& order, dsl::TemplateParams* params,
               KernelArguments* arguments) {
  const MapOperand& source = map.inputs[0];
  std::vector<Dim> dims, strides;
  for (const size_t i : order) dims.push_back(map.dims[i]);
  for (const size_t i : order) strides.push_back(source.strides[i]);
  for (const size_t i : order) strides.push_back(map.output.strides[i]);
  params->set("RANK", static_cast<int64_t>(order.size()))
      .set("dim_types", scalar_types(dims.size()))
      .set("stride_types", scalar_types(strides.size()));
  arguments->pointer("source", source.pointer())
      .pointer("target", map.output.pointer())
      .scalar_list("dims", dims)
      .scalar_list("strides", strides);
}

Status launch_strided_map(SetupContext& context, StridedMap map, const std::vector<int64_t>& faults) {
  const bool identity = map.compute_source.empty();
  if (identity) {
    map.inputs[0].dtype = raw_dtype(map.inputs[0].dtype);
    map.output.dtype = map.inputs[0].dtype;
    map.compute_source = "def compute(x):\n    return x[0]\n";
  }
  // Offsets are computed from the operand's own dtype, before merging changes nothing about them.
  merge_dimensions(&map);
  if (identity) {
    AIPU_ASSIGN_OR_RETURN(const bool launched, launch_transposed_copy(context, map));
    if (launched) return {};
    AIPU_ASSIGN_OR_RETURN(const bool copied, launch_narrow_rows(context, map));
    if (copied) return {};
  }

  const size_t operand_count = map.inputs.size() + 1;
  int widest_bits = 8;
  constexpr int kWordBits = 32;  // of what is looked up
  for (const MapOperand& input : map.inputs)
    widest_bits = std::max(widest_bits, input.is_table ? kWordBits : dtype_bits(compute_dtype(input.dtype)));
  widest_bits = std::max(widest_bits, dtype_bits(compute_dtype(map.output.dtype)));

  const std::vector<Places> places = widen_rows(context.target(), context.target().lanes(widest_bits), &map);
  const size_t rank = map.dims.size();

  dsl::CapturedList in_types;
  std::vector<std::string> modes, conversions;
  std::vector<int64_t> start_of, table_of;
  std::vector<KernelArgument> tables;
  std::vector<Dim> starts;
  for (const MapOperand& input : map.inputs) {
    const bool backward = std::any_of(input.strides.begin(), input.strides.end(), is_backward);
    start_of.push_back(backward ? static_cast<int64_t>(starts.size()) : -1);
    if (backward) starts.push_back(input.element_offset);
    const auto element = parse_dtype(storage_name(input.dtype));
    in_types.push_back({dsl::CapturedType{tir::Type::pointer_to(*element, 1, tir::Scope::kGlobal)}});
    const Places* own = places.empty() ? nullptr : &places[modes.size()];
    const bool by_table = own != nullptr && !own->empty();
    table_of.push_back(by_table ? static_cast<int64_t>(tables.size()) : -1);
    if (by_table) {
      const auto count = static_cast<int64_t>(own->size());
      tables.emplace_back(PointerArgument{
          context.add_constant(graph::Constant::of<int32_t>(DType::kI32, {count}, std::span<const int32_t>(*own)))});
    }
    modes.emplace_back(input.is_table ? "table" : by_table ? "by_table" : inner_mode(input.strides.back()));
    conversions.emplace_back(conversion(input.dtype));
  }
  start_of.push_back(-1);  // the output
  const auto out_element = parse_dtype(storage_name(map.output.dtype));
  dsl::CapturedList index_types(rank, {dsl::CapturedType{tir::Type::scalar(DType::kI32)}});
  dsl::CapturedList stride_types(rank * operand_count, {dsl::CapturedType{tir::Type::scalar(DType::kI32)}});

  dsl::CapturedList number_types;
  for (const FusedExpression::Number& number : map.numbers) number_types.push_back(number_type(number));

  const int lanes = lanes_for(context.target(), widest_bits, map.dims.empty() ? Dim(1) : map.dims.back());
  const MapStaging staging = staging_of(context, map, lanes);
  dsl::TemplateParams params;
  std::vector<int64_t> ahead;
  for (const MapOperand& input : map.inputs) ahead.push_back(fetched_ahead(context.target(), lanes, map, input));
  params.set("ahead", ahead);
  params.set("number_types", dsl::Captured{std::move(number_types)})
      .set("N_NUMBERS", static_cast<int64_t>(map.numbers.size()))
      .set("in_types", dsl::Captured{std::move(in_types)})
      .set("out_type", dsl::Captured{dsl::CapturedType{tir::Type::pointer_to(*out_element, 1, tir::Scope::kGlobal)}})
      .set("dim_types", dsl::Captured{std::move(index_types)})
      .set("stride_types", dsl::Captured{std::move(stride_types)})
      .set("start_types", scalar_types(starts.size()))
      .set("start_of", start_of)
      .set("RANK", static_cast<int64_t>(rank))
      .set("N_IN", static_cast<int64_t>(map.inputs.size()))
      .set("VL", static_cast<int64_t>(lanes))
      .set("modes", std::move(modes))
      .set("conversions", std::move(conversions))
      .set("out_mode", std::string(inner_mode(map.output.strides.back()) == "contiguous" ? "contiguous" : "strided"))
      .set("out_conversion", std::string(conversion(map.output.dtype)))
      .set("out_dtype", std::string(storage_name(map.output.dtype)))
      .set("FAULTS", faults)
      .set_source("compute", map.compute_source);
  map.functions.bind(&params);
  if (!tables.empty()) {
    params.set("table_types", pointer_types(tables.size(), DType::kI32)).set("table_of", table_of);
  }
  if (staging.buffers > 0) {
    params.set("STAGING", static_cast<int64_t>(staging.buffers)).set("CAPACITY", staging.capacity);
  } else {
    params.set("BLOCK", static_cast<int64_t>(kBlockElements));
  }
  const auto [file, entry] = staging.buffers > 0 ? std::pair("elementwise_staged.py", "elementwise_staged")
                             : tables.empty()    ? std::pair("elementwise.py", "elementwise")
                                                 : std::pair("elementwise.py", "elementwise_by_tables");
  AIPU_ASSIGN_OR_RETURN(auto kernel, context.kernel(file, entry, params));
  context.note(staging.text);

  std::vector<KernelArgument> ins, numbers;
  std::vector<Dim> strides;
  for (size_t k = 0; k < map.inputs.size(); ++k) {
    const MapOperand& input = map.inputs[k];
    ins.emplace_back(start_of[k] >= 0 ? PointerArgument{input.tensor} : input.pointer());
    strides.insert(strides.end(), input.strides.begin(), input.strides.end());
  }
  strides.insert(strides.end(), map.output.strides.begin(), map.output.strides.end());
  for (const FusedExpression::Number& number : map.numbers) numbers.push_back(number_argument(number));
  KernelArguments arguments;
  arguments.list("ins", ins)
      .pointer("out", map.output.pointer())
      .scalar_list("dims", map.dims)
      .scalar_list("strides", strides)
      .scalar_list("starts", starts)
      .list("numbers", numbers);
  if (staging.buffers > 0) {
    arguments.scalar("tile", staging.tile);
    return context.launch(std::move(kernel), arguments, staging.max_tecs);
  }
  if (!tables.empty()) arguments.list("tables", tables);
  // A unit below about 2 us of work is not worth a second TEC.
  AIPU_RETURN_IF_ERROR(context.launch(
      std::move(kernel), arguments, graph::max(graph::ceildiv(graph::element_count(map.dims), kBlockElements * 2), 1)));
  declare_strided_inputs(context, map);
  if (!tables.empty()) return {};  // their places are numbers of 32 bits, and so are those of the others
  std::vector<std::string> pointers, sample_strides;
  for (size_t k = 0; k < operand_count; ++k) {
    pointers.push_back(k < map.inputs.size() ? fmt::format("ins[{}]", k) : "out");
    sample_strides.push_back(fmt::format("strides[{}]", k * rank));
  }
  declare_strided_samples(context, map, pointers, sample_strides);
  return {};
}

}  // namespace aipu::kernels
