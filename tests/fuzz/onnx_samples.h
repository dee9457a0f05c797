// Small valid models that between them have all that a model can hold: control flow, functions, quantisation, symbols,
// sparse and typed tensors. To be damaged.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace aipu::fuzz {

// Names and serialized models.
std::vector<std::pair<std::string, std::string>> sample_models();

}  // namespace aipu::fuzz
