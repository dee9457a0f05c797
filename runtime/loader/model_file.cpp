#include "runtime/loader/model_file.h"

#include <cstdlib>
#include <cstring>
#include <optional>

#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/seal.h"

namespace aipu::runtime {
namespace {

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

bool is_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 64 == 0; }

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

}  // namespace

struct ModelFile::Storage {
  std::optional<MappedFile> file;
  std::unique_ptr<std::byte, FreeBytes> copy;
};

ModelFile::ModelFile() : storage_(std::make_unique<Storage>()) {}
ModelFile::~ModelFile() = default;

Result<std::unique_ptr<ModelFile>> ModelFile::open(const std::string& path, VerifyLevel level) {
  AIPU_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(path));
  mapped.prefer_large_pages();
  std::unique_ptr<ModelFile> file(new ModelFile());
  file->storage_->file = std::move(mapped);
  file->bytes_ = file->storage_->file->bytes();
  if (Status status = file->verify(level); !status.ok()) return std::move(status).context(path);
  return file;
}

Result<std::unique_ptr<ModelFile>> ModelFile::from_bytes(std::span<const std::byte> bytes, VerifyLevel level,
                                                         bool in_place) {
  std::unique_ptr<ModelFile> file(new ModelFile());
  file->bytes_ = bytes;
  if (!(in_place && is_aligned(bytes.data())) && !bytes.empty()) {
    const size_t rounded = (bytes.size() + 63) / 64 * 64;
    file->storage_->copy.reset(static_cast<std::byte*>(std::aligned_alloc(64, rounded)));
    if (!file->storage_->copy) return out_of_range(str_cat("no memory for a model of ", bytes.size(), " bytes"));
    std::memcpy(file->storage_->copy.get(), bytes.data(), bytes.size());
    file->bytes_ = {file->storage_->copy.get(), bytes.size()};
  }
  AIPU_RETURN_IF_ERROR(file->verify(level));
  return file;
}

Status ModelFile::verify(VerifyLevel level) {
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
  flatbuffers::Verifier verifier(data, root_end, 16, 4u << 20);
  if (!fb::VerifySizePrefixedModelBuffer(verifier))
    return invalid_model("the file's tables are malformed (FlatBuffers verification failed)");
  root_ = fb::GetSizePrefixedModel(data);
  if (root_->format_version() != kFormatVersion) {
    return unsupported(str_cat("the file has format version ", root_->format_version(), ", this runtime reads version ",
                               kFormatVersion, "; convert the model again with a matching aipugb"));
  }

  // The verifier of FlatBuffers does not look at the alignment of structs in vectors.
  const auto aligned = [](const auto* vector) {
    return vector == nullptr || vector->size() == 0 || reinterpret_cast<uintptr_t>(vector->Data()) % 8 == 0;
  };
  if (!aligned(root_->expressions()) || !aligned(root_->arguments()))
    return invalid_model("the file's tables are malformed (misaligned structs)");

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
    for (uint32_t k = 0; k < i; ++k) {
      if (sections[k]->kind() == section.kind() && sections[k]->index() == section.index()) {
        return invalid_model(str_cat(name, " is there twice (also section ", k, ")"));
      }
      if (k == 4096) return invalid_model("the file has more sections than any model needs");
    }
    const bool is_large =
        section.kind() == fb::SectionKind::kConstants && section.size_bytes() > kConstantsHashedAlways;
    if (is_large && level != VerifyLevel::kFull) continue;
    if (hash_bytes(section_bytes(section)) != Hash128{section.hash_high(), section.hash_low()}) {
      return invalid_model(str_cat(name, " is damaged: its hash does not fit; convert the model again"));
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
