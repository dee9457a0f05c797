#!/usr/bin/env python3
"""Whether every link between Markdown files leads somewhere, and every document that a file mentions is in the
repository.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")
MENTION = re.compile(r"(?<![\w/.*{-])((?:[\w.-]+/)*[\w-]+\.md)\b")


def tracked(*patterns):
    names = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in names.splitlines()]


def anchors(document):
    """The anchors of a document's headings, as GitHub makes them."""
    found = set()
    for line in document.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            title = re.sub(r"[`*_]|\[([^]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip().lower())
            found.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return found


def broken_links():
    for document in tracked("*.md"):
        for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
            for target in LINK.findall(line):
                if "://" in target:
                    continue
                path, _, anchor = target.partition("#")
                file = (document.parent / path).resolve() if path else document
                if not file.exists():
                    yield f"{document.relative_to(ROOT)}:{number}: {target} is not there"
                elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                    yield f"{document.relative_to(ROOT)}:{number}: {path} has no heading for #{anchor}"


def unknown_documents():
    names = {path.name for path in tracked("*.md")}
    for file in tracked("*.md", "*.cpp", "*.h", "*.py", "*.txt", "*.sh", "*.fbs", "*.cmake"):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            for mention in MENTION.findall(line):
                if pathlib.PurePosixPath(mention).name not in names:
                    yield f"{file.relative_to(ROOT)}:{number}: there is no {mention}"


def main():
    problems = [*broken_links(), *unknown_documents()]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
