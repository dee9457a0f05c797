#include "frontend/onnx/ops/microsoft/encoder_decoder.h"

#include <algorithm>
#include <string>

#include "frontend/onnx/ops/compose.h"

namespace aipu::frontend::microsoft {

namespace {

bool is_named(const DeclaredPorts& ports, size_t place, const char* name) {
  return place < ports.inputs.size() && ports.inputs[place].name == name;
}

bool are_ints(const DeclaredPorts& ports, size_t begin, size_t end) {
  return std::all_of(ports.inputs.begin() + static_cast<std::ptrdiff_t>(begin),
                     ports.inputs.begin() + static_cast<std::ptrdiff_t>(end),
                     [](const DeclaredPort& port) { return port.dtype == DType::kI32; });
}

std::vector<ValueId> rows(OpContext& c, std::vector<ValueId> values, ValueId index) {
  for (ValueId& value : values) value = gather(c, value, index);
  return values;
}

}  // namespace

EncoderDecoder::EncoderDecoder(OpContext& c, bool hears) : Decoder(c), hears_(hears) {
  encoder_ = c.take_graph("encoder");
  decoder_ = c.take_graph("decoder");
  if (!c.ok()) return;
  const DeclaredPorts encoder = c.declared_ports(encoder_);
  ports_ = c.declared_ports(decoder_);
  if (!c.ok()) return;
  if (!decoder_fits()) {
    c.fail_unsupported(str_cat("the decoder must have the inputs input_ids, ", hears_ ? "" : "encoder_attention_mask, ",
                               "for each layer a past of its own and one of the encoder, all four keys and values "
                               "[batch, heads, length, size], and the outputs logits and, for each layer, the present "
                               "keys and values of its own"));
  } else if (!encoder_fits(encoder)) {
    c.fail_unsupported(str_cat("the encoder must have the inputs encoder_input_ids, ",
                               hears_ ? "decoder_input_ids" : "encoder_attention_mask and perhaps decoder_input_ids",
                               ", and the outputs that the decoder's layers need: keys and values and, with "
                               "decoder_input_ids, logits and encoder_hidden_states in front of them"));
  }
}

bool EncoderDecoder::decoder_fits() {
  past_ = 1;
  bool fits = is_named(ports_, 0, "input_ids") && (hears_ || is_named(ports_, past_++, "encoder_attention_mask")) &&
              past_ < ports_.inputs.size() && are_ints(ports_, 0, past_);
  takes_hidden_ = fits && is_named(ports_, past_, "encoder_hidden_states");
  if (takes_hidden_) ++past_;
  if (!fits || ports_.inputs[0].extents.size() != 2 || past_ >= ports_.inputs.size()) return false;
  const size_t pasts = ports_.inputs.size() - past_;
  states_ = pasts / 2;
  for (size_t i = past_; i < ports_.inputs.size(); ++i) {
    const DeclaredPort& past = ports_.inputs[i];
    fits &= is_floating(past.dtype) && past.extents.size() == 4;
  }
  takes_all_ = ports_.inputs[0].extents[1] != 1;
  return fits && pasts % 4 == 0 && ports_.outputs.size() >= 1 + states_;
}

bool EncoderDecoder::encoder_fits(const DeclaredPorts& ports) {
  const size_t own = hears_ ? 1 : 2;
  begins_ = is_named(ports, own, "decoder_input_ids");
  if (!is_named(ports, 0, "encoder_input_ids") || (!hears_ && !is_named(ports, 1, "encoder_attention_mask")) ||
      ports.inputs.size() != own + (begins_ ? 1 : 0) || !are_ints(ports, hears_ ? 1 : 0, ports.inputs.size()))
    return false;
  if (begins_) return ports.outputs.size() == 2 + 2 * states_;
  // The decoder makes the first call, with a past of no tokens.
  for (size_t i = past_; i < past_ + states_; ++i) {
    if (ports_.inputs[i].extents[1] <= 0 || ports_.inputs[i].extents[3] <= 0) return false;
  }
  return !hears_ && !takes_hidden_ && ports.outputs.size() == states_;
}

std::vector<ValueId> EncoderDecoder::arguments(ValueId ids, const std::vector<ValueId>& given,
                                               const std::vector<ValueId>& cross,
                                               const std::vector<ValueId>& states) const {
  std::vector<ValueId> all{ids};
  for (const auto& part : {given, states, cross}) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Decoder::Step EncoderDecoder::first(OpContext& c, ValueId source, ValueId mask, ValueId sentences) {
  if (!c.ok()) return {};
  std::vector<ValueId> inputs{source};
  if (!hears_) inputs.push_back(mask);
  if (begins_) inputs.push_back(sentences);
  if (!hears_) given_.push_back(mask);
  Step step;
  if (begins_) {
    step = call(c, encoder_, inputs);
    if (!c.ok()) return {};
    if (takes_hidden_) given_.push_back(step.states[0]);
    const auto own = step.states.begin() + 1;
    const auto cross = own + static_cast<std::ptrdiff_t>(states_);
    cross_.assign(cross, step.states.end());
    step.states = std::vector<ValueId>(own, cross);
  } else {
    cross_ = inlined(c, encoder_, inputs);
    std::vector<ValueId> states;
    for (size_t i = past_; i < past_ + states_ && c.ok(); ++i) {
      const DeclaredPort& past = ports_.inputs[i];
      const Shape shape{c.type(sentences).shape[0], Dim(past.extents[1]), Dim(0), Dim(past.extents[3])};
      states.push_back(c.emit("Expand", {{"shape", shape}}, {c.scalar(past.dtype, 0)}));
    }
    step = call(c, decoder_, arguments(sentences, given_, cross_, states));
    if (c.ok()) step.states.resize(states_);
  }
  count_tokens(c, step);
  return step;
}

Decoder::Step EncoderDecoder::next(OpContext& c, ValueId tokens, ValueId sentences, ValueId /*trip*/,
                                   const std::vector<ValueId>& states) const {
  if (!c.ok()) return {};
  const auto seen = [&](std::vector<ValueId> values) {
    for (ValueId& value : values) value = c.seen_within(value);
    return values;
  };
  const ValueId ids = takes_all_ ? sentences : c.unsqueeze(tokens, {1});
  Step step = call(c, decoder_, arguments(ids, seen(given_), seen(cross_), states));
  if (c.ok()) step.states.resize(states_);
  return step;
}

std::vector<ValueId> EncoderDecoder::reordered(OpContext& c, std::vector<ValueId> states, ValueId from) const {
  return rows(c, std::move(states), from);
}

std::vector<ValueId> EncoderDecoder::spread(OpContext& c, std::vector<ValueId> states, ValueId prompts, ValueId from) {
  given_ = rows(c, std::move(given_), prompts);
  cross_ = rows(c, std::move(cross_), prompts);
  return rows(c, std::move(states), from);
}

}  // namespace aipu::frontend::microsoft
