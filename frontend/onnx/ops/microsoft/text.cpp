// Operators on strings.
#include "frontend/onnx/ops/text.h"

#include <algorithm>

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/microsoft/converters.h"

namespace aipu::frontend::microsoft {

namespace {

// One that matches what any of these does. ONNX Runtime divides by one after the other: that is the same where none
// matches more than a letter.
std::string any_of(OpContext& c, const std::vector<std::string>& separators) {
  const auto is_letter = [](const std::string& text) {
    const size_t letters = text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
                             return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
                           }));
    return letters == 1 || (letters == 2 && text[0] == '\\');
  };
  if (separators.size() > 1 && !std::all_of(separators.begin(), separators.end(), is_letter))
    c.fail_unsupported("takes several separators only if each is a letter");
  std::string pattern;
  for (const std::string& separator : separators) {
    pattern += pattern.empty() ? "" : "|";
    pattern += separator;
  }
  return pattern;
}

}  // namespace

// What matches tokenexp, or stands between separators, which are expressions too; separators "" are around each letter.
void tokenizer(OpContext& c) {
  c.expect_inputs(1, 1);
  for (const char* name : {"mark", "mincharnum", "pad_value"}) c.require_attribute(name);
  const bool has_marks = c.take_int("mark", 0) != 0;
  int64_t least = c.take_int("mincharnum", 1);
  const std::string fill = c.take_string("pad_value", "");
  const auto separators = c.take_strings("separators");
  std::string pattern = c.take_string("tokenexp", "");
  const ValueId x = c.input(0);
  expect_strings(c, x);
  if (!c.ok()) return;
  if (least < 1) return c.fail_invalid(str_cat("mincharnum is ", least));
  const bool has_separators = separators && !separators->empty();
  if (has_separators == !pattern.empty()) return c.fail_invalid("needs one of 'separators' and 'tokenexp'");
  const bool is_by_letter = has_separators && *separators == std::vector<std::string>{""};
  if (is_by_letter) {
    pattern = "(?s:.)";
    least = 1;
  } else if (has_separators) {
    pattern = any_of(c, *separators);
  }
  const AttributeList attributes = {{"pattern", pattern},
                                    {"fill", fill},
                                    {"least", least},
                                    {"between", int64_t{has_separators && !is_by_letter}},
                                    {"marks", int64_t{has_marks}}};
  c.set_output(0, taken_apart(c, x, "aipu::CountTokens", "aipu::FindTokens", attributes).rows);
}

namespace {

// MurmurHash3 of 32 bits, of numbers.
class Hash {
 public:
  Hash(OpContext& c, uint32_t seed) : c_(c), hash_(number(seed)) {}

  void add(ValueId block) {
    ValueId mixed = times(rotated(times(block, 0xcc9e2d51u), 15), 0x1b873593u);
    hash_ = rotated(c_.emit("BitwiseXor", {}, {hash_, mixed}), 13);
    hash_ = c_.emit("Add", {}, {times(hash_, 5), number(0xe6546b64u)});
    bytes_ += 4;
  }
  ValueId finished() {
    hash_ = c_.emit("BitwiseXor", {}, {hash_, number(bytes_)});
    folded(16);
    hash_ = times(hash_, 0x85ebca6bu);
    folded(13);
    hash_ = times(hash_, 0xc2b2ae35u);
    folded(16);
    return hash_;
  }

 private:
  ValueId number(uint32_t value) { return c_.scalar(DType::kU32, value); }
  ValueId times(ValueId x, uint32_t factor) { return multiply(c_, x, number(factor)); }
  ValueId shifted(ValueId x, const char* direction, uint32_t bits) {
    return c_.emit("BitShift", {{"direction", std::string(direction)}}, {x, number(bits)});
  }
  ValueId rotated(ValueId x, uint32_t bits) {
    return c_.emit("BitwiseOr", {}, {shifted(x, "LEFT", bits), shifted(x, "RIGHT", 32 - bits)});
  }
  void folded(uint32_t bits) { hash_ = c_.emit("BitwiseXor", {}, {hash_, shifted(hash_, "RIGHT", bits)}); }

  OpContext& c_;
  ValueId hash_;
  uint32_t bytes_ = 0;
};

ValueId hash_of_numbers(OpContext& c, ValueId x, uint32_t seed) {
  Hash hash(c, seed);
  if (dtype_bytes(c.dtype(x)) == 4) {
    hash.add(c.emit("BitCast", {{"to", DType::kU32}}, {x}));
    return hash.finished();
  }
  const ValueId wide = c.emit("BitCast", {{"to", DType::kU64}}, {x});
  hash.add(c.cast(wide, DType::kU32));
  const ValueId shift = c.scalar(DType::kU64, 32);
  hash.add(c.cast(c.emit("BitShift", {{"direction", std::string("RIGHT")}}, {wide, shift}), DType::kU32));
  return hash.finished();
}

}  // namespace

void murmur_hash(OpContext& c) {
  c.expect_inputs(1, 1);
  const int64_t seed = c.take_int("seed", 0);
  const bool is_positive = c.take_int("positive", 1) != 0;
  const ValueId x = c.input(0);
  if (!c.ok()) return;
  const DType dtype = c.dtype(x);
  ValueId y;
  if (dtype == DType::kString) {
    y = c.emit("aipu::MurmurHash", {{"seed", seed}}, {x});
  } else if (dtype_bytes(dtype) == 4 || dtype_bytes(dtype) == 8) {
    y = hash_of_numbers(c, x, static_cast<uint32_t>(seed));
  } else {
    return c.fail_unsupported(str_cat("takes strings and numbers of 4 or 8 bytes, found ", c.type(x).text()));
  }
  c.emit_output("BitCast", {{"to", is_positive ? DType::kU32 : DType::kI32}}, {y});
}

}  // namespace aipu::frontend::microsoft
