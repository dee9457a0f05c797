"""Intrinsics that are called inside ``te.compute``: the stage's inner axes are those of the declaration."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from .. import _native
from ._expr import IterVar, PrimExpr, TVMError, binary, const, expr
from ._tensor import Tensor, TensorSlice

_te = _native.te


class IntrinCall:
    """``intrin(A[i, 0:16], B[j, 0:16], reduce_axis=k)``, until ``te.compute`` makes a stage of it."""

    def __init__(self, intrin: Any, args: Sequence[Any], reduce_axis: Any) -> None:
        self.intrin = intrin
        self.reduce_axis: List[Any] = list(reduce_axis) if isinstance(reduce_axis, (list, tuple)) else [reduce_axis]
        self.reduce_axis = [axis for axis in self.reduce_axis if axis is not None]
        self.regions: List[Tuple[Any, List[Any]]] = []
        scalars: List[Any] = []
        for arg in args:
            region = self._region(arg) if len(self.regions) < len(intrin.inputs) else None
            if region is None:
                scalars.append(expr(arg))
            else:
                self.regions.append(region)
        if len(self.regions) != len(intrin.inputs):
            raise ValueError(f"{intrin.name}: {len(self.regions)} tensors, declared are {len(intrin.inputs)}")
        if len(scalars) != len(intrin.scalar_params):
            raise ValueError(f"{intrin.name}: {len(scalars)} scalars, declared are {len(intrin.scalar_params)}")
        self.values = list(zip(intrin.scalar_params, scalars))
        self._bind_extents()

    @staticmethod
    def _region(arg: Any) -> Optional[Tuple[Any, List[Any]]]:
        """A tensor and its ranges; None for a scalar."""
        if isinstance(arg, Tensor):
            return arg, [_te.NativeRange(const(0, e.dtype), e) for e in arg.shape]
        if not isinstance(arg, TensorSlice):
            return None
        ranges = []
        for index, extent in zip(arg.indices, arg.tensor.shape):
            if not isinstance(index, slice):
                low = expr(index)
                ranges.append(_te.NativeRange(low, const(1, low.dtype)))
                continue
            if index.step not in (None, 1):
                raise ValueError(f"a slice of {arg.tensor.name} has a step; an intrinsic takes begin:end")
            low = expr(0 if index.start is None else index.start)
            high = extent if index.stop is None else expr(index.stop)
            ranges.append(_te.NativeRange(low, _te.NativeAnalyzer().simplify(binary("Sub", high, low))))
        ranges += [_te.NativeRange(const(0, e.dtype), e) for e in list(arg.tensor.shape)[len(arg.indices) :]]
        return arg.tensor, ranges

    def substituted(self, value: Any) -> PrimExpr:
        """Over what is given for the declaration's variables."""
        return _te.substitute(expr(value), self.values)

    def _bind_extents(self) -> None:
        for declared, (tensor, ranges) in zip(self.intrin.inputs, self.regions):
            if declared.dtype != tensor.dtype:
                raise ValueError(f"{self.intrin.name}: {tensor.name} is {tensor.dtype}, declared is {declared.dtype}")
            skipped = len(ranges) - declared.ndim
            if skipped < 0:
                raise ValueError(
                    f"{self.intrin.name}: {tensor.name} has {len(ranges)} dimensions, declared are {declared.ndim}"
                )
            for d, given in enumerate(ranges):
                wanted = self.substituted(declared.shape[d - skipped]) if d >= skipped else const(1)
                if wanted.node in ("Var", "SizeVar") and all(not wanted.same_as(v) for v, _ in self.values):
                    self.values.append((wanted, given.extent))
                elif not _te.NativeAnalyzer().can_prove(binary("EQ", wanted, given.extent)):
                    raise TVMError(
                        f"{self.intrin.name}: dimension {d} of {tensor.name} has extent {given.extent}, "
                        f"declared is {wanted}"
                    )

    def make(self, name: str, tag: str, axes: List[Any], extents: Sequence[Any], attrs: Any) -> Any:
        """The operation whose first axes are ``axes``."""
        declared = self.intrin.op
        own, inner = list(declared.axis), len(extents) - len(axes)
        skipped, outer = len(extents) - len(own), list(axes)
        values = list(self.values)
        for d in range(len(axes), len(extents)):
            low = const(0, extents[d].dtype)
            axes.append(IterVar(_te.variable(f"i{d}", extents[d].dtype, False), _te.NativeRange(low, extents[d]), 0))
        for p, axis in enumerate(own):
            d, extent = skipped + p, self.substituted(axis.dom.extent)
            expected = const(1) if d < len(outer) else extents[d]
            if extent.node in ("Var", "SizeVar") and all(not extent.same_as(v) for v, _ in values):
                self.values.append((extent, expected))
                values.append((extent, expected))
            elif d < 0 or not _te.NativeAnalyzer().can_prove(binary("EQ", extent, expected)):
                raise TVMError(f"{self.intrin.name}: its result has extent {extent}, that of {name} {expected}")
            values.append((axis.var, const(0, axis.var.dtype) if d < len(outer) else axes[d].var))
        if inner > len(own):
            raise TVMError(f"{self.intrin.name}: its result has {len(own)} dimensions, {inner} are left of {name}")
        reduced = []
        for axis in declared.reduce_axis:
            var = _te.variable(axis.var.name, axis.var.dtype, False)
            low, extent = (_te.substitute(e, values) for e in (axis.dom.min, axis.dom.extent))
            reduced.append(IterVar(var, _te.NativeRange(low, extent), 2))
            values.append((axis.var, var))
        body = [self._value(value, values, reduced) for value in declared.body]
        op = _te.compute(name, tag, axes, body, attrs)
        inputs, regions = [t for t, _ in self.regions], [r for _, r in self.regions]
        return _te.tensor_call(
            op, self.intrin.native, len(outer), len(self.reduce_axis), inputs, regions, list(self.values)
        )

    def _value(self, value: Any, values: Any, reduced: List[Any]) -> PrimExpr:
        if value.node != "Reduce":
            if self.reduce_axis:
                raise TVMError(f"{self.intrin.name}: reduce_axis of what is no reduction")
            return self._read(value, values)
        sources = [self._read(e, values) for e in value.source]
        condition = self._read(value.condition, values)
        return _te.reduce(value.combiner, sources, self.reduce_axis + reduced, condition, [], value.value_index)

    def _read(self, value: Any, values: Any) -> PrimExpr:
        """An expression of the declaration with the given regions in place of its inputs."""
        targets = []
        for declared, (tensor, ranges) in zip(self.intrin.inputs, self.regions):
            targets.append((declared, tensor, [r.min for r in ranges]))
        return _te.read_regions(value, targets, values)
