"""Rules on M, N and K of a wgmma instruction. The legal values are in the tables of `intrinsics.mma.wgmma`."""

from __future__ import annotations

from collections.abc import Sequence

from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.mma import wgmma
from nvbackend.isel.select.wgmma.request import Gate, Values, WgmmaRequest
from nvbackend.isel.target.target import Target

M_EXTENT = Rule(
    id="wgmma.m",
    message="WGMMA M is {legal}, not {m}",
    fix="use m={legal} for each warpgroup, and more warpgroups or more instructions for more rows",
    why="The four warps of the warpgroup hold 16 rows each.",
    reference="PTX ISA 9.7.15.2",
)


def _m_holds(request: WgmmaRequest, _: Target) -> bool:
    return request.m == wgmma.M


def _m_values(request: WgmmaRequest, _: Target) -> Values:
    return {"legal": wgmma.M, "m": request.m}


N_STEP = Rule(
    id="wgmma.n-step",
    message="WGMMA N must be a multiple of {step}, not {n}",
    fix="use n={nearest}",
    why="The instruction writes D in blocks of eight columns; no other N has an encoding.",
    reference="PTX ISA 9.7.15.2; ptxas 13.5",
)
N_RANGE = Rule(
    id="wgmma.n-range",
    message="WGMMA N is {lowest} to {highest}, not {n}",
    fix="use n={nearest}, and several instructions for a wider tile",
    why="No other N has an encoding.",
    reference="PTX ISA 9.7.15.2",
)
N_INTEGER = Rule(
    id="wgmma.n-integer",
    message="WGMMA {a} x {b} has no N of {n}: above 32, integer and b1 multiplicands take every second N only",
    fix="use n={nearest}",
    why="ptxas refuses the shape, though one document lists it.",
    reference="PTX ISA 9.7.15.2; ptxas 13.5",
)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _n_step_holds(request: WgmmaRequest, _: Target) -> bool:
    return _is_integer(request.n) and request.n % wgmma.N_STEP == 0


def _n_range_holds(request: WgmmaRequest, _: Target) -> bool:
    return not _is_integer(request.n) or wgmma.N_VALUES[0] <= request.n <= wgmma.N_VALUES[-1]


def _n_integer_holds(request: WgmmaRequest, _: Target) -> bool:
    kind = request.multiplicands
    return kind is None or request.n not in wgmma.N_VALUES or request.n in kind.n


def _n_values(request: WgmmaRequest, _: Target) -> Values:
    kind = request.multiplicands
    legal = sorted(kind.n if kind else wgmma.N_VALUES)
    return {
        "n": request.n,
        "a": request.a,
        "b": request.b,
        "step": wgmma.N_STEP,
        "lowest": legal[0],
        "highest": legal[-1],
        "nearest": _nearest(request.n, legal),
    }


def _nearest(n: int, legal: Sequence[int]) -> str:
    """The legal numbers on either side of `n`."""
    if not _is_integer(n):
        return f"one of {legal[0]} to {legal[-1]}"
    below = [value for value in legal if value < n][-1:]
    above = [value for value in legal if value > n][:1]
    return " or ".join(map(str, below + above))


K_EXTENT = Rule(
    id="wgmma.k",
    message="WGMMA K must be {legal} for {dense} {a} x {b}, not {k}",
    fix="use k={legal} in each instruction, and one instruction for each {legal} columns of A",
    why="An instruction reads 256 bits of each stored row of A; ptxas knows no shape with another K.",
    reference="PTX ISA 9.7.15.2; ptxas 13.5",
)


def _k_holds(request: WgmmaRequest, _: Target) -> bool:
    kind = request.multiplicands
    return kind is None or request.k == kind.k(request.sparse)


def _k_values(request: WgmmaRequest, _: Target) -> Values:
    kind = request.multiplicands
    return {
        "legal": kind.k(request.sparse) if kind else "",
        "dense": "sparse" if request.sparse else "dense",
        "a": request.a,
        "b": request.b,
        "k": request.k,
    }


GATES: tuple[Gate, ...] = (
    Gate(M_EXTENT, _m_holds, _m_values),
    Gate(N_STEP, _n_step_holds, _n_values),
    Gate(N_RANGE, _n_range_holds, _n_values),
    Gate(N_INTEGER, _n_integer_holds, _n_values),
    Gate(K_EXTENT, _k_holds, _k_values),
)
"""The gates on M, N and K."""
