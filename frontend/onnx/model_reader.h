// Bytes -> ModelProto -> Constants, with every size checked against the bytes that are there. Private to frontend/onnx.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "graph/ir/graph.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace onnx {
class ModelProto;
class SparseTensorProto;
class TensorProto;
}  // namespace onnx

namespace aipu::frontend {

constexpr int kMaxRank = 32;
constexpr int64_t kMaxDensifiedBytes = int64_t{1} << 28;  // of a sparse tensor, whose dense size the file does not pay for

Result<std::shared_ptr<onnx::ModelProto>> parse_model(std::span<const std::byte> bytes);

// Reads tensors of one model; maps each external data file once.
class TensorReader {
 public:
  // `owner` keeps the protobuf messages alive that Constants borrow from.
  TensorReader(std::shared_ptr<const void> owner, std::string external_data_folder)
      : owner_(std::move(owner)), folder_(std::move(external_data_folder)) {}

  // Takes the raw bytes of the graph's initializers out of the message: each goes away with the last Constant that borrows from it, so that
  // folded and packed weights do not stand beside those of the file until the end.
  void take_initializers(onnx::ModelProto& model);

  // Without a copy where the bytes are there and aligned. The message names the tensor.
  Result<graph::ConstantPtr> read(const onnx::TensorProto& tensor);
  // Dense.
  Result<graph::ConstantPtr> read(const onnx::SparseTensorProto& tensor);

 private:
  Result<graph::ConstantPtr> read_unnamed(const onnx::TensorProto& tensor);
  Result<graph::ConstantPtr> read_external(const onnx::TensorProto& tensor, DType dtype, std::vector<int64_t> shape, int64_t byte_count);

  std::shared_ptr<const void> owner_;
  std::string folder_;
  std::map<std::string, std::shared_ptr<MappedFile>> mapped_;
  std::map<const onnx::TensorProto*, std::shared_ptr<const std::string>> taken_;
};

}  // namespace aipu::frontend
