"""Runs random graphs here and compares with what ONNX Runtime found: ``check.py FIRST COUNT [options]``.

Prints a line of JSON: graphs and nodes; graphs at which ONNX Runtime crashed (theirs) and at which we did; what was
refused, and what differs (with the nodes that differ when they are given the operands that were found here); how often
each operator came, and how often ONNX Runtime refused it.
"""

import argparse
import collections
import json
import os
import pathlib

import aipu
import generator
import numpy as np
import onnx
from rules import RULES


def drawn(seed, prefix):
    part = generator.Generator(seed, prefix)
    with np.errstate(all="ignore"):
        return part.draw(RULES)


def run(model, feed, options, every):
    """What the model gives here."""
    path = "random.aipu.bin"
    aipu.build(model, path, target=options.target, disabled_passes=options.disabled if not every else ())
    return aipu.load(path, backend=options.backend).run(feed)


def shown(array):
    return "_" if array is None else f"{array.dtype}{list(array.shape)}"


def suspects(parts, options):
    """Nodes whose results differ although they are given the operands that were found here: no rounding that grew."""
    model, feed, _ = generator.model_of(parts, every=True)
    try:
        found = {**feed, **run(model, feed, options, every=True)}
    except (RuntimeError, ValueError) as error:
        return [f"with all values as outputs: {error}"]
    wrong = []
    for part in parts:
        for node in part.nodes:
            taken = {name: found[name] for name in node.input if name in found}
            known = {name: part.constants[name] for name in node.input if name in part.constants}
            try:
                expected = generator.reference(part.alone(node, taken, known), taken)
            except Exception:  # ONNX Runtime refuses what has other shapes, by errors of its own
                expected = [part.outputs[name] for name in node.output]
            for name, array in zip(node.output, expected):
                text = generator.difference(found[name], array)
                if text:
                    shapes = [shown(found.get(name, known.get(name))) for name in node.input]
                    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
                    wrong.append(f"{node.op_type}({', '.join(shapes)}) {attributes} {name}: {text}")
    return wrong


def checked(parts, options):
    """What is wrong, and how wrong that is: refused or differs; empty if nothing is."""
    model, feed, expected = generator.model_of(parts)
    try:
        found = run(model, feed, options, every=False)
    except (RuntimeError, ValueError) as error:
        return "refused", str(error)
    wrong = [
        f"{name}: {text}" for name, array in expected.items() if (text := generator.difference(found[name], array))
    ]
    return ("differs", {"outputs": wrong, "nodes": suspects(parts, options)}) if wrong else ("", "")


def keep(folder, first, parts):
    model, feed, expected = generator.model_of(parts)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / f"{first}.onnx")
    np.savez(folder / f"{first}.npz", **feed, **expected)


def serve(firsts, options, tell):
    """Tells of each model: that it is drawn, that it is run, what came of it."""
    for first in firsts:
        tell(["draw", first])
        seeds = range(first, min(first + options.together, options.first + options.count))
        parts = [part for part in (drawn(seed, f"g{seed}_") for seed in seeds) if part.nodes]
        tell(["run", first])
        kind, text = checked(parts, options) if parts else ("", "")
        if kind and options.keep:
            keep(pathlib.Path(options.keep), first, parts)
        operators = collections.Counter(node.op_type for part in parts for node in part.nodes)
        left_out = sum((part.refused for part in parts), collections.Counter())
        tell(["done", first, len(parts), operators, left_out, kind, text])


def in_child(firsts, options):
    """What serve() tells, by a process of its own, which ends with what either side does to it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with open(writer, "w", buffering=1) as lines:
            serve(firsts, options, lambda told: lines.write(json.dumps(told) + "\n"))
        os._exit(0)
    os.close(writer)
    with open(reader) as lines:
        yield from map(json.loads, lines)
    os.waitpid(child, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--together", type=int, default=1, help="graphs in one model")
    parser.add_argument("--backend", default="interp")
    parser.add_argument("--target", default="host-baseline")
    parser.add_argument("--disable", dest="disabled", action="append", default=[], help="a pass")
    parser.add_argument("--keep", help="folder for the models that differ or are refused")
    options = parser.parse_args()
    totals = {"operators": collections.Counter(), "left out": collections.Counter()}
    told = {"graphs": 0, "nodes": 0, "theirs": [], "crashed": [], "refused": [], "differs": []}
    left = list(range(options.first, options.first + options.count, options.together))
    while left:
        state = None
        for state in in_child(left, options):
            if state[0] != "done":
                continue
            left.remove(state[1])
            told["graphs"] += state[2]
            told["nodes"] += sum(state[3].values())
            totals["operators"].update(state[3])
            totals["left out"].update(state[4])
            if state[5]:
                told[state[5]].append([state[1], state[6]])
        if state is None or state[0] != "done":  # the process has died
            first = state[1] if state else left[0]
            told["theirs" if state and state[0] == "draw" else "crashed"].append(first)
            left.remove(first)
    print(json.dumps({**told, **totals}))


main()
