"""Two models beside each other, layer by layer: how far apart their values are, and which layer makes the difference.

``python -m aipu.diff A B --data DIR`` is the program.
"""

from ._compare import Difference, Layer, compare
from ._sides import Side

__all__ = ["Difference", "Layer", "Side", "compare"]
