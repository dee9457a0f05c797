#!/usr/bin/env python3
"""Whether lists or ladders of three or more names of ops or intrinsics stand anywhere but in their own rows.

A fact about an op or an intrinsic belongs into its row (graph/ops, codegen/intrinsics). Not looked at: what a plugin
claims (kernels/plugins), the rows that spell intrinsics in C, and rewrite passes of the graph, which name the ops of
their own patterns.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OP = re.compile(r'(?:def\.name = |_op\(|elementwise\(|one_operand\(|normalization\()"((?:[\w.]+::)?[A-Z]\w+)"')
INTRINSIC = re.compile(r'(?:\.name = |add\(|AIPU_UNARY\()"(\w+)"')
# A statement with the braces of its initializers, or a condition or whatever else stands between two of these marks.
STATEMENT = re.compile(r"[^;{}]*(?:\{[^{};]*\}[^;{}]*)*;|[^;{}]+")
LITERAL = re.compile(r'"((?:[\w.]+::)?\w+)"')


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
            known = intrinsics if file.startswith("graph/passes/") else ops | intrinsics
            for line, listed in tables(path, known):
                print(f"{file}:{line}: {', '.join(listed)}: a fact of these belongs into their rows")
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
