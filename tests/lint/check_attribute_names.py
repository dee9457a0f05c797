#!/usr/bin/env python3
"""Whether every attribute that is read by name is declared by some op record, of the kind that it is read as.

A reader with a fallback (i_or) says nothing about a name that no op has.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = "int float string dtype ints floats strings shape constant".split()
# attr::i("axis", 0) and functions that return one; attr::required("to", AttributeKind::kDType), {"cap",
# AttributeKind::kFloat, ...}
SHORT = re.compile(r'(?:attr::|AttributeDef \w+\(\) \{ return (?:own\()?)(i|f|s|dtype)\("(\w+)"')
LONG = re.compile(r'"(\w+)",\s*(?:graph::)?AttributeKind::k(\w+)')
READ = re.compile(r'attributes\s*\.(i|f|s|dtype|ints|floats|shape|constant|i_or|f_or|s_or|has|find)\(\s*"(\w+)"')
OF_READER = {"i": "int", "f": "float", "s": "string"}


def sources(*folders):
    for folder in folders:
        for pattern in ("*.cpp", "*.h"):
            yield from sorted((ROOT / folder).rglob(pattern))


def declared():
    """Kinds by name."""
    kinds = {}
    for path in sources("graph/ops", "graph/ir", "models/custom_op"):
        text = path.read_text("utf-8")
        for reader, name in SHORT.findall(text):
            kinds.setdefault(name, set()).add(OF_READER.get(reader, reader))
        for name, kind in LONG.findall(text):
            kinds.setdefault(name, set()).add(kind.lower())
    return kinds


def main():
    kinds = declared()
    if len(kinds) < 60 or not set().union(*kinds.values()) <= set(KINDS):
        print(f"{len(kinds)} attributes are found: do op records have another form now?")
        return 1
    status = 0
    for path in sources("graph", "kernels", "gbuilder", "models/custom_op"):
        text = path.read_text("utf-8")
        for found in READ.finditer(text):
            reader, name = found.groups()
            kind = OF_READER.get(reader.removesuffix("_or"), reader)
            if name in kinds and (kind in ("has", "find") or kind in kinds[name]):
                continue
            line = text.count("\n", 0, found.start()) + 1
            what = f"is {' or '.join(sorted(kinds[name]))}" if name in kinds else "is declared by no op"
            print(f"{path.relative_to(ROOT)}:{line}: attribute '{name}' {what}, it is read by {reader}()")
            status = 1
    return status


sys.exit(main())
