"""What runs a model: a session, and the sessions that the calls of a model share."""

from __future__ import annotations

import atexit
import concurrent.futures
import json
import os
import threading
import weakref
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _native
from ._arrays import shown
from ._signature import Signature
from ._stored_type import numpy_dtype, stored_type

PathLike = Union[str, "os.PathLike[str]"]


class ProfileRow(NamedTuple):
    """One command of a profiled run; times in seconds, and in cycles of the NPU with ``session(cycles=True)``.

    compute_cycles and dma_cycles are what its instructions and its DMA transfers would take alone, of those cycles.
    """

    engine: str
    name: str
    origin: str
    threads: int
    start: float
    duration: float
    start_cycles: Optional[int] = None
    cycles: Optional[int] = None
    compute_cycles: Optional[int] = None
    dma_cycles: Optional[int] = None


class Session:
    """Runs a model; holds its memory and threads. Made by :meth:`Model.session`.

    One thread at a time may use it: a call that comes while another thread is in one raises RuntimeError.
    """

    def __init__(
        self,
        model: Any,
        signature: Signature,
        threads: int,
        profile: bool = False,
        cycles: bool = False,
        overlap: bool = False,
    ) -> None:
        self._native = _native.Session(model, threads, profile, cycles, overlap)
        self._signature = signature
        self._dtypes = [numpy_dtype(spec.dtype) for spec in signature.outputs]
        self._stored = [stored_type(spec.dtype) for spec in signature.outputs]
        self._in_use = threading.Lock()
        self._is_profiled = profile
        # The dtypes of inputs that one call into the extension runs. Lists and stored types take more than that.
        self._plain: Optional[Dict[str, np.dtype]] = None
        if not signature.input_lists and all(stored_type(spec.dtype) is None for spec in signature.tensors):
            self._plain = {spec.name: numpy_dtype(spec.dtype) for spec in signature.inputs}

    def _check_profiled(self) -> None:
        if not self._is_profiled:
            raise ValueError("the session keeps no profile; make it by model.session(profile=True)")

    @property
    def threads(self) -> int:
        """Threads that kernels are spread over."""
        return self._native.threads

    @property
    def cycles(self) -> Optional[int]:
        """What the last run would take on the NPU, whose engines work side by side; needs ``session(cycles=True)``.

        The back end ``x2`` estimates by the sizes of tensors, ``interp`` counts what kernels do. None where nothing has
        run, and for models of the CPU, of whose time there is no model.
        """
        return self._native.cycles

    @property
    def arena_bytes(self) -> int:
        """Bytes of memory held for activations."""
        return self._native.arena_bytes

    def run(
        self, inputs: Mapping[str, Any], outputs: Union[Sequence[str], Mapping[str, np.ndarray], None] = None
    ) -> Dict[str, np.ndarray]:
        """Runs the model on named arrays; returns the outputs by name.

        ``inputs``: a value for every input of the model. C-contiguous arrays in this machine's byte order are read in
        place, others are copied; objects with ``__dlpack__`` on the CPU and whatever ``np.asarray`` takes are fine,
        dtypes are not converted. Masked elements are refused. Strings are arrays of ``str`` or ``bytes`` (dtype
        object, ``<U``, ``S`` or ``StringDType``); they are returned as object arrays of ``str``.
        ``outputs``: the names wanted (all by default), or arrays to write into: writable, C-contiguous, in this
        machine's byte order, in memory of their own. Outputs whose shapes follow from those of the inputs are written
        where they are returned.

        ValueError for names, dtypes or shapes that do not fit, for inputs that are missing, and for data without a
        result (an index outside of an axis, an integer divided by zero), with the ONNX node and the value in its text.
        TypeError for objects that are no arrays, RuntimeError if another thread is using the session. After an error,
        given outputs hold anything; the session can be run again.
        """
        if outputs is None:
            results = self._run_plain(inputs)
            if results is not None:
                return self._signature.named(results, None)
        results = self._run_alone(self._signature.input_values(inputs), self._signature.wanted_outputs(outputs))
        return self._signature.named(results, outputs)

    def _run_plain(self, inputs: Any) -> Optional[Dict[str, np.ndarray]]:
        """All results of a run by tensors' names, in less time than by :meth:`_run_alone`; None where that has more to
        do, or to complain of."""
        dtypes = self._plain
        if dtypes is None or type(inputs) is not dict or len(inputs) != len(dtypes):
            return None
        values = []
        for name, dtype in dtypes.items():
            value = inputs.get(name)
            if type(value) is not np.ndarray or value.dtype != dtype:
                return None
            flags = value.flags
            if not flags.c_contiguous or not flags.aligned:
                return None
            values.append(value)
        if not self._in_use.acquire(blocking=False):
            return None
        try:
            results = self._native.run_plain(values, np.empty, self._dtypes)
        finally:
            self._in_use.release()
        return None if results is None else dict(zip(self._signature.output_index, results))

    def _run_alone(self, values: List[np.ndarray], wanted: Dict[str, Optional[np.ndarray]]) -> Dict[str, np.ndarray]:
        if not self._in_use.acquire(blocking=False):
            raise RuntimeError(
                "the session is in use by another thread (or was when this process was forked); make a session for "
                "each thread, or use Model.run"
            )
        try:
            if not self._native.is_idle:
                raise RuntimeError("submitted runs are in flight in this session; wait for them, or use Session.submit")
            try:
                return self._run(values, wanted)
            finally:
                self._native.release_arrays()
        finally:
            self._in_use.release()

    def submit(
        self, inputs: Mapping[str, Any], outputs: Union[Sequence[str], Mapping[str, np.ndarray], None] = None
    ) -> "concurrent.futures.Future[Dict[str, np.ndarray]]":
        """Runs the model as :meth:`run` does, in the background: returns a future of the outputs.

        Runs of a session follow each other in the order in which they were submitted; any thread may submit. Arrays
        belong to the run until its future is done: inputs must not change, and given outputs hold anything. Names and
        dtypes that do not fit are errors here, all else is the error of the future. A run that is submitted is not
        cancelled. ``asyncio.wrap_future`` makes a future to await of it. Callbacks of the future may submit, but must
        not wait for runs of the session, which their thread plays.

        As long as runs are in flight, :meth:`run` is an error. The session lives until they are done; at the end of the
        program they are waited for. Futures of a process that was forked since are never done.
        """
        values = self._signature.input_values(inputs)
        wanted = self._signature.wanted_outputs(outputs)
        given = [self._memory(index, wanted.get(spec.name)) for index, spec in enumerate(self._signature.outputs)]
        future: concurrent.futures.Future[Dict[str, np.ndarray]] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()

        def done(run: Any) -> None:
            try:
                run.check()
                result = self._signature.named(self._results(run, wanted), outputs)
            except BaseException as error:
                _in_flight.discard(future)
                future.set_exception(error)
            else:
                _in_flight.discard(future)
                future.set_result(result)

        _submitters.add(self)
        _in_flight.add(future)
        try:
            self._native.submit(values, given, done)
        except BaseException:
            _in_flight.discard(future)
            raise
        return future

    def close(self) -> None:
        """Ends the session: submitted runs that have not begun end with ValueError, the one that has is waited for."""
        self._native.close()

    def _results(self, run: Any, wanted: Dict[str, Optional[np.ndarray]]) -> Dict[str, np.ndarray]:
        """What a submitted run has given."""
        results: Dict[str, np.ndarray] = {}
        for name, given in wanted.items():
            index = self._signature.output_index[name]
            shape = run.output_shape(index)
            if given is not None and given.shape != shape:
                raise ValueError(f"output '{shown(name)}': expected shape {shape}, found {given.shape}")
            if given is None or self._is_copied(index):
                given = self._unpacked(index, given, run, shape)
            results[name] = given
        return results

    def _is_copied(self, index: int) -> bool:
        """Whether runs do not write into arrays."""
        stored = self._stored[index]
        return self._signature.outputs[index].dtype == "string" or (stored is not None and stored.is_packed)

    def _memory(self, index: int, given: Optional[np.ndarray]) -> Optional[np.ndarray]:
        """What is given for an output as the run can write into it; None if it cannot."""
        stored = self._stored[index]
        if given is None or stored is None:
            return given
        return None if stored.is_packed else stored.codes_of(given)

    def _unpacked(self, index: int, given: Optional[np.ndarray], run: Any, shape: Tuple[int, ...]) -> np.ndarray:
        """A copy of an output of a run (of the session's last one: its ``_native``), in ``given`` if there is such an
        array."""
        if self._signature.outputs[index].dtype == "string":
            texts = np.empty(shape, object)
            run.copy_texts(index, texts)
            return texts
        data = run.output_bytes(index)
        stored = self._stored[index]
        if stored is None:
            return np.frombuffer(bytearray(data), self._dtypes[index]).reshape(shape)
        codes = np.frombuffer(bytearray(data), stored.codes).reshape(shape)
        if given is None:
            return codes.view(stored.dtype)
        stored.codes_of(given)[...] = codes
        return given

    def _run(self, values: List[np.ndarray], wanted: Dict[str, Optional[np.ndarray]]) -> Dict[str, np.ndarray]:
        for index, value in enumerate(values):
            self._native.bind_input(index, value)
        self._native.prepare()
        results: Dict[str, np.ndarray] = {}
        for name, given in wanted.items():
            index = self._signature.output_index[name]
            shape = self._native.output_shape(index)
            if given is not None:
                if shape is not None and given.shape != shape:
                    raise ValueError(f"output '{shown(name)}': expected shape {shape}, found {given.shape}")
                results[name] = given
            elif shape is not None and not self._is_copied(index):
                results[name] = np.empty(shape, self._dtypes[index])
            else:
                continue
            self._native.bind_output(index, self._memory(index, results[name]))
        self._native.run()
        for name in wanted:
            index = self._signature.output_index[name]
            shape = self._native.output_shape(index)
            given = results.get(name)
            if given is not None and given.shape != shape:
                raise ValueError(f"output '{shown(name)}': expected shape {shape}, found {given.shape}")
            if given is None or self._is_copied(index):
                results[name] = self._unpacked(index, given, self._native, shape)
        return {name: results[name] for name in wanted}

    def profile(self) -> List[ProfileRow]:
        """The commands of all runs so far; needs ``session(profile=True)``."""
        self._check_profiled()
        return [ProfileRow(*row) for row in self._native.profile()]

    def layers(self) -> List[Dict[str, Any]]:
        """The medians over all runs so far of each command, in the order of execution, as ``aipubench --layers --json``
        has them: engine, kernel, nodes, command, threads, median_us, operations, bytes; needs
        ``session(profile=True)``. With ``session(cycles=True)`` of an NPU the sums in cycles instead: tecs,
        start_cycles, cycles, compute_cycles, dma_cycles, bound.
        """
        self._check_profiled()
        return json.loads(self._native.layers())

    def write_profile(self, path: PathLike) -> None:
        """Writes the profile in Chrome's trace format, for ui.perfetto.dev."""
        self._check_profiled()
        self._native.write_profile(os.fspath(path))


# Futures of submitted runs, and the sessions that have such. When the program ends, nobody may call back into it any
# more: the runs are waited for, and then the threads that play them.
_in_flight: "set[concurrent.futures.Future[Dict[str, np.ndarray]]]" = set()
_submitters: "weakref.WeakSet[Session]" = weakref.WeakSet()


@atexit.register
def _end_submitted_runs() -> None:
    concurrent.futures.wait(list(_in_flight))
    for session in list(_submitters):
        session.close()


class SessionPool:
    """Sessions for the calls of :meth:`Model.run`: each call has one for itself.

    A call that is alone has all CPUs, calls at the same time divide them. There are never more calls in sessions than
    CPUs: the others would only be in the way, and each would hold memory of its own.
    """

    def __init__(self, model: Any, signature: Signature, most_threads: int) -> None:
        self._model = model
        self._signature = signature
        self._most_threads = most_threads  # of a session
        self._cpus = _native.available_cpus()
        self.forget()
        _pools.add(self)

    def forget(self) -> None:
        """Begins anew: in a process made by fork(), threads of the old one are not there to give sessions back."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        # The session of a call that is alone, None before there is one; empty while somebody has it. Taking it and
        # giving it back need no lock: both are one operation of a list.
        self._alone: List[Optional[Session]] = [None]
        self._sharing = 0  # calls in other sessions
        self._waiting = 0
        self._idle: Dict[int, List[Session]] = {}  # the other sessions, by threads

    def _calls(self) -> int:
        """How many are in sessions."""
        return self._sharing + (not self._alone)

    def take(self) -> Tuple[Session, Optional[int]]:
        """A session that nobody else uses until it is given back, and what give_back() wants to know of it."""
        if self._sharing:
            return self._take_share()
        try:
            session = self._alone.pop()
        except IndexError:
            return self._take_share()
        return session or self._opened(min(self._cpus, self._most_threads), None), None

    def _take_share(self) -> Tuple[Session, int]:
        """For a call beside others: a session with a part of the threads, and their number."""
        with self._lock:
            # Said before it is looked whether there is room, so that who gives room after that knows of it.
            self._waiting += 1
            while self._calls() >= self._cpus:
                self._changed.wait()
            self._waiting -= 1
            self._sharing += 1
            threads = min(self._cpus // self._calls(), self._most_threads)
            idle = self._idle.get(threads)
            if idle:
                return idle.pop(), threads
        return self._opened(threads, threads), threads

    def _opened(self, threads: int, share: Optional[int]) -> Session:
        try:
            return Session(self._model, self._signature, threads)
        except BaseException:
            self.give_back(None, share)
            raise

    def give_back(self, session: Optional[Session], share: Optional[int]) -> None:
        """Ends what take() began."""
        if share is None:
            self._alone.append(session)
            if not self._waiting:
                return
        with self._lock:
            if share is not None:
                self._sharing -= 1
                if session is not None:
                    self._idle.setdefault(share, []).append(session)
            if self._waiting:
                self._changed.notify()


# In a new process, after fork(), before anything else runs in it.
_pools: "weakref.WeakSet[SessionPool]" = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: [pool.forget() for pool in _pools])
    os.register_at_fork(after_in_child=_in_flight.clear)
