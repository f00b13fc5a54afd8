"""Copies of runs of bytes: the sizes and alignments that cp.async and cp.async.bulk take. PTX ISA 9.7.9."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from nvbackend.simulator.copies.rules import COPY_SIZE

BULK_UNIT: Final = 16
"""Bytes: what sizes and addresses of a bulk copy are multiples of."""
ASYNC_SIZES: Final = {"ca": (4, 8, 16), "cg": (16,)}
"""The bytes that one cp.async copies, by the level of the cache."""
ST_BULK_UNIT: Final = 8


def check_bulk(what: str, size: int, *, unit: int = BULK_UNIT, **addresses: int) -> None:
    """Refuse a bulk copy of `size` bytes between `addresses` (by name). Raises simulator.copy-size."""
    if size < 0 or size % unit:
        COPY_SIZE.fail(
            what=what, problem=f"it copies {size} bytes, not a multiple of {unit}", fix=f"copy whole units of {unit}"
        )
    for name, address in addresses.items():
        if address % unit:
            COPY_SIZE.fail(
                what=what,
                problem=f"its {name} is at {address:#x}, not at a multiple of {unit}",
                fix=f"align it to {unit} bytes",
            )


def copied_bytes(size: int, mask: int | None) -> NDArray[np.bool_]:
    """Which of `size` bytes are copied: with .cp_mask byte i of each 16 where bit i of `mask` is set."""
    if mask is None:
        return np.ones(size, np.bool_)
    bits = (mask >> np.arange(BULK_UNIT)) & 1 != 0
    return np.tile(bits, size // BULK_UNIT)


def check_async(what: str, level: str, size: int) -> None:
    """Refuse a size that cp.async does not have. Raises simulator.copy-size."""
    if size not in ASYNC_SIZES[level]:
        sizes = ", ".join(map(str, ASYNC_SIZES[level]))
        COPY_SIZE.fail(what=what, problem=f"it copies {size} bytes", fix=f"copy one of {sizes} bytes")


def read_sizes(
    what: str, size: int, source_sizes: NDArray[np.uint32] | None, ignored: NDArray[np.bool_] | None, lanes: int
) -> NDArray[np.int64]:
    """The bytes that each of `lanes` reads of its source; the rest of its `size` bytes are zeros.

    `source_sizes` is the operand src-size, `ignored` the predicate ignore-src. Raises simulator.copy-size.
    """
    read = np.full(lanes, size, np.int64) if source_sizes is None else source_sizes.astype(np.int64)
    if (read > size).any():
        COPY_SIZE.fail(
            what=what,
            problem=f"src-size is {int(read.max())}, more than the {size} bytes copied",
            fix=f"give at most {size}",
        )
    return read if ignored is None else np.where(ignored, 0, read)
