// A model file, run by the interpreter. The seal and the hashes of the sections are made to fit first, so that what is
// behind them is reached: tables, commands and the kernels' TIR.
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "runtime/base/hash.h"
#include "runtime/base/seal.h"
#include "tests/fuzz/onnx_samples.h"
#include "tests/fuzz/targets/conversion.h"
#include "tests/fuzz/targets/run_file.h"
#include "tests/fuzz/targets/schema_mutator.h"
#include "tests/fuzz/targets/target.h"
#include "tests/runtime/model_builder.h"

namespace aipu::fuzz {
namespace {

constexpr size_t kPrefixBytes = sizeof(uint32_t);

size_t root_end(const std::string& file) {
  if (file.size() < kPrefixBytes + 8 + kSealBytes) return 0;
  const uint64_t end = uint64_t{flatbuffers::ReadScalar<uint32_t>(file.data())} + kPrefixBytes;
  return end <= file.size() - kSealBytes ? end : 0;
}

// The table of sections, if the file has tables that can be read at all.
const flatbuffers::Vector<flatbuffers::Offset<fb::Section>>* sections_of(const std::string& file, size_t end) {
  const auto* data = reinterpret_cast<const uint8_t*>(file.data());
  flatbuffers::Verifier verifier(data, end, 17, 4u << 20);
  return fb::VerifySizePrefixedModelBuffer(verifier) ? fb::GetSizePrefixedModel(data)->sections() : nullptr;
}

size_t blobs_begin(size_t end) { return (end + 63) / 64 * 64; }

bool is_inside(const fb::Section& section, const std::string& file, size_t end) {
  const uint64_t available = file.size() - kSealBytes - std::min(blobs_begin(end), file.size() - kSealBytes);
  return section.offset_bytes() <= available && section.size_bytes() <= available - section.offset_bytes();
}

void set_field(const fb::Section& section, flatbuffers::voffset_t field, uint64_t value) {
  auto* address = const_cast<uint8_t*>(reinterpret_cast<const flatbuffers::Table&>(section).GetAddressOf(field));
  if (address != nullptr) flatbuffers::WriteScalar(address, value);
}

void seal(std::string* file) {
  const size_t end = root_end(*file);
  if (end == 0) return;
  if (const auto* sections = sections_of(*file, end); sections != nullptr) {
    for (const fb::Section* section : *sections) {
      if (!is_inside(*section, *file, end)) continue;
      const std::string_view blob =
          std::string_view(*file).substr(blobs_begin(end) + section->offset_bytes(), section->size_bytes());
      const Hash128 hash = hash_bytes(std::as_bytes(std::span(blob)));
      set_field(*section, fb::Section::VT_HASH_HIGH, hash.high);
      set_field(*section, fb::Section::VT_HASH_LOW, hash.low);
    }
  }
  const auto bytes = make_seal(std::as_bytes(std::span(*file)).first(end), file->size());
  std::memcpy(file->data() + file->size() - kSealBytes, bytes.data(), kSealBytes);
}

}  // namespace

void one_input(std::string_view input) {
  std::string file(input);
  seal(&file);
  const FileOutcome outcome = run_file(std::as_bytes(std::span(file)));
  if (!outcome.load.ok()) check_error(outcome.load);
  if (!outcome.run.ok()) check_error(outcome.run);
}

namespace {

// Two launches of a kernel with all that a file can say of one.
std::string file_by_hand() {
  test::ModelBuilder b;
  b.tec_count = 2;
  const uint32_t zero = b.constant(0), two = b.constant(2), n = b.symbol("N", 0, 0), many = b.constant(16);
  const uint32_t x = b.tensor("x", DType::kI32, {n, many}, fb::TensorKind::kInput);
  const uint32_t t = b.tensor("t", DType::kI32, {many}, fb::TensorKind::kArena);
  const uint32_t y = b.tensor("y", DType::kI32, {many}, fb::TensorKind::kOutput);
  test::KernelRow row{"f", {true, true, false}};
  row.uses_barrier = true;
  row.tir = R"(func f(a#0: global int32*, b#1: global int32*, n#2: int32) -> void {
  let id#3: int32 = S.get_local_id<int32>()
  eval S.barrier<void>()
  eval S.vstore<void>(S.vload<int32x8>(a#0, 1), b#1, 1)
  store b#1[id#3] = (a#0[id#3] + n#2)
  eval call<void> put(b#1)
}
func put(p#0: global int32*) -> void { store p#0[0] = 7 }
)";
  const uint32_t kernel = b.kernel(row);
  b.launch(kernel, {b.pointer(x, false, zero), b.pointer(t, true, zero), b.number(n)}, two);
  b.launch(kernel, {b.pointer(t, false, zero), b.pointer(y, true, zero), b.number(two)}, two);
  b.tensors[t].first_use = 1;
  b.tensors[t].last_use = 2;
  const auto bytes = b.build();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

uint64_t runs() { return 1000; }

std::vector<std::string> seeds() {
  std::vector<std::string> files = {file_by_hand()};
  const auto add = [&](const Conversion& conversion) {
    check(conversion.status.ok(), conversion.status.message());
    files.push_back(conversion.file);
  };
  std::map<std::string, std::string> models;
  for (const auto& [sample, model] : sample_models()) models[sample] = model;
  for (const char* name : {"convolutions", "quantized", "shapes"}) add(convert(models.at(name), "host-baseline"));
  add(convert_both(models.at("convolutions"), models.at("shapes"), "host-baseline"));
  return files;
}

// Numbers of the tables, or tokens of a kernel's TIR (which keeps its size, so that all else stays where it is).
std::string mutate(const std::string& input, const std::string& other, Random& random) {
  std::string file = input;
  const size_t end = root_end(file);
  if (end < 16 || below(random, 16) == 0) return mutate_bytes(input, other, random);
  const auto* sections = sections_of(file, end);
  if (sections != nullptr && below(random, 2) == 0) {
    for (const fb::Section* section : *sections) {
      if (section->kind() != fb::SectionKind::kTir || !is_inside(*section, file, end)) continue;
      const size_t at = blobs_begin(end) + section->offset_bytes(), size = section->size_bytes();
      std::string text = mutate_tokens(file.substr(at, size), "", random);
      text.resize(size, ' ');
      file.replace(at, size, text);
    }
    return file;
  }
  return sections == nullptr ? mutate_bytes(input, other, random) : mutate_by_schema(std::move(file), random);
}

}  // namespace aipu::fuzz
