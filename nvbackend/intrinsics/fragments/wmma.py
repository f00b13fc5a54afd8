"""How much of a matrix each thread of a warp holds for wmma, and how the matrix lies in memory. PTX ISA 9.7.14.4.1-2.

Which thread holds which element is not specified: the ISA leaves it to each architecture, and only wmma.load and
wmma.store know it. What may be done to the registers is the same operation on all of them, in all threads. A shape is
(M, N, K): A is M x K, B is K x N, C and D are M x N.
"""

from __future__ import annotations

from nvbackend.intrinsics.row.row import RegisterClass
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.intrinsics.row.types import ElementType, f16, f32, f64

Shape = tuple[int, int, int]
"""M, N and K in elements."""
MULTIPLICANDS = ("a", "b")
ACCUMULATORS = ("c", "d")
FRAGMENTS = (*MULTIPLICANDS, *ACCUMULATORS)
LAYOUTS = ("row", "col")
"""Whether the elements of a row, or of a column, follow one another in memory."""
_F16_MULTIPLICAND_REGISTERS = 8
"""f16 A and B, of every shape: threads hold copies, where other types have each element once."""
_REGISTERS = {f16: RegisterClass.F16X2, f32: RegisterClass.F32, f64: RegisterClass.F64}


def spelled_shape(shape: Shape) -> str:
    """The shape as PTX writes it: m16n16k16."""
    m, n, k = shape
    return f"m{m}n{n}k{k}"


def extent(fragment: str, shape: Shape) -> tuple[int, int]:
    """Rows and columns, in elements, of the matrix that `fragment` ("a", "b", "c", "d") is of."""
    m, n, k = shape
    return {"a": (m, k), "b": (k, n)}.get(fragment, (m, n))


def contiguous(fragment: str, shape: Shape, layout: str) -> int:
    """Elements that follow one another in memory: of a row or of a column. It is the stride where none is given."""
    rows, columns = extent(fragment, shape)
    return columns if layout == "row" else rows


def register_class(element: ElementType) -> RegisterClass:
    """The class of a fragment's registers: 32 bits wide, save for f64."""
    return _REGISTERS.get(element, RegisterClass.B32)


def register_count(fragment: str, shape: Shape, element: ElementType) -> int:
    """Registers a thread."""
    if element is f16 and fragment in MULTIPLICANDS:
        return _F16_MULTIPLICAND_REGISTERS
    rows, columns = extent(fragment, shape)
    return rows * columns * element.bits // (WARP_SIZE * _register_bits(element))


def fragment_bytes(fragment: str, shape: Shape, element: ElementType) -> int:
    """Bytes a thread holds. Each row (column) of the matrix starts at a multiple of this in memory."""
    return register_count(fragment, shape, element) * _register_bits(element) // 8


def _register_bits(element: ElementType) -> int:
    return max(element.bits, 32)
