// Small files that would take much memory if what they say were believed: parts that many places refer to, tables whose
// sizes multiply. Each is refused, or read in memory that is in proportion to the file. Any back end loads the tables
// in this way; the one here computes nothing.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>

#include "runtime/base/seal.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "tests/runtime/model_builder.h"

namespace {

std::atomic<int64_t> held{0}, peak{0};

[[gnu::noinline]] void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  const int64_t now = held += static_cast<int64_t>(::malloc_usable_size(memory));
  int64_t before = peak;
  while (now > before && !peak.compare_exchange_weak(before, now)) {
  }
  return memory;
}
[[gnu::noinline]] void uncounted(void* memory) {
  held -= static_cast<int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) { return counted(std::malloc(size)); }
void* operator new(size_t size, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(unit, (size + unit - 1) / unit * unit));
}
void operator delete(void* memory) noexcept { uncounted(memory); }
void operator delete(void* memory, size_t) noexcept { uncounted(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { uncounted(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { uncounted(memory); }

namespace aipu::runtime {
namespace {

using test::ModelBuilder;

constexpr int64_t kMostBytes = 64 << 20;

// The most memory that `body` holds at a time.
int64_t peak_of(const std::function<void()>& body) {
  const int64_t before = held;
  peak = before;
  body();
  return peak - before;
}

Result<std::shared_ptr<const Model>> load(const std::vector<std::byte>& bytes) {
  LoadOptions options;
  options.backend = "null";
  return Model::from_bytes(bytes, options);
}

// Loads the file, and says what is wrong with it.
std::string refusal(const std::vector<std::byte>& bytes) {
  std::string message;
  const int64_t most = peak_of([&] { message = load(bytes).status().message(); });
  EXPECT_LT(most, kMostBytes);
  return message;
}

// Loads and runs the file, input `i` being a vector of as many elements as shapes[i] says.
void expect_cheap(const std::vector<std::byte>& bytes, const std::vector<std::vector<int64_t>>& shapes) {
  static const std::vector<std::byte> zeros(1 << 20);
  const int64_t most = peak_of([&] {
    const auto model = load(bytes);
    ASSERT_TRUE(model.ok()) << model.status().message();
    SessionOptions options;
    options.threads = 1;
    const auto session = Session::create(*model, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    for (size_t i = 0; i < shapes.size(); ++i)
      ASSERT_TRUE((*session)->bind_input(i, {(*model)->inputs()[i].dtype, shapes[i], zeros.data()}).ok());
    const Status status = (*session)->run();
    EXPECT_TRUE(status.ok()) << status.message();
  });
  EXPECT_LT(most, kMostBytes) << "from a file of " << bytes.size() << " bytes";
}

// ---- parts that many places refer to ----

// A file with one of the tables as `fill` makes it, and nothing else.
std::vector<std::byte> file_with(
    const std::function<std::function<void(fb::ModelBuilder&)>(flatbuffers::FlatBufferBuilder&)>& fill) {
  flatbuffers::FlatBufferBuilder builder;
  const auto target = builder.CreateString("host-baseline");
  const std::vector<flatbuffers::Offset<fb::Program>> programs = {fb::CreateProgram(builder)};
  const auto program_list = builder.CreateVector(programs);
  const auto add = fill(builder);
  fb::ModelBuilder model(builder);
  model.add_format_version(1);
  model.add_target(target);
  model.add_programs(program_list);
  add(model);
  builder.FinishSizePrefixed(model.Finish(), fb::ModelIdentifier());
  const auto* root = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  std::vector<std::byte> file(root, root + builder.GetSize());
  const size_t root_size = file.size();
  file.resize((file.size() + 63) / 64 * 64);
  const auto seal = make_seal(std::span(file).first(root_size), file.size() + kSealBytes);
  file.insert(file.end(), seal.begin(), seal.end());
  return file;
}

constexpr size_t kReferences = 2000;
const std::string& long_text() {
  static const std::string text(256 << 10, 'x');
  return text;
}
constexpr const char* kUsedTwice = "parts of them are used more than once";

TEST(HostileFiles, ManyOffsetsToOneString) {
  using Strings = flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>>;
  for (const auto field :
       {&fb::ModelBuilder::add_required_cpu_features, &fb::ModelBuilder::add_strings, &fb::ModelBuilder::add_origins}) {
    const auto file = file_with([&](flatbuffers::FlatBufferBuilder& builder) {
      const auto text = builder.CreateString(long_text());
      const Strings list =
          builder.CreateVector(std::vector<flatbuffers::Offset<flatbuffers::String>>(kReferences, text));
      return [=](fb::ModelBuilder& model) { (model.*field)(list); };
    });
    EXPECT_NE(refusal(file).find(kUsedTwice), std::string::npos);
  }
}

TEST(HostileFiles, ManyKernelsOfOneName) {
  const auto file = file_with([](flatbuffers::FlatBufferBuilder& builder) {
    const auto name = builder.CreateString(long_text());
    std::vector<flatbuffers::Offset<fb::Kernel>> rows;
    for (size_t i = 0; i < kReferences; ++i) rows.push_back(fb::CreateKernel(builder, name));
    const auto list = builder.CreateVector(rows);
    return [=](fb::ModelBuilder& model) { model.add_kernels(list); };
  });
  EXPECT_NE(refusal(file).find(kUsedTwice), std::string::npos);
}

TEST(HostileFiles, ManyInputsOfOneTable) {
  const auto file = file_with([](flatbuffers::FlatBufferBuilder& builder) {
    const auto name = builder.CreateString(long_text());
    const std::vector<fb::Expression> expressions = {fb::Expression(fb::ExpressionOp::kConstant, 0, 0, 0, 4)};
    const auto shape = builder.CreateVector(std::vector<uint32_t>());
    const auto tensor =
        fb::CreateTensor(builder, name, static_cast<uint8_t>(DType::kF32), shape, 0, fb::TensorKind::kInput);
    const auto tensors = builder.CreateVector(std::vector<flatbuffers::Offset<fb::Tensor>>(kReferences, tensor));
    std::vector<uint32_t> numbers(kReferences);
    for (uint32_t i = 0; i < kReferences; ++i) numbers[i] = i;
    const auto inputs = builder.CreateVector(numbers);
    const auto expression_list = builder.CreateVectorOfStructs(expressions);
    return [=](fb::ModelBuilder& model) {
      model.add_tensors(tensors);
      model.add_inputs(inputs);
      model.add_expressions(expression_list);
    };
  });
  EXPECT_NE(refusal(file).find(kUsedTwice), std::string::npos);
}

TEST(HostileFiles, SectionsInOnePlace) {
  ModelBuilder b;
  for (uint32_t i = 0; i < 2; ++i) {
    test::KernelRow row{"k" + std::to_string(i), {}};
    row.tir = "func k() -> void { }" + std::string(100, ' ');
    b.kernel(row);
  }
  auto bytes = b.build();
  ASSERT_TRUE(load(bytes).ok());
  const fb::Section* section = fb::GetSizePrefixedModel(bytes.data())->sections()->Get(1);
  const auto* table = reinterpret_cast<const flatbuffers::Table*>(section);
  const size_t field = static_cast<size_t>(reinterpret_cast<const std::byte*>(section) - bytes.data()) +
                       table->GetOptionalFieldOffset(fb::Section::VT_OFFSET_BYTES);
  // The second one moved to where the first one is, and to its middle.
  for (const uint64_t offset : {0u, 64u}) {
    std::memcpy(bytes.data() + field, &offset, sizeof offset);
    const size_t root_size = flatbuffers::ReadScalar<uint32_t>(bytes.data()) + 4;
    const auto seal = make_seal(std::span(bytes).first(root_size), bytes.size());
    std::memcpy(bytes.data() + bytes.size() - kSealBytes, seal.data(), kSealBytes);
    EXPECT_NE(refusal(bytes).find("has bytes in common with section"), std::string::npos);
  }
}

// y[4] = x[4], by a kernel that takes one pointer several times.
ModelBuilder small_model(uint32_t arguments) {
  ModelBuilder b;
  const uint32_t zero = b.constant(0), one = b.constant(1), four = b.constant(4);
  b.tensor("x", DType::kF32, {four}, fb::TensorKind::kInput);
  const uint32_t y = b.tensor("y", DType::kF32, {four}, fb::TensorKind::kOutput);
  const uint32_t kernel = b.kernel({"k", std::vector<bool>(arguments, true)});
  b.launch(kernel, std::vector<fb::Argument>(arguments, b.pointer(y, true, zero)), one);
  return b;
}

TEST(HostileFiles, CommandsWithTheSameArguments) {
  ModelBuilder b = small_model(10000);
  expect_cheap(b.build(), {{4}});
  for (uint32_t i = 0; i < 2000; ++i)
    b.programs[0].tec.emplace_back(b.next_sequence++, 0, 0, 10000, 0, 0, 1, test::kNone);
  EXPECT_NE(refusal(b.build()).find("shares its arguments with other commands"), std::string::npos);
}

TEST(HostileFiles, CommandsWithTheSameWaits) {
  ModelBuilder b = small_model(1);
  b.waits.assign(10000, fb::Wait(fb::Engine::kTec, 0));
  const auto copy_nothing = [&] {
    b.programs[0].dma.emplace_back(b.next_sequence++, 1, 1, 0, 0, 0, 0, 0, 0, 0, 10000, test::kNone);
  };
  copy_nothing();
  expect_cheap(b.build(), {{4}});
  copy_nothing();
  EXPECT_NE(refusal(b.build()).find("shares its waits with other commands"), std::string::npos);
}

// ---- tables whose sizes multiply ----

// Each of many commands is a batch loop, over one symbol or over many.
TEST(HostileFiles, BatchLoopsTimesExpressions) {
  for (const uint32_t symbols : {1u, 40u}) {
    ModelBuilder b;
    const uint32_t one = b.constant(1);
    std::vector<uint32_t> extents;
    for (uint32_t s = 0; s < symbols; ++s) extents.push_back(b.symbol("N" + std::to_string(s), 0, s));
    const uint32_t x = b.tensor("x", DType::kI8, extents, fb::TensorKind::kInput);
    (void)x;
    const uint32_t kernel = b.kernel({"k", {}});
    for (uint32_t i = 0; i < 2000; ++i) {
      b.launch(kernel, {}, one);
      b.batch_loops.emplace_back(i + 1, i + 1, i % symbols);
    }
    while (b.expressions.size() < 20000) b.constant(0);
    std::vector<int64_t> shape(symbols, 1);
    shape[0] = 2;
    expect_cheap(b.build(), {shape});
    if (symbols < 8) continue;
    std::fill_n(shape.begin(), 16, 2);  // two samples in each of these
    expect_cheap(b.build(), {shape});
  }
}

// Many stages, each with a symbol of its own, and many tensors, expressions and outputs in one of them.
TEST(HostileFiles, StagesTimesTensors) {
  ModelBuilder b;
  const uint32_t one = b.constant(1);
  const uint32_t x = b.tensor("x", DType::kI32, {one}, fb::TensorKind::kInput);
  constexpr uint32_t kStages = 2000;
  for (uint32_t i = 0; i < kStages; ++i) {
    b.symbol("S" + std::to_string(i), x, 0, fb::SymbolKind::kTensorElement);
    b.host(fb::HostOp::kBindSymbols, i, 1);
  }
  for (uint32_t i = 0; i < 5000; ++i) {
    const uint32_t t = b.tensor("t", DType::kI8, {one}, i % 2 == 0 ? fb::TensorKind::kArena : fb::TensorKind::kOutput);
    b.tensors[t].first_use = b.tensors[t].last_use = 1;
  }
  expect_cheap(b.build(), {{1}});
}

// Each expression is evaluated in one stage, not in all that follow: no hostile file either, but a long chain of nodes
// whose extents data decides.
TEST(HostileFiles, StagesTimesExpressions) {
  ModelBuilder b;
  const uint32_t one = b.constant(1);
  const uint32_t x = b.tensor("x", DType::kI32, {one}, fb::TensorKind::kInput);
  for (uint32_t i = 0; i < 2000; ++i) {
    b.symbol("S" + std::to_string(i), x, 0, fb::SymbolKind::kTensorElement);
    b.host(fb::HostOp::kBindSymbols, i, 1);
  }
  while (b.expressions.size() < 20000) b.constant(0);
  const auto model = load(b.build());
  ASSERT_TRUE(model.ok()) << model.status().message();
  SessionOptions options;
  options.threads = 1;
  options.memory_limit_bytes = 32 << 20;  // what is charged, not only what is held at a time
  const auto session = Session::create(*model, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const int32_t zero = 0;
  ASSERT_TRUE((*session)->bind_input(0, {DType::kI32, std::vector<int64_t>{1}, &zero}).ok());
  const Status status = (*session)->run();
  EXPECT_TRUE(status.ok()) << status.message();
}

}  // namespace
}  // namespace aipu::runtime
