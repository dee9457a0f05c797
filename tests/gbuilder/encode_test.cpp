#include "gbuilder/file/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "gbuilder/file/constant_writer.h"
#include "gbuilder/record/command_storer.h"
#include "runtime/base/file.h"
#include "tests/gbuilder/hand_made.h"

namespace aipu::gbuilder::testing {
namespace {

Plan sample() {
  HandMade model;
  const auto n = graph::Dim::symbol("N"), m = graph::Dim::symbol("M");
  const auto x = model.input("x", {n, 3}), z = model.input("z", {m, 3});
  const auto lengths = model.input("lengths", {2}, DType::kI64);
  model.graph.fresh_symbol("count", graph::Symbol::Kind::kTensorElement, lengths, 0);
  const float values[] = {1, 2, 3};
  const auto k = model.graph.add_constant(graph::Constant::of<float>(DType::kF32, {3}, values), "k");
  const float more[] = {4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
  const auto k2 = model.graph.add_constant(graph::Constant::of<float>(DType::kF32, {17, 1}, more), "k2");
  const auto a = model.kernel("Add", {x, k}, "a");
  model.implementation().checks.push_back({graph::eq(n, m), "N and M differ"});
  const auto b = model.copy(a, "b");
  const auto v = model.view(b, "v");
  const auto c = model.kernel("Relu", {v}, "c", true);
  const auto d = model.kernel("Relu", {k2}, "d");
  const auto e = model.kernel("Relu", {c}, "e");
  std::get<kernels::KernelLaunch>(model.implementation().launches[0]).arguments[2] = kernels::ScalarArgument{
      model.graph.find_symbol("count") != nullptr ? graph::Dim::symbol("count", true) : graph::Dim(1)};
  std::get<kernels::KernelLaunch>(model.implementation().launches[0]).max_tecs = 1;
  model.output(e, "y");
  model.output(d, "w");
  model.output(z, "same");
  auto plan = model.plan();
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  for (PlanTensor& tensor : plan->tensors) tensor.workspace = tensor.kind == TensorKind::kArena;
  return std::move(plan).value();
}

struct Written {
  std::vector<std::byte> bytes;
  Plan plan;
};

Written write_sample(const std::string& path) {
  Written result;
  result.plan = sample();
  const auto recording = record_plan(result.plan);
  EXPECT_TRUE(recording.ok()) << recording.status().message() << print_plan(result.plan);
  EncodeInput input;
  input.plan = &result.plan;
  input.recording = &*recording;
  input.backend = "x2";
  input.cost_figures = {200, 40, 0.5};
  input.required_cpu_features = {"avx2"};
  const std::vector<std::byte> module(100, std::byte{7});
  input.native_module = module;
  for (size_t i = 0; i < result.plan.kernels.size(); ++i)
    input.tir.push_back("tir of " + result.plan.kernels[i].symbol);
  input.c_code = "int c;";
  input.debug = "notes";
  const auto report = encode(input, path);
  EXPECT_TRUE(report.ok()) << report.status().message();
  const auto file = MappedFile::open(path);
  EXPECT_TRUE(file.ok());
  result.bytes.assign(file->bytes().begin(), file->bytes().end());
  EXPECT_EQ(report->file_bytes, result.bytes.size());
  std::remove(path.c_str());
  return result;
}

std::string path_of(const std::string& name) { return ::testing::TempDir() + "/" + name; }

TEST(Encode, DecodesToTheSamePlan) {
  const Written written = write_sample(path_of("encode_roundtrip.aipu.bin"));
  const auto decoded = decode(written.bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(print_plan(decoded->plan), print_plan(written.plan));
  EXPECT_EQ(decoded->required_cpu_features, std::vector<std::string>{"avx2"});
  EXPECT_EQ(decoded->backend, "x2");
  EXPECT_EQ(decoded->cost_figures, (std::vector<double>{200, 40, 0.5}));
  EXPECT_EQ(check_program(decoded->plan, decoded->plan.programs[0]).message(), "");
  ASSERT_NE(decoded->section(SectionKind::kC), nullptr);
  EXPECT_EQ(decoded->section(SectionKind::kC)->text(), "int c;");
  EXPECT_EQ(decoded->section(SectionKind::kTir, 1)->text(), "tir of " + written.plan.kernels[1].symbol);
}

TEST(Encode, SectionsAreAlignedHashedAndHoldTheConstants) {
  const Written written = write_sample(path_of("encode_sections.aipu.bin"));
  const auto decoded = decode(written.bytes);
  ASSERT_TRUE(decoded.ok());
  for (const DecodedSection& section : decoded->sections) {
    EXPECT_EQ((section.bytes.data() - written.bytes.data()) % 64, 0) << section_kind_name(section.kind);
    EXPECT_EQ(hash_bytes(section.bytes), section.hash) << section_kind_name(section.kind);
  }
  const DecodedSection* constants = decoded->section(SectionKind::kConstants);
  ASSERT_NE(constants, nullptr);
  size_t seen = 0;
  for (size_t t = 0; t < written.plan.tensors.size(); ++t) {
    const PlanTensor& tensor = written.plan.tensors[t];
    if (tensor.kind != TensorKind::kConstant) continue;
    const auto bytes = tensor.constant->bytes();
    const auto stored = constants->bytes.subspan(decoded->plan.tensors[t].offset_bytes, bytes.size());
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), stored.begin())) << tensor.name;
    ++seen;
  }
  EXPECT_EQ(seen, 2u);
}

TEST(Encode, SameInputSameBytes) {
  EXPECT_EQ(write_sample(path_of("encode_a.aipu.bin")).bytes, write_sample(path_of("encode_b.aipu.bin")).bytes);
}

// Large constants go to the file in chunks, from several threads, some of them made by the way.
class LargeConstants : public ::testing::Test {
 protected:
  LargeConstants() {
    std::vector<float> values(700'001);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    add(graph::Constant::of<float>(DType::kF32, {700'001}, values));
    // Three chunks of pieces of 100,004 bytes, then pieces beyond the size of a chunk, then one that is small.
    for (const auto& [pieces, elements] : {std::pair<int64_t, int64_t>{25, 25'001}, {3, 400'003}, {4, 3}}) {
      auto fill = [elements = elements, salt = static_cast<float>(pieces)](int64_t first, std::span<std::byte> out) {
        for (size_t i = 0; i < out.size() / sizeof(float); ++i) {
          const float value = salt + static_cast<float>(first * elements) + static_cast<float>(i);
          std::memcpy(out.data() + i * sizeof(float), &value, sizeof(float));
        }
      };
      add(graph::Constant::deferred(DType::kF32, {pieces, elements}, {1, static_cast<uint64_t>(pieces)}, pieces, fill));
    }
    plan_.expressions.constant(0);
  }
  void add(graph::ConstantPtr constant) {
    PlanTensor tensor;
    tensor.name = "c" + std::to_string(plan_.tensors.size());
    tensor.kind = TensorKind::kConstant;
    tensor.dtype = constant->dtype();
    tensor.offset_bytes = plan_.constant_bytes;
    tensor.constant = constant;
    plan_.constant_bytes += (constant->byte_count() + 63) / 64 * 64;
    plan_.tensors.push_back(std::move(tensor));
  }

  Plan plan_;
  const std::vector<const Plan*> plans_ = {&plan_};
};

TEST_F(LargeConstants, AreTheSameHoweverTheyAreWritten) {
  std::vector<std::byte> whole(plan_.constant_bytes);
  for (const PlanTensor& tensor : plan_.tensors) {
    const auto bytes = tensor.constant->bytes();
    std::copy(bytes.begin(), bytes.end(), whole.begin() + static_cast<std::ptrdiff_t>(tensor.offset_bytes));
  }
  for (const int jobs : {1, 2, 7}) {
    const std::string path = path_of("constants_" + std::to_string(jobs));
    auto file = AtomicFile::create(path);
    ASSERT_TRUE(file.ok());
    const auto hash = write_constants(plans_, *file, 128, jobs);
    ASSERT_TRUE(hash.ok()) << hash.status().message();
    EXPECT_EQ(*hash, hash_bytes(whole)) << jobs;
    const std::byte end[1] = {std::byte{9}};
    ASSERT_TRUE(file->write_at(128 + whole.size(), end).ok());
    ASSERT_TRUE(file->commit().ok());
    const auto written = MappedFile::open(path);
    ASSERT_TRUE(written.ok());
    ASSERT_EQ(written->bytes().size(), 128 + whole.size() + 1);
    EXPECT_TRUE(std::equal(whole.begin(), whole.end(), written->bytes().begin() + 128)) << jobs;
    std::remove(path.c_str());
  }
}

TEST_F(LargeConstants, MustBeWhereThePlanSays) {
  auto file = AtomicFile::create(path_of("constants_misplaced"));
  ASSERT_TRUE(file.ok());
  plan_.tensors[1].offset_bytes += 64;
  EXPECT_FALSE(write_constants(plans_, *file, 0, 2).ok());
  plan_.tensors[1].offset_bytes -= 64;
  plan_.constant_bytes += 128;
  EXPECT_FALSE(write_constants(plans_, *file, 0, 2).ok());
}

TEST_F(LargeConstants, AFullDiskIsAnError) {
  auto file = AtomicFile::create(path_of("constants_full"));
  ASSERT_TRUE(file.ok());
  struct rlimit saved = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &saved), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limit = {1'000'000, saved.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto hash = write_constants(plans_, *file, 0, 2);
  ::setrlimit(RLIMIT_FSIZE, &saved);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(hash.ok());
  EXPECT_EQ(hash.status().code(), ErrorCode::kIo);
}

// Whatever is in the file, decoding and printing end in text or an error.
TEST(Decode, SurvivesDamage) {
  const Written written = write_sample(path_of("encode_damage.aipu.bin"));
  for (size_t size = 0; size < written.bytes.size(); size += 37) {
    const std::vector<std::byte> cut(written.bytes.begin(), written.bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const auto decoded = decode(cut);
    if (decoded.ok()) print_plan(decoded->plan);
  }
  uint64_t state = 1;
  size_t readable = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> flipped = written.bytes;
    for (int k = 0; k < 1 + round % 3; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      flipped[(state >> 33) % flipped.size()] ^= static_cast<std::byte>(1u << ((state >> 20) & 7u));
    }
    const auto decoded = decode(flipped);
    if (!decoded.ok()) continue;
    ++readable;
    print_plan(decoded->plan);
    for (const Program& program : decoded->plan.programs) (void)check_program(decoded->plan, program);
  }
  EXPECT_GT(readable, 100u);
}

}  // namespace
}  // namespace aipu::gbuilder::testing
