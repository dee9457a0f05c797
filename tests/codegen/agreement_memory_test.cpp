// Loads, stores, gathers and DMA: the interpreter and compiled code leave the same bytes behind.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "codegen/lower/lower.h"
#include "codegen/tir/interpreter.h"
#include "codegen/tir/text.h"
#include "runtime/base/half.h"
#include "tests/codegen/agreement_cases.h"
#include "tests/codegen/cc_run.h"

namespace aipu::tir::testing {
namespace {

TEST(AgreementMemory, LoadsStoresAndDma) {
  for (const char* target_name : {"host-avx512", "host-avx2", "host-baseline", "X2_1204"}) {
    const Target target = *find_target(target_name);
    if (!cpu_runs(target)) continue;
    std::vector<KernelSource> kernels;
    std::vector<Module> originals;
    std::vector<DType> types;
    for (const DType dtype : {DType::kI8, DType::kU16, DType::kF16, DType::kF32, DType::kI32, DType::kF64}) {
      for (const char* text : memory_programs(target.generation == 0)) {
        const Result<Module> module = parse_module(with_type(text, std::string(dtype_name(dtype))));
        ASSERT_TRUE(module.ok()) << module.status().message();
        const Result<Module> lowered = lower(*module, target);
        ASSERT_TRUE(lowered.ok()) << lowered.status().message();
        originals.push_back(*module);
        const std::string name = module->entry().name + "_" + std::string(dtype_name(dtype));
        const Result<KernelSource> kernel = kernel_source(name, *module, *lowered, target);
        ASSERT_TRUE(kernel.ok()) << kernel.status().message();
        kernels.push_back(*kernel);
        types.push_back(dtype);
      }
    }
    for (const char* compiler : {"g++", "clang++"}) {
      CompileOptions options;
      options.compiler = compiler_path(compiler);
      if (options.compiler.empty()) continue;
      const Result<CompiledModule> compiled = compile_kernels(kernels, target, options);
      ASSERT_TRUE(compiled.ok()) << compiled.status().message();
      const LoadedModule loaded(compiled->shared_object);
      ASSERT_EQ(loaded.error(), "");
      for (size_t k = 0; k < kernels.size(); k++) {
        for (uint64_t n = 1; n <= 8; n++) {
          SCOPED_TRACE(std::string(target_name) + " " + compiler + " " + kernels[k].symbol + " n=" + std::to_string(n));
          const size_t bytes = dtype_bytes(types[k]);
          std::vector<std::byte> x = agreement_input(Type::scalar(types[k]), 256, k), expected(1024 * bytes),
                                 actual(1024 * bytes);
          std::vector<int16_t> indices = {3, 0, 63, 7, 7, 20, 1, 40};
          const Status status = interpret_all(
              originals[k], 1,
              std::vector<InterpreterArgument>{{x.data(), x.size(), 0, true},
                                               {reinterpret_cast<std::byte*>(indices.data()), 16, 0, true},
                                               {expected.data(), expected.size(), 0, true},
                                               {nullptr, 0, n, false}});
          ASSERT_TRUE(status.ok()) << status.message();
          loaded.run(loaded.table()->kernels[k],
                     {reinterpret_cast<uint64_t>(x.data()), reinterpret_cast<uint64_t>(indices.data()),
                      reinterpret_cast<uint64_t>(actual.data()), n});
          EXPECT_EQ(expected, actual);
        }
      }
    }
  }
}

// Vectors of hundreds of registers, which become loops; the stores overlap what the same statement loads.
constexpr const char* kLong = R"(func long(x#0: global float32*, y#1: global float32*, n#2: int32) -> void {
  let m#3: boolx4096 = S.tail_mask<boolx4096>(n#2, .lanes=4096)
  let v#4: float32x4096 = S.vload<float32x4096>(x#0, 1, mask=m#3, .lanes=4096)
  let w#5: float32x4096 = S.vsel<float32x4096>(S.exp<float32x4096>(v#4), v#4, (v#4 < broadcast<4096>(0.5)))
  set v#4 = (w#5 * broadcast<4096>(lane(w#5, n#2)))
  setlane v#4[17] = lane(S.vrpadd<float32x4096>(w#5), 0)
  eval S.vstore<void>(v#4, y#1, 1, mask=m#3)
  if S.vany<bool>((v#4 > broadcast<4096>(1.0))) {
    eval S.vstore<void>(S.vload<float32x4096>(x#0, 1, .lanes=4096), (x#0 + 1), 1)
  }
}
)";

TEST(AgreementMemory, LongVectors) {
  const Result<Module> module = parse_module(kLong);
  ASSERT_TRUE(module.ok()) << module.status().message();
  for (const char* target_name : {"host-avx512", "host-avx2", "host-baseline"}) {
    const Target target = *find_target(target_name);
    if (!cpu_runs(target)) continue;
    const Result<Module> lowered = lower(*module, target);
    ASSERT_TRUE(lowered.ok()) << lowered.status().message();
    const auto compiled = compile_kernels(std::vector<KernelSource>{{"long", *lowered}}, target);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    const LoadedModule loaded(compiled->shared_object);
    ASSERT_EQ(loaded.error(), "");
    std::vector<std::byte> expected_x = agreement_input(Type::scalar(DType::kF32), 4097, 5), actual_x = expected_x;
    std::vector<std::byte> expected_y(4096 * 4), actual_y(4096 * 4);
    const Status status =
        interpret_all(*module, 1,
                      std::vector<InterpreterArgument>{{expected_x.data(), expected_x.size(), 0, true},
                                                       {expected_y.data(), expected_y.size(), 0, true},
                                                       {nullptr, 0, 4000, false}});
    ASSERT_TRUE(status.ok()) << status.message();
    loaded.run(*loaded.find("long"),
               {reinterpret_cast<uint64_t>(actual_x.data()), reinterpret_cast<uint64_t>(actual_y.data()), 4000});
    EXPECT_EQ(expected_x, actual_x) << target_name;
    EXPECT_EQ(expected_y, actual_y) << target_name;
  }
}

TEST(AgreementMemory, MatrixProducts) {
  const Target target = *find_target("X2_1204");
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const Result<Module> module =
        parse_module(with_type(R"(func matrix(x#0: global Tx16*, out#1: global float32*) -> void {
  eval S.vmml<void>(out#1, load(x#0, 0), load(x#0, 1))
  eval S.vmma<void>(out#1, load(x#0, 2), load(x#0, 3))
}
)",
                               std::string(dtype_name(dtype))));
    ASSERT_TRUE(module.ok()) << module.status().message();
    const Result<CompiledModule> compiled = compile_kernels(std::vector<KernelSource>{{"matrix", *module}}, target);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    const LoadedModule loaded(compiled->shared_object);
    ASSERT_EQ(loaded.error(), "");
    std::vector<std::byte> x(64 * 2), expected(64), actual(64);
    for (size_t i = 0; i < 64; i++) {
      const float value = (static_cast<float>(i * 37 % 64) - 31.5f) / 8;
      const uint16_t bits = dtype == DType::kF16 ? f16_from_f32(value) : bf16_from_f32(value);
      std::memcpy(x.data() + 2 * i, &bits, 2);
    }
    const Status status = interpret_all(
        *module, 1,
        std::vector<InterpreterArgument>{{x.data(), x.size(), 0, true}, {expected.data(), expected.size(), 0, true}});
    ASSERT_TRUE(status.ok()) << status.message();
    loaded.run(*loaded.find("matrix"),
               {reinterpret_cast<uint64_t>(x.data()), reinterpret_cast<uint64_t>(actual.data())});
    EXPECT_EQ(expected, actual);
    EXPECT_NE(actual, std::vector<std::byte>(64));
  }
}

// A page followed by one that can't be accessed.
class GuardedPage {
 public:
  GuardedPage()
      : data_(static_cast<std::byte*>(
            ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    ::mprotect(data_ + 4096, 4096, PROT_NONE);
  }
  ~GuardedPage() { ::munmap(data_, 8192); }
  GuardedPage(const GuardedPage&) = delete;
  template <typename T>
  T* last(size_t count) const {
    return reinterpret_cast<T*>(data_ + 4096 - count * sizeof(T));
  }

 private:
  std::byte* data_;
};

// A masked load at the end of a mapping must not touch what is off.
TEST(AgreementMemory, MaskedLanesAreNotTouched) {
  for (const char* target_name : {"host-avx512", "host-avx2", "host-baseline"}) {
    const Target target = *find_target(target_name);
    if (!cpu_runs(target)) continue;
    const Result<Module> module =
        parse_module(R"(func tail(x#0: global float32*, y#1: global float32*, n#2: int32) -> void {
  let m#3: boolx4 = S.tail_mask<boolx4>(n#2, .lanes=4)
  eval S.vstore<void>(S.vload<float32x4>(x#0, 1, mask=m#3, .lanes=4), y#1, 1, mask=m#3)
}
)");
    ASSERT_TRUE(module.ok()) << module.status().message();
    for (const char* compiler : {"g++", "clang++"}) {
      CompileOptions options;
      options.compiler = compiler_path(compiler);
      if (options.compiler.empty()) continue;
      const Result<CompiledModule> compiled =
          compile_kernels(std::vector<KernelSource>{{"tail", *module}}, target, options);
      ASSERT_TRUE(compiled.ok()) << compiled.status().message();
      const LoadedModule loaded(compiled->shared_object);
      const GuardedPage in, out;
      in.last<float>(2)[0] = 5;
      in.last<float>(2)[1] = 6;
      loaded.run(*loaded.find("tail"),
                 {reinterpret_cast<uint64_t>(in.last<float>(2)), reinterpret_cast<uint64_t>(out.last<float>(2)), 2});
      EXPECT_EQ(out.last<float>(2)[0], 5);
      EXPECT_EQ(out.last<float>(2)[1], 6);
    }
  }
}

}  // namespace
}  // namespace aipu::tir::testing
