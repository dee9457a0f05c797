"""Searches the choices of the rules that schedule what has no schedule: :func:`autotune`."""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
import statistics
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import _native
from ._errors import TVMError
from ._progress import Progress
from ._tuning_log import Measured, TuningLog
from .te import _cuda
from .te._expr import PrimExpr
from .te._module import Module, _target_kind, build_schedule, create_prim_func, lower
from .te._tensor import Tensor, operations

Knobs = Dict[str, int]
Measure = Callable[[Module, Knobs], float]

_te = _native.te
_TURNS = 5  # of the best candidate and the rules' own, one after the other


class Tuned(NamedTuple):
    """``knobs`` are the choice, ``cost`` and ``cost_of_rules`` what was measured last of it and of the rules' own,
    cycles on an NPU and seconds else. ``schedule`` is ready for :func:`aipu.te.build`.
    """

    schedule: Any
    knobs: Knobs
    cost: float
    cost_of_rules: float


def definition_key(args: Sequence[Any], target: Any) -> str:
    """What tells definitions apart: the target and the text of the loops without a schedule."""
    text = f"{_target_kind(target)}\n{create_prim_func(list(args)).script()}"
    return hashlib.sha256(text.encode()).hexdigest()


def _machine(target: Any) -> str:
    from .topi.generic import kind_of_target

    return kind_of_target(_target_kind(target))


def schedule_with(outputs: Sequence[Any], target: Any, knobs: Knobs) -> Any:
    """The schedule of tensors by the rules, with these choices."""
    return _te.schedule_by_rules(list(operations(outputs)), _machine(target), knobs)


def tuned_schedule(args: Sequence[Any], path: str, target: Any = None) -> Any:
    """The schedule that a file of :func:`autotune` holds for a definition; by the rules alone where it holds none."""
    chosen = TuningLog(path).chosen.get(definition_key(args, target))
    knobs = _te.knobs_of_rules(_machine(target)) if chosen is None else chosen
    return schedule_with(_outputs(args), target, knobs)


def _outputs(args: Sequence[Any]) -> List[Any]:
    return [a for a in args if isinstance(a, Tensor) and a.op.kind != "placeholder"]


def _candidates(args: Sequence[Any], target: Any, own: Knobs) -> List[Knobs]:
    """The rules' own choice first, then those that make other loops than all before; what is refused stays one."""
    choices = _te.choices_of_rules(_machine(target))
    grid = [dict(zip(choices, values)) for values in itertools.product(*choices.values())]
    seen, found = set(), []
    for knobs in [own, *grid]:
        try:
            text = lower(schedule_with(_outputs(args), target, knobs), list(args))["main"].script()
        except TVMError as error:
            text = f"{knobs}: {error}"
        if text not in seen:
            seen.add(text)
            found.append(knobs)
    return found


def _arrays(args: Sequence[Any], inputs: Optional[Sequence[np.ndarray]]) -> List[np.ndarray]:
    given = None if inputs is None else iter(inputs)
    random = np.random.RandomState(1)
    arrays: List[np.ndarray] = []
    for i, arg in enumerate(args):
        if isinstance(arg, PrimExpr) or any(e.node != "IntImm" for e in arg.shape):
            raise ValueError(f"args[{i}]: only what has constant extents can be measured")
        shape = [int(e) for e in arg.shape]
        if arg.op.kind != "placeholder":
            arrays.append(np.zeros(shape, arg.dtype))
        elif given is not None:
            arrays.append(np.ascontiguousarray(next(given)))
        elif arg.dtype not in ("float16", "float32", "float64"):
            raise ValueError(f"args[{i}]: numbers of type {arg.dtype} are not made up; give inputs")
        else:
            arrays.append(random.uniform(0.5, 1.5, shape).astype(arg.dtype))
    return arrays


def _measure_with(arrays: Sequence[np.ndarray], target: Any) -> Measure:
    machine = _machine(target)
    if machine == "gpu" and (_cuda.emulated() or _cuda.gpu() is None):
        raise TVMError("autotune: there is no CUDA device to measure on; give measure")

    def seconds(module: Module, _: Knobs) -> float:
        return module.time_evaluator(module.entry_name, number=1, repeat=3, min_repeat_ms=20)(*arrays).median

    def cycles(module: Module, _: Knobs) -> float:
        function = module.entry_func
        if function.executor is None:
            raise TVMError(f"{function.name}: a function that calls others by name has no cycles")
        return function.executor.profile(*[value for value, _ in function.bind(arrays)])

    return cycles if machine == "compass" else seconds


def _checked_cost(cost: Any, knobs: Knobs) -> float:
    value = float(cost)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"autotune: {knobs} measured {value}, which is no cost")
    return value


def _search(
    candidates: Sequence[Knobs], log: TuningLog, key: str, cost_of: Callable[[Knobs], float], progress: Any
) -> List[Tuple[Knobs, float]]:
    """The candidates with their costs, the rules' own first, without those that are refused."""
    costs: List[Tuple[Knobs, float]] = []
    done = sum(log.find(key, knobs) is not None for knobs in candidates)
    with Progress(progress, len(candidates), done, unit="candidates") as bar:
        for i, knobs in enumerate(candidates):
            measured = log.find(key, knobs)
            if measured is None or (i == 0 and measured.cost is None):
                try:
                    measured = Measured(cost_of(knobs))
                except TVMError as error:
                    if i == 0:
                        raise
                    measured = Measured(None, str(error) or type(error).__name__)
                log.add(key, knobs, measured)
                done += 1
            if measured.cost is not None:
                costs.append((knobs, measured.cost))
            bar.update(done, i + 1 - len(costs), last=i + 1 == len(candidates))
    return costs


def _in_turns(cost_of: Sequence[Callable[[], float]]) -> List[float]:
    """The median cost of each, measured one after the other, several times."""
    turns = [[one() for one in cost_of] for _ in range(_TURNS)]
    return [statistics.median(costs) for costs in zip(*turns)]


def autotune(
    args: Sequence[Any],
    path: str,
    target: Any = None,
    inputs: Optional[Sequence[np.ndarray]] = None,
    measure: Optional[Measure] = None,
    progress: Any = sys.stderr,
) -> Tuned:
    """Searches the choices of the rules (:mod:`aipu.topi.generic`) for the fastest on a target.

    Parameters:
        args: the tensors that a build would get, inputs and outputs; their extents are constants.
        path: the results, one JSON line per candidate. What it holds is not measured again, so a run that was ended
            goes on where it was. Times hold for the machine that they were measured on: give each a file of its own.
        inputs: arrays of the inputs in their order; random ones where they are floating-point.
        measure: a function of a module and its knobs that returns its cost, instead of seconds on a CPU and the
            cycles of the timing model on an NPU.
        progress: the stream of the progress bar; None is silent.

    The rules' own choice is the first candidate. The best one found runs against it in turns, and counts as better only
    where the median of its turns is; so what is returned is never slower than the rules as far as can be measured.

    Raises:
        ValueError: extents that are no constants, an input that cannot be made up, a file with a broken record.
        BlockingIOError: another run writes to the file.
        TVMError: the rules' own choice does not build.
    """
    if not _outputs(args):
        raise ValueError("autotune: no output among the tensors")
    if measure is None:
        measure = _measure_with(_arrays(args, inputs), target)
    own, key = _te.knobs_of_rules(_machine(target)), definition_key(args, target)
    candidates = _candidates(args, target, own)
    measured_by = measure

    def cost_of(knobs: Knobs, module: Optional[Module] = None) -> float:
        return _checked_cost(measured_by(module or module_of(knobs), knobs), knobs)

    def module_of(knobs: Knobs) -> Module:
        return build_schedule(schedule_with(_outputs(args), target, knobs), list(args), target)

    with TuningLog(path).writing() as log:
        costs = _search(candidates, log, key, cost_of, progress)
        best, cost = min(costs, key=lambda one: one[1])  # of equal ones the first
        cost_of_rules = costs[0][1]
        if best != own:
            both = [functools.partial(cost_of, knobs, module_of(knobs)) for knobs in (best, own)]
            cost, cost_of_rules = _in_turns(both)
            if not cost < cost_of_rules:
                best, cost = own, cost_of_rules
        log.choose(key, best, cost, cost_of_rules)
    return Tuned(schedule_with(_outputs(args), target, best), best, cost, cost_of_rules)
