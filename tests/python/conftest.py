"""Each test has a folder of its own to build in."""

import pytest


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("CPS_DSL", "CPS_TVM_GBUILDER_TARGET", "CPS_TVM_PYSIM_SINGLE_THREAD"):
        monkeypatch.delenv(name, raising=False)
