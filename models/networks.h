// The networks of models/: each builds one ONNX model with seeded weights and a symbolic batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "models/onnx_builder.h"

namespace aipu::models {

struct Network {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<OnnxBuilder> (*build)(uint64_t seed);
  bool needs_plugin = false;  // has an operator that only a plugin of models/custom_op knows
  bool many_weights = false;  // so many that they take a while to make; another network has the same nodes and fewer
};

std::span<const Network> networks();
const Network* find_network(std::string_view name);

}  // namespace aipu::models
