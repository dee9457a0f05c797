// The text form of constants and value names, shared by printer and parser.
#pragma once

#include <string>
#include <string_view>

#include "graph/ir/graph.h"
#include "graph/ir/text.h"

namespace aipu::graph {

// Shortest form that reads back to the same number, always with '.', 'e', "inf" or "nan".
std::string double_text(double value);

// "%name", or %"any name".
std::string value_name(std::string_view name);
Result<std::string> read_value_name(TextReader& reader);

// "float32[2,2] {1, 2, 3, 4}", "float32[64] splat 0.5", "float32[64,3,7,7] hash 0123..", or "float32[1] bytes 0000c07f"
// where no number says it.
std::string constant_text(const Constant& constant, int64_t inline_elements);
// Also "iota", which counts up from 0 in C order: for tests.
Result<ConstantPtr> read_constant(TextReader& reader, const ConstantTable& table);

Result<TensorType> read_type(TextReader& reader);

}  // namespace aipu::graph
