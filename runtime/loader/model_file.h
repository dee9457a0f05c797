// An aipu.bin in memory: mapped or given, structurally verified, its seal and section hashes checked. What the tables
// say is checked by check_model().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "aipu_generated.h"
#include "runtime/base/meter.h"
#include "runtime/base/status.h"

namespace aipu::runtime {

constexpr uint32_t kNone = 0xffffffffu;
constexpr uint32_t kFormatVersion = 1;

// A FlatBuffers vector that may be absent, as a range.
template <typename T>
struct Items {
  const flatbuffers::Vector<T>* vector = nullptr;
  uint32_t size() const { return vector == nullptr ? 0 : vector->size(); }
  auto operator[](uint32_t i) const { return vector->Get(i); }
};
template <typename T>
Items<T> items(const flatbuffers::Vector<T>* vector) {
  return {vector};
}
inline std::string_view text(const flatbuffers::String* string) {
  return string == nullptr ? std::string_view() : std::string_view(string->c_str(), string->size());
}

enum class VerifyLevel : uint8_t {
  // everything except constants sections larger than kConstantsHashedAlways: loading a large model takes milliseconds
  kUsual,
  kFull,  // every byte
};
constexpr uint64_t kConstantsHashedAlways = 8u << 20;

class ModelFile {
 public:
  // Errors name the file. `copy`: read it instead of mapping it. `trusted_key`: of whom it has to be signed
  // (signature/signature.h), which is looked at before all else; "": of nobody.
  static Result<std::unique_ptr<ModelFile>> open(const std::string& path, VerifyLevel level, bool copy = false,
                                                 Meter* meter = nullptr, std::string_view trusted_key = {});
  // Copies the bytes, unless `in_place` says that they outlive the ModelFile and they are 64-byte aligned.
  static Result<std::unique_ptr<ModelFile>> from_bytes(std::span<const std::byte> bytes, VerifyLevel level,
                                                       bool in_place = false, Meter* meter = nullptr,
                                                       std::string_view trusted_key = {});
  ~ModelFile();

  const fb::Model& root() const { return *root_; }
  uint64_t root_bytes() const { return root_bytes_; }
  // Empty when there is no such section.
  std::span<const std::byte> section(fb::SectionKind kind, uint32_t index = 0) const;
  std::span<const std::byte> section_bytes(const fb::Section& section) const;

 private:
  struct Storage;
  ModelFile();
  Status verify(VerifyLevel level, Meter* meter, std::string_view trusted_key);

  std::unique_ptr<Storage> storage_;
  std::span<const std::byte> bytes_;
  uint64_t root_bytes_ = 0;
  uint64_t blobs_begin_ = 0;
  uint64_t blobs_end_ = 0;
  const fb::Model* root_ = nullptr;
};

}  // namespace aipu::runtime
