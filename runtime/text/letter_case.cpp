// The case of letters, by ICU: as Unicode and the locale have it.
#include <algorithm>

#include "runtime/text/operation.h"

#ifdef AIPU_HAS_ICU
#include <unicode/ucasemap.h>

#include <string>
#endif

namespace aipu::text {

#ifdef AIPU_HAS_ICU
namespace {

class ChangeCase final : public Operation {
 public:
  ChangeCase(bool upper, UCaseMap* map) : map_(map, &ucasemap_close), upper_(upper) {}

  Status run(const Arguments& arguments) const override {
    AIPU_RETURN_IF_ERROR(expect(arguments, 1, 1));
    AIPU_RETURN_IF_ERROR(expect_output(arguments, DType::kI64, arguments.inputs[0].count));
    std::string changed;
    for (size_t k = 0; k < arguments.inputs[0].count; ++k) {
      AIPU_ASSIGN_OR_RETURN(const std::string_view text, arguments.at(arguments.inputs[0], k));
      AIPU_RETURN_IF_ERROR(change(text, &changed));
      AIPU_RETURN_IF_ERROR(arguments.put(arguments.outputs[0], k, changed));
    }
    return {};
  }

 private:
  Status change(std::string_view text, std::string* changed) const {
    constexpr size_t kMostBytes = size_t{1} << 29;  // ICU counts in 32 bits
    if (text.size() > kMostBytes)
      return out_of_range(str_cat("a string has ", text.size(), " bytes, which ICU cannot take"));
    changed->resize(std::max<size_t>(text.size(), 16));
    for (int turn = 0; turn < 2; ++turn) {
      UErrorCode error = U_ZERO_ERROR;
      const auto convert = upper_ ? &ucasemap_utf8ToUpper : &ucasemap_utf8ToLower;
      const int32_t size = convert(map_.get(), changed->data(), static_cast<int32_t>(changed->size()), text.data(),
                                   static_cast<int32_t>(text.size()), &error);
      if (error != U_BUFFER_OVERFLOW_ERROR && U_FAILURE(error))
        return invalid_argument(str_cat("ICU: ", u_errorName(error)));
      const bool fits = static_cast<size_t>(size) <= changed->size();
      changed->resize(static_cast<size_t>(size));
      if (fits) return {};
    }
    return internal_error("ICU does not say how long a string becomes");
  }

  std::unique_ptr<UCaseMap, decltype(&ucasemap_close)> map_;
  bool upper_;
};

}  // namespace

MadeOperation make_change_case(const Given& given) {
  const std::string_view action = given.text(0);
  const std::string locale(given.text(1).empty() ? "en_US" : given.text(1));
  if (action != "LOWER" && action != "UPPER") return unsupported("the case is neither LOWER nor UPPER");
  UErrorCode error = U_ZERO_ERROR;
  UCaseMap* map = ucasemap_open(locale.c_str(), 0, &error);
  if (U_FAILURE(error))
    return unsupported(str_cat("ICU does not take the locale '", locale, "': ", u_errorName(error)));
  return std::make_unique<ChangeCase>(action == "UPPER", map);
}

#else

MadeOperation make_change_case(const Given&) {
  return unsupported("libaipu_text.so was built without ICU, which changes the case of letters (libicu-dev)");
}

#endif

}  // namespace aipu::text
