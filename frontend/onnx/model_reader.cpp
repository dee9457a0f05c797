#include "frontend/onnx/model_reader.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>

#include "frontend/onnx/onnx_pb.h"
#include "frontend/onnx/raw_data.h"
#include "runtime/base/checked_math.h"
#include "runtime/base/parallel.h"
#include "runtime/base/stored_type.h"

namespace aipu::frontend {

using graph::Constant;
using graph::ConstantPtr;

Result<ParsedModel> parse_model(std::span<const std::byte> bytes) {
  if (bytes.size() > static_cast<size_t>(INT_MAX)) {
    return out_of_range(str_cat("the model has ", bytes.size(),
                                " bytes, protobuf files end at 2147483647; store the weights as external data"));
  }
  const SplitModel split = split_raw_data(bytes);
  const std::span<const std::byte> text = split.rest.empty() ? bytes : std::as_bytes(std::span(split.rest));
  ParsedModel model{std::make_shared<onnx::ModelProto>(), {}};
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(text.data()),
                                                static_cast<int>(text.size()));
  stream.SetRecursionLimit(100);
  if (!model.proto->ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    return invalid_model("not an ONNX model: the protobuf is damaged or truncated");
  }
  // Any byte string made of unknown fields parses; a model has at least a graph.
  if (!model.proto->has_graph()) return invalid_model("not an ONNX model: there is no graph in it");
  for (const auto& [index, raw] : split.raw_data) model.raw_data.emplace(&model.proto->graph().initializer(index), raw);
  return model;
}

namespace {

Result<int64_t> element_count_of(const google::protobuf::RepeatedField<int64_t>& dims) {
  if (dims.size() > kMaxRank) return out_of_range(str_cat("has rank ", dims.size(), ", the limit is ", kMaxRank));
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim < 0) return invalid_model(str_cat("has the negative extent ", dim));
  }
  // A zero extent makes the product 0 whatever the others say.
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return int64_t{0};
  for (const int64_t dim : dims) {
    const auto product = checked_mul(count, dim);
    if (!product) return out_of_range("has a size beyond 64 bits");
    count = *product;
  }
  return count;
}

template <typename To, typename From>
Result<std::vector<std::byte>> narrow(const From& field, int64_t count, const char* field_name) {
  if (field.size() != count) {
    return invalid_model(str_cat("has ", field.size(), " elements in ", field_name, ", its shape needs ", count));
  }
  std::vector<std::byte> bytes(static_cast<size_t>(count) * sizeof(To));
  auto* out = bytes.data();
  for (const auto element : field) {
    const auto narrowed = static_cast<To>(element);
    std::memcpy(out, &narrowed, sizeof(To));
    out += sizeof(To);
  }
  return bytes;
}

// Of a stored type, by bit pattern. Packed bytes are one element of the field each, but those of 6 bits are not packed.
Result<std::vector<std::byte>> read_codes(const onnx::TensorProto& tensor, DType dtype, int64_t count) {
  const bool is_list_of_bytes = is_packed(dtype) && 8 % dtype_bits(dtype) == 0;
  const int64_t size = is_list_of_bytes ? packed_bytes(dtype, count).value_or(0) : count;
  AIPU_ASSIGN_OR_RETURN(auto bytes, narrow<uint8_t>(tensor.int32_data(), size, "int32_data"));
  return is_list_of_bytes ? unpack(dtype, bytes, count) : bytes;
}

Result<std::vector<std::byte>> read_typed_fields(const onnx::TensorProto& tensor, DType dtype, int64_t count) {
  switch (dtype) {
    case DType::kF32:
      return narrow<float>(tensor.float_data(), count, "float_data");
    case DType::kF64:
      return narrow<double>(tensor.double_data(), count, "double_data");
    case DType::kI64:
      return narrow<int64_t>(tensor.int64_data(), count, "int64_data");
    case DType::kU64:
      return narrow<uint64_t>(tensor.uint64_data(), count, "uint64_data");
    case DType::kU32:
      return narrow<uint32_t>(tensor.uint64_data(), count, "uint64_data");
    case DType::kI32:
      return narrow<int32_t>(tensor.int32_data(), count, "int32_data");
    case DType::kI16:
      return narrow<int16_t>(tensor.int32_data(), count, "int32_data");
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16:
      return narrow<uint16_t>(tensor.int32_data(), count, "int32_data");  // the 16-bit floats by bit pattern
    case DType::kI8:
      return narrow<int8_t>(tensor.int32_data(), count, "int32_data");
    case DType::kU8:
      return narrow<uint8_t>(tensor.int32_data(), count, "int32_data");
    case DType::kBool: {
      auto bytes = narrow<uint8_t>(tensor.int32_data(), count, "int32_data");
      if (bytes.ok()) {
        for (auto& byte : *bytes) byte = byte != std::byte{0} ? std::byte{1} : std::byte{0};
      }
      return bytes;
    }
    case DType::kC64:
      return unsupported("keeps complex numbers as a list of floats; raw data is expected");
    case DType::kString:
    case DType::kVoid:
      return unsupported(str_cat("has the element type ", dtype_name(dtype)));
    default:
      return read_codes(tensor, dtype, count);
  }
}

bool is_clean_bool(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0} || b == std::byte{1}; });
}

ConstantPtr copy_bytes(DType dtype, std::vector<int64_t> shape, std::span<const std::byte> bytes) {
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  if (dtype == DType::kBool) {
    for (auto& byte : copy) byte = byte != std::byte{0} ? std::byte{1} : std::byte{0};
  }
  return Constant::create(dtype, std::move(shape), std::move(copy));
}

// Borrows where bools are 0 or 1 and elements are not packed; copies otherwise.
ConstantPtr wrap_bytes(DType dtype, std::vector<int64_t> shape, std::span<const std::byte> bytes,
                       std::shared_ptr<const void> owner) {
  if (is_packed(dtype)) {
    const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    return Constant::create(dtype, std::move(shape), unpack(dtype, bytes, count));
  }
  if ((dtype == DType::kBool && !is_clean_bool(bytes)) || owner == nullptr) {
    return copy_bytes(dtype, std::move(shape), bytes);
  }
  return Constant::borrow(dtype, std::move(shape), bytes, std::move(owner));
}

// Owns a part of a file's copy, which no other Constant shares: its pages need not be resident any more when the last
// owner is gone.
std::shared_ptr<const void> part_of(const std::shared_ptr<const MappedFile>& file, std::span<const std::byte> bytes) {
  if (file == nullptr) return nullptr;
  return std::shared_ptr<const void>(bytes.data(), [file, bytes](const void*) { file->release(bytes); });
}

std::optional<int64_t> parse_size(const std::string& text) {
  if (text.empty() || text.size() > 18 ||
      !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return std::strtoll(text.c_str(), nullptr, 10);
}

}  // namespace

void TensorReader::take_initializers(const ParsedModel& model, std::shared_ptr<const MappedFile> owner) {
  constexpr size_t kLeastBytes = size_t{1} << 16;
  raw_data_ = model.raw_data;
  raw_owner_ = std::move(owner);
  std::vector<const graph::Constant*> large;
  for (const onnx::TensorProto& tensor : model.proto->graph().initializer()) {
    const bool external = tensor.data_location() == onnx::TensorProto::EXTERNAL;
    if (!external && !raw_data_.contains(&tensor)) continue;
    const auto [entry, is_new] = ready_.emplace(&tensor, read(tensor));
    if (entry->second.ok() && (*entry->second)->byte_count() >= kLeastBytes) large.push_back(entry->second->get());
  }
  parallel_for(large.size(), 0, [&](size_t i) { large[i]->hash(); });
}

Result<ConstantPtr> TensorReader::read(const onnx::TensorProto& tensor) {
  if (const auto it = ready_.find(&tensor); it != ready_.end()) return it->second;
  auto constant = read_unnamed(tensor);
  if (!constant.ok())
    return Status(constant.status().code(), str_cat("tensor '", tensor.name(), "' ", constant.status().message()));
  return constant;
}

Result<ConstantPtr> TensorReader::read_strings(const onnx::TensorProto& tensor) {
  AIPU_ASSIGN_OR_RETURN(const int64_t count, element_count_of(tensor.dims()));
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL || tensor.has_raw_data())
    return invalid_model("keeps strings as raw data, which have no meaning there");
  if (tensor.string_data_size() != count)
    return invalid_model(str_cat("has ", tensor.string_data_size(), " strings, its shape needs ", count));
  std::vector<int64_t> numbers;
  for (const std::string& text : tensor.string_data()) numbers.push_back(strings->number_of(text));
  return Constant::of<int64_t>(DType::kString, {tensor.dims().begin(), tensor.dims().end()}, numbers);
}

Result<ConstantPtr> TensorReader::read_unnamed(const onnx::TensorProto& tensor) {
  const auto dtype = dtype_from_onnx(tensor.data_type());
  if (dtype == DType::kString && strings != nullptr) return read_strings(tensor);
  if (!dtype || *dtype == DType::kVoid || *dtype == DType::kString) {
    return unsupported(str_cat("has the element type ",
                               dtype == DType::kString ? "string" : str_cat("number ", tensor.data_type()),
                               ", which tensors here cannot have"));
  }
  if (tensor.has_segment()) return unsupported("is stored in segments");
  AIPU_ASSIGN_OR_RETURN(const int64_t count, element_count_of(tensor.dims()));
  const auto byte_count = packed_bytes(*dtype, count);
  if (!byte_count) return out_of_range("has a size beyond 64 bits");
  std::vector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());

  if (tensor.data_location() == onnx::TensorProto::EXTERNAL)
    return read_external(tensor, *dtype, std::move(shape), *byte_count);
  const auto outside = raw_data_.find(&tensor);
  if (outside != raw_data_.end() || tensor.has_raw_data()) {
    const auto raw = outside != raw_data_.end() ? outside->second : std::as_bytes(std::span(tensor.raw_data()));
    if (static_cast<int64_t>(raw.size()) != *byte_count) {
      return invalid_model(str_cat("has ", raw.size(), " bytes of data, its shape and type need ", *byte_count));
    }
    return wrap_bytes(*dtype, std::move(shape), raw, outside != raw_data_.end() ? part_of(raw_owner_, raw) : owner_);
  }
  AIPU_ASSIGN_OR_RETURN(auto bytes, read_typed_fields(tensor, *dtype, count));
  return Constant::create(*dtype, std::move(shape), std::move(bytes));
}

Result<ConstantPtr> TensorReader::read_external(const onnx::TensorProto& tensor, DType dtype,
                                                std::vector<int64_t> shape, int64_t byte_count) {
  if (folder_.empty()) return invalid_model("keeps its data in another file, and this model has no folder");
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset" || entry.key() == "length") {
      const auto number = parse_size(entry.value());
      if (!number)
        return invalid_model(
            str_cat("has the external data ", entry.key(), " '", entry.value(), "', which is not a number of bytes"));
      (entry.key() == "offset" ? offset : length.emplace()) = *number;
    }
  }
  namespace fs = std::filesystem;
  const fs::path relative(location);
  const bool climbs = std::any_of(relative.begin(), relative.end(), [](const fs::path& part) { return part == ".."; });
  if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute() || climbs) {
    return invalid_model(
        str_cat("has the external data location '", location, "'; it must be a path below the model's folder"));
  }
  // Symbolic links are resolved before the check, so that they do not lead out of the folder either.
  std::error_code error;
  const fs::path root = fs::canonical(folder_, error);
  if (error) return io_error(str_cat("needs the folder '", folder_, "': ", error.message()));
  const fs::path file = fs::canonical(root / relative, error);
  if (error)
    return io_error(
        str_cat("needs the external data file '", (fs::path(folder_) / relative).string(), "': ", error.message()));
  if (std::mismatch(root.begin(), root.end(), file.begin(), file.end()).first != root.end()) {
    return invalid_model(
        str_cat("has the external data location '", location, "', which leads out of the model's folder"));
  }
  if (!fs::is_regular_file(file, error))
    return io_error(str_cat("needs the external data file '", location, "', which is not a regular file"));

  auto external = external_files_.find(file.string());
  if (external == external_files_.end()) {
    AIPU_ASSIGN_OR_RETURN(auto opened, InputFile::open(file.string()));
    external = external_files_.emplace(file.string(), ExternalFile{std::move(opened)}).first;
  }
  const int64_t available = static_cast<int64_t>(external->second.file.size());
  if (length.value_or(byte_count) != byte_count) {
    return invalid_model(str_cat("has ", *length, " bytes of external data, its shape and type need ", byte_count));
  }
  if (offset > available || byte_count > available - offset) {
    return invalid_model(
        str_cat("needs bytes ", offset, " to ", offset + byte_count, " of '", location, "', which has ", available));
  }
  AIPU_ASSIGN_OR_RETURN(const auto bytes,
                        external->second.read(static_cast<uint64_t>(offset), static_cast<uint64_t>(byte_count)));
  return wrap_bytes(dtype, std::move(shape), {bytes.get(), static_cast<size_t>(byte_count)}, bytes);
}

// The same bytes are read once for all who hold them. Ranges that merely overlap are read again, which a small file
// could ask for without end.
Result<std::shared_ptr<const std::byte>> TensorReader::ExternalFile::read(uint64_t offset, uint64_t length) {
  constexpr uint64_t kMostCopies = 4;
  auto& part = parts[{offset, length}];
  if (auto known = part.lock()) return known;
  if (*bytes_held + length > kMostCopies * file.size())
    return out_of_range(str_cat("overlaps other tensors in '", file.path(), "' too much: they take more than ",
                                kMostCopies, " times the bytes of the file"));
  std::unique_ptr<std::byte[]> bytes(new std::byte[static_cast<size_t>(length)]);
  AIPU_RETURN_IF_ERROR(file.read_at(offset, {bytes.get(), static_cast<size_t>(length)}));
  *bytes_held += length;
  const std::shared_ptr<const std::byte> result(bytes.release(), [held = bytes_held, length](const std::byte* memory) {
    delete[] memory;
    *held -= length;
  });
  part = result;
  return result;
}

Result<ConstantPtr> TensorReader::read(const onnx::SparseTensorProto& sparse) {
  const std::string where = str_cat("sparse tensor '", sparse.values().name(), "' ");
  AIPU_ASSIGN_OR_RETURN(const auto values, read(sparse.values()));
  AIPU_ASSIGN_OR_RETURN(const auto indices, read(sparse.indices()));
  auto dense_count = element_count_of(sparse.dims());
  if (!dense_count.ok()) return Status(dense_count.status().code(), where + dense_count.status().message());
  const auto dense_bytes = checked_mul(*dense_count, static_cast<int64_t>(dtype_bytes(values->dtype())));
  if (!dense_bytes || *dense_bytes > kMaxDensifiedBytes) {
    return out_of_range(str_cat(where, "is more than ", kMaxDensifiedBytes, " bytes when dense"));
  }
  const int64_t rank = sparse.dims_size();
  const int64_t stored = values->element_count();
  const bool linear = indices->shape().size() == 1 && indices->element_count() == stored;
  const bool coordinates = indices->shape().size() == 2 && indices->shape()[0] == stored && indices->shape()[1] == rank;
  if (values->shape().size() != 1 || indices->dtype() != DType::kI64 || !(linear || coordinates)) {
    return invalid_model(str_cat(where, "needs values [N] and int64 indices [N] or [N,", rank, "]"));
  }
  const size_t size = dtype_bytes(values->dtype());
  std::vector<std::byte> bytes(static_cast<size_t>(*dense_bytes));
  const auto positions = indices->to_int64s();
  for (int64_t i = 0; i < stored; ++i) {
    int64_t position = 0;
    if (linear) {
      position = positions[static_cast<size_t>(i)];
    } else {
      for (int64_t axis = 0; axis < rank; ++axis) {
        const int64_t coordinate = positions[static_cast<size_t>(i * rank + axis)];
        if (coordinate < 0 || coordinate >= sparse.dims(static_cast<int>(axis))) {
          return invalid_model(str_cat(where, "has the index ", coordinate, " in an axis of extent ",
                                       sparse.dims(static_cast<int>(axis))));
        }
        position = position * sparse.dims(static_cast<int>(axis)) + coordinate;
      }
    }
    if (position < 0 || position >= *dense_count)
      return invalid_model(str_cat(where, "has the index ", position, " of ", *dense_count, " elements"));
    std::memcpy(bytes.data() + static_cast<size_t>(position) * size,
                values->bytes().data() + static_cast<size_t>(i) * size, size);
  }
  return Constant::create(values->dtype(), {sparse.dims().begin(), sparse.dims().end()}, std::move(bytes));
}

}  // namespace aipu::frontend
