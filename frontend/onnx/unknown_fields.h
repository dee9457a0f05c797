// Fields of an ONNX file that are newer than our description of it (frontend/onnx_proto). Private to frontend/onnx.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace onnx {
class ModelProto;
}

namespace aipu::frontend {

// Refuses what protobuf read past within graphs, nodes, attributes, tensors, types and functions, where it may say what
// is computed. Beside them (the model's own fields, devices, metadata) it is a warning.
Status check_unknown_fields(const onnx::ModelProto& model, std::vector<std::string>* warnings);

}  // namespace aipu::frontend
