#include "runtime/tools/npy_strings.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>

namespace aipu::tools {
namespace {

constexpr uint32_t kNoCodePoint = 0xffffffffu;

void append_utf8(uint32_t c, std::string* text) {
  const auto add = [&](uint32_t byte) { *text += static_cast<char>(byte); };
  if (c < 0x80) return add(c);
  if (c < 0x800) {
    add(0xc0 | c >> 6);
  } else if (c < 0x10000) {
    add(0xe0 | c >> 12);
    add(0x80 | (c >> 6 & 0x3f));
  } else {
    add(0xf0 | c >> 18);
    add(0x80 | (c >> 12 & 0x3f));
    add(0x80 | (c >> 6 & 0x3f));
  }
  add(0x80 | (c & 0x3f));
}

// The code point that the text begins with, which is taken away; kNoCodePoint where it is no UTF-8.
uint32_t take_code_point(std::string_view* text) {
  const auto first = static_cast<unsigned char>((*text)[0]);
  const size_t bytes = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : 4;
  if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || text->size() < bytes) return kNoCodePoint;
  uint32_t c = bytes == 1 ? first : first & (0x7fu >> bytes);
  for (size_t k = 1; k < bytes; ++k) {
    const auto next = static_cast<unsigned char>((*text)[k]);
    if ((next & 0xc0) != 0x80) return kNoCodePoint;
    c = c << 6 | (next & 0x3fu);
  }
  const uint32_t least = bytes == 3 ? 0x800 : bytes == 4 ? 0x10000 : 0;
  if (c < least || c > 0x10ffff) return kNoCodePoint;
  text->remove_prefix(bytes);
  return c;
}

Result<std::string> narrow(std::span<const std::byte> element) {
  std::string text;
  std::vector<uint32_t> codes(element.size() / 4);
  if (!codes.empty()) std::memcpy(codes.data(), element.data(), codes.size() * 4);
  while (!codes.empty() && codes.back() == 0) codes.pop_back();
  for (const uint32_t c : codes) {
    if (c > 0x10ffff) return invalid_argument("not a valid .npy file: a string has a code point beyond Unicode");
    append_utf8(c, &text);
  }
  return text;
}

}  // namespace

std::optional<StringDescr> string_descr(std::string_view descr) {
  if (descr.size() < 3 || (descr.substr(0, 2) != "<U" && descr.substr(0, 2) != "|S")) return std::nullopt;
  size_t length = 0;
  const auto [end, error] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), length);
  if (error != std::errc() || end != descr.data() + descr.size() || length > (size_t{1} << 28)) return std::nullopt;
  return StringDescr{descr[1] == 'U', length};
}

Array array_of(std::vector<int64_t> shape, std::vector<std::string> texts) {
  Array array;
  array.dtype = DType::kString;
  array.shape = std::move(shape);
  array.texts = std::make_shared<const std::vector<std::string>>(std::move(texts));
  for (const std::string& text : *array.texts) {
    const runtime::StringView view = {text.data(), text.size()};
    const auto bytes = std::as_bytes(std::span(&view, 1));
    array.data.insert(array.data.end(), bytes.begin(), bytes.end());
  }
  return array;
}

Result<Array> strings_of(const StringDescr& descr, std::vector<int64_t> shape, std::span<const std::byte> data) {
  AIPU_ASSIGN_OR_RETURN(const int64_t count, element_count(shape));
  std::vector<std::string> texts;
  for (size_t k = 0; k < static_cast<size_t>(count); ++k) {
    const auto element = data.subspan(k * descr.element_bytes(), descr.element_bytes());
    if (descr.is_wide) {
      AIPU_ASSIGN_OR_RETURN(std::string text, narrow(element));
      texts.push_back(std::move(text));
    } else {
      std::string text(reinterpret_cast<const char*>(element.data()), element.size());
      text.resize(text.find_last_not_of('\0') + 1);
      texts.push_back(std::move(text));
    }
  }
  return array_of(std::move(shape), std::move(texts));
}

Result<size_t> longest(std::span<const runtime::StringView> texts) {
  size_t most = 1;
  for (const runtime::StringView& view : texts) {
    std::string_view text(view.data, view.size);
    size_t length = 0;
    for (; !text.empty(); ++length) {
      if (take_code_point(&text) == kNoCodePoint)
        return unsupported("a string is no UTF-8, which a .npy file cannot hold");
    }
    most = std::max(most, length);
  }
  return most;
}

std::vector<std::byte> wide_elements(std::span<const runtime::StringView> texts, size_t length) {
  std::vector<std::byte> bytes(texts.size() * length * 4);
  for (size_t k = 0; k < texts.size(); ++k) {
    std::string_view text(texts[k].data, texts[k].size);
    for (size_t i = 0; i < length && !text.empty(); ++i) {
      const uint32_t c = take_code_point(&text);
      std::memcpy(bytes.data() + (k * length + i) * 4, &c, 4);
    }
  }
  return bytes;
}

}  // namespace aipu::tools
