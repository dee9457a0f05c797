// Calls fit the bodies that they run; operations on texts have their tensors.
#include "runtime/loader/checker.h"

namespace aipu::runtime {

// What an input of a body gets: a tensor without its first `missing_axes` axes.
Status Checker::check_call_input(const CommandPlace& place, uint32_t tensor, const fb::Model& body, uint32_t input,
                                 uint32_t missing_axes) const {
  AIPU_RETURN_IF_ERROR(check_tensor_use(place, tensor, false));
  const fb::Tensor& given = *items(model_.tensors())[tensor];
  const fb::Tensor& taken = *items(body.tensors())[items(body.inputs())[input]];
  if (given.dtype() != taken.dtype() || items(given.shape()).size() != items(taken.shape()).size() + missing_axes)
    return bad(place.text(), " gives ", tensor_text(model_, tensor), " to input ", input,
               " of its body, which takes another type or rank");
  return {};
}

Status Checker::check_call(uint32_t index, const CallCommand& command) {
  const fb::Call& call = *items(model_.calls())[index];
  const CommandPlace& place = command.place;
  const auto inputs = items(call.inputs());
  const auto bodies = items(call.bodies());
  if (bodies.size() != (command.op == fb::HostOp::kBranch ? 2u : 1u) || items(call.given()).size() != bodies.size())
    return bad(place.text(), " has ", bodies.size(), " bodies and what ", items(call.given()).size(), " are given");
  for (uint32_t b = 0; b < bodies.size(); ++b) {
    if (bodies[b] >= body_is_used_.size() || body_is_used_[bodies[b]])
      return bad(place.text(), " runs body ", bodies[b], ", which is not there or another's");
    body_is_used_[bodies[b]] = true;
    const auto given = items(items(call.given())[b]->expressions());
    for (uint32_t k = 0; k < given.size(); ++k) AIPU_RETURN_IF_ERROR(check_expression_use(place, given[k]));
    const auto symbols = items(items(model_.bodies())[bodies[b]]->symbols());
    for (uint32_t s = 0; s < symbols.size(); ++s) {
      if (symbols[s]->kind() == fb::SymbolKind::kGiven && symbols[s]->index() >= given.size())
        return bad(place.text(), " does not give symbol ", s, " of its body");
    }
  }
  const fb::Model& body = *items(model_.bodies())[bodies[0]];
  const auto type_of = [](const fb::Model& model, uint32_t tensor) {
    const fb::Tensor& row = *items(model.tensors())[tensor];
    return std::pair(static_cast<DType>(row.dtype()), items(row.shape()).size());
  };
  const auto input_type = [&](uint32_t i) { return type_of(body, items(body.inputs())[i]); };
  const auto output_type = [&](const fb::Model& model, uint32_t i) {
    return type_of(model, items(model.outputs())[i]);
  };
  if (call.condition() != kNone) {
    AIPU_RETURN_IF_ERROR(check_tensor_use(place, call.condition(), false));
    if (type_of(model_, call.condition()).first != DType::kBool)
      return bad(place.text(), ": the condition is not a bool tensor");
  }
  if (call.trip_count() != kNone) {
    AIPU_RETURN_IF_ERROR(check_tensor_use(place, call.trip_count(), false));
    if (type_of(model_, call.trip_count()).first != DType::kI64)
      return bad(place.text(), ": the trip count is not an int64 tensor");
  }
  if (call.extents() != kNone) {
    AIPU_RETURN_IF_ERROR(check_tensor_use(place, call.extents(), true));
    if (type_of(model_, call.extents()).first != DType::kI64)
      return bad(place.text(), ": the extents are not an int64 tensor");
  }
  const uint32_t body_inputs = items(body.inputs()).size(), body_outputs = items(body.outputs()).size();
  if (command.op == fb::HostOp::kBranch) {
    if (call.condition() == kNone) return bad(place.text(), " has no condition");
    const fb::Model& otherwise = *items(model_.bodies())[bodies[1]];
    if (uint64_t{body_inputs} + items(otherwise.inputs()).size() != inputs.size() ||
        body_outputs != items(otherwise.outputs()).size())
      return bad(place.text(), ": its branches do not fit each other or their inputs");
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      AIPU_RETURN_IF_ERROR(i < body_inputs ? check_call_input(place, inputs[i], body, i, 0)
                                           : check_call_input(place, inputs[i], otherwise, i - body_inputs, 0));
    }
    for (uint32_t i = 0; i < body_outputs; ++i) {
      if (output_type(body, i) != output_type(otherwise, i))
        return bad(place.text(), ": its branches give unlike results ", i);
    }
    return {};
  }
  const bool scans = command.op == fb::HostOp::kScan;
  const uint32_t before = first_input(command.op), first_output = first_result(command.op);
  const uint64_t carried = uint64_t{call.states()} + call.sequences();
  if (body_inputs != uint64_t{before} + inputs.size() || carried > inputs.size() ||
      body_outputs < uint64_t{first_output} + call.states() || (scans ? call.sequences() == 0 : call.sequences() != 0))
    return bad(place.text(), " does not fit the inputs and outputs of its body");
  if (!scans && (input_type(0) != std::pair(DType::kI64, 0u) || input_type(1) != std::pair(DType::kBool, 0u) ||
                 output_type(body, 0).first != DType::kBool))
    return bad(place.text(), ": its body does not take an iteration and a condition, or does not give one");
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    const bool is_sequence = i >= call.states() && i < carried;
    AIPU_RETURN_IF_ERROR(check_call_input(place, inputs[i], body, before + i, is_sequence ? 1 : 0));
  }
  for (uint32_t i = 0; i < call.states(); ++i) {
    if (input_type(before + i) != output_type(body, first_output + i))
      return bad(place.text(), ": state ", i, " changes its type or rank");
  }
  const auto fits = [](auto flags, uint64_t count) { return flags.size() == 0 || flags.size() == count; };
  if (!fits(items(call.backward_sequences()), call.sequences()) ||
      !fits(items(call.backward_stacks()), body_outputs - first_output - call.states()))
    return bad(place.text(), " has directions for other sequences than it has");
  return {};
}

Status Checker::check_calls() {
  const auto calls = items(model_.calls());
  const auto bodies = items(model_.bodies());
  body_is_used_.assign(bodies.size(), false);
  for (uint32_t i = 0; i < calls.size(); ++i) {
    if (!call_commands_[i].exists) return bad("call ", i, " is never run");
    AIPU_RETURN_IF_ERROR(check_call(i, call_commands_[i]));
  }
  const auto unused = std::find(body_is_used_.begin(), body_is_used_.end(), false);
  if (unused != body_is_used_.end()) return bad("body ", unused - body_is_used_.begin(), " is never run");
  for (const Fetch& fetch : fetches_) {
    const fb::HostOp op = call_commands_[fetch.call].op;
    const fb::Model& body = *bodies[items(calls[fetch.call]->bodies())[0]];
    if (fetch.result >= result_count(op, body))
      return bad(fetch.place.text(), " fetches result ", fetch.result, " of ", result_count(op, body));
    const uint32_t output = items(body.outputs())[first_result(op) + fetch.result];
    if (items(body.tensors())[output]->dtype() != items(model_.tensors())[fetch.tensor]->dtype())
      return bad(fetch.place.text(), " fetches a result of another type");
  }
  return {};
}

// What the calls hold is in the file as often as it is used: a small file cannot describe much by sharing it.
Status Checker::check_texts() {
  const auto pool = items(model_.string_pool());
  if (pool.size() > 0 && (is_body_ || !text(pool[0]).empty()))
    return bad("the strings of the model do not begin with the empty one, or are a body's");
  const auto calls = items(model_.text_calls());
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < calls.size(); ++i) {
    const auto texts = items(calls[i]->texts());
    for (uint32_t k = 0; k < texts.size(); ++k) bytes += sizeof(uint32_t) + text(texts[k]).size();
    bytes += sizeof(uint32_t) * (uint64_t{items(calls[i]->inputs()).size()} + items(calls[i]->outputs()).size());
    bytes += sizeof(int64_t) * items(calls[i]->numbers()).size() + text(calls[i]->operation()).size();
  }
  if (bytes > file_.root_bytes()) return bad("operations on texts share what they are given");
  return {};
}

Status Checker::check_text_call(const CommandPlace& place, uint32_t index) {
  const auto calls = items(model_.text_calls());
  text_call_is_used_.resize(calls.size());
  if (index >= calls.size()) return bad(place.text(), " runs operation ", index, " on texts of ", calls.size());
  if (text_call_is_used_[index]) return bad("operation ", index, " on texts is run from two places");
  text_call_is_used_[index] = true;
  const fb::TextCall& call = *calls[index];
  if (call.library() > fb::OperationLibrary::MAX)
    return bad("operation ", index, " is of the unknown library ", static_cast<int>(call.library()));
  const auto inputs = items(call.inputs()), outputs = items(call.outputs());
  for (uint32_t i = 0; i < inputs.size(); ++i) AIPU_RETURN_IF_ERROR(check_tensor_use(place, inputs[i], false));
  for (uint32_t i = 0; i < outputs.size(); ++i) AIPU_RETURN_IF_ERROR(check_tensor_use(place, outputs[i], true));
  return call.needed() == kNone ? Status() : check_expression_use(place, call.needed());
}

}  // namespace aipu::runtime
