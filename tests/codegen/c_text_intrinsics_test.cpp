// The spelling of every intrinsic in c_code (toolchain.md 6.6), and of values wider than a register.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/intrinsics/intrinsic_table.h"
#include "tests/codegen/c_text_support.h"

namespace aipu::tir::testing {
namespace {

struct Row {
  const char* name;
  const char* dsl;
  const char* c;
};
std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

class CTextIntrinsic : public ::testing::TestWithParam<Row> {};

TEST_P(CTextIntrinsic, IsSpelled) {
  // Short names for the operands: y, z are int32x8, p a mask of 8 lanes.
  std::string text = body("y = va[0]\nz = va[1]\np = y < z\n" + std::string(GetParam().dsl));
  const std::string head = "int8 y = va[0];\nint8 z = va[1];\nbool8 p = __vclt(y, z, ALL_TRUE_w);\n";
  if (text.starts_with(head)) text.erase(0, head.size());
  EXPECT_EQ(text, GetParam().c);
}

#define ALL "ALL_TRUE_w"

const Row kArithmetic[] = {
    {"Add", "v = S.vadd(y, z)", "int8 v = (y + z);"},
    {"Sub", "v = S.vsub(y, z)", "int8 v = (y - z);"},
    {"Mul", "v = S.vmul(y, z)", "int8 v = (y * z);"},
    {"AddSaturating", "v = S.vadd(y, z, saturate=True)", "int8 v = __vadds((int8)0, y, z, " ALL ");"},
    {"SubSaturating", "v = S.vsub(y, z, saturate=True)", "int8 v = __vsubs((int8)0, y, z, " ALL ");"},
    {"AddMasked", "v = S.vadd(y, z, mask=p, r=7)", "int8 v = __vadd((int8)7, y, z, p);"},
    {"SubMasked", "v = S.vsub(y, z, mask=p, r=y)", "int8 v = __vsub(y, y, z, p);"},
    {"AddMaskWithoutR", "v = S.vadd(y, z, mask=p)", "int8 v = (y + z);"},
    {"AddOtherSign", "v = S.vadd(y, S.u(z), out_sign='u')",
     "uint8 v = __vadd((uint8)(uint)0, y, as_uint8(z), " ALL ");"},
    {"MulFloatMasked", "v = S.vmul(vx[0], vx[1], mask=p, r=0)",
     "float8 v = __vmul((float8)0x0p+0f/*0.000000e+00*/, vx[0], vx[1], p);"},
    {"MulIntMasked", "v = S.vmul(y, z, mask=p, r=0)", "int8 v = __vsel((y * z), (int8)0, p);"},
    {"Mull", "v = S.vmull(vs[0], vs[1])", "int8 v = __vmul((int8)0, vs[0], vs[1], ALL_TRUE_h);"},
    {"Mulh", "v = S.vmulh(vs[0], vs[1])", "int8 v = __vmulh((int8)0, vs[0], vs[1], ALL_TRUE_h);"},
    {"Div", "v = S.vdiv(y, z, mask=p)", "int8 v = __vdiv((int8)0, y, z, p);"},
    {"DivOperator", "va[2] = y / z", "va[2] = __vdiv(va[2], y, z, " ALL ");"},
    {"Mod", "v = y % z", "int8 v = __vmod((int8)0, y, z, " ALL ");"},
    {"NestedHasZero", "v = S.vdiv(y, z) + 1", "int8 v = (__vdiv((int8)0, y, z, " ALL ") + (int8)1);"},
    {"AssignedAgain", "v = y\nv = S.vdiv(v, z)", "int8 v = y;\nv = __vdiv(v, v, z, " ALL ");"},
    {"Abs", "v = S.abs(y)\na[0] = S.abs(n)", "int8 v = __vabs((int8)0, y, " ALL ");\na[0] = __abs(n);"},
    {"AbsSaturating", "v = S.abs(y, saturate=True)", "int8 v = __vabss((int8)0, y, " ALL ");"},
    {"Fma", "v = S.fma(vx[0], vx[1], vx[2], mask=p)", "float8 v = __vfma(vx[0], vx[1], vx[2], p);"},
    {"Fmae", "v = S.vfmae(vx[0], vh[0], vh[1])", "float8 v = __vfmae(vx[0], vh[0], vh[1], " ALL ");"},
    {"Fmao", "v = S.vfmao(vx[0], vh[0], vh[1])", "float8 v = __vfmao(vx[0], vh[0], vh[1], " ALL ");"},
    {"Rint", "v = S.rint(vx[0])\nx[0] = S.rint(k)",
     "float8 v = __vrint((float8)0x0p+0f/*0.000000e+00*/, vx[0], " ALL ");\nx[0] = rint(k);"},
    {"Horizontal", "v = S.vaddh(y, z)\nw = S.vsubh(y, z)\nq = S.vmaxh(y, z)\nr = S.vminh(y, z)",
     "int8 v = __vaddh(y, z);\nint8 w = __vsubh(y, z);\nint8 q = __vmaxh(y, z);\nint8 r = __vminh(y, z);"},
    {"MaxMin", "v = S.max(y, z)\nw = S.min(y, 3, mask=p, r=0)",
     "int8 v = __vmax((int8)0, y, z, " ALL ");\nint8 w = __vmin((int8)0, y, (int8)3, p);"},
    {"ClipInt", "v = S.clip(y, 0, 7)", "int8 v = __vmax(y, __vmin(y, y, (int8)7, " ALL "), (int8)0, " ALL ");"},
    {"Matrix", "S.vmml(x, vh[0], vh[1])\nS.vmma(x, vh[0], vh[1])",
     "__vmml(x, vh[0], vh[1]);\n__vmma(x, vh[0], vh[1]);"},
    {"Dot", "v = S.vdot(vs[0], vs[1])\nw = S.vqdot(vb[0], vu[0])",
     "int8 v = __vdot((int8)0, vs[0], vs[1], ALL_TRUE_h);\nint8 w = __vqdot((int8)0, vb[0], vu[0], ALL_TRUE_b);"},
    {"DotAccumulated", "v = S.vdpa(y, vs[0], vs[1])\nw = S.vqdpa(y, vb[0], vb[1])",
     "int8 v = __vdpa(y, vs[0], vs[1], ALL_TRUE_h);\nint8 w = __vqdpa(y, vb[0], vb[1], ALL_TRUE_b);"},
    {"Reductions", "v = S.vrpadd(y)\nw = S.vrpmax(y, mask=p)\nq = S.vrpmin(y)",
     "int8 v = __vrpadd((int8)0, y, " ALL ");\nint8 w = __vrpmax((int8)0, y, p);\nint8 q = __vrpmin((int8)0, y, " ALL
     ");"},
};
INSTANTIATE_TEST_SUITE_P(Arithmetic, CTextIntrinsic, ::testing::ValuesIn(kArithmetic),
                         [](const auto& row) { return row.param.name; });

const Row kBits[] = {
    {"And", "v = y & z\nw = S.vand(y, z, mask=p)",
     "int8 v = __vand((int8)0, y, z, " ALL ");\nint8 w = __vand((int8)0, y, z, p);"},
    {"OrXorInv", "v = y | z\nw = y ^ z\nq = ~y",
     "int8 v = __vor((int8)0, y, z, " ALL ");\nint8 w = __vxor((int8)0, y, z, " ALL
     ");\nint8 q = __vinv((int8)0, y, " ALL ");"},
    {"MasksHaveNoR", "q = y > 0\nr = p & q\nr = p | q\nr = p ^ q\nr = ~p",
     "bool8 q = __vcgt(y, (int8)0, " ALL ");\nbool8 r = __vand(p, q, " ALL ");\nr = __vor(p, q, " ALL
     ");\nr = __vxor(p, q, " ALL ");\nr = __vinv(p, " ALL ");"},
    {"Clear", "v = y & ~z\nw = ~y & z",
     "int8 v = __vbclr((int8)0, y, z, " ALL ");\nint8 w = __vbclr((int8)0, z, y, " ALL ");"},
    {"Set", "v = y | ~z", "int8 v = __vbset((int8)0, y, z, " ALL ");"},
    {"NandNor", "q = y > 0\nr = ~(p & q)\nr = ~(p | q)",
     "bool8 q = __vcgt(y, (int8)0, " ALL ");\nbool8 r = __vnand(p, q, " ALL ");\nr = __vnor(p, q, " ALL ");"},
    {"NandNorOfAllLanes",
     "q = y > 0\nr = S.vinv(S.vand(p, q, mask='8T'))\nr = S.vinv(S.vor(p, q, mask='8T'), mask=q)\n"
     "r = S.vinv(S.vand(p, q, mask='4T4F'))\nr = S.vand(p, S.vinv(q, mask='8T'))",
     "bool8 q = __vcgt(y, (int8)0, " ALL ");\nbool8 r = __vnand(p, q, " ALL
     ");\nr = __vnor(p, q, q);\nr = __vinv(__vand(p, q, __vmov_w(0x00001111)), " ALL ");\nr = __vbclr(p, q, " ALL ");"},
    {"AllAny", "if S.vall(p):\n    a[0] = 1\nif S.vany(p):\n    a[0] = 2",
     "if (__vandr(p)) {\n  a[0] = 1;\n}\nif (__vorr(p)) {\n  a[0] = 2;\n}"},
    {"ShiftLeft", "v = y << 3\nw = S.vsl(y, z, saturate=True)",
     "int8 v = __vlsl(y, (int8)3);\nint8 w = __vsasl(y, z);"},
    {"ShiftLeftMasked", "v = S.vsl(y, 3, mask=p, r=0)", "int8 v = __vlsl((int8)0, y, (int8)3, p);"},
    {"ShiftRight", "v = y >> 3\nw = S.u(y) >> 3",
     "int8 v = __vasr(y, (int8)3);\nuint8 w = __vlsr(as_uint8(y), (uint8)(uint)3);"},
    {"ShiftRightRounded", "v = S.vsr(y, 3, with_round=True)\nw = S.vsr(S.u(y), 3, with_round=True)",
     "int8 v = __vasrr(y, (int8)3);\nuint8 w = __vlsrr(as_uint8(y), (uint8)(uint)3);"},
    {"Rotate", "v = S.vror(y, 3)\nw = S.vror(y, 3, mask=p)",
     "int8 v = __vror(y, (int8)3);\nint8 w = __vror((int8)0, y, (int8)3, p);"},
    {"NarrowingShift", "v = S.vnsr(y, 3)\nw = S.vnsr(y, 3, to_h=True)\nq = S.vnsr(S.u(y), 3)",
     "char32 v = __vnsra(y, (int8)3, " ALL ");\nshort16 w = __vnsra_h(y, (int8)3, " ALL
     ");\nuchar32 q = __vnsrl(as_uint8(y), (uint8)(uint)3, " ALL ");"},
    {"NarrowingShiftSaturating", "v = S.vnsr(y, 3, saturate=True, out_sign='u')\nw = S.vnsrsr(y, 3, to_h=True)",
     "uchar32 v = __vnsras_u(y, (int8)3, " ALL ");\nshort16 w = __vnsrasr_h_s(y, (int8)3, " ALL ");"},
    {"NarrowingShiftRounded", "v = S.vnsr(y, 3, mask=p, with_round=True)", "char32 v = __vnsrar(y, (int8)3, p);"},
    {"Counts", "v = S.vcls(y)\nw = S.clz(y)\nq = S.vbrevs(y)\nr = S.vpcnt(y)",
     "int8 v = __vcls((int8)0, y, " ALL ");\nint8 w = __vclz((int8)0, y, " ALL ");\nint8 q = __vbrevs((int8)0, y, " ALL
     ");\nint8 r = __vpcnt((int8)0, y, " ALL ");"},
};
INSTANTIATE_TEST_SUITE_P(Bits, CTextIntrinsic, ::testing::ValuesIn(kBits),
                         [](const auto& row) { return row.param.name; });

const Row kCompare[] = {
    {"Integers",
     "q = S.vceq(y, z)\nq = S.vcneq(y, z)\nq = S.vcge(y, z)\nq = S.vcgt(y, z)\nq = S.vcle(y, z)\nq = S.vclt(y, 3, "
     "mask=p)",
     "bool8 q = __vceq(y, z, " ALL ");\nq = __vcneq(y, z, " ALL ");\nq = __vcge(y, z, " ALL ");\nq = __vcgt(y, z, " ALL
     ");\nq = __vcle(y, z, " ALL ");\nq = __vclt(y, (int8)3, p);"},
    {"Floats",
     "v = vx[0]\nq = S.vceq(v, v)\nq = S.vcneq(v, v)\nq = S.vcge(v, v)\nq = S.vcgt(v, v)\nq = S.vcle(v, v)\nq = "
     "S.vclt(v, v)",
     "float8 v = vx[0];\nbool8 q = __vqeq(v, v, " ALL ");\nq = __vqne(v, v, " ALL ");\nq = __vqge(v, v, " ALL
     ");\nq = __vqgt(v, v, " ALL ");\nq = __vqle(v, v, " ALL ");\nq = __vqlt(v, v, " ALL ");"},
    {"ConstantsToTheRight", "q = 3 < y\nq = y >= 3\nq = S.vcle(3, y, mask=p)",
     "bool8 q = __vcgt(y, (int8)3, " ALL ");\nq = __vcge(y, (int8)3, " ALL ");\nq = __vcge(y, (int8)3, p);"},
    {"Operators", "q = y == z\nq = y != z\nq = y >= z",
     "bool8 q = __vceq(y, z, " ALL ");\nq = __vcneq(y, z, " ALL ");\nq = __vcle(z, y, " ALL ");"},
    {"Classes", "a[0] = S.i32(S.isinf(k))\na[1] = S.i32(S.isfinite(k))",
     "a[0] = (int)((__class(k) & 129) != 0);\na[1] = (int)((__class(k) & 126) != 0);"},
    {"ExtremaWithNaN", "v = vx[0]\nw = vx[1]\nv = S.maximum(v, w)\na[0] = S.minimum(k, x[1])\ny = S.maximum(y, z)",
     "float8 v = vx[0];\nfloat8 w = vx[1];\nv = __vsel(v, __vsel(w, __vmax(v, v, w, " ALL "), __vqne(w, w, " ALL
     ")), __vqne(v, v, " ALL
     "));\na[0] = (int)(k != k ? k : x[1] != x[1] ? x[1] : min(k, x[1]));\ny = __vmax(y, y, z, " ALL ");"},
    {"ClassesOfVectors", "q = S.isnan(vx[0])",
     "bool8 q = __vcneq(__vand((uint8)0, __vclass(vx[0], " ALL "), (uint8)768, " ALL "), (uint8)0, " ALL ");"},
    {"Math", "v = S.exp(vx[0])\nx[0] = S.exp(k)\nv = S.tanh(v)\nv = S.rsqrt(v)\nx[1] = S.pow(k, 2.0)",
     "float8 v = vexp(vx[0]);\nx[0] = exp(k);\nv = vtanh(v);\nv = vrsqrt(v);\nx[1] = pow(k, 0x1p+1f/*2.000000e+00*/);"},
};
INSTANTIATE_TEST_SUITE_P(Compare, CTextIntrinsic, ::testing::ValuesIn(kCompare),
                         [](const auto& row) { return row.param.name; });

const Row kMemory[] = {
    {"Load", "v = S.vload(va)\nv = S.vload(va + n)\nv = S.vload(a + 8)",
     "int8 v = va[0];\nv = va[n];\nv = ((__global int8*)(a + 8))[0];"},
    {"LoadMasked", "v = S.vload(va, mask=p)\nv = S.vload(a, mask='4T4F')",
     "int8 v = __vload(va, p);\nv = __vload((__global int8*)a, __vmov_w(0x00001111));"},
    {"LoadStride", "v = S.vload(a, stride=3)\nv = S.vload(a, mask=p, stride=n)",
     "int8 v = __vload_stride((__global int8*)a, 12, " ALL ");\nv = __vload_stride((__global int8*)a, (n * 4), p);"},
    {"Store", "S.vstore(y, va + 1)\nS.vstore(y, a)", "va[1] = y;\n((__global int8*)a)[0] = y;"},
    {"StoreMasked", "S.vstore(y, va + 1, mask=p)", "__vstore(y, (va + 1), p);"},
    {"StoreStride", "S.vstore(y, a, stride=2)", "__vstore_stride(y, (__global int8*)a, 8, " ALL ");"},
    {"StoreComputed", "S.vstore(S.vdiv(y, z), va)", "va[0] = __vdiv(va[0], y, z, " ALL ");"},
    {"Gather", "i = vs[0]\nv = S.vload_gather(h, i)\nv = S.vload_gather(h, i, mask='8T8F')",
     "short16 i = vs[0];\nhalf16 v = __vload_gather((__global half16*)h, i);\nv = __vload_gather((__global half16*)h, "
     "i, "
     "__vmov_h(0x00005555));"},
    {"Scatter", "i = vs[0]\nS.vstore_scatter(vh[0], h, i)\nS.vstore_scatter(vh[0], h, i, mask='8T8F')",
     "short16 i = vs[0];\n__vstore_scatter(vh[0],(__global half16*)h, i);\n__vstore_scatter(vh[0],(__global half16*)h, "
     "i, "
     "__vmov_h(0x00005555));"},
    {"Flush", "S.flush_cache()\nS.flush_cache(False)", "__flush_cache(true);\n__flush_cache(false);"},
};
INSTANTIATE_TEST_SUITE_P(Memory, CTextIntrinsic, ::testing::ValuesIn(kMemory),
                         [](const auto& row) { return row.param.name; });

const Row kPermutation[] = {
    {"Table", "v = S.vtbl((y, z), y)\nv = S.vtbl((y, z, y), z)", "int8 v = __vperm(y, z, y);\nv = __vtbl(y, z, y, z);"},
    {"ConcatParts",
     "v = S.vconcat((y, z), 'low')\nv = S.vconcat((y, z), 'high')\nv = S.vconcat((y, z), 'even')\nv = S.vconcat((y, "
     "z), 'odd')",
     "int8 v = __vextl(y, z);\nv = __vexth(y, z);\nv = __vexte(y, z);\nv = __vexto(y, z);"},
    {"ZipParts", "v = S.vzip(y, z, 'low')\nv = S.vzip(y, z, 'high')\nv = S.vzip(y, z, 'even')\nv = S.vzip(y, z, 'odd')",
     "int8 v = __vzipl(y, z);\nv = __vziph(y, z);\nv = __vzipe(y, z);\nv = __vzipo(y, z);"},
    {"Reverse", "v = S.vrevs(y)\nq = S.vrevs(p)", "int8 v = __vrevs(y);\nbool8 q = __vprevs(p);"},
    {"Select", "v = S.vsel(y, z, p)\nv = S.vsel(y, 0, '2T6F')",
     "int8 v = __vsel(y, z, p);\nv = __vsel(y, (int8)0, __vmov_w(0x00000011));"},
    {"ShuffleSlide", "v = S.vshfl(y, 3)\nv = S.vsldl(y, z, 2)\nv = S.vreplic(y, n)",
     "int8 v = __vshfl(y, 3);\nv = __vsldl(y, z, 2);\nv = __vreplic(y, n);"},
    {"Compress", "v = S.vcompt(y, p)\nv = S.vcompc(y, z, p)", "int8 v = __vcompt(y, p);\nv = __vcompc(y, z, p);"},
    {"BroadcastCall", "v = S.vbcast(n)\nv = S.vbcast(n, mask=p)", "int8 v = (int8)n;\nv = __vbcast(v, n, p);"},
    {"Extend", "v = S.vxtl(vs[0])\nv = S.vxth(vs[0])\nw = S.vxtl(vu[0])",
     "int8 v = __vsxtl(vs[0]);\nv = __vsxth(vs[0]);\nushort16 w = __vuxtl(vu[0]);"},
};
INSTANTIATE_TEST_SUITE_P(Permutation, CTextIntrinsic, ::testing::ValuesIn(kPermutation),
                         [](const auto& row) { return row.param.name; });

const Row kMachine[] = {
    {"DmaCopy", "t = S.alloc_buffer(64, 'i32', scope='lsram')\nS.dma_copy(t, a, 16)\nS.dma_copy(b + 4, t, 4, 8, n, 16)",
     "__lsram int t[64];\nDmaDirect_kGlobal_to_kLsram((int)t, (int)a, 64, 64, 64, 64);\n"
     "DmaDirect_kLsram_to_kGlobal((int)(b + 4), (int)t, 16, 32, (n * 16), 64);"},
    {"DmaCopyPlaces", "t = S.alloc_buffer(64, 'u8', scope='shared')\nq = S.alloc_buffer(8, 'u8')\nS.dma_copy(t, q, 8)",
     "__local uchar t[64];\nuchar q[8];\nDmaDirect_kGlobal_to_kShared((int)t, (int)q, 8, 8, 8, 8);"},
    {"Transpose", "t = S.alloc_buffer(64, 'i32', scope='lsram')\nS.dma_transpose2d(t, a, 4, n)",
     "__lsram int t[64];\nDMA_Transpose2D(a, t, n, 4, n, 4, 2, 4);"},
    {"Memset", "t = S.alloc_buffer(64, 'i16', scope='lsram')\nS.dma_memset(t, 5, n)\nS.dma_memset(c, 1, 8)",
     "__lsram short t[64];\nMemsetSRAM(t, (n * 2), (short)5, 1, 4);\nMemsetDDR(c, 8, (uchar)1, 0, 0);"},
    {"Aiff", "S.aiff(a, b, a)", "AIFF(a, b, a, 0);"},
    {"Barrier", "S.barrier()", "barrier(CLK_LOCAL_MEM_FENCE);"},
    {"Printf", "S.printf('%d of %d\\n', n, m)", "printf(\"%d of %d\\n\", n, m);"},
    {"Perf", "S.perf_tick_begin(3)\nS.perf_tick_end(3)", "__perf_record_tick_begin(3);\n__perf_record_tick_end(3);"},
};
INSTANTIATE_TEST_SUITE_P(Machine, CTextIntrinsic, ::testing::ValuesIn(kMachine),
                         [](const auto& row) { return row.param.name; });

const Row kConversions[] = {
    {"SameBits", "v = S.cast(y, 'uint32')\nw = S.cast(y, 'fp32')",
     "uint8 v = as_uint8(y);\nfloat8 w = convert_float8(y);"},
    {"RoundedToInteger", "v = S.cast(S.rint(vx[0]), 'i32')", "int8 v = __vcvt_int8(vx[0]);"},
    {"RoundedToWiderInteger",
     "v = S.cast(S.rint(vh[0]), 'i32', part='low')\nw = S.cast(S.rint(vh[0]), 'i32', part='high')\n"
     "q = S.cast(S.rint(vh[0]), 'i32', part='even')\nr = S.cast(S.rint(vh[0], mask='8T8F'), 'i32', part='odd')",
     "int8 v = __vzipl(__vcvtue_int8(vh[0]), __vcvtuo_int8(vh[0]));\n"
     "int8 w = __vziph(__vcvtue_int8(vh[0]), __vcvtuo_int8(vh[0]));\nint8 q = __vcvtue_int8(vh[0]);\n"
     "int8 r = convert_int8_odd(__vrint((half16)(half)0x0p+0f/*0.000000e+00*/, vh[0], __vmov_h(0x00005555)));"},
    {"RoundedToNarrowerInteger", "v = S.cast((S.rint(vx[0]), S.rint(vx[1])), 'i16')",
     "short16 v = __vexte(__vnsra_h(__vcvt_int8(vx[0]), (int8)0, " ALL "), __vnsra_h(__vcvt_int8(vx[1]), (int8)0, " ALL
     "));"},
    {"WidenedHalf", "v = S.cast(vs[0], 'i32', part='low')\nw = S.cast(vs[0], 'i32', part='high')",
     "int8 v = __vsxtl(vs[0]);\nint8 w = __vsxth(vs[0]);"},
    {"WidenedAll", "v = S.cast(vs[0], 'i32')\nva[0] = v[0] + y",
     "short16 t = vs[0];\nint8 v[2];\nv[0] = __vsxtl(t);\nv[1] = __vsxth(t);\nva[0] = ((int8)v[0][0] + y);"},
    {"WidenedSaturating", "v = S.cast(vs[0], 'u32', saturate=True)",
     "short16 t = vs[0];\nuint8 v[2];\n"
     "v[0] = as_uint8(__vsxtl(__vmax((short16)(short)0, t, (short16)(short)0, ALL_TRUE_h)));\n"
     "v[1] = as_uint8(__vsxth(__vmax((short16)(short)0, t, (short16)(short)0, ALL_TRUE_h)));"},
    {"NarrowedShift", "v = S.cast((y >> 4, z >> 4), 'i16')",
     "short16 v = __vexte(__vnsra_h(y, (int8)4, " ALL "), __vnsra_h(z, (int8)4, " ALL "));"},
    {"NarrowedSaturating", "v = S.cast((y, z), 'i16', saturate=True)",
     "short16 v = __vexte(__vnsras_h_s(y, (int8)0, " ALL "), __vnsras_h_s(z, (int8)0, " ALL "));"},
    {"NarrowedShiftOfAnyType",
     "v = S.cast((S.u(y) >> 4, S.u(z) >> 4), 'u16')\nw = S.cast((vs[0] >> 3, vs[1] >> 3), 'i8')\n"
     "q = S.cast((S.vsr(S.u(vs[0]), 3, with_round=True), S.u(vs[1]) >> 3), 'u8')",
     "ushort16 v = __vexte(__vnsrl_h(as_uint8(y), (uint8)(uint)4, " ALL "), __vnsrl_h(as_uint8(z), (uint8)(uint)4, " ALL
     "));\n"
     "char32 w = __vexte(__vnsra(vs[0], (short16)(short)3, ALL_TRUE_h), __vnsra(vs[1], (short16)(short)3, "
     "ALL_TRUE_h));\n"
     "uchar32 q = __vexte(__vnsrlr(as_ushort16(vs[0]), (ushort16)(ushort)3, ALL_TRUE_h), "
     "__vnsrl(as_ushort16(vs[1]), (ushort16)(ushort)3, ALL_TRUE_h));"},
    {"ProductOfWidenedMasked",
     "v = S.vmul(S.cast(vs[0], 'i32', part='low'), S.cast(vs[1], 'i32', part='low'), mask=p, r=y)\n"
     "w = S.vmul(S.cast(vs[0], 'i32', part='high'), S.cast(vs[1], 'i32', part='high'), mask=p, r=0)",
     "int8 v = __vmul(y, vs[0], vs[1], p);\nint8 w = __vmulh((int8)0, vs[0], vs[1], p);"},
    {"ProductOfWidenedMixedSigns",
     "v = S.cast(vs[0], 'i32', part='low') * S.cast(S.u(vs[1]), 'i32', part='low')\n"
     "w = S.cast(vb[0], 'i32', part='ll') * S.cast(vu[0], 'i32', part='ll')",
     "int8 v = __vmul((int8)0, vs[0], as_ushort16(vs[1]), ALL_TRUE_h);\n"
     "int8 w = __vmul((int8)0, __vsxtl(vb[0]), __vuxtl(vu[0]), ALL_TRUE_h);"},
    {"ProductOfWidenedAndScalar",
     "v = S.cast(vs[0], 'i32', part='low') * 3\nw = 5 * S.cast(vs[0], 'i32', part='high')\n"
     "q = S.cast(vs[0], 'i32', part='low') * S.i32(S.i16(n))\nr = S.cast(vs[0], 'i32', part='low') * 70000",
     "int8 v = __vmul((int8)0, vs[0], (short16)(short)3, ALL_TRUE_h);\n"
     "int8 w = __vmulh((int8)0, vs[0], (short16)(short)5, ALL_TRUE_h);\n"
     "int8 q = __vmul((int8)0, vs[0], (short16)(short)n, ALL_TRUE_h);\nint8 r = (__vsxtl(vs[0]) * (int8)70000);"},
    {"ProductOfWidened",
     "v = S.cast(vs[0], 'i32', part='low') * S.cast(vs[1], 'i32', part='low')\nw = S.cast(vs[0], 'i32', part='high') * "
     "S.cast(vs[1], "
     "'i32', part='high')",
     "int8 v = __vmul((int8)0, vs[0], vs[1], ALL_TRUE_h);\nint8 w = __vmulh((int8)0, vs[0], vs[1], ALL_TRUE_h);"},
};
INSTANTIATE_TEST_SUITE_P(Conversions, CTextIntrinsic, ::testing::ValuesIn(kConversions),
                         [](const auto& row) { return row.param.name; });

const Row kWide[] = {
    {"TwoRegisters", "v = S.vload(a, lanes=16)\nS.vstore(v + 1, b)",
     "int8 v[2];\nv[0] = ((__global int8*)a)[0];\nv[1] = ((__global int8*)(a + 8))[0];\n"
     "((__global int8*)b)[0] = (v[0] + (int8)1);\n((__global int8*)(b + 8))[0] = (v[1] + (int8)1);"},
    {"PaddedRegister", "v = a[0:12]\nb[0:12] = v",
     "int8 v[2];\nv[0] = ((__global int8*)a)[0];\nv[1] = __vload((__global int8*)(a + 8), __vmov_w(0x00001111));\n"
     "((__global int8*)b)[0] = v[0];\n__vstore(v[1], (__global int8*)(b + 8), __vmov_w(0x00001111));"},
    {"SmallerThanARegister", "v = a[0:4]\nb[0:4] = v * 2",
     "int8 v[1];\nv[0] = __vload((__global int8*)a, __vmov_w(0x00001111));\n__vstore(__vlsl(v[0], (int8)1), (__global "
     "int8*)b, "
     "__vmov_w(0x00001111));"},
    {"Masks", "v = a[0:16]\nq = v > 3\nS.vstore(v, b, mask=q)",
     "int8 v[2];\nv[0] = ((__global int8*)a)[0];\nv[1] = ((__global int8*)(a + 8))[0];\n"
     "bool8 q[2];\nq[0] = __vcgt(v[0], (int8)3, " ALL ");\nq[1] = __vcgt(v[1], (int8)3, " ALL ");\n"
     "__vstore(v[0], (__global int8*)b, q[0]);\n__vstore(v[1], (__global int8*)(b + 8), q[1]);"},
    {"TailMasks", "q = S.tail_mask(n, 16)\nv = S.vload(a, mask=q, lanes=16)",
     "bool8 q[2];\nq[0] = __vmov_w(((((min(n, 8) << 2) >> 5) ^ 1) << (min(n, 8) << 2)) - 1);\n"
     "q[1] = __vmov_w(((((max((n - 8), 0) << 2) >> 5) ^ 1) << (max((n - 8), 0) << 2)) - 1);\n"
     "int8 v[2];\nv[0] = __vload((__global int8*)a, q[0]);\nv[1] = __vload((__global int8*)(a + 8), q[1]);"},
    {"Lanes", "v = a[0:16]\na[0] = v[11]\nv[9] = n",
     "int8 v[2];\nv[0] = ((__global int8*)a)[0];\nv[1] = ((__global int8*)(a + 8))[0];\na[0] = v[1][3];\nv[1][1] = n;"},
    {"SplitAndConcat", "v = S.vconcat((y, z))\nq, r = S.vsplit(v)\nw = S.vzip(q, r)",
     "int8 v[2];\nv[0] = y;\nv[1] = z;\nint8 q = v[0];\nint8 r = v[1];\nint8 w[2];\nw[0] = __vzipl(q, r);\nw[1] = "
     "__vziph(q, r);"},
    {"AssignedFromItself", "v = S.vconcat((y, z))\nv = v + v",
     "int8 v[2];\nv[0] = y;\nv[1] = z;\nv[0] = (v[0] + v[0]);\nv[1] = (v[1] + v[1]);"},
    {"GatherOfBytes", "i = S.vconcat((vs[0], vs[1]))\nv = S.vload_gather(vb.as_ptr('i8'), i)",
     "short16 i[2];\ni[0] = vs[0];\ni[1] = vs[1];\nchar32 v = __vload_gather(vb, i[0], i[1]);"},
    {"GatherOfWords", "i = S.cast(y, 'i16')\nv = S.vload_gather(a, i)\nS.vstore_scatter(v, b, i)",
     "short16 i[1];\ni[0] = __vexte(__vnsra_h(y, (int8)0, " ALL "), __vnsra_h(y, (int8)0, " ALL "));\n"
     "int8 v = __vload_gather((__global int8*)a, i[0]);\n__vstore_scatter(v,(__global int8*)b, i[0]);"},
    {"Reduction", "v = S.vconcat((y, z))\na[0] = S.vrpadd(v)[0]",
     "int8 v[2];\nv[0] = y;\nv[1] = z;\na[0] = __vrpadd((int8)0, (v[0] + v[1]), " ALL ")[0];"},
    {"Rearrangements",
     "v = S.vconcat((y, z))\nw = S.vrevs(v)\nw = S.vsldl(v, v, 11)\nw = S.vreplic(v, 9)\nq = S.vaddh(v, v)\nr = "
     "S.vconcat((v, v), 'even')",
     "int8 v[2];\nv[0] = y;\nv[1] = z;\n"
     "int8 w[2];\nw[0] = __vrevs(v[1]);\nw[1] = __vrevs(v[0]);\n"
     "w[0] = __vsldl(v[1], v[0], 3);\nw[1] = __vsldl(v[0], v[1], 3);\n"
     "w[0] = __vreplic(v[1], 1);\nw[1] = __vreplic(v[1], 1);\n"
     "int8 q[2];\nq[0] = __vaddh(v[0], v[1]);\nq[1] = __vaddh(v[0], v[1]);\n"
     "int8 r[2];\nr[0] = __vexte(v[0], v[1]);\nr[1] = __vexte(v[0], v[1]);"},
    {"PlacesAreReadOnce", "b[b[0]:b[0] + 16] = a[0:16]",
     "__global int* t = (b + b[0]);\n((__global int8*)t)[0] = ((__global int8*)a)[0];\n"
     "((__global int8*)(t + 8))[0] = ((__global int8*)(a + 8))[0];"},
    {"OverlappingMemory", "b[0:16] = b[4:20]",
     "int8 t[2];\nt[0] = ((__global int8*)(b + 4))[0];\nt[1] = ((__global int8*)(b + 12))[0];\n"
     "((__global int8*)b)[0] = t[0];\n((__global int8*)(b + 8))[0] = t[1];"},
};
INSTANTIATE_TEST_SUITE_P(Wide, CTextIntrinsic, ::testing::ValuesIn(kWide),
                         [](const auto& row) { return row.param.name; });

TEST(CTextEvents, AreBits) {
  const std::string text = c_text(kernel(R"(t = S.alloc_buffer(64, "i32", scope="lsram")
e0, e1 = S.alloc_events(2)
S.async_dma_copy(t, a, 8, event=e0)
S.async_dma_copy(t, b, 8, event=e1)
S.wait_events(e0, e1)
S.free_events(e0))"));
  EXPECT_THAT(text, ::testing::HasSubstr("  AsyncDmaDirect_kGlobal_to_kLsram((int)t, (int)a, 32, 32, 32, 32, e0);\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("  int e0 = alloc_event();\n  int e1 = alloc_event();\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("  wait_events(((1 << e0) | (1 << e1)));\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("  free_events((1 << e0));\n"));
}

// A result wider than a register goes where the caller says; so do such parameters.
TEST(CTextFunctions, WideValuesArePassedAsArrays) {
  const std::string text = c_text(R"(@S.prim_func
def twice(v: S.i32x16) -> S.i32x16:
    return v + v

@S.prim_func
def f(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
    v = twice(a[0:16])
    b[0:16] = v
)");
  EXPECT_THAT(text, ::testing::HasSubstr("void f_twice(int8* v, int8* ret);\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("  ret[0] = (v[0] + v[0]);\n  ret[1] = (v[1] + v[1]);\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("  f_twice\\([a-z0-9_]+, v\\);\n"));
}

TEST(CTextFunctions, MasksOfAnyLanesArePassedAsArrays) {
  const std::string text = c_text(R"(@S.prim_func
def inverted(m: S.boolx12) -> S.boolx12:
    return ~m

@S.prim_func
def f(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
    v = a[0:12]
    m = inverted(v > 3)
    S.vstore(v, b, mask=m)
)");
  EXPECT_THAT(text, ::testing::HasSubstr("void f_inverted(bool16* m, bool16* ret);\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("  ret[0] = __vinv(m[0], ALL_TRUE_h);\n"));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("int12")));
}

TEST(CTextPointers, ToVectorsThatAreNoRegisters) {
  EXPECT_EQ(c_text(R"(@S.prim_func
def f(a: S.ptr("fp32x12", "global"), b: S.ptr("fp32x12", "global"), n: S.i32):
    b[n] = a[n]
)"),
            R"(#include <compass/dsl.h>

__kernel void f(__global float* a, __global float* b, int n);

__kernel void f(__global float* a, __global float* b, int n) {
  ((__global float8*)(b + (n * 12)))[0] = ((__global float8*)(a + (n * 12)))[0];
  __vstore(__vload((__global float8*)(a + ((n * 12) + 8)), __vmov_w(0x00001111)), (__global float8*)(b + ((n * 12) + 8)), __vmov_w(0x00001111));
  barrier(CLK_LOCAL_MEM_FENCE);
}
)");
}

}  // namespace
}  // namespace aipu::tir::testing
