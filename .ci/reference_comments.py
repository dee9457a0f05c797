#!/usr/bin/env python3
"""Doxygen's view of a header: plain comments before and behind a declaration describe it, the first one the file, and
what is indented in them by three spaces or more is code.
"""

import re
import sys

in_code = False
for number, line in enumerate(open(sys.argv[1], encoding="utf-8")):
    line = re.sub(r"^( *)// ?", r"\1/// ", line)
    line = re.sub(r"(\S+ +)// ", r"\1///< ", line)
    line = re.sub(r"^( *)/\* ", r"\1/** ", line)
    line = re.sub(r"(\S+ +)/\* ", r"\1/**< ", line)
    if number == 0:
        line = re.sub(r"^(/\*\*|///) ", r"\1 \\file\n\1 " if line.startswith("///") else r"/** \\file\n * ", line)
    code = re.match(r"^( *)(///|\*| \*) {3,}(?=\S)", line)
    if code:
        mark = code.group(1) + code.group(2)
        line = ("" if in_code else f"{mark}\n") + f"{mark}      {line[len(mark) :].lstrip()}"
    in_code = bool(code)
    sys.stdout.write(line)
