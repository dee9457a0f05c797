#!/usr/bin/env python3
"""Runs the shell and Python blocks of Markdown files as they are shown, file by file and in order, in a scratch copy.

Comments right above a block say what its readers need not see:

    <!-- not run: REASON -->           it is never run
    <!-- run with --full: REASON -->   it is run only where AIPU_LARGE_TESTS is set, as ./run-tests.sh --full does
    <!-- given: LINE -->               a line before the block's own, in its language; any number of them
    <!-- put: FILE, above: TEXT -->    it goes into a copy of a source and is run there (apply_guide.py)

A mark without a reason and a comment that is none of these are errors. A file's blocks without a mark are run.
The Python blocks of a file are one program. Usage: run_blocks.py SOURCE BUILD [MARKDOWN ...]
"""

import linecache
import os
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

BLOCK = re.compile(r"((?:^<!--.*?-->\n+)*)^```(sh|bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- *(not run|run with --full|given|put):? *(.*?) *-->", re.DOTALL)
SECONDS = 600  # for one shell block


class Block(NamedTuple):
    """A block of code: where its first line is, what it is, and what its comments say."""

    file: str
    line: int
    language: str
    text: str
    given: str
    reason: str  # why it is not run; empty: it is
    only_full: bool


def blocks_of(file: str, text: str) -> List[Block]:
    """The blocks of a Markdown file. ValueError for a mark without a reason, or an unknown one."""
    found = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start(3)) + 1
        given, reason, only_full = [], "", False
        for comment in re.findall(r"<!--.*?-->", match[1], re.DOTALL):
            mark = MARK.fullmatch(comment)
            if mark is None or not mark[2]:
                raise ValueError(f"{file}:{line}: {comment!r} is no mark with a reason (tests/docs/run_blocks.py)")
            if mark[1] == "given":
                given.append(mark[2] + "\n")
            else:
                reason, only_full = mark[2], mark[1] == "run with --full"
        found.append(Block(file, line, match[2], match[3], "".join(given), reason, only_full))
    return found


def scratch_copy(source: Path, build: Path, folder: Path) -> None:
    """A folder that looks like the source tree with its build, in which new files disturb nobody."""
    for entry in source.iterdir():
        if entry.name not in ("build", ".git"):
            (folder / entry.name).symlink_to(entry)
    (folder / "build").mkdir()
    (folder / "build" / "release").symlink_to(build)


def run_shell(block: Block, folder: Path) -> Optional[str]:
    """What went wrong, if anything."""
    command = ["bash", "-e", "-o", "pipefail", "-c", block.given + block.text]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"not done after {SECONDS} s"
    return None if done.returncode == 0 else f"exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def run_python(block: Block, names: Dict[str, Any]) -> Optional[str]:
    """The same; the text is known to linecache, as that of a notebook cell is."""
    name, text = f"<{block.file}:{block.line}>", block.given + block.text
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    try:
        exec(compile(text, name, "exec"), names)
    except Exception:
        return traceback.format_exc()
    return None


def run_file(file: str, source: Path, build: Path, full: bool) -> Dict[str, int]:
    """Runs the blocks of a file; how many there were of each kind."""
    counts = {"run": 0, "not run": 0, "only with --full": 0, "failed": 0}
    blocks = blocks_of(file, (source / file).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="aipu_docs_") as name:
        scratch_copy(source, build, Path(name))
        os.chdir(name)
        names: Dict[str, Any] = {"__name__": "__main__"}
        for block in blocks:
            if block.reason and not (block.only_full and full):
                counts["only with --full" if block.only_full else "not run"] += 1
                continue
            counts["run"] += 1
            error = run_python(block, names) if block.language == "python" else run_shell(block, Path(name))
            if error is not None:
                counts["failed"] += 1
                print(f"{file}:{block.line}: {error}", file=sys.stderr)
        os.chdir(source)
    return counts


def main() -> int:
    source, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    files = sys.argv[3:] or sorted(
        str(path.relative_to(source))
        for path in source.rglob("*.md")
        if not {"build", ".git"} & set(path.relative_to(source).parts)
    )
    full = bool(os.environ.get("AIPU_LARGE_TESTS"))
    os.environ["PYTHONPATH"] = f"{build / 'python'}"
    # python3 of a shell block is the interpreter that runs this, which has NumPy.
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    sys.path[:0] = [str(build / "python"), str(source / "tests" / "python")]
    total: Dict[str, int] = {}
    for file in files:
        try:
            counts = run_file(file, source, build, full)
        except ValueError as error:
            print(error, file=sys.stderr)
            counts = {"failed": 1}
        for kind, count in counts.items():
            total[kind] = total.get(kind, 0) + count
    print(", ".join(f"{count} {kind}" for kind, count in total.items()))
    return 1 if total.get("failed") or not total.get("run") else 0


if __name__ == "__main__":
    sys.exit(main())
