#include "frontend/onnx/import.h"

#include <filesystem>

#include "frontend/one_line.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/onnx_pb.h"
#include "frontend/onnx/tensor_file.h"

namespace aipu::frontend {

namespace {

// The graph borrows its weights from `file`, whose bytes these are, if there is one.
Result<std::unique_ptr<Graph>> import_bytes(std::span<const std::byte> bytes, std::shared_ptr<const MappedFile> file,
                                            const ImportOptions& options, const std::string& folder) {
  AIPU_ASSIGN_OR_RETURN(auto model, parse_model(bytes));
  return Importer(model, std::move(file), options, folder).run();
}

template <typename T>
Result<T> with_context(Result<T> result, const std::string& where) {
  if (result.ok()) return result;
  const Status status = std::move(result).status();
  return Status(status.code(), str_cat(where, ": ", one_line(status.message())));
}

template <typename Message>
Status parse_file(const std::string& path, Message* message) {
  AIPU_ASSIGN_OR_RETURN(const auto file, MappedFile::read(path));
  const auto bytes = file.bytes();
  if (bytes.size() > (size_t{1} << 31) - 1 || !message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return invalid_model(path + ": not a serialized " + message->GetTypeName());
  }
  return {};
}

Result<ConstantPtr> copied(const onnx::TensorProto& tensor) {
  return TensorReader(nullptr, "").read(tensor);  // no owner: the bytes are copied
}

}  // namespace

Status parse_shape_option(const std::string& text, std::map<std::string, std::vector<int64_t>>* shapes) {
  const auto bad = [&] { return invalid_argument(str_cat("--shape ", text, ": expected NAME=1x3x224x224")); };
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return bad();
  std::vector<int64_t> extents;
  const std::string list = text.substr(equals + 1);
  for (size_t begin = 0; !list.empty() && begin <= list.size();) {
    const size_t end = std::min(list.find('x', begin), list.size());
    const std::string extent = list.substr(begin, end - begin);
    const bool digits =
        !extent.empty() && extent.size() < 18 && extent.find_first_not_of("0123456789") == std::string::npos;
    if (!digits && extent != "-1") return bad();
    extents.push_back(std::strtoll(extent.c_str(), nullptr, 10));
    begin = end + 1;
  }
  if (!shapes->emplace(text.substr(0, equals), std::move(extents)).second) {
    return invalid_argument(str_cat("--shape ", text, ": the shape of '", text.substr(0, equals), "' is given twice"));
  }
  return {};
}

Status parse_sequence_length_option(const std::string& text, std::map<std::string, int64_t>* lengths) {
  const size_t equals = text.rfind('=');
  const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
  const bool digits =
      !number.empty() && number.size() < 7 && number.find_first_not_of("0123456789") == std::string::npos;
  if (equals == 0 || (!digits && number != "none"))
    return invalid_argument(
        str_cat("--sequence-length ", text, ": expected NAME=3, or NAME=none for an absent optional"));
  const int64_t length = digits ? std::strtoll(number.c_str(), nullptr, 10) : kAbsent;
  if (!lengths->emplace(text.substr(0, equals), length).second)
    return invalid_argument(
        str_cat("--sequence-length ", text, ": the length of '", text.substr(0, equals), "' is given twice"));
  return {};
}

Result<std::unique_ptr<Graph>> import_onnx(const std::string& path, const ImportOptions& options) {
  AIPU_ASSIGN_OR_RETURN(auto mapped, MappedFile::read(path));
  const auto file = std::make_shared<const MappedFile>(std::move(mapped));
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  return with_context(import_bytes(file->bytes(), file, options, folder), path);
}

Result<std::unique_ptr<Graph>> import_onnx_from_memory(std::span<const std::byte> bytes, const std::string& name,
                                                       const ImportOptions& options) {
  return with_context(import_bytes(bytes, nullptr, options, options.external_data_folder), name);
}

Result<TensorFile> read_tensor_file(const std::string& path) {
  onnx::TensorProto tensor;
  AIPU_RETURN_IF_ERROR(parse_file(path, &tensor));
  AIPU_ASSIGN_OR_RETURN(auto constant, with_context(copied(tensor), path));
  return TensorFile{tensor.name(), std::move(constant)};
}

Result<ModelSignature> read_model_signature(const std::string& path) {
  AIPU_ASSIGN_OR_RETURN(const auto file, MappedFile::read(path));
  AIPU_ASSIGN_OR_RETURN(const auto parsed, with_context(parse_model(file.bytes()), path));
  const auto& model = parsed.proto;
  using Port = ModelSignature::Port;
  const auto port = [](const onnx::ValueInfoProto& info) {
    const auto& type = info.type();
    return Port{info.name(), type.has_sequence_type()   ? Port::Kind::kSequence
                             : type.has_optional_type() ? Port::Kind::kOptional
                             : type.has_tensor_type()   ? Port::Kind::kTensor
                                                        : Port::Kind::kOther};
  };
  std::set<std::string> initializers;
  for (const auto& tensor : model->graph().initializer()) initializers.insert(tensor.name());
  for (const auto& tensor : model->graph().sparse_initializer()) initializers.insert(tensor.values().name());
  ModelSignature signature;
  for (const auto& input : model->graph().input()) {
    if (!initializers.contains(input.name())) signature.inputs.push_back(port(input));
  }
  for (const auto& output : model->graph().output()) signature.outputs.push_back(port(output));
  return signature;
}

}  // namespace aipu::frontend
