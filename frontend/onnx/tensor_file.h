// The files of ONNX backend tests: input_0.pb, output_0.pb, ... each a serialized TensorProto (SequenceProto and
// OptionalProto are refused: the ports of a model say where they occur).
#pragma once

#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/base/status.h"

namespace aipu::frontend {

struct TensorFile {
  std::string name;
  graph::ConstantPtr tensor;
};

// A file with one TensorProto. String and other element types without a DType are kUnsupported.
Result<TensorFile> read_tensor_file(const std::string& path);
struct ModelSignature {
  struct Port {
    std::string name;
    enum class Kind { kTensor, kSequence, kOptional, kOther } kind = Kind::kTensor;
  };
  std::vector<Port> inputs;  // without initializers
  std::vector<Port> outputs;
};
// The inputs and outputs of a model file in their order, whether or not the model can be imported.
Result<ModelSignature> read_model_signature(const std::string& path);

}  // namespace aipu::frontend
