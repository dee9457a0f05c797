// What the table of converters knows: what can be imported, and in which opsets a node is the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace aipu::frontend {

// The page frontend/SUPPORTED_OPS.md (`aipugb --supported-ops`), made from the table and the op records.
std::string supported_ops_page();

// The opset from which on a node of an operator of ai.onnx is what it is in `opset`; 0 where it cannot be imported. Up
// to opset 13 this is exact; later ones are told apart where converters have to.
int64_t form_since(std::string_view op, int64_t opset);

}  // namespace aipu::frontend
