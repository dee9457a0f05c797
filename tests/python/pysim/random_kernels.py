"""Random kernels from the type rules, without lanes that the language leaves undefined."""

from __future__ import annotations

import dataclasses
import random
from typing import Callable, Dict, List, Tuple

from cases import ALIASES, native_lanes
from numpy_truth import FLOATS, INTS, bits_of, is_float, is_signed, with_sign

Type = Tuple[str, int]  # element type and lanes; 0 lanes: a scalar


@dataclasses.dataclass
class Kernel:
    """The text of a kernel and how many bytes it reads and writes."""

    source: str
    input_bytes: int
    output_bytes: int
    outputs: List[Tuple[int, str, int]]  # offset, element type, lanes


class Generator:
    """One kernel per seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lines: List[str] = []
        self._indent = 1
        self._variables: Dict[Type, List[str]] = {}
        self._masks: Dict[int, List[str]] = {}
        self._count = 0
        self._input_bytes = 0
        self._outputs: List[Tuple[int, str, int]] = []
        self._output_bytes = 0

    def make(self, statements: int = 40) -> Kernel:
        """The kernel."""
        for dtype in self._random.sample([*INTS, *FLOATS], 4):
            native = native_lanes(dtype)
            for lanes in (native, self._random.choice([2 * native, 3, 7, native + 5])):
                for _ in range(2):
                    self._load((dtype, lanes))
            if dtype != "bfloat16":
                self._load((dtype, 0))
                self._load((dtype, 0))
        for _ in range(statements):
            self._statement()
        for (dtype, lanes), names in self._variables.items():
            for name in names[-3:]:
                self._store(name, dtype, lanes)
        pointer = 'S.ptr("u8", "global")'
        source = "from aipu import script as S\n\n\n@S.prim_func\n"
        source += f"def kernel(inp: {pointer}, out: {pointer}):\n    if S.get_local_id() == 0:\n"
        body = "\n".join("    " + line for line in self._lines)
        return Kernel(source + body + "\n", self._input_bytes + 64, self._output_bytes + 64, self._outputs)

    # --- pieces ---

    def _emit(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    def _name(self, prefix: str = "v") -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _load(self, of: Type) -> None:
        dtype, lanes = of
        name = self._name()
        pointer = f'(inp + {self._input_bytes}).as_ptr("{ALIASES[dtype]}")'
        self._input_bytes += -(-max(lanes, 1) * bits_of(dtype) // 8 // 64) * 64
        if lanes == 0:
            self._emit(f"p_{name} = {pointer}")
            self._emit(f"{name} = p_{name}[0]")
        else:
            self._emit(f"{name} = S.vload({pointer}, lanes={lanes})")
        self._variables.setdefault(of, []).append(name)

    def _store(self, name: str, dtype: str, lanes: int) -> None:
        pointer = f'(out + {self._output_bytes}).as_ptr("{ALIASES[dtype]}")'
        self._outputs.append((self._output_bytes, dtype, max(lanes, 1)))
        self._output_bytes += -(-max(lanes, 1) * bits_of(dtype) // 8 // 64) * 64
        if lanes == 0:
            self._emit(f"q_{name} = {pointer}")
            self._emit(f"q_{name}[0] = {name}")
        else:
            self._emit(f"S.vstore({name}, {pointer})")

    def _pick(self, of: Type) -> str:
        return self._random.choice(self._variables[of])

    def _define(self, of: Type, expression: str) -> None:
        name = self._name()
        self._emit(f"{name} = {expression}")
        self._variables.setdefault(of, []).append(name)

    def _mask(self, lanes: int) -> str:
        kinds = ["string", "tail", "compare"]
        kind = self._random.choice(kinds)
        if kind == "string" and lanes > 1:
            return '"' + "".join(self._random.choice("TF") for _ in range(lanes)) + '"'
        if kind == "tail":
            return f"S.tail_mask({self._random.randint(0, lanes)}, {lanes})"
        candidates = [of for of in self._variables if of[1] == lanes]
        of = self._random.choice(candidates)
        name = self._name("m")
        self._emit(f"{name} = S.{self._random.choice(['vceq', 'vclt', 'vcge'])}({self._pick(of)}, {self._pick(of)})")
        return name

    def _statement(self) -> None:
        of = self._random.choice(list(self._variables))
        choose = self._random.random()
        if choose < 0.08:
            self._control(of)
        elif of[1] == 0:
            self._scalar(of)
        else:
            self._vector(of)

    def _control(self, of: Type) -> None:
        """A loop or a condition that changes a variable."""
        name = self._name()
        self._emit(f"{name} = {self._pick(of)} + 0" if of[0] != "bfloat16" or of[1] else f"{name} = {self._pick(of)}")
        other = self._pick(of)
        scalars = [s for s in self._variables if s[1] == 0]
        if self._random.random() < 0.5 or not scalars:
            self._emit(f"for i{name} in range({self._random.randint(1, 4)}):")
        else:
            scalar = self._random.choice(scalars)
            self._emit(f"if {self._pick(scalar)} {self._random.choice(['<', '>=', '!='])} {self._pick(scalar)}:")
        self._indent += 1
        self._emit(f"{name} = {name} {self._random.choice(['+', '-'])} {other}")
        self._indent -= 1
        self._variables[of].append(name)

    def _scalar(self, of: Type) -> None:
        x, y = self._pick(of), self._pick(of)
        options = [f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"S.max({x}, {y})", f"S.min({x}, {y})", f"{x} + 3"]
        options.append(f"S.clip({x}, -5, 9)" if is_float(of[0]) or is_signed(of[0]) else f"S.clip({x}, 2, 9)")
        if not is_float(of[0]):
            options += [
                f"{x} & {y}",
                f"{x} ^ {y}",
                f"{x} >> 3",
                f"{x} << 2",
                f"S.clz({x})",
                f"~{x}",
                f"{x} // 7",
                f"{x} % 5",
            ]
        else:
            options += [f"S.floor({x})", f"S.tanh({x})", f"S.exp({x})", f"S.rint({x})"]
        self._define(of, self._random.choice(options))

    def _vector(self, of: Type) -> None:
        dtype, lanes = of
        x, y, z = (self._pick(of) for _ in range(3))
        native, floating, bits = native_lanes(dtype), is_float(dtype), bits_of(dtype)
        options: List[Callable[[], Tuple[Type, str]]] = []

        def same(text: str) -> None:
            options.append(lambda: (of, text))

        def masked(text: str) -> None:
            options.append(lambda: (of, text.replace("MASK", self._mask(lanes))))

        same(f"{x} + {y}")
        same(f"{x} - {y}")
        same(f"S.max({x}, {y})")
        masked(f"S.vadd({x}, {y}, mask=MASK, r={z})")
        masked(f"S.vsub({x}, 2, mask=MASK, r={z})")
        masked(f"S.min({x}, {y}, mask=MASK, r=1)")
        masked(f"S.vsel({x}, {y}, mask=MASK)")
        masked(f"S.clip({x}, {'-3' if floating or is_signed(dtype) else '3'}, 50, mask=MASK)")
        if bits > 8:
            same(f"{x} * {y}")
            masked(f"S.vmul({x}, {y}, mask=MASK, r={z})")
        if not floating:
            same(f"S.vadd({x}, {y}, saturate=True)")
            same(f"{x} & {y}")
            same(f"{x} ^ 5")
            same(f"S.vdiv({x}, {y})")
            same(f"S.vmod({x}, {y})")
            same(f"S.vror({x}, {y})")
            same(f"S.vpcnt({x})")
            same(f"S.vbrevs({x})")
            masked(f"S.vsr({x}, {y}, mask=MASK, with_round=True, r={z})")
            masked(f"S.vsl({x}, 3, mask=MASK, r={z})")
            options.append(
                lambda: ((with_sign(dtype, not is_signed(dtype)), lanes), f"S.{'u' if is_signed(dtype) else 'i'}({x})")
            )
        else:
            same(f"S.abs({x})")
            same(f"S.rint({x})")
            for function in ("exp", "tanh", "sqrt", "floor", "erf"):
                same(f"S.{function}({x})")
            if dtype == "float32":
                masked(f"S.fma({x}, {y}, {z}, mask=MASK)")
        if lanes % native == 0:
            same(f"S.vrevs({x})")
            same(f"S.vshfl({x}, {self._random.randrange(native)})")
            same(f"S.vsldl({x}, {y}, {self._random.randrange(native)})")
            same(f'S.vzip({x}, {y}, "{self._random.choice(["low", "high", "even", "odd"])}")')
            same(f'S.vconcat(({x}, {y}), "{self._random.choice(["low", "high", "even", "odd"])}")')
            same(f"S.vreplic({x}, {self._random.randrange(native)})")
            if not floating:
                same(f"S.vaddh({x}, {y})")
                same(f"S.vmaxh({x}, {y})")
        if lanes == native:
            masked(f"S.vcompt({x}, MASK)")
            masked(f"S.vcompc({x}, {y}, MASK)")
            if not floating:
                same(f"S.vtbl(({x}, {y}), {z})")
                if bits < 32:
                    wide = (with_sign(f"int{2 * bits}", is_signed(dtype)), native // 2)
                    options.append(lambda: (wide, f"S.vmull({x}, {y})"))
                    options.append(lambda: (wide, f"S.vdot({x}, {y})"))
                    options.append(lambda: (wide, f"S.vxth({x})"))
                if bits == 16:
                    options.append(
                        lambda: ((with_sign("int8", is_signed(dtype)), 32), f"S.vnsr({x}, {y}, saturate=True)")
                    )
        if not floating and bits < 32:
            widened = (with_sign(f"int{2 * bits}", is_signed(dtype)), lanes)
            options.append(lambda: (widened, f'S.cast({x}, "{widened[0]}")'))
        if not floating and bits > 8:
            narrowed = (with_sign(f"int{bits // 2}", is_signed(dtype)), lanes)
            saturate = self._random.choice([True, False])
            options.append(lambda: (narrowed, f'S.cast({x}, "{narrowed[0]}", saturate={saturate})'))
        if dtype == "float16":
            options.append(lambda: (("float32", lanes), f'S.cast({x}, "float32")'))
        if dtype == "float32":
            options.append(lambda: (("float16", lanes), f'S.cast({x}, "float16")'))
            options.append(lambda: (("int32", lanes), f'S.cast({x}, "int32")'))
        result, expression = self._random.choice(options)()
        self._define(result, expression)
