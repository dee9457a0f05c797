#include "codegen/driver/kernel_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compass_c/c_text.h"
#include "codegen/tir/text.h"

namespace aipu::tir {
namespace {

using ::testing::HasSubstr;

std::string compass_c(const std::string& text, const char* target = "X2_1204") {
  const Result<Module> module = parse_module(text);
  EXPECT_TRUE(module.ok()) << module.status().message();
  const Result<std::string> c = compass_c_text(*module, *find_target(target));
  EXPECT_TRUE(c.ok()) << c.status().message();
  return c.ok() ? *c : "";
}

std::string host_c(const std::string& text, const char* target = "host-avx2") {
  Result<Module> module = parse_module(text);
  EXPECT_TRUE(module.ok()) << module.status().message();
  const std::vector<KernelSource> kernels = {{"kernel", *module}};
  const Result<std::string> c = print_translation_unit(kernels, *find_target(target));
  EXPECT_TRUE(c.ok()) << c.status().message();
  return c.ok() ? *c : "";
}

constexpr const char* kScale =
    R"(func scale_u8(x#0: global uint8*, y#1: global uint8*, k#2: uint8, n#3: int32) -> void {
  for serial t#4: int32 = 0 to n#3 step 1 {
    if (k#2 < load(x#0, t#4)) {
      store y#1[t#4] = (load(x#0, t#4) - k#2)
    }
  }
}
)";

// The illustration of toolchain.md 6.6.
TEST(CPrinter, CompassText) {
  EXPECT_EQ(compass_c(kScale), R"(#include <compass/dsl.h>

__kernel void scale_u8(__global uchar* x, __global uchar* y, uchar k, int n);

__kernel void scale_u8(__global uchar* x, __global uchar* y, uchar k, int n) {
  for (int t = 0; t < n; t += 1) {
    if (k < x[t]) {
      y[t] = (uchar)(x[t] - k);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
)");
}

// The first parenthesis of a condition need not belong to the last one.
TEST(CPrinter, ConditionsOfBools) {
  const std::string text = host_c(R"(func f(x#0: global uint8*, a#1: bool, b#2: bool, c#3: bool) -> void {
  if ((a#1 | b#2) | c#3) {
    store x#0[0] = 1:uint8
  }
}
)");
  EXPECT_THAT(text, HasSubstr("if ((bool)("));
}

TEST(CPrinter, HostText) {
  EXPECT_EQ(host_c(kScale), R"(#include <compass/dsl.h>


__kernel void kernel(__global uchar* x, __global uchar* y, uchar k, int n) {
  for (int t = 0; t < n; t += 1) {
    if (k < x[t]) {
      y[t] = (uchar)(x[t] - k);
    }
  }
}

extern "C" __hidden void aipu_entry_kernel(const aipu_tec_context*, const unsigned long long* arguments) {
  kernel(__argument<__global uchar*>(arguments[0]), __argument<__global uchar*>(arguments[1]), __argument<uchar>(arguments[2]), __argument<int>(arguments[3]));
}


static const aipu_kernel_info aipu_kernels[1] = {
  {"kernel", aipu_entry_kernel, 4, 0, 0, 0},
};

static const aipu_kernel_module aipu_module = {AIPU_KERNEL_ABI_VERSION_WITHOUT_FAULTS, sizeof(aipu_kernel_info), 1, aipu_kernels};

extern "C" __attribute__((visibility("default"))) const aipu_kernel_module* aipu_kernel_module_v1(void) { return &aipu_module; }
)");
}

constexpr const char* kConstants =
    R"(func f(y#0: global float32*, i#1: global int32*, d#2: global float64*, h#3: global float16*, u#4: global uint64*, b#5: global int8*) -> void {
  store y#0[0] = 10.0
  store y#0[1] = -inf
  store y#0[2] = nan
  store d#2[0] = 0.1:float64
  store h#3[0] = 50.0:float16
  store i#1[0] = -2147483648
  store b#5[0] = 50:int8
  store u#4[0] = 7:uint64
}
)";

TEST(CPrinter, Constants) {
  const std::string c = compass_c(kConstants);
  EXPECT_THAT(c, HasSubstr("y[0] = 0x1.4p+3f/*1.000000e+01*/;"));
  EXPECT_THAT(c, HasSubstr("y[1] = -INFINITY;"));
  EXPECT_THAT(c, HasSubstr("y[2] = NAN;"));
  EXPECT_THAT(c, HasSubstr("d[0] = 0x1.999999999999ap-4/*1.000000e-01*/;"));
  EXPECT_THAT(c, HasSubstr("h[0] = (half)0x1.9p+5f/*5.000000e+01*/;"));
  EXPECT_THAT(c, HasSubstr("i[0] = (int)-2147483648;"));
  EXPECT_THAT(c, HasSubstr("b[0] = (char)50;"));
  EXPECT_THAT(c, HasSubstr("u[0] = (ulong)7;"));
}

constexpr const char* kNames = R"(func f(half#0: global int32* restrict, y#1: global int32*) -> void {
  for serial i#2: int32 = 0 to 4 step 1 {
    let t#3: int32 = i#2
    store y#1[i#2] = t#3
  }
  for serial i#4: int32 = 0 to 4 step 2 {
    for serial i#5: int32 = 0 to i#4 step 1 {
      store y#1[i#5] = load(half#0, ((i#4 * 3) + i#5))
    }
  }
  comment "two\nlines"
}
)";

TEST(CPrinter, NamesAreUniqueAndNotReserved) {
  EXPECT_EQ(compass_c(kNames), R"(#include <compass/dsl.h>

__kernel void f(__global int* restrict half_, __global int* y);

__kernel void f(__global int* restrict half_, __global int* y) {
  for (int i = 0; i < 4; i += 1) {
    int t = i;
    y[i] = t;
  }
  for (int i_1 = 0; i_1 < 4; i_1 += 2) {
    for (int i_2 = 0; i_2 < i_1; i_2 += 1) {
      y[i_2] = half_[((i_1 * 3) + i_2)];
    }
  }
  // two lines
  barrier(CLK_LOCAL_MEM_FENCE);
}
)");
  // What is compiled may use a name again when its block has ended; element indices are computed in 64 bits.
  EXPECT_THAT(host_c(kNames),
              HasSubstr("  for (int i = 0; i < 4; i += 2) {\n    for (int i_1 = 0; i_1 < i; i_1 += 1) {\n"));
  EXPECT_THAT(host_c(kNames), HasSubstr("half_[(((long)i * 3) + i_1)]"));
}

constexpr const char* kVectors =
    R"(func f(x#0: global float32x8*, y#1: global float32x8*, p#2: global float32*, n#3: int32) -> void {
  alloc acc#4: private float32x8* [2]
  store acc#4[0] = broadcast<8>(0.0)
  store acc#4[1] = (load(x#0, 1) + load(acc#4, 0))
  let m#5: boolx8 = S.tail_mask<boolx8>(n#3, .lanes=8)
  let v#6: float32x8 = S.vload<float32x8>(p#2, 1, mask=m#5, .lanes=8)
  eval S.vstore<void>((v#6 * load(acc#4, 1)), p#2, 1, mask=m#5)
  store y#1[n#3] = S.vsel<float32x8>(v#6, load(acc#4, 1), [true, true, false, false, false, false, false, true])
}
)";

TEST(CPrinter, VectorsInBothDialects) {
  EXPECT_EQ(compass_c(kVectors), R"(#include <compass/dsl.h>

__kernel void f(__global float8* x, __global float8* y, __global float* p, int n);

__kernel void f(__global float8* x, __global float8* y, __global float* p, int n) {
  float8 acc[2];
  acc[0] = (float8)0x0p+0f/*0.000000e+00*/;
  acc[1] = (x[1] + acc[0]);
  bool8 m = __vmov_w(((((n << 2) >> 5) ^ 1) << (n << 2)) - 1);
  float8 v = __vload((__global float8*)p, m);
  __vstore((v * acc[1]), (__global float8*)p, m);
  y[n] = __vsel(v, acc[1], __vmov_w(0x10000011));
  barrier(CLK_LOCAL_MEM_FENCE);
}
)");
  const std::string c = host_c(kVectors);
  EXPECT_THAT(c, HasSubstr("acc[0] = __splat<float8>(0x0p+0f/*0.000000e+00*/);"));
  EXPECT_THAT(c, HasSubstr("acc[1] = (__load(x, 1) + acc[0]);"));
  EXPECT_THAT(c, HasSubstr("bool8 m = __tail_mask<8>(n);"));
  EXPECT_THAT(c, HasSubstr("float8 v = __vload((__global float8*)p, m);"));
  EXPECT_THAT(c, HasSubstr("__store(y, n, __vsel(v, acc[1], __const_mask<8>(0x83ul)));"));
}

constexpr const char* kFunctions = R"(func f(y#0: global int32*) -> void {
  store y#0[0] = call<int32> zeta(call<int32> alpha(3))
  if (load(y#0, 0) < 0) {
    return
  }
}
func zeta(a#0: int32) -> int32 {
  return (a#0 + 1)
}
func alpha(a#0: int32) -> int32 noinline {
  alloc table#1: constant int32* [2] = x"0100000002000000"
  return load(table#1, (a#0 & 1))
}
)";

TEST(CPrinter, SubFunctionsAndConstantArrays) {
  EXPECT_EQ(compass_c(kFunctions), R"(#include <compass/dsl.h>

__constant uchar __attribute__((aligned(32))) f_alpha_u8_table[8] = {1,0,0,0,2,0,0,0};

__kernel void f(__global int* y);
_CLC_NOINLINE int f_alpha(int a);
int f_zeta(int a);

__kernel void f(__global int* y) {
  y[0] = f_zeta(f_alpha(3));
  if (y[0] < 0) {
    barrier(CLK_LOCAL_MEM_FENCE);return;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

_CLC_NOINLINE int f_alpha(int a) {
  return ((__constant int*)f_alpha_u8_table)[(a & 1)];
}

int f_zeta(int a) {
  return (a + 1);
}
)");
}

// A bound that the body changes is evaluated once.
TEST(CPrinter, LoopBoundsAreEvaluatedOnce) {
  const std::string text = R"(func f(y#0: global int32*) -> void {
  let n#1: int32 = load(y#0, 0)
  for serial i#2: int32 = 0 to n#1 step 1 {
    set n#1 = (n#1 + 1)
  }
  for serial i#3: int32 = 0 to load(y#0, 1) step 1 {
    store y#0[1] = i#3
  }
}
)";
  const std::string c = host_c(text);
  EXPECT_THAT(c, HasSubstr("const int i_stop = n;\n    for (int i = 0; i < i_stop; i += 1) {"));
  EXPECT_THAT(c, HasSubstr("const int i_stop = y[1];\n    for (int i = 0; i < i_stop; i += 1) {"));
}

// A scalar division must not trap in a process that runs other people's models.
TEST(CPrinter, HostDivisionsAreGuarded) {
  const std::string text = R"(func f(y#0: global int32*, n#1: int32) -> void {
  store y#0[0] = (n#1 / 3)
  store y#0[1] = (7 % n#1)
  store y#0[2] = (n#1 << 33)
  store y#0[3] = (n#1 >> n#1)
}
)";
  const std::string c = host_c(text);
  EXPECT_THAT(c, HasSubstr("y[0] = (n / 3);"));
  EXPECT_THAT(c, HasSubstr("y[1] = __mod<int>(7, n);"));
  EXPECT_THAT(c, HasSubstr("y[2] = (n << 1);"));
  EXPECT_THAT(c, HasSubstr("y[3] = (n >> (n & 31));"));
}

}  // namespace
}  // namespace aipu::tir
