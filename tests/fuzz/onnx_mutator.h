// Damages ONNX models: as bytes, and as messages (through protobuf reflection), where the result still parses.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace aipu::fuzz {

using Random = std::mt19937_64;

// Cuts, flips, duplicates, splices with `other` and puts huge varints.
std::string damage_bytes(const std::string& model, const std::string& other, Random& random);
// Changes fields: hostile numbers, names of other things, absent, doubled and swapped elements, messages from elsewhere
// in the model. `model` must parse.
std::string damage_fields(const std::string& model, Random& random);

}  // namespace aipu::fuzz
