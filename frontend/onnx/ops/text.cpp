// Operators that look into strings.
#include "frontend/onnx/ops/text.h"

#include "frontend/onnx/ops/compose.h"
#include "frontend/onnx/ops/converters.h"

namespace aipu::frontend {

void expect_strings(OpContext& c, ValueId x) {
  if (c.ok() && c.dtype(x) != DType::kString) c.fail_invalid(str_cat("takes strings, found ", c.type(x).text()));
}

Pieces taken_apart(OpContext& c, ValueId x, std::string_view count, std::string_view split,
                   const AttributeList& attributes) {
  const ValueId counts = c.emit(count, attributes, {x});
  // Of no elements too there is a greatest.
  const ValueId listed_counts = concat(c, 0, {reshape(c, counts, {-1}), c.int64s({0})});
  const ValueId most = c.emit("ReduceMax", {{"keepdims", int64_t{0}}}, {listed_counts, c.int64s({0})});
  if (!c.ok()) return {};
  const auto pieces = c.graph().require_data(most);
  if (!pieces) {
    c.fail_unsupported("the number of pieces cannot be known");
    return {};
  }
  AttributeList with_pieces = attributes;
  with_pieces.emplace_back("pieces", Shape{max((*pieces)[0], 0)});
  return {c.emit(split, std::move(with_pieces), {x}), counts};
}

void string_concat(OpContext& c) {
  c.expect_inputs(2, 2);
  ValueId a = c.input(0), b = c.input(1);
  expect_strings(c, a);
  expect_strings(c, b);
  if (!c.ok()) return;
  if (c.type(a).shape != c.type(b).shape) {
    // Both broadcast: what a choice between them gives.
    const auto chosen = [&](bool first) { return c.emit("Where", {}, {c.scalar(DType::kBool, first ? 1 : 0), a, b}); };
    const ValueId wide = chosen(true);
    b = chosen(false);
    a = wide;
  }
  c.emit_output("aipu::StringConcat", {}, {a, b});
}

void regex_full_match(OpContext& c) {
  c.expect_inputs(1, 1);
  c.require_attribute("pattern");
  const std::string pattern = c.take_string("pattern", "");
  expect_strings(c, c.input(0));
  c.emit_output("aipu::RegexFullMatch", {{"pattern", pattern}}, {c.input(0)});
}

// As many pieces as the element with the most has; the others are filled with "".
void string_split(OpContext& c) {
  c.expect_inputs(1, 1);
  const ValueId x = c.input(0);
  const AttributeList splitting = {{"delimiter", c.take_string("delimiter", "")},
                                   {"maxsplit", c.take_int("maxsplit", -1)}};
  expect_strings(c, x);
  const Pieces pieces = taken_apart(c, x, "aipu::CountPieces", "aipu::SplitPieces", splitting);
  c.set_output(0, pieces.rows);
  if (c.wants_output(1)) c.set_output(1, pieces.counts);
}

namespace {

// Whether each element of x ([C]) is one of `words`: [C].
ValueId is_among(OpContext& c, ValueId x, ValueId words) {
  const ValueId equal = c.emit("Equal", {}, {c.unsqueeze(x, {1}), c.unsqueeze(words, {0})});
  const ValueId count = c.emit("ReduceMax", {{"keepdims", int64_t{0}}}, {c.cast(equal, DType::kI32), c.int64s({1})});
  return c.cast(count, DType::kBool);
}

ValueId with_case(OpContext& c, ValueId x, const std::string& action, const std::string& locale) {
  return c.emit("aipu::ChangeCase", {{"action", action}, {"locale", locale}}, {x});
}

}  // namespace

// Stop words go, the others change their case; of none at all "" is left.
void string_normalizer(OpContext& c) {
  c.expect_inputs(1, 1);
  const std::string action = c.take_string("case_change_action", "NONE");
  const bool is_case_sensitive = c.take_int("is_case_sensitive", 0) != 0;
  const std::string locale = c.take_string("locale", "en_US");
  const auto stopwords = c.take_strings("stopwords");
  ValueId x = c.input(0);
  expect_strings(c, x);
  if (!c.ok()) return;
  if (action != "NONE" && action != "LOWER" && action != "UPPER")
    return c.fail_invalid(str_cat("case_change_action '", action, "' is none of NONE, LOWER and UPPER"));
  const bool is_row = c.rank(x) == 2;
  if (is_row) x = c.squeeze(x, {0});
  if (c.rank(x) != 1) return c.fail_invalid(str_cat("takes strings [C] or [1,C], found ", c.type(c.input(0)).text()));
  if (stopwords && !stopwords->empty()) {
    ValueId words = c.strings(*stopwords), compared = x;
    if (!is_case_sensitive) {
      words = with_case(c, words, "LOWER", locale);
      compared = with_case(c, x, "LOWER", locale);
    }
    const ValueId kept = c.emit("Not", {}, {is_among(c, compared, words)});
    const ValueId count = c.emit("aipu::CountNonZero", {}, {kept});
    x = c.emit("Compress", {{"axis", int64_t{0}}}, {x, kept, count});
    const ValueId length = c.emit("Max", {}, {c.size_of(x, 0), c.int64s({1})});
    x = c.emit("Slice", {}, {concat(c, 0, {x, c.strings({""})}), c.int64s({0}), length, c.int64s({0})});
  }
  if (action != "NONE") x = with_case(c, x, action, locale);
  c.emit_output("Identity", {}, {is_row ? c.unsqueeze(x, {0}) : x});
}

}  // namespace aipu::frontend
