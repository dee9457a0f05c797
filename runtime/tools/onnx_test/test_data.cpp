#include "runtime/tools/onnx_test/test_data.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <set>

#include <aipu_onnx/onnx.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "runtime/base/file.h"
#include "runtime/base/stored_type.h"
#include "runtime/tools/npy_strings.h"

namespace aipu::tools {
namespace {

constexpr int kMaxDepth = 4;

std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  DIR* handle = ::opendir(folder.c_str());
  if (handle == nullptr) return names;
  while (const dirent* entry = ::readdir(handle)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  ::closedir(handle);
  std::sort(names.begin(), names.end());
  return names;
}

bool is_folder(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}
bool is_file(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// input_2.pb before input_10.pb.
bool by_number(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

std::string last_part(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

void collect(const std::string& folder, int depth, std::vector<TestCase>* cases) {
  const auto names = entries(folder);
  if (is_file(folder + "/model.onnx")) {
    TestCase test{last_part(folder), folder + "/model.onnx", {}, {}};
    for (const std::string& name : names) {
      if (name.rfind("test_data_set_", 0) == 0 && is_folder(folder + "/" + name))
        test.data_sets.push_back(folder + "/" + name);
    }
    std::sort(test.data_sets.begin(), test.data_sets.end(), by_number);
    cases->push_back(std::move(test));
    return;
  }
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    const std::string stem = name.size() > 5 ? name.substr(0, name.size() - 5) : std::string();
    if (name.rfind("light_", 0) == 0 && name.size() > 11 && name.substr(name.size() - 5) == ".onnx" &&
        is_file(folder + "/" + stem + "_output_0.pb")) {
      cases->push_back({stem, path, {}, folder + "/" + stem + "_output_0.pb"});
    } else if (depth < kMaxDepth && is_folder(path)) {
      collect(path, depth + 1, cases);
    }
  }
}

template <typename Message>
Status parse(const std::string& path, Message* message) {
  AIPU_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::read(path));
  google::protobuf::io::ArrayInputStream stream(file.bytes().data(),
                                                static_cast<int>(std::min<size_t>(file.bytes().size(), INT32_MAX)));
  google::protobuf::io::CodedInputStream coded(&stream);
  if (!message->ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
    return invalid_model(str_cat(path, ": not a valid protobuf"));
  return {};
}

GraphPort port_of(const onnx::ValueInfoProto& info) {
  GraphPort port;
  port.name = info.name();
  port.is_tensor = !info.has_type() || info.type().has_tensor_type();
  if (info.has_type() && info.type().has_tensor_type()) {
    port.dtype = dtype_from_onnx(info.type().tensor_type().elem_type()).value_or(DType::kVoid);
    for (const auto& dim : info.type().tensor_type().shape().dim())
      port.shape.push_back(dim.has_dim_value() ? dim.dim_value() : 1);
  }
  return port;
}

template <typename Element, typename Field>
void append(const Field& field, std::vector<std::byte>* data) {
  for (const auto value : field) {
    const auto element = static_cast<Element>(value);
    const auto* bytes = reinterpret_cast<const std::byte*>(&element);
    data->insert(data->end(), bytes, bytes + sizeof element);
  }
}

Result<Array> read_strings(const onnx::TensorProto& tensor, const std::string& path) {
  std::vector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  AIPU_ASSIGN_OR_RETURN(const int64_t count, element_count(shape));
  if (count != tensor.string_data_size())
    return invalid_model(
        str_cat(path, ": the shape ", shape_text(shape), " does not fit ", tensor.string_data_size(), " strings"));
  return array_of(std::move(shape), {tensor.string_data().begin(), tensor.string_data().end()});
}

}  // namespace

Result<std::vector<TestCase>> find_cases(const std::string& folder) {
  if (!is_folder(folder)) return not_found(str_cat("'", folder, "' is not a folder"));
  std::vector<TestCase> cases;
  collect(folder, 0, &cases);
  if (cases.empty()) return not_found(str_cat("'", folder, "' has no model.onnx and no light_*.onnx in it"));
  return cases;
}

Result<GraphPorts> read_ports(const std::string& model_path) {
  onnx::ModelProto model;
  AIPU_RETURN_IF_ERROR(parse(model_path, &model));
  std::set<std::string> initializers;
  for (const auto& tensor : model.graph().initializer()) initializers.insert(tensor.name());
  for (const auto& tensor : model.graph().sparse_initializer()) initializers.insert(tensor.values().name());
  GraphPorts ports;
  for (const auto& input : model.graph().input()) {
    if (initializers.count(input.name()) == 0) ports.inputs.push_back(port_of(input));
  }
  for (const auto& output : model.graph().output()) ports.outputs.push_back(port_of(output));
  return ports;
}

Result<Array> read_tensor_pb(const std::string& path) {
  onnx::TensorProto tensor;
  AIPU_RETURN_IF_ERROR(parse(path, &tensor));
  const auto dtype = dtype_from_onnx(tensor.data_type());
  if (dtype == DType::kString) return read_strings(tensor, path);
  if (!dtype) {
    return unsupported(
        str_cat("tensors of type ",
                onnx::TensorProto::DataType_IsValid(tensor.data_type())
                    ? onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(tensor.data_type()))
                    : std::to_string(tensor.data_type())));
  }
  Array array;
  array.dtype = *dtype;
  array.shape.assign(tensor.dims().begin(), tensor.dims().end());
  if (tensor.has_raw_data()) {
    const auto bytes = std::as_bytes(std::span(tensor.raw_data()));
    array.data.assign(bytes.begin(), bytes.end());
  } else {
    switch (*dtype) {
      case DType::kF32:
        append<float>(tensor.float_data(), &array.data);
        break;
      case DType::kF64:
        append<double>(tensor.double_data(), &array.data);
        break;
      case DType::kI64:
        append<int64_t>(tensor.int64_data(), &array.data);
        break;
      case DType::kU64:
        append<uint64_t>(tensor.uint64_data(), &array.data);
        break;
      case DType::kU32:
        append<uint32_t>(tensor.uint64_data(), &array.data);
        break;
      case DType::kI32:
        append<int32_t>(tensor.int32_data(), &array.data);
        break;
      case DType::kI16:
      case DType::kU16:
      case DType::kF16:
      case DType::kBF16:
        append<uint16_t>(tensor.int32_data(), &array.data);
        break;
      case DType::kC64:
        append<float>(tensor.float_data(), &array.data);
        break;
      case DType::kF6E2M3:
      case DType::kF6E3M2:  // the only ones that this field does not pack
        append<uint8_t>(tensor.int32_data(), &array.data);
        array.data = pack(*dtype, array.data);
        break;
      default:
        append<uint8_t>(tensor.int32_data(), &array.data);
        break;  // what has 8 bits, or is packed to bytes
    }
  }
  AIPU_ASSIGN_OR_RETURN(const int64_t count, element_count(array.shape));
  if (packed_bytes(*dtype, count) != static_cast<int64_t>(array.data.size())) {
    return invalid_model(str_cat(path, ": the shape ", shape_text(array.shape), " does not fit ", array.data.size(),
                                 " bytes of ", dtype_name(*dtype)));
  }
  return array;
}

}  // namespace aipu::tools
