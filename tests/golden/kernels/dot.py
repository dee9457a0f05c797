"""A reduction over two accumulators: private arrays become variables, unrolled loops copies of their bodies, S.fma is
what the target has for it.
"""

from aipu import script as S


@S.prim_func
def dot(x: S.ptr("fp32", "global"), y: S.ptr("fp32", "global"), out: S.ptr("fp32", "global"), count: S.i32):
    acc = S.alloc_buffer((2,), "fp32x8")
    for i in S.unroll(2):
        acc[i] = S.fp32x8(0)
    for k in range(0, count, 16):
        for i in S.unroll(2):
            acc[i] = S.fma(acc[i], S.vload(x + (k + i * 8)), S.vload(y + (k + i * 8)))
    out[0] = S.vrpadd(acc[0] + acc[1])[0]
