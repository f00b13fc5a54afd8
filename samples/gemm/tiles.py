"""How the tiles of a choice cover what is multiplied: C, or C^T where A is the right operand."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Tiled(ABC):
    """A choice of tiles, in clusters of `cluster` one above the other; `swapped`, they are those of C^T."""

    columns: int
    swapped: bool
    cluster: int = 1

    @property
    @abstractmethod
    def rows(self) -> int:
        """Rows of a tile."""

    def sides(self, m: int, n: int) -> tuple[int, int]:
        """Rows and columns of what is multiplied: C or C^T."""
        return (n, m) if self.swapped else (m, n)

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Tiles one above the other, in whole clusters, and side by side."""
        height, width = self.sides(m, n)
        return -(-height // (self.rows * self.cluster)) * self.cluster, -(-width // self.columns)
