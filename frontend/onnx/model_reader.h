// Bytes -> ModelProto -> Constants, with every size checked against the bytes that are there. Private to frontend/onnx.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "graph/ir/graph.h"
#include "graph/ir/string_table.h"
#include "runtime/base/file.h"
#include "runtime/base/input_file.h"
#include "runtime/base/status.h"

namespace onnx {
class ModelProto;
class SparseTensorProto;
class TensorProto;
}  // namespace onnx

namespace aipu::frontend {

constexpr int kMaxRank = 32;
// of a sparse tensor, whose dense size the file does not pay for
constexpr int64_t kMaxDensifiedBytes = int64_t{1} << 28;

// A model whose large initializers have stayed where they were.
struct ParsedModel {
  std::shared_ptr<onnx::ModelProto> proto;
  // of initializers whose own raw_data is empty
  std::map<const onnx::TensorProto*, std::span<const std::byte>> raw_data;
};

Result<ParsedModel> parse_model(std::span<const std::byte> bytes);

// Reads tensors of one model; opens each external data file once.
class TensorReader {
 public:
  // `owner` keeps the protobuf messages alive that Constants borrow from; without one they are copied.
  TensorReader(std::shared_ptr<const void> owner, std::string external_data_folder)
      : owner_(std::move(owner)), folder_(std::move(external_data_folder)) {}

  // Where strings get their numbers; without one tensors of strings are refused.
  std::shared_ptr<graph::StringTable> strings;

  // The initializers of a model are where `model` says: in the copy of the file that `owner` has, whose pages go away
  // with the last Constant that borrows from them, so that folded and packed weights do not stand beside those of the
  // file until the end. Without an owner they are copied. Large ones are hashed at once, on all CPUs.
  void take_initializers(const ParsedModel& model, std::shared_ptr<const MappedFile> owner);

  // Without a copy where the bytes are there. The message names the tensor.
  Result<graph::ConstantPtr> read(const onnx::TensorProto& tensor);
  // Dense.
  Result<graph::ConstantPtr> read(const onnx::SparseTensorProto& tensor);

 private:
  Result<graph::ConstantPtr> read_strings(const onnx::TensorProto& tensor);
  Result<graph::ConstantPtr> read_unnamed(const onnx::TensorProto& tensor);
  Result<graph::ConstantPtr> read_external(const onnx::TensorProto& tensor, DType dtype, std::vector<int64_t> shape,
                                           int64_t byte_count);

  std::shared_ptr<const void> owner_;
  std::string folder_;
  // A file of external data, and what is in memory of it: tensors may share bytes.
  struct ExternalFile {
    InputFile file;
    std::shared_ptr<std::atomic<uint64_t>> bytes_held = std::make_shared<std::atomic<uint64_t>>(0);
    std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<const std::byte>> parts = {};  // by offset and length
    Result<std::shared_ptr<const std::byte>> read(uint64_t offset, uint64_t length);
  };
  std::map<std::string, ExternalFile> external_files_;
  std::map<const onnx::TensorProto*, std::span<const std::byte>> raw_data_;
  std::shared_ptr<const MappedFile> raw_owner_;
  std::map<const onnx::TensorProto*, Result<graph::ConstantPtr>> ready_;  // of large initializers
};

}  // namespace aipu::frontend
