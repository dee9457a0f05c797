#!/usr/bin/env python3
"""What the tests run of the sources: clang's source-based coverage, a figure per folder.

    tests/coverage.py                              builds everything with clang and runs all tests (hours on two cores)
    tests/coverage.py graph_pass_test dsl_run_test only these programs
    tests/coverage.py -R 'fuzz_target_.*'          those whose names match

Children that end by a signal or _exit() leave no figures; code inside generated kernels has none.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "coverage"
PROFILES = BUILD / "profiles"
# The first one reads what programs say when memory and files fail: the writing of profiles does then, and says so too.
LEFT_OUT = "^(injection_tools_test|lint_.*)$"
SOURCES = ("runtime", "graph", "frontend", "codegen", "kernels", "gbuilder")


def run(*command, **options):
    return subprocess.run([str(part) for part in command], cwd=ROOT, check=True, **options)


def test_names(pattern):
    listing = run("ctest", "--test-dir", BUILD, "-N", "-R", pattern, capture_output=True, text=True).stdout
    return re.findall(r"Test +#\d+: (\S+)", listing)


def build(names):
    targets = [word for name in names for word in ("--target", name)]
    run("cmake", "--build", BUILD, *targets)


def run_tests(pattern):
    """Fails with the tests: the figures of tests that fail say nothing."""
    shutil.rmtree(PROFILES, ignore_errors=True)
    PROFILES.mkdir(parents=True)
    # %m: one file for all processes of a program, which add to it.
    environment = ["env", f"LLVM_PROFILE_FILE={PROFILES}/%m.profraw"]
    run(*environment, "ctest", "--test-dir", BUILD, "--output-on-failure", "-R", pattern, "-E", LEFT_OUT)


def is_instrumented(path):
    """Whether it is an ELF file with coverage in it."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF" and b"__llvm_covmap" in path.read_bytes()


def totals():
    """Per folder: [lines run, lines, functions run, functions]."""
    merged = BUILD / "tests.profdata"
    run("llvm-profdata", "merge", "-failure-mode=all", "-sparse", "-o", merged, *sorted(PROFILES.glob("*.profraw")))
    programs = [path for folder in ("bin", "lib") for path in sorted((BUILD / folder).iterdir()) if path.is_file()]
    objects = [word for path in programs if is_instrumented(path) for word in ("-object", path)]
    export = run(
        "llvm-cov", "export", "-summary-only", f"-instr-profile={merged}", *objects[1:], capture_output=True, text=True
    )
    result = collections.defaultdict(lambda: [0, 0, 0, 0])
    for file in json.loads(export.stdout)["data"][0]["files"]:
        path = pathlib.Path(os.path.normpath(BUILD / file["filename"]))  # ccache makes paths relative
        if not path.is_relative_to(ROOT):
            continue
        parts = path.relative_to(ROOT).parts
        if parts[0] not in SOURCES:
            continue
        lines, functions = file["summary"]["lines"], file["summary"]["functions"]
        for folder in {parts[0], "/".join(parts[:-1]), "all"}:
            for i, number in enumerate((lines["covered"], lines["count"], functions["covered"], functions["count"])):
                result[folder][i] += number
    return result


def print_table(figures):
    print("| folder | lines | run | functions run |")
    print("| -- | -- | -- | -- |")
    for folder, (lines, all_lines, functions, all_functions) in sorted(figures.items()):
        print(f"| `{folder}` | {all_lines} | {lines / all_lines:.1%} | {functions / all_functions:.1%} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", help="names of test programs; none: all")
    parser.add_argument("-R", dest="pattern", help="a regular expression of names of tests")
    arguments = parser.parse_args()
    for tool in ("clang++", "llvm-profdata", "llvm-cov"):
        if shutil.which(tool) is None:
            sys.exit(f"coverage.py: {tool} is not installed (apt-get install clang llvm)")
    pattern = arguments.pattern or ("^(" + "|".join(map(re.escape, arguments.tests)) + ")$" if arguments.tests else ".")
    try:
        run("cmake", "--preset", "coverage", stdout=subprocess.DEVNULL)
        names = test_names(pattern)
        if not names:
            sys.exit(f"coverage.py: no test has such a name: {pattern}")
        build([] if pattern == "." else names)
        run_tests(pattern)
        print_table(totals())
    except subprocess.CalledProcessError as error:
        sys.exit(f"coverage.py: {error.cmd[0]} failed ({error.returncode})")


if __name__ == "__main__":
    main()
