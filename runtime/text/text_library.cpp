// libaipu_text.so (text_api.h): the table of operations.
#include "runtime/text/operation.h"

namespace aipu::text {
namespace {

constexpr Row kRows[] = {
    {"ChangeCase", 2, 0, make_change_case},          {"CountPieces", 1, 1, make_count_pieces},
    {"CountTokens", 2, 3, make_count_tokens},        {"FindTokens", 2, 3, make_find_tokens},
    {"MurmurHash", 0, 1, make_murmur_hash},          {"NumberToText", 0, 0, make_number_to_text},
    {"RegexFullMatch", 1, 0, make_regex_full_match}, {"SplitPieces", 1, 1, make_split_pieces},
    {"StringConcat", 0, 0, make_string_concat},      {"TextToNumber", 0, 0, make_text_to_number},
};

}  // namespace

Contents contents() { return {"libaipu_text.so", kRows}; }

}  // namespace aipu::text

extern "C" __attribute__((visibility("default"))) const aipu_text_library* aipu_text_v1() {
  return aipu::text::library();
}
