// ONNX -> Graph: any ONNX protobuf, opsets 1 to 28, as canonical ops with the origin of
// every node.
//
// Nothing in the file is trusted: sizes, depths, references and types are checked, and what goes wrong is one line
// naming the node. Operators that cannot be imported are collected over the whole model (sub-graphs and functions
// included) and reported together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "frontend/onnx/processing.h"
#include "graph/ir/graph.h"
#include "graph/ir/string_table.h"
#include "runtime/base/status.h"

namespace aipu::frontend {

// An input or output of the model that is no tensor. The graph has its elements, `count` tensors in a row among its
// inputs or outputs with the names NAME[0], NAME[1], ... Those of a map are its keys [K] and its values [K], those of a
// sequence of N maps with the same keys these keys [K] and the values [N, K].
struct PortList {
  enum class Kind : uint8_t { kSequence, kOptionalTensor, kOptionalSequence, kMaps, kMap };
  std::string name;
  bool is_input = false;
  Kind kind = Kind::kSequence;
  bool present = true;  // of an optional
  size_t first = 0;     // place of NAME[0]
  size_t count = 0;
};

// What a model says about itself beside what it computes.
struct ModelDescription {
  std::string text;                                           // doc_string
  std::vector<std::pair<std::string, std::string>> metadata;  // metadata_props, in their order
  std::vector<PortList> lists;
};

struct ImportOptions {
  // `--shape NAME=1x3x224x224`: extents of graph inputs; -1 keeps what the model says. A dim_param fixed here is fixed
  // everywhere.
  std::map<std::string, std::vector<int64_t>> shapes;
  // Graph inputs that become constants: what decides shapes and axes at run time can be fixed here. They are no inputs
  // of the graph then.
  std::map<std::string, graph::ConstantPtr> constant_inputs;
  // `--expose PATTERN`: values of the outermost graph that become outputs behind the model's own, in the order of its
  // nodes; `*` stands for any text. They have the graph's meaning: nothing is fused over an output. What is an output
  // already, or an input, is left as it is; a pattern that no value fits is an error.
  std::vector<std::string> exposed;
  // Nodes before inputs, each at most once, and behind outputs.
  std::vector<Preprocess> preprocess;
  std::vector<Postprocess> postprocess;
  // `--sequence-length NAME=N`: how many elements an input has that is a sequence or an optional; kAbsent: an optional
  // without a value.
  std::map<std::string, int64_t> sequence_lengths;
  // The ops that nodes may be; null: the built-in ones. What was added to the set comes before our converters:
  // "domain::Name", where the domain of ONNX's own operators is "ai.onnx".
  std::shared_ptr<const graph::OpSet> ops;
  // Where external data may live, for models imported from memory; import_onnx(path) uses the model's own folder. "" =
  // external data is an error.
  std::string external_data_folder;
  // Receives remarks about declared shapes that inference contradicts, one line each; may be null.
  std::vector<std::string>* warnings = nullptr;
  // Receives what the model says about itself; may be null.
  ModelDescription* description = nullptr;
  // Gets the strings of the model, whose constants hold their numbers; null: a model that has some is refused.
  std::shared_ptr<graph::StringTable> strings;
};

constexpr int64_t kAbsent = -1;

// Parses "NAME=1x3x224x224" ("NAME=" is a scalar) into `shapes`.
Status parse_shape_option(const std::string& text, std::map<std::string, std::vector<int64_t>>* shapes);
// Parses "NAME=3", and "NAME=none" for an optional without a value, into `lengths`.
Status parse_sequence_length_option(const std::string& text, std::map<std::string, int64_t>* lengths);

// Errors start with the path.
Result<std::unique_ptr<graph::Graph>> import_onnx(const std::string& path, const ImportOptions& options = {});
// `bytes` need not outlive the call. Errors start with `name`.
Result<std::unique_ptr<graph::Graph>> import_onnx_from_memory(std::span<const std::byte> bytes, const std::string& name,
                                                              const ImportOptions& options = {});

}  // namespace aipu::frontend
