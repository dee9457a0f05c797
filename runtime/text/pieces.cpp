// Strings put together and taken apart, as Python's str.split does it.
#include "runtime/text/pieces.h"

#include <string>

namespace aipu::text {
namespace {

class StringConcat final : public Operation {
 public:
  Status run(const Arguments& arguments) const override {
    AIPU_RETURN_IF_ERROR(expect(arguments, 2, 2));
    AIPU_RETURN_IF_ERROR(expect_output(arguments, DType::kI64, arguments.inputs[0].count));
    std::string both;
    for (size_t k = 0; k < arguments.inputs[0].count; ++k) {
      AIPU_ASSIGN_OR_RETURN(const std::string_view first, arguments.at(arguments.inputs[0], k));
      AIPU_ASSIGN_OR_RETURN(const std::string_view second, arguments.at(arguments.inputs[1], k));
      both.assign(first).append(second);
      AIPU_RETURN_IF_ERROR(arguments.put(arguments.outputs[0], k, both));
    }
    return {};
  }
};

// The bytes of the white space that a text begins with; 0: it begins with something else. Unicode's White_Space, and
// the separators U+001C to U+001F.
size_t white_space(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (text.empty()) return 0;
  if (first < 0x80) return first == ' ' || (first >= 0x09 && first <= 0x0d) || (first >= 0x1c && first <= 0x1f) ? 1 : 0;
  if (first == 0xc2) return byte(1) == 0x85 || byte(1) == 0xa0 ? 2 : 0;
  const unsigned rest = byte(1) << 8 | byte(2);
  if (first == 0xe1) return rest == 0x9a80 ? 3 : 0;  // U+1680
  if (first == 0xe3) return rest == 0x8080 ? 3 : 0;  // U+3000
  if (first != 0xe2) return 0;
  const bool is_space = (rest >= 0x8080 && rest <= 0x808a) || rest == 0x80a8 || rest == 0x80a9 ||  // U+2000 to U+200A
                        rest == 0x80af || rest == 0x819f;                                          // U+202F, U+205F
  return is_space ? 3 : 0;
}

size_t skip_white_space(std::string_view text, size_t at) {
  while (const size_t bytes = white_space(text.substr(at))) at += bytes;
  return at;
}

struct Splitting {
  std::string delimiter;  // "": any white space
  int64_t most;           // splits; below 0: all

  std::string_view fill() const { return ""; }
  template <typename Visit>
  Status for_each_piece(std::string_view text, const Visit& visit) const {
    return delimiter.empty() ? for_each_word(text, visit) : for_each_part(text, visit);
  }

 private:
  template <typename Visit>
  Status for_each_part(std::string_view text, const Visit& visit) const {
    size_t at = 0;
    for (int64_t splits = 0; most < 0 || splits < most; ++splits) {
      const size_t end = text.find(delimiter, at);
      if (end == std::string_view::npos) break;
      AIPU_RETURN_IF_ERROR(visit(text.substr(at, end - at)));
      at = end + delimiter.size();
    }
    return visit(text.substr(at));
  }

  // White space around words does not count, but behind the last split nothing is taken away at the end.
  template <typename Visit>
  Status for_each_word(std::string_view text, const Visit& visit) const {
    size_t at = skip_white_space(text, 0);
    for (int64_t splits = 0; at < text.size() && (most < 0 || splits < most); ++splits) {
      size_t end = at;
      while (end < text.size() && white_space(text.substr(end)) == 0) ++end;
      AIPU_RETURN_IF_ERROR(visit(text.substr(at, end - at)));
      at = skip_white_space(text, end);
    }
    return at < text.size() ? visit(text.substr(at)) : Status();
  }
};

Splitting splitting(const Given& given) { return {std::string(given.text(0)), given.numbers[0]}; }

}  // namespace

MadeOperation make_string_concat(const Given&) { return std::make_unique<StringConcat>(); }
MadeOperation make_count_pieces(const Given& given) {
  return std::make_unique<CountOfPieces<Splitting>>(splitting(given));
}
MadeOperation make_split_pieces(const Given& given) {
  return std::make_unique<RowsOfPieces<Splitting>>(splitting(given));
}

}  // namespace aipu::text
