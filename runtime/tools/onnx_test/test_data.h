// The files of ONNX backend tests: which cases a folder has, and tensors as protobuf.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/tools/npy.h"

namespace aipu::tools {

// One model with the data to run it on.
struct TestCase {
  std::string name;
  std::string model;                   // model.onnx
  std::vector<std::string> data_sets;  // folders with input_I.pb and output_I.pb
  std::string light_output;            // the layout of `light` models: the one expected output; the input is made up
};

// A folder with model.onnx is a case; one with light_NAME.onnx files has a case for each; other folders are searched, a
// few levels deep. Sorted by name.
Result<std::vector<TestCase>> find_cases(const std::string& folder);

// What a model's graph says about its interface.
struct GraphPort {
  std::string name;
  bool is_tensor = true;       // not a sequence, optional, map
  std::vector<int64_t> shape;  // symbolic extents are 1
  DType dtype = DType::kVoid;
};
struct GraphPorts {
  std::vector<GraphPort> inputs;  // without initializers
  std::vector<GraphPort> outputs;
};
Result<GraphPorts> read_ports(const std::string& model);

// A serialized TensorProto. Types that this project has no name for are kUnsupported.
Result<Array> read_tensor_pb(const std::string& path);

}  // namespace aipu::tools
