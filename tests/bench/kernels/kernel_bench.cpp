// Speed of the product kernels as shipped, beside the machine's peak measured in the same run: whole models of one
// layer are converted and run, and the time of their kernels is read off the profile. `kernel_bench [--target T]
// [--filter TEXT] [--keep-winograd] [--fast-math] [--precision P]`. Products of bytes are beside the peak of the CPU's
// dot products of bytes (of tiles with a target that has them), what `--precision bf16` makes of the others beside that of float32 or, with a target that has
// it, of the instruction for bfloat16.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "codegen/targets/target.h"
#include "gbuilder/build.h"
#include "models/architectures.h"
#include "models/onnx_builder.h"
#include "runtime/session.h"
#include "runtime/tools/machine_peak.h"

namespace aipu::bench {
namespace {

using models::ConvOptions;
using models::OnnxBuilder;

// What a peak is of.
enum class Products { kFloats, kBfloats, kBytes };

struct Case {
  std::string name;
  std::function<std::unique_ptr<OnnxBuilder>()> make;
  Products products = Products::kFloats;
};

std::unique_ptr<OnnxBuilder> matmul(int64_t m, int64_t k, int64_t n, bool constant, int64_t batches = 1) {
  auto b = std::make_unique<OnnxBuilder>("matmul", 1);
  const std::string x = b->input("x", DType::kF32, {batches, m, k});
  const std::string w = constant ? b->weight({k, n}, 0.1) : b->input("w", DType::kF32, {batches, k, n});
  b->output(b->op("MatMul", {x, w}), "y", DType::kF32, {batches, m, n});
  return b;
}

models::TensorData byte_elements(DType type, const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<uint8_t> elements(static_cast<size_t>(count));
  uint64_t state = 1;
  for (uint8_t& element : elements) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    element = static_cast<uint8_t>(state >> 56);
  }
  return models::TensorData::of<uint8_t>(type, shape, elements);
}

// Of uint8 by int8 with a scale for each column, to uint8.
std::unique_ptr<OnnxBuilder> byte_matmul(int64_t m, int64_t k, int64_t n) {
  auto b = std::make_unique<OnnxBuilder>("matmul", 1);
  const std::string x = b->input("x", DType::kU8, {m, k});
  const std::string w = b->initializer(byte_elements(DType::kI8, {k, n}));
  const auto number = [&](DType type, uint8_t value) {
    return b->initializer(models::TensorData::of<uint8_t>(type, {}, {value}));
  };
  const std::string scales =
      b->initializer(models::TensorData::f32({n}, std::vector<float>(static_cast<size_t>(n), 0.01f)));
  const std::string zeros =
      b->initializer(models::TensorData::of<uint8_t>(DType::kI8, {n}, std::vector<uint8_t>(static_cast<size_t>(n), 0)));
  b->output(b->op("QLinearMatMul", {x, b->scalar(0.02f), number(DType::kU8, 0), w, scales, zeros, b->scalar(0.5f),
                                    number(DType::kU8, 128)}),
            "y", DType::kU8, {m, n});
  return b;
}

std::unique_ptr<OnnxBuilder> convolution(int64_t extent, int64_t in, int64_t out, int64_t kernel, int64_t stride,
                                         int64_t groups = 1) {
  auto b = std::make_unique<OnnxBuilder>("conv", 1);
  const std::string x = b->input("x", DType::kF32, {int64_t{1}, in, extent, extent});
  const int64_t pad = kernel / 2;
  b->output(
      b->relu(b->conv(
          x, in, out,
          {.kernel = {kernel, kernel}, .strides = {stride, stride}, .pads = {pad, pad, pad, pad}, .groups = groups})),
      "y", DType::kF32, {"", "", "", ""});
  return b;
}

std::unique_ptr<OnnxBuilder> transposed_convolution(int64_t extent, int64_t in, int64_t out, int64_t kernel,
                                                    int64_t stride) {
  auto b = std::make_unique<OnnxBuilder>("conv_transpose", 1);
  const std::string x = b->input("x", DType::kF32, {int64_t{1}, in, extent, extent});
  const int64_t pad = (kernel - stride + 1) / 2;
  const std::string y =
      b->op("ConvTranspose", {x, b->weight({in, out, kernel, kernel}, 0.1), b->weight({out}, 0.1)},
            {{"strides", std::vector<int64_t>{stride, stride}}, {"pads", std::vector<int64_t>{pad, pad, pad, pad}}});
  b->output(b->relu(y), "y", DType::kF32, {"", "", "", ""});
  return b;
}

// One layer of a decoder's step: `queries` new positions against `keys` cached ones.
std::unique_ptr<OnnxBuilder> attention_step(int64_t heads, int64_t queries, int64_t keys, int64_t depth) {
  auto b = std::make_unique<OnnxBuilder>("attention_step", 1);
  const std::string q = b->input("q", DType::kF32, {int64_t{1}, heads, queries, depth});
  const std::string k = b->input("k", DType::kF32, {int64_t{1}, heads, keys, depth});
  const std::string v = b->input("v", DType::kF32, {int64_t{1}, heads, keys, depth});
  const std::string scores = b->op("Mul", {b->op("MatMul", {q, b->transpose(k, {0, 1, 3, 2})}), b->scalar(0.125f)});
  b->output(b->op("MatMul", {b->op("Softmax", {scores}, {{"axis", -1}}), v}), "y", DType::kF32,
            {int64_t{1}, heads, queries, depth});
  return b;
}

std::vector<Case> cases() {
  return {
      {"gemm 1024x1024x1024", [] { return matmul(1024, 1024, 1024, true); }},
      {"gemm 512x512x512", [] { return matmul(512, 512, 512, true); }},
      {"gemm 128x768x3072", [] { return matmul(128, 768, 3072, true); }},
      {"gemm 128x3072x768", [] { return matmul(128, 3072, 768, true); }},
      {"gemm 8x768x768", [] { return matmul(8, 768, 768, true); }},
      {"gemm of bytes 1024x1024x1024", [] { return byte_matmul(1024, 1024, 1024); }, Products::kBytes},
      {"gemm of bytes 512x512x512", [] { return byte_matmul(512, 512, 512); }, Products::kBytes},
      {"gemm of bytes 128x768x3072", [] { return byte_matmul(128, 768, 3072); }, Products::kBytes},
      {"gemm of bytes 128x3072x768", [] { return byte_matmul(128, 3072, 768); }, Products::kBytes},
      {"gemv 1x4096x4096", [] { return matmul(1, 4096, 4096, true); }},
      {"gemv 1x512x512", [] { return matmul(1, 512, 512, true); }},
      {"matmul 12 of 128x64x128, both run-time", [] { return matmul(128, 64, 128, false, 12); }},
      {"matmul 512x512x512, both run-time", [] { return matmul(512, 512, 512, false); }},
      {"conv 7x7/2 3->64 at 224", [] { return convolution(224, 3, 64, 7, 2); }},
      {"conv 3x3/2 3->32 at 224", [] { return convolution(224, 3, 32, 3, 2); }},
      {"conv 3x3 64->64 at 56", [] { return convolution(56, 64, 64, 3, 1); }},
      {"conv 3x3 512->512 at 7", [] { return convolution(7, 512, 512, 3, 1); }},
      {"conv 3x3 64->64 at 224", [] { return convolution(224, 64, 64, 3, 1); }},
      {"conv 3x3 128->128 at 112", [] { return convolution(112, 128, 128, 3, 1); }},
      {"conv 3x3 256->256 at 56", [] { return convolution(56, 256, 256, 3, 1); }},
      {"conv 3x3 512->512 at 28", [] { return convolution(28, 512, 512, 3, 1); }},
      {"conv 3x3 512->512 at 14", [] { return convolution(14, 512, 512, 3, 1); }},
      {"conv 3x3 128->128 at 28", [] { return convolution(28, 128, 128, 3, 1); }},
      {"conv 3x3 256->256 at 14", [] { return convolution(14, 256, 256, 3, 1); }},
      {"conv 3x3/2 128->128 at 56", [] { return convolution(56, 128, 128, 3, 2); }},
      {"conv 1x1 64->256 at 56", [] { return convolution(56, 64, 256, 1, 1); }},
      {"conv 1x1 24->144 at 56", [] { return convolution(56, 24, 144, 1, 1); }},
      {"conv 1x1 3 groups 240->240 at 28", [] { return convolution(28, 240, 240, 1, 1, 3); }},
      {"transposed 2x2/2 64->64 at 56", [] { return transposed_convolution(56, 64, 64, 2, 2); }},
      {"transposed 2x2/2 256->128 at 28", [] { return transposed_convolution(28, 256, 128, 2, 2); }},
      {"transposed 4x4/2 64->64 at 56", [] { return transposed_convolution(56, 64, 64, 4, 2); }},
      {"transposed 4x4/2 256->128 at 28", [] { return transposed_convolution(28, 256, 128, 4, 2); }},
      {"transposed 4x4/2 128->64 at 112", [] { return transposed_convolution(112, 128, 64, 4, 2); }},
      {"transposed 3x3 128->128 at 56", [] { return transposed_convolution(56, 128, 128, 3, 1); }},
      {"transposed 3x3/2 128->64 at 56", [] { return transposed_convolution(56, 128, 64, 3, 2); }},
      {"transposed 4x4/2 64->3 at 112", [] { return transposed_convolution(112, 64, 3, 4, 2); }},
      {"depthwise 3x3 144 at 56", [] { return convolution(56, 144, 144, 3, 1, 144); }},
      {"depthwise 3x3/2 96 at 112", [] { return convolution(112, 96, 96, 3, 2, 96); }},
      {"depthwise 5x5 240 at 28", [] { return convolution(28, 240, 240, 5, 1, 240); }},
      {"attention 1 query, 12 heads, 128 keys", [] { return attention_step(12, 1, 128, 64); }},
      {"attention 1 query, 12 heads, 2048 keys", [] { return attention_step(12, 1, 2048, 64); }},
      {"attention 8 queries, 12 heads, 512 keys", [] { return attention_step(12, 8, 512, 64); }},
      {"attention 1 query, 1 head, 2048 keys", [] { return attention_step(1, 1, 2048, 64); }},
      {"all convolutions of ResNet-50", [] { return models::build_resnet50(1); }},
  };
}

// Operations per second of instructions that add several products to each lane, all threads together; 0: the CPU has
// none.
#if defined(__x86_64__)
constexpr int kAccumulators = 24, kSteps = 2048;
typedef int Words __attribute__((vector_size(64)));
#define AIPU_DOT_LOOP(NAME, TARGET, TEXT)                                                                \
  __attribute__((target(TARGET))) int NAME() {                                                           \
    Words sums[kAccumulators] = {};                                                                      \
    Words x = {}, y = {};                                                                                \
    asm volatile("" : "+v"(x), "+v"(y));                                                                 \
    for (int step = 0; step < kSteps; ++step) {                                                          \
      _Pragma("GCC unroll 24") for (Words & sum : sums) asm volatile(TEXT : "+v"(sum) : "v"(x), "v"(y)); \
    }                                                                                                    \
    Words total = {};                                                                                    \
    _Pragma("GCC unroll 24") for (const Words& sum : sums) total += sum;                                 \
    return total[0];                                                                                     \
  }
AIPU_DOT_LOOP(byte_loop, "avx512f,avx512vnni", "vpdpbusds %2, %1, %0")
AIPU_DOT_LOOP(bfloat_loop, "avx512f,avx512bf16", "vdpbf16ps %2, %1, %0")

// Products of tiles of bytes, in as many sums as there are tiles to spare.
constexpr int kTileSums = 4, kTileSteps = 4096;
int tile_loop() {
  struct {
    uint8_t palette = 1, reserved[15] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } shape;
  asm volatile("ldtilecfg %0" : : "m"(shape));
  for (int step = 0; step < kTileSteps; ++step)
    asm volatile(
        "tdpbusd %tmm7, %tmm6, %tmm0\n\ttdpbusd %tmm7, %tmm6, %tmm1\n\ttdpbusd %tmm7, %tmm6, %tmm2\n\t"
        "tdpbusd %tmm7, %tmm6, %tmm3");
  asm volatile("tilerelease");
  return 0;
}

// `tiles`: of bytes, by AMX.
double dot_peak(Products products, bool tiles, int threads) {
  const bool bytes = products == Products::kBytes;
  if (bytes ? !__builtin_cpu_supports("avx512vnni") : !__builtin_cpu_supports("avx512bf16")) return 0;
  const auto loop = !bytes ? bfloat_loop : tiles ? tile_loop : byte_loop;
  constexpr int kCalls = 100;
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    std::vector<double> seconds(static_cast<size_t>(threads));
    std::vector<std::thread> others;
    std::atomic<int> ready{0};
    const auto work = [&](size_t at) {
      ++ready;
      while (ready.load() < threads) {
      }
      const auto start = std::chrono::steady_clock::now();
      for (int call = 0; call < kCalls; ++call) loop();
      seconds[at] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    for (int i = 1; i < threads; ++i) others.emplace_back(work, static_cast<size_t>(i));
    work(0);
    for (std::thread& other : others) other.join();
    const double in_loop = bytes && tiles ? 2.0 * 16 * 16 * 64 * kTileSums * kTileSteps
                                          : 2.0 * (bytes ? 64 : 32) * kAccumulators * kSteps,
                 operations = in_loop * kCalls * threads;
    best = std::max(best, operations / *std::max_element(seconds.begin(), seconds.end()));
  }
  return best;
}
#else
double dot_peak(Products, bool, int) { return 0; }
#endif

double peak_of(Products products, bool tiles, int threads) {
  const double dots = products == Products::kFloats ? 0 : dot_peak(products, tiles, threads);
  return dots > 0 ? dots : tools::measure_machine_peak(threads).float_operations;
}

bool is_product(std::string_view kernel) {
  for (const std::string_view part :
       {"_conv_", "_gemm_", "_depthwise_", "_winograd_", "_pack_panels_", "_conv", "_gemm", "_depthwise", "_winograd",
        "_pack_panels", "_attention", "_quantized_tiles"}) {
    if (kernel.find(part) != std::string_view::npos) return true;
  }
  return false;
}

struct Measurement {
  double seconds = 0, operations = 0, bytes = 0;
};

// The fastest of several runs; the sum over the kernels that multiply.
Result<Measurement> measure(const std::string& binary, int threads) {
  AIPU_ASSIGN_OR_RETURN(auto model, runtime::Model::load(binary));
  runtime::SessionOptions options;
  options.threads = threads;
  options.profile = true;
  AIPU_ASSIGN_OR_RETURN(auto session, runtime::Session::create(model, options));
  std::vector<std::vector<std::byte>> data;
  std::vector<std::vector<int64_t>> shapes;
  for (size_t i = 0; i < model->inputs().size(); ++i) {
    std::vector<int64_t> shape;
    size_t count = 1;
    for (const auto& extent : model->inputs()[i].shape) {
      shape.push_back(extent.extent >= 0 ? extent.extent : 1);
      count *= static_cast<size_t>(shape.back());
    }
    const DType type = model->inputs()[i].dtype;
    data.emplace_back(count * dtype_bytes(type), std::byte{1});
    const float quarter = 0.25f;
    for (size_t k = 0; type == DType::kF32 && k < count; ++k)
      std::memcpy(data.back().data() + k * sizeof(float), &quarter, sizeof(float));
    shapes.push_back(std::move(shape));
  }
  for (size_t i = 0; i < data.size(); ++i)
    AIPU_RETURN_IF_ERROR(session->bind_input(i, {model->inputs()[i].dtype, shapes[i], data[i].data()}));
  Measurement best;
  double spent = 0;
  for (int run = 0; run < 2000 && (run < 5 || spent < 0.4); ++run) {
    session->clear_profile();
    AIPU_RETURN_IF_ERROR(session->run());
    Measurement now;
    for (const auto& row : session->profile()) {
      if (row.engine != "tec" || !is_product(row.name)) continue;
      now.seconds += 1e-9 * static_cast<double>(row.duration_ns);
      now.operations += static_cast<double>(row.operations);
      now.bytes += static_cast<double>(row.bytes);
    }
    spent += now.seconds;
    if (run > 1 && (best.seconds == 0 || now.seconds < best.seconds)) best = now;
  }
  return best;
}

int run(int argc, char** argv) {
  gbuilder::BuildOptions build;
  build.disabled_plugins = {"winograd", "winograd_f4"};
  std::string filter;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--keep-winograd") == 0) {
      build.disabled_plugins.clear();
    } else if (std::strcmp(argv[i], "--fast-math") == 0) {
      build.disabled_plugins.clear();
      build.fast_math = true;
    } else if (std::strcmp(argv[i], "--precision") == 0 && i + 1 < argc) {
      build.precision = argv[++i];
    } else if (std::strcmp(argv[i], "--target") == 0 && i + 1 < argc) {
      build.target = argv[++i];
    } else if (std::strcmp(argv[i], "--filter") == 0 && i + 1 < argc) {
      filter = argv[++i];
    } else {
      std::fprintf(
          stderr, "usage: kernel_bench [--target T] [--filter TEXT] [--keep-winograd] [--fast-math] [--precision P]\n");
      return 2;
    }
  }
  const std::string folder =
      std::filesystem::temp_directory_path() / ("aipu-kernel-bench-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  int failures = 0;
  std::printf("%-40s %7s %10s %10s %8s %8s\n", "kernel", "threads", "us", "GFLOP/s", "% peak", "GB/s");
  for (const Case& c : cases()) {
    if (c.name.find(filter) == std::string::npos) continue;
    build.model = folder + "/model.onnx";
    build.output = folder + "/model.aipu.bin";
    const Status saved = c.make()->save(build.model);
    const auto report = saved.ok() ? gbuilder::build_model(build) : Result<gbuilder::BuildReport>(saved);
    if (!report.ok()) {
      std::fprintf(stderr, "%s: %s\n", c.name.c_str(), report.status().message().c_str());
      ++failures;
      continue;
    }
    for (const int threads : {1, 2}) {
      // The clock may change between one layer and the next.
      const bool bfloats = build.precision == "bf16" && build.target == "host-avx512-bf16";
      const Products products = bfloats && c.products == Products::kFloats ? Products::kBfloats : c.products;
      const auto target = tir::find_target(build.target);
      const bool tiles = target.ok() && target->tile_products;
      const double before = peak_of(products, tiles, threads);
      const auto measured = measure(build.output, threads);
      const double peak = std::max(before, peak_of(products, tiles, threads));
      if (!measured.ok()) {
        std::fprintf(stderr, "%s: %s\n", c.name.c_str(), measured.status().message().c_str());
        ++failures;
        break;
      }
      const double rate = measured->operations / measured->seconds;
      std::printf("%-40s %7d %10.1f %10.1f %8.1f %8.1f\n", c.name.c_str(), threads, 1e6 * measured->seconds,
                  1e-9 * rate, 100 * rate / peak, 1e-9 * measured->bytes / measured->seconds);
      std::fflush(stdout);
    }
  }
  std::filesystem::remove_all(folder);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace aipu::bench

int main(int argc, char** argv) { return aipu::bench::run(argc, argv); }
