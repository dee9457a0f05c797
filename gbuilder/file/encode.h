// aipu.bin: writing a plan down, mechanically, and reading one back.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gbuilder/plan/plan.h"
#include "gbuilder/record/recording.h"
#include "runtime/base/signature_block.h"

namespace aipu::gbuilder {

// A model of the file.
struct EncodeEntry {
  std::string entry_name;  // what it is asked for by; "" of a file with one model: as the model is called
  const Plan* plan = nullptr;
  const Recording* recording = nullptr;
  std::string compass_ir;
  std::string debug;
};

// The file, and its first model. Kernels are those of the first plan, which the others have too; the constants of all
// plans have been laid out together.
struct EncodeInput : EncodeEntry {
  std::vector<EncodeEntry> more_entries;
  std::string backend;               // that runs the native module unless another one is asked for
  std::vector<double> cost_figures;  // of the target's timing model (tir::CostFigures::numbers()); empty: it has none
  std::vector<std::string> required_cpu_features;
  std::span<const std::byte> native_module;  // empty: none
  // Of the host beside the device, if the plan has one.
  std::string host_backend;
  std::vector<std::string> host_cpu_features;
  std::span<const std::byte> host_module;
  std::vector<std::string> tir;  // per kernel: the lowered TIR
  std::string c_code;
  int jobs = 0;     // threads that make and write the constants; 0: one per CPU
  FileSigner sign;  // of the bytes of the whole file; null: it is not signed
};

struct EncodeReport {
  uint64_t file_bytes = 0;
  uint64_t root_bytes = 0;
  uint64_t constant_bytes = 0;
};

// Writes PATH atomically. Equal input gives equal bytes, whatever the number of jobs. Constants go from where they are
// to the file; deferred ones are made by the way.
Result<EncodeReport> encode(const EncodeInput& input, const std::string& path);

enum class SectionKind : uint8_t { kConstants, kNativeModule, kTir, kC, kCompassIr, kDebug };
std::string_view section_kind_name(SectionKind kind);

struct DecodedSection {
  SectionKind kind = SectionKind::kDebug;
  uint32_t index = 0;
  uint64_t offset_bytes = 0;  // from the first blob
  std::span<const std::byte> bytes;
  Hash128 hash;
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

struct DecodedModel {
  Plan plan;  // without constants' bytes and kernels' modules
  std::string entry_name;
  std::vector<DecodedModel> more_entries;  // the other models of the file: plans and names, all else is the first one's
  std::string producer;
  std::string backend;               // "" of old files
  std::vector<double> cost_figures;  // empty: the target has no timing model, or the file is an old one
  std::vector<std::string> required_cpu_features;
  std::string host_backend;              // "": no host computes beside the device
  std::string signer;                    // the public key of who signed it, in hexadecimal digits; "": not signed
  std::vector<DecodedSection> sections;  // point into the bytes given to decode()
  const DecodedSection* section(SectionKind kind, uint32_t index = 0) const;
  // All models of the file, the first one first.
  std::vector<const DecodedModel*> entries() const;
};

// Checks the FlatBuffers structure and that sections and table references are within bounds; what the commands mean is
// for CommandChecker (and for the runtime's own checks). `bytes` must outlive the result.
Result<DecodedModel> decode(std::span<const std::byte> bytes);

}  // namespace aipu::gbuilder
