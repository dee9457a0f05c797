// The TEC, its barrier and events, output, assembly.
#include <fmt/format.h>

#include "codegen/intrinsics/families.h"
#include "codegen/intrinsics/lane_loops.h"
#include "codegen/intrinsics/print_format.h"
#include "codegen/intrinsics/type_rules.h"

namespace aipu::tir {
namespace {

using namespace rules;

Result<Type> infer_int32(InferInput&) { return Type::scalar(DType::kI32); }
Result<Type> infer_void(InferInput&) { return Type::void_type(); }

Status run_get_local_id(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("the TEC is only known when running");
  c.result.set<int32_t>(0, c.machine->tec_id());
  return {};
}
Status run_get_local_size(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("the number of TECs is only known when running");
  c.result.set<int32_t>(0, c.machine->tec_count());
  return {};
}
Status run_barrier(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("a barrier is only possible when running");
  return c.machine->barrier();
}

Status run_nothing(const LaneCall&) { return {}; }

Result<Type> infer_alloc_event(InferInput&) { return Type::scalar(DType::kI32); }

// One event; the front end makes alloc_events(n) a tuple of n calls.
Status run_alloc_event(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("events exist only when running");
  AIPU_ASSIGN_OR_RETURN(const int event, c.machine->alloc_event());
  c.result.set<int32_t>(0, event);
  return {};
}

Result<Type> infer_events(InferInput& in) {
  if (in.operands->empty()) return refused("Redundant useless call.");
  for (size_t i = 0; i < in.operands->size(); ++i)
    AIPU_RETURN_IF_ERROR(to_integer(in, i, DType::kI32, fmt::format("The {} arg expect an event.", ordinal(i))));
  return Type::void_type();
}

Status run_wait_events(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("events exist only when running");
  for (const LaneRef& event : c.operands) {
    if (!c.machine->event_in_use(event.get<int32_t>()))
      return invalid_argument("The released event can not be used anymore.");
    AIPU_RETURN_IF_ERROR(c.machine->wait_event(event.get<int32_t>()));
  }
  return {};
}
Status run_free_events(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("events exist only when running");
  for (const LaneRef& event : c.operands) AIPU_RETURN_IF_ERROR(c.machine->free_event(event.get<int32_t>()));
  return {};
}

Result<Type> infer_printf(InferInput& in) {
  AIPU_ASSIGN_OR_RETURN(const Expr format, operand(in, 0));
  const auto* text = format->as<StringImm>();
  if (text == nullptr) return refused("The 1st arg expect a string.");
  std::vector<Type> types;
  for (size_t i = 1; i < in.operands->size(); ++i) types.push_back((*in.operands)[i]->type);
  AIPU_RETURN_IF_ERROR(check_print_format(text->value, types));
  return Type::scalar(DType::kI32);
}

Status run_printf(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("output is only possible when running");
  std::vector<std::string_view> strings(c.operands.size());
  for (size_t i = 0; i < c.operands.size(); ++i) {
    if (const auto* text = c.call.args[i]->as<StringImm>()) strings[i] = text->value;
  }
  const std::string text = format_print(strings[0], c.operands.subspan(1), std::span(strings).subspan(1), *c.machine);
  AIPU_RETURN_IF_ERROR(c.machine->spend(1000 + static_cast<int64_t>(text.size())));
  c.machine->print(text);
  c.result.set<int32_t>(0, 0);
  return {};
}

// Data that the kernel cannot compute with: the run is an error. `code` says which, in words that the launch has
// (SetupContext::fault); they name `value` and `limit`.
Result<Type> infer_report_fault(InferInput& in) {
  AIPU_RETURN_IF_ERROR(to_integer(in, 0, DType::kI32, "The arg \"code\" expect an integer scalar."));
  AIPU_RETURN_IF_ERROR(to_integer(in, 1, DType::kI64, "The arg \"value\" expect an integer scalar."));
  AIPU_RETURN_IF_ERROR(to_integer(in, 2, DType::kI64, "The arg \"limit\" expect an integer scalar."));
  return Type::void_type();
}

Status run_report_fault(const LaneCall& c) {
  if (c.machine == nullptr) return unsupported("a fault is only possible when running");
  c.machine->report_fault(c.operands[0].get<int32_t>(), c.operands[1].get<int64_t>(), c.operands[2].get<int64_t>());
  return {};
}

// The three descriptor chains of the fixed-function unit; of the asynchronous form also the event.
Result<Type> infer_aiff(InferInput& in) {
  static constexpr std::string_view kNames[] = {"ctrl_desc", "param_desc", "act_desc"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    AIPU_ASSIGN_OR_RETURN(const Expr e, operand(in, i));
    if (!e->type.pointer) return refused(fmt::format("The arg \"{}\" expect a pointer.", kNames[i]));
  }
  if (in.operands->size() > 3)
    AIPU_RETURN_IF_ERROR(to_integer(in, 3, DType::kI32, "The arg \"event\" expect an event."));
  return Type::void_type();
}

Status run_unsupported(const LaneCall& c) {
  return unsupported(fmt::format("PySim does not support S.{}.", c.call.intrinsic->name));
}

}  // namespace

void add_sync_rows(std::vector<Intrinsic>& rows) {
  const auto add = [&](std::string_view name, std::vector<IntrinsicParam> params, Result<Type> (*infer)(InferInput&),
                       Status (*run)(const LaneCall&), CostClass cost = CostClass::kArithmetic) -> Intrinsic& {
    rows.push_back(
        {.name = name, .params = std::move(params), .infer = infer, .pure = false, .run = run, .cost = cost});
    return rows.back();
  };
  Intrinsic& id = add("get_local_id", {}, infer_int32, run_get_local_id);
  id.droppable = id.asks_tec = true;
  Intrinsic& size = add("get_local_size", {}, infer_int32, run_get_local_size);
  size.droppable = size.asks_tec = true;
  add("barrier", {}, infer_void, run_barrier, CostClass::kBarrier).asks_tec = true;
  add("alloc_event", {}, infer_alloc_event, run_alloc_event, CostClass::kEvent).exposure = Exposure::kInternal;
  add("wait_events", {repeated(value("events"))}, infer_events, run_wait_events, CostClass::kEvent);
  add("free_events", {repeated(value("events"))}, infer_events, run_free_events, CostClass::kEvent);
  add("perf_tick_begin", {value("cid")}, infer_void, run_nothing, CostClass::kFree);
  add("perf_tick_end", {value("cid")}, infer_void, run_nothing, CostClass::kFree);
  add("printf", {value("fmt"), repeated(optional_value("args"))}, infer_printf, run_printf, CostClass::kPrint)
      .asks_tec = true;
  Intrinsic& fault =
      add("report_fault", {value("code"), value("value"), value("limit")}, infer_report_fault, run_report_fault);
  fault.asks_tec = true;
  fault.exposure = Exposure::kExtension;
  // The vendor's fixed-function unit and assembler: printed, never run here.
  const std::vector<IntrinsicParam> descriptors = {pointer("ctrl_desc", Access::kDescriptor),
                                                   pointer("param_desc", Access::kDescriptor),
                                                   pointer("act_desc", Access::kDescriptor)};
  add("aiff", descriptors, infer_aiff, run_unsupported);
  std::vector<IntrinsicParam> with_event = descriptors;
  with_event.push_back(value("event"));
  add("async_aiff", with_event, infer_aiff, run_unsupported).asynchronous = true;
}

}  // namespace aipu::tir
