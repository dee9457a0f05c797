"""A small library of operators, each a line or two of tensor expression, with the meaning and the names of NumPy."""

from . import generic, nn, testing, utils
from ._core import *  # noqa: F403
from ._search import *  # noqa: F403
from ._shapes import *  # noqa: F403
from ._shapes import matmul
from ._spatial import scatter_nd, searchsorted
from .generic import default_schedule
from .utils import TAGS as tag

__all__ = ["default_schedule", "generic", "matmul", "nn", "scatter_nd", "searchsorted", "tag", "testing", "utils"]
