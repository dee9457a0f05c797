#!/usr/bin/env python3
"""Whether lists or ladders of three or more names of ops or intrinsics stand anywhere but in their own rows.

A fact about an op or an intrinsic belongs into its row (graph/ops, codegen/intrinsics). Not looked at: what a plugin
claims (kernels/plugins), the rows that spell intrinsics in C, and rewrite passes of the graph, which name the ops of
their own patterns. KNOWN are the places that are left: there may be fewer, and then the number here goes down.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OP = re.compile(r'(?:def\.name = |_op\(|elementwise\(|one_operand\(|normalization\()"((?:[\w.]+::)?[A-Z]\w+)"')
INTRINSIC = re.compile(r'(?:\.name = |add\(|AIPU_UNARY\()"(\w+)"')
# A statement, with the braces of its initializers.
STATEMENT = re.compile(r"[^;{}]*(?:\{[^{};]*\}[^;{}]*)*;")
LITERAL = re.compile(r'"((?:[\w.]+::)?\w+)"')
KNOWN = {
    "codegen/lower/split_intrinsics.cpp": 1,
    "codegen/lower/split_rearrangements.cpp": 2,
    "kernels/dsl/call_rules.cpp": 3,
    "kernels/dsl/compile_intrinsics.cpp": 2,
    "kernels/dsl/compiler.cpp": 1,
    "kernels/parts/elementwise_expression.cpp": 1,
    "frontend/python/eager_call.cpp": 1,
    "frontend/python/environment.cpp": 1,
}


def names(folder, pattern):
    return {name for path in (ROOT / folder).glob("*.cpp") for name in pattern.findall(path.read_text("utf-8"))}


def tables(path, known):
    """Line and names of each statement that lists three names or more."""
    text = re.sub(r"//[^\n]*", "", path.read_text("utf-8"))
    for statement in STATEMENT.finditer(text):
        found = sorted({name for name in LITERAL.findall(statement.group(0)) if name in known})
        if len(found) >= 3:
            yield text.count("\n", 0, statement.end()) + 1, found


def main():
    ops, intrinsics = names("graph/ops", OP), names("codegen/intrinsics", INTRINSIC)
    if len(ops) < 100 or len(intrinsics) < 100:
        print(f"only {len(ops)} ops and {len(intrinsics)} intrinsics are found: have their rows another form now?")
        return 1
    status = 0
    for folder in ("graph/passes", "graph/partition", "gbuilder", "codegen", "kernels", "frontend/python", "runtime"):
        for path in sorted((ROOT / folder).rglob("*.cpp")):
            file = path.relative_to(ROOT).as_posix()
            if file.startswith(("kernels/plugins/", "codegen/intrinsics/")):
                continue
            found = list(tables(path, intrinsics if file.startswith("graph/passes/") else ops | intrinsics))
            allowed = KNOWN.get(file, 0)
            if len(found) > allowed:
                for line, listed in found:
                    print(f"{file}:{line}: {', '.join(listed)}: a fact of these belongs into their rows")
                status = 1
            elif len(found) < allowed:
                print(
                    f"{file}: {len(found)} lists of names are left; lower its number in {pathlib.Path(__file__).name}"
                )
                status = 1
    for file in KNOWN:
        if not (ROOT / file).exists():
            print(f"{file} is not there any more; take it off the list in {pathlib.Path(__file__).name}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
