#include "runtime/loader/model_file.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>

#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/seal.h"
#include "runtime/signature/signature.h"

namespace aipu::runtime {
namespace {

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

std::string_view section_name(fb::SectionKind kind) {
  switch (kind) {
    case fb::SectionKind::kConstants:
      return "constants";
    case fb::SectionKind::kNativeModule:
      return "native module";
    case fb::SectionKind::kTir:
      return "TIR";
    case fb::SectionKind::kC:
      return "C";
    case fb::SectionKind::kCompassIr:
      return "compass_ir";
    case fb::SectionKind::kDebug:
      return "debug";
  }
  return "unknown";
}

// The bytes of the tables, counted at each place that refers to them. Writers of the format give every reference bytes
// of its own, so that this is less than the tables take; a file where many references share one long string or vector
// would grow without bound when it is read.
class ReferencedBytes {
 public:
  static uint64_t of(const fb::Model& model) {
    ReferencedBytes count;
    count.add(model);
    return count.bytes_;
  }

 private:
  void add(const fb::Model& model) {
    table(&model);
    for (const auto* name : {model.producer(), model.model_name(), model.target(), model.backend()}) string(name);
    strings(model.required_cpu_features());
    strings(model.strings());
    strings(model.origins());
    tables(model.sections(), [](const fb::Section&) {});
    tables(model.symbols(), [this](const fb::Symbol& symbol) { string(symbol.name()); });
    tables(model.tensors(), [this](const fb::Tensor& tensor) {
      string(tensor.name());
      vector(tensor.shape());
    });
    tables(model.kernels(), [this](const fb::Kernel& kernel) {
      string(kernel.name());
      string(kernel.source());
      vector(kernel.pointer_arguments());
      vector(kernel.argument_bits());
    });
    tables(model.programs(), [this](const fb::Program& program) {
      vector(program.tec());
      vector(program.dma());
      vector(program.host());
      vector(program.tec_operations());
      vector(program.tec_needed());
    });
    vector(model.expressions());
    vector(model.inputs());
    vector(model.outputs());
    vector(model.arguments());
    vector(model.waits());
    vector(model.batch_loops());
    vector(model.batch_loop_conditions());
    tables(model.calls(), [this](const fb::Call& call) {
      vector(call.bodies());
      vector(call.inputs());
      vector(call.backward_sequences());
      vector(call.backward_stacks());
      tables(call.given(), [this](const fb::Given& given) { vector(given.expressions()); });
    });
    string(model.description());
    tables(model.properties(), [this](const fb::Property& property) {
      string(property.key());
      string(property.value());
    });
    tables(model.tensor_lists(), [this](const fb::TensorList& list) { string(list.name()); });
    strings(model.string_pool());
    tables(model.text_calls(), [this](const fb::TextCall& call) {
      string(call.operation());
      strings(call.texts());
      vector(call.numbers());
      vector(call.inputs());
      vector(call.outputs());
    });
    string(model.entry_name());
    // As deep as the verifier of the tables has found them to be.
    tables(model.bodies(), [this](const fb::Model& body) { add(body); });
    tables(model.entries(), [this](const fb::Model& entry) { add(entry); });
  }

  // Without the vtable, which tables of a kind do share.
  void table(const void* address) {
    const auto* vtable = static_cast<const flatbuffers::Table*>(address)->GetVTable();
    bytes_ += flatbuffers::ReadScalar<flatbuffers::voffset_t>(vtable + sizeof(flatbuffers::voffset_t));
  }
  void string(const flatbuffers::String* string) {
    if (string != nullptr) bytes_ += sizeof(uint32_t) + string->size() + 1;
  }
  template <typename T>
  void vector(const flatbuffers::Vector<T>* vector) {
    if (vector != nullptr)
      bytes_ += sizeof(uint32_t) + uint64_t{vector->size()} * flatbuffers::IndirectHelper<T>::element_stride;
  }
  void strings(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* strings) {
    vector(strings);
    for (uint32_t i = 0; i < items(strings).size(); ++i) string(strings->Get(i));
  }
  template <typename T, typename Body>
  void tables(const flatbuffers::Vector<flatbuffers::Offset<T>>* tables, Body&& body) {
    vector(tables);
    for (uint32_t i = 0; i < items(tables).size(); ++i) {
      table(tables->Get(i));
      body(*tables->Get(i));
    }
  }

  uint64_t bytes_ = 0;
};

// Two sections of one kind and index, or with bytes in common, are described by an error.
Status check_sections_apart(Items<flatbuffers::Offset<fb::Section>> sections) {
  std::vector<uint32_t> order(sections.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto kind_of = [&](uint32_t i) { return std::pair(sections[i]->kind(), sections[i]->index()); };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return kind_of(a) < kind_of(b); });
  const auto name = [&](uint32_t i) { return str_cat("section ", i, " (", section_name(sections[i]->kind()), ")"); };
  for (size_t i = 1; i < order.size(); ++i) {
    if (kind_of(order[i - 1]) == kind_of(order[i]))
      return invalid_model(str_cat(name(std::max(order[i - 1], order[i])), " is there twice (also section ",
                                   std::min(order[i - 1], order[i]), ")"));
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(sections[a]->offset_bytes(), sections[a]->size_bytes()) <
           std::pair(sections[b]->offset_bytes(), sections[b]->size_bytes());
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const fb::Section& before = *sections[order[i - 1]];
    if (before.offset_bytes() + before.size_bytes() > sections[order[i]]->offset_bytes())
      return invalid_model(str_cat(name(order[i]), " has bytes in common with ", name(order[i - 1])));
  }
  return {};
}

// The verifier of FlatBuffers does not look at the alignment of elements of vectors. Its own limit of nested tables
// bounds the depth.
bool are_elements_aligned(const fb::Model& model) {
  const auto aligned = [](const auto* vector) {
    return vector == nullptr || vector->size() == 0 || reinterpret_cast<uintptr_t>(vector->Data()) % 8 == 0;
  };
  if (!aligned(model.expressions()) || !aligned(model.arguments()) || !aligned(model.cost_figures())) return false;
  const auto kernels = items(model.kernels());
  for (uint32_t i = 0; i < kernels.size(); ++i)
    if (!aligned(kernels[i]->addressable_bytes())) return false;
  const auto calls = items(model.text_calls());
  for (uint32_t i = 0; i < calls.size(); ++i)
    if (!aligned(calls[i]->numbers())) return false;
  for (const auto models : {items(model.bodies()), items(model.entries())}) {
    for (uint32_t i = 0; i < models.size(); ++i)
      if (!are_elements_aligned(*models[i])) return false;
  }
  return true;
}

bool is_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 64 == 0; }

}  // namespace

struct ModelFile::Storage {
  std::optional<MappedFile> file;
  std::unique_ptr<std::byte, FreeBytes> copy;
};

ModelFile::ModelFile() : storage_(std::make_unique<Storage>()) {}
ModelFile::~ModelFile() = default;

Result<std::unique_ptr<ModelFile>> ModelFile::open(const std::string& path, VerifyLevel level, bool copy, Meter* meter,
                                                   std::string_view trusted_key) {
  AIPU_ASSIGN_OR_RETURN(MappedFile mapped, copy ? MappedFile::read(path) : MappedFile::open(path));
  mapped.prefer_large_pages();
  std::unique_ptr<ModelFile> file(new ModelFile());
  file->storage_->file = std::move(mapped);
  file->bytes_ = file->storage_->file->bytes();
  if (Status status = file->verify(level, meter, trusted_key); !status.ok()) return std::move(status).context(path);
  return file;
}

Result<std::unique_ptr<ModelFile>> ModelFile::from_bytes(std::span<const std::byte> bytes, VerifyLevel level,
                                                         bool in_place, Meter* meter, std::string_view trusted_key) {
  std::unique_ptr<ModelFile> file(new ModelFile());
  file->bytes_ = bytes;
  if (!(in_place && is_aligned(bytes.data())) && !bytes.empty()) {
    const size_t rounded = (bytes.size() + 63) / 64 * 64;
    file->storage_->copy.reset(static_cast<std::byte*>(std::aligned_alloc(64, rounded)));
    if (!file->storage_->copy) return out_of_range(str_cat("no memory for a model of ", bytes.size(), " bytes"));
    std::memcpy(file->storage_->copy.get(), bytes.data(), bytes.size());
    file->bytes_ = {file->storage_->copy.get(), bytes.size()};
  }
  AIPU_RETURN_IF_ERROR(file->verify(level, meter, trusted_key));
  return file;
}

Status ModelFile::verify(VerifyLevel level, Meter* meter, std::string_view trusted_key) {
  if (!trusted_key.empty()) AIPU_RETURN_IF_ERROR(check_signature(bytes_, trusted_key));
  bytes_ = without_signature(bytes_);
  constexpr size_t kPrefixBytes = sizeof(uint32_t);
  if (bytes_.size() < kPrefixBytes + 8 + kSealBytes) {
    return invalid_model(str_cat("not an aipu.bin: ", bytes_.size(), " bytes are too few; is the file complete?"));
  }
  const auto* data = reinterpret_cast<const uint8_t*>(bytes_.data());
  if (!flatbuffers::BufferHasIdentifier(data, fb::ModelIdentifier(), true)) {
    return invalid_model("not an aipu.bin: the identifier 'AIPU' is missing; convert the model with aipugb first");
  }
  const uint64_t root_end = uint64_t{flatbuffers::ReadScalar<uint32_t>(data)} + kPrefixBytes;
  blobs_end_ = bytes_.size() - kSealBytes;
  if (root_end > blobs_end_) {
    return invalid_model(str_cat("the file has ", bytes_.size(), " bytes, but its tables alone take ", root_end,
                                 "; is the file complete?"));
  }
  const auto seal = make_seal(bytes_.first(root_end), bytes_.size());
  if (std::memcmp(seal.data(), bytes_.data() + blobs_end_, kSealBytes) != 0) {
    return invalid_model(
        "the file is incomplete or damaged: the seal at its end does not fit; convert the model again");
  }
  constexpr uint32_t kMostNested = 17;  // an entry, and bodies within each other
  flatbuffers::Verifier verifier(data, root_end, kMostNested, 4u << 20);
  if (!fb::VerifySizePrefixedModelBuffer(verifier))
    return invalid_model("the file's tables are malformed (FlatBuffers verification failed)");
  root_ = fb::GetSizePrefixedModel(data);
  if (root_->format_version() != kFormatVersion) {
    return unsupported(str_cat("the file has format version ", root_->format_version(), ", this runtime reads version ",
                               kFormatVersion, "; convert the model again with a matching aipugb"));
  }

  if (!are_elements_aligned(*root_)) return invalid_model("the file's tables are malformed (misaligned structs)");

  if (ReferencedBytes::of(*root_) > root_end)
    return invalid_model("the file's tables are malformed (parts of them are used more than once)");

  root_bytes_ = root_end;
  blobs_begin_ = (root_end + 63) / 64 * 64;
  const auto sections = items(root_->sections());
  for (uint32_t i = 0; i < sections.size(); ++i) {
    const fb::Section& section = *sections[i];
    if (section.kind() > fb::SectionKind::MAX)
      return invalid_model(str_cat("section ", i, " has the unknown kind ", static_cast<int>(section.kind())));
    const std::string name = str_cat("section ", i, " (", section_name(section.kind()), ")");
    if (section.offset_bytes() % 64 != 0) return invalid_model(str_cat(name, " is not 64-byte aligned"));
    const uint64_t available = blobs_end_ > blobs_begin_ ? blobs_end_ - blobs_begin_ : 0;
    if (section.offset_bytes() > available || section.size_bytes() > available - section.offset_bytes()) {
      return invalid_model(str_cat(name, " is outside of the file: ", section.size_bytes(), " bytes at ",
                                   section.offset_bytes(), " of ", available));
    }
  }
  if (meter != nullptr) AIPU_RETURN_IF_ERROR(meter->take(sections.size() * int64_t{sizeof(uint32_t)}));
  AIPU_RETURN_IF_ERROR(check_sections_apart(sections));
  for (uint32_t i = 0; i < sections.size(); ++i) {
    const fb::Section& section = *sections[i];
    if (meter != nullptr) AIPU_RETURN_IF_ERROR(meter->check_time());
    const bool is_large =
        section.kind() == fb::SectionKind::kConstants && section.size_bytes() > kConstantsHashedAlways;
    if (is_large && level != VerifyLevel::kFull) continue;
    if (hash_bytes(section_bytes(section)) != Hash128{section.hash_high(), section.hash_low()}) {
      return invalid_model(str_cat("section ", i, " (", section_name(section.kind()),
                                   ") is damaged: its hash does not fit; convert the model again"));
    }
  }
  return {};
}

std::span<const std::byte> ModelFile::section_bytes(const fb::Section& section) const {
  if (section.size_bytes() == 0) return {};
  return bytes_.subspan(blobs_begin_ + section.offset_bytes(), section.size_bytes());
}

std::span<const std::byte> ModelFile::section(fb::SectionKind kind, uint32_t index) const {
  const auto sections = items(root_->sections());
  for (uint32_t i = 0; i < sections.size(); ++i) {
    if (sections[i]->kind() == kind && sections[i]->index() == index) return section_bytes(*sections[i]);
  }
  return {};
}

}  // namespace aipu::runtime
