#include "tests/fuzz/targets/schema_mutator.h"

#include <flatbuffers/reflection.h>

#include <array>
#include <cstring>
#include <map>
#include <set>

#include "runtime/base/file.h"
#include "test_paths.h"

namespace aipu::fuzz {
namespace {

using reflection::BaseType;

const reflection::Schema& schema() {
  static const std::string bytes = [] {
    auto text = read_text_file(AIPU_BUILD_DIR "/generated/aipu.bfbs");
    check(text.ok(), "the schema cannot be read");
    return std::move(text).value();
  }();
  return *reflection::GetSchema(bytes.data());
}

// A number in a buffer.
struct Slot {
  size_t at = 0;
  size_t bytes = 0;
  bool only_less = false;
};

// The numbers of a buffer, by the field of the schema that they are of: a field with few of them is chosen as often as
// one with many.
class Slots {
 public:
  explicit Slots(const std::string& buffer) : base_(reinterpret_cast<const uint8_t*>(buffer.data())) {
    add_table(*schema().root_table(), *flatbuffers::GetAnySizePrefixedRoot(base_));
  }

  const std::vector<Slot>* pick(Random& random) const {
    if (slots_.empty()) return nullptr;
    return &std::next(slots_.begin(), static_cast<ptrdiff_t>(below(random, slots_.size())))->second;
  }

 private:
  using Key = std::pair<const reflection::Field*, bool>;  // and whether it is the length

  void add(Key key, const uint8_t* address, size_t bytes) {
    slots_[key].push_back({static_cast<size_t>(address - base_), bytes, key.second});
  }
  void add_table(const reflection::Object& object, const flatbuffers::Table& table) {
    if (!seen_.insert(&table).second) return;
    for (const reflection::Field* field : *object.fields()) add_field(*field, table);
  }
  void add_struct(const reflection::Object& object, const uint8_t* bytes) {
    for (const reflection::Field* field : *object.fields()) {
      const BaseType type = field->type()->base_type();
      if (flatbuffers::IsScalar(type)) add({field, false}, bytes + field->offset(), flatbuffers::GetTypeSize(type));
    }
  }
  void add_field(const reflection::Field& field, const flatbuffers::Table& table) {
    const BaseType type = field.type()->base_type();
    if (flatbuffers::IsScalar(type)) {
      if (const uint8_t* address = table.GetAddressOf(field.offset()); address != nullptr)
        add({&field, false}, address, flatbuffers::GetTypeSize(type));
    } else if (type == BaseType::Vector) {
      add_vector(field, table.GetPointer<const flatbuffers::VectorOfAny*>(field.offset()));
    } else if (type == BaseType::Obj) {
      const reflection::Object& object = object_of(field);
      if (const auto* child = table.GetPointer<const flatbuffers::Table*>(field.offset());
          child != nullptr && !object.is_struct())
        add_table(object, *child);
    }
  }
  void add_vector(const reflection::Field& field, const flatbuffers::VectorOfAny* vector) {
    if (vector == nullptr) return;
    add({&field, true}, reinterpret_cast<const uint8_t*>(vector), sizeof(flatbuffers::uoffset_t));
    const BaseType element = field.type()->element();
    for (flatbuffers::uoffset_t i = 0; i < vector->size(); ++i) {
      if (flatbuffers::IsScalar(element)) {
        const size_t bytes = flatbuffers::GetTypeSize(element);
        add({&field, false}, vector->Data() + i * bytes, bytes);
      } else if (element == BaseType::Obj && object_of(field).is_struct()) {
        const reflection::Object& object = object_of(field);
        add_struct(object, vector->Data() + i * static_cast<size_t>(object.bytesize()));
      } else if (element == BaseType::Obj) {
        add_table(
            object_of(field),
            *reinterpret_cast<const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::Table>>*>(vector)->Get(i));
      }
    }
  }
  static const reflection::Object& object_of(const reflection::Field& field) {
    return *schema().objects()->Get(static_cast<flatbuffers::uoffset_t>(field.type()->index()));
  }

  const uint8_t* base_;
  std::map<Key, std::vector<Slot>> slots_;
  std::set<const flatbuffers::Table*> seen_;
};

uint64_t read(const std::string& buffer, const Slot& slot) {
  uint64_t value = 0;
  std::memcpy(&value, buffer.data() + slot.at, slot.bytes);
  return value;
}

uint64_t hostile_number(Random& random) {
  static constexpr std::array<int64_t, 14> kNumbers = {0,
                                                       -1,
                                                       -2,
                                                       64,
                                                       4096,
                                                       0x7fffffff,
                                                       0x80000000,
                                                       0xfffffffe,
                                                       0xffffffff,
                                                       int64_t{1} << 40,
                                                       int64_t{1} << 62,
                                                       std::numeric_limits<int64_t>::max(),
                                                       std::numeric_limits<int64_t>::min(),
                                                       1000000};
  return static_cast<uint64_t>(kNumbers[below(random, kNumbers.size())]);
}

}  // namespace

std::string mutate_by_schema(std::string buffer, Random& random) {
  for (size_t edits = 1 + below(random, 3); edits > 0; --edits) {
    // Anew each time: a shorter vector has fewer numbers.
    const Slots slots(buffer);
    const std::vector<Slot>* field = slots.pick(random);
    if (field == nullptr) return buffer;
    const Slot& slot = (*field)[below(random, field->size())];
    uint64_t value = read(buffer, slot);
    if (slot.only_less) {
      value = below(random, value + 1);
    } else {
      switch (below(random, 4)) {
        case 0:
          value = hostile_number(random);
          break;
        case 1:
          value += below(random, 2) == 0 ? 1 : -uint64_t{1};
          break;
        case 2:
          value = read(buffer, (*field)[below(random, field->size())]);
          break;
        default:
          value = below(random, 16);
      }
    }
    std::memcpy(buffer.data() + slot.at, &value, slot.bytes);
  }
  return buffer;
}

}  // namespace aipu::fuzz
