// Models of an encoder, called once, and a decoder that looks at what it made: T5 and Whisper. Private to
// frontend/onnx.
#pragma once

#include <vector>

#include "frontend/onnx/ops/microsoft/generation.h"

namespace aipu::frontend::microsoft {

// What the sub-graphs of ONNX Runtime's conversion tools look like, past and present being keys and values
// [batch, heads, length, size] for each layer, those of the decoder ("self") in front of those of the encoder
// ("cross"):
//   encoder: encoder_input_ids, (encoder_attention_mask), (decoder_input_ids)
//            -> present cross
//            or, with decoder_input_ids, its first call too: logits, encoder_hidden_states, present self, present cross
//   decoder: input_ids, (encoder_attention_mask), (encoder_hidden_states), past self, past cross
//            -> logits, present self, (output_cross_qk of each layer)
// Whisper's have no mask, and its encoder makes the first call.
class EncoderDecoder : public Decoder {
 public:
  // Takes the attributes `encoder` and `decoder`.
  EncoderDecoder(OpContext& c, bool hears);

  // Of what the encoder reads, int32 [batch, length] or features [batch, bands, frames], a mask, and the sentences
  // int32 [batch, length] that begin.
  Step first(OpContext& c, ValueId source, ValueId mask, ValueId sentences);
  Step next(OpContext& c, ValueId tokens, ValueId sentences, ValueId trip,
            const std::vector<ValueId>& states) const override;
  std::vector<ValueId> spread(OpContext& c, std::vector<ValueId> states, ValueId prompts, ValueId from) override;
  std::vector<ValueId> reordered(OpContext& c, std::vector<ValueId> states, ValueId from) const override;

 private:
  bool encoder_fits(const DeclaredPorts& ports);
  bool decoder_fits();
  std::vector<ValueId> arguments(ValueId ids, const std::vector<ValueId>& given, const std::vector<ValueId>& cross,
                                 const std::vector<ValueId>& states) const;

  bool hears_ = false;
  bool begins_ = false;        // the encoder makes the first call
  bool takes_hidden_ = false;  // the decoder has the input encoder_hidden_states
  bool takes_all_ = false;     // of all tokens each time, though it has its past too; so has it ONNX Runtime
  const onnx::GraphProto* encoder_ = nullptr;
  const onnx::GraphProto* decoder_ = nullptr;
  DeclaredPorts ports_;  // of the decoder
  size_t past_ = 0;      // inputs of the decoder in front of its past
  size_t states_ = 0;    // keys and values of its own
  // What no call changes, a row for each of the prompts and, once spread, for each sentence: what stands in front of
  // the past, and the keys and values of the encoder.
  std::vector<ValueId> given_, cross_;
};

}  // namespace aipu::frontend::microsoft
