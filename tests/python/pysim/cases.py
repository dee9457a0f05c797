"""Every intrinsic with every element type, width and form of mask: expressions that run in a kernel and in
``numpy_truth`` alike.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Dict, Iterator, List, Optional, Tuple

from numpy_truth import FLOATS, INTS, bits_of, is_float, is_signed, with_sign

ALIASES = {f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32)}
ALIASES.update({"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "bool": "bool"})


@dataclasses.dataclass(frozen=True)
class Input:
    """An operand: its element type, lanes (0: a scalar) and what its numbers are like."""

    dtype: str
    lanes: int
    kind: str = "any"  # any, finite, small, positive, count, nonzero, index<N>, tail<N>


@dataclasses.dataclass(frozen=True)
class Case:
    """An expression over named inputs; the names stand in braces.

    ``ulps`` and ``atol`` are what a float result may be off by.
    """

    expression: str
    inputs: Tuple[Tuple[str, Input], ...]
    ulps: int = 0
    rtol: float = 0.0
    atol: float = 0.0


def native_lanes(dtype: str) -> int:
    """Lanes of a 256-bit vector."""
    return 256 // bits_of(dtype)


def _masks(lanes: int, salt: int) -> List[Tuple[str, Dict[str, Input]]]:
    """The forms of a mask: a string, a list that is too short, a comparison's result, a tail."""
    letters = "".join("TF"[(k * 7 + salt) % 5 % 2] for k in range(lanes))
    bits = [(k * 3 + salt) % 4 != 0 for k in range(max(lanes - 2, 1))]
    return [
        (f'"{letters}"', {}),
        (f"{bits}", {}),
        ("{m}", {"m": Input("bool", lanes)}),
        (f"S.tail_mask({{n}}, {lanes})", {"n": Input("int32", 0, f"tail{lanes}")}),
    ]


def _widths(dtype: str) -> List[int]:
    native = native_lanes(dtype)
    return [native, 2 * native, native + 3]


class Builder:
    """Collects the cases of one element type."""

    def __init__(self) -> None:
        self.cases: List[Case] = []
        self._salt = 0

    def add(self, expression: str, inputs: Dict[str, Input], **tolerance: float) -> None:
        """One case."""
        self.cases.append(Case(expression, tuple(inputs.items()), **tolerance))  # type: ignore[arg-type]

    def add_masked(
        self,
        call: str,
        inputs: Dict[str, Input],
        lanes: int,
        all_forms: bool,
        r: Optional[str] = None,
        needs_mask: bool = False,
        **tolerance: float,
    ) -> None:
        """The call without a mask and with masks; ``call`` has a place ``MASK``, and one for ``r`` if the function
        takes it.
        """
        self._salt += 1
        if not needs_mask:
            self.add(call.replace("MASK", ""), inputs, **tolerance)
        forms = _masks(lanes, self._salt)
        chosen = forms if all_forms else [forms[self._salt % len(forms)]]
        for form, extra in chosen:
            with_r = f", r={r}" if r is not None else ""
            self.add(call.replace("MASK", f", mask={form}{with_r}"), {**inputs, **extra}, **tolerance)

    def elementwise(
        self,
        call: str,
        dtype: str,
        inputs: Dict[str, Input],
        r: Optional[str] = None,
        widths: Optional[List[int]] = None,
        **tolerance: float,
    ) -> None:
        """A call whose operands have equal lanes, at all widths; ``inputs`` have lanes -1 where those of the vectors
        are meant.
        """
        for lanes in widths or _widths(dtype):
            sized = {k: dataclasses.replace(v, lanes=lanes) if v.lanes == -1 else v for k, v in inputs.items()}
            self.add_masked(call, sized, lanes, lanes == native_lanes(dtype), r, **tolerance)


def _xy(dtype: str, kind: str = "any") -> Dict[str, Input]:
    return {"x": Input(dtype, -1, kind), "y": Input(dtype, -1, kind)}


def arithmetic(dtype: str) -> List[Case]:
    """vadd ... rint, max, min."""
    b = Builder()
    native = native_lanes(dtype)
    twin = with_sign(dtype, not is_signed(dtype)) if not is_float(dtype) else dtype
    r = "3" if not is_float(dtype) else "0.5"
    for name in ("vadd", "vsub"):
        b.elementwise(f"S.{name}({{x}}, {{y}}MASK)", dtype, _xy(dtype), r)
        b.elementwise(f"S.{name}({{x}}, {{y}}MASK)", dtype, _xy(dtype), "{x}", [native])
        b.elementwise(f"S.{name}({{x}}, 7MASK)", dtype, {"x": Input(dtype, -1)}, r, [native])
        b.elementwise(f"S.{name}(7, {{x}}MASK)", dtype, {"x": Input(dtype, -1)}, r, [native])
        b.elementwise(
            f"S.{name}({{x}}, {{s}}MASK)",
            dtype,
            (
                {"x": Input(dtype, -1), "s": Input(dtype, 0)}
                if dtype != "bfloat16"
                else _xy(dtype) | {"s": Input(dtype, -1)}
            ),
            r,
            [native],
        )
        if not is_float(dtype):
            b.elementwise(f"S.{name}({{x}}, {{y}}MASK, saturate=True)", dtype, _xy(dtype), r)
            mixed = {"x": Input(dtype, -1), "y": Input(twin, -1)}
            for sign, saturate in itertools.product("us", (False, True)):
                b.elementwise(
                    f'S.{name}({{x}}, {{y}}MASK, saturate={saturate}, out_sign="{sign}")', dtype, mixed, r, [native]
                )
    if bits_of(dtype) != 8:
        b.elementwise("S.vmul({x}, {y}MASK)", dtype, _xy(dtype), r)
        b.elementwise("S.vmul({x}, 3MASK)", dtype, {"x": Input(dtype, -1)}, r, [native])
        if not is_float(dtype):
            b.elementwise(
                'S.vmul({x}, {y}MASK, out_sign="u")', dtype, {"x": Input(dtype, -1), "y": Input(twin, -1)}, r, [native]
            )
    if not is_float(dtype) or dtype == "float32":
        b.elementwise("S.vdiv({x}, {y}MASK)", dtype, _xy(dtype))
    if not is_float(dtype):
        b.elementwise("S.vmod({x}, {y}MASK)", dtype, _xy(dtype))
        b.elementwise("S.abs({x}MASK, saturate=True)", dtype, {"x": Input(dtype, -1)})
    b.elementwise("S.abs({x}MASK)", dtype, {"x": Input(dtype, -1)})
    for name in ("max", "min"):
        b.elementwise(f"S.{name}({{x}}, {{y}}MASK)", dtype, _xy(dtype), r)
        b.elementwise(f"S.{name}({{x}}, 5MASK)", dtype, {"x": Input(dtype, -1)}, "{x}", [native])
    low, high = ("-2.5", "4.25") if is_float(dtype) else ("-300", "20") if is_signed(dtype) else ("4", "70000")
    b.elementwise(f"S.clip({{x}}, {low}, {high}MASK)", dtype, {"x": Input(dtype, -1)})
    if dtype == "float32":
        b.elementwise("S.fma({z}, {x}, {y}MASK)", dtype, {**_xy(dtype), "z": Input(dtype, -1)})
        b.elementwise("S.fma({z}, {x}, 1.5MASK)", dtype, {"x": Input(dtype, -1), "z": Input(dtype, -1)}, None, [native])
    if is_float(dtype):
        b.elementwise("S.rint({x}MASK)", dtype, {"x": Input(dtype, -1, "small")})
        b.elementwise("S.rint({x}MASK)", dtype, {"x": Input(dtype, -1)}, None, [native])
    return b.cases


def compare(dtype: str) -> List[Case]:
    """The comparisons and classifications."""
    b = Builder()
    for name in ("vceq", "vcneq", "vcge", "vcgt", "vcle", "vclt"):
        b.elementwise(f"S.{name}({{x}}, {{y}}MASK)", dtype, _xy(dtype, "small"))
        b.elementwise(f"S.{name}({{x}}, 5MASK)", dtype, {"x": Input(dtype, -1)}, None, [native_lanes(dtype)])
    if is_float(dtype):
        for name in ("isnan", "isinf", "isfinite"):
            b.elementwise(f"S.{name}({{x}}MASK)", dtype, {"x": Input(dtype, -1)})
    return b.cases


def bits(dtype: str) -> List[Case]:
    """Bitwise operations, shifts and bit counts."""
    b = Builder()
    native = native_lanes(dtype)
    twin = with_sign(dtype, not is_signed(dtype))
    for name in ("vand", "vor", "vxor"):
        b.elementwise(f"S.{name}({{x}}, {{y}}MASK)", dtype, _xy(dtype))
        b.elementwise(f"S.{name}({{x}}, 13MASK)", dtype, {"x": Input(dtype, -1)}, None, [native])
    b.elementwise("S.vinv({x}MASK)", dtype, {"x": Input(dtype, -1)})
    shift = {"x": Input(dtype, -1), "y": Input(dtype, -1, "count")}
    for name, options in (("vsl", ("saturate",) if is_signed(dtype) else ()), ("vsr", ("with_round",))):
        for option in ("", *options):
            tail = f", {option}=True" if option else ""
            b.elementwise(f"S.{name}({{x}}, {{y}}MASK{tail})", dtype, shift, "5")
            b.elementwise(f"S.{name}({{x}}, 2MASK{tail})", dtype, {"x": Input(dtype, -1)}, "{x}", [native])
    b.elementwise("S.vsl({x}, {y}MASK)", dtype, {"x": Input(dtype, -1), "y": Input(twin, -1, "count")}, "5", [native])
    b.elementwise("S.vror({x}, {y}MASK)", dtype, shift)
    if is_signed(dtype):
        b.elementwise("S.vcls({x}MASK)", dtype, {"x": Input(dtype, -1)})
        b.elementwise('S.vcls({x}MASK, out_sign="u")', dtype, {"x": Input(dtype, -1)}, None, [native])
    b.elementwise("S.clz({x}MASK)", dtype, {"x": Input(dtype, -1)})
    b.elementwise("S.vbrevs({x}MASK)", dtype, {"x": Input(dtype, -1)})
    b.elementwise("S.vpcnt({x}MASK)", dtype, {"x": Input(dtype, -1)})
    b.elementwise('S.vpcnt({x}MASK, out_sign="u")', dtype, {"x": Input(dtype, -1)}, None, [native])
    if bits_of(dtype) > 8:
        widths = [native, 2 * native]
        for saturate, sign, rounding in itertools.product((False, True), (None, "u", "s"), (False, True)):
            for to_h in (False, True) if bits_of(dtype) == 32 else (False,):
                spelled = f'"{sign}"' if sign else None
                tail = f"saturate={saturate}, out_sign={spelled}, with_round={rounding}, to_h={to_h}"
                for lanes in widths:
                    sized = {k: dataclasses.replace(v, lanes=lanes) for k, v in shift.items()}
                    b.add_masked(f"S.vnsr({{x}}, {{y}}MASK, {tail})", sized, lanes, False)
        b.elementwise("S.vnsrsr({x}, {y}MASK)", dtype, shift, None, widths)
        b.elementwise('S.vnsrsr({x}, 3MASK, out_sign="u")', dtype, {"x": Input(dtype, -1)}, None, widths)
    return b.cases


def masks(_: str) -> List[Case]:
    """Functions of masks."""
    b = Builder()
    for lanes in (8, 16, 32, 64, 11):
        pq = {"p": Input("bool", lanes), "q": Input("bool", lanes)}
        for name in ("vand", "vor", "vxor"):
            b.add_masked(f"S.{name}({{p}}, {{q}}MASK)", pq, lanes, True)
        b.add_masked("S.vinv({p}MASK)", {"p": Input("bool", lanes)}, lanes, True)
        b.add("S.vall({p})", {"p": Input("bool", lanes)})
        b.add("S.vany({p})", {"p": Input("bool", lanes)})
        b.add("S.vall(S.vor({p}, S.vinv({p})))", {"p": Input("bool", lanes)})
        b.add("S.vany(S.vand({p}, S.vinv({p})))", {"p": Input("bool", lanes)})
        b.add_masked("S.vsel({p}, {q}MASK)", pq, lanes, True)
        b.add(f"S.tail_mask({{n}}, {lanes})", {"n": Input("int32", 0, f"tail{lanes}")})
        b.add(f"S.tail_mask({lanes // 2}, {lanes})", {})
    for lanes in (8, 16):
        pq = {"p": Input("bool", lanes), "q": Input("bool", lanes)}
        b.add("S.vconcat(({p}, {q}))", pq)
        b.add("S.vzip({p}, {q})", pq)
        for part in ("low", "high", "even", "odd"):
            b.add(f'S.vconcat(({{p}}, {{q}}), "{part}")', pq)
            b.add(f'S.vzip({{p}}, {{q}}, "{part}")', pq)
        b.add("S.vrevs({p})", pq)
    for text in ("TFFT4F", "3FT_TF", "4F4T", "8T", "F3T2TF", "2T_FF4T"):
        b.add(f'S.const_mask("{text}")', {})
    return b.cases


def widening(dtype: str) -> List[Case]:
    """Widening multiplies, pairwise operations, extensions."""
    b = Builder()
    native = native_lanes(dtype)
    twin = with_sign(dtype, not is_signed(dtype))
    for name in ("vmull", "vmulh"):
        b.elementwise(f"S.{name}({{x}}, {{y}}MASK)", dtype, _xy(dtype), "9", [native])
        for sign in "us":
            mixed = {"x": Input(dtype, -1), "y": Input(twin, -1)}
            b.elementwise(f'S.{name}({{x}}, {{y}}MASK, out_sign="{sign}")', dtype, mixed, "9", [native])
    for lanes in (native, 2 * native):
        xy = {"x": Input(dtype, lanes), "y": Input(dtype, lanes)}
        for name in ("vaddh", "vsubh", "vmaxh", "vminh"):
            b.add(f"S.{name}({{x}}, {{y}})", xy)
    if bits_of(dtype) < 32:
        b.add("S.vxtl({x})", {"x": Input(dtype, native)})
        b.add("S.vxth({x})", {"x": Input(dtype, native)})
    return b.cases


def reduce(dtype: str) -> List[Case]:
    """Dot products and reductions."""
    b = Builder()
    native = native_lanes(dtype)
    kind = "finite" if is_float(dtype) else "any"
    for lanes in (native, 2 * native):
        sized = {"x": Input(dtype, lanes, kind)}
        loose = {"rtol": 1e-5, "atol": 1e-3} if is_float(dtype) else {}
        b.add_masked("S.vrpadd({x}MASK)", sized, lanes, True, **loose)
    for name in ("vrpmax", "vrpmin"):
        b.add_masked(f"S.{name}({{x}}MASK)", {"x": Input(dtype, native, kind)}, native, False)
        b.add(f'S.{name}({{x}}, mask="{native}T")', {"x": Input(dtype, native, kind)})
    if is_float(dtype):
        if dtype != "float32":
            for lanes in (native, 2 * native):
                xy = {"x": Input(dtype, lanes, "small"), "y": Input(dtype, lanes, "small")}
                b.add_masked("S.vqdot({x}, {y}MASK)", xy, lanes, True, rtol=1e-5, atol=1e-3)
                acc = {"z": Input("float32", lanes // 2, "small")}
                b.add_masked("S.vqdpa({z}, {x}, {y}MASK)", {**xy, **acc}, lanes, True, rtol=1e-5, atol=1e-3)
            xyz = {"x": Input(dtype, native), "y": Input(dtype, native), "z": Input("float32", native // 2)}
            b.add_masked("S.vfmae({z}, {x}, {y}MASK)", xyz, native // 2, True)
            b.add_masked("S.vfmao({z}, {x}, {y}MASK)", xyz, native // 2, True)
        return b.cases
    for y_dtype in (dtype, with_sign(dtype, not is_signed(dtype))):
        signed = is_signed(dtype) or is_signed(y_dtype)
        for lanes in (native, 2 * native):
            xy = {"x": Input(dtype, lanes), "y": Input(y_dtype, lanes)}
            if bits_of(dtype) <= 16:
                b.add_masked("S.vdot({x}, {y}MASK)", xy, lanes, True)
                for sign in (True, False):
                    acc = {"z": Input(with_sign(f"int{2 * bits_of(dtype)}", sign), lanes // 2)}
                    b.add_masked("S.vdpa({z}, {x}, {y}MASK)", {**xy, **acc}, lanes, sign == signed)
            if bits_of(dtype) == 8:
                b.add_masked("S.vqdot({x}, {y}MASK)", xy, lanes, True)
                for sign in (True, False):
                    acc = {"z": Input(with_sign("int32", sign), lanes // 4)}
                    b.add_masked("S.vqdpa({z}, {x}, {y}MASK)", {**xy, **acc}, lanes, sign == signed)
    return b.cases


def permute(dtype: str) -> List[Case]:
    """Lanes that change places."""
    b = Builder()
    native = native_lanes(dtype)
    index = with_sign(f"int{bits_of(dtype)}", True)
    for lanes in (native, 2 * native):
        x, y = Input(dtype, lanes), Input(dtype, lanes)
        for part in ("all", "low", "high", "even", "odd"):
            b.add(f'S.vconcat(({{x}}, {{y}}), "{part}")', {"x": x, "y": y})
            b.add(f'S.vconcat(({{x}}, {{y}}, {{x}}, {{x}}), "{part}")', {"x": x, "y": y})
            b.add(f'S.vzip({{x}}, {{y}}, "{part}")', {"x": x, "y": y})
        b.add("S.vrevs({x})", {"x": x})
        for shift in (0, 1, native - 1):
            b.add(f"S.vshfl({{x}}, {shift})", {"x": x})
            b.add(f"S.vsldl({{x}}, {{y}}, {shift})", {"x": x, "y": y})
        b.add("S.vreplic({x})", {"x": x})
        b.add("S.vreplic({x}, 3)", {"x": x})
    b.add("S.vshfl({x}, {n})", {"x": Input(dtype, native), "n": Input("int32", 0, f"index{native}")})
    b.add("S.vreplic({x}, {n})", {"x": Input(dtype, native), "n": Input("int32", 0, f"index{native}")})
    b.add("S.vzip({x}, {y})", {"x": Input(dtype, 5), "y": Input(dtype, 5)})
    b.add("S.vsplit({x})[1]", {"x": Input(dtype, 2 * native)})
    b.add("S.vsplit({x})[2]", {"x": Input(dtype, 4 * native)})
    b.elementwise("S.vsel({x}, {y}MASK)", dtype, _xy(dtype))
    b.elementwise("S.vsel({x}, 1MASK)", dtype, {"x": Input(dtype, -1)}, None, [native])
    for call in ("S.vcompt({x}MASK)", "S.vcompc({x}, {y}MASK)"):
        xy = {"x": Input(dtype, native), "y": Input(dtype, native)}
        b.add_masked(call, {k: v for k, v in xy.items() if "{" + k + "}" in call}, native, True, needs_mask=True)
    for count in (2, 3, 4):
        names = ["x", "y", "z", "w"][:count]
        table = "(" + ", ".join("{" + name + "}" for name in names) + ")"
        inputs = {name: Input(dtype, native) for name in names}
        for sign in (True, False):
            k = Input(with_sign(index, sign), native, f"index{count * native + 3}")
            b.add(f"S.vtbl({table}, {{k}})", {**inputs, "k": k})
        b.add(f"S.vtbl({table}, {{k}})", {**inputs, "k": Input(index, native)})
    scalar = {"s": Input(dtype, 0)}
    b.add_masked("S.vbcast({s}MASK)", scalar, native, True)
    b.add_masked(f"S.vbcast({{s}}MASK, lanes={native + 5})", scalar, native + 5, True)
    return b.cases


def _castable(source: str, target: str) -> bool:
    """Whether vectors convert directly (intrinsics.md 7.1)."""

    def half(dtype: str) -> bool:
        return dtype in ("float16", "bfloat16")

    def narrow(dtype: str) -> bool:
        return not is_float(dtype) and bits_of(dtype) <= 16

    if (half(source) and narrow(target)) or (narrow(source) and half(target)):
        return False
    if source == "uint32" and is_float(target):
        return False
    return not (target == "uint32" and source in ("float32", "bfloat16"))


def convert(dtype: str) -> List[Case]:
    """Casts and reinterpretations."""
    b = Builder()
    native = native_lanes(dtype)
    for target in (*INTS, *FLOATS):
        if target != dtype:
            b.add(f'S.cast({{s}}, "{target}")', {"s": Input(dtype, 0)})
        if not _castable(dtype, target):
            continue
        ratio = bits_of(target) / bits_of(dtype)
        for lanes in (native, 2 * native, native + 3):
            x = {"x": Input(dtype, lanes)}
            b.add(f'S.cast({{x}}, "{target}")', x)
            if not is_float(dtype) and not is_float(target):
                b.add(f'S.cast({{x}}, "{target}", saturate=True)', x)
        x = {"x": Input(dtype, native)}
        for part in {2.0: ("low", "high", "even", "odd"), 4.0: ("ll", "lh", "hl", "hh")}.get(ratio, ()):
            b.add(f'S.cast({{x}}, "{target}", "{part}")', x)
        if ratio in (0.5, 0.25):
            b.add(f'S.cast({{x}}, "{target}x{native_lanes(target)}")', x)
            for count in range(2, int(1 / ratio) + 1):
                names = ["x", "y", "z", "w"][:count]
                vectors = ", ".join("{" + name + "}" for name in names)
                b.add(f'S.cast(({vectors}), "{target}")', {name: Input(dtype, native) for name in names})
    for target in (*INTS, *FLOATS):
        lanes = native * bits_of(dtype) // bits_of(target)
        b.add(f'S.reinterpret({{x}}, "{target}x{lanes}")', {"x": Input(dtype, native)})
        if bits_of(target) == bits_of(dtype) and "bfloat16" not in (dtype, target):
            b.add(f'S.reinterpret({{s}}, "{target}")', {"s": Input(dtype, 0)})
    if not is_float(dtype):
        for lanes in (native, native + 3):
            b.add("S.i({x})", {"x": Input(dtype, lanes)})
            b.add("S.u({x})", {"x": Input(dtype, lanes)})
        b.add("S.i({s})", {"s": Input(dtype, 0)})
        b.add("S.u({s})", {"s": Input(dtype, 0)})
    return b.cases


def mathematics(dtype: str) -> List[Case]:
    """The functions of floats."""
    b = Builder()
    near = {"ulps": 3, "atol": 1e-6}
    for name in ("exp", "exp2", "log", "tanh", "sin", "cos", "sqrt", "rsqrt", "floor", "ceil", "erf"):
        for kind in ("small", "positive", "any"):
            if name in ("sin", "cos") and kind == "any":
                continue  # the double of a huge float is a number, the float's neighbours are revolutions away
            for lanes in (native_lanes(dtype), 5) if kind == "small" else [native_lanes(dtype)]:
                b.add(f"S.{name}({{x}})", {"x": Input(dtype, lanes, kind)}, **near)
        if dtype != "bfloat16":
            b.add(f"S.{name}({{s}})", {"s": Input(dtype, 0, "small")}, **near)
    for lanes in (native_lanes(dtype), 5):
        xy = {"x": Input(dtype, lanes, "positive"), "y": Input(dtype, lanes, "small")}
        b.add("S.pow({x}, {y})", xy, ulps=8, atol=1e-6)
        b.add("S.pow({x}, 2)", xy, ulps=8, atol=1e-6)
        b.add("S.pow({x}, 2.5)", xy, ulps=8, atol=1e-6)
        if dtype != "bfloat16":
            b.add("S.pow({x}, {s})", {**xy, "s": Input(dtype, 0, "small")}, ulps=8, atol=1e-6)
            b.add(
                "S.pow({t}, {s})", {"t": Input(dtype, 0, "positive"), "s": Input(dtype, 0, "small")}, ulps=8, atol=1e-6
            )
    return b.cases


def _unsafe(x: str, y: str) -> bool:
    """Whether a comparison would read a signed value as unsigned."""
    if is_float(x) or is_float(y) or is_signed(x) == is_signed(y):
        return False
    signed, unsigned = (x, y) if is_signed(x) else (y, x)
    return bits_of(unsigned) >= bits_of(signed)


def operators(dtype: str) -> List[Case]:
    """Operators on scalars and vectors of every pair of element types."""
    b = Builder()
    for other in (*INTS, *FLOATS):
        both_ints = not is_float(dtype) and not is_float(other)
        for lanes in ((0, 0), (24, 24), (24, 0)):
            if any(n == 0 and d == "bfloat16" for n, d in zip(lanes, (dtype, other))):
                continue  # there is no arithmetic of bfloat16 scalars
            inputs = {"x": Input(dtype, lanes[0]), "y": Input(other, lanes[1])}
            nonzero = {**inputs, "y": Input(other, lanes[1], "nonzero")}
            same_lanes = lanes[0] == lanes[1]
            if lanes[0] > 0 and not _castable_operands(dtype, other, lanes):
                continue
            common = max(bits_of(dtype), bits_of(other))
            for op in ("+", "-"):
                b.add(f"{{x}} {op} {{y}}", inputs)
            if lanes[0] == 0 or common > 8:
                b.add("{x} * {y}", inputs)
            if both_ints:
                for op in ("&", "|", "^") if same_lanes else ():
                    b.add(f"{{x}} {op} {{y}}", inputs)
                for op in ("//", "%", "/"):
                    b.add(f"{{x}} {op} {{y}}", nonzero)
            elif lanes[0] == 0:
                b.add("{x} / {y}", inputs)
            if not _unsafe(dtype, other):
                for op in ("==", "!=", "<", "<=", ">", ">=") if lanes == (0, 0) else ("==", "<"):
                    b.add(f"{{x}} {op} {{y}}", inputs)
    for lanes in (0, 24):
        if lanes == 0 and dtype == "bfloat16":
            continue
        x = {"x": Input(dtype, lanes)}
        b.add("{x} + 100", x)
        b.add("{x} - 1", x)
        b.add("7 - {x}", x)
        if _castable_operands(dtype, "float32", (lanes, 0)):
            b.add("{x} + 1.5", x)
        if not is_float(dtype):
            b.add("{x} + 200", x)
            b.add("{x} % 10", {"x": Input(dtype, lanes, "any")})
            b.add("~{x}", x)
            for shift in (1, 5):
                b.add(f"{{x}} << {shift}", x)
                b.add(f"{{x}} >> {shift}", x)
            if lanes == 0:
                _scalar_shifts(b, dtype)
        if bits_of(dtype) > 8 or lanes == 0:
            b.add("-{x}", x)
            b.add("{x} * 3", x)
    return b.cases


def _scalar_shifts(b: Builder, dtype: str) -> None:
    """Counts around the width of the type and around 32, known and not, of every type."""
    x = Input(dtype, 0)
    for shift in (0, 7, 8, 9, 15, 16, 17, 31):
        for op in ("<<", ">>"):
            b.add(f"{{x}} {op} {shift}", {"x": x})
    if bits_of(dtype) < 32:
        for shift in (32, 37):  # of 32-bit scalars a mistake
            b.add(f"{{x}} << {shift}", {"x": x})
            b.add(f"{{x}} >> {shift}", {"x": x})
    for other in INTS:
        for kind in ("tail9", "tail33", "any"):
            for op in ("<<", ">>"):
                b.add(f"{{x}} {op} {{n}}", {"x": x, "n": Input(other, 0, kind)})


def _castable_operands(dtype: str, other: str, lanes: Tuple[int, int]) -> bool:
    """Whether vectors among two operands convert directly to the common type."""
    import numpy as np
    from numpy_truth import Lanes, common_dtype

    zero = np.zeros(1, np.int64)
    common = common_dtype(Lanes(zero, dtype), Lanes(zero, other))
    return all(n == 0 or d == common or _castable(d, common) for d, n in zip((dtype, other), lanes))


def mixed(dtype: str) -> List[Case]:
    """Native vectors beside wider ones with as many lanes, which makes the compiler cut all of them differently."""
    b = Builder()
    native = native_lanes(dtype)
    for lanes in (native, native // 2, native // 4, 2 * native):
        b.add('S.cast({x}, "int32")', {"x": Input("int8", lanes)})
    seen = set()
    for make, dtypes in (FAMILIES[family] for family in ("arithmetic", "bits", "widening", "reduce", "permute")):
        for case in make(dtype) if dtype in dtypes else ():
            masked = "mask=" in case.expression
            key = (case.expression.partition("(")[0], masked)
            if key not in seen and all(spec.lanes in (0, native) for _, spec in case.inputs):
                seen.add(key)
                b.cases.append(case)
    return b.cases


FAMILIES = {
    "arithmetic": (arithmetic, (*INTS, *FLOATS)),
    "compare": (compare, (*INTS, *FLOATS)),
    "bits": (bits, INTS),
    "masks": (masks, ("bool",)),
    "widening": (widening, INTS),
    "reduce": (reduce, (*INTS, *FLOATS)),
    "permute": (permute, (*INTS, *FLOATS)),
    "convert": (convert, (*INTS, *FLOATS)),
    "mathematics": (mathematics, FLOATS),
    "operators": (operators, (*INTS, *FLOATS)),
    "mixed": (mixed, (*INTS, *FLOATS)),
}


def groups() -> Iterator[Tuple[str, List[Case]]]:
    """(name, cases) of every family and element type."""
    for family, (make, dtypes) in FAMILIES.items():
        for dtype in dtypes:
            yield f"{family}-{dtype}", make(dtype)
