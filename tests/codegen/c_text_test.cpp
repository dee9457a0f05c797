// The text rules of c_code (toolchain.md 6.1 - 6.5): DSL in, C out. Intrinsics are in c_text_intrinsics_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codegen/c_text_support.h"

namespace aipu::tir::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Row {
  const char* name;
  const char* dsl;
  const char* c;
};
std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

class CTextBody : public ::testing::TestWithParam<Row> {};

TEST_P(CTextBody, IsAsTheSpecSays) { EXPECT_EQ(body(GetParam().dsl), GetParam().c); }

const Row kStatements[] = {
    {"FirstAssignment", "y = n\ny = m\ny += 1", "int y = n;\ny = m;\ny = (y + 1);"},
    {"PointerVariable", "p = va + 2\np = va\np[0] = p[1]", "__global int8* p = (va + 2);\np = va;\np[0] = p[1];"},
    {"Store", "a[3] = n", "a[3] = n;"},
    {"Arrays",
     "t = S.alloc_buffer(1024, 'fp16x16', scope='lsram')\nt[0] = t[1]\nq = S.alloc_buffer((2, 3), 'i32')\nq[1, n] = "
     "q[0, 2]",
     "__lsram half16 t[1024];\nt[0] = t[1];\nint q[6];\nq[(n + 3)] = q[2];"},
    {"Alloc", "t = S.alloc(64, 'fp32', scope='shared')\nt[0] = k",
     "__local float t_buf[64];\n__local float* t = t_buf;\nt[0] = k;"},
    {"For", "for i in range(n):\n    a[i] = 0", "for (int i = 0; i < n; i += 1) {\n  a[i] = 0;\n}"},
    {"ForFromStart", "for i in range(2, 10):\n    a[i] = 0", "for (int i = 2; i < 2+8; i += 1) {\n  a[i] = 0;\n}"},
    {"ForFromVariable", "for i in range(m, n, 4):\n    a[i] = 0",
     "for (int i = m; i < m+(n - m); i += 4) {\n  a[i] = 0;\n}"},
    {"ForOfChangingBound", "y = n\nfor i in range(y):\n    y += 1\nfor i in range(a[0]):\n    a[i] = 0",
     "int y = n;\nint i_stop = y;\nfor (int i = 0; i < i_stop; i += 1) {\n  y = (y + 1);\n}\nint i_stop_1 = a[0];\n"
     "for (int i_1 = 0; i_1 < i_stop_1; i_1 += 1) {\n  a[i_1] = 0;\n}"},
    {"Grid", "for i, j in S.grid(4, n):\n    a[i * 4 + j] = 0",
     "for (int i = 0; i < 4; i += 1) {\n  for (int j = 0; j < n; j += 1) {\n    a[((i * 4) + j)] = 0;\n  }\n}"},
    {"While", "i = 0\nwhile i < 10:\n    i += 1", "int i = 0;\nwhile ((i < 10)){\n  i = (i + 1);\n}"},
    {"If", "if n < m:\n    a[0] = 1\nelse:\n    a[0] = 2", "if (n < m) {\n  a[0] = 1;\n} else {\n  a[0] = 2;\n}"},
    {"IfOfNumber", "if n:\n    a[0] = 1", "if (n != 0) {\n  a[0] = 1;\n}"},
    {"IfOfCall", "if S.isnan(k):\n    a[0] = 1", "if ((__class(k) & 768) != 0) {\n  a[0] = 1;\n}"},
    {"Lanes", "v = va[0]\na[0] = v[3]\nv[n] = 7", "int8 v = va[0];\na[0] = v[3];\nv[n] = 7;"},
    {"Break", "for i in range(n):\n    if a[i] == 0:\n        break\n    a[i] = 1",
     "for (int i = 0; i < n; i += 1) {\n  if (a[i] == 0) {\n    break;\n  }\n  a[i] = 1;\n}"},
    {"Return", "if n < 1:\n    return\na[0] = 1", "if (n < 1) {\n  barrier(CLK_LOCAL_MEM_FENCE);return;\n}\na[0] = 1;"},
    {"LongLoopNames",
     "for a_name_that_is_too_long_here in range(n):\n    for another_name_that_is_too_long in range(m):\n        "
     "a[a_name_that_is_too_long_here] = 1",
     "for (int i = 0; i < n; i += 1) {\n  for (int j = 0; j < m; j += 1) {\n    a[i] = 1;\n  }\n}"},
    {"LongLoopNameClashes",
     "i = m\nfor a_name_that_is_too_long_here in range(n):\n    a[a_name_that_is_too_long_here] = i",
     "int i = m;\nfor (int i_1 = 0; i_1 < n; i_1 += 1) {\n  a[i_1] = i;\n}"},
    {"ConstantsBehindNames",
     "q = 127\na[0] = n % q\nk2 = 8\na[1] = n % k2\nchanges = 5\nif n > 3:\n    changes = 6\na[2] = n + changes",
     "int q = 127;\na[0] = (n % 127);\nint k2 = 8;\na[1] = (n & 7);\nint changes = 5;\nif (3 < n) {\n  changes = "
     "6;\n}\na[2] = (n + changes);"},
    {"VectorsOfConstantsBehindNames", "q = S.cast(2, 'i32')\nva[0] = va[1] * q\nv = S.i32x8(4)\nva[2] = va[1] * v",
     "int q = 2;\nva[0] = __vlsl(va[1], (int8)1);\nint8 v = (int8)4;\nva[2] = __vlsl(va[1], (int8)2);"},
    {"OneRound", "for i in range(1):\n    a[i] = 5", "a[0] = 5;"},
    {"NamesAreUnique", "for i in range(n):\n    y = i\n    a[i] = y\nfor i in range(m):\n    y = i\n    b[i] = y",
     "for (int i = 0; i < n; i += 1) {\n  int y = i;\n  a[i] = y;\n}\nfor (int i_1 = 0; i_1 < m; i_1 += 1) {\n  int "
     "y_1 = i_1;\n  b[i_1] = "
     "y_1;\n}"},
    {"InvariantTestLeavesLoop", "for i in range(n):\n    if m > 4:\n        a[i] = i",
     "if (4 < m) {\n  for (int i = 0; i < n; i += 1) {\n    a[i] = i;\n  }\n}"},
    {"LocalId", "a[S.get_local_id()] = S.get_local_id()", "int tid = get_local_id(0);\na[tid] = tid;"},
    {"LocalIdIsTid", "tid = S.get_local_id()\na[tid] = tid + S.get_local_size()",
     "int tid = get_local_id(0);\na[tid] = (tid + get_local_size(0));"},
    {"LocalIdOfAnotherName", "q = S.get_local_id()\na[q] = 1", "int tid = get_local_id(0);\nint q = tid;\na[q] = 1;"},
    {"TecRange", "for t in S.tec_range(4):\n    a[t] = 1\nfor t in S.tec_range(n):\n    a[t] = 2",
     "int tid = get_local_id(0);\na[tid] = 1;\nif (tid < n) {\n  a[tid] = 2;\n}"},
    {"Vectorized", "for i in S.vectorized(8):\n    a[i] = b[i] + n",
     "((__global int8*)a)[0] = (((__global int8*)b)[0] + (int8)n);"},
    {"VectorizedTail", "for i in S.vectorized(8):\n    if i < n:\n        a[i] = b[i]",
     "__vstore(__vload((__global int8*)b, __vclt((int8)(0,1,2,3,4,5,6,7), (int8)n, ALL_TRUE_w)), (__global int8*)a, "
     "__vclt((int8)(0,1,2,3,4,5,6,7), (int8)n, ALL_TRUE_w));"},
};
INSTANTIATE_TEST_SUITE_P(Statements, CTextBody, ::testing::ValuesIn(kStatements),
                         [](const auto& row) { return row.param.name; });

const Row kExpressions[] = {
    {"Binary", "a[0] = n + m * a[1]", "a[0] = (n + (m * a[1]));"},
    {"And", "if n < 3 and m < 4 or n == m:\n    a[0] = 1", "if (((n < 3) && (m < 4)) || (n == m)) {\n  a[0] = 1;\n}"},
    {"Not", "if not S.isnan(k):\n    a[0] = 1", "if (!((__class(k) & 768) != 0)) {\n  a[0] = 1;\n}"},
    {"NarrowArithmetic", "h[0] = g * h[1]\nc[0] = c[1] + u\nx[0] = x[1] / k",
     "h[0] = (half)(g * h[1]);\nc[0] = (uchar)(c[1] + u);\nx[0] = (float)(x[1] / k);"},
    {"MinMax", "a[0] = S.max(S.min(n, m), 0)", "a[0] = max(min(n, m), 0);"},
    {"Clip", "a[0] = S.clip(n, 0, 7)", "a[0] = max(min(n, 7), 0);"},
    {"Ternary", "a[0] = n if n < m else m", "a[0] = ((n < m) ? n : m);"},
    {"TernaryOfNumbers", "a[0] = n if n < m else 3\na[1] = 7 if n < 5 else 3",
     "a[0] = ((n < m) ? n : (int)3);\na[1] = ((n < 5) ? 7 : 3);"},
    {"WordsOfCxx", "new = n\nxor = new + 1\na[0] = xor", "int new_ = n;\nint xor_ = (new_ + 1);\na[0] = xor_;"},
    {"Cast", "y = S.i16(n)\na[0] = S.i32(y)", "short y = (short)n;\na[0] = (int)y;"},
    {"Constants", "a[0] = 42\na[1] = -2147483648\ny = S.i8(50)\nz = S.u32(7)\nc[0] = 3",
     "a[0] = 42;\na[1] = (int)-2147483648;\nchar y = (char)50;\nuint z = (uint)7;\nc[0] = (uchar)3;"},
    {"Floats",
     "x[0] = 10.0\nh[0] = 50.0\nx[1] = S.fp32('inf')\nx[2] = S.fp32('-inf')\nx[3] = S.fp32('nan')\nx[4] = -0.5",
     "x[0] = 0x1.4p+3f/*1.000000e+01*/;\nh[0] = (half)0x1.9p+5f/*5.000000e+01*/;\nx[1] = INFINITY;\nx[2] = "
     "-INFINITY;\nx[3] = NAN;\n"
     "x[4] = -0x1p-1f/*-5.000000e-01*/;"},
    {"Broadcast", "v = S.i32x8(0)\nw = S.fp32x8(k)", "int8 v = (int8)0;\nfloat8 w = (float8)k;"},
    {"VectorLiteral", "v = S.i32x8([1, 2, 3, 4, 5, 6, 7, 8])", "int8 v = (int8)(1,2,3,4,5,6,7,8);"},
    {"Pointers", "p = (a + 32).as_ptr('i32x8')\nq = a.as_ptr('i32x8') + 2\nr = n.addr\ns2 = a.as_ptr('i32x8')",
     "__global int8* p = (__global int8*)(a + 32);\n__global int8* q = ((__global int8*)a + 2);\nint* r = &n;\n"
     "__global int8* s2 = (__global int8*)a;"},
    {"AccessWithTypeChange", "v = a.as_ptr('i32x8')[n]", "int8 v = ((__global int8*)a)[n];"},
    {"MovesAreJoined", "p = a + n\nq = (a + n) + 3 + m\nb[0] = q[0]",
     "__global int* p = (a + n);\n__global int* q = (a + ((n + m) + 3));\nb[0] = q[0];"},
    {"UnsignedIndices", "y = S.u32(n)\na[y] = b[u]\np = a + y",
     "uint y = (uint)n;\na[y] = b[(int)u];\n__global int* p = (a + y);"},
    {"Reinterpret", "y = S.reinterpret(k, 'int32')\nv = S.reinterpret(vx[0], 'int32x8')",
     "int y = as_int(k);\nint8 v = as_int8(vx[0]);"},
    {"SignChange", "v = S.u(va[0])", "uint8 v = as_uint8(va[0]);"},
    {"Slices", "v = a[0:8]\nb[n:n + 8] = v", "int8 v = ((__global int8*)a)[0];\n((__global int8*)(b + n))[0] = v;"},
    {"SliceWithStep", "v = a[0:16:2]", "int8 v = __vload_stride((__global int8*)a, 8, ALL_TRUE_w);"},
    {"CanonicalComparison",
     "a[0] = S.i32(0 >= n)\na[1] = S.i32(10 - m > n)\na[2] = S.i32(n >= m)\na[3] = S.i32(k > 3.0)",
     "a[0] = (int)(n <= 0);\na[1] = (int)((n + m) < 10);\na[2] = (int)(m <= n);\na[3] = "
     "(int)(0x1.8p+1f/*3.000000e+00*/ < k);"},
    {"ComparisonWithSum", "a[0] = S.i32(n + 3 < 10)\na[1] = S.i32(n * 4 < 10)\na[2] = S.i32(n + m < n + 4)",
     "a[0] = (int)(n < 7);\na[1] = (int)(n < 3);\na[2] = (int)(m < 4);"},
    // Sums of what was read may overflow; those of parameters and counters are taken not to.
    {"ComparisonOfData", "a[0] = S.i32(b[0] + 3 < 10)\ny = b[1]\na[1] = S.i32(10 - y > n)\na[2] = (b[2] * 8) // 4",
     "a[0] = (int)((b[0] + 3) < 10);\nint y = b[1];\na[1] = (int)(n < (10 - y));\na[2] = ((b[2] * 8) / 4);"},
    {"NegatedComparison", "a[0] = S.i32(not (n < m))\na[1] = S.i32(not (n == m))",
     "a[0] = (int)(m <= n);\na[1] = (int)(n != m);"},
    {"CanonicalSum", "a[0] = 3 + n\na[1] = (n + 1) * 8 - 3\na[2] = 5 - n\na[3] = n - m + 2 * n\na[4] = n - n",
     "a[0] = (n + 3);\na[1] = ((n * 8) + 5);\na[2] = (5 - n);\na[3] = ((n * 3) - m);\na[4] = 0;"},
    {"DivMod", "a[0] = n // 32\na[1] = n % 32\na[2] = n // 3\na[3] = n % m\na[4] = (n * 8) // 4",
     "a[0] = (n >> 5);\na[1] = (n & 31);\na[2] = (n / 3);\na[3] = (n % m);\na[4] = (n * 2);"},
    {"CeilDiv", "a[0] = S.ceildiv(n, 8)\na[1] = S.ceildiv(n, m)",
     "a[0] = ((n + 7) >> 3);\na[1] = (((n + m) - 1) / m);"},
    // What may be negative is truncated, as the language has it; a shift is not. Parameters of the entry are taken not to
    // be, and a launch with one that is is refused.
    {"DivModOfDifferences", "a[0] = (n - m) // 32\ny = b[0]\na[1] = y % 32",
     "a[0] = ((n - m) / 32);\nint y = b[0];\na[1] = (y % 32);"},
    {"DivModOfCounters", "for i in range(n):\n    a[i // 32] = i % 32\nb[S.get_local_id() // 2] = S.max(n, 0) // 4",
     "int tid = get_local_id(0);\nfor (int i = 0; i < n; i += 1) {\n  a[(i >> 5)] = (i & 31);\n}\nb[(tid >> 1)] = "
     "(max(n, 0) >> 2);"},
    {"FloatsStayAsWritten", "x[0] = k / 3.0 + 1.0 + 2.0",
     "x[0] = (float)((float)((float)(k / 0x1.8p+1f/*3.000000e+00*/) + 0x1p+0f/*1.000000e+00*/) + "
     "0x1p+1f/*2.000000e+00*/);"},
    {"VectorByPowerOfTwo", "v = va[0] * 8\nw = vx[0] * 8.0",
     "int8 v = __vlsl(va[0], (int8)3);\nfloat8 w = (vx[0] * (float8)0x1p+3f/*8.000000e+00*/);"},
    {"ConstantsToTheRight", "v = 3 + va[0]\nw = S.vadd(5, va[1])\na[0] = S.max(3, n)",
     "int8 v = (va[0] + (int8)3);\nint8 w = (va[1] + (int8)5);\na[0] = max(n, 3);"},
    {"CommonSubexpressions", "a[n * m] = b[n * m]\na[n + m * 3] = b[n + m * 3]",
     "int cse_var_2 = (n * m);\nint cse_var_1 = (n + (m * 3));\na[cse_var_2] = b[cse_var_2];\na[cse_var_1] = "
     "b[cse_var_1];"},
    {"CommonSubexpressionsOfALoop", "for i in range(n):\n    a[i * 8] = b[i * 8]",
     "for (int i = 0; i < n; i += 1) {\n  int cse_var_1 = (i * 8);\n  a[cse_var_1] = b[cse_var_1];\n}"},
    {"ChangingVariablesAreNotCommon", "y = n\na[y * 3] = b[y * 3]\ny = m",
     "int y = n;\na[(y * 3)] = b[(y * 3)];\ny = m;"},
    {"ByteCountsAreCommon", "t = S.alloc_buffer(64, 'i32', scope='lsram')\nS.dma_copy(t, a, n)",
     "int cse_var_1 = (n * 4);\n__lsram int t[64];\nDmaDirect_kGlobal_to_kLsram((int)t, (int)a, cse_var_1, cse_var_1, "
     "cse_var_1, "
     "cse_var_1);"},
    {"LoadsAreNotCommon", "a[0] = b[0] + 1\na[1] = b[0] + 1", "a[0] = (b[0] + 1);\na[1] = (b[0] + 1);"},
};
INSTANTIATE_TEST_SUITE_P(Expressions, CTextBody, ::testing::ValuesIn(kExpressions),
                         [](const auto& row) { return row.param.name; });

const Row kMasks[] = {
    {"AllTrue", "S.vstore(va[0], a, mask='8T')\nS.vstore(vh[0], h, mask='16T')",
     "((__global int8*)a)[0] = va[0];\n((__global half16*)h)[0] = vh[0];"},
    {"Constant8", "S.vstore(va[0], a, mask='3T5F')", "__vstore(va[0], (__global int8*)a, __vmov_w(0x00000111));"},
    {"Constant4F4T", "S.vstore(va[0], a, mask='4F4T')", "__vstore(va[0], (__global int8*)a, __vmov_w(0x11110000));"},
    {"Constant16", "S.vstore(vh[0], h, mask='2TF12F')", "__vstore(vh[0], (__global half16*)h, __vmov_h(0x00000011));"},
    {"Constant32", "S.vstore(vb[0], c, mask='F31T')", "__vstore(vb[0], (__global char32*)c, __vmov_b(0xfffffffe));"},
    {"List", "S.vstore(va[0], a, mask=[True, False, True])",
     "__vstore(va[0], (__global int8*)a, __vmov_w(0x00000101));"},
    {"Tail8", "S.vstore(va[0], a, mask=S.tail_mask(n, 8))",
     "__vstore(va[0], (__global int8*)a, __vmov_w(((((n << 2) >> 5) ^ 1) << (n << 2)) - 1));"},
    {"Tail16", "t = S.tail_mask(n, 16)", "bool16 t = __vmov_h(((((n << 1) >> 5) ^ 1) << (n << 1)) - 1);"},
    {"Tail32", "t = S.tail_mask(n, 32)\nS.vstore(vb[0], c, mask=t)",
     "bool32 t = __vmov_b((((n >> 5) ^ 1) << n) - 1);\n__vstore(vb[0], (__global char32*)c, t);"},
    {"ConstantTail", "t = S.tail_mask(3, 8)\nS.vstore(va[0], a, mask=t)",
     "bool8 t = __vmov_w(0x00000111);\n__vstore(va[0], (__global int8*)a, t);"},
    {"Variable", "t = va[0] > va[1]\nS.vstore(va[0], a, mask=t)",
     "bool8 t = __vclt(va[1], va[0], ALL_TRUE_w);\n__vstore(va[0], (__global int8*)a, t);"},
    {"ConstantsAreFolded",
     "t = S.const_mask('4T4F') & S.const_mask('2T6F') | ~S.const_mask('7T1F')\nS.vstore(va[0], a, mask=t)",
     "bool8 t = __vmov_w(0x10000011);\n__vstore(va[0], (__global int8*)a, t);"},
    {"FloatCompare", "t = vx[0] <= 1.0\nS.vstore(vx[0], x, mask=t)",
     "bool8 t = __vqle(vx[0], (float8)0x1p+0f/*1.000000e+00*/, ALL_TRUE_w);\n__vstore(vx[0], (__global float8*)x, t);"},
};
INSTANTIATE_TEST_SUITE_P(Masks, CTextBody, ::testing::ValuesIn(kMasks), [](const auto& row) { return row.param.name; });

// ---- whole texts ----

// The illustration of toolchain.md 6.6.
TEST(CText, Illustration) {
  EXPECT_EQ(c_text(R"(@S.prim_func
def scale_u8(x: S.ptr("u8", "global"), y: S.ptr("u8", "global"), k: S.u8, n: S.i32):
    for t in range(n):
        if x[t] > k:
            y[t] = x[t] - k
)",
                   "scale_u8"),
            R"(#include <compass/dsl.h>

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

const char* const kSubFunction = R"(@S.prim_func
def subfunc(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
    b[0] = a[0] + 1

@S.prim_func
def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
    subfunc(a, b)
)";

// The left listing of the issue, which is older than the renaming of sub-functions: its names are those without that
// pass.
TEST(CText, SubFunctionListing) {
  EXPECT_EQ(c_text(kSubFunction, "func", {"RenameUtilsFnames"}), R"(#include <compass/dsl.h>

__kernel void func(__global int* a, __global int* b);
void subfunc(__global int* a, __global int* b);

__kernel void func(__global int* a, __global int* b) {
  subfunc(a, b);
  barrier(CLK_LOCAL_MEM_FENCE);
}

void subfunc(__global int* a, __global int* b) {
  b[0] = (a[0] + 1);
}
)");
}

// The newer rule: the objects of several kernels are linked together, and each may have a subfunc of its own.
TEST(CText, SubFunctionsBearTheNameOfTheEntry) {
  const std::string text = c_text(kSubFunction, "func");
  EXPECT_THAT(text, HasSubstr("void func_subfunc(__global int* a, __global int* b);\n"));
  EXPECT_THAT(text, HasSubstr("  func_subfunc(a, b);\n"));
  EXPECT_THAT(text, HasSubstr("void func_subfunc(__global int* a, __global int* b) {\n"));
}

// The right listing.
TEST(CText, MacroListing) {
  EXPECT_EQ(c_text(R"(n = 8

@S.macro
def add_func(inp, out, idx):
    out[idx] = inp[idx] + n

@S.prim_func
def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), n: S.i32):
    if n > 0:
        add_func(a, b, 0)
    else:
        add_func(a, b, 1)
)",
                   "func"),
            R"(#include <compass/dsl.h>

__kernel void func(__global int* a, __global int* b, int n);

__kernel void func(__global int* a, __global int* b, int n) {
  if (0 < n) {
    b[0] = (a[0] + 8);
  } else {
    b[1] = (a[1] + 8);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
)");
}

TEST(CText, SkeletonWithManyFunctions) {
  EXPECT_EQ(c_text(R"(@S.prim_func(is_inline=True)
def zeta(k: S.i32, p: S.ptr("i8", "global")) -> S.i32:
    return S.i32(p[k])

@S.prim_func(is_inline=False)
def alpha(p: S.ptr("fp16x16", "lsram")) -> S.ptr("fp16x16", "lsram"):
    return p + 1

@S.prim_func
def f(a: S.ptr("i8", "global"), t: S.ptr("i32", "global.1"), v: S.ptr("void", "global")):
    s = S.alloc((4,), "fp16x16", scope="lsram")
    b = a
    b[0] = zeta(t[1], a)
    q = alpha(s)
)",
                   "f"),
            R"(#include <compass/dsl.h>

__kernel void f(__global char* a, __global int* t, __global void* v);
_CLC_NOINLINE __lsram half16* f_alpha(__lsram half16* p);
_CLC_INLINE int f_zeta(int k, __global char* p);

__kernel void f(__global char* a, __global int* t, __global void* v) {
  __lsram half16 s_buf[4];
  __lsram half16* s = s_buf;
  __global char* b = a;
  b[0] = (char)f_zeta(t[1], a);
  __lsram half16* q = f_alpha(s);
  barrier(CLK_LOCAL_MEM_FENCE);
}

_CLC_NOINLINE __lsram half16* f_alpha(__lsram half16* p) {
  return (p + 1);
}

_CLC_INLINE int f_zeta(int k, __global char* p) {
  return (int)p[k];
}
)");
}

TEST(CText, ConstantArrays) {
  EXPECT_EQ(c_text(R"(@S.prim_func
def f(a: S.ptr("i32", "global"), b: S.ptr("u8", "global"), n: S.i32):
    t = S.alloc_const((2,), "int32", [1, 512])
    w = S.alloc_const((3,), "uint8", [7, 8, 255])
    a[0] = t[n]
    b[0] = w[n]
)"),
            R"(#include <compass/dsl.h>

__constant uchar __attribute__((aligned(32))) f_u8_t[8] = {1,0,0,0,0,2,0,0};
__constant uchar __attribute__((aligned(32))) f_u8_w[3] = {7,8,255};

__kernel void f(__global int* a, __global uchar* b, int n);

__kernel void f(__global int* a, __global uchar* b, int n) {
  a[0] = ((__constant int*)f_u8_t)[n];
  b[0] = f_u8_w[n];
  barrier(CLK_LOCAL_MEM_FENCE);
}
)");
}

TEST(CText, DmaMacros) {
  const std::string text = c_text(kernel(R"(t = S.alloc_buffer(64, "i32", scope="lsram")
q = S.alloc_buffer(64, "i32", scope="shared")
p = S.alloc_buffer(64, "i32")
S.dma_copy(t, a, 64)
S.dma_copy(t, b, 64)
S.dma_copy(b, q, 64)
S.dma_copy(q, p, 64)
e = S.alloc_events(1)
S.async_dma_copy(t, a, 8, event=e)
S.wait_events(e)
S.dma_upsample(t, a, 2, 2, 1, 4))"));
  EXPECT_THAT(text, HasSubstr("#include <compass/dsl.h>\n\n"
                              "GEN_DMA_DIRECT_EXT2INT(kGlobal, kLsram);\n"
                              "GEN_DMA_DIRECT_INT2EXT(kShared, kGlobal);\n"
                              "GEN_DMA_DIRECT_EXT2INT(kGlobal, kShared);\n"
                              "GEN_ASYNC_DMA_DIRECT_EXT2INT(kGlobal, kLsram);\n"
                              "GEN_DMA_UPSAMPLE_EXT2INT(kGlobal, kLsram);\n\n"
                              "__kernel void f("));
  EXPECT_THAT(text, HasSubstr("{\n  *addr_of_event_state() = 0;\n  __lsram int t[64];\n"));
}

// ---- passes that are switched off ----

TEST(CTextPasses, CanBeDisabledByName) {
  const auto differs = [](std::string_view dsl, const char* pass, const char* without) {
    EXPECT_EQ(body(dsl, {pass}), without) << pass;
    EXPECT_EQ(body(dsl, {std::string("tir.") + pass}), without) << pass;
    EXPECT_NE(body(dsl), without) << pass;
  };
  differs("a[n * m] = b[n * m]", "CommonSubexprElimTIR", "a[(n * m)] = b[(n * m)];");
  differs("a[0] = n // 8", "CanonicalizeDivMod", "a[0] = (n / 8);");
  differs("a[S.get_local_id()] = 1", "EliminateGetLocalID", "a[get_local_id(0)] = 1;");
  differs("for i in range(n):\n    if m < 4:\n        a[i] = i", "HoistIfThenElse",
          "for (int i = 0; i < n; i += 1) {\n  if (m < 4) {\n    a[i] = i;\n  }\n}");
  differs("for i in range(1):\n    a[i] = 1", "UnrollLoop", "for (int i = 0; i < 1; i += 1) {\n  a[i] = 1;\n}");
  differs("for a_name_that_is_too_long_here in range(n):\n    a[0] = 1", "RenameForLoopVar",
          "for (int a_name_that_is_too_long_here = 0; a_name_that_is_too_long_here < n; a_name_that_is_too_long_here "
          "+= 1) {\n  a[0] = 1;\n}");
  differs("v = va[0] * 8", "ExchangeConstantToRight", "int8 v = (va[0] * (int8)8);");
  differs("v = va[0]\nv = S.vdiv(v, va[1])", "ReviseParamR",
          "int8 v = va[0];\nv = __vdiv((int8)0, v, va[1], ALL_TRUE_w);");
  differs("v = S.vload(va)", "Revert2Standard", "int8 v = __vload(va, ALL_TRUE_w);");
  differs("v = va[0] & ~va[1]", "CombineInstructions",
          "int8 v = __vand((int8)0, va[0], __vinv((int8)0, va[1], ALL_TRUE_w), ALL_TRUE_w);");
  differs("t = va[0] < va[1]\nv = S.vmul(va[0], va[1], mask=t, r=3)", "LowerVirtualIsa",
          "bool8 t = __vclt(va[0], va[1], ALL_TRUE_w);\nint8 v = __vmul((int8)3, va[0], va[1], t);");
  differs("for i in S.vectorized(8):\n    a[i] = b[i]", "VectorizeLoop",
          "for (int i = 0; i < 8; i += 1) {\n  a[i] = b[i];\n}");
}

TEST(CTextPasses, DisablingOneWayOfAligningLeavesTheOther) {
  const char* dsl = "v = a[0:20]\nb[0:20] = v";
  EXPECT_EQ(body(dsl, {"AlignVectorWidthBySplit"}), body(dsl));
  EXPECT_EQ(body(dsl, {"AlignVectorWidthByPad"}), body(dsl));
  EXPECT_THAT(body(dsl, {"AlignVectorWidthBySplit", "AlignVectorWidthByPad"}), HasSubstr("int20 v = "));
}

TEST(CTextPasses, UnknownNamesChangeNothing) {
  EXPECT_EQ(body("a[0] = n // 8", {"tir.NoSuchPass"}), body("a[0] = n // 8"));
}

TEST(CTextPasses, AreListed) {
  const auto names = compass_c_passes();
  for (const std::string_view name : {"CommonSubexprElimTIR", "AlignVectorWidth", "ReviseParamR"})
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
}

}  // namespace
}  // namespace aipu::tir::testing
