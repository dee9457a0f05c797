"""Models in a sandbox, from Python."""

import os
import pathlib
import subprocess
import sys
import threading

import aipu
import numpy as np
import pytest

BUILD = pathlib.Path(os.environ.get("AIPU_BUILD_DIR", "."))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    maker = BUILD / "bin" / "aipu-make-model"
    if not maker.exists():
        pytest.skip("aipu-make-model is not built (AIPU_BUILD_DIR)")
    folder = tmp_path_factory.mktemp("model")
    subprocess.run([maker, "sample_cnn", "-o", folder / "sample.onnx"], check=True, stdout=subprocess.DEVNULL)
    return aipu.build(folder / "sample.onnx")["output"]


def inputs_of(model, seed):
    rng = np.random.default_rng(seed)
    return {
        spec.name: rng.random([e if isinstance(e, int) else 1 for e in spec.shape], dtype=np.float32)
        for spec in model.inputs
    }


def test_submitted_runs_compute_what_the_interpreter_computes(path):
    outside, inside = aipu.load(path, backend="interp"), aipu.load(path, sandbox=True)
    session = inside.session()
    futures = [session.submit(inputs_of(outside, seed)) for seed in range(4)]
    for seed, future in enumerate(futures):
        for name, expected in outside.run(inputs_of(outside, seed)).items():
            np.testing.assert_array_equal(future.result(timeout=60)[name], expected)


def test_it_computes_what_the_interpreter_computes(path):
    outside, inside = aipu.load(path, backend="interp"), aipu.load(path, sandbox=True)
    assert (inside.inputs, inside.outputs, inside.name) == (outside.inputs, outside.outputs, outside.name)
    assert (inside.target, inside.backend) == (outside.target, "interp")
    given = inputs_of(outside, 1)
    expected = outside.run(given)
    for name, value in inside.run(given).items():
        np.testing.assert_array_equal(value, expected[name])
    own = {name: np.empty_like(value) for name, value in expected.items()}
    assert inside.session().run(given, own) == own
    for name, value in own.items():
        np.testing.assert_array_equal(value, expected[name])


def test_threads_run_side_by_side(path):
    outside, inside = aipu.load(path, backend="interp"), aipu.load(path, sandbox=True)
    cases = [(given, outside.run(given)) for given in (inputs_of(outside, seed) for seed in range(4))]
    wrong = []

    def work(i):
        given, expected = cases[i]
        for _ in range(3):
            found = inside.run(given)
            if any(not np.array_equal(found[name], expected[name]) for name in expected):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(cases))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_limits_and_what_does_not_go_with_it(path):
    model = aipu.load(path, sandbox=True, limits=aipu.Limits(run_memory=1000))
    with pytest.raises(RuntimeError, match="--run-memory-limit"):
        model.run(inputs_of(model, 1))
    with pytest.raises(ValueError, match="not for the back end 'native'"):
        aipu.load(path, sandbox=True, backend="native")
    with pytest.raises(RuntimeError, match="no profiles"):
        aipu.load(path, sandbox=True).session(profile=True)


def test_untrusted_files_are_interpreted(path):
    assert aipu.load(path).backend != "interp"
    assert aipu.load(path, limits=aipu.Limits.untrusted()).backend == "interp"
    with pytest.raises(ValueError, match="does not contain what kernels do"):
        aipu.load(path, limits=aipu.Limits.untrusted(), backend="native")


def test_the_installed_package_has_its_program(path, tmp_path):
    for component in ("python", "runtime"):
        subprocess.run(
            ["cmake", "--install", BUILD, "--component", component, "--prefix", tmp_path],
            check=True,
            capture_output=True,
        )
    packages = tmp_path / "lib" / "python3" / "dist-packages"
    code = f"import aipu; print(aipu.__file__); print(aipu.load({str(path)!r}, sandbox=True).backend)"
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(packages / "aipu" / "__init__.py"), "interp"]
