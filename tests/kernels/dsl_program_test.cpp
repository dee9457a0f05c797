// Small programs and the TIR that they become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/dsl_support.h"

namespace aipu {
namespace {

using dsl_test::body_text;
using dsl_test::tir_text;

std::string in_kernel(const std::string& body) {
  std::string text = "@S.prim_func\ndef f(a: S.ptr(\"i32\", \"global\"), h: S.ptr(\"fp32\", \"global\"), n: S.i32, u8: S.u8, i8: S.i8, i16: S.i16, x: S.fp32, h16: S.fp16):\n";
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
     "  let b#8: int32 = 3\n  let c#9: float32 = 0.5\n  let d#10: bool = true\n  let e#11: int32 = -7\n  let g#12: int32 = 31\n"},
    {"ExampleTypes", "b = i8 + 100\nc = i8 + 200\nd = i8 + u8\ne = u8 + i16\ng = h16 * 2\nk = h16 * 2.0\nm = i8 * h16\no = 3 + 4\n",
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
     "  let b#8: int32 = (n#2 / 3)\n  let c#9: int32 = (n#2 / 3)\n  let d#10: int32 = (n#2 % 4)\n  let e#11: float32 = (x#6 / 3.0)\n"
     "  let g#12: int32 = 3\n  let k#13: int32 = -4\n  let m#14: int32 = 1\n"},
    {"Shifts", "b = n << 3\nc = i8 >> n\n", "  let b#8: int32 = (n#2 << 3)\n  let c#9: int8 = (i8#4 >> cast<int8>(n#2))\n"},
    {"UnaryMinus", "b = -n\nc = -x\nd = ~n\n", "  let b#8: int32 = (n#2 * -1)\n  let c#9: float32 = (x#6 * -1.0)\n  let d#10: int32 = ~n#2\n"},
    {"ChainedComparison", "b = 0 < n < 10\n", "  let b#8: bool = ((0 < n#2) && (n#2 < 10))\n"},
    {"Ternary", "b = n if n > 0 else 0\nc = x if n > 0 else 1\n",
     "  let b#8: int32 = ((n#2 > 0) ? n#2 : 0)\n  let c#9: float32 = ((n#2 > 0) ? x#6 : 1.0)\n"},
    {"StaticCondition", "if 1 > 2:\n    b = undefined_name\nelse:\n    b = n\nc = undefined_too if False else b\n", "  let b#8: int32 = n#2\n  let c#9: int32 = b#8\n"},
    {"IfElse", "b = 0\nif n:\n    b = n\nelif x > 1.0:\n    c = b\nelse:\n    c = x\n",
     "  let b#8: int32 = 0\n  if (n#2 != 0) {\n    set b#8 = n#2\n  } else {\n    if (x#6 > 1.0) {\n      let c#9: int32 = b#8\n    } else {\n      let c#10: float32 = x#6\n    }\n  }\n"},
    {"Loops", "for i in range(n):\n    a[i] = i\nfor j in range(2, n, 3):\n    if j > 5:\n        break\nwhile n > 0:\n    n -= 1\n",
     "  for serial i#8: int32 = 0 to n#2 step 1 {\n    store a#0[i#8] = i#8\n  }\n"
     "  for serial j#9: int32 = 2 to n#2 step 3 {\n    if (j#9 > 5) {\n      break\n    }\n  }\n"
     "  while (n#2 > 0) {\n    set n#2 = (n#2 - 1)\n  }\n"},
    {"Grid", "for i, j in S.grid(n, 4):\n    a[i * 4 + j] = 0\n",
     "  for serial i#8: int32 = 0 to n#2 step 1 {\n    for serial j#9: int32 = 0 to 4 step 1 {\n      store a#0[((i#8 * 4) + j#9)] = 0\n    }\n  }\n"},
    {"TecRange", "for t in S.tec_range(2, n):\n    a[t] = t\nfor q in S.vectorized(8):\n    a[q] = q\n",
     "  for tec t#8: int32 = 2 to n#2 step 1 {\n    store a#0[t#8] = t#8\n  }\n  for vectorized q#9: int32 = 0 to 8 step 1 {\n    store a#0[q#9] = q#9\n  }\n"},
    {"Swap", "b = 1\nc = 2\nb, c = c, b\n",
     "  let b#8: int32 = 1\n  let c#9: int32 = 2\n  let tmp_b#10: int32 = b#8\n  set b#8 = c#9\n  set c#9 = tmp_b#10\n"},
    {"StoreConverts", "a[0] = x\nh[1] = n\nh[2] = 7\na[3] = 2.9\n",
     "  store a#0[0] = cast<int32>(x#6)\n  store h#1[1] = cast<float32>(n#2)\n  store h#1[2] = 7.0\n  store a#0[3] = 2\n"},
    {"Slices", "v = a[n * 8 : n * 8 + 8]\nw = h[0:16:2]\na[8:16] = v\nh[0:8] = 1\nb = a[3:4]\n",
     "  let v#8: int32x8 = S.vload<int32x8>((a#0 + (n#2 * 8)), 1, .lanes=8)\n"
     "  let w#9: float32x8 = S.vload<float32x8>(h#1, 2, .lanes=8)\n"
     "  eval S.vstore<void>(v#8, (a#0 + 8), 1)\n"
     "  eval S.vstore<void>(broadcast<8>(1.0), h#1, 1)\n"
     "  let b#10: int32 = load((a#0 + 3), 0)\n"},
    {"Pointers", "p = a + n\nq = p.as_ptr(\"i8x32\")\nr = S.vload(q)\np = a\nb = p == a\nc = q[1]\n",
     "  let p#8: global int32* = (a#0 + n#2)\n  let q#9: global int8x32* = cast<global int8x32*>(p#8)\n  let r#10: int8x32 = S.vload<int8x32>(q#9, 1)\n"
     "  set p#8 = a#0\n  let b#11: bool = (p#8 == a#0)\n  let c#12: int8x32 = load(q#9, 1)\n"},
    {"Buffers", "b = S.alloc_buffer((2, 4), \"fp32\", \"lsram\")\nb[1, n] = 3\nc = b[n, 2]\np = b.addr_of((1, 2))\nq = b.addr_of(1)\nv = b[1, 0:4]\n",
     "  alloc b#8: lsram float32* [8]\n  store b#8[(4 + n#2)] = 3.0\n  let c#9: float32 = load(b#8, ((n#2 * 4) + 2))\n"
     "  let p#10: lsram float32* = (b#8 + 6)\n  let q#11: lsram float32* = (b#8 + 4)\n  let v#12: float32x4 = S.vload<float32x4>((b#8 + 4), 1, .lanes=4)\n"},
    {"MatchBuffer", "m = S.match_buffer(a, (n, 3))\nm[n, 1] += 2\n", "  store a#0[((n#2 * 3) + 1)] = (load(a#0, ((n#2 * 3) + 1)) + 2)\n"},
    {"LaneAccess", "v = S.vload(a)\nb = v[3]\nv[n] = i8\nm = v > 1\nm[0] = True\n", "?"},
    {"Address", "b = 3\np = b.addr\np[0] = 4\n", "  let b#8: int32 = 3\n  let p#9: private int32* = addr(b#8)\n  store p#9[0] = 4\n"},
    {"Unroll", "t = n\nfor k in S.unroll(3):\n    t = t + k\nfor j in S.unroll(4, 0, -2):\n    a[j] = j\n",
     "  let t#8: int32 = n#2\n  set t#8 = (t#8 + 1)\n  set t#8 = (t#8 + 2)\n  store a#0[4] = 4\n  store a#0[2] = 2\n"},
    {"Constructors", "b = S.i32(x)\nc = S.fp32x8(1)\nd = S.fp32(\"-inf\")\ne = S.i32x4([1, 2, n, 4])\ng = S.u8(300)\n",
     "  let b#8: int32 = cast<int32>(x#6)\n  let c#9: float32x8 = broadcast<8>(1.0)\n  let d#10: float32 = -inf\n  let e#11: int32x4 = [1, 2, n#2, 4]\n  let g#12: uint8 = 44:uint8\n"},
    {"MetaVar", "k = S.meta_var(5)\nb = k + 1\nfor i in S.unroll(k - 3):\n    a[i] = k\n", "  let b#8: int32 = 6\n  store a#0[0] = 5\n  store a#0[1] = 5\n"},
    {"Masks", "v = S.vload(a, mask=\"2TF\")\nw = S.vload(a, \"8T\")\nm = S.tail_mask(n, 8)\nz = S.vload(a, m)\n",
     "  let v#8: int32x8 = S.vload<int32x8>(a#0, 1, mask=[true, false, true, false, false, false, false, false])\n"
     "  let w#9: int32x8 = S.vload<int32x8>(a#0, 1, mask=[true, true, true, true, true, true, true, true])\n"
     "  let m#10: boolx8 = S.tail_mask<boolx8>(n#2, .lanes=8)\n  let z#11: int32x8 = S.vload<int32x8>(a#0, 1, mask=m#10)\n"},
    {"ScalarExtremes", "b = S.max(n, 3)\nc = S.min(x, n)\nd = S.max(2, 5)\ne = S.ceildiv(n, 8)\ng = S.ceildiv(9, 4)\n",
     "  let b#8: int32 = (n#2 max 3)\n  let c#9: float32 = (x#6 min cast<float32>(n#2))\n  let d#10: int32 = 5\n  let e#11: int32 = ((n#2 + 7) / 8)\n  let g#12: int32 = 3\n"},
    {"LogicalOperators", "b = n > 1 and x > 2.0 or not n\nc = n > 1 and True\nd = False or n < 2\n",
     "  let b#8: bool = (((n#2 > 1) && (x#6 > 2.0)) || !(n#2 != 0))\n  let c#9: bool = (n#2 > 1)\n  let d#10: bool = (n#2 < 2)\n"},
    {"Block", "with S.block(\"work\"):\n    i = S.axis.spatial(8, n)\n    a[i] = 1\n", "  block {\n    let i#8: int32 = n#2\n    store a#0[i#8] = 1\n  }\n"},
    {"SizeVariable", "k = S.size_i32(n)\n", "  let k#8: int32 nonneg = n#2\n"},
    {"Wide", "b = S.i64(n)\nc = b * 3\nd = S.fp64(0.1)\ne = d + 0.1\n",
     "  let b#8: int64 = cast<int64>(n#2)\n  let c#9: int64 = (b#8 * 3:int64)\n  let d#10: float64 = 0.1:float64\n  let e#11: float64 = (d#10 + 0.1:float64)\n"},
    {"IgnoredStatements", "\"\"\"A docstring.\"\"\"\nimport pdb\npdb.set_trace()\nbreakpoint()\npass\nn\n", ""},
    {"Lists", "acc = [S.fp32x8(0) for k in range(2)]\nfor k in S.unroll(2):\n    acc[k] = acc[k] + x\nacc.append(acc[0])\nb = len(acc)\nc = acc[2]\n",
     "  let acc_0#8: float32x8 = broadcast<8>(0.0)\n  let acc_1#9: float32x8 = broadcast<8>(0.0)\n  let item#10: float32x8 = (acc_0#8 + broadcast<8>(x#6))\n"
     "  let item#11: float32x8 = (acc_1#9 + broadcast<8>(x#6))\n  let b#12: int32 = 3\n  let c#13: float32x8 = item#10\n"},
};

INSTANTIATE_TEST_SUITE_P(Goldens, DslProgram, testing::ValuesIn(kGoldens), [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace aipu
