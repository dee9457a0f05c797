"""The page of supported operators is what the program prints, and true."""

import json
import os
import pathlib
import re
import subprocess

import aipu
import pytest
from onnx_text import node, write_model
from other_python import python_with, run_python

SOURCE = pathlib.Path(os.environ.get("AIPU_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
AIPUGB = os.path.join(os.environ.get("AIPU_BUILD_DIR", "build/release"), "bin", "aipugb")
PAGE = SOURCE / "frontend" / "SUPPORTED_OPS.md"


@pytest.fixture(scope="module")
def printed():
    done = subprocess.run([AIPUGB, "--supported-ops"], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def first_opsets(printed):
    """domain, operator -> the first opset in which it is converted."""
    found, domain = {}, None
    for line in printed.splitlines():
        if line.startswith("## "):
            domain = line[3:]
        row = re.match(r"\| (\w+) \| (\d+) (to|and)", line)
        if row:
            found[domain, row[1]] = int(row[2])
    assert len(found) > 250
    return found


def test_the_page_is_what_is_printed(printed):
    """AIPU_UPDATE_EXPECTED=1 writes it."""
    if os.environ.get("AIPU_UPDATE_EXPECTED"):
        PAGE.write_text(printed)
    assert PAGE.read_text() == printed, "AIPU_UPDATE_EXPECTED=1 pytest test_supported_ops.py writes the page"


def what_is_said(folder, domain, op, opset):
    """The error about a node of which nothing but the name is right."""
    own = "" if domain == "ai.onnx" else domain
    value = [("x", "float32", [2])]
    path = folder / "m.onnx"
    write_model(path, [node(op, ["x"], ["y"], own)], value, [("y", "float32", [2])], opset=17 if own else opset)
    try:
        aipu.build(path, folder / "m.aipu.bin")
    except (RuntimeError, ValueError) as error:
        return str(error)
    return ""


def test_no_operator_is_converted_before_its_first_opset(tmp_path, first_opsets):
    for (domain, op), first in first_opsets.items():
        if domain == "ai.onnx" and first > 1:
            assert "too old" in what_is_said(tmp_path, domain, op, first - 1), op
            assert "too old" not in what_is_said(tmp_path, domain, op, first), op


SCHEMAS = """
import json, onnx
versions = {}
for schema in onnx.defs.get_all_schemas_with_history():
    versions.setdefault(f"{schema.domain or 'ai.onnx'}:{schema.name}", []).append(schema.since_version)
print(json.dumps(versions))
"""


def test_the_list_is_complete(tmp_path, printed, first_opsets):
    """Of ONNX's operators each that is not listed is refused; each that is listed is one, in an opset that has it."""
    (tmp_path / "schemas.py").write_text(SCHEMAS)
    told = json.loads(run_python(python_with("onnx.defs"), tmp_path / "schemas.py"))
    versions = {tuple(name.split(":")): since for name, since in told.items()}
    known = {domain for domain, _ in versions}
    # ONNX Runtime writes it without its domain.
    strays = {key for key in first_opsets if key[0] in known and key not in versions}
    old = {"Affine", "Crop", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh"}  # experiments of ONNX 1.0
    assert strays == {("ai.onnx", op) for op in old | {"SimplifiedLayerNormalization"}}
    experiment = ("ai.onnx", "ThresholdedRelu")  # before opset 10
    for key in first_opsets.keys() & versions.keys() - {experiment}:
        assert first_opsets[key] >= min(versions[key]), key
    for domain, op in versions.keys() - first_opsets.keys():
        said = what_is_said(tmp_path, domain, op, max(versions[domain, op]))
        listed = f"| {domain} | {op} | " in printed
        assert "not supported" in said if listed else "unknown operator" in said, (domain, op, said)


FORMS = """
import json, onnx
from onnx.helper import get_attribute_value

def form(schema):
    attributes = {}
    for name, one in schema.attributes.items():
        default = get_attribute_value(one.default_value) if one.default_value.type else None
        attributes[name] = [str(one.type), one.required, repr(default)]
    return {"since": schema.since_version, "attributes": attributes, "deprecated": schema.deprecated,
            "inputs": [str(one.option).endswith("Single") for one in schema.inputs]}

told = {}
for op in {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}:
    for opset in range(1, 14):
        try:
            told.setdefault(op, {})[opset] = form(onnx.defs.get_schema(op, opset, ""))
        except Exception:
            pass  # it came later, or is gone
print(json.dumps(told))
"""
# A name that was misspelt in its first opset, and bounds that were infinite without a number.
CORRECTED = {("GRU", "direction"), ("Clip", "min"), ("Clip", "max")}


def test_a_node_is_the_same_in_the_opsets_of_one_form(tmp_path):
    (tmp_path / "forms.py").write_text(FORMS)
    told = json.loads(run_python(python_with("onnx.defs"), tmp_path / "forms.py"))
    compared = 0
    for op, forms in told.items():
        opsets = sorted(map(int, forms))
        for old, new in zip(opsets, opsets[1:]):
            since = aipu._native.form_since(op, old)
            if since == 0 or since != aipu._native.form_since(op, new):
                continue
            before, after = forms[str(old)], forms[str(new)]
            compared += before["since"] != after["since"]
            assert before["deprecated"] == after["deprecated"], (op, new)
            for name, attribute in before["attributes"].items():
                if name == "consumed_inputs" or (op, name) in CORRECTED:
                    continue
                assert after["attributes"].get(name, [])[2:] == attribute[2:], (op, new, name)
            for name in after["attributes"].keys() - before["attributes"].keys():
                assert not after["attributes"][name][1], (op, new, name)
            assert len(after["inputs"]) >= len(before["inputs"]), (op, new)
            required = [one for one in after["inputs"] if one]
            assert len(required) <= sum(before["inputs"]), (op, new)
    assert compared > 100


MODELS = """
import sys, warnings
warnings.simplefilter("ignore")
from onnx.backend.test.loader import load_model_tests

def nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes(attribute.g)

kept = {}
for case in load_model_tests(kind="node"):
    if any(value.type.tensor_type.elem_type == 8 for value in case.model.graph.input):
        continue  # strings
    for op in {(node.domain or "ai.onnx", node.op_type) for node in nodes(case.model.graph)}:
        kept.setdefault(op, []).append(case)
for (domain, op), cases in sorted(kept.items()):
    files = [f"{case.name}.onnx" for case in cases[:20]]
    for case, file in zip(cases, files):
        with open(file, "wb") as out:
            out.write(case.model.SerializeToString())
    print(domain, op, *files)
"""


def is_imported(file):
    done = subprocess.run([AIPUGB, file, "--explain"], capture_output=True, text=True, check=False)
    # No model says how long a sequence is, and ONNX's tests give as inputs what models have as constants.
    asks = "--sequence-length" in done.stdout or "must be known when compiling" in done.stdout
    return done.returncode == 0 or asks


def test_what_is_listed_is_imported(tmp_path, monkeypatch, first_opsets):
    """For each of ONNX's operators that its own tests have, one of their first models is imported and claimed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(MODELS)
    rows = [
        line.split()
        for line in run_python(python_with("onnx.backend.test.loader"), tmp_path / "models.py").splitlines()
    ]
    of = {(domain, op): files for domain, op, *files in rows}
    keys = first_opsets.keys() & of.keys()
    assert len(keys) > 150
    assert [key for key in sorted(keys) if not any(map(is_imported, of[key]))] == []
