"""Which swizzle TMA wrote a tile with, and whether the descriptor that a multiplication reads it by has the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics import Rule
from nvbackend.simulator.events import Access, Addresses, By, Site
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.sync.faults import fail

SWIZZLE = Rule(
    id="descriptor.swizzle",
    message="{what} of {thread} reads shared address {address:#x} of CTA {cta} by a descriptor with {reads}, and the "
    "TMA load at {writer} wrote it with {writes}",
    fix="use one swizzle for the tensor map, the tile and the descriptor",
    why="The 16-byte chunks of each row are not where the multiplication looks for them: wrong numbers, nothing traps.",
    reference="PTX ISA 5.5.7 (swizzling modes), 9.7.15.5.1 (shared memory layouts)",
)
_CHUNK = 16


class Swizzles:
    """`wave.part(Swizzles)`: of each chunk of 16 bytes, the TMA load that wrote it last."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self.is_watching = False
        """Whether an observer reports the other writes."""
        shape = wave.cta_count, -(-wave.memory.shared.shape.size // _CHUNK) + 1
        self._writer: NDArray[np.int16] = np.zeros(shape, np.int16)
        """The number of the load that wrote each chunk last, 0 where it was another write."""
        self._loads: list[tuple[Site, int]] = []
        self._numbers: dict[tuple[int, int], int] = {}

    def forget(self, access: Access) -> None:
        """Another write: the chunks have no swizzle that is known."""
        if access.kind != "read" and access.space == "shared" and access.owners is not None and self._loads:
            first = access.addresses.astype(np.int64) // _CHUNK
            for further in range(max(access.size // _CHUNK, 1)):
                self._writer[access.owners, first + further] = 0

    def wrote(self, by: By, space: str, addresses: Addresses, span: int) -> None:
        """A TMA load has written pieces with a swizzle of `span` bytes."""
        if not self.is_watching:
            return
        number = self._numbers.get((id(by.site), span))
        if number is None:
            self._loads.append((by.site, span))
            number = self._numbers[id(by.site), span] = len(self._loads)
        owners, offsets = self._wave.locate(by, space, addresses)
        self._writer[owners, offsets // _CHUNK] = number

    def check(self, by: By, space: str, addresses: Addresses, span: int, base: int) -> None:
        """A multiplication reads chunks by a descriptor whose pattern begins at row `base`. Raises descriptor.swizzle.

        What TMA writes begins at row 0.
        """
        if not self._loads:
            return
        owners, offsets = self._wave.locate(by, space, addresses.ravel())
        writers = self._writer[owners, offsets // _CHUNK]
        spans = np.array([span, *(one for _, one in self._loads)])
        late = base & max(span // _CHUNK, 1) - 1
        wrong = np.flatnonzero((spans[writers] != span) | ((writers > 0) & bool(late)))
        if len(wrong):
            lane = int(wrong[0])
            site, written = self._loads[int(writers[lane]) - 1]
            cta = int(np.broadcast_to(owners, offsets.shape)[lane])
            texts = {"reads": _text(span, late), "writes": _text(written), "writer": f"PTX {site}"}
            fail(SWIZZLE, self._wave, by, lane, address=int(offsets[lane]), cta=cta, **texts)


def _text(span: int, base: int = 0) -> str:
    return (f"a swizzle of {span} bytes" if span else "no swizzle") + (f" and base offset {base}" if base else "")
