// Tensors around and beyond 2^31 elements, run on the CPU: what their last elements become. Memory that is never
// written costs nothing, so inputs are zero but for a few elements. Runs alone (tests/numerics/CMakeLists.txt).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <fstream>

#include "gbuilder/build.h"
#include "models/onnx_builder.h"
#include "runtime/session.h"
#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::Extents;
using models::OnnxBuilder;
using ::testing::HasSubstr;

constexpr int64_t kLimit = int64_t{1} << 31;

// Zero pages until they are written.
class Memory {
 public:
  explicit Memory(int64_t bytes) : size_(static_cast<size_t>(bytes)) {
    data_ = static_cast<int8_t*>(
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    EXPECT_NE(static_cast<void*>(data_), MAP_FAILED);
  }
  ~Memory() { ::munmap(data_, size_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  int8_t* data() { return data_; }
  int8_t& operator[](int64_t i) { return data_[i]; }

 private:
  size_t size_;
  int8_t* data_;
};

int64_t available_mib() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("MemAvailable:")) return std::stoll(line.substr(13)) / 1024;
  }
  return 0;
}

class Large : public ::testing::Test {
 protected:
  void SetUp() override {
    if (available_mib() < 8 * 1024) GTEST_SKIP() << "less than 8 GiB of memory are available";
  }

  // Converts and loads `b`, whose input 0 is x, and runs it on x of `shape`; further inputs in `others`.
  void run(OnnxBuilder& b, Memory& x, const std::vector<int64_t>& shape, const std::string& backend = "") {
    static int number = 0;
    const std::string path = temporary_path("large" + std::to_string(++number) + ".onnx");
    ASSERT_TRUE(b.save(path).ok());
    gbuilder::BuildOptions build;
    build.model = path;
    build.output = path + ".aipu.bin";
    build.target = "host-baseline";
    const auto built = gbuilder::build_model(build);
    ASSERT_TRUE(built.ok()) << built.status().message();
    runtime::LoadOptions load;
    load.backend = backend;
    const auto model = runtime::Model::load(build.output, load);
    ASSERT_TRUE(model.ok()) << model.status().message();
    runtime::SessionOptions options;
    options.memory_limit_bytes = int64_t{8} << 30;  // what interp has without is less
    options.threads = 2;
    auto session = runtime::Session::create(*model, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    session_ = std::move(*session);
    ASSERT_TRUE(session_->bind_input(0, {DType::kI8, shape, x.data()}).ok());
    const Status status = session_->run();
    ASSERT_TRUE(status.ok()) << status.message();
    const auto y = session_->output(0);
    ASSERT_TRUE(y.ok()) << y.status().message();
    y_ = *y;
  }

  template <typename T = int8_t>
  T y(int64_t i) const {
    return static_cast<const T*>(y_.data)[i];
  }

  std::unique_ptr<runtime::Session> session_;
  runtime::TensorView y_;
};

class LargeNeg : public Large, public ::testing::WithParamInterface<int64_t> {};

TEST_P(LargeNeg, EveryElement) {
  const int64_t n = GetParam();
  OnnxBuilder b("neg");
  b.output(b.op("Neg", {b.input("x", DType::kI8, {"N"})}), "y", DType::kI8, {"N"});
  Memory x(n);
  for (int64_t i = 0; i < n; i += 4093) x[i] = static_cast<int8_t>(i % 127 + 1);
  for (int64_t i = n - 300; i < n; ++i) x[i] = static_cast<int8_t>(i % 127 + 1);
  ASSERT_NO_FATAL_FAILURE(run(b, x, {n}));
  ASSERT_EQ(y_.shape[0], n);
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) wrong += y(i) != -x[i];
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Around, LargeNeg, ::testing::Values(kLimit - 64, kLimit + 64));

// One small output each of x with `n` elements.
class LargeInput : public Large {
 protected:
  static constexpr int64_t kElements = kLimit + 100;
  LargeInput() : x_(kElements) {
    for (int64_t i = 0; i < 100; ++i) x_[i] = static_cast<int8_t>(i + 20);
    for (int64_t i = -100; i < 100; ++i) x_[kLimit + i] = static_cast<int8_t>(i);
  }
  Memory x_;
};

TEST_F(LargeInput, Gather) {
  for (const char* backend : {"", "interp"}) {
    OnnxBuilder b("gather");
    const std::string x = b.input("x", DType::kI8, {"N"});
    b.output(b.op("Gather", {x, b.ints({kLimit + 50, -1, kLimit - 1, 7, -kElements})}), "y", DType::kI8, {5});
    ASSERT_NO_FATAL_FAILURE(run(b, x_, {kElements}, backend));
    EXPECT_EQ(std::vector<int8_t>(&static_cast<const int8_t*>(y_.data)[0], &static_cast<const int8_t*>(y_.data)[5]),
              (std::vector<int8_t>{50, 99, -1, 27, 20}))
        << backend;
  }
}

TEST_F(LargeInput, GatherOfRows) {
  OnnxBuilder b("gather");
  const std::string x = b.input("x", DType::kI8, {"N", 100});
  b.output(b.op("Gather", {x, b.ints({kElements / 100 - 1, 0})}), "y", DType::kI8, {2, 100});
  ASSERT_NO_FATAL_FAILURE(run(b, x_, {kElements / 100, 100}));
  const int64_t last = (kElements / 100 - 1) * 100;
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(y(i), x_[last + i]) << i;
    EXPECT_EQ(y(100 + i), x_[i]) << i;
  }
}

TEST_F(LargeInput, GatherElementsAndNd) {
  OnnxBuilder b("gather");
  const std::string x = b.input("x", DType::kI8, {"N"});
  const std::string a = b.op("GatherElements", {x, b.ints({kLimit + 50, -3, 4})});
  const std::string nd = b.op("GatherND", {x, b.initializer(models::TensorData::i64({2, 1}, {kLimit + 51, -2}))});
  b.output(b.op("Concat", {a, nd}, {{"axis", 0}}), "y", DType::kI8, {5});
  ASSERT_NO_FATAL_FAILURE(run(b, x_, {kElements}));
  EXPECT_EQ(y(0), 50);
  EXPECT_EQ(y(1), 97);
  EXPECT_EQ(y(2), 24);
  EXPECT_EQ(y(3), 51);
  EXPECT_EQ(y(4), 98);
}

TEST_F(LargeInput, Slices) {
  for (const char* extent : {"N", ""}) {  // symbolic and fixed
    const Extents extents = *extent != 0 ? Extents{extent} : Extents{kElements};
    OnnxBuilder b("slice");
    const std::string x = b.input("x", DType::kI8, extents);
    const std::string far = b.op("Slice", {x, b.ints({kLimit + 10}), b.ints({kLimit + 20})});
    const std::string last = b.op("Slice", {x, b.ints({-3}), b.ints({INT64_MAX})});
    const std::string wide =
        b.op("Slice", {x, b.ints({5}), b.ints({kLimit + 80}), b.ints({0}), b.ints({kLimit / 2 + 30})});
    b.output(b.op("Concat", {b.op("Neg", {far}), b.op("Neg", {last}), b.op("Neg", {wide})}, {{"axis", 0}}), "y",
             DType::kI8, {15});
    ASSERT_NO_FATAL_FAILURE(run(b, x_, {kElements}));
    for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(y(i), -(10 + i)) << extent;
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(y(10 + i), -(97 + i)) << extent;
    EXPECT_EQ(y(13), -25) << extent;
    EXPECT_EQ(y(14), 0) << extent;
  }
}

TEST_F(LargeInput, SliceEndsWhereItSays) {
  OnnxBuilder b("slice");
  const std::string x = b.input("x", DType::kI8, {kElements});
  const std::string part = b.op("Slice", {x, b.ints({INT32_MAX - 2}), b.ints({INT32_MAX})});
  b.output(b.op("Neg", {part}), "y", DType::kI8, {2});
  ASSERT_NO_FATAL_FAILURE(run(b, x_, {kElements}));
  ASSERT_EQ(y_.shape[0], 2);
  EXPECT_EQ(y(0), 3);
  EXPECT_EQ(y(1), 2);
}

// On an axis whose extent is open, INT32_MAX is how exporters write "to the end".
TEST_F(LargeInput, SliceToTheEndOfAnOpenAxis) {
  OnnxBuilder b("slice");
  const std::string x = b.input("x", DType::kI8, {"N"});
  const std::string last = b.op("Slice", {x, b.ints({kLimit + 90}), b.ints({INT32_MAX})});
  const std::string back = b.op("Slice", {x, b.ints({-2}), b.ints({INT32_MAX})});
  const std::string down = b.op("Slice", {x, b.ints({INT32_MAX}), b.ints({-3}), b.ints({0}), b.ints({-1})});
  b.output(b.op("Neg", {b.op("Concat", {last, back, down}, {{"axis", 0}})}), "y", DType::kI8, {"M"});
  ASSERT_NO_FATAL_FAILURE(run(b, x_, {kElements}));
  ASSERT_EQ(y_.shape[0], 14);
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(y(i), -(90 + i));
  EXPECT_EQ(y(10), -98);
  EXPECT_EQ(y(11), -99);
  EXPECT_EQ(y(12), -99);
  EXPECT_EQ(y(13), -98);
}

TEST_F(LargeInput, ReduceAndArgMax) {
  x_[kLimit + 60] = 127;
  x_[kLimit + 61] = -128;
  OnnxBuilder b("reduce");
  b.set_opset(18);
  const std::string x = b.input("x", DType::kI8, {"N"});
  b.output(b.op("ArgMax", {x}, {{"axis", 0}, {"keepdims", 1}}), "at", DType::kI64, {1});
  b.output(b.op("ReduceMin", {x}, {{"keepdims", 1}}), "least", DType::kI8, {1});
  ASSERT_NO_FATAL_FAILURE(run(b, x_, {kElements}));
  EXPECT_EQ(y<int64_t>(0), kLimit + 60);
  const auto least = session_->output(1);
  ASSERT_TRUE(least.ok());
  EXPECT_EQ(*static_cast<const int8_t*>(least->data), -128);
}

TEST_F(LargeInput, Transposed) {
  // The output is as large as the input.
  const int64_t columns = kElements / 2;
  OnnxBuilder b("move");
  const std::string x = b.input("x", DType::kI8, {2, "N"});
  b.output(b.transpose(x, {1, 0}), "y", DType::kI8, {"N", 2});
  ASSERT_NO_FATAL_FAILURE(run(b, x_, {2, columns}));
  int64_t wrong = 0;
  for (int64_t i = 0; i < columns; ++i) wrong += y(2 * i) != x_[i] || y(2 * i + 1) != x_[columns + i];
  EXPECT_EQ(wrong, 0);
}

// Kernels for a Compass NPU index with 32 bits: what they would get wrong is refused, when converting where the shapes
// are known, else when they are bound.
TEST(LargeRefused, OnCompass) {
  const auto model_of = [](const Extents& extents, const std::string& name) {
    OnnxBuilder b(name);
    b.output(b.op("Neg", {b.input("x", DType::kI8, extents)}, {}), "y", DType::kI8, extents);
    gbuilder::BuildOptions build;
    build.model = temporary_path(name + ".onnx");
    build.output = build.model + ".aipu.bin";
    build.target = "X2_1204";
    EXPECT_TRUE(b.save(build.model).ok());
    return build;
  };
  const Status fixed = gbuilder::build_model(model_of({kLimit - 64}, "fixed")).status();
  EXPECT_THAT(fixed.message(), HasSubstr("node '/Neg' (Neg)"));
  EXPECT_THAT(fixed.message(), HasSubstr("computes positions in 32 bits and reaches 2147418112 bytes of argument 0, "
                                         "tensor 'x', which has 2147483584"));
  const gbuilder::BuildOptions build = model_of({"N"}, "symbolic");
  ASSERT_TRUE(gbuilder::build_model(build).ok());
  const auto model = runtime::Model::load(build.output, {});
  ASSERT_TRUE(model.ok()) << model.status().message();
  runtime::SessionOptions options;
  options.memory_limit_bytes = int64_t{1} << 40;
  const auto session = runtime::Session::create(*model, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const int8_t nothing = 0;
  const int64_t shape[] = {kLimit - 64};
  ASSERT_TRUE((*session)->bind_input(0, {DType::kI8, shape, &nothing}).ok());
  const std::string message = (*session)->prepare().message();
  EXPECT_THAT(message, HasSubstr("(Neg)"));
  EXPECT_THAT(message, HasSubstr("tensor 'x' has 2147483584 bytes; the kernel computes positions in 32 bits"));
}

// Kernels of the host that count in int32 tensors: as many positions as those have, and no more.
class LargeRefusedByCounts : public ::testing::Test {
 protected:
  static Result<std::unique_ptr<runtime::Session>> session_of(OnnxBuilder& b, const std::string& name) {
    gbuilder::BuildOptions build;
    build.model = temporary_path(name + ".onnx");
    build.output = build.model + ".aipu.bin";
    build.target = "host-baseline";
    EXPECT_TRUE(b.save(build.model).ok());
    AIPU_RETURN_IF_ERROR(gbuilder::build_model(build).status());
    AIPU_ASSIGN_OR_RETURN(const auto model, runtime::Model::load(build.output, {}));
    runtime::SessionOptions options;
    options.memory_limit_bytes = int64_t{1} << 40;
    options.threads = 2;
    return runtime::Session::create(model, options);
  }
  static constexpr const char* kRefused = "computes positions in 32 bits and reaches";
};

TEST_F(LargeRefusedByCounts, Unique) {
  for (const bool open : {true, false}) {
    OnnxBuilder b("unique");
    const std::string x = open ? b.input("x", DType::kI8, {"N"}) : b.input("x", DType::kI8, {kLimit - 64});
    b.output(b.op("Unique", {x}), "y", DType::kI8, {"M"});
    const auto session = session_of(b, "unique");
    if (!open) {
      EXPECT_THAT(session.status().message(), HasSubstr("node '/Unique' (Unique)"));
      EXPECT_THAT(session.status().message(), HasSubstr(kRefused));
      continue;
    }
    ASSERT_TRUE(session.ok()) << session.status().message();
    const int8_t nothing = 0;
    const int64_t shape[] = {kLimit - 64};
    ASSERT_TRUE((*session)->bind_input(0, {DType::kI8, shape, &nothing}).ok());
    EXPECT_THAT((*session)->prepare().message(), HasSubstr(kRefused));
  }
}

TEST_F(LargeRefusedByCounts, NonMaxSuppression) {
  OnnxBuilder b("suppression");
  const std::string boxes = b.input("boxes", DType::kF32, {1, "N", 4}),
                    scores = b.input("scores", DType::kF32, {1, 1, "N"});
  b.output(b.op("NonMaxSuppression", {boxes, scores, b.ints({5})}), "y", DType::kI64, {"M", 3});
  const auto session = session_of(b, "suppression");
  ASSERT_TRUE(session.ok()) << session.status().message();
  const float nothing = 0;
  const int64_t box_shape[] = {1, kLimit / 4, 4}, score_shape[] = {1, 1, kLimit / 4};
  ASSERT_TRUE((*session)->bind_input(0, {DType::kF32, box_shape, &nothing}).ok());
  ASSERT_TRUE((*session)->bind_input(1, {DType::kF32, score_shape, &nothing}).ok());
  EXPECT_THAT((*session)->prepare().message(), HasSubstr(kRefused));
}

// Up to the limit they are right. 8 GiB of output: with AIPU_LARGE_TESTS only.
TEST_F(LargeRefusedByCounts, RangeOfInt32UpToTheLimit) {
  if (std::getenv("AIPU_LARGE_TESTS") == nullptr) GTEST_SKIP() << "AIPU_LARGE_TESTS is not set";
  constexpr int64_t kMost = kLimit - (1 << 16);
  OnnxBuilder b("range");
  const std::string first = b.input("first", DType::kI32, {}), last = b.input("last", DType::kI32, {});
  b.output(b.op("Range", {first, last, b.initializer(models::TensorData::of<int32_t>(DType::kI32, {}, {1}))}), "y",
           DType::kI32, {"M"});
  const auto session = session_of(b, "range");
  ASSERT_TRUE(session.ok()) << session.status().message();
  Memory memory(kMost * 4);
  ASSERT_TRUE((*session)->bind_output(0, memory.data(), static_cast<size_t>(kMost) * 4).ok());
  const int32_t from = -5, to = static_cast<int32_t>(kMost - 5);
  ASSERT_TRUE((*session)->bind_input(0, {DType::kI32, {}, &from}).ok());
  ASSERT_TRUE((*session)->bind_input(1, {DType::kI32, {}, &to}).ok());
  const Status status = (*session)->run();
  ASSERT_TRUE(status.ok()) << status.message();
  const auto* y = reinterpret_cast<const int32_t*>(memory.data());
  int64_t wrong = 0;
  for (int64_t i = 0; i < kMost; ++i) wrong += y[i] != i - 5;
  EXPECT_EQ(wrong, 0);
}

TEST_F(LargeRefusedByCounts, RangeOfInt32) {
  OnnxBuilder b("range");
  const std::string first = b.input("first", DType::kI32, {}), last = b.input("last", DType::kI32, {});
  const std::string delta = b.input("delta", DType::kI32, {});
  b.output(b.op("Range", {first, last, delta}), "y", DType::kI32, {"M"});
  const auto session = session_of(b, "range");
  ASSERT_TRUE(session.ok()) << session.status().message();
  int32_t from = -100, to = INT32_MAX, by = 1;
  ASSERT_TRUE((*session)->bind_input(0, {DType::kI32, {}, &from}).ok());
  ASSERT_TRUE((*session)->bind_input(1, {DType::kI32, {}, &to}).ok());
  ASSERT_TRUE((*session)->bind_input(2, {DType::kI32, {}, &by}).ok());
  EXPECT_THAT((*session)->run().message(), HasSubstr(kRefused));
  // The way from first to last takes 33 bits, what comes of it does not.
  from = -2000000000, to = by = 2000000000;
  const Status status = (*session)->run();
  ASSERT_TRUE(status.ok()) << status.message();
  const auto y = (*session)->output(0);
  ASSERT_EQ(y->shape[0], 2);
  EXPECT_EQ(static_cast<const int32_t*>(y->data)[0], -2000000000);
  EXPECT_EQ(static_cast<const int32_t*>(y->data)[1], 0);
}

}  // namespace
}  // namespace aipu::test
