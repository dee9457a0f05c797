// What products multiply, as command lines and files say it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/passes/pass.h"
#include "runtime/base/status.h"

namespace aipu::gbuilder {

// Of a model that is quantised, as it comes.
inline constexpr std::string_view kInt8 = "int8";

struct Precision {
  std::string_view name;
  DType dtype;
};

// int8 is no precision that products of floats can be given: it takes scales from data.
inline constexpr Precision kPrecisions[] = {{"fp32", DType::kF32}, {"bf16", DType::kBF16}, {"fp16", DType::kF16}};

// "" is fp32.
Result<DType> parse_precision(std::string_view name);

// Of a file whose lines are PATTERN PRECISION: patterns of node names in which * stands for any text, and a name
// that parse_precision() takes.
// Empty lines and those that begin with # say nothing. Errors name the file and the line.
Result<std::vector<graph::PrecisionRule>> read_precision_file(const std::string& path);

// The first pattern that fits no node of the graphs or of those within; "" if there is none.
std::string unused_rule(std::span<const graph::Graph* const> graphs, const std::vector<graph::PrecisionRule>& rules);

// Whether some product multiplies 8-bit integers.
bool has_int8_products(const graph::Graph& graph);

}  // namespace aipu::gbuilder
