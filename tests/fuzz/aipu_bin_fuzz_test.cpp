// Hostile aipu.bin files: truncated, flipped, and edited with a fresh seal and fresh hashes, so that the checks behind
// the seal are what stops them. Every one must load and run, or fail with a one-line error; under the sanitizers too.
// Kernels are not executed (back end null): who writes a file with valid hashes may put any native code into it.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "runtime/base/seal.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "tests/runtime/sample_models.h"

namespace aipu::runtime {
namespace {

using test::ModelBuilder;

using test::kNone;

constexpr int64_t kMemoryLimit = 4 << 20;

void expect_one_line(const Status& status) {
  EXPECT_FALSE(status.message().empty());
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
}

// Runs it on small inputs.
void try_model(const std::shared_ptr<const Model>& model) {
  SessionOptions session_options;
  session_options.threads = 1;
  session_options.memory_limit_bytes = kMemoryLimit;
  auto session = Session::create(model, session_options);
  if (!session.ok()) return expect_one_line(session.status());
  static const std::vector<std::byte> zeros(1 << 16);
  for (const int64_t symbol : {2, 0, 3}) {
    bool bound = true;
    for (size_t i = 0; i < model->inputs().size(); ++i) {
      std::vector<int64_t> shape;
      int64_t bytes_needed = 8;
      for (const DimSpec& dim : model->inputs()[i].shape) {
        shape.push_back(dim.extent >= 0 ? dim.extent : symbol);
        bytes_needed = std::min<int64_t>(bytes_needed, 1 << 20) * std::min<int64_t>(shape.back(), 1 << 20);
      }
      // Data that large is not at hand; such a model is not run.
      const bool fits = bytes_needed <= static_cast<int64_t>(zeros.size());
      bound = bound && fits && (*session)->bind_input(i, {model->inputs()[i].dtype, shape, zeros.data()}).ok();
    }
    if (!bound) return;
    if (const Status status = (*session)->run(); !status.ok()) expect_one_line(status);
    for (size_t i = 0; i < model->outputs().size(); ++i) (void)(*session)->output(i).ok();
  }
}

// Loads the bytes and, if that works, runs all models in them. Returns whether it loaded.
bool try_file(std::span<const std::byte> bytes) {
  LoadOptions options;
  options.backend = "null";
  const auto model = Model::from_bytes(bytes, options);
  if (!model.ok()) {
    expect_one_line(model.status());
    return false;
  }
  for (const std::string& name : (*model)->entries()) {
    const auto entry = (*model)->open(name);
    if (entry.ok()) {
      try_model(*entry);
    } else {
      expect_one_line(entry.status());
    }
  }
  return true;
}

std::vector<ModelBuilder> samples() {
  std::vector<ModelBuilder> models = {test::chain_model(),   test::positive_model(), test::branch_model(),
                                      test::barrier_model(), test::loop_model(),     test::two_entries()};
  // The kernels' code is only in the way here.
  for (ModelBuilder& model : models) {
    for (auto& section : model.sections) section.bytes.resize(std::min<size_t>(section.bytes.size(), 256));
  }
  return models;
}

// Puts a fitting seal on a file whose root was edited in place.
void reseal(std::vector<std::byte>& bytes, size_t root_size) {
  const auto seal = make_seal(std::span(bytes).first(root_size), bytes.size());
  std::memcpy(bytes.data() + bytes.size() - kSealBytes, seal.data(), kSealBytes);
}

size_t root_size_of(const std::vector<std::byte>& bytes) { return flatbuffers::ReadScalar<uint32_t>(bytes.data()) + 4; }

TEST(AipuBinFuzz, Truncations) {
  for (const ModelBuilder& model : samples()) {
    const auto bytes = model.build();
    for (size_t size = 0; size < bytes.size(); size += 3) EXPECT_FALSE(try_file(std::span(bytes).first(size)));
  }
}

TEST(AipuBinFuzz, FlippedBits) {
  std::mt19937 random(1);
  for (const ModelBuilder& model : samples()) {
    const auto original = model.build();
    const size_t root_size = root_size_of(original);
    for (int i = 0; i < 500; ++i) {
      auto bytes = original;
      const size_t position = random() % bytes.size();
      bytes[position] ^= std::byte{1} << (random() % 8);
      const bool loaded = try_file(bytes);
      // Only padding between the parts may change unnoticed.
      if (position < root_size || position >= bytes.size() - kSealBytes) {
        EXPECT_FALSE(loaded) << position;
      }
    }
  }
}

TEST(AipuBinFuzz, EditedTablesWithAFreshSeal) {
  std::mt19937 random(2);
  int loaded = 0;
  for (const ModelBuilder& model : samples()) {
    const auto original = model.build();
    const size_t root_size = root_size_of(original);
    for (int i = 0; i < 1500; ++i) {
      auto bytes = original;
      const int edits = 1 + static_cast<int>(random() % 3);
      for (int k = 0; k < edits; ++k) {
        const size_t position = random() % root_size;
        switch (random() % 3) {
          case 0:
            bytes[position] ^= std::byte{1} << (random() % 8);
            break;
          case 1:
            bytes[position] = static_cast<std::byte>(random());
            break;
          default: {
            static constexpr uint32_t kWords[] = {0,           1,           2,           3,  0x7fffffffu,
                                                  0x80000000u, 0xffffffffu, 0xfffffffeu, 64, 4096};
            const uint32_t word = kWords[random() % std::size(kWords)];
            const size_t aligned = position / 4 * 4;
            if (aligned + 4 <= root_size) std::memcpy(bytes.data() + aligned, &word, 4);
          }
        }
      }
      reseal(bytes, root_size);
      loaded += try_file(bytes) ? 1 : 0;
    }
  }
  EXPECT_GT(loaded, 100);  // some edits are harmless: the checks do not simply refuse everything
}

// Edits of fields, which always pass the FlatBuffers verifier.
TEST(AipuBinFuzz, EditedFields) {
  std::mt19937_64 random(3);
  const auto number = [&]() -> uint32_t {
    static constexpr uint32_t kNumbers[] = {0,  1,  2,  3,  4,  5,       6,           7,           8,
                                            15, 16, 63, 64, 65, 1000000, 0x7fffffffu, 0x80000000u, 0xffffffffu};
    return kNumbers[random() % std::size(kNumbers)];
  };
  const auto wide = [&]() -> int64_t {
    static constexpr int64_t kNumbers[] = {
        0,         1,         -1, 2, 4, 7, 64, 1 << 20, int64_t{1} << 31, int64_t{1} << 40, int64_t{1} << 62,
        INT64_MAX, INT64_MIN, -64};
    return kNumbers[random() % std::size(kNumbers)];
  };
  const auto pick = [&](size_t size) { return random() % std::max<size_t>(size, 1); };
  int loaded = 0;
  for (const ModelBuilder& model : samples()) {
    for (int i = 0; i < 1500; ++i) {
      ModelBuilder b = model;
      const int edits = 1 + static_cast<int>(random() % 3);
      for (int k = 0; k < edits; ++k) {
        auto& program = b.programs[pick(b.programs.size())];
        switch (random() % 12) {
          case 0:
            b.expressions[pick(b.expressions.size())] =
                fb::Expression(static_cast<fb::ExpressionOp>(random() % 13), number(), number(), number(), wide());
            break;
          case 1:
            b.expressions[pick(b.expressions.size())] = fb::Expression(fb::ExpressionOp::kConstant, 0, 0, 0, wide());
            break;
          case 2: {
            auto& tensor = b.tensors[pick(b.tensors.size())];
            switch (random() % 8) {
              case 0:
                tensor.kind = static_cast<fb::TensorKind>(random() % 6);
                break;
              case 1:
                tensor.base = number();
                break;
              case 2:
                tensor.view_offset = number();
                break;
              case 3:
                tensor.size_bytes = number();
                break;
              case 4:
                tensor.first_use = number();
                break;
              case 5:
                tensor.last_use = number();
                break;
              case 6:
                tensor.in_place_of = number();
                break;
              default:
                tensor.dtype = static_cast<DType>(random() % 16);
                break;
            }
            break;
          }
          case 3:
            b.tensors[pick(b.tensors.size())].shape.assign(random() % 4, number());
            break;
          case 4:
            if (!b.arguments.empty()) {
              b.arguments[pick(b.arguments.size())] =
                  fb::Argument(static_cast<fb::ArgumentKind>(random() % 4), random() % 2, number(), number(),
                               static_cast<uint64_t>(wide()));
            }
            break;
          case 5:
            if (!program.dma.empty())
              program.dma[0] = fb::DmaCommand(3, number(), number(), number(), number(), number(), number(), number(),
                                              number(), 0, 0, kNone);
            break;
          case 6:
            program.dma.emplace_back(100 + number() % 50, number() % 4, number() % 4, number(), number(), number(),
                                     number(), number(), number(), 0, 0, kNone);
            break;
          case 7:
            program.host.emplace_back(100 + number() % 50, static_cast<fb::HostOp>(random() % 5), number(), number(),
                                      number(), 0, 0, 0, kNone);
            break;
          case 8:
            if (!program.tec.empty())
              program.tec[0] =
                  fb::TecCommand(number(), number(), number(), number(), number(), number(), number(), number());
            break;
          case 9:
            if (!b.symbols.empty()) b.symbols[0] = {"S", static_cast<fb::SymbolKind>(random() % 3), number(), number()};
            break;
          case 10:
            (random() % 2 == 0 ? b.inputs : b.outputs).push_back(number());
            break;
          default:
            b.tec_count = number();
            break;
        }
      }
      loaded += try_file(b.build()) ? 1 : 0;
    }
  }
  EXPECT_GT(loaded, 100);
}

}  // namespace
}  // namespace aipu::runtime
