// Regular expressions, by RE2.
#include "runtime/text/operation.h"

#ifdef AIPU_HAS_RE2
#include <re2/re2.h>
#endif

namespace aipu::text {

#ifdef AIPU_HAS_RE2
namespace {

class RegexFullMatch final : public Operation {
 public:
  explicit RegexFullMatch(std::string_view pattern)
      : expression_(re2::StringPiece(pattern.data(), pattern.size()), RE2::Quiet) {}
  const RE2& expression() const { return expression_; }

  Status run(const Arguments& arguments) const override {
    AIPU_RETURN_IF_ERROR(expect(arguments, 1, 1));
    AIPU_RETURN_IF_ERROR(expect_output(arguments, DType::kBool, arguments.inputs[0].count));
    for (size_t k = 0; k < arguments.inputs[0].count; ++k) {
      AIPU_ASSIGN_OR_RETURN(const std::string_view text, arguments.at(arguments.inputs[0], k));
      const bool matches = RE2::FullMatch(re2::StringPiece(text.data(), text.size()), expression_);
      store(arguments.outputs[0], k, static_cast<uint8_t>(matches ? 1 : 0));
    }
    return {};
  }

 private:
  RE2 expression_;
};

}  // namespace

MadeOperation make_regex_full_match(const Given& given) {
  auto operation = std::make_unique<RegexFullMatch>(given.text(0));
  if (!operation->expression().ok())
    return unsupported(
        str_cat("RE2 does not take the pattern '", given.text(0), "': ", operation->expression().error()));
  return operation;
}

#else

MadeOperation make_regex_full_match(const Given&) {
  return unsupported("libaipu_text.so was built without RE2, which matches regular expressions (libre2-dev)");
}

#endif

}  // namespace aipu::text
