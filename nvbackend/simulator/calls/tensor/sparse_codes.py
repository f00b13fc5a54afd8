"""The codes of a sparse A that no hardware defines: two indices that are the same, or in the wrong order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics import Rule
from nvbackend.simulator.events import By
from nvbackend.simulator.machine.wave import Wave
from nvbackend.simulator.sync.faults import fail

METADATA = Rule(
    id="simulator.metadata",
    message="{what} of {thread}: the metadata of row {row} of A has 0b{code:04b} for chunk {chunk}: {problem}",
    fix="give each chunk one of {legal}{where}",
    why="The result is undefined: of the two elements that are stored for a chunk one is lost, or both are misplaced.",
    reference="PTX ISA 9.7.14.6.1, 9.7.15.6.1, 9.7.16.10.8 (sparsity metadata)",
)
_ORDERED = (0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110)
_OF_32_BITS = (0b0100, 0b1110)


def check_codes(wave: Wave, by: By, codes: NDArray[Any], width: int, *, in_order: bool = True) -> None:
    """Raise simulator.metadata for the first wrong one of (.., rows, chunks) codes; `width` is that of an element.

    Where they need not be `in_order`, the higher index may come first.
    """
    legal = _OF_32_BITS if width == 32 else _ORDERED
    wrong = ~np.isin(codes, legal)
    if not in_order and width < 32:
        wrong &= codes & 3 == codes >> 2
    if not wrong.any():
        return
    *crew, row, chunk = (int(one) for one in np.argwhere(wrong)[0])
    code = int(codes[(*crew, row, chunk)])
    first, second = code & 3, code >> 2
    if first == second:
        problem = f"both of its indices are {first}"
    elif first > second:
        problem = f"its indices are {first} and {second}, and the lower one comes first, in the lower bits"
    else:
        problem = f"its indices are {first} and {second}, which are the halves of no element of 32 bits"
    named = ", ".join(f"0b{one:04b}" for one in legal)
    where = ", in the threads that the sparsity selector names" if crew else ""
    lane = crew[0] * (len(by.threads) // len(codes)) if crew else 0
    fail(METADATA, wave, by, lane, row=row, code=code, chunk=chunk, problem=problem, legal=named, where=where)
