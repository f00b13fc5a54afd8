"""What one copy moves: pieces of equal size, each with its place in the source and in the destination."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass

Addresses = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Moves:
    """`size` bytes at each of `tensor` (global memory) belong to those at the same index of `shared`.

    Where `inside` is False the piece lies outside of the tensor: a load fills it, a store leaves it out. `pitch` is
    what a piece takes in shared memory, more than `size` where packed values are padded. Arrays have the shape
    (pieces,).
    """

    tensor: Addresses
    shared: Addresses
    inside: NDArray[np.bool_]
    size: int
    pitch: int

    @property
    def bytes(self) -> int:
        """The bytes of the whole box in shared memory, which a load counts on its mbarrier, inside or not."""
        return int(self.inside.size) * self.pitch


def outer(*terms: Addresses) -> Addresses:
    """Every sum of one value of each term, in one dimension; the last term varies fastest."""
    total = np.zeros(1, np.int64)
    for term in terms:
        total = (total[:, None] + term[None, :]).reshape(-1)
    return total


def every(*terms: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The conjunctions, in the order of `outer`."""
    total = np.ones(1, np.bool_)
    for term in terms:
        total = (total[:, None] & term[None, :]).reshape(-1)
    return total
