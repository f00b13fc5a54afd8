"""The multiplication of fragments as a list of instructions: cute::gemm.

The outer level walks over MMA_M, MMA_N and MMA_K of the fragments, k outermost; what is left of them at one (m, n, k)
is what one instruction takes, an `Issue`. CUTLASS include/cute/algorithm/gemm.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from nvbackend.atoms import Residency
from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.brief import short_repr
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.layout import rank, size
from nvbackend.tiled.fragment import Fragment
from nvbackend.tiled.operand import MmaOperand
from nvbackend.tiled.rules import GEMM
from nvbackend.tiled.tiled_mma import TiledMMA

_BYTE_BITS = 8
_DESCRIPTOR_BYTES = 8


@user_facing
@dataclass(frozen=True)
class Issue:
    """One instruction: CuTe's dispatch of (V) x (V) => (V).

    `a`, `b` and `c` are the fragments at (m, k), (n, k) and (m, n), of one mode. With `scale_d` 0 the accumulator is
    not read: D = A * B; it may be a builder's value.
    """

    m: int
    n: int
    k: int
    a: Fragment
    b: Fragment
    c: Fragment
    scale_d: Any = 1

    __repr__ = short_repr


@user_facing
def gemm(tiled_mma: TiledMMA, a: Fragment, b: Fragment, c: Fragment, *, scale_d: Any = 1) -> tuple[Issue, ...]:
    """The instructions of cute::gemm(tiled_mma, tCrA, tCrB, tCrC) in CuTe's order, MMA_M * MMA_N * MMA_K of them.

    The fragments are (V, MMA_M, MMA_K), (V, MMA_N, MMA_K) and (V, MMA_M, MMA_N): of a tile with stages, give one stage,
    `tCrA(_, _, _, stage)`. `scale_d` is that of the first k, for which 0 makes the accumulators need no zeros. Raises
    tiled-mma.gemm.
    """
    steps = check_fragments(tiled_mma, a, b, c)
    return tuple(issue for k in range(steps) for issue in outer_product(tiled_mma, a, b, c, k, 1 if k else scale_d))


def outer_product(tiled_mma: TiledMMA, a: Fragment, b: Fragment, c: Fragment, k: int, scale_d: Any) -> Iterator[Issue]:
    """The instructions of one k: CuTe's dispatch of (V, M) x (V, N) => (V, M, N)."""
    for m, n in traversal(size(c.layout, 1), size(c.layout, 2), _bytes(tiled_mma, a), _bytes(tiled_mma, b)):
        yield Issue(m, n, k, a(None, m, k), b(None, n, k), c(None, m, n), scale_d)


def traversal(rows: int, columns: int, a_bytes: int, b_bytes: int) -> Iterator[tuple[int, int]]:
    """(m, n) in the order in which CuTe walks over them, by the bytes of A and B that a thread gives an instruction.

    It goes to and fro, so that an operand is the same as in the instruction before: along n where A has 8 bytes, along
    n in pairs of rows where both have 4, else along m.
    """
    if a_bytes == 8 and b_bytes in (4, 8):
        for m in range(rows):
            yield from ((m, _to_and_fro(n, columns, back=bool(m & 1))) for n in range(columns))
    elif a_bytes == b_bytes == 4:
        for first in range(0, rows, 2):
            for n in range(columns):
                there = _to_and_fro(n, columns, back=bool(first & 2))
                yield from ((m, there) for m in range(first, min(first + 2, rows)))
    else:
        for n in range(columns):
            yield from ((_to_and_fro(m, rows, back=bool(n & 1)), n) for m in range(rows))


def _to_and_fro(index: int, count: int, *, back: bool) -> int:
    return count - 1 - index if back else index


def _bytes(tiled_mma: TiledMMA, fragment: Fragment) -> int:
    """The bytes that a thread gives one instruction, as C++ counts them: an element takes at least one."""
    if fragment.residency is Residency.SHARED_DESCRIPTOR:
        return _DESCRIPTOR_BYTES
    element = fragment.operand.element_of(tiled_mma.atom)
    return size(fragment.layout, 0) * max(1, element.bits // _BYTE_BITS)


def check_fragments(tiled_mma: TiledMMA, a: Fragment, b: Fragment, c: Fragment, *, split: bool = False) -> int:
    """The number of steps along K. With `split`, C has a fourth mode. Raises tiled-mma.gemm."""

    def fail(problem: str, instead: str) -> NoReturn:
        GEMM.fail(a=a.layout, b=b.layout, c=c.layout, mma=tiled_mma, problem=problem, instead=instead)

    order = (a.operand, b.operand, c.operand)
    if order != (MmaOperand.A, MmaOperand.B, MmaOperand.C):
        fail(
            f"they are of {', '.join(operand.value for operand in order)}",
            "give the fragment of A, that of B and that of C, in this order",
        )
    for fragment, modes in ((a, 3), (b, 3), (c, 4 if split else 3)):
        if rank(fragment.layout) != modes:
            instead = f"slice it to {modes} modes: one stage of it is fragment(_, _, _, stage)"
            fail(f"that of {fragment.operand.value} has {rank(fragment.layout)} modes", instead)
    for dimension, (fragment, mine), (other, its) in (
        ("M", (a, 1), (c, 1)),
        ("N", (b, 1), (c, 2)),
        ("K", (a, 2), (b, 2)),
    ):
        some, others = size(fragment.layout, mine), size(other.layout, its)
        if some != others:
            counts = f"{fragment.operand.value} has {some} atoms along {dimension}, {other.operand.value} {others}"
            instead = "make them of tiles of the same M, N and K; that of C is tile=(M, N) of k.tiled_mma"
            fail(counts, instead)
    return size(a.layout, 2)
