"""Data sets to measure with: what :mod:`aipu.batch` reads, ONNX's test-data folders, images by a preset, raw files."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .. import _test_data
from .._arrays import TensorSpec
from .._stored_type import numpy_dtype
from ..batch._samples import Sample, prepare
from ..batch._sources import Files, Source, Values, source_of


@dataclasses.dataclass(frozen=True)
class Image:
    """How an image becomes an input: resized until the shorter side is ``size / crop`` pixels (``crop`` 0: both sides
    to ``size``), cut to ``size`` in the middle, as RGB divided by ``scale``, less ``mean``, over ``std``; ``layout``
    ``"nchw"`` or ``"nhwc"``. For an input of uint8 the bytes stay as they are.
    """

    size: int = 224
    crop: float = 0.875
    scale: float = 255.0
    mean: Tuple[float, ...] = (0.485, 0.456, 0.406)
    std: Tuple[float, ...] = (0.229, 0.224, 0.225)
    layout: str = "nchw"

    @staticmethod
    def parse(text: str) -> "Image":
        """``"imagenet"`` or another of :data:`IMAGES`, changed by ``"imagenet,size=299,mean=0.5:0.5:0.5"``.

        ValueError for what is neither.
        """
        name, *changes = text.split(",")
        if name not in IMAGES:
            raise ValueError(f"'{name}' is no preset of images (there are: {', '.join(IMAGES)})")
        values: Dict[str, Any] = {}
        for change in changes:
            key, equals, value = change.partition("=")
            kinds = {field.name: getattr(IMAGES[name], field.name) for field in dataclasses.fields(Image)}
            if key not in kinds or not equals:
                raise ValueError(f"'{change}': expected one of {', '.join(kinds)}, such as size=299")
            try:
                if isinstance(kinds[key], tuple):
                    values[key] = tuple(float(part) for part in value.split(":"))
                else:
                    values[key] = type(kinds[key])(value)
            except ValueError:
                raise ValueError(f"'{change}': '{value}' is no {type(kinds[key]).__name__}") from None
        image = dataclasses.replace(IMAGES[name], **values)
        if image.layout not in ("nchw", "nhwc") or len(image.mean) != 3 or len(image.std) != 3 or image.size < 1:
            raise ValueError(f"'{text}': expected a layout nchw or nhwc, three means and stds, and a size above 0")
        return image

    def load(self, path: str, dtype: str) -> np.ndarray:
        """The image of a file as an item of a batch. ImportError without Pillow; OSError for what is no image."""
        try:
            import PIL.Image
        except ImportError as error:
            raise ImportError("images need the package Pillow: pip install 'aipu[image]'") from error
        with PIL.Image.open(path) as opened:
            image = opened.convert("RGB")
        width, height = image.size
        if self.crop:
            scale = self.size / self.crop / min(width, height)
            width, height = max(self.size, round(width * scale)), max(self.size, round(height * scale))
            image = image.resize((width, height), PIL.Image.Resampling.BILINEAR)
            left, top = (width - self.size) // 2, (height - self.size) // 2
            image = image.crop((left, top, left + self.size, top + self.size))
        else:
            image = image.resize((self.size, self.size), PIL.Image.Resampling.BILINEAR)
        array = np.asarray(image)
        if dtype != "uint8":
            floats = (array.astype(np.float32) / np.float32(self.scale) - np.float32(self.mean)) / np.float32(self.std)
            array = floats.astype(numpy_dtype(dtype))
        return np.ascontiguousarray(array.transpose(2, 0, 1) if self.layout == "nchw" else array)


# By name: torchvision's for networks of ImageNet, 0 to 1, -1 to 1 (as TensorFlow's have it), and the values 0 to 255.
IMAGES: Dict[str, Image] = {
    "imagenet": Image(),
    "unit": Image(crop=0, mean=(0, 0, 0), std=(1, 1, 1)),
    "symmetric": Image(crop=0, scale=127.5, mean=(1, 1, 1), std=(1, 1, 1), layout="nhwc"),
    "bytes": Image(crop=0, scale=1, mean=(0, 0, 0), std=(1, 1, 1)),
}


class Data(NamedTuple):
    """A source of items, what makes arrays of each, and the outputs that the data set has for them, if it has."""

    source: Source
    preprocess: Optional[Callable[[Any], Any]]
    expected: List[Dict[str, np.ndarray]]


def _tensors(folder: str, kind: str, specs: Sequence[TensorSpec]) -> Dict[str, np.ndarray]:
    """Those of a test-data set by name; by place where a tensor has none."""
    return {name or spec.name: array for spec, name, array in _test_data.tensors(folder, kind, specs)}


def _raw_loader(spec: TensorSpec, shape: Sequence[Any]) -> Callable[[str], np.ndarray]:
    if any(not isinstance(extent, int) for extent in shape):
        wanted = "x".join(str(extent) if isinstance(extent, int) else "1" for extent in shape)
        raise ValueError(f"raw files have no shape: give --shape {spec.name}={wanted}")
    dtype = numpy_dtype(spec.dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize

    def load(path: str) -> np.ndarray:
        if os.path.getsize(path) != size:
            raise ValueError(f"{os.path.getsize(path)} bytes, expected {size} for {spec.dtype}{list(shape)}")
        return np.fromfile(path, dtype).reshape(tuple(shape))

    return load


def data_of(
    where: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec] = (),
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    image: Optional[Image] = None,
    raw: bool = False,
) -> Data:
    """What ``where`` means: ONNX's test data, images (with ``image``), files of elements alone (with ``raw``), or what
    :func:`aipu.batch.run` takes. FileNotFoundError, ValueError.
    """
    if not os.path.exists(where):
        raise FileNotFoundError(f"there is no '{where}'")
    if image is None and not raw and os.path.isdir(where):
        sets = _test_data.test_sets(where)
        if sets:
            values = [_tensors(path, "input", inputs) for path in sets]
            return Data(Values(values, False), None, [_tensors(path, "output", outputs) for path in sets])
    if image is None and not raw:
        return Data(source_of(where, [spec.name for spec in inputs], False), None, [])
    if len(inputs) != 1:
        raise ValueError(f"images and raw files are one input each; the model takes {len(inputs)}")
    spec = inputs[0]
    loader: Callable[[Any], Any]
    if image is not None:
        chosen = image
        loader = lambda path: chosen.load(path, spec.dtype)  # noqa: E731
    else:
        loader = _raw_loader(spec, (shapes or {}).get(spec.name, spec.shape))
    single = os.path.isfile(where) and not where.endswith(".txt")
    source = (
        Files([os.path.basename(where)], os.path.dirname(where), True, "list")
        if single
        else source_of(where, [spec.name], True)
    )
    return Data(source, loader, [])


def load_all(data: Data, inputs: Sequence[TensorSpec], most: int) -> List[Sample]:
    """The first ``most`` items, loaded; ValueError that names the one that is broken."""
    found = []
    for item in data.source.items(0):
        if len(found) == most:
            break
        try:
            found.append(prepare(item, data.preprocess, inputs, data.source.is_table and data.preprocess is None))
        except (OSError, ValueError) as error:
            raise ValueError(f"{item.name}: {error}") from None
    if not found:
        raise ValueError("the data set has no items")
    return found
