// Regular expressions, by RE2.
#include "runtime/text/pieces.h"

#ifdef AIPU_HAS_RE2
#include <re2/re2.h>

#include <array>
#include <optional>
#endif

namespace aipu::text {

#ifdef AIPU_HAS_RE2
namespace {

using Expression = std::unique_ptr<const RE2>;

Result<Expression> compiled(std::string_view pattern, bool takes_longest) {
  RE2::Options options(RE2::Quiet);
  options.set_longest_match(takes_longest);
  auto expression = std::make_unique<const RE2>(re2::StringPiece(pattern.data(), pattern.size()), options);
  if (!expression->ok())
    return unsupported(str_cat("RE2 does not take the pattern '", pattern, "': ", expression->error()));
  return expression;
}

class RegexFullMatch final : public Operation {
 public:
  explicit RegexFullMatch(Expression expression) : expression_(std::move(expression)) {}

  Status run(const Arguments& arguments) const override {
    AIPU_RETURN_IF_ERROR(expect(arguments, 1, 1));
    AIPU_RETURN_IF_ERROR(expect_output(arguments, DType::kBool, arguments.inputs[0].count));
    for (size_t k = 0; k < arguments.inputs[0].count; ++k) {
      AIPU_ASSIGN_OR_RETURN(const std::string_view text, arguments.at(arguments.inputs[0], k));
      const bool matches = RE2::FullMatch(re2::StringPiece(text.data(), text.size()), *expression_);
      store(arguments.outputs[0], k, static_cast<uint8_t>(matches ? 1 : 0));
    }
    return {};
  }

 private:
  Expression expression_;
};

bool continues_letter(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// The patterns that vectorisers of texts have, `.` and `[a-zA-Z0-9_]+`: looking at bytes finds the same as RE2 does, in
// a tenth of its time.
class SimplePattern {
 public:
  static std::optional<SimplePattern> of(std::string_view pattern) {
    SimplePattern made;
    if (pattern == ".") {
      made.is_any_letter_ = true;
      return made;
    }
    made.is_run_ = pattern.ends_with('+');
    if (made.is_run_) pattern.remove_suffix(1);
    if (pattern.size() < 3 || !pattern.starts_with('[') || !pattern.ends_with(']')) return std::nullopt;
    pattern = pattern.substr(1, pattern.size() - 2);
    while (!pattern.empty()) {
      const char first = pattern[0];
      const bool is_range = pattern.size() >= 3 && pattern[1] == '-';
      const char last = is_range ? pattern[2] : first;
      if (!is_word(first) || !is_word(last) || first > last) return std::nullopt;
      for (int c = first; c <= last; ++c) made.taken_[static_cast<size_t>(c)] = true;
      pattern.remove_prefix(is_range ? 3 : 1);
    }
    return made;
  }

  // What matches of a text is asked for only where this is true: RE2 knows what a letter is in bytes that are no UTF-8.
  bool fits(std::string_view text) const {
    if (!is_any_letter_) return true;
    for (size_t at = 0; at < text.size();) {
      const size_t length = letter_at(text, at);
      if (length == 0) return false;
      at += length;
    }
    return true;
  }

  // The first match from a place on, of a text that fits; nothing at its end if there is none.
  std::string_view find(std::string_view text, size_t at) const {
    if (is_any_letter_) {
      while (at < text.size() && text[at] == '\n') ++at;
      return text.substr(at, at < text.size() ? letter_at(text, at) : 0);
    }
    while (at < text.size() && !takes(text[at])) ++at;
    size_t end = at;
    while (end < text.size() && takes(text[end]) && (is_run_ || end == at)) ++end;
    return text.substr(at, end - at);
  }

 private:
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  bool takes(char byte) const { return taken_[static_cast<unsigned char>(byte)]; }

  // The bytes of a letter, 0 where there is none. Forms that are too long, and surrogates, are none.
  static size_t letter_at(std::string_view text, size_t at) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x80) return 1;
    const size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (length > text.size() - at) return 0;
    for (size_t k = 1; k < length; ++k)
      if (!continues_letter(text[at + k])) return 0;
    const auto second = static_cast<unsigned char>(length > 2 ? text[at + 1] : '\0');
    const bool is_other = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                          (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
    return is_other ? 0 : length;
  }

  std::array<bool, 256> taken_ = {};
  bool is_run_ = false, is_any_letter_ = false;
};

// What matches, or what stands between matches, if it has so many letters.
class Tokens {
 public:
  Tokens(Expression expression, const Given& given)
      : expression_(std::move(expression)),
        simple_(SimplePattern::of(given.text(0))),
        fill_(given.text(1)),
        least_letters_(given.numbers[0]),
        is_between_(given.numbers[1] != 0),
        has_marks_(given.numbers[2] != 0) {}

  std::string_view fill() const { return fill_; }

  template <typename Visit>
  Status for_each_piece(std::string_view text, const Visit& visit) const {
    if (has_marks_) AIPU_RETURN_IF_ERROR(visit("\x02"));
    const bool is_simple = simple_ && simple_->fits(text);
    size_t last_end = 0;
    for (size_t at = 0; at < text.size();) {
      const std::string_view found = is_simple ? simple_->find(text, at) : find(text, at);
      if (found.data() == nullptr) break;
      const auto begin = static_cast<size_t>(found.data() - text.data());
      at = begin + found.size();
      if (found.empty()) {
        ++at;
        while (at < text.size() && continues_letter(text[at])) ++at;
        continue;
      }
      AIPU_RETURN_IF_ERROR(
          visit_long(is_between_ ? text.substr(last_end, begin - last_end) : text.substr(begin, found.size()), visit));
      last_end = at;
    }
    if (is_between_) AIPU_RETURN_IF_ERROR(visit_long(text.substr(last_end), visit));
    return has_marks_ ? visit("\x03") : Status();
  }

 private:
  // The first match from a place on; of no memory if there is none.
  std::string_view find(std::string_view text, size_t at) const {
    re2::StringPiece found;
    if (!expression_->Match({text.data(), text.size()}, at, text.size(), RE2::UNANCHORED, &found, 1)) return {};
    return {found.data(), found.size()};
  }

  template <typename Visit>
  Status visit_long(std::string_view token, const Visit& visit) const {
    int64_t letters = 0;
    for (const char byte : token) letters += continues_letter(byte) ? 0 : 1;
    return letters >= least_letters_ ? visit(token) : Status();
  }

  Expression expression_;
  std::optional<SimplePattern> simple_;
  std::string fill_;
  int64_t least_letters_;
  bool is_between_, has_marks_;
};

template <typename Made>
MadeOperation made_of_tokens(const Given& given) {
  AIPU_ASSIGN_OR_RETURN(Expression expression, compiled(given.text(0), true));
  return std::make_unique<Made>(Tokens(std::move(expression), given));
}

}  // namespace

MadeOperation make_regex_full_match(const Given& given) {
  AIPU_ASSIGN_OR_RETURN(Expression expression, compiled(given.text(0), false));
  return std::make_unique<RegexFullMatch>(std::move(expression));
}
MadeOperation make_count_tokens(const Given& given) { return made_of_tokens<CountOfPieces<Tokens>>(given); }
MadeOperation make_find_tokens(const Given& given) { return made_of_tokens<RowsOfPieces<Tokens>>(given); }

#else

namespace {

Status without_re2() {
  return unsupported("libaipu_text.so was built without RE2, which matches regular expressions (libre2-dev)");
}

}  // namespace

MadeOperation make_regex_full_match(const Given&) { return without_re2(); }
MadeOperation make_count_tokens(const Given&) { return without_re2(); }
MadeOperation make_find_tokens(const Given&) { return without_re2(); }

#endif

}  // namespace aipu::text
