"""Nothing that a caller says is ignored: wrong kinds of arguments are errors that say what is expected."""

import aipu
import pytest


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"plugins": "center.py"}, TypeError, "plugins: expected a list of files"),
        ({"disabled_passes": "winograd"}, TypeError, "disabled_passes: expected a list of names"),
        ({"shapes": {"x": "1x100"}}, TypeError, r"shapes\['x'\]: expected a list of extents"),
        ({"shapes": {"x": 4}}, TypeError, r"shapes\['x'\]: expected a list of extents"),
        ({"jobs": -1}, ValueError, "jobs: expected a number from 0 to 1024, found -1"),
    ],
)
def test_build_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        aipu.build("none.onnx", **arguments)
