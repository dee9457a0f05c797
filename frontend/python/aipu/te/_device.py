"""Functions for CUDA: kernels that are launched one after the other, on a GPU or, with ``AIPU_CUDA=emulate``, here."""

from __future__ import annotations

import contextlib
import re
import threading
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .. import _native, tir
from .._errors import TVMError
from ..target import Target
from . import _cuda

_te = _native.te
_AXES = [f"{kind}Idx_{d}" for kind in ("block", "thread") for d in "xyz"]
_MOST_THREADS = Target("cuda").max_num_threads


class Launch(NamedTuple):
    """One kernel. ``arguments``: places among the values of a call, or variables of loops around the launch."""

    name: str
    text: str
    source: str
    arguments: List[Any]
    axes: List[str]
    extents: List[Any]
    written: List[bool]  # of the arguments: arrays that the kernel stores to

    def grid(self, env: Any) -> List[int]:
        """The extents of all six axes; TVMError where no block has so many threads."""
        known = dict(zip(self.axes, self.extents))
        grid = [int(env.evaluate(known[axis])) if axis in known else 1 for axis in _AXES]
        threads = grid[3] * grid[4] * grid[5]
        if threads > _MOST_THREADS:
            said = ", ".join(f"{axis.replace('_', '.')} {n}" for axis, n in zip(_AXES[3:], grid[3:]) if n > 1)
            raise TVMError(f"{self.name}: a block of {threads} threads ({said}); cuda has {_MOST_THREADS} at most")
        return grid


class Loop(NamedTuple):
    """Launches that are repeated."""

    var: Any
    extent: Any
    steps: List[Any]


def _steps(native: Sequence[Any]) -> List[Any]:
    made: List[Any] = []
    for step in native:
        made.append(Launch(*step) if isinstance(step[0], str) else Loop(step[0], step[1], _steps(step[2])))
    return made


class Program:
    """The launches of a function, and what they need beside its parameters."""

    def __init__(self, native: Any) -> None:
        self.sizes, self.workspaces = native.sizes, native.workspaces
        self.steps = _steps(native.steps)

    def launches(self, steps: Any = None) -> List[Launch]:
        """All of them, in the order of their first run."""
        found: List[Launch] = []
        for step in self.steps if steps is None else steps:
            found += [step] if isinstance(step, Launch) else self.launches(step.steps)
        return found

    def text(self) -> str:
        """The kernel IR."""
        return "\n".join(launch.text for launch in self.launches())

    @property
    def source(self) -> str:
        """The CUDA C."""
        kernels = "\n".join(launch.source for launch in self.launches())
        half = ["#define __CUDA_NO_HALF_OPERATORS__", "#include <cuda_fp16.h>"]  # which the prelude has
        headers = half if re.search(r"\bhalf\b", kernels) else []
        return "\n".join([*headers, _te.cuda_prelude(), kernels])


class DevicePiece:
    """A function's launches, ready to run."""

    def __init__(self, function: Any) -> None:
        self.kernel = Program(function.native.to_device())
        self.executor: Any = None
        self._first_workspace = len(function.params) + len(self.kernel.sizes)
        launches = self.kernel.launches()
        self._written = sorted({a for k in launches for a, w in zip(k.arguments, k.written) if w})
        self._emulated: Dict[str, Any] = {}
        self._functions: Dict[str, Any] = {}
        self._workspaces: Dict[int, Any] = {}
        self._lock = threading.Lock()
        self._folder: Any = None
        self._ptx: Any = None
        if _cuda.emulated():
            self._folder = _te.TemporaryFolder("aipu_cuda")
            for launch in launches:
                manager = tir.BuildManager(target="cuda", output_dir=f"{self._folder.path}/{launch.name}")
                self._emulated[launch.name] = manager.build(tir.IRModule.from_text(launch.text))
        else:
            self._ptx = _cuda.compiled(self.kernel.source)

    def run(self, values: List[Tuple[Any, str]], env: Any, copies: Optional[Dict[int, Any]] = None) -> None:
        """Runs the launches on completed arguments, some of which have memory of the device; TVMError without one."""
        if self._emulated:
            self._walk(self.kernel.steps, env, lambda launch, grid: self._emulate(launch, grid, values, env))
            return
        copies = copies or {}
        with self._lock, self._in_memory(values, copies) as memory:
            gpu = _cuda.required()
            for launch in self._launches(values, env, memory):
                gpu.launch(*launch)
            gpu.wait()
            for i in self._written:
                if i in copies:
                    copies[i].kernels_wrote()
                elif i < self._first_workspace and values[i][0].flags.writeable:
                    gpu.download(memory[i], values[i][0])

    @property
    def on_gpu(self) -> bool:
        """Whether it runs on a GPU, where :meth:`seconds` measures and arrays may have memory."""
        return not self._emulated

    def seconds(
        self, values: List[Tuple[Any, str]], env: Any, number: int, repeat: int, min_repeat_ms: int
    ) -> List[float]:
        """The device's time per run of all launches, ``repeat`` times over ``number`` runs: without copies."""
        with self._lock, self._in_memory(values, {}) as memory:
            gpu = _cuda.required()
            launches = self._launches(values, env, memory)

            def milliseconds() -> float:
                start = gpu.event()
                for _ in range(number):
                    for launch in launches:
                        gpu.launch(*launch)
                return gpu.milliseconds(start, gpu.event())

            milliseconds()  # the first run loads the kernels
            while min_repeat_ms > 0 and milliseconds() < min_repeat_ms:
                number *= 2
            return [milliseconds() / 1e3 / number for _ in range(repeat)]

    @contextlib.contextmanager
    def _in_memory(self, values: List[Tuple[Any, str]], copies: Dict[int, Any]) -> Iterator[Dict[int, Any]]:
        """Where the arrays are in the device's memory, by their places; TVMError where there is no device."""
        gpu = _cuda.required()
        if self._ptx is None:
            raise TVMError("NVRTC of the CUDA toolkit is not found; AIPU_CUDA=emulate runs the kernels on this machine")
        gpu.enter()
        if not self._functions:
            module = gpu.load(self._ptx)
            self._functions = {k.name: gpu.function(module, k.name) for k in self.kernel.launches()}
        own: Dict[int, Any] = {}
        try:
            for i, (value, kind) in enumerate(values):
                if i in copies:
                    copies[i].fill()
                elif kind == "" and i < self._first_workspace:
                    own[i] = gpu.allocate(value.nbytes)
                    gpu.upload(value, own[i])
            kept = {i: self._workspace(gpu, i, values[i][0].nbytes) for i in range(self._first_workspace, len(values))}
            yield {**own, **kept, **{i: copy.address for i, copy in copies.items()}}
        finally:
            for address in own.values():
                gpu.free(address)

    def _workspace(self, gpu: Any, i: int, size: int) -> Any:
        """Memory that calls have one after the other."""
        if i not in self._workspaces or self._workspaces[i].size < size:
            self._workspaces[i] = _cuda.Memory(gpu, size)
        return self._workspaces[i].address

    def _launches(self, values: List[Tuple[Any, str]], env: Any, memory: Dict[int, Any]) -> List[Tuple[Any, ...]]:
        """What the driver is given, launch by launch."""
        given = {i: memory[i] if i in memory else _cuda.scalar(value, kind) for i, (value, kind) in enumerate(values)}
        found: List[Tuple[Any, ...]] = []

        def add(launch: Launch, grid: List[int]) -> None:
            arguments = [
                given[a] if isinstance(a, int) else _cuda.scalar(env.value(a), a.dtype) for a in launch.arguments
            ]
            found.append((self._functions[launch.name], grid[:3], grid[3:], arguments))

        self._walk(self.kernel.steps, env, add)
        return found

    def _walk(self, steps: List[Any], env: Any, start: Any) -> None:
        for step in steps:
            if isinstance(step, Launch):
                grid = step.grid(env)
                if all(extent > 0 for extent in grid):
                    start(step, grid)
                continue
            for i in range(int(env.evaluate(step.extent))):
                env.set(step.var, i)
                self._walk(step.steps, env, start)

    def _emulate(self, launch: Launch, grid: List[int], values: List[Tuple[Any, str]], env: Any) -> None:
        arguments = [values[a][0] if isinstance(a, int) else env.value(a) for a in launch.arguments]
        extents = dict(zip(_AXES, grid))
        self._emulated[launch.name](*arguments, *(extents[axis] for axis in launch.axes))


class DeviceModule:
    """The device's part of a module, to look at."""

    type_key = "cuda"

    def __init__(self, functions: Dict[str, Any]) -> None:
        self._functions = functions

    def get_source(self, fmt: str = "") -> str:
        """The CUDA C; with ``"tir"`` the kernel IR. Where it is emulated the first line says so."""
        kernels = [function.piece.kernel for function in self._functions.values()]
        if fmt == "tir":
            return "\n".join(kernel.text() for kernel in kernels)
        head = ["// emulated on this machine: AIPU_CUDA=emulate"] if _cuda.emulated() else []
        return "\n".join([*head, *(kernel.source for kernel in kernels)])
