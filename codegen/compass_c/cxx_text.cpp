#include "codegen/compass_c/cxx_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>

#include "codegen/c_spelling/c_names.h"
#include "codegen/compass_c/c_text.h"
#include "codegen/native_c/translation_unit.h"
#include "codegen/tir/visit.h"
#include "runtime/base/embedded_file.h"

namespace aipu::tir {

std::span<const EmbeddedFile> compass_prelude_files();  // generated, see codegen/CMakeLists.txt

namespace {

// An element of vectors: what the text calls it, and what the prelude does, whose words are no macros.
struct Element {
  DType dtype;
  std::string_view own;
};
constexpr Element kElements[] = {{DType::kI8, "__i8"},       {DType::kU8, "__u8"},   {DType::kI16, "__i16"},
                                 {DType::kU16, "__u16"},     {DType::kI32, "__i32"}, {DType::kU32, "__u32"},
                                 {DType::kI64, "__i64"},     {DType::kU64, "__u64"}, {DType::kF16, "__f16"},
                                 {DType::kBF16, "__bf16_t"}, {DType::kF32, "__f32"}, {DType::kF64, "__f64"}};

// A conversion that takes some of the lanes.
struct Share {
  std::string_view name;
  int index, of, stride;
};
constexpr Share kShares[] = {{"low", 0, 2, 1}, {"high", 1, 2, 1}, {"even", 0, 1, 2}, {"odd", 1, 1, 2},
                             {"ll", 0, 4, 1},  {"lh", 1, 4, 1},   {"hl", 2, 4, 1},   {"hh", 3, 4, 1}};

std::string words_of_scalar(const Element& element) {
  const std::string_view word = c_element(element.dtype);
  if (!is_integer(element.dtype)) return fmt::format("#define as_{0} __bits<{1}>\n", word, element.own);
  return fmt::format("#define {0} __int_c<{1}>\n#define as_{0} __bits<__int_c<{1}>>\n", word, element.own);
}

std::string words_of_vector(const Element& element, int lanes) {
  const std::string word = fmt::format("{}{}", c_element(element.dtype), lanes),
                    type = fmt::format("__lanes_c<{}, {}>", element.own, lanes);
  std::string text = fmt::format(
      "#define {0} {1}\n#define convert_{0} __convert_c<{1}>\n#define convert_{0}_sat __convert_c<{1}, true>\n"
      "#define as_{0} __as_vector<{1}>\n#define __vcvt_{0} __vcvt<{1}>\n#define __vpart_{0} __part_of<{1}>\n",
      word, type);
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
  std::string text = "#pragma once\n" + host_prelude(target);
  for (const EmbeddedFile& file : compass_prelude_files()) text += file.text;
  for (const int lanes : {2, 4, 8, 16, 32, 64}) {
    for (const Element& element : kElements) text += words_of_vector(element, lanes);
    text += words_of_mask(lanes);
  }
  for (const Element& element : kElements) text += words_of_scalar(element);
  return text + words_of_dma();
}

namespace {

std::string_view first_word(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && is_word(text[end])) ++end;
  return text.substr(0, end);
}

// `__lsram half16 t[1024];`, which has no place in C++. "" for other lines.
std::string array_on_chip(std::string_view line, const std::vector<int64_t>& offsets, size_t* next) {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::string_view scope = first_word(line.substr(indent));
  if ((scope != "__lsram" && scope != "__local") || !line.ends_with("];") || *next >= offsets.size()) return {};
  const size_t type_at = indent + scope.size() + 1;
  const std::string_view type = first_word(line.substr(type_at));
  const size_t name_at = type_at + type.size() + 1;
  const std::string_view name = first_word(line.substr(std::min(name_at, line.size())));
  if (type.empty() || name.empty() || line[name_at + name.size()] != '[') return {};
  return fmt::format("{0}{1} {2}* {3} = {4}<{2}>({5});", line.substr(0, indent), scope, type, name,
                     scope == "__lsram" ? "__lsram_array" : "__shared_array", offsets[(*next)++]);
}

std::string with_literals(std::string_view c_code) {
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

}  // namespace

std::string cxx_of_compass_c(std::string_view c_code, const std::vector<int64_t>& array_offsets) {
  std::string text;
  size_t next_array = 0;
  while (!c_code.empty()) {
    const size_t end = std::min(c_code.find('\n'), c_code.size());
    const std::string_view line = c_code.substr(0, end);
    const std::string array = array_on_chip(line, array_offsets, &next_array);
    text += with_literals(array.empty() ? line : array);
    if (end < c_code.size()) text += '\n';
    c_code.remove_prefix(std::min(end + 1, c_code.size()));
  }
  return text;
}

Result<KernelText> print_compass_kernel(const KernelSource& kernel, const Target& target, bool line_marks) {
  // With the aligning of vectors switched off there are some that have no type.
  Module shown = kernel.shown.value_or(kernel.lowered);
  if (!kernel.shown || has_vector_without_type(shown)) {
    AIPU_ASSIGN_OR_RETURN(shown, compass_c_module(kernel.lowered, target));
  }
  const LaunchNeeds needs = launch_needs(shown);
  AIPU_RETURN_IF_ERROR(check_runs(shown, needs, target));
  if (shown.entry().name != kernel.symbol) {
    auto entry = std::make_shared<PrimFunc>(shown.entry());
    entry->name = kernel.symbol;
    shown.functions[0] = std::move(entry);
  }
  AIPU_ASSIGN_OR_RETURN(const CompassText printed, print_compass_c(shown, target, kernel.disabled_passes, line_marks));
  std::vector<int64_t> offsets;
  for (const Var* array : printed.arrays) {
    const auto at = needs.memory.offsets.find(array);
    if (at == needs.memory.offsets.end()) return internal_error(fmt::format("array {} has no place", array->name));
    offsets.push_back(at->second);
  }
  const PrimFunc& entry = shown.entry();
  std::string arguments;
  for (size_t i = 0; i < entry.params.size(); ++i)
    arguments += fmt::format("{}__argument<{}>(__arguments[{}])", i == 0 ? "" : ", ", c_type(entry.params[i]->type), i);
  // The text divides by shifts where a parameter is taken not to be negative: what it would compute of one that is, is
  // not what the language says.
  std::string checks;
  for (const size_t i : entry.non_negative_params)
    checks += fmt::format("  if (!__not_negative<{}>(__arguments[{}])) return;\n", c_type(entry.params[i]->type), i);
  KernelText text;
  text.entry = "aipu_entry_" + printed.entry;
  // A namespace: kernels have functions of the same name.
  text.c = fmt::format(
      "namespace kernel_{0} {{\n{1}}}\n"
      "extern \"C\" __hidden void {2}(const aipu_tec_context* __context, const __word* __arguments) {{\n"
      "  __begin(__context, {3});\n{5}  kernel_{0}::{0}({4});\n}}\n",
      printed.entry, cxx_of_compass_c(printed.c, offsets), text.entry, needs.uses_barrier, arguments, checks);
  text.reports_faults = needs.reports_faults;
  text.table_row = table_row(kernel.symbol, text.entry, entry.params.size(), needs);
  return text;
}

}  // namespace aipu::tir
