// Copies between memories.
#include <fmt/format.h>

#include "codegen/intrinsics/families.h"
#include "codegen/intrinsics/lane_loops.h"
#include "codegen/intrinsics/type_rules.h"

namespace aipu::tir {
namespace {

using namespace rules;

Status check_pointer(const InferInput& in, size_t index) {
  AIPU_ASSIGN_OR_RETURN(const Expr p, operand(in, index));
  if (!p->type.pointer) return refused(fmt::format("The {} arg expect a pointer.", ordinal(index)));
  return {};
}

// Absent operands become `default_value`; the others int32 scalars.
Status finish_number(InferInput& in, size_t index, const Expr& default_value) {
  if (in.operands->size() <= index) in.operands->resize(index + 1);
  Expr& e = (*in.operands)[index];
  if (!e) {
    e = default_value;
    return {};
  }
  return to_integer(in, index, DType::kI32, fmt::format("The {} arg expect an integer scalar.", ordinal(index)));
}

bool on_chip(Scope scope) { return scope == Scope::kLsram || scope == Scope::kShared; }

Result<Type> infer_dma_copy(InferInput& in) {
  AIPU_RETURN_IF_ERROR(check_pointer(in, 0));
  AIPU_RETURN_IF_ERROR(check_pointer(in, 1));
  const Type dst = (*in.operands)[0]->type, src = (*in.operands)[1]->type;
  if (dst.element != src.element || dst.lanes != src.lanes) {
    return refused(
        fmt::format("The data type mismatch: \"dst\": \"{}\" vs. \"src\": \"{}\".", type_text(dst), type_text(src)));
  }
  if (dst.scope == Scope::kConstant || src.scope == Scope::kConstant) {
    return refused(fmt::format("Currently does not support copy data from scope \"{}\" to \"{}\".",
                               scope_name(src.scope), scope_name(dst.scope)));
  }
  if (on_chip(dst.scope) && on_chip(src.scope)) {
    return refused(fmt::format("Does not support copy data from scope \"{}\" to \"{}\".", scope_name(src.scope),
                               scope_name(dst.scope)));
  }
  AIPU_RETURN_IF_ERROR(finish_number(in, 2, nullptr));
  AIPU_ASSIGN_OR_RETURN(const Expr width, operand(in, 2));
  AIPU_RETURN_IF_ERROR(finish_number(in, 3, width));
  AIPU_RETURN_IF_ERROR(finish_number(in, 4, int_imm(1)));
  AIPU_RETURN_IF_ERROR(finish_number(in, 5, width));
  return Type::void_type();
}

Result<Type> infer_async_dma_copy(InferInput& in) {
  if (in.operands->size() < 7 || !(*in.operands)[6]) return refused("The arg \"event\" must be provided.");
  AIPU_RETURN_IF_ERROR(to_integer(in, 6, DType::kI32, "The arg \"event\" expect an event."));
  return infer_dma_copy(in);
}

// Of sizes that a kernel made up: what wraps is an offset like any other, and checked as such.
int64_t product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Copies `bytes` bytes; overlap is undefined in the language and harmless here.
Status copy(MachineState& machine, Pointer dst, int64_t dst_offset, Pointer src, int64_t src_offset, int64_t bytes) {
  AIPU_RETURN_IF_ERROR(machine.spend(8 + std::max<int64_t>(bytes, 0) / 16));
  if (bytes <= 0) return {};
  const std::byte* from = machine.access(src, src_offset, bytes, false);
  if (from == nullptr) return machine.access_error(src, src_offset, bytes, false);
  std::byte* to = machine.access(dst, dst_offset, bytes, true);
  if (to == nullptr) return machine.access_error(dst, dst_offset, bytes, true);
  std::memmove(to, from, static_cast<size_t>(bytes));
  return {};
}

Status run_dma_copy(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("a copy is only possible when running");
  const auto number = [&](size_t i) { return static_cast<int64_t>(c.operands[i].get<int32_t>()); };
  const int64_t element = c.operands[0].type.bytes();
  const int64_t width = number(2), src_stride = number(3), times = number(4), dst_stride = number(5);
  if (width < 0) return invalid_argument(fmt::format("dma_copy: the width is negative: {}", width));
  if (times > 1 && (src_stride < width || dst_stride < width)) {
    return invalid_argument(
        fmt::format("dma_copy: the strides {} and {} must be at least the width {}", src_stride, dst_stride, width));
  }
  if (c.operands.size() > 6 && !c.machine->event_in_use(c.operands[6].get<int32_t>())) {
    return invalid_argument("The arg \"event\" is a released event, can not be used anymore.");
  }
  const auto copy_all = [machine = c.machine, dst = c.operands[0].get<Pointer>(), src = c.operands[1].get<Pointer>(),
                         times, width = width * element, dst_stride = dst_stride * element,
                         src_stride = src_stride * element]() -> Status {
    for (int64_t t = 0; t < times && width > 0; ++t)
      AIPU_RETURN_IF_ERROR(copy(*machine, dst, product(t, dst_stride), src, product(t, src_stride), width));
    return {};
  };
  return c.operands.size() > 6 ? c.machine->start(c.operands[6].get<int32_t>(), copy_all) : copy_all();
}

// dma_transpose2d(dst, src, row, col, dst_stride, src_stride)
Result<Type> infer_transpose(InferInput& in) {
  AIPU_RETURN_IF_ERROR(check_pointer(in, 0));
  AIPU_RETURN_IF_ERROR(check_pointer(in, 1));
  const Type dst = (*in.operands)[0]->type, src = (*in.operands)[1]->type;
  if (dst.element != src.element || dst.lanes != src.lanes) return refused("src and dst should of same dtype");
  AIPU_RETURN_IF_ERROR(finish_number(in, 2, nullptr));
  AIPU_RETURN_IF_ERROR(finish_number(in, 3, nullptr));
  AIPU_ASSIGN_OR_RETURN(const Expr row, operand(in, 2));
  AIPU_ASSIGN_OR_RETURN(const Expr col, operand(in, 3));
  AIPU_RETURN_IF_ERROR(finish_number(in, 4, row));
  AIPU_RETURN_IF_ERROR(finish_number(in, 5, col));
  return Type::void_type();
}

Status run_transpose(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("a copy is only possible when running");
  const auto number = [&](size_t i) { return static_cast<int64_t>(c.operands[i].get<int32_t>()); };
  const int64_t element = c.operands[0].type.bytes();
  const int64_t row = number(2), col = number(3), dst_stride = number(4), src_stride = number(5);
  if (row < 0 || col < 0 || dst_stride < row || src_stride < col) {
    return invalid_argument(
        fmt::format("dma_transpose2d: {} x {} with strides {} and {}", row, col, dst_stride, src_stride));
  }
  for (int64_t i = 0; i < row && col > 0; ++i) {
    for (int64_t j = 0; j < col; ++j) {
      AIPU_RETURN_IF_ERROR(copy(*c.machine, c.operands[0].get<Pointer>(), product(j * dst_stride + i, element),
                                c.operands[1].get<Pointer>(), product(i * src_stride + j, element), element));
    }
  }
  return {};
}

// dma_upsample(dst, src, h_scale, w_scale, c, w, src_c_stride, dst_c_stride, dst_w_stride)
Result<Type> infer_upsample(InferInput& in) {
  AIPU_RETURN_IF_ERROR(check_pointer(in, 0));
  AIPU_RETURN_IF_ERROR(check_pointer(in, 1));
  const Type dst = (*in.operands)[0]->type, src = (*in.operands)[1]->type;
  if (dst.element != src.element || dst.lanes != src.lanes) {
    return refused(
        fmt::format("The data type mismatch: \"dst\": \"{}\" vs. \"src\": \"{}\".", type_text(dst), type_text(src)));
  }
  if (on_chip(dst.scope) == on_chip(src.scope) || dst.scope == Scope::kPrivate || src.scope == Scope::kPrivate) {
    return refused("Only support upsample data between DDR(global) and SRAM(lsram, shared).");
  }
  for (const size_t i : {2, 3, 4, 5}) {
    AIPU_RETURN_IF_ERROR(finish_number(in, i, nullptr));
    AIPU_ASSIGN_OR_RETURN(const Expr ignored, operand(in, i));
    (void)ignored;
  }
  const Expr channels = (*in.operands)[4];
  const Expr width = binary(BinaryOp::kMul, (*in.operands)[5], (*in.operands)[3]);
  AIPU_RETURN_IF_ERROR(finish_number(in, 6, channels));
  AIPU_RETURN_IF_ERROR(finish_number(in, 7, channels));
  AIPU_RETURN_IF_ERROR(finish_number(in, 8, width));
  return Type::void_type();
}

Status run_upsample(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("a copy is only possible when running");
  const auto number = [&](size_t i) { return static_cast<int64_t>(c.operands[i].get<int32_t>()); };
  const int64_t element = c.operands[0].type.bytes();
  const int64_t h_scale = number(2), w_scale = number(3), channels = number(4), width = number(5);
  const int64_t src_c_stride = number(6), dst_c_stride = number(7), dst_w_stride = number(8);
  if (h_scale < 1 || w_scale < 1 || w_scale > 255 || channels < 0 || src_c_stride < channels ||
      dst_c_stride < channels || dst_w_stride < width * w_scale) {
    return invalid_argument(
        "dma_upsample: strides must cover the channels and the enlarged row, scales be positive and w_scale at most "
        "255");
  }
  for (int64_t h = 0; h < h_scale && channels > 0 && width > 0; ++h) {
    for (int64_t x = 0; x < width * w_scale; ++x) {
      AIPU_RETURN_IF_ERROR(
          copy(*c.machine, c.operands[0].get<Pointer>(), product(product(h * dst_w_stride + x, dst_c_stride), element),
               c.operands[1].get<Pointer>(), product(x / w_scale * src_c_stride, element), channels * element));
    }
  }
  return {};
}

// dma_memset(ptr, value, num); num counts scalars, also with a pointer to vectors.
Result<Type> infer_memset(InferInput& in) {
  AIPU_RETURN_IF_ERROR(check_pointer(in, 0));
  const Type type = (*in.operands)[0]->type;
  if (type.scope != Scope::kGlobal && type.scope != Scope::kLsram && type.scope != Scope::kShared &&
      type.scope != Scope::kPrivate) {
    return refused(fmt::format("Dose not support set value on scope \"{}\".", scope_name(type.scope)));
  }
  AIPU_ASSIGN_OR_RETURN(const Expr fill, operand(in, 1));
  if (!fill->type.is_scalar()) return refused("The 2nd arg expect a scalar.");
  if (const auto number = as_int(fill);
      number && is_literal(in, 1) && is_integer(type.element) && wrap_int(*number, type.element) != *number) {
    return refused(fmt::format("value \"{}\" out of range \"{}\"", *number, dtype_name(type.element)));
  }
  (*in.operands)[1] = cast(Type::scalar(type.element), fill, fill->span);
  AIPU_RETURN_IF_ERROR(to_integer(in, 2, DType::kI32, "The 3rd arg expect an integer scalar."));
  return Type::void_type();
}

Status run_memset(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("a store is only possible when running");
  const auto pointer = c.operands[0].get<Pointer>();
  const int64_t element = static_cast<int64_t>(dtype_bytes(c.operands[1].type.element));
  const int64_t count = c.operands[2].get<int32_t>();
  if (count < 0) return invalid_argument(fmt::format("dma_memset: the number of elements is negative: {}", count));
  if (count == 0) return {};
  std::byte* data = c.machine->access(pointer, 0, count * element, true);
  if (data == nullptr) return c.machine->access_error(pointer, 0, count * element, true);
  AIPU_RETURN_IF_ERROR(c.machine->spend(count));
  for (int64_t i = 0; i < count; ++i) std::memcpy(data + i * element, c.operands[1].data, static_cast<size_t>(element));
  return {};
}

Result<Type> infer_flush_cache(InferInput&) { return Type::void_type(); }
Status run_flush_cache(const LaneCall&) { return {}; }

}  // namespace

void add_dma_rows(std::vector<Intrinsic>& rows) {
  const IntrinsicParam destination = pointer("dst", Access::kWrite), source = pointer("src", Access::kRead);
  const auto within_row = [](IntrinsicParam param) { return extent(std::move(param), TransferExtent::kWithinRow); };
  const auto per_row = [](IntrinsicParam param) { return extent(std::move(param), TransferExtent::kRow); };
  const std::vector<IntrinsicParam> copy_params = {destination,
                                                   source,
                                                   within_row(value("width")),
                                                   optional_value("src_stride"),
                                                   per_row(optional_value("times")),
                                                   optional_value("dst_stride")};
  std::vector<IntrinsicParam> async_params = copy_params;
  async_params.push_back(optional_value("event"));
  const auto add = [&](std::string_view name, std::vector<IntrinsicParam> params, Result<Type> (*infer)(InferInput&),
                       Status (*run)(const LaneCall&), bool asynchronous = false) {
    rows.push_back({.name = name,
                    .params = std::move(params),
                    .infer = infer,
                    .pure = false,
                    .run = run,
                    .cost = CostClass::kTransfer,
                    .asynchronous = asynchronous});
  };
  add("dma_copy", copy_params, infer_dma_copy, run_dma_copy);
  add("async_dma_copy", async_params, infer_async_dma_copy, run_dma_copy, true);
  add("dma_transpose2d",
      {destination, source, per_row(value("row")), within_row(value("col")), optional_value("dst_stride"),
       optional_value("src_stride")},
      infer_transpose, run_transpose);
  add("dma_upsample",
      {destination, source, per_row(value("h_scale")), within_row(value("w_scale")), within_row(value("c")),
       per_row(value("w")), optional_value("src_c_stride"), optional_value("dst_c_stride"),
       optional_value("dst_w_stride")},
      infer_upsample, run_upsample);
  add("dma_memset", {pointer("ptr", Access::kWrite), value("value"), within_row(value("num"))}, infer_memset,
      run_memset);
  rows.push_back({.name = "flush_cache",
                  .params = {number("invalidate", 1)},
                  .infer = infer_flush_cache,
                  .pure = false,
                  .run = run_flush_cache,
                  .cost = CostClass::kEvent});
}

}  // namespace aipu::tir
