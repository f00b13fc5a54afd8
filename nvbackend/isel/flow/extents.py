"""How many bytes of shared memory each row accesses at an address that it is given, as far as that is known.

An extent goes from the address to the last byte that is accessed; where there are gaps between, `dense_extent` counts
the bytes themselves. Of what warps do together, where each lane gives an address, it is the extent at each of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from nvbackend.intrinsics.copy.tensormap import TENSOR_MAP_BYTES
from nvbackend.intrinsics.fragments.wmma import contiguous, extent
from nvbackend.intrinsics.row.row import Operand, Row
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.sync.launch_control import ANSWER_BYTES

BARRIER = "barrier"
SIZE = "bytes"
"""The operand that counts the bytes at all addresses of a bulk copy."""
STRIDE = "stride"
MATRIX_ROW_BYTES = 16
"""What each lane of ldmatrix and stmatrix gives the address of (PTX ISA 9.7.14.5.15)."""

_BARRIER_BYTES = 8
_ALLOCATED_BYTES = 4
"""tcgen05.alloc writes the address of the columns."""
_SIZED = ("cp.async.bulk", "cp.reduce.async.bulk", "st.bulk")
_WMMA = "wmma."
_TCGEN05_MMA = "tcgen05.mma"
Constants = Mapping[str, int]
"""Operands of an instruction that are known at build time, by name."""

NOT_OF_THE_ROW: Mapping[str, str] = {
    "cp.async.bulk.tensor/destination": "the box of the tensor map says it",
    "cp.async.bulk.tensor/source": "the box of the tensor map says it",
    "cp.reduce.async.bulk.tensor/source": "the box of the tensor map says it",
    "wgmma.mma_async/a_desc": "the layout that the descriptor is made of says it",
    "wgmma.mma_async/b_desc": "the layout that the descriptor is made of says it",
    "tcgen05.mma/a_desc": "the layout that the descriptor is made of says it",
    "tcgen05.mma/b_desc": "the layout that the descriptor is made of says it",
    "tcgen05.mma.ws/a_desc": "the layout that the descriptor is made of says it",
    "tcgen05.mma.ws/b_desc": "the layout that the descriptor is made of says it",
    "tcgen05.cp/source": "the strides in the descriptor say it, which the caller packs",
}
"""Accesses, as opcode/operand, whose extent neither the row nor its operands say, with who does."""


def known_extent(row: Row, operand: Operand, constants: Constants) -> int | None:
    """The bytes from the address in `operand` to the end of the access, where row and constants say so."""
    if operand.name == BARRIER:
        return _BARRIER_BYTES
    if row.opcode in _SIZED:
        return constants.get(SIZE)
    if row.opcode.startswith(_WMMA):
        lines, line, bits = _matrix(row)
        stride = constants.get(STRIDE) if row.axes["strided"] else line
        return None if stride is None else ((lines - 1) * stride + line) * bits // 8
    found = _OF_ROWS.get(row.opcode)
    return None if found is None else found(row)


def dense_extent(row: Row, bytes: int) -> int:
    """How many of the `bytes` of an access are accessed for certain: a matrix has gaps between its lines."""
    if row.opcode.startswith(_TCGEN05_MMA):
        return 0  # the layouts of its operands have gaps, and its instruction descriptor says how large they are
    if not row.opcode.startswith(_WMMA):
        return bytes
    lines, line, bits = _matrix(row)
    return min(bytes, lines * line * bits // 8)


@cache
def _matrix(row: Row) -> tuple[int, int, int]:
    """Of wmma: the rows or columns of the matrix, the elements that follow one another in each, and their bits."""
    fragment, shape, layout, element = (row.axes[name] for name in ("fragment", "shape", "layout", "element"))
    assert isinstance(fragment, str)
    assert isinstance(shape, tuple)
    assert isinstance(layout, str)
    assert isinstance(element, ElementType)
    rows, columns = extent(fragment, shape)
    line = contiguous(fragment, shape, layout)
    return rows * columns // line, line, element.bits


def _of_elements(row: Row) -> int:
    """By the PTX name of the type, whose number is that of its bits."""
    bits = int(re.sub(r"\D", "", str(row.axes["element"])))
    return bits // 8 * int(str(row.axes.get("count", 1)))


_OF_ROWS: Mapping[str, Callable[[Row], int]] = {
    "cp.async": lambda row: int(str(row.axes["size"])),
    "ldmatrix": lambda _: MATRIX_ROW_BYTES,
    "stmatrix": lambda _: MATRIX_ROW_BYTES,
    "st.async": _of_elements,
    "red.async": _of_elements,
    "tcgen05.alloc": lambda _: _ALLOCATED_BYTES,
    "tensormap.replace": lambda _: TENSOR_MAP_BYTES,
    "tensormap.cp_fenceproxy": lambda _: TENSOR_MAP_BYTES,
    "clusterlaunchcontrol.try_cancel": lambda _: ANSWER_BYTES,
}
