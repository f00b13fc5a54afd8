"""What of a kernel's arguments is 0 at each launch and after it: counters of tiles, and flags of partial sums."""

from __future__ import annotations

from nvbackend.diagnostics.classes.dataclass import dataclass

ZEROS = "nvb.zeros"
"""The named metadata of a module that lists them: a kernel of the disk cache has nothing else of them."""
COUNTER, FLAGS = "counter of dynamic tiles", "flags of partial sums"


@dataclass(frozen=True, slots=True)
class Zeros:
    """Words of 32 bits from a byte of a parameter's array on: so many, and so many for each CTA of the grid.

    The parameter is the `place`-th one of a `kernel`: a module may have several, and arguments of an attached function
    any names.
    """

    kernel: str
    place: int
    first: int
    words: int
    of_each_cta: int
    what: str

    def texts(self) -> list[str]:
        """They as the metadata has them."""
        numbers = self.place, self.first, self.words, self.of_each_cta
        return [self.kernel, *map(str, numbers), self.what]
