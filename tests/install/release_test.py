#!/usr/bin/env python3
"""release_test.py SOURCE PYTHON [PACKAGES]: .ci/release twice gives the same bytes, the wheel works in an empty
environment, and the packages install where nothing else of aipu is. With PACKAGES, a folder of an earlier run, nothing
is built.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

from steps import expect, run

SOURCE, PYTHON = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
GIVEN = pathlib.Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else None
TOOLS = ("aipugb", "aipurun", "aipubench", "aipudump")


def release(folder):
    run(SOURCE / ".ci/release", folder)
    return folder


def check_same(first, second):
    sums = [(folder / "SHA256SUMS").read_text() for folder in (first, second)]
    expect(sums[0] == sums[1], f"the same bytes twice:\n{sums[0]}\n{sums[1]}")


# A model of its own, without any package: Relu on [N,4].
MODEL = """
def field(number, data):
    if isinstance(data, int):
        return bytes([number << 3, data])
    return bytes([number << 3 | 2, len(data)]) + data
def value(name):
    extents = field(1, field(2, b"N")) + field(1, field(1, 4))
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, extents)))
node = field(1, b"x") + field(2, b"y") + field(3, b"r") + field(4, b"Relu")
graph = field(1, node) + field(2, b"g") + field(11, value(b"x")) + field(12, value(b"y"))
open("m.onnx", "wb").write(field(1, 8) + field(7, graph) + field(8, field(1, b"") + field(2, 17)))
"""
USE = """
import numpy, aipu
x = numpy.array([[-1, 2, -3, 4]], "float32")
numpy.savez("in.npz", x=x)
assert aipu.load("m.aipu.bin").run({"x": x})["y"].tolist() == [[0, 2, 0, 4]]
assert aipu.load(aipu.build("m.onnx", "n.aipu.bin")["output"]).run({"x": x})["y"].tolist() == [[0, 2, 0, 4]]
"""


def use_tools(bin_folder, scratch, cache):
    environment = {"AIPU_CACHE_DIR": cache, "PATH": f"{bin_folder}:/usr/bin:/bin"}
    for tool in TOOLS:
        text = run(bin_folder / tool, "--version", env=environment)
        expect(re.match(rf"{tool} \d+\.\d+\.\d+ \(commit [0-9a-f]{{7,}}", text), f"the commit: {text}")
    run("aipugb", "m.onnx", "-o", "m.aipu.bin", cwd=scratch, env=environment)
    for options in ([], ["--sandbox"]):
        run("aipurun", "m.aipu.bin", "--random", *options, cwd=scratch, env=environment)
    # Without a compiler conversion says so in one line, and running works.
    environment["AIPU_CC"] = "/nowhere/cc"
    words = ["aipugb", "m.onnx", "-o", "none.aipu.bin", "--no-cache"]
    result = subprocess.run(words, cwd=scratch, env={**os.environ, **environment}, capture_output=True, text=True)
    expect(
        result.returncode == 1 and re.fullmatch(r"[^\n]*compiler[^\n]*not found[^\n]*\n", result.stderr), result.stderr
    )


def use_python(python, bin_folder, scratch, cache):
    environment = {"AIPU_CACHE_DIR": cache}
    run(python, "-P", "-c", USE, cwd=scratch, env=environment)
    text = run(bin_folder / "aipudiff", "m.onnx", "m.onnx@interp", "--data", "in.npz", cwd=scratch, env=environment)
    expect("y" in text, text)


def own_libraries(names):
    """Those that are found by name, in a folder of their own."""
    return {pathlib.PurePath(name).name for name in names if re.search(r"/aipu/libaipu_\w+\.so$", name)}


def check_wheel_is_whole(folder, wheel):
    """What the packages have is in the wheel: libraries that models ask for by name would be missed only by them."""
    packed = "".join(run("dpkg-deb", "-c", package) for package in folder.glob("*.deb")).splitlines()
    expected = own_libraries(line.split(" -> ")[0] for line in packed)
    found = own_libraries(zipfile.ZipFile(wheel).namelist())
    expect(expected and found >= expected, f"the wheel has the libraries of the packages: {found} and {expected}")


def use_wheel(folder, scratch):
    (wheel,) = folder.glob("*.whl")
    check_wheel_is_whole(folder, wheel)
    expect(wheel.name.endswith("-manylinux_2_36_x86_64.whl") or "x86_64" not in wheel.name, wheel.name)
    run(PYTHON, "-m", "venv", "--system-site-packages", scratch / "venv")
    run(scratch / "venv/bin/pip", "install", "--no-index", "--no-deps", wheel)
    use_tools(scratch / "venv/bin", scratch, scratch / "wheel-cache")
    use_python(scratch / "venv/bin/python", scratch / "venv/bin", scratch, scratch / "wheel-cache")
    needed = ""
    (package,) = scratch.glob("venv/lib/python*/site-packages/aipu")
    for file in (*package.glob("bin/*"), *package.glob("*.so"), *package.glob("lib/**/*aipu*")):
        if file.is_file() and file.read_bytes()[:4] == b"\x7fELF":
            needed += run("ldd", file)
    outside = set(re.findall(r"=> (/(?:usr/)?lib\S*)", needed))
    strange = [name for name in outside if not re.search(r"/(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|z)\.so|ld-)", name)]
    expect(not strange, f"libraries are inside: {strange}")


def in_memory(folder):
    """Words before a command that runs it as root in the system of this machine, whose changes are kept in memory and
    forgotten at its end; [] where the machine does not let us.
    """
    folder.mkdir()
    script = """
        set -e
        root=$1/root; mount -t tmpfs none "$1"; mkdir "$1/upper" "$1/work" "$root"
        mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$root"
        for path in /dev /proc "$2" "$3" "$4"; do mkdir -p "$root$path"; mount --rbind "$path" "$root$path"; done
        shift 4; exec chroot "$root" "$@"
    """
    for user in ([], ["--user", "--map-root-user"]):
        words = ["unshare", *user, "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
        words += [str(path) for path in (folder, SOURCE, GIVEN or folder.parent, folder.parent)]
        if subprocess.run([*words, "dpkg", "--version"], capture_output=True).returncode == 0:
            return words
    return []


def use_installed(folder, scratch):
    """Runs where :func:`in_memory` says: the packages are installed as anybody would, used, and removed."""
    expect(run("stat", "-f", "-c", "%T", "/") == "overlayfs\n", "this is no overlay: packages would stay installed")
    packages = sorted(folder.glob("*.deb"))
    names = [run("dpkg-deb", "-f", package, "Package").strip() for package in packages]
    run("dpkg", "-i", *packages)
    use_tools(pathlib.Path("/usr/bin"), scratch, scratch / "deb-cache")
    use_python("/usr/bin/python3", pathlib.Path("/usr/bin"), scratch, scratch / "deb-cache")
    expected = "y [1,4] 2 2 2 2\n"
    example = "/usr/share/aipu/examples/run_model.c"
    flags = run("pkg-config", "--cflags", "--libs", "aipu").split()
    run("cc", "-std=c99", example, "-o", scratch / "by_pkg_config", *flags)
    text = run(scratch / "by_pkg_config", scratch / "m.aipu.bin", "2")
    expect(text == expected, text)
    consumers = (("c", "run_model", ["2"], expected), ("cxx", "describe", [], "in x of rank 2\nout y of rank 2\n"))
    for name, program, arguments, expected in consumers:
        build = scratch / "build" / name
        run("cmake", "-S", SOURCE / "tests/install" / name, "-B", build, f"-DEXAMPLE={example}")
        run("cmake", "--build", build)
        text = run(build / program, scratch / "m.aipu.bin", *arguments)
        expect(text == expected, text)
    run("dpkg", "-r", *names)
    patterns = ("bin/aipu*", "include/aipu", "share/aipu", "lib/**/*aipu*")
    left = [path for pattern in patterns for path in pathlib.Path("/usr").glob(pattern)]
    expect(not left, f"nothing of them is left: {left}")


def use_packages(folder, scratch):
    packages = sorted(folder.glob("*.deb"))
    names = {run("dpkg-deb", "-f", package, "Package").strip(): package for package in packages}
    runtime = next(name for name in names if name.startswith("libaipu-runtime"))
    for name in ("libaipu-dev", "aipu-tools"):
        expect(f"{runtime} (= " in run("dpkg-deb", "-f", names[name], "Depends"), f"{name} needs {runtime}")
    depends = run("dpkg-deb", "-f", names[runtime], "Depends")
    expect("libc6" in depends and "libprotobuf" not in depends, f"{runtime} needs little: {depends}")
    if words := in_memory(scratch / "system"):
        run(
            sys.executable,
            pathlib.Path(__file__).resolve(),
            SOURCE,
            PYTHON,
            folder,
            "--installing",
            scratch,
            hidden=words,
        )
        return
    print("no overlay of this machine's system is allowed here: the packages are unpacked, not installed")
    root = scratch / "root"
    for package in packages:
        run("dpkg-deb", "-x", package, root)
    use_tools(root / "usr/bin", scratch, scratch / "deb-cache")
    (found,) = root.rglob("aipu.pc")
    flags = run("pkg-config", "--cflags", "--libs", "aipu", env={"PKG_CONFIG_LIBDIR": found.parent}).split()
    (example,) = root.rglob("run_model.c")
    run("cc", example, "-o", scratch / "run_model", *flags)
    text = run(scratch / "run_model", scratch / "m.aipu.bin", "2", env={"LD_LIBRARY_PATH": found.parent.parent})
    expect(text == "y [1,4] 2 2 2 2\n", text)


def main():
    if sys.argv[4:5] == ["--installing"]:
        use_installed(GIVEN, pathlib.Path(sys.argv[5]))
        return
    if GIVEN is None and "AIPU_LARGE_TESTS" not in os.environ:
        print("builds all packages twice: run by ./run-tests.sh --full, which sets AIPU_LARGE_TESTS")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="aipu-release-") as name:
        scratch = pathlib.Path(name)
        folder = GIVEN or release(scratch / "first")
        if GIVEN is None:
            for kind in ("wheel", "deb"):
                shutil.rmtree(SOURCE / f"build/package-{kind}")
            check_same(folder, release(scratch / "second"))
        run(PYTHON, "-c", MODEL, cwd=scratch)
        use_wheel(folder, scratch)
        use_packages(folder, scratch)


main()
