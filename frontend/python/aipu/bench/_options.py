"""Words of the command lines of ``python -m aipu.bench``, and what they have in common."""

from __future__ import annotations

import argparse
from typing import Any, Dict, List, Tuple

from .._arguments import shape
from ._data import IMAGES, Image
from ._scenario import SCENARIOS, Setting


def value_range(text: str) -> Tuple[str, Tuple[float, float]]:
    """NAME=LOW:HIGH."""
    name, _, limits = text.rpartition("=")
    low, colon, high = limits.partition(":")
    try:
        if not name or not colon:
            raise ValueError
        return name, (float(low), float(high))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected NAME=LOW:HIGH, found '{text}'") from None


def numbers(text: str) -> List[int]:
    """1,2 or 1..32, which is 1,2,4,8,16,32."""
    try:
        first, dots, last = text.partition("..")
        if not dots:
            return [int(word) for word in text.split(",")]
        found = [int(first)]
        while 0 < found[-1] * 2 <= int(last):
            found.append(found[-1] * 2)
        return found
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers such as 1,2 or 1..32, found '{text}'") from None


_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0}


def duration(text: str) -> float:
    """10ms, 500us, 2s or 2."""
    number = text.rstrip("mus")
    unit = text[len(number) :]
    try:
        value = float(number) * _UNITS[unit]
        if not 0 <= value < 1e7:
            raise ValueError
        return value
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(f"expected a time such as 10ms or 2s, found '{text}'") from None


def image(text: str) -> Image:
    """A preset with changes."""
    try:
        return Image.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """What the model runs on."""
    group = parser.add_argument_group("inputs")
    group.add_argument("--shape", type=shape, action="append", default=[], metavar="NAME=1x3x224x224")
    group.add_argument(
        "--range", type=value_range, action="append", default=[], metavar="NAME=LOW:HIGH", help="of random inputs"
    )
    group.add_argument(
        "--data", metavar="PATH", help="a data set: folder, .npz, list, table (as aipu.batch), ONNX's test data"
    )
    group.add_argument(
        "--image",
        type=image,
        metavar="PRESET",
        help=f"--data are images, made ready by {', '.join(IMAGES)}; changed by ,size=299,layout=nhwc,...",
    )
    group.add_argument("--raw", action="store_true", help="--data are files with the elements alone")
    group.add_argument("--samples", type=int, default=256, metavar="N", help="of --data that are held in memory")
    group.add_argument("--seed", type=int, default=1, metavar="N", help="of random inputs and arrivals")


def add_scenario(parser: argparse.ArgumentParser) -> None:
    """What arrives when."""
    group = parser.add_argument_group("scenario (of MLPerf Inference)")
    group.add_argument(
        "--scenario",
        choices=list(SCENARIOS),
        default="single-stream",
        help="; ".join(f"{name}: {scenario.what}" for name, scenario in SCENARIOS.items()),
    )
    group.add_argument("--rate", type=float, default=0.0, metavar="R", help="queries per second of the server scenario")
    group.add_argument("--find-peak", action="store_true", help="look for the highest rate that keeps --latency")
    group.add_argument("--latency", type=duration, metavar="10ms", help="that --percentile of the queries have to keep")
    group.add_argument("--percentile", type=float, default=0.0, metavar="P", help="default: the scenario's, 90 or 99")
    group.add_argument("--batch", type=int, metavar="N", help="samples of a run; of a server: at most so many")
    group.add_argument(
        "--delay", type=duration, default=0.0, metavar="2ms", help="a server's first query waits so long for others"
    )
    group.add_argument("--sessions", type=int, default=1, metavar="N", help="runs side by side over the mapped model")


def bench_options(options: argparse.Namespace) -> Dict[str, Any]:
    """Those of :class:`_benchmark.Bench` that the command line has."""
    return {
        "shapes": dict(options.shape),
        "ranges": dict(options.range),
        "data": options.data,
        "image": options.image,
        "raw": options.raw,
        "most_samples": options.samples,
        "seed": options.seed,
        "backend": options.backend,
        "entry": options.entry,
    }


def setting_of(options: argparse.Namespace, seconds: float) -> Setting:
    """What is asked for."""
    return Setting(
        scenario=options.scenario,
        seconds=seconds,
        delay=options.delay,
        rate=options.rate,
        percentile=options.percentile,
        bound=options.latency,
        seed=options.seed,
    )
