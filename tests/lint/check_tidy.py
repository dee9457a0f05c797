#!/usr/bin/env python3
"""Whether clang-tidy (14, with the checks of .clang-tidy) has nothing to say about the C++ sources, tests left out.

    check_tidy.py [--full | FILE...] [--jobs N] [--build DIR]

A file takes seconds. By default: the sources that differ from origin's main, one that includes each changed header, and
a sample of the others, another one for each commit. --full, or AIPU_TIDY=full: all of them.
Needs the commands of a configured build, and its generated headers. A tool that is missing is a skip (exit 77).
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLE = 24  # files beside the changed ones
MOST_CHANGED = 40  # of more changed files than these a sample, too
# What clang does not know of gcc's command, and what makes an error of a warning that only clang has.
DROPPED = re.compile(r"-Werror.*|-Wno-error=.*|-Wshadow=local|-fpch-preprocess|-Winvalid-pch")


def clang_tidy():
    for name in ("clang-tidy-14", "clang-tidy"):
        try:
            version = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
        except FileNotFoundError:
            continue
        if "version 14." in version:
            return name
    return None


def commands(build):
    """Entries of the compilation database by source, without precompiled headers."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text("utf-8")):
        source = pathlib.Path(entry["file"])
        if source.is_relative_to(build) or source.is_relative_to(ROOT / "tests"):
            continue
        words = [word for word in shlex.split(entry["command"]) if not DROPPED.fullmatch(word)]
        while "-include" in words:
            at = words.index("-include")
            del words[at : at + 2]
        found.setdefault(
            str(source.relative_to(ROOT)), {"file": entry["file"], "directory": entry["directory"], "arguments": words}
        )
    return found


def git(*arguments):
    result = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    return result.stdout.split() if result.returncode == 0 else []


def changed(sources):
    """Sources that differ from origin's main, and one that includes each changed header."""
    base = git("merge-base", "HEAD", "origin/main")
    files = set(git("diff", "--name-only", *(base or ["HEAD"])) + git("ls-files", "--others", "--exclude-standard"))
    chosen = {source for source in sources if source in files}
    for header in sorted(file for file in files if file.endswith(".h") and (ROOT / file).exists()):
        own = header[:-2] + ".cpp"
        users = [own] if own in sources else git("grep", "-l", "-F", f'#include "{header}"', "--", "*.cpp")
        chosen.update(next(([user] for user in users if user in sources), []))
    return chosen


def choose(sources):
    seed = os.environ.get("AIPU_TIDY_SEED") or (git("rev-parse", "HEAD") or ["0"])[0]
    chance = random.Random(seed)
    chosen = sorted(changed(sources))
    if len(chosen) > MOST_CHANGED:
        chosen = sorted(chance.sample(chosen, MOST_CHANGED))
    others = sorted(set(sources) - set(chosen))
    sample = chance.sample(others, min(SAMPLE, len(others)))
    print(f"{len(chosen)} changed files, {len(sample)} of {len(others)} others (AIPU_TIDY_SEED={seed})")
    return chosen + sample


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="sources to look at")
    parser.add_argument("--full", action="store_true", help="look at all sources")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="files at a time")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", metavar="DIR")
    arguments = parser.parse_args()
    tool = clang_tidy()
    if tool is None or not (arguments.build / "compile_commands.json").exists():
        print("not checked, as there is no " + ("clang-tidy-14" if tool is None else f"build in {arguments.build}"))
        return 77
    sources = commands(arguments.build.resolve())
    if arguments.files:
        chosen = [str(pathlib.Path(file).resolve().relative_to(ROOT)) for file in arguments.files]
        unknown = [file for file in chosen if file not in sources]
        if unknown:
            print(f"not in the build: {', '.join(unknown)}")
            return 2
    elif arguments.full or os.environ.get("AIPU_TIDY") == "full":
        chosen = sorted(sources)
    else:
        chosen = choose(sources)

    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "compile_commands.json").write_text(json.dumps(list(sources.values())), "utf-8")

        def look(source):
            command = [tool, "--quiet", "-p", folder, str(ROOT / source)]
            return subprocess.run(command, capture_output=True, text=True)

        said = set()  # of a header once
        failed = False
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for source, result in zip(chosen, pool.map(look, chosen)):
                failed = failed or result.returncode != 0
                if result.returncode == 0 or result.stdout in said:
                    continue
                said.add(result.stdout)
                print(f"{source}:\n{result.stdout}" or result.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
