#!/usr/bin/env python3
"""licences.py BUILD OUTPUT: the licences of what is linked into a build or comes with it, from the packages of Debian.

Which packages that are is read off the build: those with the headers that were compiled, and with the shared libraries
that are linked. The C and C++ libraries are left out: they are not ours to distribute.
"""

import pathlib
import re
import subprocess
import sys

SYSTEM = re.compile(r"^(libc6|libc6-dev|linux-libc-dev|libstdc\+\+.*|libgcc.*|gcc-.*|g\+\+-.*|cpp-.*|clang.*|llvm.*)$")


def output(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True).stdout


def packages_of(files):
    """The names of the Debian packages that have the files, without those of the system."""
    # The folders of /lib are links to those of /usr/lib on today's systems, and packages have either name.
    names = sorted({str(file) for file in files} | {str(file).replace("/usr/lib/", "/lib/") for file in files})
    found = re.findall(r"(?m)^([^:\s]+)(?::\w+)?: /", output("dpkg-query", "-S", *names))
    return sorted({name for name in found if not SYSTEM.match(name)})


def headers(build):
    text = output("ninja", "-C", build, "-t", "deps")
    return {pathlib.Path(path).resolve() for path in re.findall(r"(?m)^\s+(/usr/include/\S+)", text)}


def shared_libraries(build):
    found = set()
    programs = [*(build / "bin").glob("*"), *(build / "lib").glob("*.so*"), *(build / "python/aipu").glob("*.so")]
    for program in programs:
        found |= set(re.findall(r"=> (/\S+)", output("ldd", program)))
    return {pathlib.Path(path).resolve() for path in found}


def main():
    build, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    packages = packages_of(headers(build) | shared_libraries(build))
    if not packages:
        sys.exit("licences.py: no package is found; is this Debian, and was it built by Ninja?")
    parts = ["aipu links or brings along parts of the following packages, under the licences below.\n"]
    for package in packages:
        text = pathlib.Path("/usr/share/doc", package, "copyright").read_text(encoding="utf-8", errors="replace")
        parts.append(f"{'=' * 100}\n{package}\n{'=' * 100}\n\n{text.rstrip()}\n")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(parts), encoding="utf-8")
    print("licences of", ", ".join(packages))


main()
