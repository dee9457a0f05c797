#include "codegen/compass_c/cxx_text.h"

#include <fmt/format.h>

#include <span>

#include "codegen/c_spelling/c_names.h"
#include "codegen/native_c/c_printer.h"
#include "runtime/base/embedded_file.h"

namespace aipu::tir {

std::span<const EmbeddedFile> compass_prelude_files();  // generated, see codegen/CMakeLists.txt

namespace {

constexpr DType kElements[] = {DType::kI8,  DType::kU8,  DType::kI16, DType::kU16,  DType::kI32, DType::kU32,
                               DType::kI64, DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

// A conversion that takes some of the lanes.
struct Share {
  std::string_view name;
  int index, of, stride;
};
constexpr Share kShares[] = {{"low", 0, 2, 1}, {"high", 1, 2, 1}, {"even", 0, 1, 2}, {"odd", 1, 1, 2},
                             {"ll", 0, 4, 1},  {"lh", 1, 4, 1},   {"hl", 2, 4, 1},   {"hh", 3, 4, 1}};

std::string words_of_vector(DType element, int lanes) {
  const std::string_view scalar = c_element(element);
  const std::string word = fmt::format("{}{}", scalar, lanes), type = fmt::format("__lanes_c<{}, {}>", scalar, lanes);
  std::string text = fmt::format(
      "#define {0} {1}\n#define convert_{0} __convert_c<{1}>\n#define convert_{0}_sat __convert_c<{1}, true>\n"
      "#define as_{0} __as_vector<{1}>\n#define as_{2} __bits<{2}>\n#define __vcvt_{0} __vcvt<{1}>\n"
      "#define __vpart_{0} __part_of<{1}>\n",
      word, type, scalar);
  for (const Share& share : kShares) {
    const std::string which = fmt::format("{}, {}, {}, {}", type, share.index, share.of, share.stride);
    text += fmt::format(
        "#define convert_{0}_{1} __convert_lanes<{2}, false>\n#define convert_{0}_sat_{1} __convert_lanes<{2}, true>\n"
        "#define __vcvtu{3}_{0} __vcvt_lanes<{2}>\n",
        word, share.name, which, share.name.substr(0, 1));
  }
  return text;
}

std::string words_of_mask(int lanes) {
  return fmt::format(
      "#define bool{0} __mask_c<{0}>\n#define convert_bool{0} __convert_mask<__mask_c<{0}>>\n"
      "#define __vpart_bool{0} __part_of<__mask_c<{0}>>\n",
      lanes);
}

// The functions that GEN_DMA_... makes of two places.
std::string words_of_dma() {
  constexpr std::string_view kPlaces[] = {"kGlobal", "kGlobal1", "kGlobal2", "kGlobal3", "kLsram", "kShared"};
  std::string text;
  for (const std::string_view src : kPlaces) {
    for (const std::string_view dst : kPlaces) {
      text += fmt::format(
          "#define DmaDirect_{0}_to_{1}(dst, src, ...) __dma_direct(__AIPU_POINTER dst, __AIPU_POINTER src, "
          "__VA_ARGS__)\n#define AsyncDmaDirect_{0}_to_{1} DmaDirect_{0}_to_{1}\n"
          "#define DmaUpsample_{0}_to_{1}(dst, src, ...) __dma_upsampled(__AIPU_POINTER dst, __AIPU_POINTER src, "
          "__VA_ARGS__)\n",
          src, dst);
    }
  }
  return text;
}

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// The end of the quoted text that starts at `at`.
size_t end_of_string(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
  return at;
}

// Whether the parentheses that open at `at` hold a list.
bool holds_list(std::string_view text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '"') at = end_of_string(text, at);
    if (at >= text.size()) return false;
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth == 0) return false;
    if (depth == 1 && text[at] == ',') return true;
  }
  return false;
}

// The length of "(int8)" in front of "(1,2,...)"; 0: that is not there.
size_t cast_before_list(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && is_word(text[end])) ++end;
  const bool cast = end > at + 1 && text.substr(end).starts_with(")(") && text[end - 1] >= '0' && text[end - 1] <= '9';
  return cast && !(text[at + 1] >= '0' && text[at + 1] <= '9') && holds_list(text, end + 1) ? end + 1 - at : 0;
}

}  // namespace

std::string compass_prelude(const Target& target) {
  std::string text = "#pragma once\n" + prelude(target);
  for (const EmbeddedFile& file : compass_prelude_files()) text += file.text;
  for (const int lanes : {2, 4, 8, 16, 32, 64}) {
    for (const DType element : kElements) text += words_of_vector(element, lanes);
    text += words_of_mask(lanes);
  }
  return text + words_of_dma();
}

std::string cxx_of_compass_c(std::string_view c_code) {
  std::string text;
  for (size_t at = 0; at < c_code.size(); ++at) {
    if (c_code[at] == '"') {
      const size_t end = end_of_string(c_code, at);
      text += c_code.substr(at, end + 1 - at);
      at = end;
      continue;
    }
    const bool called = !text.empty() && is_word(text.back());
    const size_t length = c_code[at] == '(' && !called ? cast_before_list(c_code, at) : 0;
    if (length == 0) {
      text += c_code[at];
      continue;
    }
    text += c_code.substr(at + 1, length - 2);
    at += length - 1;
  }
  return text;
}

}  // namespace aipu::tir
