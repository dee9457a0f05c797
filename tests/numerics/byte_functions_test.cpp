// What several ops make of an 8-bit integer, looked up in a table (pass tabulate_bytes): against the same written out in
// double, and against the ops' own kernels, bit by bit. And int8 that becomes uint8 (pass unsigned_bytes).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codegen/targets/target.h"
#include "gbuilder/evaluator.h"
#include "graph/passes/passes.h"
#include "kernels/plugin.h"
#include "tests/numerics/road.h"

namespace aipu::test {
namespace {

using models::Extents;
using models::OnnxBuilder;
using models::TensorData;

struct Step {
  float scale;
  int64_t zero;
};

struct Rounded {
  DType dtype;
  double low() const { return dtype == DType::kI8 ? -128 : 0; }
  double operator()(double value, const Step& step) const {
    const auto quotient = static_cast<double>(static_cast<float>(value) / step.scale);
    const double integer = std::clamp(std::nearbyint(quotient) + static_cast<double>(step.zero), low(), low() + 255);
    return (integer - static_cast<double>(step.zero)) * step.scale;
  }
};

// QuantizeLinear and DequantizeLinear, in a model.
class Writer {
 public:
  Writer(OnnxBuilder& b, DType dtype) : b_(b), dtype_(dtype) {}
  std::string quantize(const std::string& x, const Step& step) {
    return b_.op("QuantizeLinear", {x, scale(step), zero(step)});
  }
  std::string dequantize(const std::string& x, const Step& step) {
    return b_.op("DequantizeLinear", {x, scale(step), zero(step)});
  }
  std::string round(const std::string& x, const Step& step) { return dequantize(quantize(x, step), step); }
  std::string number(float value) { return b_.initializer(TensorData::f32({}, {value})); }

 private:
  std::string scale(const Step& step) { return number(step.scale); }
  std::string zero(const Step& step) {
    return b_.initializer({dtype_, {}, {static_cast<std::byte>(static_cast<uint8_t>(step.zero))}});
  }
  OnnxBuilder& b_;
  DType dtype_;
};

constexpr Step kInput{0.047f, 0}, kInner{0.0079f, 0}, kSecond{0.0163f, 0}, kThird{0.041f, 0}, kResult{0.0217f, 0};
Step moved(Step step, DType dtype, int64_t zero) {
  step.zero = dtype == DType::kI8 ? zero - 128 : zero;
  return step;
}

// x * sigmoid(x), and Gelu with erf, as quantisers write them that observe every tensor.
std::string swish(OnnxBuilder& b, Writer& w, const std::string& x, DType dtype) {
  const std::string gate = w.round(b.op("Sigmoid", {x}), moved(kInner, dtype, 0));
  return b.op("Mul", {x, gate});
}
double swish(const Rounded& r, double x) { return x * r(1 / (1 + std::exp(-x)), moved(kInner, r.dtype, 0)); }
std::string gelu(OnnxBuilder& b, Writer& w, const std::string& x, DType dtype) {
  const std::string error = w.round(b.op("Erf", {b.op("Div", {x, w.number(1.4142135f)})}), moved(kInner, dtype, 128));
  const std::string sum = w.round(b.op("Add", {error, w.number(1)}), moved(kSecond, dtype, 3));
  const std::string product = w.round(b.op("Mul", {x, sum}), moved(kThird, dtype, 20));
  return b.op("Mul", {product, w.number(0.5)});
}
double gelu(const Rounded& r, double x) {
  const double error = r(std::erf(x / 1.4142135f), moved(kInner, r.dtype, 128));
  return 0.5 * r(x * r(error + 1, moved(kSecond, r.dtype, 3)), moved(kThird, r.dtype, 20));
}

// The last one has tables in registers, if there is one.
std::vector<std::string> targets() {
  std::vector<std::string> targets = runnable_targets();
  if (__builtin_cpu_supports("avx512vnni") != 0 && __builtin_cpu_supports("avx512bw") != 0)
    targets.emplace_back("host-avx512-vnni");
  return targets;
}

TEST(ByteFunctions, AreWhatIsWrittenOut) {
  for (const DType dtype : {DType::kU8, DType::kI8}) {
    for (const bool is_gelu : {false, true}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + (is_gelu ? " Gelu" : " SiLU"));
      const Rounded rounded{dtype};
      const Step input = moved(kInput, dtype, 117), result = moved(kResult, dtype, 29);
      OnnxBuilder b("bytes", 1);
      b.set_opset(20);
      Writer w(b, dtype);
      // 277 elements: every byte, and a tail.
      const std::string bytes = b.op("Cast", {b.input("x", DType::kF32, {277})}, {{"to", dtype == DType::kI8 ? 3 : 2}});
      const std::string x = w.dequantize(bytes, input);
      const std::string y = is_gelu ? gelu(b, w, x, dtype) : swish(b, w, x, dtype);
      b.output(b.op("Cast", {w.quantize(y, result)}, {{"to", 1}}), "y", DType::kF32, {277});
      Tensor in{{277}, {}}, expected{{277}, {}};
      for (int64_t k = 0; k < 277; ++k) {
        const double integer = static_cast<double>(k % 256) + rounded.low();
        in.data.push_back(static_cast<float>(integer));
        const double real = (integer - static_cast<double>(input.zero)) * input.scale;
        const double value = rounded(is_gelu ? gelu(rounded, real) : swish(rounded, real), result);
        expected.data.push_back(
            static_cast<float>(std::nearbyint(value / result.scale) + static_cast<double>(result.zero)));
      }
      const std::string path = temporary_path("byte_function.onnx");
      ASSERT_TRUE(b.save(path).ok());
      for (const std::string& target : targets()) {
        const auto actual = run_road(path, {{"x", in}}, {.target = target});
        ASSERT_TRUE(actual.ok()) << target << ": " << actual.status().message();
        expect_close(actual->at("y"), expected, 0, 0, target);
      }
      const auto interpreted = run_road(path, {{"x", in}}, {.target = "host-avx512-vnni", .backend = "interp"});
      ASSERT_TRUE(interpreted.ok()) << interpreted.status().message();
      expect_close(interpreted->at("y"), expected, 0, 0, "interpreted");
    }
  }
}

// In the store of a product and of a convolution, whole panels and what is left over.
TEST(ByteFunctions, InTheStoreOfAProduct) {
  for (const bool is_depthwise : {false, true}) {
    for (const DType dtype : {DType::kU8, DType::kI8}) {
      SCOPED_TRACE(std::string(dtype_name(dtype)) + (is_depthwise ? " depthwise" : " 1x1"));
      const std::string target = dtype == DType::kU8 ? targets().back() : "host-avx2";
      if (const auto runnable = runnable_targets();
          std::find(runnable.begin(), runnable.end(), target) == runnable.end())
        continue;
      std::mt19937 random(3);
      const Step image = moved({0.02f, 0}, dtype, 128), weights{0.01f, 0}, sums = moved(kInput, dtype, 117);
      OnnxBuilder b("store", 2);
      b.set_opset(20);
      Writer w(b, dtype), of_weights(b, DType::kI8);
      const int64_t channels = 52, outputs = is_depthwise ? channels : 109;
      TensorData kernel{
          DType::kI8, {outputs, is_depthwise ? 1 : channels, is_depthwise ? 3 : 1, is_depthwise ? 3 : 1}, {}};
      int64_t count = 1;
      for (const int64_t extent : kernel.shape) count *= extent;
      for (int64_t k = 0; k < count; ++k) kernel.bytes.push_back(static_cast<std::byte>(random() & 0xff));
      const std::string x = w.round(b.input("x", DType::kF32, {1, channels, 9, 11}), image);
      const std::string conv =
          b.op("Conv", {x, of_weights.dequantize(b.initializer(kernel), weights)},
               is_depthwise ? models::NamedAttributes{{"group", channels}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}}
                            : models::NamedAttributes{});
      const std::string rounded = w.round(conv, sums);
      const std::string y = w.quantize(swish(b, w, rounded, dtype), moved(kResult, dtype, 29));
      b.output(b.op("Cast", {y}, {{"to", 1}}), "y", DType::kF32, {1, outputs, 9, 11});
      const std::string path = temporary_path("byte_store.onnx");
      ASSERT_TRUE(b.save(path).ok());
      const std::map<std::string, Tensor> inputs = {{"x", random_tensor(random, {1, channels, 9, 11}, -2.5, 2.5)}};
      const auto actual = run_road(path, inputs, {.target = target});
      const auto expected = run_road(path, inputs, {.target = target, .disabled_passes = {"tabulate_bytes"}});
      ASSERT_TRUE(actual.ok()) << target << ": " << actual.status().message();
      ASSERT_TRUE(expected.ok()) << target << ": " << expected.status().message();
      expect_close(actual->at("y"), expected->at("y"), 0, 0, target);
      EXPECT_NE(groups_of(path, target).find("aipu::ByteFunction"), std::string::npos) << target;
    }
  }
}

// Pass unsigned_bytes: int8 behind convolutions with borders, pools and a residual sum, against the same without it.
TEST(UnsignedBytes, GiveTheSame) {
  const std::string target = targets().back();
  for (const int64_t zero : {0, 37}) {
    SCOPED_TRACE(zero);
    std::mt19937 random(static_cast<unsigned>(zero + 200));
    OnnxBuilder b("unsigned", 4);
    b.set_opset(20);
    Writer w(b, DType::kI8);
    const Step step{0.03f, zero}, weights{0.01f, 0};
    const auto kernel = [&](int64_t out, int64_t in, int64_t size) {
      TensorData data{DType::kI8, {out, in, size, size}, {}};
      for (int64_t k = 0; k < out * in * size * size; ++k)
        data.bytes.push_back(static_cast<std::byte>(random() & 0xff));
      return w.dequantize(b.initializer(data), weights);
    };
    const std::vector<int64_t> border = {1, 1, 1, 1};
    const std::string x = w.round(b.input("x", DType::kF32, {2, 12, 10, 9}), step);
    const std::string first = w.round(b.op("Conv", {x, kernel(20, 12, 3)}, {{"pads", border}}), step);
    const std::string pool = b.op("MaxPool", {first}, {{"kernel_shape", std::vector<int64_t>{3, 3}}, {"pads", border}});
    const std::string deep = b.op("Conv", {pool, kernel(20, 1, 3)}, {{"pads", border}, {"group", 20}});
    const std::string sum = w.round(b.op("Add", {w.round(deep, step), first}), step);
    b.output(b.op("Conv", {sum, kernel(7, 20, 1)}), "y", DType::kF32, {2, 7, 10, 9});
    const std::string path = temporary_path("unsigned.onnx");
    ASSERT_TRUE(b.save(path).ok());
    const std::map<std::string, Tensor> inputs = {{"x", random_tensor(random, {2, 12, 10, 9}, -3, 3)}};
    const auto actual = run_road(path, inputs, {.target = target});
    const auto expected = run_road(path, inputs, {.target = target, .disabled_passes = {"unsigned_bytes"}});
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    expect_close(actual->at("y"), expected->at("y"), 0, 0, target);
  }
}

// The pass takes all of it, up to the integers that others read too, and leaves what a few instructions do.
TEST(ByteFunctions, AreAsLongAsTheyCan) {
  kernels::PluginRegistry registry = kernels::PluginRegistry::with_builtins();
  const tir::Target target = *tir::find_target("host-baseline");
  const auto evaluator = gbuilder::make_evaluator(&registry, &target, {});
  graph::PassContext context;
  context.evaluator = evaluator.get();
  const auto after = [&](const std::string& body) {
    auto parsed = graph::parse_graph(
        "graph \"g\" {\n  const %s = float32[] {0.25}\n  const %z = uint8[] {128}\n" + body + "}", {});
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    const auto count = graph::tabulate_bytes(**parsed, context);
    EXPECT_TRUE(count.ok()) << count.status().message();
    return std::pair(count.ok() ? *count : -1, graph::print_graph(**parsed));
  };
  const auto [count, text] = after(R"(
    input %x: uint8[N,4]
    %a = DequantizeLinear(%x, %s, %z)
    %b = HardSigmoid(%a)
    %c = QuantizeLinear(%b, %s, %z)
    %d = DequantizeLinear(%c, %s, %z)
    %e = Mul(%a, %d)
    %y = QuantizeLinear(%e, %s, %z)
    symbol N = extent 0 of %x
    output "y" = %y
  )");
  EXPECT_EQ(count, 1);
  EXPECT_NE(text.find("aipu::ByteFunction\"(%x)"), std::string::npos) << text;
  EXPECT_EQ(text.find("QuantizeLinear(%"), std::string::npos) << text;
  const std::string relu = R"(
    input %x: uint8[N,4]
    %a = DequantizeLinear(%x, %s, %z)
    %b = Relu(%a)
    %y = QuantizeLinear(%b, %s, %z)
    symbol N = extent 0 of %x
    output "y" = %y
  )";
  EXPECT_EQ(after(relu).first, 0);
  const std::string of_two = R"(
    input %x: uint8[N,4]
    input %v: uint8[N,4]
    %a = DequantizeLinear(%x, %s, %z)
    %b = DequantizeLinear(%v, %s, %z)
    %c = Sigmoid(%a)
    %d = Mul(%b, %c)
    %y = QuantizeLinear(%d, %s, %z)
    symbol N = extent 0 of %x
    output "y" = %y
  )";
  EXPECT_EQ(after(of_two).first, 0);
}

}  // namespace
}  // namespace aipu::test
