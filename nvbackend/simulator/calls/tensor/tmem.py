"""The tensor memory of a wave: its cells, who has allocated which columns, and what is in flight on it."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics import Rule
from nvbackend.simulator.events import Access, By, Kind, Pending
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.sync.faults import fail
from nvbackend.simulator.tensor.tensor_memory import COLUMNS, LANES

Array = NDArray[Any]

TENSOR_MEMORY = Rule(
    id="simulator.tensor-memory",
    message="{what} of {thread}: {problem}",
    fix="{fix}",
    why="The access is undefined: it reads or overwrites another tile, or ends the launch.",
    reference="PTX ISA 9.7.16.7 (alloc), 9.7.16.8.1 (access restrictions)",
)
_CELL_BYTES = 4
_INSIDE = "stay within the columns that tcgen05.alloc gave, and within the lanes of the warp"
_FILLED = "write these columns before they are read, or read only those that are written"
_BEFORE = "allocate before tcgen05.relinquish_alloc_permit, which comes after the last allocation"
_SIZES = "allocate a power of two from 32 to 512 columns"
_WHOLE = "free each allocation once, with the address and the columns that tcgen05.alloc gave"


class TensorMemory:
    """`wave.part(TensorMemory)`: 128 lanes x 512 columns of 32 bits for each CTA of the wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._cells: NDArray[np.uint32] = np.zeros((wave.cta_count, LANES, COLUMNS), np.uint32)
        self._written: NDArray[np.bool_] = np.zeros(self._cells.shape, bool)
        self._owner: NDArray[np.int64] = np.full((wave.cta_count, COLUMNS), -1)
        """The first column of the allocation that each column is in."""
        self.most = 0
        """The most columns that a CTA has had at a time."""
        self.relinquished: set[int] = set()
        self.last: dict[int, Pending] = {}
        """The last mma, cp or shift of each CTA: they complete in order."""

    def room(self, cta: int, columns: int) -> int | None:
        """The first column of the lowest place for an allocation."""
        free = self._owner[cta] < 0
        starts = (start for start in range(0, COLUMNS, columns) if free[start : start + columns].all())
        return next(starts, None)

    def allocate(self, by: By, cta: int, columns: int) -> int:
        """The address of so many columns; there is room. Raises simulator.tensor-memory."""
        if columns not in (32, 64, 128, 256, 512):
            self.refuse(by, f"{columns} columns; an allocation has 32, 64, 128, 256 or 512", _SIZES)
        if cta in self.relinquished:
            self.refuse(by, "the CTA has given up its right to allocate", _BEFORE)
        start = self.room(cta, columns)
        assert start is not None
        self._owner[cta, start : start + columns] = start
        self.most = max(self.most, int((self._owner[cta] >= 0).sum()))
        self._written[cta, :, start : start + columns] = False
        return start

    def free(self, by: By, cta: int, address: int, columns: int) -> None:
        """End an allocation. Raises simulator.tensor-memory."""
        owner = self._owner[cta]
        if address >= COLUMNS or columns < 1 or int((owner == address).sum()) != columns:
            self.refuse(by, f"no allocation of {columns} columns is at address {address:#x}", _WHOLE)
        lane, column = np.arange(LANES)[:, None], np.flatnonzero(owner == address)[None]
        self._tell(by, "write", cta, lane, column)
        owner[owner == address] = -1

    def read(self, by: By, cta: int, lane: Array, column: Array) -> Array:
        """The words of cells. Raises simulator.tensor-memory, for cells that nothing has written too."""
        self._check(by, cta, lane, column)
        if not self._written[cta, lane, column].all():
            place = tuple(np.argwhere(~self._written[cta, lane, column])[0])
            lanes, columns = np.broadcast_arrays(lane, column)
            self.refuse(by, f"nothing has written lane {lanes[place]}, column {columns[place]}", _FILLED)
        self._tell(by, "read", cta, lane, column)
        found: Array = self._cells[cta, lane, column]
        return found

    def write(self, by: By, cta: int, lane: Array, column: Array, words: Array) -> None:
        """Set cells. Raises simulator.tensor-memory."""
        self._check(by, cta, lane, column)
        self._cells[cta, lane, column] = words
        self._written[cta, lane, column] = True
        self._tell(by, "write", cta, lane, column)

    def _check(self, by: By, cta: int, lane: Array, column: Array) -> None:
        if not column.size:
            return
        if lane.min() < 0 or lane.max() >= LANES or column.min() < 0 or column.max() >= COLUMNS:
            highest = f"lane {lane.max()}, column {column.max()}"
            self.refuse(by, f"{highest} is outside of the {LANES} lanes and {COLUMNS} columns")
        owners = self._owner[cta, np.unique(column)]
        if (owners < 0).any():
            free = int(np.unique(column)[owners < 0][0])
            self.refuse(by, f"column {free} is in no allocation")

    def _tell(self, by: By, kind: Kind, cta: int, lane: Array, column: Array) -> None:
        if not self._wave.observers:
            return
        lane, column = np.broadcast_arrays(lane, column)
        addresses = ((lane.astype(np.uint64) << np.uint64(16)) | column.astype(np.uint64)).ravel()
        access = Access(by, kind, "tensor", addresses, _CELL_BYTES, np.full(addresses.shape, cta))
        for observer in self._wave.observers:
            observer.access(access)

    def refuse(self, by: By, problem: str, fix: str = _INSIDE) -> NoReturn:
        """Raise simulator.tensor-memory."""
        fail(TENSOR_MEMORY, self._wave, by, problem=problem, fix=fix)
