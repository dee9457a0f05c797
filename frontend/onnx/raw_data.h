// The large raw_data fields of a model's initializers, found in the bytes of the file, so that protobuf need not copy
// them. Private to frontend/onnx.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

namespace aipu::frontend {

struct SplitModel {
  // The same model with these fields empty (but there). Empty text: the bytes are not what this splits, or there is
  // nothing to gain; parse them as they are.
  std::string rest;
  // By the index of the initializer in the model's graph: parts of the bytes given.
  std::map<int, std::span<const std::byte>> raw_data;
};

// Any bytes are fine. What is damaged, or says a field twice where once is usual, is left to protobuf.
SplitModel split_raw_data(std::span<const std::byte> model);

}  // namespace aipu::frontend
