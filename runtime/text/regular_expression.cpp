// Regular expressions, by RE2.
#include "runtime/text/pieces.h"

#ifdef AIPU_HAS_RE2
#include <re2/re2.h>
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

// What matches, or what stands between matches, if it has so many letters.
class Tokens {
 public:
  Tokens(Expression expression, const Given& given)
      : expression_(std::move(expression)),
        fill_(given.text(1)),
        least_letters_(given.numbers[0]),
        is_between_(given.numbers[1] != 0),
        has_marks_(given.numbers[2] != 0) {}

  std::string_view fill() const { return fill_; }

  template <typename Visit>
  Status for_each_piece(std::string_view text, const Visit& visit) const {
    if (has_marks_) AIPU_RETURN_IF_ERROR(visit("\x02"));
    const re2::StringPiece all(text.data(), text.size());
    re2::StringPiece found;
    size_t last_end = 0;
    for (size_t at = 0; at < text.size() && expression_->Match(all, at, text.size(), RE2::UNANCHORED, &found, 1);) {
      const auto begin = static_cast<size_t>(found.data() - all.data());
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
  template <typename Visit>
  Status visit_long(std::string_view token, const Visit& visit) const {
    int64_t letters = 0;
    for (const char byte : token) letters += continues_letter(byte) ? 0 : 1;
    return letters >= least_letters_ ? visit(token) : Status();
  }

  Expression expression_;
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
