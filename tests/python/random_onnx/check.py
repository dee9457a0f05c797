"""Runs random graphs here and compares with what ONNX Runtime found: ``check.py FIRST COUNT [options]``.

Each graph runs with all passes and with as few as it converts with. Several graphs in one model (``--together``) make
compiling affordable; what is refused on its own is left out of such a model, and counted.

Prints a line of JSON: graphs and nodes; graphs at which ONNX Runtime crashed (theirs) and at which we did; what was
refused, and what differs (with the nodes that differ when they are given the operands that were found here); which
passes were needed; which operators and types came, which never (coverage.py), and what ONNX Runtime refused.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import pickle
import subprocess
import tempfile

import aipu
import generator
import numpy as np
import onnx
from coverage import coverage, made_by
from reference import difference
from rules import RULES

SOURCE = pathlib.Path(__file__).parents[3]
BUILD = pathlib.Path(os.environ.get("AIPU_BUILD_DIR", SOURCE / "build/release"))
# Passes without which few graphs convert, and those that are tried where a graph does not convert without.
FEWEST = ("lower_stored_types", "resolve_loops", "split_vectors", "resolve_shape_operands", "assign_layout")
MORE = (("decompose",), ("inline_control_flow",), ("fold_data", "fold_constants", "integer_arithmetic"),
        ("simplify_algebra",))  # fmt: skip


def pass_names():
    done = subprocess.run([BUILD / "bin/aipugb", "--print-pipeline"], capture_output=True, text=True, check=True)
    sections = done.stdout.split("lowering passes, per kernel\n")
    lines = [*sections[0].splitlines()[1:], *sections[1].split("\nwhen planning\n")[0].splitlines()]
    return dict.fromkeys(line.split()[0] for line in lines)


def drawn(seed):
    part = generator.Generator(seed, f"g{seed}_")
    with np.errstate(all="ignore"):
        return part.draw(RULES)


class Checker:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.passes = list(pass_names())
        self.needed = collections.Counter()

    # ---- conversion

    def build(self, model, disabled):
        path = os.path.join(self.folder, "random.aipu.bin")
        aipu.build(model, path, target=self.options.target, disabled_passes=[*disabled, *self.options.disabled])
        return path

    def run(self, model, feed, disabled):
        """What the model gives here."""
        return aipu.load(self.build(model, disabled), backend=self.options.backend).run(feed)

    @contextlib.contextmanager
    def no_compiler(self):
        """Conversion as it is, but for the C compiler."""
        stub = {"AIPU_CC": str(SOURCE / "tests/fuzz/stub_cc.sh"), "AIPU_CACHE_DIR": self.folder}
        before = {name: os.environ.get(name) for name in stub}
        os.environ.update(stub)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def refusal(self, part, disabled=()):
        """Why a graph does not convert on its own; None if it does."""
        model, _, _ = generator.model_of([part])
        try:
            with self.no_compiler():
                self.build(model, disabled)
        except (RuntimeError, ValueError) as error:
            return str(error)
        return None

    def with_few_passes(self):
        """Lists of the passes that are left out, the longest first."""
        kept = set(FEWEST)
        for more in ((), *MORE):
            kept.update(more)
            yield [name for name in self.passes if name not in kept]

    # ---- results

    def suspects(self, part, disabled):
        """Nodes whose results differ although they are given the operands found here: no rounding that grew."""
        model, feed, _ = generator.model_of([part], every=True)
        try:
            found = {**feed, **self.run(model, feed, disabled)}
        except (RuntimeError, ValueError) as error:
            return [f"with all values as outputs: {error}"]
        wrong = []
        for group in part.groups:
            taken = {name: found[name] for name in group.inputs if name in found}
            known = {name: part.constants[name] for name in group.inputs if name in part.constants}
            try:
                expected = part.reference(part.alone(group.protos, taken, known), taken)
            except Exception:  # ONNX Runtime refuses what has other shapes, by errors of its own
                expected = [part.outputs[name] for name in group.outputs]
            for name, array in zip(group.outputs, expected):
                text = difference(found[name], array)
                if text:
                    wrong.append(f"{described(group, {**known, **found})} {name}: {text}")
        return wrong

    def compare(self, parts, disabled, mode):
        """What is wrong, by graph."""
        model, feed, expected = generator.model_of(parts)
        try:
            path = self.build(model, disabled)
        except (RuntimeError, ValueError) as error:
            return [["refused", parts[0].seed, mode, str(error)]]
        try:
            found = aipu.load(path, backend=self.options.backend).run(feed)
        except (RuntimeError, ValueError) as error:
            return [["differs", parts[0].seed, mode, {"outputs": [str(error)], "nodes": []}]]
        wrong = []
        for part in parts:
            names = [name for name in expected if name.startswith(part.prefix)]
            told = {name: difference(found[name], expected[name], name in part.coarse) for name in names}
            texts = [f"{name}: {text}" for name, text in told.items() if text]
            if texts:
                told = {"outputs": texts, "nodes": self.suspects(part, disabled)}
                wrong.append(["differs", part.seed, mode, told])
        return wrong

    def check(self, parts):
        """All that is wrong with the graphs as one model: [kind, seed, passes, text], and which of them it had."""
        wrong, fit = [], parts
        if len(parts) > 1:
            errors = {part: self.refusal(part) for part in parts}
            wrong += [["refused", part.seed, "all", error] for part, error in errors.items() if error]
            fit = [part for part in parts if not errors[part]]
        if not fit:
            return wrong, fit
        if "all" in self.options.passes:
            wrong += self.compare(fit, (), "all")
        if "fewest" in self.options.passes and (len(parts) > 1 or not any(kind == "refused" for kind, *_ in wrong)):
            wrong += self.check_with_fewest(fit)
        return wrong, fit

    def check_with_fewest(self, parts):
        if len(parts) == 1:
            return self.check_alone_with_fewest(parts[0])
        wrong, by_passes = [], collections.defaultdict(list)
        for part in parts:
            for disabled in self.with_few_passes():
                error = self.refusal(part, disabled)
                if not error:
                    by_passes[tuple(disabled)].append(part)
                    break
            if error:
                wrong.append(["refused", part.seed, "fewest", error])
        for disabled, together in by_passes.items():
            self.needed.update({name: len(together) for name in self.passes if name not in disabled})
            wrong += self.compare(together, disabled, "fewest")
        return wrong

    def check_alone_with_fewest(self, part):
        for disabled in self.with_few_passes():
            wrong = self.compare([part], disabled, "fewest")
            if not wrong or wrong[0][0] != "refused":
                self.needed.update(name for name in self.passes if name not in disabled)
                break
        return wrong

    def keep(self, part):
        folder = pathlib.Path(self.options.keep)
        folder.mkdir(parents=True, exist_ok=True)
        model, feed, expected = generator.model_of([part])
        onnx.save(model, folder / f"{part.seed}.onnx")
        (folder / f"{part.seed}.pickle").write_bytes(pickle.dumps((feed, expected)))


def described(group, values):
    texts = []
    for proto in group.protos:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute if not a.HasField("g")}
        texts.append(f"{proto.op_type}({', '.join(shown(values.get(name)) for name in proto.input)}) {attributes}")
    return " > ".join(texts)


def shown(value):
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else "_"


def batches(options):
    """Seeds of each model: of one opset."""
    end = options.first + options.count
    first = options.first
    while first < end:
        block = (first // generator.SEEDS_PER_OPSET + 1) * generator.SEEDS_PER_OPSET
        last = min(first + options.together, end, block)
        yield range(first, last)
        first = last


def serve(left, options, tell):
    """Tells of each model: that it is drawn, that it is run, what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        checker = Checker(options, folder)
        for seeds in left:
            tell({"draw": seeds[0]})
            parts = [part for part in map(drawn, seeds) if part.groups]
            tell({"run": seeds[0]})
            checker.needed.clear()
            wrong, fit = checker.check(parts)
            if options.keep:
                seen = {seed for _, seed, _, _ in wrong}
                for part in parts:
                    if part.seed in seen:
                        checker.keep(part)
            groups = [group for part in fit for group in part.groups]
            tell({
                "done": seeds[0], "wrong": wrong, "graphs": len(fit), "needed": checker.needed,
                "nodes": sum(len(group.protos) for group in groups),
                "made": sum((made_by(group) for group in groups), collections.Counter()),
                "left out": sum((part.refused for part in parts), collections.Counter()),
            })  # fmt: skip


def in_child(left, options):
    """What serve() tells, by a process of its own, which ends with what either side does to it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with open(writer, "w", buffering=1) as lines:
            serve(left, options, lambda told: lines.write(json.dumps(told) + "\n"))
        os._exit(0)
    os.close(writer)
    with open(reader) as lines:
        yield from map(json.loads, lines)
    os.waitpid(child, 0)


def checked(options):
    counters = {name: collections.Counter() for name in ("made", "needed", "left out")}
    told = {"graphs": 0, "nodes": 0, "theirs": [], "crashed": [], "refused": [], "differs": []}
    left = list(batches(options))
    while left:
        state = {}
        for state in in_child(left, options):
            if "done" not in state:
                continue
            left.pop(0)
            for name in ("graphs", "nodes"):
                told[name] += state[name]
            for name, counter in counters.items():
                counter.update(state[name])
            for kind, *what in state["wrong"]:
                told[kind].append(what)
        if "done" not in state:  # the process has died
            told["theirs" if "draw" in state else "crashed"].append(left.pop(0)[0])
    return {**told, "coverage": coverage(counters.pop("made")), **counters}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--together", type=int, default=1, help="graphs in one model")
    parser.add_argument("--backend", default="interp", help="native, x2, interp")
    parser.add_argument("--target", default="host-baseline")
    parser.add_argument("--passes", nargs="+", default=["all", "fewest"], choices=["all", "fewest"])
    parser.add_argument("--disable", dest="disabled", action="append", default=[], help="a pass")
    parser.add_argument("--keep", help="folder for the models that differ or are refused")
    print(json.dumps(checked(parser.parse_args())))


main()
