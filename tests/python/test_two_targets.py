"""A device and the host beside it in one file: who computes what, what crosses, and that the results are the host's."""

import os
import pathlib
import subprocess

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model

PROGRAMS = pathlib.Path(os.environ["AIPU_BUILD_DIR"]) / "bin"
BOTH = "X2_1204+host"
BACKENDS = [None, "interp", "null"]


def convert(folder, nodes, inputs, outputs, constants=None, target=BOTH, **options):
    write_model(folder / "m.onnx", nodes, inputs, outputs, constants, opset=20)
    path = folder / f"{target.split('+')[0]}{len(target)}.aipu.bin"
    aipu.build(folder / "m.onnx", path, target=target, **options)
    return path


def both_ways(folder, nodes, inputs, outputs, constants=None, **options):
    """The model for the device with the host beside it, and for the host alone."""
    return [
        aipu.load(convert(folder, nodes, inputs, outputs, constants, target, **options)) for target in (BOTH, "host")
    ]


WEIGHTS = np.random.default_rng(3).standard_normal((16, 16)).astype("f")
# Only the host has float64; what is before and behind it is the device's.
DOUBLES = {
    "nodes": [
        node("MatMul", ["x", "w"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("Cast", ["b"], ["c"], to=11),
        node("Exp", ["c"], ["d"]),
        node("Cast", ["d"], ["e"], to=1),
        node("MatMul", ["e", "w"], ["y"]),
    ],
    "inputs": [("x", "float32", ["N", 16])],
    "outputs": [("y", "float32", ["N", 16]), ("d", "float64", ["N", 16])],
    "constants": {"w": WEIGHTS},
}


def test_what_only_the_host_takes(tmp_path):
    device, host = both_ways(tmp_path, **DOUBLES)
    session = device.session(profile=True)
    for rows in (1, 7, 64, 7):
        x = np.random.default_rng(rows).standard_normal((rows, 16)).astype("f") / 4
        found, expected = session.run({"x": x}), host.run({"x": x})
        for name in ("y", "d"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-5, err_msg=name)
    rows = session.profile()
    kinds = {(row.engine, row.name.partition("_")[0]) for row in rows}
    assert {("tec", "k000"), ("host", "h000")} <= kinds, kinds
    launches = [row for row in rows if row.engine == "host" and row.name.startswith("h0")]
    assert len(launches) >= 4, kinds
    copies = [row for row in rows if row.engine == "dma"]
    assert {row.name for row in copies} == {"copy to host", "copy from host"}


@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("by", ["scales", "sizes"])
def test_resize_of_known_shapes_needs_no_float64(tmp_path, mode, coordinates, by):
    """Positions are float64, which the NPU lacks: they are worked out when converting, to the same numbers."""
    given = [1, 1, 1.7, 0.6] if by == "scales" else [1, 3, 11, 9]
    model = {
        "nodes": [
            node(
                "Resize",
                ["x", "", "s"] if by == "scales" else ["x", "", "", "s"],
                ["y"],
                mode=mode,
                coordinate_transformation_mode=coordinates,
                exclude_outside=int(mode == "cubic"),
            )
        ],
        "inputs": [("x", "float32", (1, 3, 8, 13))],
        "outputs": [("y", "float32", (1, 3, 13, 7) if by == "scales" else given)],
        "constants": {"s": np.array(given, "f" if by == "scales" else "int64")},
    }
    device, host = both_ways(tmp_path, **model)
    session = device.session(profile=True)
    x = np.random.default_rng(5).standard_normal((1, 3, 8, 13)).astype("f")
    np.testing.assert_array_equal(session.run({"x": x})["y"], host.run({"x": x})["y"])
    assert not [row for row in session.profile() if row.engine == "host" and row.name.startswith("h0")]


def test_resize_of_an_extent_that_only_a_run_knows(tmp_path):
    model = {
        "nodes": [node("Resize", ["x", "", "s"], ["y"], mode="linear")],
        "inputs": [("x", "float32", (1, 3, "H", 13))],
        "outputs": [("y", "float32", (1, 3, "h", 26))],
        "constants": {"s": np.array([1, 1, 2, 2], "f")},
    }
    device, host = both_ways(tmp_path, **model)
    for height in (1, 5, 8):
        x = np.random.default_rng(height).standard_normal((1, 3, height, 13)).astype("f")
        np.testing.assert_allclose(device.run({"x": x})["y"], host.run({"x": x})["y"], rtol=1e-6, atol=1e-6)


def test_virtual_time_has_no_microseconds_of_the_host(tmp_path):
    path = convert(tmp_path, **DOUBLES)
    session = aipu.load(path).session(profile=True, cycles=True)
    session.run({"x": np.zeros((5, 16), "f")})
    rows = session.profile()
    host = [row for row in rows if row.engine == "host"]
    others = [row for row in rows if row.engine in ("tec", "dma")]
    assert host and others and all(row.cycles > 0 for row in others)
    assert len({row.cycles for row in host}) == 1  # what the target says a command of the host takes
    assert session.cycles >= max(row.start_cycles + row.cycles for row in others)


@pytest.mark.parametrize("backend", BACKENDS)
def test_back_ends(tmp_path, backend):
    """Those that need no compiled kernels run the host's with the others."""
    path = convert(tmp_path, **DOUBLES)
    x = np.linspace(-1, 1, 48, dtype="f").reshape(3, 16)
    found = aipu.load(path, backend=backend).run({"x": x})
    assert found["y"].shape == (3, 16)
    if backend != "null":
        expected = aipu.load(path).run({"x": x})
        for name in ("y", "d"):
            np.testing.assert_array_equal(found[name], expected[name])


def test_extents_that_data_decides(tmp_path):
    nodes = [
        node("Mul", ["x", "two"], ["a"]),
        node("Unique", ["a"], ["u", "", "inverse", "counts"], sorted=1),
        node("MatMul", ["rows", "w"], ["r"]),
        node("Gather", ["r", "inverse"], ["g"]),
        node("Relu", ["g"], ["y"]),
    ]
    inputs = [("x", "float32", ["N"]), ("rows", "float32", ["R", 16])]
    outputs = [("u", "float32", ["U"]), ("counts", "int64", ["U"]), ("y", "float32", ["N", 16])]
    device, host = both_ways(tmp_path, nodes, inputs, outputs, {"two": np.array(2, "f"), "w": WEIGHTS})
    session = device.session()
    for values in ([1, 3, 1, 2], [5], [2, 2, 2, 2, 2, 7], [4, 3, 2, 1]):
        feed = {"x": np.array(values, "f"), "rows": np.random.default_rng(1).standard_normal((8, 16)).astype("f")}
        found, expected = session.run(feed), host.run(feed)
        for name in ("u", "counts"):
            np.testing.assert_array_equal(found[name], expected[name])
        np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-5, atol=1e-5)


def test_non_maximum_suppression(tmp_path):
    nodes = [
        node("Sigmoid", ["logits"], ["scores"]),
        node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "least"], ["y"]),
    ]
    inputs = [("boxes", "float32", ["B", "N", 4]), ("logits", "float32", ["B", 2, "N"])]
    constants = {"most": np.array(3, np.int64), "iou": np.array(0.4, "f"), "least": np.array(0.3, "f")}
    device, host = both_ways(tmp_path, nodes, inputs, [("y", "int64", ["S", 3])], constants)
    session = device.session()
    for batch, count, seed in ((1, 20, 0), (3, 50, 1), (1, 1, 2)):
        random = np.random.default_rng(seed)
        corners = random.random((batch, count, 2)).astype("f")
        feed = {
            "boxes": np.concatenate([corners, corners + random.random((batch, count, 2)).astype("f")], axis=2),
            "logits": random.standard_normal((batch, 2, count)).astype("f"),
        }
        np.testing.assert_array_equal(session.run(feed)["y"], host.run(feed)["y"])


def test_strings(tmp_path):
    nodes = [
        node("StringConcat", ["a", "b"], ["c"]),
        node("Equal", ["c", "wanted"], ["same"]),
        node("Where", ["same", "x", "zero"], ["kept"]),
        node("MatMul", ["kept", "w"], ["y"]),
    ]
    inputs = [("a", "object", ["N", 1]), ("b", "object", ["N", 1]), ("x", "float32", ["N", 16])]
    outputs = [("y", "float32", ["N", 16]), ("c", "object", ["N", 1])]
    constants = {"w": WEIGHTS, "zero": np.array(0, "f"), "wanted": np.array(["ab"], object)}
    device, host = both_ways(tmp_path, nodes, inputs, outputs, constants)
    feed = {
        "a": np.array([["a"], ["x"], [""]], object),
        "b": np.array([["b"], ["b"], ["ab"]], object),
        "x": np.random.default_rng(2).standard_normal((3, 16)).astype("f"),
    }
    found, expected = device.run(feed), host.run(feed)
    assert found["c"].tolist() == expected["c"].tolist() == [["ab"], ["xb"], ["ab"]]
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-5, atol=1e-5)


def test_a_fault_of_the_host_names_the_node(tmp_path):
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Cast", ["a"], ["d"], to=11),
        node("Gather", ["d", "i"], ["g"]),
        node("Cast", ["g"], ["y"], to=1),
    ]
    inputs = [("x", "float32", ["N", 16]), ("i", "int64", ["K"])]
    device, host = both_ways(tmp_path, nodes, inputs, [("y", "float32", ["K", 16])], {"w": WEIGHTS})
    session = device.session()
    x = np.ones((4, 16), "f")
    for index in (2, 9, 3):
        feed = {"x": x, "i": np.array([0, index], np.int64)}
        if index < 4:
            np.testing.assert_allclose(session.run(feed)["y"], host.run(feed)["y"], rtol=1e-5)
            continue
        with pytest.raises((ValueError, RuntimeError), match="g_node.*9"):
            session.run(feed)


def test_what_the_tools_show(tmp_path):
    path = convert(tmp_path, **DOUBLES, dump_ir=tmp_path / "ir")
    groups = (tmp_path / "ir/groups.txt").read_text()
    assert " on X2_1204: " in groups and " on host-" in groups
    assert "it computes with float64, for which X2_1204 has no instructions" in groups
    crossings = [line for line in groups.splitlines() if line.startswith("crosses to ")]
    assert len(crossings) == 2 and "at a cost of" in crossings[0]
    plan = (tmp_path / "ir/plan.txt").read_text()
    assert " on the host" in plan and " launch h000_" in plan and "kernels of host-" in plan
    dump = [PROGRAMS / "aipudump", path]
    summary = subprocess.run(dump, check=True, capture_output=True, text=True).stdout
    assert "for X2_1204+host-" in summary and "1 copies to the host, 1 from it" in summary
    subprocess.run([*dump, "--verify"], check=True, capture_output=True)
    command = [PROGRAMS / "aipugb", tmp_path / "m.onnx", "--target", BOTH, "--explain"]
    explained = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "elementwise on host-" in explained and " on X2_1204" in explained


def test_little_neighbours_come_along(tmp_path):
    """The negation between two nodes of the host does not go to the device."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Cast", ["a"], ["b"], to=11),
        node("Sin", ["b"], ["s"]),
        node("Cast", ["s"], ["c"], to=1),
        node("Neg", ["c"], ["d"]),
        node("Cast", ["d"], ["e"], to=11),
        node("Exp", ["e"], ["f"]),
        node("Cast", ["f"], ["g"], to=1),
        node("MatMul", ["g", "w"], ["y"]),
    ]
    inputs, outputs = [("x", "float32", [512, 16])], [("y", "float32", [512, 16])]
    convert(tmp_path, nodes, inputs, outputs, {"w": WEIGHTS}, dump_ir=tmp_path / "ir")
    groups = (tmp_path / "ir/groups.txt").read_text()
    assert len([line for line in groups.splitlines() if line.startswith("crosses to ")]) == 2, groups


@pytest.mark.parametrize(
    "target, message",
    [
        ("X2_1204+cuda", "'cuda' is no host"),
        ("host+host", "is no device that a host computes beside"),
        ("cuda+host", "is no device that a host computes beside"),
        ("X2_1204+X2_1204", "'X2_1204' is no host"),
        ("X2_1204+host+host", "at most two targets"),
        ("X2_1204+nobody", 'unknown target "nobody"'),
        ("nobody+host", 'unknown target "nobody"'),
        ("X2_1204+", 'unknown target ""'),
    ],
)
def test_what_is_refused(tmp_path, target, message):
    with pytest.raises((ValueError, RuntimeError)) as error:
        convert(tmp_path, **DOUBLES, target=target)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("target", ["X2_1204MP3+host-baseline", "X3P_1304+host"])
def test_other_pairs(tmp_path, target):
    path = convert(tmp_path, **DOUBLES, target=target)
    expected = aipu.load(convert(tmp_path, **DOUBLES, target="host")).run({"x": np.ones((6, 16), "f")})
    found = aipu.load(path).run({"x": np.ones((6, 16), "f")})
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-5, atol=1e-5)
