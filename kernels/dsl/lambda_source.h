// Finding lambdas in Python text that need not be whole statements.
#pragma once

#include <string_view>
#include <vector>

namespace aipu::dsl {

struct LambdaText {
  size_t begin = 0, end = 0;  // bytes of the text, from "lambda" to the end of its body
  int line = 0;               // of `begin`, 0-based in the text
  int column = 0;             // 1-based
};

// All of them, in order; one within another counts too.
std::vector<LambdaText> find_lambdas(std::string_view text);

}  // namespace aipu::dsl
