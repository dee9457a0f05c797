#include "kernels/dsl/diagnostics.h"

#include <fmt/format.h>

namespace aipu::dsl {

std::string_view SourceFile::line(int number) const {
  std::string_view rest = text;
  for (int i = first_line; i < number; ++i) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
  rest = rest.substr(0, rest.find('\n'));
  if (!rest.empty() && rest.back() == '\r') rest.remove_suffix(1);
  return rest;
}

SourceFilePtr make_source_file(std::string name, std::string text, int first_line) {
  return std::make_shared<const SourceFile>(
      SourceFile{std::make_shared<const std::string>(std::move(name)), std::move(text), first_line});
}

void Diagnostics::error(const SourceFilePtr& file, Position position, std::string_view text,
                        const std::vector<std::string>& notes) {
  if (full()) return;
  constexpr size_t kMaxShown = 200;  // of a source line
  std::string_view line = file->line(position.line).substr(0, kMaxShown);
  std::string caret;
  for (int i = 0; i + 1 < position.column && i < static_cast<int>(kMaxShown); ++i) {
    const char c = i < static_cast<int>(line.size()) ? line[static_cast<size_t>(i)] : ' ';
    if ((static_cast<unsigned char>(c) & 0xC0) == 0x80) continue;  // inside a UTF-8 character
    caret += c == '\t' ? '\t' : ' ';
  }
  const std::string shown = fmt::format("error: {}\n --> {}:{}:{}\n{}\n{}^\n", text, *file->name, position.line,
                                        position.column, line, caret);
  if (all_.find(shown) != std::string::npos) return;  // of another iteration, or another call
  if (count_++ == 0) {
    first_ = std::string(text);
    first_line_ = fmt::format("{}:{}:{}: {}", *file->name, position.line, position.column, text);
  }
  all_ += shown;
  for (const std::string& note : notes) all_ += fmt::format("note: {}\n", note);
}

Status Diagnostics::status() const {
  if (empty()) return {};
  return invalid_argument(fmt::format("{}\n{}", first_, all_));
}

}  // namespace aipu::dsl
