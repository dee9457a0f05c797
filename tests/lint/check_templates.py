#!/usr/bin/env python3
"""What is asked of kernel templates (kernels/templates): few parameters, records where they belong together; one way to
share work out among TECs.
"""

import ast
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_PARAMETERS = 14  # as written: a record is one
SHARING = "sharing.py"


def is_decorated(function, names):
    """Whether a function has a decorator S.<one of names>."""
    targets = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    return any(isinstance(t, ast.Attribute) and t.attr in names for t in targets)


def complaints(path):
    """Line and text of each."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and is_decorated(node, ("prim_func", "macro")):
            count = len(node.args.args)
            if count > MOST_PARAMETERS:
                yield (
                    node.lineno,
                    f'"{node.name}" has {count} parameters, at most {MOST_PARAMETERS}: group them in records',
                )
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "S.ceildiv" and path.name != SHARING:
            if ast.unparse(node.args[-1]) == "S.get_local_size()":
                yield node.lineno, f"the share of a TEC is worked out: use own_share() of {SHARING}"


def main():
    paths = sorted((ROOT / "kernels" / "templates").glob("*.py"))
    if not paths:
        print("no templates are found: are they elsewhere now?")
        return 1
    found = [(path.relative_to(ROOT), line, text) for path in paths for line, text in complaints(path)]
    for path, line, text in found:
        print(f"{path}:{line}: {text}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
