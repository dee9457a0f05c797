// The strings that constants of strings mean by their elements, which are numbers (runtime/base/stored_type.h). It goes
// beside a graph from the importer, which gives the numbers, to the file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace aipu::graph {

class StringTable {
 public:
  StringTable() { number_of(""); }
  // Of a string, which gets the next one where it is new. "" is 0.
  int64_t number_of(std::string_view text) {
    const auto known = numbers_.find(text);
    if (known != numbers_.end()) return known->second;
    texts_.emplace_back(text);
    return numbers_.emplace(text, static_cast<int64_t>(texts_.size()) - 1).first->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }  // by their numbers

 private:
  std::vector<std::string> texts_;
  std::map<std::string, int64_t, std::less<>> numbers_;
};

}  // namespace aipu::graph
