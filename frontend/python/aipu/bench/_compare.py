"""One model, one setting: aipu beside others in turns."""

from __future__ import annotations

import dataclasses
import importlib.util
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .. import _converted, _model_source, _native
from ._difference import relative_error
from ._inputs import make_inputs
from ._machine import Quiet
from ._sides import SIDES, AipuSide, Side
from ._turns import Spread, Times, bootstrap, outliers, ratio_of, take_turns

OURS = "aipu"


@dataclasses.dataclass
class SideResult:
    """Times of one side in milliseconds: the median of the turns with its 95 % interval, the best run, and the time
    that 90 % and 99 % of runs stay below. ``outliers``: runs far above the median; they are in all figures.
    """

    name: str
    version: str
    median_ms: float
    low_ms: float
    high_ms: float
    best_ms: float
    p90_ms: float
    p99_ms: float
    runs: int
    turns: int
    warmup_runs: int
    outliers: int


@dataclasses.dataclass
class Ratio:
    """How many times as fast aipu is as the other (above 1: faster), with the 95 % interval, which is that of the
    ratios of the turns; and the largest difference of an output over the largest magnitude of that output.
    """

    against: str
    ratio: float
    low: float
    high: float
    error: float
    agrees: bool

    @property
    def verdict(self) -> str:
        """``"faster"``, ``"slower"``, or ``"no difference"`` where the interval has 1 in it."""
        return "faster" if self.low > 1 else "slower" if self.high < 1 else "no difference"


@dataclasses.dataclass
class Comparison:
    """What was measured. ``inputs``: name, dtype and shape of each; ``missing``: what is not installed; ``failures``:
    what did not run the model, and why; ``notes``: what may have disturbed the measurement.
    """

    model: str
    hash: str
    threads: int
    inputs: List[Tuple[str, str, List[int]]]
    sides: List[SideResult] = dataclasses.field(default_factory=list)
    ratios: List[Ratio] = dataclasses.field(default_factory=list)
    missing: List[str] = dataclasses.field(default_factory=list)
    failures: Dict[str, str] = dataclasses.field(default_factory=dict)
    notes: List[str] = dataclasses.field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether all outputs agree."""
        return all(ratio.agrees for ratio in self.ratios)


def compare(
    model: Any,
    against: Sequence[str] = (),
    *,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    inputs: Optional[Mapping[str, np.ndarray]] = None,
    ranges: Optional[Mapping[str, Tuple[float, float]]] = None,
    threads: int = 1,
    tolerance: float = 2e-4,
    seconds: float = 0.3,
    fewest_turns: int = 7,
    most_turns: int = 40,
    precision: float = 0.02,
    build: Optional[Mapping[str, Any]] = None,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Comparison:
    """Measures a model by aipu and ``against`` others (names of :data:`SIDES`) in one process, in alternating turns.

    ``model``: path or bytes of an ONNX model, or a ModelProto; alone also an aipu.bin. ``shapes`` of inputs that the
    model leaves open, or the ``inputs`` themselves; ``ranges``: lowest and highest values of random ones. All sides get
    the same inputs, bound once, and ``threads`` threads (0: as many as CPUs). Outputs are compared: an error above
    ``tolerance`` makes ``agrees`` false. ``seconds``, ``fewest_turns``, ``most_turns``, ``precision``: see
    :func:`take_turns`. ``build``: options of :func:`aipu.build`.

    ValueError for shapes that are missing and names that are unknown; what is not installed, or cannot run the model,
    is left out and told in the result.
    """
    for name in against:
        if name not in SIDES:
            raise ValueError(f"'{name}' cannot be compared with (there are: {', '.join(SIDES)})")
    threads = threads or _native.available_cpus()
    source = _model_source.Source(model)
    if source.is_binary and against:
        raise ValueError("others do not run an aipu.bin; give the ONNX model")
    loaded, _ = _converted.load_converted(source, build)
    feed = make_inputs(loaded.inputs, shapes, ranges, inputs)
    result = Comparison(
        source.path or loaded.name,
        source.digest().hex(),
        threads,
        [(name, str(array.dtype), list(array.shape)) for name, array in feed.items()],
    )
    sides: Dict[str, Side] = {OURS: AipuSide(loaded, feed, threads)}
    try:
        for name in against:
            if importlib.util.find_spec(name) is None:
                result.missing.append(name)
                continue
            try:
                sides[name] = SIDES[name](source, feed, threads)
                sides[name].run()
            except Exception as error:  # of a package that is not ours
                sides.pop(name, None)
                result.failures[name] = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        sides[OURS].run()
        errors = {name: relative_error(sides[OURS].outputs(), sides[name].outputs()) for name in list(sides)[1:]}
        quiet = Quiet()
        times = dict(
            zip(
                sides,
                take_turns(
                    [side.run for side in sides.values()],
                    seconds=seconds,
                    fewest_turns=fewest_turns,
                    most_turns=most_turns,
                    precision=precision,
                    clock=clock,
                    sleep=sleep,
                ),
            )
        )
        result.notes = quiet.notes()
    finally:
        for side in sides.values():
            side.close()
    result.sides = [_side_result(name, sides[name].version, times[name]) for name in sides]
    for name, error in errors.items():
        spread = ratio_of(times[name], times[OURS])
        result.ratios.append(Ratio(name, *spread, error, error <= tolerance))
        if spread.width > precision:
            result.notes.append(
                f"{name}: the interval is wider than asked for; the machine was noisy, or take more turns"
            )
    return result


def _side_result(name: str, version: str, times: Times) -> SideResult:
    runs = times.all() * 1e3
    median: Spread = bootstrap([value * 1e3 for value in times.medians()])
    return SideResult(
        name,
        version,
        *median,
        float(runs.min()),
        float(np.percentile(runs, 90)),
        float(np.percentile(runs, 99)),
        len(runs),
        len(times.turns),
        times.warmup_runs,
        outliers(runs),
    )
