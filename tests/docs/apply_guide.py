#!/usr/bin/env python3
"""Adds the operator of kernels/ADDING_AN_OP.md, as its text says, and runs the test that the text gives it.

Every block below a comment `<!-- put: FILE, above: TEXT -->` goes into a copy of FILE, above the first line with TEXT.
Nothing in the tree is written: the copies are compiled by the commands of the build, and linked, in front of its
libraries, to the program that the last shell block builds and runs. At most MOST_FILES files may be touched, and the
guide's table has to have a row for each.

Usage: apply_guide.py SOURCE BUILD
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

GUIDE = "kernels/ADDING_AN_OP.md"
SECTION = "## 6. An op with a kernel of its own"
MOST_FILES = 5
PUT = re.compile(r"<!-- put: (\S+), above: (.*?) -->\n+```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `([^`|]+)` \|", re.MULTILINE)
RUN = re.compile(r"^ninja -C build/release (\w+) && build/release/bin/(\w+) (--gtest_filter=\S+)$", re.MULTILINE)


def fail(text):
    print(f"{GUIDE}: {text}")
    sys.exit(1)


def run(command, folder, what):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"{what}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def apply(section, source, scratch):
    """Writes changed copies below `scratch`; returns their names."""
    texts = {}
    for name, above, block in PUT.findall(section):
        text = texts.get(name) or (source / name).read_text("utf-8")
        at = text.find(above)
        if at < 0:
            fail(f"{name} has no line with '{above}'")
        at = text.rfind("\n", 0, at) + 1
        texts[name] = text[:at] + block + text[at:]
    for name, text in texts.items():
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / name).write_text(text, "utf-8")
    return sorted(texts)


def check_files(section, files):
    """Each file stands in the table, literally or as <family> of its kind; a row is for one file."""
    rows = {row: re.escape(row).replace("<family>", r"\w+") for row in ROW.findall(section)}
    if len(files) > MOST_FILES or len(rows) != len(files):
        fail(f"{len(files)} files are touched, {len(rows)} are in the table, at most {MOST_FILES} may be: {files}")
    for file in files:
        if not any(re.fullmatch(pattern, file) for pattern in rows.values()):
            fail(f"{file} is touched, and in no row of the table")


def commands_of(target, build):
    return run(["ninja", "-t", "commands", target], build, f"no commands for {target}").splitlines()


def replaced(command, pairs):
    for old, new in pairs:
        if old not in command:
            fail(f"a command does not name {old}: {command}")
        command = command.replace(old, new)
    return command


def embedded_templates(templates, source, build, scratch):
    """The templates as a C++ source, with the changed ones; its name in the build, and here."""
    name = "kernels/embedded_templates.cpp"
    command = commands_of(name, build)[-1]
    pairs = [(str(source / template), str(scratch / template)) for template in templates]
    (scratch / name).parent.mkdir(parents=True, exist_ok=True)
    command = replaced(command, [*pairs, (f"-DOUTPUT={build / name}", f"-DOUTPUT={scratch / name}")])
    run(["bash", "-c", command], build, "the templates are not embedded")
    return str(build / name), str(scratch / name)


def main():
    source, build = (Path(argument).resolve() for argument in sys.argv[1:3])
    guide = (source / GUIDE).read_text("utf-8")
    if SECTION not in guide:
        fail(f"there is no section '{SECTION}'")
    section = guide[guide.index(SECTION) :]
    wanted = RUN.search(section)
    if wanted is None or wanted[1] != wanted[2]:
        fail("no shell block builds a test program and runs it by a filter")
    program, gtest_filter = wanted[1], wanted[3]

    with tempfile.TemporaryDirectory(prefix="aipu_guide_") as folder:
        scratch = Path(folder)
        files = apply(section, source, scratch)
        check_files(section, files)
        templates = [file for file in files if file.startswith("kernels/templates/")]
        units = [(str(source / file), str(scratch / file)) for file in files if file not in templates]
        if templates:
            units.append(embedded_templates(templates, source, build, scratch))

        database = json.loads((build / "compile_commands.json").read_text("utf-8"))
        objects = []
        link = commands_of(f"bin/{program}", build)[-1]
        for original, copy in units:
            entries = [entry for entry in database if entry["file"] == original]
            # Of a source that several programs compile, the one for this.
            entry = next((e for e in entries if f"/{program}.dir/" in e["command"]), entries[0] if entries else None)
            if entry is None:
                fail(f"{original} is not compiled by the build: what else the operator takes is not in the guide")
            words = shlex.split(entry["command"])
            made = words[words.index("-o") + 1]
            objects.append((made, copy + ".o"))
            words = [{original: copy, made: copy + ".o"}.get(word, word) for word in words]
            run(words, entry["directory"], f"{copy} does not compile")
        # An object in front of the library that has the original takes its place; the program's own is replaced.
        first = [made for original, made in objects if original not in link]
        link = replaced(link, [(original, made) for original, made in objects if original in link])
        link = replaced(link, [(f"-o bin/{program} ", f"-o {scratch / program} {' '.join(first)} ")])
        run(["bash", "-c", link], build, f"{program} is not linked")
        environment = dict(os.environ, AIPU_BACKEND_PATH=str(build / "lib"), AIPU_CACHE_DIR=str(scratch / "cache"))
        done = subprocess.run(
            [str(scratch / program), gtest_filter], cwd=scratch, env=environment, capture_output=True, text=True
        )
        if done.returncode != 0 or "[  PASSED  ] 1 test." not in done.stdout:
            fail(f"{gtest_filter} does not pass\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
        print(f"{len(files)} files: {', '.join(files)}; {gtest_filter} passes")


if __name__ == "__main__":
    main()
