#include "frontend/onnx/raw_data.h"

#include <cstdint>
#include <optional>

namespace aipu::frontend {

namespace {

using Bytes = std::span<const std::byte>;

// Numbers of onnx.proto, which never change.
constexpr uint32_t kModelGraph = 7, kGraphInitializer = 5, kTensorRawData = 9;
constexpr size_t kLeastBytes = 4096;  // a field below is copied as fast as it is kept track of
constexpr uint32_t kLengthDelimited = 2;

// One field of a message: tag and value as they are written, and the value of a length-delimited one.
struct Field {
  uint32_t number = 0, wire_type = 0;
  Bytes whole, value;
};

std::optional<uint64_t> read_varint(Bytes* bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < 10 && i < bytes->size(); ++i) {
    const auto byte = static_cast<uint8_t>((*bytes)[i]);
    value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte >= 0x80) continue;
    *bytes = bytes->subspan(i + 1);
    return value;
  }
  return std::nullopt;
}

// Takes the next field off `message`; nothing if it is damaged or a group (which ONNX does not have).
std::optional<Field> take_field(Bytes* message) {
  const Bytes start = *message;
  const auto tag = read_varint(message);
  if (!tag || *tag > UINT32_MAX || *tag >> 3 == 0) return std::nullopt;
  Field field{static_cast<uint32_t>(*tag >> 3), static_cast<uint32_t>(*tag & 7), {}, {}};
  size_t skipped = 0;
  switch (field.wire_type) {
    case 0:
      if (!read_varint(message)) return std::nullopt;
      break;
    case 1:
      skipped = 8;
      break;
    case kLengthDelimited: {
      const auto length = read_varint(message);
      if (!length || *length > message->size()) return std::nullopt;
      skipped = static_cast<size_t>(*length);
      field.value = message->first(skipped);
      break;
    }
    case 5:
      skipped = 4;
      break;
    default:
      return std::nullopt;
  }
  if (skipped > message->size()) return std::nullopt;
  *message = message->subspan(skipped);
  field.whole = start.first(start.size() - message->size());
  return field;
}

void append(std::string* out, Bytes bytes) { out->append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); }

void append_varint(std::string* out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>((value & 0x7f) | 0x80));
  out->push_back(static_cast<char>(value));
}

void append_message(std::string* out, uint32_t number, const std::string& message) {
  append_varint(out, number << 3 | kLengthDelimited);
  append_varint(out, message.size());
  *out += message;
}

// Calls visit(field) for each field, in order; false if it does or if the message is damaged.
template <typename Visit>
bool for_each_field(Bytes message, const Visit& visit) {
  while (!message.empty()) {
    const auto field = take_field(&message);
    if (!field || !visit(*field)) return false;
  }
  return true;
}

// A tensor without its raw data, which goes to `raw` if it is large.
bool split_tensor(Bytes tensor, std::string* rest, Bytes* raw) {
  int count = 0;
  return for_each_field(tensor, [&](const Field& field) {
    if (field.number != kTensorRawData) {
      append(rest, field.whole);
      return true;
    }
    if (field.wire_type != kLengthDelimited || ++count > 1) return false;
    if (field.value.size() < kLeastBytes) {
      append(rest, field.whole);
    } else {
      *raw = field.value;
      append_message(rest, kTensorRawData, {});
    }
    return true;
  });
}

bool split_graph(Bytes graph, std::string* rest, std::map<int, Bytes>* raw_data) {
  int index = 0;
  return for_each_field(graph, [&](const Field& field) {
    if (field.number != kGraphInitializer) {
      append(rest, field.whole);
      return true;
    }
    if (field.wire_type != kLengthDelimited) return false;
    std::string tensor;
    Bytes raw;
    if (field.value.size() < kLeastBytes) {
      append(rest, field.whole);
    } else {
      if (!split_tensor(field.value, &tensor, &raw)) return false;
      append_message(rest, kGraphInitializer, tensor);
      if (!raw.empty()) raw_data->emplace(index, raw);
    }
    ++index;
    return true;
  });
}

}  // namespace

SplitModel split_raw_data(Bytes model) {
  SplitModel result;
  int graphs = 0;
  const bool done = for_each_field(model, [&](const Field& field) {
    if (field.number != kModelGraph) {
      append(&result.rest, field.whole);
      return true;
    }
    std::string graph;
    if (field.wire_type != kLengthDelimited || ++graphs > 1 || !split_graph(field.value, &graph, &result.raw_data))
      return false;
    append_message(&result.rest, kModelGraph, graph);
    return true;
  });
  if (!done || result.raw_data.empty()) return {};
  return result;
}

}  // namespace aipu::frontend
