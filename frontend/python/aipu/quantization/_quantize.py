"""The function: from a model and data to a model with integers."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from .. import _calibration, _files, _model_source, _native
from .. import model as _model
from .._arrays import TensorSpec
from .._calibration import Run
from .._onnx_graph import OnnxModel
from . import _opset
from ._layers import QuantizedLayer, groups_by_input, quantized_layer, smoothing
from ._products import Product, find_products, fold_batch_normalization, fold_constants
from ._ranges import METHODS, Linear, Statistics, choose
from ._sensitivity import METRICS, Measurement, OutputError, Outputs, cheapest, fewest
from ._write import write_qdq, write_switched

_SENSITIVITY_RUNS = 8  # each layer is measured on so many; the bound on all
# Where nobody says how much error there may be: what is told as too much, with the layers that it comes from.
_NOTED = {"relative": 0.05, "top1": 0.005}


@dataclasses.dataclass
class LayerReport:
    """A convolution or product. ``why``: what keeps it from integers, "" if nothing does. ``macs``: multiplications of
    the first run. ``sensitivity``: the relative error at the outputs with this layer alone in integers, where measured.
    ``half``: what it has instead by precision ``"mixed"``, ``"bf16"`` or ``"fp16"``; "" for float32.
    """

    name: str
    op: str
    why: str = ""
    macs: int = 0
    sensitivity: Optional[float] = None
    half: str = ""

    @property
    def is_quantized(self) -> bool:
        """Whether it has integers."""
        return not self.why

    @property
    def precision(self) -> str:
        """What it multiplies: int8, bf16 or fp32."""
        return "int8" if self.is_quantized else self.half or "fp32"

    @property
    def is_bfloat16(self) -> bool:
        """Whether it has bfloat16."""
        return self.half == "bf16"


@dataclasses.dataclass
class Report:
    """What was made. ``error``: of the outputs of the quantised model against float32 on the same data, by metric.
    ``precision_rules``: of precision ``"mixed"``, the text of the precision file that goes with the model.
    """

    layers: List[LayerReport]
    runs: int
    output: str = ""
    data: bytes = b""  # the ONNX file
    precision_rules: str = ""
    error: Dict[str, float] = dataclasses.field(default_factory=dict)
    is_bound: bool = False  # whether max_error was given
    classifies: bool = False  # whether the outputs are rows of scores, [rows, classes]

    @property
    def warning(self) -> str:
        """What is to be said about the error where no ``max_error`` was given and it is more than 5 % of the outputs
        (root of noise by signal), or another class is the likeliest in more than 0.5 % of the rows: how much, and from
        which layers most of it comes. "" where there is nothing to say.
        """
        metrics = [metric for metric in _NOTED if metric != "top1" or self.classifies]
        noted = [metric for metric in metrics if self.error.get(metric, 0.0) > _NOTED[metric]]
        if self.is_bound or not noted:
            return ""
        measured = sorted(
            (layer for layer in self.layers if layer.sensitivity), key=lambda layer: -(layer.sensitivity or 0.0)
        )
        parts = []
        if "relative" in noted:
            parts.append(f"the outputs are off by {self.error['relative']:.1%} of their size")
        if "top1" in noted:
            parts.append(f"in {self.error['top1']:.1%} of the rows another class is the likeliest")
        text = " and ".join(parts)
        if measured:
            text += ", mostly by " + ", ".join(
                f"'{layer.name}' (alone {layer.sensitivity:.1%})" for layer in measured[:3]
            )
        return f"{text}; a bound such as max_error=('relative', {_NOTED['relative']}) keeps such layers in float32"

    @property
    def quantized_share(self) -> float:
        """The share of multiplications that are done in integers, of those of all layers listed."""
        total = sum(layer.macs for layer in self.layers)
        return sum(layer.macs for layer in self.layers if layer.is_quantized) / total if total else 0.0


@dataclasses.dataclass(frozen=True)
class _Options:
    activations: str
    calibration: str
    percentile: float
    per_channel: bool
    correct: bool
    smooth: "Optional[float | str]"
    metric: str
    bound: Optional[float]
    half: str  # for layers that integers are too coarse for; "": float32
    build: Mapping[str, Any]
    tell: Callable[[str], None]


def quantize(
    model: Any,
    data: Any = None,
    output: Optional[Union[str, "os.PathLike[str]"]] = None,
    *,
    precision: str = "int8",
    target: Optional[str] = None,
    activations: str = "uint8",
    calibration: str = "minmax",
    percentile: float = 99.99,
    per_channel: bool = True,
    bias_correction: bool = True,
    smooth: Optional[Union[float, str]] = "auto",
    exclude: Sequence[str] = (),
    max_error: Optional[Tuple[str, float]] = None,
    limit: Optional[int] = None,
    batch: int = 1,
    constants: Optional[Mapping[str, Any]] = None,
    preprocess: Optional[Callable[[Any], Any]] = None,
    build: Optional[Mapping[str, Any]] = None,
    progress: Optional[Callable[[str], None]] = None,
) -> Report:
    """Quantises a float32 ONNX model after training: 8-bit integers for convolutions and products by constant weights.

    The result is a standard ONNX model (QuantizeLinear and DequantizeLinear around the layers, opset 13 or newer), in
    ``Report.data`` and the file ``output``; :func:`aipu.build` makes an aipu.bin of it that computes with integers, and
    other runtimes run it too. Weights are int8, symmetric, with a scale per output channel (``per_channel``);
    activations are ``"uint8"`` or ``"int8"``, asymmetric, with one scale.

    ``model``: a path, bytes or ``onnx.ModelProto``. ``data``: some hundred typical inputs, as :func:`aipu.batch.run`
    takes them, or a folder of ``test_data_set_*``; ``limit``: items to take; ``batch``: items of a run; ``constants``:
    inputs that all share; ``preprocess``: makes arrays of an item. The data is read twice (once for ``"minmax"``), and
    not kept.

    ``calibration``: how the range of activations is chosen: ``"minmax"``, ``"percentile"`` (see there), ``"entropy"``
    or ``"mse"``. ``bias_correction``: takes off what rounding the weights adds to the mean of each channel.
    ``smooth``: SmoothQuant's strength for inputs of matrix products, None for none; ``"auto"``: 0.5 for those with
    outlier channels. ``exclude``: names of layers' outputs, or patterns, that stay in float32.

    ``max_error``: a metric of the outputs against float32 on this data and what it may be at most:
    ``("relative", 0.02)`` (root of noise by signal), ``"max"``, ``"mean"``, ``"cosine"`` (1 - cosine) or ``"top1"``
    (the share of rows whose largest element is another one). The cheapest set of layers, by multiplications, that keeps
    it stays in float32, found by measuring each layer; the runs and their outputs are in memory meanwhile.

    ``precision``: ``"int8"``, or ``"mixed"``, which takes a bound: layers that integers are too coarse for multiply
    bfloat16 numbers (on NPUs that multiply them, float16) where that keeps the bound and ``target`` (by default the
    host) is faster by it, and stay in float32 otherwise. Which ones is ``Report.precision_rules``, and a file beside
    ``output``, ``NAME.precision.txt`` of NAME.onnx, that ``aipugb --precision-file`` takes.

    ``build``: options of :func:`aipu.build` for the models that are run to measure; ``progress`` gets lines.

    ValueError without data, for a model without such layers, or with a bound that cannot be kept.
    """
    if data is None:
        raise ValueError(
            "int8 needs the ranges of activations: give data (some hundred typical inputs), or convert a model that is "
            "quantised already"
        )
    options = _checked(
        activations, calibration, percentile, per_channel, bias_correction, smooth, max_error, build, progress
    )
    if precision not in ("int8", "mixed"):
        raise ValueError(f"precision: expected int8 or mixed, found '{precision}'")
    if precision == "mixed" and options.bound is None:
        raise ValueError("precision mixed needs a bound: give max_error, such as ('relative', 0.02)")
    if precision == "mixed":
        facts = _native.target(target or "host")
        half = "bf16" if facts["bf16_dot_products"] else "fp16" if facts["f16_dot_products"] else ""
        options = dataclasses.replace(options, half=half)
    if isinstance(exclude, str):
        raise TypeError(f"exclude: expected a list of names; write exclude=[{exclude!r}]")
    graph = _read(model)
    _opset.upgrade(graph)
    fold_constants(graph)
    fold_batch_normalization(graph)
    products, refused = find_products(graph)
    excluded = {p.name for p in products if any(fnmatch.fnmatchcase(p.name, pattern) for pattern in exclude)}
    for pattern in exclude:
        if not any(fnmatch.fnmatchcase(product.name, pattern) for product in products):
            known = ", ".join(product.name for product in products[:5])
            raise ValueError(f"exclude: no layer's output is called '{pattern}' (there are: {known}, ...)")
    if products and len(excluded) == len(products):
        raise ValueError("exclude: every layer that could be quantised is excluded")
    source = _Data(data, limit, batch, constants, preprocess)
    work = _Work(graph, options, source)
    products = work.measure(products, refused)
    if not products:
        raise ValueError(f"the model has no layer to quantise{_reasons(refused)}")
    layers = work.layers([product for product in products if product.name not in excluded])
    reports = [
        LayerReport(p.name, p.node.op, "excluded" if p.name in excluded else "", p.macs(work.statistics[p.x].shape))
        for p in products
    ]
    reports += [LayerReport(name, graph.producers()[name].op, why) for name, why in refused.items()]
    report = Report(reports, work.runs)
    work.finish(report, layers)
    if precision == "mixed":
        report.precision_rules = work.precision_rules(report)
    if output is not None:
        report.output = os.fspath(output)
        _native.write_file(report.output, report.data)
        if precision == "mixed":
            _native.write_file(precision_path(report.output), report.precision_rules.encode())
    return report


def precision_path(model: str) -> str:
    """Where the precision file of a model is: beside it."""
    return (model[: -len(".onnx")] if model.endswith(".onnx") else model) + ".precision.txt"


def _checked(
    activations: str,
    calibration: str,
    percentile: float,
    per_channel: bool,
    correct: bool,
    smooth: "Optional[float | str]",
    max_error: Optional[Tuple[str, float]],
    build: Optional[Mapping[str, Any]],
    progress: Optional[Callable[[str], None]],
) -> _Options:
    if activations not in ("uint8", "int8"):
        raise ValueError(f"activations: expected uint8 or int8, found '{activations}'")
    if calibration not in METHODS:
        raise ValueError(f"calibration: expected one of {', '.join(METHODS)}, found '{calibration}'")
    if not 50 < percentile <= 100:
        raise ValueError(f"percentile: expected more than 50 and at most 100, found {percentile}")
    if smooth not in (None, "auto") and not (isinstance(smooth, (int, float)) and 0 <= smooth <= 1):
        raise ValueError(f"smooth: expected a number from 0 to 1, 'auto' or None, found {smooth!r}")
    metric, bound = max_error if max_error is not None else ("relative", None)
    if metric not in METRICS:
        raise ValueError(f"max_error: expected one of {', '.join(METRICS)}, found '{metric}'")
    if bound is not None and not bound >= 0:
        raise ValueError(f"max_error: expected a bound of at least 0, found {bound}")
    tell = progress or (lambda _: None)
    return _Options(
        activations, calibration, percentile, per_channel, correct, smooth, metric, bound, "", dict(build or {}), tell
    )


def _reasons(refused: Mapping[str, str]) -> str:
    return "".join(f"; {name}: {why}" for name, why in list(refused.items())[:3])


def _read(model: Any) -> OnnxModel:
    source = _model_source.Source(model)
    if source.is_binary:
        raise ValueError("an aipu.bin is converted already; quantise the ONNX model")
    return OnnxModel(source.data, os.path.dirname(os.path.abspath(source.path)) if source.path else "")


class _Data:
    def __init__(self, data: Any, limit: Optional[int], batch: int, constants: Any, preprocess: Any) -> None:
        if not isinstance(data, (str, os.PathLike)) and iter(data) is data:
            data = list(data)  # it is read more than once
        self._data, self._limit, self._batch = data, limit, batch
        self._constants, self._preprocess = constants, preprocess

    def runs(self, specs: Sequence[TensorSpec]) -> Iterator[Run]:
        return _calibration.runs(
            self._data,
            specs,
            limit=self._limit,
            batch=self._batch,
            constants=self._constants,
            preprocess=self._preprocess,
        )


class _Work:
    def __init__(self, graph: OnnxModel, options: _Options, data: _Data) -> None:
        self._graph, self._options, self._source = graph, options, data
        self._bytes = graph.to_bytes()
        self.statistics: Dict[str, Statistics] = {}
        self._x: Dict[str, Linear] = {}
        self._smooth: Dict[str, np.ndarray] = {}
        self.runs = 0

    # ---- ranges

    def measure(self, products: List[Product], refused: Dict[str, str]) -> List[Product]:
        """Statistics of the products' inputs; returns the products of float32 ones."""
        options = self._options
        inputs = set(self._graph.input_names())
        wanted = list(dict.fromkeys(product.x for product in products if product.x not in inputs))
        options.tell(f"converting the model, {len(products)} layers to quantise")
        model = self._converted(self._bytes, wanted)
        dtypes = {spec.name: spec.dtype for spec in (*model.inputs, *model.outputs)}
        kept = [product for product in products if dtypes.get(product.x) == "float32"]
        refused.update({p.name: f"it computes with {dtypes.get(p.x)}" for p in products if p not in kept})
        for product in kept:
            self.statistics.setdefault(product.x, Statistics(product.x_axis))
        self._pass(model, "extrema", Statistics.add_extrema)
        empty = [p.name for p in kept if self.statistics[p.x].count == 0]
        if empty:
            raise ValueError(f"'{empty[0]}' has no elements on this data: it cannot be quantised")
        groups = groups_by_input(kept)
        self._smooth = smoothing(groups, self.statistics, options.smooth)
        for x, factor in self._smooth.items():
            self.statistics[x].scale = factor
        if options.calibration != "minmax":
            self._pass(model, "histograms", Statistics.add_histogram)
        for x, statistics in self.statistics.items():
            limits = choose(statistics, options.calibration, options.percentile)
            self._x[x] = Linear.of(limits, options.activations)
        return kept

    def _pass(self, model: Any, what: str, add: Callable[[Statistics, np.ndarray], None]) -> None:
        self.runs = 0
        computed = [name for name in self.statistics if name not in {spec.name for spec in model.inputs}]
        for run in self._source.runs(model.inputs):
            self.runs += 1
            self._options.tell(f"{what}: run {self.runs}")
            values = {**run.feed, **model.run(run.feed, computed)}
            for name, statistics in self.statistics.items():
                try:
                    add(statistics, values[name])
                except ValueError as error:
                    raise ValueError(f"value '{name}', data '{run.name}': {error}") from None

    def _converted(self, data: bytes, exposed: Sequence[str] = (), rules: str = "") -> Any:
        with _files.private_folder() as folder, _model.rules_file(rules) as rules_path:
            path = os.path.join(folder, "model.aipu.bin")
            _model.build(data, path, expose=list(exposed), precision_file=rules_path, **self._options.build)
            return _model.load(path)

    # ---- layers

    def layers(self, products: Sequence[Product]) -> List[QuantizedLayer]:
        """Integers of these products."""
        options = self._options
        return [
            quantized_layer(
                p, self.statistics[p.x], self._x[p.x], self._smooth.get(p.x), options.per_channel, options.correct
            )
            for p in products
        ]

    # ---- the model

    def finish(self, report: Report, layers: List[QuantizedLayer]) -> None:
        """Chooses what stays in float32, writes the model and measures it."""
        options = self._options
        kept: List[int] = []
        order: List[int] = []
        told = {layer.name: layer for layer in report.layers}
        reference = self._converted(self._bytes)
        if options.bound is not None:
            kept, order = self._choose(reference, layers, told)
        while True:
            chosen = [layer for number, layer in enumerate(layers) if number not in kept]
            if not chosen and not options.half:
                raise ValueError(f"no layer can have integers with an error ({options.metric}) of {options.bound:g}")
            report.data = self._written(chosen)
            error = self._error(reference, report.data)
            report.error = {metric: error.value(metric) for metric in METRICS}
            if options.bound is None or report.error[options.metric] <= options.bound:
                break
            # The residual sums of the model read integers too, which the switched one has not: a few more layers.
            more = [number for number in order if number not in kept][: max(1, len(layers) // 20)]
            options.tell(f"{options.metric} {report.error[options.metric]:.4g}: {len(more)} more in float32")
            kept += more
        report.is_bound = options.bound is not None
        report.classifies = all(len(spec.shape) == 2 for spec in reference.outputs if spec.dtype == "float32")
        if report.warning:
            self._measure_layers(reference, layers, told, _SENSITIVITY_RUNS // 2)
        for number in kept:
            told[layers[number].product.name].why = self._too_coarse()
        if options.half and kept:
            self._take_halves(reference, report, layers, kept, order)
        if all(layer.precision == "fp32" for layer in report.layers):
            raise ValueError(f"no layer can have fewer bits with an error ({options.metric}) of {options.bound:g}")

    def _take_halves(
        self, reference: Any, report: Report, layers: Sequence[QuantizedLayer], kept: List[int], order: Sequence[int]
    ) -> None:
        """Gives numbers of 16 bits to layers that integers are too coarse for. Their own error may break the bound:
        then the most sensitive ones stay in float32, or more layers leave the integers, whichever costs less.
        """
        options = self._options
        told = {layer.name: layer for layer in report.layers}
        by_number = [told[layer.product.name] for layer in layers]
        assert options.bound is not None

        def holds(halves: Sequence[int], full: Sequence[int] = ()) -> bool:
            options.tell(f"{options.half} in {len(halves)} layers, float32 in {len(full)}")
            for number, layer in enumerate(by_number):
                layer.half = options.half if number in halves else ""
                layer.why = self._too_coarse() if number in halves or number in full else ""
            report.data = self._written([layer for layer, one in zip(layers, by_number) if one.is_quantized])
            error = self._error(reference, report.data, self.precision_rules(report))
            report.error = {metric: error.value(metric) for metric in METRICS}
            return report.error[options.metric] <= options.bound

        if holds(kept):
            return
        sensitive = sorted(kept, key=lambda number: -(by_number[number].sensitivity or 0.0))
        number = fewest(len(kept), lambda count: holds(sensitive[count:], sensitive[:count]))
        choices: List[Tuple[Sequence[int], Sequence[int]]] = [(sensitive[number:], sensitive[:number])]
        more = [number for number in order if number not in kept]
        if more and holds([*kept, *more]):
            number = fewest(len(more), lambda count: holds([*kept, *more[:count]]))
            choices.append(([*kept, *more[:number]], []))

        def cost(choice: Tuple[Sequence[int], Sequence[int]]) -> int:
            """Beyond that of integers, in times of their multiplications."""
            halves, full = (sum(by_number[number].macs for number in numbers) for numbers in choice)
            return halves + 3 * full  # 16 bits take twice as long as integers, float32 four times

        holds(*min(choices, key=cost))

    def _too_coarse(self) -> str:
        return f"{self._options.metric} would be more than {self._options.bound:g} in int8"

    def precision_rules(self, report: Report) -> str:
        """The precision file of the model: of the layers without integers, those in float32, then all others."""
        lines = ["# Precisions of the layers that are not quantised; for aipugb --precision-file."]
        if any(layer.half for layer in report.layers):
            nodes = self._graph.producers()
            names = [nodes[layer.name].name or layer.name for layer in report.layers if layer.precision == "fp32"]
            lines += [f"{_pattern(name)} fp32" for name in names] + [f"* {self._options.half}"]
        return "\n".join(lines) + "\n"

    def _written(self, layers: Sequence[QuantizedLayer]) -> bytes:
        model = OnnxModel(self._bytes)
        write_qdq(model, layers)
        return model.to_bytes()

    def _measure_layers(
        self, reference: Any, layers: Sequence[QuantizedLayer], told: Mapping[str, LayerReport], count: int
    ) -> Tuple[Callable[[Run, np.ndarray], Outputs], List[Run], List[float]]:
        """Tells each layer what it alone costs, on so many runs. Returns how flags are run, all runs, these costs."""
        options = self._options
        switched = OnnxModel(self._bytes)
        flags_name = write_switched(switched, layers)
        options.tell(f"converting the model with {len(layers)} switches")
        model = self._converted(switched.to_bytes())
        outputs = _float_outputs(model)

        def run(one: Run, flags: np.ndarray) -> Outputs:
            return model.run({**one.feed, flags_name: flags}, outputs)

        runs = list(self._source.runs(reference.inputs))
        few = Measurement(run, runs[:count], len(layers))
        names = [layer.product.name for layer in layers]
        sensitivities = few.sensitivities(lambda n: options.tell(f"sensitivity of {names[n]} ({n + 1}/{len(names)})"))
        for name, sensitivity in zip(names, sensitivities):
            told[name].sensitivity = sensitivity
        return run, runs, sensitivities

    def _choose(
        self, reference: Any, layers: Sequence[QuantizedLayer], told: Mapping[str, LayerReport]
    ) -> Tuple[List[int], List[int]]:
        options = self._options
        run, runs, sensitivities = self._measure_layers(reference, layers, told, _SENSITIVITY_RUNS)
        costs = [told[layer.product.name].macs for layer in layers]
        assert options.bound is not None
        options.tell(f"looking for the layers that keep {options.metric} at {options.bound:g}")
        return cheapest(Measurement(run, runs, len(layers)), sensitivities, costs, options.metric, options.bound)

    def _error(self, reference: Any, data: bytes, rules: str = "") -> OutputError:
        self._options.tell("measuring the quantised model")
        model = self._converted(data, rules=rules)
        outputs = _float_outputs(reference)
        error = OutputError()
        for run in self._source.runs(reference.inputs):
            error.add(reference.run(run.feed, outputs), model.run(run.feed, outputs))
        return error


def _pattern(name: str) -> str:
    """A name as a word of a precision file."""
    return re.sub(r"\s|^#", "*", name)


def _float_outputs(model: Any) -> List[str]:
    return [spec.name for spec in model.outputs if spec.dtype in ("float32", "float16", "float64")]
