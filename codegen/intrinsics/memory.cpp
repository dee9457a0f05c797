#include <fmt/format.h>

#include "codegen/intrinsics/families.h"
#include "codegen/intrinsics/lane_loops.h"
#include "codegen/intrinsics/type_rules.h"

namespace aipu::tir {
namespace {

using namespace rules;

Result<Type> pointer_operand(InferInput& in, size_t index) {
  AIPU_ASSIGN_OR_RETURN(const Expr p, operand(in, index));
  if (!p->type.pointer) return refused(fmt::format("The {} arg expect a pointer.", ordinal(index)));
  if (p->type.element == DType::kVoid) return refused("Can't access data through void pointer.");
  return p->type;
}

// The optional stride: the operand at `index`, in scalar elements, int32 or int64; absent: 1.
Status finish_stride(InferInput& in, size_t index) {
  if (in.operands->size() <= index) in.operands->resize(index + 1);
  Expr& stride = (*in.operands)[index];
  if (!stride) {
    stride = int_imm(1);
    return {};
  }
  if (!stride->type.is_scalar() || !is_integer(stride->type.element))
    return refused("The arg \"stride\" expect an integer scalar.");
  if (const auto value = as_int(stride); value && is_literal(in, index) && *value < 1)
    return refused("The arg \"stride\" expect >= 1");
  if (stride->type.element != DType::kI64) stride = cast(Type::scalar(DType::kI32), stride, stride->span);
  return {};
}

// vload(ptr, mask, lanes, stride)
Result<Type> infer_vload(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type pointer, pointer_operand(in, 0));
  int64_t lanes = attribute(in, "lanes");
  bool given = lanes != 0;
  if (!given) lanes = pointer.lanes > 1 ? pointer.lanes : 256 / dtype_bits(pointer.element);
  // A literal mask that is as long as another width says how many lanes are meant only through `lanes`.
  if (given && lanes < 2) return refused(fmt::format("The arg \"lanes\" expect > 1, but got: \"{}\".", lanes));
  const Type result = Type::vector(pointer.element, static_cast<int>(lanes));
  AIPU_RETURN_IF_ERROR(finish_mask(in, result));
  AIPU_RETURN_IF_ERROR(finish_stride(in, 1));
  return result;
}

// Whether the whole vector lies in memory (one check), so that masked lanes need no checks of their own.
std::byte* whole(const LaneCall& c, Pointer pointer, int64_t lanes, int64_t bytes, bool write) {
  return c.machine->access(pointer, 0, lanes * bytes, write);
}

Status bad_stride(int64_t stride) {
  return invalid_argument(fmt::format("The arg \"stride\" expect >= 1, but got: {}", stride));
}

Status run_vload(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("a load is only possible when running");
  const auto pointer = c.operands[0].get<Pointer>();
  const int64_t stride = read_int_lane(c.operands[1].type, c.operands[1].data, 0);
  const int64_t bytes = static_cast<int64_t>(dtype_bytes(c.result.type.element));
  const int64_t lanes = c.result.type.lanes;
  if (stride < 1) return bad_stride(stride);
  std::byte* out = c.result.data;
  if (stride == 1 && c.mask == nullptr) {
    const std::byte* data = whole(c, pointer, lanes, bytes, false);
    if (data == nullptr) return c.machine->access_error(pointer, 0, lanes * bytes, false);
    std::memcpy(out, data, static_cast<size_t>(lanes * bytes));
    return {};
  }
  std::memset(out, 0, static_cast<size_t>(lanes * bytes));
  for (int64_t i = 0; i < lanes; ++i) {
    if (!c.active(i)) continue;
    const std::byte* data = c.machine->access(pointer, i * stride * bytes, bytes, false);
    if (data == nullptr) return c.machine->access_error(pointer, i * stride * bytes, bytes, false);
    std::memcpy(out + i * bytes, data, static_cast<size_t>(bytes));
  }
  return {};
}

// vload_part(ptr, index, count, lanes)
Result<Type> infer_vload_part(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type pointer, pointer_operand(in, 0));
  const int64_t lanes = attribute(in, "lanes"), index = attribute(in, "index"), count = attribute(in, "count");
  if (lanes < 2) return refused(fmt::format("The arg \"lanes\" expect > 1, but got: \"{}\".", lanes));
  if (index < 0 || index >= count)
    return refused(fmt::format("The arg \"index\" expect one of {} vectors, but got: \"{}\".", count, index));
  return Type::vector(pointer.element, static_cast<int>(lanes));
}

Status run_vload_part(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("a load is only possible when running");
  const auto pointer = c.operands[0].get<Pointer>();
  const int64_t bytes = c.result.type.bytes(), offset = c.attribute("index") * bytes;
  const std::byte* data = c.machine->access(pointer, offset, bytes, false);
  if (data == nullptr) return c.machine->access_error(pointer, offset, bytes, false);
  std::memcpy(c.result.data, data, static_cast<size_t>(bytes));
  return {};
}

// A vstore of another element type reinterprets the pointer.
Status finish_store_pointer(InferInput& in, size_t index, Type value) {
  Expr& pointer = (*in.operands)[index];
  if (pointer->type.element != value.element) {
    pointer = cast(Type::pointer_to(value.element, 1, pointer->type.scope), pointer, pointer->span);
  }
  return {};
}

// vstore(value, ptr, mask, stride)
Result<Type> infer_vstore(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type pointer, pointer_operand(in, 1));
  AIPU_ASSIGN_OR_RETURN(const Expr stored, operand(in, 0));
  if (stored->type.is_scalar()) {
    const int lanes = pointer.lanes > 1 ? pointer.lanes : 256 / dtype_bits(pointer.element);
    AIPU_RETURN_IF_ERROR(convert_operand(in, 0, Type::vector(pointer.element, lanes)));
  }
  AIPU_RETURN_IF_ERROR(require_vector(in, 0));
  const Type value = (*in.operands)[0]->type;
  if (is_bool(value.element)) return refused("Only support integer and floating instruction.");
  AIPU_RETURN_IF_ERROR(finish_mask(in, value));
  AIPU_RETURN_IF_ERROR(finish_stride(in, 2));
  AIPU_RETURN_IF_ERROR(finish_store_pointer(in, 1, value));
  return Type::void_type();
}

Status run_vstore(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("a store is only possible when running");
  const LaneRef& value = c.operands[0];
  const auto pointer = c.operands[1].get<Pointer>();
  const int64_t stride = read_int_lane(c.operands[2].type, c.operands[2].data, 0);
  const int64_t bytes = static_cast<int64_t>(dtype_bytes(value.type.element));
  const int64_t lanes = value.type.lanes;
  if (stride < 1) return bad_stride(stride);
  if (stride == 1 && c.mask == nullptr) {
    std::byte* data = whole(c, pointer, lanes, bytes, true);
    if (data == nullptr) return c.machine->access_error(pointer, 0, lanes * bytes, true);
    std::memcpy(data, value.data, static_cast<size_t>(lanes * bytes));
    return {};
  }
  for (int64_t i = 0; i < lanes; ++i) {
    if (!c.active(i)) continue;
    std::byte* data = c.machine->access(pointer, i * stride * bytes, bytes, true);
    if (data == nullptr) return c.machine->access_error(pointer, i * stride * bytes, bytes, true);
    std::memcpy(data, value.data + i * bytes, static_cast<size_t>(bytes));
  }
  return {};
}

// 32-bit indices are an extension; so are unsigned bytes, where that many reach all that there is.
Status check_indices(const Expr& indices, int64_t entries = 0) {
  const Type type = indices->type;
  if (type.is_vector() && type.element == DType::kU8 && entries > 0) return {};
  if (!type.is_vector() || !is_integer(type.element) ||
      (dtype_bits(type.element) != 16 && dtype_bits(type.element) != 32)) {
    return refused("The arg \"indices\" expect a 16-bit integer vector");
  }
  return {};
}

// vload_gather(ptr, indices, mask, entries). `entries` is ours: that many elements are there, and indices are below it.
Result<Type> infer_gather(InferInput& in) {
  if (attribute(in, "entries") < 0) return refused("The arg \"entries\" expect a number of elements.");
  AIPU_ASSIGN_OR_RETURN(const Type pointer, pointer_operand(in, 0));
  AIPU_ASSIGN_OR_RETURN(const Expr indices, operand(in, 1));
  AIPU_RETURN_IF_ERROR(check_indices(indices, attribute(in, "entries")));
  const Type result = Type::vector(pointer.element, indices->type.lanes);
  AIPU_RETURN_IF_ERROR(finish_mask(in, result));
  return result;
}

Status run_gather(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("a load is only possible when running");
  const auto pointer = c.operands[0].get<Pointer>();
  const int64_t bytes = static_cast<int64_t>(dtype_bytes(c.result.type.element));
  const int64_t entries = c.attribute("entries");
  if (entries > 0 && c.machine->access(pointer, 0, entries * bytes, false) == nullptr)
    return c.machine->access_error(pointer, 0, entries * bytes, false);
  std::memset(c.result.data, 0, static_cast<size_t>(c.result.type.bytes()));
  for (int i = 0; i < c.result.type.lanes; ++i) {
    if (!c.active(i)) continue;
    const int64_t index = read_int_lane(c.operands[1].type, c.operands[1].data, i), offset = index * bytes;
    if (entries > 0 && (index < 0 || index >= entries))
      return invalid_argument(fmt::format("S.vload_gather: index {} of {} entries", index, entries));
    const std::byte* data = c.machine->access(pointer, offset, bytes, false);
    if (data == nullptr) return c.machine->access_error(pointer, offset, bytes, false);
    std::memcpy(c.result.data + i * bytes, data, static_cast<size_t>(bytes));
  }
  return {};
}

// vstore_scatter(value, ptr, indices, mask)
Result<Type> infer_scatter(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Type pointer, pointer_operand(in, 1));
  AIPU_ASSIGN_OR_RETURN(const Expr indices, operand(in, 2));
  AIPU_RETURN_IF_ERROR(check_indices(indices));
  AIPU_ASSIGN_OR_RETURN(const Expr stored, operand(in, 0));
  if (stored->type.is_scalar())
    AIPU_RETURN_IF_ERROR(convert_operand(in, 0, Type::vector(pointer.element, indices->type.lanes)));
  AIPU_RETURN_IF_ERROR(require_vector(in, 0));
  const Type value = (*in.operands)[0]->type;
  if (value.lanes != indices->type.lanes) {
    return refused(
        fmt::format("The lanes mismatch: \"value\": {} vs. \"indices\": {}", value.lanes, indices->type.lanes));
  }
  if (value.element != pointer.element) {
    return refused(fmt::format("The element type mismatch: \"value\": {} vs. \"ptr\": {}", dtype_name(value.element),
                               dtype_name(pointer.element)));
  }
  AIPU_RETURN_IF_ERROR(finish_mask(in, value));
  return Type::void_type();
}

Status run_scatter(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("a store is only possible when running");
  const LaneRef& value = c.operands[0];
  const auto pointer = c.operands[1].get<Pointer>();
  const int64_t bytes = static_cast<int64_t>(dtype_bytes(value.type.element));
  for (int i = 0; i < value.type.lanes; ++i) {
    if (!c.active(i)) continue;
    const int64_t offset = read_int_lane(c.operands[2].type, c.operands[2].data, i) * bytes;
    std::byte* data = c.machine->access(pointer, offset, bytes, true);
    if (data == nullptr) return c.machine->access_error(pointer, offset, bytes, true);
    std::memcpy(data, value.data + i * bytes, static_cast<size_t>(bytes));
  }
  return {};
}

template <size_t kIndices>
Status strict_indices(const IntrinsicCall& call) {
  if (dtype_bits(call.args[kIndices]->type.element) == 16) return {};
  return refused("The arg \"indices\" expect a 16-bit integer vector");
}

// Brings the cache line of an address nearer, to the first or second level; harmless for any address (extension).
Result<Type> infer_prefetch(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr p, operand(in, 0));
  if (!p->type.pointer) return refused("The 1st arg expect a pointer.");
  const int64_t level = attribute(in, "level", 1);
  if (level != 1 && level != 2) return refused("The arg \"level\" expect 1 or 2.");
  return Type::void_type();
}

Status run_nothing(const LaneCall&) { return {}; }

}  // namespace

void add_memory_rows(std::vector<Intrinsic>& rows) {
  const IntrinsicParam from = pointer("ptr", Access::kRead), to = pointer("ptr", Access::kWrite);
  // `stride` may be a run-time value, so it is an operand.
  rows.push_back({.name = "vload",
                  .params = {from, mask(), number("lanes", 0), optional_value("stride")},
                  .infer = infer_vload,
                  .pure = false,
                  .droppable = true,
                  .splitting = Splitting::kSpecial,
                  .run = run_vload,
                  .cost = CostClass::kMemory});
  rows.push_back({.name = "vload_part",
                  .params = {from, required_number("index"), required_number("count"), required_number("lanes")},
                  .infer = infer_vload_part,
                  .pure = false,
                  .droppable = true,
                  .splitting = Splitting::kSpecial,
                  .run = run_vload_part,
                  .cost = CostClass::kMemory,
                  .exposure = Exposure::kExtension});
  rows.push_back({.name = "vstore",
                  .params = {value("value"), to, mask(), optional_value("stride")},
                  .infer = infer_vstore,
                  .pure = false,
                  .splitting = Splitting::kSpecial,
                  .run = run_vstore,
                  .cost = CostClass::kMemory});
  rows.push_back({.name = "vload_gather",
                  .params = {from, value("indices"), mask(), number("entries", 0)},
                  .infer = infer_gather,
                  .pure = false,
                  .droppable = true,
                  .run = run_gather,
                  .cost = CostClass::kMemory,
                  .strict = strict_indices<1>});
  rows.push_back({.name = "vstore_scatter",
                  .params = {value("value"), to, value("indices"), mask()},
                  .infer = infer_scatter,
                  .pure = false,
                  .run = run_scatter,
                  .cost = CostClass::kMemory,
                  .strict = strict_indices<2>});
  rows.push_back({.name = "prefetch",
                  .params = {value("ptr"), number("level", 1)},
                  .infer = infer_prefetch,
                  .pure = false,
                  .run = run_nothing,
                  .cost = CostClass::kFree,
                  .exposure = Exposure::kExtension});
  add_dma_rows(rows);
}

}  // namespace aipu::tir
