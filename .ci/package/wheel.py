#!/usr/bin/env python3
"""wheel.py STAGED OUTPUT_FOLDER LICENCE...: a wheel of a staged installation (AIPU_WHEEL=ON), for this Python.

The shared libraries of others that its programs link come along in aipu/lib, where the programs look first; what
every Debian 12 has stays outside. Equal trees give equal bytes: names are sorted, all times are SOURCE_DATE_EPOCH.
"""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile

import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What the policy manylinux_2_36 lets a wheel take from the system.
OUTSIDE = re.compile(r"^(lib(c|m|dl|rt|pthread|util|gcc_s|stdc\+\+|z)\.so|ld-linux)")


def bring_libraries(package):
    """Copies what the programs and libraries of the package link, if it is not of every system, to aipu/lib."""
    folder = package / "lib"
    waiting = [file for file in sorted(package.rglob("*")) if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]
    while waiting:
        found = subprocess.run(["ldd", str(waiting.pop())], capture_output=True, text=True).stdout
        for name, path in re.findall(r"(\S+) => (/\S+)", found):
            if OUTSIDE.match(name) or (folder / name).exists():
                continue
            folder.mkdir(exist_ok=True)
            shutil.copy(pathlib.Path(path).resolve(), folder / name)
            waiting.append(folder / name)


def tag():
    version = sysconfig.get_config_var("py_version_nodot")
    machine = sysconfig.get_platform().split("-")[-1]
    glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")
    return f"cp{version}-cp{version}-manylinux_{glibc}_{machine}"


def write_information(folder, project, licences):
    """The folder that says what is in a wheel, but for RECORD."""
    folder.mkdir()
    text = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    text += f"Summary: {project['description']}\nLicense: {project['license']['text']}\n"
    text += f"Requires-Python: {project['requires-python']}\n"
    text += "".join(f"Requires-Dist: {name}\n" for name in project["dependencies"])
    for extra, names in project["optional-dependencies"].items():
        text += f"Provides-Extra: {extra}\n"
        text += "".join(f'Requires-Dist: {name}; extra == "{extra}"\n' for name in names)
    readme = (ROOT / project["readme"]).read_text(encoding="utf-8")
    (folder / "METADATA").write_text(f"{text}Description-Content-Type: text/markdown\n\n{readme}", encoding="utf-8")
    (folder / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: aipu\nRoot-Is-Purelib: false\nTag: {tag()}\n")
    scripts = "".join(f"{name} = {place}\n" for name, place in sorted(project["scripts"].items()))
    (folder / "entry_points.txt").write_text(f"[console_scripts]\n{scripts}")
    for licence in licences:
        shutil.copy(licence, folder / licence.name)


def pack(staged, information, wheel):
    when = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]  # a zip begins in 1980
    record = ""
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def add(name, data, mode):
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)

        for file in sorted(path for path in staged.rglob("*") if path.is_file()):
            name, data = file.relative_to(staged).as_posix(), file.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
            add(name, data, 0o755 if os.access(file, os.X_OK) else 0o644)
        name = f"{information.name}/RECORD"
        add(name, f"{record}{name},,\n", 0o644)


def main():
    staged, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bring_libraries(staged / "aipu")
    information = staged / f"{project['name']}-{project['version']}.dist-info"
    write_information(information, project, [pathlib.Path(path) for path in sys.argv[3:]])
    wheel = output / f"{project['name']}-{project['version']}-{tag()}.whl"
    pack(staged, information, wheel)
    print(wheel)


main()
