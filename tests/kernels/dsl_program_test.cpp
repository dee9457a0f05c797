// Small programs and the TIR that they become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/dsl_support.h"

namespace aipu {
namespace {

using dsl_test::body_text;
using dsl_test::tir_text;

std::string in_kernel(const std::string& body) {
  std::string text =
      "@S.prim_func\ndef f(a: S.ptr(\"i32\", \"global\"), h: S.ptr(\"fp32\", \"global\"), n: S.i32, u8: S.u8, i8: "
      "S.i8, i16: S.i16, x: "
      "S.fp32, h16: S.fp16):\n";
  size_t begin = 0;
  while (begin < body.size()) {
    const size_t end = std::min(body.find('\n', begin), body.size());
    text += "    " + body.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return text;
}

struct Golden {
  std::string name, body, text;
};
void PrintTo(const Golden& g, std::ostream* out) { *out << g.name; }

class DslProgram : public testing::TestWithParam<Golden> {};

TEST_P(DslProgram, BecomesTir) {
  std::string text = body_text(in_kernel(GetParam().body));
  EXPECT_EQ(text, GetParam().text);
}

// Parameters are a#0 h#1 n#2 u8#3 i8#4 i16#5 x#6 h16#7.
const Golden kGoldens[] = {
    {"LiteralTypes", "b = 3\nc = 0.5\nd = True\ne = -7\ng = 0x1F\n",
     "  let b#8: int32 = 3\n  let c#9: float32 = 0.5\n  let d#10: bool = true\n  let e#11: int32 = -7\n  let g#12: "
     "int32 = 31\n"},
    {"ExampleTypes",
     "b = i8 + 100\nc = i8 + 200\nd = i8 + u8\ne = u8 + i16\ng = h16 * 2\nk = h16 * 2.0\nm = i8 * h16\no = 3 + 4\n",
     "  let b#8: int8 = (i8#4 + 100:int8)\n"
     "  let c#9: int32 = (cast<int32>(i8#4) + 200)\n"
     "  let d#10: uint8 = (cast<uint8>(i8#4) + u8#3)\n"
     "  let e#11: int16 = (cast<int16>(u8#3) + i16#5)\n"
     "  let g#12: float16 = (h16#7 * 2.0:float16)\n"
     "  let k#13: float32 = (cast<float32>(h16#7) * 2.0)\n"
     "  let m#14: float16 = (cast<float16>(i8#4) * h16#7)\n"
     "  let o#15: int32 = 7\n"},
    {"VectorWithScalar", "v = S.vload(a)\nw = v + i8\nz = 2 * v\n",
     "  let v#8: int32x8 = S.vload<int32x8>(a#0, 1)\n"
     "  let w#9: int32x8 = (v#8 + broadcast<8>(cast<int32>(i8#4)))\n"
     "  let z#10: int32x8 = (broadcast<8>(2) * v#8)\n"},
    {"NarrowVectorWithWideScalar", "v = S.cast(i8, \"int8x32\")\nw = v + n\n",
     "  let v#8: int8x32 = broadcast<32>(i8#4)\n  let w#9: int32x32 = (cast<int32x32>(v#8) + broadcast<32>(n#2))\n"},
    {"Division", "b = n / 3\nc = n // 3\nd = n % 4\ne = x / 3\ng = 7 // 2\nk = -7 // 2\nm = -7 % 4\n",
     "  let b#8: int32 = (n#2 / 3)\n  let c#9: int32 = (n#2 / 3)\n  let d#10: int32 = (n#2 % 4)\n  let e#11: float32 = "
     "(x#6 / 3.0)\n"
     "  let g#12: int32 = 3\n  let k#13: int32 = -4\n  let m#14: int32 = 1\n"},
    {"Shifts", "b = n << 3\nc = i8 >> n\n",
     "  let b#8: int32 = (n#2 << 3)\n  let c#9: int8 = (i8#4 >> cast<int8>(n#2))\n"},
    {"UnaryMinus", "b = -n\nc = -x\nd = ~n\n",
     "  let b#8: int32 = (n#2 * -1)\n  let c#9: float32 = (x#6 * -1.0)\n  let d#10: int32 = ~n#2\n"},
    {"ChainedComparison", "b = 0 < n < 10\n", "  let b#8: bool = ((0 < n#2) && (n#2 < 10))\n"},
    {"Ternary", "b = n if n > 0 else 0\nc = x if n > 0 else 1\n",
     "  let b#8: int32 = ((n#2 > 0) ? n#2 : 0)\n  let c#9: float32 = ((n#2 > 0) ? x#6 : 1.0)\n"},
    {"StaticCondition", "if 1 > 2:\n    b = undefined_name\nelse:\n    b = n\nc = undefined_too if False else b\n",
     "  let b#8: int32 = n#2\n  let c#9: int32 = b#8\n"},
    {"IfElse", "b = 0\nif n:\n    b = n\nelif x > 1.0:\n    c = b\nelse:\n    c = x\n",
     "  let b#8: int32 = 0\n  if (n#2 != 0) {\n    set b#8 = n#2\n  } else {\n    if (x#6 > 1.0) {\n      let c#9: "
     "int32 = b#8\n    } else "
     "{\n      let c#10: float32 = x#6\n    }\n  }\n"},
    {"Loops",
     "for i in range(n):\n    a[i] = i\nfor j in range(2, n, 3):\n    if j > 5:\n        break\nwhile n > 0:\n    n -= "
     "1\n",
     "  for serial i#8: int32 = 0 to n#2 step 1 {\n    store a#0[i#8] = i#8\n  }\n"
     "  for serial j#9: int32 = 2 to n#2 step 3 {\n    if (j#9 > 5) {\n      break\n    }\n  }\n"
     "  while (n#2 > 0) {\n    set n#2 = (n#2 - 1)\n  }\n"},
    {"Grid", "for i, j in S.grid(n, 4):\n    a[i * 4 + j] = 0\n",
     "  for serial i#8: int32 = 0 to n#2 step 1 {\n    for serial j#9: int32 = 0 to 4 step 1 {\n      store a#0[((i#8 "
     "* 4) + j#9)] = 0\n   "
     " }\n  }\n"},
    {"TecRange", "for t in S.tec_range(2, n):\n    a[t] = t\nfor q in S.vectorized(8):\n    a[q] = q\n",
     "  for tec t#8: int32 = 2 to n#2 step 1 {\n    store a#0[t#8] = t#8\n  }\n  for vectorized q#9: int32 = 0 to 8 "
     "step 1 {\n    store "
     "a#0[q#9] = q#9\n  }\n"},
    {"Swap", "b = 1\nc = 2\nb, c = c, b\n",
     "  let b#8: int32 = 1\n  let c#9: int32 = 2\n  let tmp_b#10: int32 = b#8\n  set b#8 = c#9\n  set c#9 = "
     "tmp_b#10\n"},
    {"StoreConverts", "a[0] = x\nh[1] = n\nh[2] = 7\na[3] = 2.9\n",
     "  store a#0[0] = cast<int32>(x#6)\n  store h#1[1] = cast<float32>(n#2)\n  store h#1[2] = 7.0\n  store a#0[3] = "
     "2\n"},
    {"Slices", "v = a[n * 8 : n * 8 + 8]\nw = h[0:16:2]\na[8:16] = v\nh[0:8] = 1\nb = a[3:4]\n",
     "  let v#8: int32x8 = S.vload<int32x8>((a#0 + (n#2 * 8)), 1, .lanes=8)\n"
     "  let w#9: float32x8 = S.vload<float32x8>(h#1, 2, .lanes=8)\n"
     "  eval S.vstore<void>(v#8, (a#0 + 8), 1)\n"
     "  eval S.vstore<void>(broadcast<8>(1.0), h#1, 1)\n"
     "  let b#10: int32 = load((a#0 + 3), 0)\n"},
    {"Pointers", "p = a + n\nq = p.as_ptr(\"i8x32\")\nr = S.vload(q)\np = a\nb = p == a\nc = q[1]\n",
     "  let p#8: global int32* = (a#0 + n#2)\n  let q#9: global int8x32* = cast<global int8x32*>(p#8)\n  let r#10: "
     "int8x32 = "
     "S.vload<int8x32>(q#9, 1)\n"
     "  set p#8 = a#0\n  let b#11: bool = (p#8 == a#0)\n  let c#12: int8x32 = load(q#9, 1)\n"},
    {"Buffers",
     "b = S.alloc_buffer((2, 4), \"fp32\", \"lsram\")\nb[1, n] = 3\nc = b[n, 2]\np = b.addr_of((1, 2))\nq = "
     "b.addr_of(1)\nv = b[1, 0:4]\n",
     "  alloc b#8: lsram float32* [8]\n  store b#8[(4 + n#2)] = 3.0\n  let c#9: float32 = load(b#8, ((n#2 * 4) + 2))\n"
     "  let p#10: lsram float32* = (b#8 + 6)\n  let q#11: lsram float32* = (b#8 + 4)\n  let v#12: float32x4 = "
     "S.vload<float32x4>((b#8 + "
     "4), 1, .lanes=4)\n"},
    {"MatchBuffer", "m = S.match_buffer(a, (n, 3))\nm[n, 1] += 2\n",
     "  store a#0[((n#2 * 3) + 1)] = (load(a#0, ((n#2 * 3) + 1)) + 2)\n"},
    {"LaneAccess", "v = S.vload(a)\nb = v[3]\nv[n] = i8\nm = v > 1\nm[0] = True\n",
     "  let v#8: int32x8 = S.vload<int32x8>(a#0, 1)\n  let b#9: int32 = lane(v#8, 3)\n  setlane v#8[n#2] = "
     "cast<int32>(i8#4)\n"
     "  let m#10: boolx8 = (v#8 > broadcast<8>(1))\n  setlane m#10[0] = true\n"},
    {"Address", "b = 3\np = b.addr\np[0] = 4\n",
     "  let b#8: int32 = 3\n  let p#9: private int32* = addr(b#8)\n  store p#9[0] = 4\n"},
    {"Unroll", "t = n\nfor k in S.unroll(3):\n    t = t + k\nfor j in S.unroll(4, 0, -2):\n    a[j] = j\n",
     "  let t#8: int32 = n#2\n  set t#8 = (t#8 + 1)\n  set t#8 = (t#8 + 2)\n  store a#0[4] = 4\n  store a#0[2] = 2\n"},
    {"Constructors", "b = S.i32(x)\nc = S.fp32x8(1)\nd = S.fp32(\"-inf\")\ne = S.i32x4([1, 2, n, 4])\ng = S.u8(300)\n",
     "  let b#8: int32 = cast<int32>(x#6)\n  let c#9: float32x8 = broadcast<8>(1.0)\n  let d#10: float32 = -inf\n  let "
     "e#11: int32x4 = [1, "
     "2, n#2, 4]\n  let g#12: uint8 = 44:uint8\n"},
    {"MetaVar", "k = S.meta_var(5)\nb = k + 1\nfor i in S.unroll(k - 3):\n    a[i] = k\n",
     "  let b#8: int32 = 6\n  store a#0[0] = 5\n  store a#0[1] = 5\n"},
    {"Masks", "v = S.vload(a, mask=\"2TF\")\nw = S.vload(a, \"8T\")\nm = S.tail_mask(n, 8)\nz = S.vload(a, m)\n",
     "  let v#8: int32x8 = S.vload<int32x8>(a#0, 1, mask=\"1T1F1T5F\":boolx8)\n"
     "  let w#9: int32x8 = S.vload<int32x8>(a#0, 1, mask=\"8T\":boolx8)\n"
     "  let m#10: boolx8 = S.tail_mask<boolx8>(n#2, .lanes=8)\n  let z#11: int32x8 = S.vload<int32x8>(a#0, 1, "
     "mask=m#10)\n"},
    {"ScalarExtremes", "b = S.max(n, 3)\nc = S.min(x, n)\nd = S.max(2, 5)\ne = S.ceildiv(n, 8)\ng = S.ceildiv(9, 4)\n",
     "  let b#8: int32 = (n#2 max 3)\n  let c#9: float32 = (x#6 min cast<float32>(n#2))\n  let d#10: int32 = 5\n  let "
     "e#11: int32 = ((n#2 "
     "+ 7) / 8)\n  let g#12: int32 = 3\n"},
    {"LogicalOperators", "b = n > 1 and x > 2.0 or not n\nc = n > 1 and True\nd = False or n < 2\n",
     "  let b#8: bool = (((n#2 > 1) && (x#6 > 2.0)) || !(n#2 != 0))\n  let c#9: bool = (n#2 > 1)\n  let d#10: bool = "
     "(n#2 < 2)\n"},
    {"Block", "b = S.match_buffer(a, (8,))\nwith S.block(\"work\"):\n    i = S.axis.spatial(8, n)\n    b[i] = 1\n",
     "  block {\n    let i#8: int32 = n#2\n    store a#0[i#8] = 1\n  }\n"},
    {"SizeVariable", "k = S.size_i32(n)\n", "  let k#8: int32 nonneg = n#2\n"},
    {"Wide", "b = S.i64(n)\nc = b * 3\nd = S.fp64(0.1)\ne = d + 0.1\n",
     "  let b#8: int64 = cast<int64>(n#2)\n  let c#9: int64 = (b#8 * 3:int64)\n  let d#10: float64 = 0.1:float64\n  "
     "let e#11: float64 = "
     "(d#10 + 0.1:float64)\n"},
    {"IgnoredStatements", "\"\"\"A docstring.\"\"\"\nimport pdb\npdb.set_trace()\nbreakpoint()\npass\nn\n", ""},
    {"Lists",
     "acc = [S.fp32x8(0) for k in range(2)]\nfor k in S.unroll(2):\n    acc[k] = acc[k] + x\nacc.append(acc[0])\nb = "
     "len(acc)\nc = "
     "acc[2]\n",
     "  let acc_0#8: float32x8 = broadcast<8>(0.0)\n  let acc_1#9: float32x8 = broadcast<8>(0.0)\n  let item#10: "
     "float32x8 = (acc_0#8 + "
     "broadcast<8>(x#6))\n"
     "  let item#11: float32x8 = (acc_1#9 + broadcast<8>(x#6))\n  let b#12: int32 = 3\n  let c#13: float32x8 = "
     "item#10\n"},
};

INSTANTIATE_TEST_SUITE_P(Goldens, DslProgram, testing::ValuesIn(kGoldens), [](const auto& p) { return p.param.name; });

// --- functions, macros, parameters ---

TEST(DslFunctions, SubFunctionsAreCompiledOnceAndConvertTheirArguments) {
  EXPECT_EQ(
      tir_text("@S.prim_func\ndef g(p: S.ptr(\"i32\", \"global\"), k: S.i16, scale: S.fp32 = 2) -> S.i32:\n    return "
               "p[0] + k\n"
               "@S.prim_func(is_inline=True)\ndef unused_helper(k: S.i32):\n    return\n"
               "@S.prim_func\ndef f(a: S.ptr(\"i32\", \"global\"), n: S.i32):\n    b = S.alloc_buffer((2,), \"i32\")\n"
               "    c = g(a, n)\n    c = g(k=3, p=a)\n    unused_helper(c)\n"),
      "func f(a#0: global int32*, n#1: int32) -> void {\n"
      "  alloc b#2: private int32* [2]\n"
      "  let c#3: int32 = call<int32> g(a#0, cast<int16>(n#1), 2.0)\n"
      "  set c#3 = call<int32> g(a#0, 3:int16, 2.0)\n"
      "  eval call<void> unused_helper(c#3)\n"
      "}\n"
      "\n"
      "func g(p#0: global int32*, k#1: int16, scale#2: float32) -> int32 {\n"
      "  return (load(p#0, 0) + cast<int32>(k#1))\n"
      "}\n"
      "\n"
      "func unused_helper(k#0: int32) -> void inline {\n"
      "  return\n"
      "}\n");
}

TEST(DslFunctions, MetaParametersMakeOneSubFunctionPerValue) {
  const std::string text = tir_text(
      "@S.prim_func(is_inline=False)\ndef times(k: S.meta_var, n: S.i32) -> S.i32:\n    return n * k\n"
      "@S.prim_func\ndef f(o: S.ptr(\"i32\", \"global\"), n: S.i32):\n"
      "    for k in S.unroll(2, 4):\n        o[k] = times(k, n)\n    o[0] = times(3, n + 1)\n");
  EXPECT_THAT(text, testing::HasSubstr("func times_2(n#"));
  EXPECT_THAT(text, testing::HasSubstr("func times_3(n#"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("times_4")));
  EXPECT_THAT(text, testing::HasSubstr("call<int32> times_3((n#1 + 1))"));
  EXPECT_THAT(tir_text("@S.prim_func\ndef times(k: S.meta_var, n: S.i32) -> S.i32:\n    return n * k\n"
                       "@S.prim_func\ndef f(o: S.ptr(\"i32\", \"global\"), n: S.i32):\n    o[0] = times(n, n)\n"),
              testing::HasSubstr(
                  "The 1-th arg expect an integer known at compile time (parameter \"k\" of function \"times\")."));
}

TEST(DslFunctions, HygienicMacroSeesItsFileAndTheOtherItsCaller) {
  EXPECT_EQ(
      body_text(
          "scale = 3\n"
          "@S.macro\ndef put_scaled(dst, k, v):\n    dst[k] = v * scale\n"
          "@S.macro(hygienic=False)\ndef put_at_cursor(dst, v):\n    dst[cursor] = v\n    put_scaled(dst, cursor, 1)\n"
          "@S.prim_func\ndef f(o: S.ptr(\"i32\", \"global\"), n: S.i32):\n"
          "    scale = 7.5\n    for cursor in range(n):\n        put_at_cursor(o, cursor)\n    put_scaled(o, 0, v=n + "
          "1)\n"),
      "  let scale#2: float32 = 7.5\n"
      "  for serial cursor#3: int32 = 0 to n#1 step 1 {\n    store o#0[cursor#3] = cursor#3\n    store o#0[cursor#3] = "
      "3\n  }\n"
      "  let v#4: int32 = (n#1 + 1)\n  store o#0[0] = (v#4 * 3)\n");
}

TEST(DslFunctions, MacroOfIssueThree) {
  // The captured n picks no branch: the parameter n of the kernel hides it, the macro's own n does not exist.
  EXPECT_EQ(body_text("n = 8\n@S.macro\ndef add_func(inp, out, idx):\n    out[idx] = inp[idx] + n\n"
                      "@S.prim_func\ndef f(a: S.ptr(\"i32\", \"global\"), b: S.ptr(\"i32\", \"global\"), n: S.i32):\n"
                      "    if n > 0:\n        add_func(a, b, 0)\n    else:\n        add_func(a, b, 1)\n"),
            "  if (n#2 > 0) {\n    store b#1[0] = (load(a#0, 0) + 8)\n  } else {\n    store b#1[1] = (load(a#0, 1) + "
            "8)\n  }\n");
}

TEST(DslFunctions, PlainFunctionsAreInlinedBeforeTheStatement) {
  EXPECT_EQ(
      body_text(
          "def pick(p, i, flag):\n    if flag:\n        value = p[i]\n    else:\n        value = p[i + 1]\n    return "
          "value * 2\n"
          "@S.prim_func\ndef f(a: S.ptr(\"i32\", \"global\"), n: S.i32):\n    a[0] = a[1] + pick(a, n + 1, False)\n"),
      "  let saved#2: int32 = load(a#0, 1)\n"
      "  let i#3: int32 = (n#1 + 1)\n"
      "  let value#4: int32 = load(a#0, (i#3 + 1))\n"
      "  store a#0[0] = (saved#2 + (value#4 * 2))\n");
}

TEST(DslFunctions, AParameterThatIsAssignedIsACopy) {
  EXPECT_EQ(body_text("def g(k):\n    k = k + 1\n    return k\n@S.prim_func\ndef f(n: S.i32):\n    b = g(n) + n\n"),
            "  let k#1: int32 = n#0\n  let k#2: int32 = (k#1 + 1)\n  let b#3: int32 = (k#2 + n#0)\n");
}

TEST(DslFunctions, HostFunctionsRunAtCompileTime) {
  EXPECT_EQ(body_text("def fib(n):\n    a, b = 0, 1\n    out = []\n    for i in range(n):\n        out.append(a)\n     "
                      "   a, b = b, a + "
                      "b\n        if a > 20:\n            break\n    return out\n"
                      "@S.prim_func\ndef f(o: S.ptr(\"i32\", \"global\")):\n    t = S.alloc_const((8,), \"int32\", "
                      "fib(30))\n    o[0] = "
                      "sum(fib(5)) + len(fib(30))\n"),
            "  alloc t#1: constant int32* [8] = x\"000000000100000001000000020000000300000005000000080000000d000000\"\n"
            "  store o#0[0] = 15\n");
}

const std::string kWindow =
    "@S.record\nclass Axis:\n    extent: S.i32\n    stride: S.size_i32\n"
    "@S.record\nclass Window:\n    \"\"\"Two axes.\"\"\"\n    height: Axis\n    width: Axis\n    parts: types\n";

std::vector<std::string> source_names(const tir::PrimFunc& function) {
  std::vector<std::string> names;
  for (const tir::VarPtr& parameter : function.params) names.push_back(parameter->source_name());
  return names;
}

dsl::TemplateParams two_types() {
  dsl::TemplateParams params;
  params.set("types", dsl::Captured{dsl::CapturedList{{dsl::CapturedType{tir::Type::scalar(DType::kI8)}},
                                                      {dsl::CapturedType{tir::Type::scalar(DType::kF32)}}}});
  return params;
}

TEST(DslRecords, AParameterStandsForOnePerField) {
  const std::string source = kWindow +
                             "@S.prim_func\ndef f(window_width_extent: S.i32, window: Window, p: S.ptr(\"i32\", "
                             "\"global\")):\n    p[0] = window.width.stride + window.parts[0]\n";
  const auto module = dsl_test::compile(source, "f", two_types());
  ASSERT_TRUE(module.ok()) << module.status().message();
  std::vector<std::string> names;
  for (const tir::VarPtr& parameter : module->entry().params) names.push_back(parameter->name);
  EXPECT_THAT(names, testing::ElementsAre("window_width_extent", "window_height_extent", "window_height_stride",
                                          "window_width_extent_", "window_width_stride", "window_parts_0",
                                          "window_parts_1", "p"));
  EXPECT_THAT(
      source_names(module->entry()),
      testing::ElementsAre("window_width_extent", "window.height.extent", "window.height.stride", "window.width.extent",
                           "window.width.stride", "window.parts[0]", "window.parts[1]", "p"));
  EXPECT_TRUE(module->entry().params[4]->non_negative);
}

TEST(DslRecords, PartsPassOnAndHelpersMakeThem) {
  EXPECT_EQ(
      tir_text(kWindow + "@S.prim_func(is_inline=False)\ndef area(a: Axis, window: Window) -> S.i32:\n"
                         "    return a.extent * window.height.stride\n"
                         "def turned(w: Window):\n    return Window(width=w.height, height=w.width, parts=w.parts)\n"
                         "@S.prim_func\ndef f(p: S.ptr(\"i32\", \"global\"), window: Window, n: S.i16):\n"
                         "    p[0] = area(Axis(n, stride=2), turned(window))\n    p[1] = area(window.width, window)\n",
               "f", two_types()),
      "func f(p#0: global int32*, window_height_extent#1: int32, window_height_stride#2: int32 nonneg, "
      "window_width_extent#3: int32, window_width_stride#4: int32 nonneg, window_parts_0#5: int8, "
      "window_parts_1#6: float32, n#7: int16) -> void {\n"
      "  store p#0[0] = call<int32> area(cast<int32>(n#7), 2, window_width_extent#3, window_width_stride#4, "
      "window_height_extent#1, window_height_stride#2, window_parts_0#5, window_parts_1#6)\n"
      "  store p#0[1] = call<int32> area(window_width_extent#3, window_width_stride#4, window_height_extent#1, "
      "window_height_stride#2, window_width_extent#3, window_width_stride#4, window_parts_0#5, window_parts_1#6)\n"
      "}\n"
      "\n"
      "func area(a_extent#0: int32, a_stride#1: int32 nonneg, window_height_extent#2: int32, "
      "window_height_stride#3: int32 nonneg, window_width_extent#4: int32, window_width_stride#5: int32 nonneg, "
      "window_parts_0#6: int8, window_parts_1#7: float32) -> int32 noinline {\n"
      "  return (a_extent#0 * window_height_stride#3)\n"
      "}\n");
}

TEST(DslRecords, FieldsKeepTheirValues) {
  EXPECT_EQ(body_text("@S.record\nclass Pair:\n    a: S.i32\n    b: S.u8\n"
                      "@S.prim_func\ndef f(p: S.ptr(\"i32\", \"global\"), n: S.i32):\n"
                      "    x = Pair(n, 300)\n    n = n + 1\n    y = x\n    if n > 3:\n        x = Pair(x.b, x.a)\n"
                      "    p[0] = x.a + y.b\n"),
            "  let x_a#2: int32 = n#1\n  let x_b#3: uint8 = 44:uint8\n"
            "  set n#1 = (n#1 + 1)\n"
            "  let y_a#4: int32 = x_a#2\n  let y_b#5: uint8 = x_b#3\n"
            "  if (n#1 > 3) {\n"
            "    let tmp_x#6: int32 = cast<int32>(x_b#3)\n    let tmp_x#7: uint8 = cast<uint8>(x_a#2)\n"
            "    set x_a#2 = tmp_x#6\n    set x_b#3 = tmp_x#7\n"
            "  }\n"
            "  store p#0[0] = (x_a#2 + cast<int32>(y_b#5))\n");
}

TEST(DslRecords, OfATopLevelAreCompileTimeValues) {
  EXPECT_EQ(body_text("@S.record\nclass Tile:\n    rows: S.i32\n    skip: S.i32 = 0\nTILE = Tile(rows=2 + 1)\n"
                      "@S.prim_func\ndef f(p: S.ptr(\"i32\", \"global\")):\n"
                      "    for i in S.unroll(TILE.rows):\n        if TILE.skip == 0:\n            p[i] = i\n"),
            "  store p#0[0] = 0\n  store p#0[1] = 1\n  store p#0[2] = 2\n");
}

TEST(DslParameters, PacksSourcesAndDefaults) {
  dsl::TemplateParams params;
  dsl::CapturedList types;
  for (const DType d : {DType::kF32, DType::kI8})
    types.push_back({dsl::CapturedType{tir::Type::pointer_to(d, 1, tir::Scope::kGlobal)}});
  params.set("types", dsl::Captured{types}).set("VL", int64_t{16}).set("KIND", "float32").set("__restrict__", true);
  params.set_source("finish", "def finish(v):\n    return S.max(v, S.cast(0, f\"{KIND}x{VL}\"))\n");
  EXPECT_EQ(tir_text("VL = 4\nUNITS = VL * 2\ndef finish(v):\n    return v\n"
                     "@S.prim_func\ndef f(ins: types, out: S.ptr(KIND, \"global\")):\n"
                     "    for k in S.unroll(len(ins)):\n        v = S.cast(S.vload(ins[k], lanes=VL), KIND)\n        "
                     "S.vstore(finish(v), "
                     "out + k * UNITS)\n",
                     "f", params),
            "func f(ins_0#0: global float32* restrict, ins_1#1: global int8* restrict, out#2: global float32* "
            "restrict) -> void {\n"
            "  let v#3: float32x16 = S.vload<float32x16>(ins_0#0, 1, .lanes=16)\n"
            "  eval S.vstore<void>(S.max<float32x16>(v#3, broadcast<16>(0.0)), out#2, 1)\n"
            "  let v#4: float32x16 = cast<float32x16>(S.vload<int8x16>(ins_1#1, 1, .lanes=16))\n"
            "  eval S.vstore<void>(S.max<float32x16>(v#4, broadcast<16>(0.0)), (out#2 + 32), 1)\n"
            "}\n");
}

TEST(DslParameters, ImportedFilesShareTheParameters) {
  dsl::TemplateParams params;
  params.set("SCALE", int64_t{5});
  dsl::SourceText source{
      "main.py",
      "from aipu import script as S\nfrom helpers import times, BASE\n@S.prim_func\ndef f(n: S.i32, o: S.ptr(\"i32\", "
      "\"global\")):\n    o[0] = times(n) + BASE\n"};
  source.import_module = [](std::string_view module) -> std::optional<std::string> {
    if (module != "helpers") return std::nullopt;
    return "BASE = SCALE + 1\ndef times(v):\n    return v * SCALE\n";
  };
  const auto module = dsl::parse_kernel(source, "f", params, "renamed");
  ASSERT_TRUE(module.ok()) << module.status().message();
  EXPECT_EQ(module->entry().name, "renamed");
  EXPECT_THAT(tir::print_module(*module), testing::HasSubstr("store o#1[0] = ((n#0 * 5) + 6)"));
}

TEST(DslParameters, TextKeepsDifferentParametersApart) {
  const auto text = [](auto&& fill) {
    dsl::TemplateParams params;
    fill(params);
    return params.text();
  };
  EXPECT_NE(text([](auto& p) { p.set("a", "1"); }), text([](auto& p) { p.set("a", int64_t{1}); }));
  EXPECT_NE(text([](auto& p) { p.set("a", "x\";b=1\"y"); }), text([](auto& p) { p.set("a", "x").set("b", "y"); }));
  EXPECT_NE(text([](auto& p) { p.set("a", 1.0); }), text([](auto& p) { p.set("a", 1.0 + 1e-16 * 3); }));
  EXPECT_EQ(text([](auto& p) { p.set("a", true).set("b", int64_t{2}); }),
            text([](auto& p) { p.set("b", int64_t{2}).set("a", true); }));
}

TEST(DslStrict, HidesTheExtensions) {
  dsl::TemplateParams strict;
  strict.set("__compass_strict__", true);
  const auto refuses = [&](const std::string& body, const std::string& phrase) {
    EXPECT_THAT(tir_text(in_kernel(body), "f", strict), testing::StartsWith(phrase)) << body;
    EXPECT_THAT(tir_text(in_kernel(body)), testing::StartsWith("func f")) << body;
  };
  refuses("b = S.i64(n)\n", "module 'tvm.compass.dsl.script' has no attribute 'i64'");
  refuses("b = S.cast(n, \"fp64\")\n", "The arg \"dtype\" expect a data type");
  refuses("b = S.maximum(x, x)\n", "module 'tvm.compass.dsl.script' has no attribute 'maximum'");
  refuses("S.prefetch(a)\n", "module 'tvm.compass.dsl.script' has no attribute 'prefetch'");
  refuses("b = S.alloc_buffer((4,), \"fp32x3\")\n", "The arg \"dtype\" expect one of");
  refuses("v = S.vload(a, lanes=3)\nb = v[1]\n", "Only support get or set element from");
}

}  // namespace
}  // namespace aipu
