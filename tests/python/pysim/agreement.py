"""Kernels made of many cases, their inputs, and the comparison of what they write with the truth."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import zlib
from typing import Any, Dict, List, Tuple

import numpy as np
import numpy_truth as truth
from cases import ALIASES, Case, Input

_ALIGNMENT = 64
_CORNERS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    np.inf,
    -np.inf,
    np.nan,
    65504.0,
    -65504.0,
    1e-7,
    3.0e38,
    -3.0e38,
    300.7,
]


def _numbers(spec: Input, rng: np.random.Generator) -> truth.Lanes:
    """The lanes of an input."""
    lanes = spec.lanes or 1
    scalar = spec.lanes == 0
    if spec.dtype == "bool":
        return truth.Lanes(rng.integers(0, 2, lanes).astype(bool), "bool", scalar=scalar)
    for kind in ("index", "tail"):
        if spec.kind.startswith(kind):
            limit = int(spec.kind[len(kind) :]) + (kind == "tail")
            return truth.Lanes(truth.wrapped(rng.integers(0, limit, lanes), spec.dtype), spec.dtype, scalar=scalar)
    if truth.is_int(spec.dtype):
        low, high = truth.int_range(spec.dtype)
        values = rng.integers(low, high, lanes, np.int64, endpoint=True)
        if spec.kind == "small":
            values = rng.integers(max(low, -4), 5, lanes, np.int64, endpoint=True)
        elif spec.kind == "count":
            values = rng.integers(0, truth.bits_of(spec.dtype) + 3, lanes, np.int64)
            values[rng.integers(0, lanes)] = low if low < 0 else high
        else:
            corners = rng.choice([low, high, 0, 1, high - 1, low + 1], lanes)
            values = np.where(rng.random(lanes) < 0.25, corners, values)
        if spec.kind == "nonzero":
            values = np.where(values == 0, 1, values)
        return truth.Lanes(values, spec.dtype, scalar=scalar)
    values = rng.normal(0, 8, lanes)
    if spec.kind == "any":
        values = np.where(rng.random(lanes) < 0.3, rng.choice(_CORNERS, lanes), values)
    elif spec.kind == "positive":
        values = np.abs(values) + 0.01
    elif spec.kind == "small":
        values = np.round(rng.normal(0, 4, lanes) * 4) / 4
    return truth.Lanes(truth.rounded(values, spec.dtype), spec.dtype, scalar=scalar)


class Plan:
    """One kernel for a list of cases: its source, its input bytes, and what it must write."""

    def __init__(self, name: str, cases: List[Case]) -> None:
        self.name = name
        self.cases = cases
        self.expected: List[Tuple[Case, truth.Lanes, int]] = []  # with the offset of the result
        self._input: List[np.ndarray] = []
        self._in_bytes = 0
        self._out_bytes = 0
        self._lines: List[str] = []
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        for number, case in enumerate(cases):
            self._add(number, case, rng)
        self.input = np.concatenate([*self._input, np.zeros(_ALIGNMENT, np.uint8)])
        self.out_bytes = self._out_bytes + _ALIGNMENT

    @property
    def source(self) -> str:
        """The module with the kernel."""
        body = "\n".join("    " + line for line in self._lines)
        pointer = 'S.ptr("u8", "global")'
        header = f"def kernel(inp: {pointer}, out: {pointer}):\n"
        return "from aipu import script as S\n\n\n@S.prim_func\n" + header + body + "\n"

    def load(self, folder: pathlib.Path) -> Any:
        """The kernel, from a file of its own so that its source can be found."""
        path = folder / (re.sub(r"\W", "_", self.name) + ".py")
        path.write_text(self.source)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.kernel

    def _place_input(self, data: np.ndarray) -> int:
        offset = self._in_bytes
        padded = np.zeros(-(-len(data) // _ALIGNMENT) * _ALIGNMENT, np.uint8)
        padded[: len(data)] = data
        self._input.append(padded)
        self._in_bytes += len(padded)
        return offset

    def _add(self, number: int, case: Case, rng: np.random.Generator) -> None:
        operands: Dict[str, truth.Lanes] = {}
        names: Dict[str, str] = {}
        for key, spec in case.inputs:
            name = names[key] = f"{key}{number}"
            operands[name] = _numbers(spec, rng)
            memory = operands[name]
            if spec.dtype == "bool":
                memory = truth.Lanes(memory.values.astype(np.int64), "uint8")
            offset = self._place_input(memory.to_bytes())
            alias = ALIASES[memory.dtype]
            pointer = f'(inp + {offset}).as_ptr("{alias}")'
            if spec.lanes == 0:
                self._lines += [f"p_{name} = {pointer}", f"{name} = p_{name}[0]"]
            elif spec.dtype == "bool":
                self._lines.append(f"{name} = S.vcneq(S.vload({pointer}, lanes={spec.lanes}), 0)")
            else:
                self._lines.append(f"{name} = S.vload({pointer}, lanes={spec.lanes})")
        expression = re.sub(r"\{(\w+)\}", lambda match: names[match[1]], case.expression)
        result = eval(expression, {"S": truth, **operands})
        self.expected.append((case, result, self._out_bytes))
        target = f"(out + {self._out_bytes})"
        lanes = len(result)
        if result.dtype == "bool" and result.scalar:
            self._lines += [
                f"if {expression}:",
                f"    out[{self._out_bytes}] = 1",
                "else:",
                f"    out[{self._out_bytes}] = 0",
            ]
        elif result.dtype == "bool":
            self._lines.append(f"S.vstore(S.vsel(S.u8x{lanes}(1), S.u8x{lanes}(0), {expression}), {target})")
        elif result.scalar:
            alias = ALIASES[result.dtype]
            self._lines += [f'q{number} = {target}.as_ptr("{alias}")', f"q{number}[0] = {expression}"]
        else:
            self._lines.append(f'S.vstore({expression}, {target}.as_ptr("{ALIASES[result.dtype]}"))')
        size = lanes * max(truth.bits_of(result.dtype) // 8, 1)
        self._out_bytes += -(-size // _ALIGNMENT) * _ALIGNMENT

    def mismatches(self, output: np.ndarray) -> List[str]:
        """A line for every case whose result is not the expected one."""
        found = []
        for case, result, offset in self.expected:
            size = len(result) * max(truth.bits_of(result.dtype) // 8, 1)
            got = truth.from_memory(output[offset : offset + size], "uint8" if result.dtype == "bool" else result.dtype)
            wrong = _differs(got.values, result, case) & result.is_defined
            if wrong.any():
                lane = int(np.argmax(wrong))
                found.append(
                    f"{case.expression} {dict(case.inputs)}: lane {lane} is {got.values[lane]}, "
                    f"expected {result.values[lane]}"
                )
        return found


def _differs(got: np.ndarray, expected: truth.Lanes, case: Case) -> np.ndarray:
    want = expected.values
    if not truth.is_float(expected.dtype):
        return got != want.astype(np.int64)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    if case.ulps or case.rtol or case.atol:
        step = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}[expected.dtype]
        with np.errstate(all="ignore"):
            close = np.abs(got.astype(np.float64) - want) <= case.atol + np.abs(want.astype(np.float64)) * (
                case.rtol + case.ulps * step
            )
        same |= close & np.isfinite(got) & np.isfinite(want)
    else:
        same &= np.isnan(want) | (np.signbit(got) == np.signbit(want))
    return ~same
