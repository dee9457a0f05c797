#include "tests/fuzz/onnx_mutator.h"

#include <aipu_onnx/onnx.pb.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace aipu::fuzz {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// [0, count)
size_t below(Random& random, size_t count) { return count == 0 ? 0 : random() % count; }

int64_t hostile_int(Random& random) {
  static constexpr std::array<int64_t, 26> kInts = {
      0,          -1,        1,         2,         3,         4,          5,          7,          8,
      9,          16,        33,        64,        65535,     1000000007, 2147483647, 2147483648, -2147483648,
      4294967296, 1LL << 40, 1LL << 62, INT64_MAX, INT64_MIN, -2,         -3,         100};
  return kInts[below(random, kInts.size())];
}

double hostile_float(Random& random) {
  static const std::array<double, 8> kFloats = {0.0, -1.0, 0.5, 1e30, -1e30, NAN, INFINITY, -INFINITY};
  return kFloats[below(random, kFloats.size())];
}

struct Place {
  Message* message;
  int depth;
};

void collect(Message* message, int depth, std::vector<Place>* places, std::vector<std::string>* texts) {
  places->push_back({message, depth});
  const Reflection* reflection = message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (field->is_repeated()) {
        for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
          collect(reflection->MutableRepeatedMessage(message, field, i), depth + 1, places, texts);
        }
      } else {
        collect(reflection->MutableMessage(message, field), depth + 1, places, texts);
      }
    } else if (field->type() == FieldDescriptor::TYPE_STRING) {
      if (field->is_repeated()) {
        for (int i = 0; i < reflection->FieldSize(*message, field); ++i)
          texts->push_back(reflection->GetRepeatedString(*message, field, i));
      } else {
        texts->push_back(reflection->GetString(*message, field));
      }
    }
  }
}

std::string hostile_text(const std::vector<std::string>& texts, Random& random) {
  switch (below(random, 8)) {
    case 0:
      return "";
    case 1:
      return "two\nlines";
    case 2:
      return std::string("nul\0\xff\xfe", 6);
    default:
      return texts.empty() ? "x" : texts[below(random, texts.size())];
  }
}

// One scalar element, `index` < 0 for a singular field.
void change_scalar(Message* message, const FieldDescriptor* field, int index, const std::vector<std::string>& texts,
                   Random& random) {
  const Reflection* r = message->GetReflection();
  const bool repeated = index >= 0;
  const int64_t number = hostile_int(random);
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      repeated ? r->SetRepeatedInt32(message, field, index, static_cast<int32_t>(number))
               : r->SetInt32(message, field, static_cast<int32_t>(number));
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      repeated ? r->SetRepeatedInt64(message, field, index, number) : r->SetInt64(message, field, number);
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      repeated ? r->SetRepeatedUInt64(message, field, index, static_cast<uint64_t>(number))
               : r->SetUInt64(message, field, static_cast<uint64_t>(number));
      break;
    case FieldDescriptor::CPPTYPE_FLOAT: {
      const auto value = static_cast<float>(hostile_float(random));
      repeated ? r->SetRepeatedFloat(message, field, index, value) : r->SetFloat(message, field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      const double value = hostile_float(random);
      repeated ? r->SetRepeatedDouble(message, field, index, value) : r->SetDouble(message, field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* values = field->enum_type();
      if (!repeated)
        r->SetEnumValue(
            message, field,
            values->value(static_cast<int>(below(random, static_cast<size_t>(values->value_count()))))->number());
      break;
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string value = repeated ? r->GetRepeatedString(*message, field, index) : r->GetString(*message, field);
      if (field->type() == FieldDescriptor::TYPE_BYTES && value.size() >= 8) {
        // Numbers in tensors: shapes, axes, indices.
        const int64_t element = hostile_int(random);
        const size_t at = below(random, value.size() / 8) * 8;
        for (size_t i = 0; i < 8; ++i) value[at + i] = static_cast<char>(static_cast<uint64_t>(element) >> (8 * i));
      } else {
        value = hostile_text(texts, random);
      }
      repeated ? r->SetRepeatedString(message, field, index, value) : r->SetString(message, field, value);
      break;
    }
    default:
      break;
  }
}

void add_element(Message* message, const FieldDescriptor* field, const std::vector<std::string>& texts,
                 Random& random) {
  const Reflection* r = message->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      r->AddInt32(message, field, 0);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      r->AddInt64(message, field, 0);
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      r->AddUInt64(message, field, 0);
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      r->AddFloat(message, field, 0);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      r->AddDouble(message, field, 0);
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      r->AddString(message, field, "");
      break;
    default:
      return;
  }
  change_scalar(message, field, r->FieldSize(*message, field) - 1, texts, random);
}

void change_message(Message* message, const std::vector<Place>& places, int depth,
                    const std::vector<std::string>& texts, Random& random) {
  const Reflection* r = message->GetReflection();
  std::vector<const FieldDescriptor*> present;
  r->ListFields(*message, &present);
  const Descriptor* type = message->GetDescriptor();
  const bool any_field = present.empty() || below(random, 6) == 0;
  const FieldDescriptor* field =
      any_field ? type->field(static_cast<int>(below(random, static_cast<size_t>(type->field_count()))))
                : present[below(random, present.size())];
  // A message of the same type from elsewhere: nodes become copies of others, attributes of other kinds, sub-graphs
  // those of others.
  const auto donor = [&](const Descriptor* wanted) -> const Message* {
    std::vector<const Message*> found;
    for (const Place& place : places) {
      if (place.message->GetDescriptor() == wanted && place.depth > depth) found.push_back(place.message);
    }
    return found.empty() ? nullptr : found[below(random, found.size())];
  };
  if (!field->is_repeated()) {
    if (below(random, 8) == 0) return r->ClearField(message, field);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return change_scalar(message, field, -1, texts, random);
    if (const Message* source = donor(field->message_type())) {
      const std::unique_ptr<Message> copy(source->New());
      copy->CopyFrom(*source);
      r->MutableMessage(message, field)->CopyFrom(*copy);
    } else {
      r->MutableMessage(message, field)->Clear();
    }
    return;
  }
  const int count = r->FieldSize(*message, field);
  const int at = static_cast<int>(below(random, static_cast<size_t>(count)));
  const bool of_messages = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  switch (below(random, 5)) {
    case 0:  // one less
      if (count > 0) {
        r->SwapElements(message, field, at, count - 1);
        r->RemoveLast(message, field);
      }
      return;
    case 1:  // another order
      if (count > 1) r->SwapElements(message, field, at, static_cast<int>(below(random, static_cast<size_t>(count))));
      return;
    case 2:  // one more
      if (!of_messages) return add_element(message, field, texts, random);
      if (const Message* source =
              count > 0 ? &r->GetRepeatedMessage(*message, field, at) : donor(field->message_type())) {
        const std::unique_ptr<Message> copy(source->New());
        copy->CopyFrom(*source);
        r->AddMessage(message, field)->CopyFrom(*copy);
      }
      return;
    default:
      if (count == 0) return;
      if (!of_messages) return change_scalar(message, field, at, texts, random);
      if (const Message* source = donor(field->message_type())) {
        const std::unique_ptr<Message> copy(source->New());
        copy->CopyFrom(*source);
        r->MutableRepeatedMessage(message, field, at)->CopyFrom(*copy);
      }
  }
}

}  // namespace

std::string damage_bytes(const std::string& model, const std::string& other, Random& random) {
  std::string bytes = model;
  const size_t edits = 1 + below(random, 4);
  for (size_t i = 0; i < edits && !bytes.empty(); ++i) {
    const size_t at = below(random, bytes.size());
    const size_t length = std::min(1 + below(random, 40), bytes.size() - at);
    switch (below(random, 8)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
      case 2:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(random, 8)));
        break;
      case 3:
        bytes[at] = static_cast<char>(random());
        break;
      case 4:
        bytes.erase(at, length);
        break;
      case 5:
        bytes.insert(below(random, bytes.size()), bytes.substr(at, length));
        break;
      case 6:
        if (!other.empty()) bytes.replace(at, length, other, below(random, other.size()), length);
        break;
      default: {  // a length or an extent beyond everything
        static const std::array<std::string, 4> kHuge = {"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "\xff\xff\xff\xff\x07",
                                                         "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                                                         "\x80\x80\x80\x80\x80\x80\x40"};
        const std::string& huge = kHuge[below(random, kHuge.size())];
        bytes.replace(at, std::min(huge.size(), bytes.size() - at), huge);
      }
    }
  }
  return bytes;
}

std::string damage_fields(const std::string& model, Random& random) {
  onnx::ModelProto message;
  if (!message.ParseFromString(model)) return model;
  const size_t edits = 1 + below(random, 3);
  for (size_t i = 0; i < edits; ++i) {
    std::vector<Place> places;
    std::vector<std::string> texts;
    collect(&message, 0, &places, &texts);
    const Place& place = places[below(random, places.size())];
    change_message(place.message, places, place.depth, texts, random);
  }
  return message.SerializeAsString();
}

}  // namespace aipu::fuzz
