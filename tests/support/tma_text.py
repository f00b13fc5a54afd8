"""TMA tensor copies as PTX, every axis crossed, written from the PTX ISA's syntax (9.7.9) and from no table of ours."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from nvbackend.isel.select.tma.request import TmaRequest

DECLARATIONS = ".reg .b64 %rd<4>; .reg .b32 %r<16>; .reg .b16 %rs<8>;"
MODES = (
    *("tile", "tile::gather4", "tile::scatter4"),
    *("im2col", "im2col::w", "im2col::w::128", "im2col_no_offs"),
)
OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
UNDOCUMENTED = {
    ("reduce", "tile::scatter4"): "ptxas takes it; PTX ISA 9.0 lists tile and im2col_no_offs for a reduction"
}
"""Direction and mode that ptxas accepts on some chip, and why there is no row."""


def _coordinates(mode: str, rank: int) -> str:
    count = 5 if mode in ("tile::gather4", "tile::scatter4") else max(rank, 1)
    return "{" + ", ".join(f"%r{4 + index}" for index in range(count)) + "}"


def _offsets(mode: str, rank: int) -> str:
    count = {"im2col": max(rank - 2, 1), "im2col::w": 2, "im2col::w::128": 2}.get(mode, 0)
    return ", {" + ", ".join(f"%rs{1 + index}" for index in range(count)) + "}" if count else ""


def instruction(request: TmaRequest) -> str:
    """The PTX statement of a request, legal or not."""
    mode, rank = request.mode, request.rank
    where = f"[%rd1, {_coordinates(mode, rank)}]"
    offsets = _offsets(mode, rank)
    hint, policy = (".L2::cache_hint", ", %rd2") if request.cache_hint else ("", "")
    if request.direction == "load":
        multicast, mask = (".multicast::cluster", ", %rs7") if request.multicast else ("", "")
        group = "" if request.cta_group is None else f".cta_group::{request.cta_group}"
        name = f"cp.async.bulk.tensor.{rank}d.shared::{request.destination}.global.{mode}.mbarrier::complete_tx::bytes"
        return f"{name}{multicast}{group}{hint} [%r1], {where}, [%r2]{offsets}{mask}{policy};"
    if request.direction == "prefetch":
        return f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.{mode}{hint} {where}{offsets}{policy};"
    if request.direction == "store":
        return f"cp.async.bulk.tensor.{rank}d.global.shared::cta.{mode}.bulk_group{hint} {where}, [%r1]{policy};"
    name = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{request.operation}.{mode}.bulk_group"
    return f"{name}{hint} {where}, [%r1]{policy};"


def neighbourhood() -> Iterator[TmaRequest]:
    """Every combination of the axes, legal on some chip or on none; ranks one beyond either end are in it."""
    for rank, mode, hint in product(range(7), MODES, (False, True)):
        for destination, multicast, group in product(("cluster", "cta"), (False, True), (None, 1, 2)):
            yield TmaRequest(rank, "load", mode, destination, None, multicast, group, hint)
        yield TmaRequest(rank, "prefetch", mode, cache_hint=hint)
        yield TmaRequest(rank, "store", mode, cache_hint=hint)
        for operation in (*OPERATIONS, "mul"):
            yield TmaRequest(rank, "reduce", mode, operation=operation, cache_hint=hint)
