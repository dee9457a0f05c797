"""``from tvm import aipu`` for programs that were written for the reference tool chain.

Only for those who put the folder above on their path (``PYTHONPATH=frontend/python/compat``): no build, package or
installation does, so that a TVM that is installed stays what ``tvm`` means. There is nothing of TVM here but the name.
"""

import contextlib
import importlib
import pkgutil
import sys

import aipu

# Under both names each module is the same object: `tvm.aipu.script.i32` is `aipu.script.i32`.
sys.modules[f"{__name__}.aipu"] = aipu
for _module in pkgutil.walk_packages(aipu.__path__, "aipu."):
    if not _module.name.rpartition(".")[2].startswith("_"):
        with contextlib.suppress(ImportError):  # of a package that the module needs and that is not installed
            sys.modules[f"{__name__}.{_module.name}"] = importlib.import_module(_module.name)

__all__ = ["aipu"]
