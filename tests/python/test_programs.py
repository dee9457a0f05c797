"""What ends the programs of the package: errors of files and models, and Ctrl-C, are a line and an exit code."""

import importlib
import io
import json
import os
import pathlib

import aipu
import numpy as np
import pytest
from aipu import _arguments, _progress
from onnx_text import node, write_model

# Of each program: a function that its work begins with, and a command line.
PROGRAMS = {
    "aipu.batch": ("aipu.batch.__main__", "run", ["m.onnx", "in.npz", "-o", "out"]),
    "aipudiff": ("aipu.diff.__main__", "compare", ["m.onnx", "m.onnx", "--data", "in.npz"]),
    "aipu.quantization": ("aipu.quantization.__main__", "quantize", ["m.onnx", "in.npz", "-o", "q.onnx"]),
    "aipu.loadgen": ("aipu.loadgen", "run", ["m.onnx", "in.npz", "-o", "out"]),
    "aipu.bench": ("aipu.bench.__main__", "benchmark", ["m.onnx"]),
    "aipu.bench sweep": ("aipu.bench._sweep", "sweep", ["sweep", "m.onnx"]),
    "aipu.bench history": ("aipu.bench._history", "history", ["history", "."]),
    "aipu.bench page": ("aipu.bench._page", "page", ["page", "result.json", "-o", "p.html"]),
    "aipu.bench compare": ("aipu.bench._judge", "read", ["compare", "result.json", "result.json"]),
}


def relu():
    write_model("m.onnx", [node("Relu", ["x"], ["y"])], [("x", "float32", ("N", 2))], [("y", "float32", ("N", 2))])


def ended_by(error, name, monkeypatch):
    """The exit code of a program whose work raises ``error``."""
    module, function, arguments = PROGRAMS[name]

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(importlib.import_module(module), function, fail)
    program = "aipu.bench.__main__" if name.startswith("aipu.bench") else module
    with open("result.json", "w") as file:
        json.dump({"tool": "aipu.bench"}, file)
    relu()
    return importlib.import_module(program).main(arguments)


@pytest.mark.parametrize("name", PROGRAMS)
def test_ctrl_c(name, monkeypatch, capsys):
    assert ended_by(KeyboardInterrupt(), name, monkeypatch) == 130
    told = capsys.readouterr()
    assert told.out == "" and told.err.startswith(f"{name}: ") and told.err.count("\n") == 1


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    "error",
    [OSError("it broke"), RuntimeError("it broke"), ValueError("it broke"), ImportError("it broke"), MemoryError()],
)
def test_errors(name, error, monkeypatch, capsys):
    assert ended_by(error, name, monkeypatch) == (2 if name == "aipu.bench compare" else 1)
    expected = "there is not enough memory" if isinstance(error, MemoryError) else "it broke"
    assert capsys.readouterr().err == f"{name}: {expected}\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_errors_do_not_speak_to_the_terminal(name, monkeypatch, capsys):
    ended_by(ValueError("no item\n'\x1b[2J\udcff'"), name, monkeypatch)
    assert capsys.readouterr().err == f"{name}: no item\\n'\\x1b[2J\\udcff'\n"


def test_names_of_files_do_not_speak_to_the_terminal(capsys):
    relu()
    os.mkdir("items")
    np.save("items/fine.npy", np.ones((1, 2), "float32"))
    pathlib.Path(os.fsdecode(b"items/\x1b[2J\xff.npy")).write_bytes(b"nothing")
    assert importlib.import_module("aipu.batch.__main__").main(["m.onnx", "items", "-o", "out", "-q"]) == 0
    told = capsys.readouterr().out
    assert "2 items: 1 results, 1 broken" in told and "broken: \\x1b[2J\\udcff" in told and "\x1b" not in told


def test_results_are_told_to_people_or_programs(capsys):
    for path, printed in ((None, "a\nb\n"), ("told.json", "a\nb\n"), ("-", '{\n "x": 1\n}\n')):
        _arguments.tell_result(path, ["a", "b"], lambda: {"x": 1})
        assert capsys.readouterr().out == printed
    with open("told.json") as file:
        assert json.load(file) == {"x": 1}


def test_what_nobody_expects_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        _arguments.run_program("p", lambda: 1 // 0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_lines_are_taken_off_however_it_ends():
    for kind in (lambda stream: _progress.ProgressLine("p", stream), lambda s: _progress.Progress(s, 8, 0, lambda: 1)):
        terminal = Terminal()
        with pytest.raises(KeyboardInterrupt), kind(terminal) as line:
            line.show("so far")
            raise KeyboardInterrupt
        assert "so far\x1b[K" in terminal.getvalue() and terminal.getvalue().endswith("\r\x1b[K")
    terminal = Terminal()
    with _progress.Progress(terminal, 8, 0, lambda: 1) as line:
        line.update(8, 0, last=True)
    assert terminal.getvalue().endswith("\x1b[K\n")  # what is said last stays


def test_a_batch_run_takes_its_line_off(monkeypatch):
    relu()
    terminal = Terminal()
    run = aipu.batch._run.Progress.update

    def update(self, done, broken, last=False):
        run(self, done, broken, last)
        self.show("drawn")
        if done >= 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(aipu.batch._run.Progress, "update", update)
    with pytest.raises(KeyboardInterrupt):
        aipu.batch.run("m.onnx", {"x": np.ones((8, 2), np.float32)}, "out", batch=1, chunk=4, progress=terminal)
    assert "drawn" in terminal.getvalue() and terminal.getvalue().endswith("\r\x1b[K")
