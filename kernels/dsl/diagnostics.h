// Errors in DSL sources: collected, shown with file, line, column, the source line and a caret.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace aipu::dsl {

// A source text, kept for as long as anything parsed from it lives.
struct SourceFile {
  std::shared_ptr<const std::string> name;
  std::string text;
  int first_line = 1;

  std::string_view line(int number) const;  // number counts from first_line; empty when there is none
};
using SourceFilePtr = std::shared_ptr<const SourceFile>;

SourceFilePtr make_source_file(std::string name, std::string text, int first_line);

// Both 1-based; the line is that of the file, not of the text.
struct Position {
  int line = 0;
  int column = 0;
};

// Thrown inside the front end once a diagnostic has been recorded; never leaves it.
struct Diagnosed {};

class Diagnostics {
 public:
  void error(const SourceFilePtr& file, Position position, std::string_view text,
             const std::vector<std::string>& notes = {});
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ >= kMaxErrors; }
  // All of them; the message starts with the first one's text.
  Status status() const;
  // The first one as a line: "file:line:column: text".
  const std::string& first_line() const { return first_line_; }

 private:
  static constexpr int kMaxErrors = 20;
  int count_ = 0;
  std::string first_;
  std::string first_line_;
  std::string all_;
};

}  // namespace aipu::dsl
