"""Ensembles of trees beside ONNX Runtime, in alternating turns.

    python3 tests/bench/compare/trees.py [--build build/release] [--threads 1 2] [--rows 1 1000] [FILE.onnx ...]

Files are models with one float32 input [N, C]; without any, random ensembles are made, of the sizes that LightGBM,
XGBoost and random forests have by default. Needs ONNX Runtime; inputs and outputs are bound once, on both sides. A
ratio is ONNX Runtime's time over ours, the median of the turns.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from aipu_runtime import Library, Session
from sides import OnnxRuntimeSide
from turns import relative_error, take_turns

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from onnx_text import node, write_model

COLUMNS = 30
# trees, leaves of each, targets, whether nodes say where missing values go
SIZES = {
    "lightgbm": (100, 31, 1, False),
    "lightgbm_nan": (100, 31, 1, True),
    "xgboost": (300, 50, 3, False),
    "forest": (100, 600, 1, False),
    "small": (10, 16, 1, False),
}


def ensemble(trees: int, leaves: int, targets: int, missing: bool) -> dict[str, list]:
    """Trees that are grown by splitting a random leaf; `missing`: half of the branches take NaN for true."""
    random = np.random.default_rng(0)
    nodes = {"treeids": [], "nodeids": [], "featureids": [], "modes": [], "values": []}
    nodes |= {"truenodeids": [], "falsenodeids": []}
    if missing:
        nodes["missing_value_tracks_true"] = []
    weights = {"treeids": [], "nodeids": [], "ids": [], "weights": []}
    for tree in range(trees):
        children, open_leaves = [(0, 0)], [0]
        while len(open_leaves) < leaves:
            at = open_leaves.pop(int(random.integers(len(open_leaves))))
            children[at] = (len(children), len(children) + 1)
            open_leaves += children[at]
            children += [(0, 0), (0, 0)]
        for number, (yes, no) in enumerate(children):
            feature, threshold = int(random.integers(COLUMNS)), float(random.standard_normal())
            row = [tree, number, feature, "BRANCH_LEQ" if yes else "LEAF", threshold, yes, no, number % 2]
            for values, value in zip(nodes.values(), row):
                values.append(value)
            if not yes:
                for values, value in zip(weights.values(), [tree, number, tree % targets, threshold]):
                    values.append(value)
    attributes = {f"nodes_{name}": values for name, values in nodes.items()}
    return attributes | {f"target_{name}": values for name, values in weights.items()} | {"n_targets": targets}


def write_ensembles(folder: Path) -> list[Path]:
    files = []
    for name, (trees, leaves, targets, missing) in SIZES.items():
        attributes = ensemble(trees, leaves, targets, missing)
        regressor = node("TreeEnsembleRegressor", ["x"], ["y"], "ai.onnx.ml", **attributes)
        files.append(folder / f"{name}.onnx")
        write_model(files[-1], [regressor], [("x", "float32", ["N", COLUMNS])], [("y", "float32", ["N", targets])])
    return files


def compare(library: Library, converter: Path, file: Path, threads: int, counts: list[int], turns: int) -> None:
    compiled = file.with_suffix(".aipu.bin")
    subprocess.run([converter, file, "-o", compiled], check=True, stdout=subprocess.DEVNULL)
    random = np.random.default_rng(1)
    for rows in counts:
        ours, theirs = Session(library, compiled, threads), OnnxRuntimeSide(file, threads)
        (name, extents, _), *_ = theirs.signature()
        inputs = {name: random.standard_normal((rows, extents[1])).astype(np.float32)}
        for side in (ours, theirs):
            side.bind(inputs)
            side.run()
        error = relative_error(ours.outputs()[-1:], theirs.outputs()[-1:])
        taken = take_turns([ours, theirs], turns, 0.05)
        us = [taken.median_ms(side) * 1e3 for side in (ours, theirs)]
        print(
            f"{file.stem:12} {threads} threads {rows:6} rows: {us[0]:10.1f} us, ONNX Runtime {us[1]:10.1f} us, "
            f"ratio {taken.ratio(theirs, ours).median:.2f}, error {error:.0e}",
            flush=True,
        )
        ours.close()
        theirs.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 1000])
    parser.add_argument("--turns", type=int, default=9)
    arguments = parser.parse_args()
    library = Library(arguments.build / "lib" / "libaipu_runtime.so")
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(shutil.copy(file, folder)) for file in arguments.files] or write_ensembles(Path(folder))
        for file in files:
            for threads in arguments.threads:
                compare(library, arguments.build / "bin" / "aipugb", file, threads, arguments.rows, arguments.turns)


if __name__ == "__main__":
    main()
