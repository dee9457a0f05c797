// The source of a kernel: parsed, checked, lowered and printed as C for a CPU and for X2, or an error that shows where.
#include "codegen/driver/kernel_text.h"
#include "codegen/lower/lower.h"
#include "codegen/targets/target.h"
#include "codegen/tir/text.h"
#include "codegen/tir/verifier.h"
#include "kernels/dsl/parse.h"
#include "tests/fuzz/targets/target.h"

namespace aipu::fuzz {

void one_input(std::string_view input) {
  dsl::TemplateParams params;
  params.set("T", int64_t{3});
  const auto module = dsl::parse_kernel({"fuzz.py", std::string(input)}, "f", params);
  if (!module.ok()) return check_diagnostics(module.status());
  const Status valid = tir::verify(*module);
  check(valid.ok(), "a kernel that was accepted is not valid: " + valid.message());
  const std::string text = tir::print_module(*module);
  const auto again = tir::parse_module(text);
  check(again.ok(), "a kernel's text cannot be read: " + again.status().message());
  check(tir::print_module(*again) == text, "a kernel's text is that of another");
  for (const char* name : {"host-avx2", "X2_1204"}) {
    const auto target = tir::find_target(name);
    check(target.ok(), "a target is gone");
    const auto lowered = tir::lower(*module, *target);
    if (!lowered.ok()) {
      check_diagnostics(lowered.status());
      continue;
    }
    const tir::KernelSource source = {"fuzz", *lowered};
    const auto c = tir::print_translation_unit(std::span(&source, 1), *target);
    if (!c.ok()) check_diagnostics(c.status());
  }
}

uint64_t runs() { return 3000; }

std::vector<std::string> seeds() {
  return {
      R"(from aipu import script as S
N = 4
add = lambda v, by=N: v + by
def outer(k):
    def inner(v):
        return v * k
    return [inner, lambda v: inner(v) - 1]
@S.prim_func
def f(a: S.ptr("i32", "global"), n: S.i32):
    with S.block("b"):
        i = S.axis.remap("SR", [n, 1])[0]
    e, g = S.alloc_events(2)
    t = S.alloc((8,), "i32", scope="shared")
    S.async_dma_copy(t, a, 8, event=e)
    S.wait_events(e)
    for k in S.tec_range(2):
        a[k] = outer(3)[0](add(n)) + outer(n)[1](k)
    q = a if n > 2 else a + 1
    S.printf("%d %f %v8hlx\n", n, 0.5, S.i32x8(n))
    a[0], a[1] = a[1], S.i32({"x": 1, "y": N}["y"])
    S.barrier()
)",
      R"(from aipu import script as S
N = 4
@S.macro
def m(p, i, *rest):
    p[i] = i + N
def g(p, n, flag=True):
    if flag:
        v = p[n]
    else:
        v = 0
    return [v * k for k in range(3)]
@S.prim_func
def sub(p: S.ptr("i32x8", "lsram"), q: S.i16 = 3) -> S.i32:
    for i, j in S.grid(2, q):
        if i == j and not q < 3:
            return i
    return 7
@S.prim_func
def f(a: S.ptr("i32", "global"), x: S.fp32, n: S.i32):
    b = S.alloc_buffer((2, N), "i32", scope="lsram")
    v = S.vload(a, mask="2T_FF", lanes=8, stride=2)
    v[n] = S.i32(x) << 3
    b[1, 0:4] = a[n * 4 : n * 4 + 4]
    w, z = v + 1, -v
    while n > 0x10:
        n -= 1 if x > 1e-3 else 2
    for k in S.unroll(N):
        m(a, k)
    s = sum(g(a, n))
    p = b.addr_of((1, 2)).as_ptr("u8")
    c = S.alloc_const((2,), "int32", [1, 2 ** 5])
    sub(b.addr_of(0).as_ptr("i32x8"), q=2)
    S.vstore(S.max(w, 0, mask=v < z, r=1), a + 8)
)",
      R"(def f(x):
    t = f"fp32x{len([1, 2, 3]) * 8}" + 'a\n\x41' r"\d"
    return {1: (x, *t), "k": [i for i in range(10) if i % 2 == 0 for j in (1, 2)]}[1][0:2]
)",
  };
}

std::string mutate(const std::string& input, const std::string& other, Random& random) {
  return below(random, 8) == 0 ? mutate_bytes(input, other, random) : mutate_tokens(input, other, random);
}

}  // namespace aipu::fuzz
