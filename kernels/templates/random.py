"""Random numbers; graph/ops/generate.cpp says which. One TEC makes them all: each follows from those before it."""

from aipu import script as S

WORDS = 624


def refill(state):
    """The next 624 words of MT19937."""
    for i in range(WORDS):
        after = i + 1 if i + 1 < WORDS else 0
        far = i + 397 if i + 397 < WORDS else i + 397 - WORDS
        y = (state[i] & S.u32(0x80000000)) | (state[after] & S.u32(0x7FFFFFFF))
        odd = S.u32(0x9908B0DF) if (y & S.u32(1)) != S.u32(0) else S.u32(0)
        state[i] = state[far] ^ (y >> S.u32(1)) ^ odd


def word(state, place):
    if place[0] == WORDS:
        refill(state)
        place[0] = 0
    y = state[place[0]]
    place[0] = place[0] + 1
    y = y ^ (y >> S.u32(11))
    y = y ^ ((y << S.u32(7)) & S.u32(0x9D2C5680))
    y = y ^ ((y << S.u32(15)) & S.u32(0xEFC60000))
    return y ^ (y >> S.u32(18))


def uniform(state, place):
    high = S.fp64(word(state, place) >> S.u32(5))
    low = S.fp64(word(state, place) >> S.u32(6))
    return (high * S.fp64(67108864) + low) / S.fp64(9007199254740992)


@S.prim_func
def random_numbers(out: S.ptr("fp64", "global"), count: S.i32, seed: S.i64):
    if S.get_local_id() == 0:
        state = S.alloc_buffer((WORDS,), "u32")
        place = S.alloc_buffer((1,), "i32")
        state[0] = S.u32(seed)
        for i in range(1, WORDS):
            before = state[i - 1]
            state[i] = S.u32(1812433253) * (before ^ (before >> S.u32(30))) + S.u32(i)
        place[0] = WORDS
        if NORMAL:
            for i in range(0, count, 2):
                x = S.fp64(0)
                y = S.fp64(0)
                square = S.fp64(0)
                while square >= S.fp64(1) or square == S.fp64(0):
                    x = S.fp64(2) * uniform(state, place) - S.fp64(1)
                    y = S.fp64(2) * uniform(state, place) - S.fp64(1)
                    square = x * x + y * y
                f = S.sqrt(S.fp64(-2) * S.log(square) / square)
                out[i] = f * y
                if i + 1 < count:
                    out[i + 1] = f * x
        else:
            for i in range(count):
                out[i] = uniform(state, place)
