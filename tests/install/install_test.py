#!/usr/bin/env python3
"""install_test.py SOURCE BUILD C_COMPILER CXX_COMPILER: installs what is built into a prefix, moves the prefix, hides
sources and build, and uses it as its users do.

Where the system lets us (user namespaces), the source tree, which holds the build, is hidden by an empty file system;
elsewhere only the search for its path in what is installed says that nothing is left of it.
"""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

from steps import expect, run

SOURCE, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
COMPILERS = {"c": {"gcc": sys.argv[3]}, "c++": {"g++": sys.argv[4]}}
for language, other in (("c", "clang"), ("c++", "clang++")):
    if shutil.which(other):
        COMPILERS[language][other] = shutil.which(other)
STANDARDS = {
    "C99": [("c", "c99"), ("c", "c11"), ("c++", "c++17"), ("c++", "c++20")],
    "CXX17": [("c++", "c++17"), ("c++", "c++20")],
    "CXX20": [("c++", "c++20")],
}
MODELS = ("soft_cap", "hard_shrink", "sample_cnn", "mlp")
INPUT = "image"  # of sample_cnn


def hiding():
    """Words before a command that hide the sources and the build from it; [] where the system does not let us."""
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    words += [f"mount -t tmpfs none '{SOURCE}' && exec \"$@\"", "sh"]
    try:
        works = subprocess.run([*words, "test", "!", "-e", str(BUILD)], capture_output=True).returncode == 0
    except OSError:
        works = False
    if not works:
        print("user namespaces are not allowed here: the build is not hidden, only searched for")
    return words if works else []


def headers():
    """Installed header -> the oldest language it is for."""
    text = (SOURCE / ".ci/package/public_headers.cmake").read_text()
    lists = re.findall(r"set\(AIPU_HEADERS_(\w+)([^)]*)\)", text)
    expect({name for name, _ in lists} == set(STANDARDS), "every list of headers has its languages here")
    return {path: name for name, paths in lists for path in paths.split()}


def check_headers(folder, hidden):
    installed = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    expected = headers()
    expect(installed == set(expected), f"installed headers are those of the list: {installed ^ set(expected)}")
    for name, oldest in expected.items():
        for language, standard in STANDARDS[oldest]:
            for compiler in COMPILERS[language].values():
                # Twice: its guard works. An empty file of C is no translation unit.
                text = f'#include "{name}"\n#include "{name}"\ntypedef int nothing;\n'
                flags = [f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{folder}"]
                flags += ["-pedantic"] if language == "c" else []
                run(compiler, *flags, "-x", language, "-", hidden=hidden, input=text)
    print(f"{len(expected)} headers compile alone")


def check_paths(prefix):
    wanted = (str(SOURCE).encode(), str(BUILD).encode())
    for file in sorted(prefix.rglob("*")):
        if file.is_file() and not file.is_symlink():
            data = file.read_bytes()
            found = [text.decode() for text in wanted if text in data]
            expect(not found, f"{file.relative_to(prefix)} does not mention {found}")


def check_exports(library):
    lines = [line.split() for line in run("nm", "-D", "--defined-only", library).splitlines()]
    names = {words[2] for words in lines if words[1] != "A"}
    expect(names, "the library exports something")
    strange = [name for name in names if not re.fullmatch(r"aipu_\w+@@AIPU_\d+", name)]
    expect(not strange, f"only the C API is exported, with versions: {strange}")
    declared = set(re.findall(r"(?m)^AIPU_C_API [^;(]*?(\w+)\(", (SOURCE / "runtime/aipu.h").read_text()))
    exported = {name.split("@")[0] for name in names}
    expect(declared == exported, f"exported is what aipu.h declares: {sorted(declared ^ exported)}")
    soname = re.search(r"SONAME.*\[(.*)\]", run("readelf", "-d", library)).group(1)
    expect(re.fullmatch(r"libaipu_runtime\.so\.\d+", soname), f"soname {soname}")


def configure_and_build(name, prefix, scratch, *definitions):
    """A project of this folder, against the installed prefix."""
    source, build = scratch / "source" / name, scratch / "build" / name
    shutil.copytree(SOURCE / "tests/install" / name, source)
    flags = ["-G", "Ninja"] if shutil.which("ninja") else []
    flags += [f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_EXPORT_NO_PACKAGE_REGISTRY=ON"]
    flags += [f"-DCMAKE_C_COMPILER={COMPILERS['c']['gcc']}", f"-DCMAKE_CXX_COMPILER={COMPILERS['c++']['g++']}"]
    run("cmake", "-S", source, "-B", build, *flags, *definitions, hidden=HIDDEN)
    run("cmake", "--build", build, hidden=HIDDEN)
    return build


def convert(tool, folder, scratch, name, *options):
    output = scratch / f"{name}{len(options)}.aipu.bin"
    run(tool, f"{name}.onnx", "-o", output, *options, hidden=HIDDEN, cwd=folder, env={"AIPU_CACHE_DIR": folder / "kc"})
    return output


def use_tools(prefix, scratch):
    bin_folder = prefix / "bin"
    for tool in ("aipugb", "aipurun", "aipubench", "aipudump"):
        text = run(bin_folder / tool, "--version", hidden=HIDDEN)
        expect(re.fullmatch(rf"{tool} \d+\.\d+\.\d+( \(commit [0-9a-f]{{7,}}(-dirty)?\))?\n", text), f"version: {text}")
    model = convert(bin_folder / "aipugb", scratch, scratch, "sample_cnn")
    for options in ([], ["--backend", "interp"], ["--sandbox"]):
        run(bin_folder / "aipurun", model, "--random", *options, hidden=HIDDEN)
    run(bin_folder / "aipubench", model, "--shape", f"{INPUT}=1x3x32x32", "--duration", "0.2", hidden=HIDDEN)
    expect(INPUT in run(bin_folder / "aipudump", model, hidden=HIDDEN), "aipudump shows the model")
    # Without a compiler: one line that says so, and running goes on.
    result = subprocess.run(
        [*HIDDEN, bin_folder / "aipugb", "sample_cnn.onnx", "-o", "none.aipu.bin", "--no-cache"],
        cwd=scratch,
        env={**os.environ, "AIPU_CC": "/nowhere/c++"},
        capture_output=True,
        text=True,
    )
    expect(result.returncode == 1 and result.stderr.count("\n") == 1, f"one line: {result.stderr}")
    expect("compiler" in result.stderr, f"no compiler: {result.stderr}")
    run(bin_folder / "aipurun", model, "--random", hidden=HIDDEN, env={"PATH": "/nowhere"} if not HIDDEN else {})
    return model


KEYS = {
    "key.pem": ("PRIVATE", "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g"),
    "key.pub.pem": ("PUBLIC", "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="),
}


def use_signatures(prefix, scratch):
    """A signed, stripped file runs, and is refused once it is changed."""
    if not list(prefix.rglob("libaipu_signature.so")):
        print("built without libsodium: no signatures")
        return
    for name, (kind, text) in KEYS.items():
        (scratch / name).write_text(f"-----BEGIN {kind} KEY-----\n{text}\n-----END {kind} KEY-----\n")
    options = ("--sign", scratch / "key.pem", "--strip")
    model = convert(prefix / "bin/aipugb", scratch, scratch, "sample_cnn", *options)
    command = (prefix / "bin/aipurun", model, "--random", "--trusted-key", scratch / "key.pub.pem")
    run(*command, hidden=HIDDEN)
    expect(
        "signed   with the key d75a" in run(prefix / "bin/aipudump", model, hidden=HIDDEN), "aipudump says who signed"
    )
    data = bytearray(model.read_bytes())
    data[len(data) // 2] ^= 1
    model.write_bytes(data)
    result = subprocess.run([*HIDDEN, *map(str, command)], capture_output=True, text=True)
    expect(result.returncode == 1 and "signature does not fit" in result.stderr, f"refused: {result.stderr}")


def use_libraries(prefix, scratch, model):
    library_folder = next(prefix.rglob("libaipu_runtime.so")).parent
    check_exports(library_folder / "libaipu_runtime.so")
    example = next(prefix.rglob("run_model.c"))
    flags = run(
        "pkg-config", "--cflags", "--libs", "aipu", env={"PKG_CONFIG_PATH": library_folder / "pkgconfig"}
    ).split()
    program = scratch / "run_model"
    run(COMPILERS["c"]["gcc"], "-std=c99", example, "-o", program, *flags, hidden=HIDDEN)
    by_pkg_config = run(program, model, "0.5", hidden=HIDDEN, env={"LD_LIBRARY_PATH": library_folder})
    build = configure_and_build("c", prefix, scratch, f"-DEXAMPLE={example}")
    by_cmake = run(build / "run_model", model, "0.5", hidden=HIDDEN)
    expect(by_cmake == by_pkg_config and "[1," in by_cmake, f"{by_cmake} and {by_pkg_config} agree")
    build = configure_and_build("cxx", prefix, scratch)
    text = run(build / "describe", model, hidden=HIDDEN)
    expect("in " in text and "out " in text, text)


def use_plugin(prefix, scratch):
    sample = scratch / "sample"
    shutil.copytree(SOURCE / "models/custom_op", sample)
    build = configure_and_build("plugin", prefix, scratch, f"-DSAMPLE={sample}")
    model = convert(prefix / "bin/aipugb", scratch, scratch, "soft_cap", "--plugin", build / "libsoft_cap.so")
    run(prefix / "bin/aipurun", model, "--random", hidden=HIDDEN)
    model = convert(prefix / "bin/aipugb", scratch, scratch, "hard_shrink", "--plugin", sample / "hard_shrink.py")
    run(prefix / "bin/aipurun", model, "--random", hidden=HIDDEN)


def use_backend(prefix, scratch, model):
    skeleton = scratch / "mine.cpp"
    shutil.copy(SOURCE / "runtime/backends/null/null.cpp", skeleton)
    build = configure_and_build("backend", prefix, scratch, f"-DSKELETON={skeleton}")
    run(prefix / "bin/aipurun", model, "--random", "--backend", "mine", hidden=HIDDEN, env={"AIPU_BACKEND_PATH": build})


def use_target(prefix, scratch):
    """The sample target and the sample device: less than 200 lines each, and the outputs that the host gives."""
    sources = {
        "TARGET": "codegen/targets/sample/sample_target.cpp",
        "DEVICE": "runtime/backends/sample/sample_device.c",
    }
    definitions = []
    for name, path in sources.items():
        lines = (SOURCE / path).read_text().count("\n")
        expect(lines < 200, f"{path} has less than 200 lines: {lines}")
        copy = scratch / pathlib.Path(path).name
        shutil.copy(SOURCE / path, copy)
        definitions.append(f"-D{name}={copy}")
    build = configure_and_build("target", prefix, scratch, *definitions)
    plugin = ("--target-plugin", build / "libsample_target.so")
    text = run(prefix / "bin/aipugb", "--targets", *plugin, hidden=HIDDEN)
    code = f"sample_c for {platform.machine()}, run by sample"
    expect(f"sample_npu: a toy NPU\n  code      {code}\n" in text, f"the target is listed: {text}")
    outputs = {}
    for target, options in (("sample_npu", plugin), ("host-baseline", ())):
        model = convert(prefix / "bin/aipugb", scratch, scratch, "mlp", *options, "--target", target)
        folder = scratch / "outputs" / target
        command = (prefix / "bin/aipurun", model, "--random", "--shape", "input=3x784", "--output-dir", folder)
        run(*command, hidden=HIDDEN, env={"AIPU_BACKEND_PATH": build})
        outputs[target] = {file.name: file.read_bytes() for file in folder.iterdir()}
    expect(outputs["sample_npu"] and outputs["sample_npu"] == outputs["host-baseline"], "it computes what hosts do")
    # What it has no instruction for is refused, by the node's name.
    command = (prefix / "bin/aipugb", "sample_cnn.onnx", "-o", "refused.aipu.bin", *plugin, "--target", "sample_npu")
    result = subprocess.run([*HIDDEN, *map(str, command)], cwd=scratch, capture_output=True, text=True)
    expect(result.returncode == 1 and result.stderr.count("\n") == 1, f"refused: {result.stderr}")
    expect(
        "it takes uint32, which target 'sample_npu' lacks" in result.stderr, f"says what is missing: {result.stderr}"
    )


PYTHON_PROGRAM = """
import sys
import numpy
import aipu
from aipu import script as S

model = aipu.load(sys.argv[1])
name, = [each.name for each in model.inputs]
shape = [extent if isinstance(extent, int) and extent > 0 else 1 for extent in model.inputs[0].shape]
result = model.run({name: numpy.full(shape, 0.5, "float32")})
assert all(numpy.isfinite(each).all() for each in result.values())
print(aipu.__file__)
"""


def use_python(prefix, python, model):
    package = prefix / "lib/python3/dist-packages"
    if not package.exists():
        print("the Python package is not built")
        return
    text = run(python, "-P", "-c", PYTHON_PROGRAM, model, hidden=HIDDEN, env={"PYTHONPATH": package})
    expect(str(prefix) in text, f"the installed package is used: {text}")
    text = run(prefix / "bin/aipudiff", "--version", hidden=HIDDEN)
    expect(re.fullmatch(r"aipudiff \d+\.\d+\.\d+\n", text), f"version: {text}")


def main():
    with tempfile.TemporaryDirectory(prefix="aipu-install-") as folder:
        scratch = pathlib.Path(folder).resolve()
        for model in MODELS:
            run(BUILD / "bin/aipu-make-model", model, "-o", scratch / f"{model}.onnx")
        run("cmake", "--install", BUILD, "--prefix", scratch / "first")
        prefix = scratch / "moved" / "prefix"
        prefix.parent.mkdir()
        (scratch / "first").rename(prefix)
        check_paths(prefix)
        check_headers(prefix / "include/aipu", HIDDEN)
        model = use_tools(prefix, scratch)
        use_libraries(prefix, scratch, model)
        use_signatures(prefix, scratch)
        use_plugin(prefix, scratch)
        use_backend(prefix, scratch, model)
        use_target(prefix, scratch)
        if len(sys.argv) > 5:
            use_python(prefix, sys.argv[5], model)


HIDDEN = hiding()
main()
