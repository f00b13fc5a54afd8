"""Sums that a loop over tiles carries from one tile into the next, as the builder goes from line to line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from llvmlite import ir

from nvbackend.builder.scopes.blocks import LOOPS, Region
from nvbackend.diagnostics import Diagnostic, Location, caller_location
from nvbackend.isel.protocols.carried.rules import CARRIED, CARRIED_BY_GRID

DRAWN, DEALT = "drawn", "dealt"
"""Of a loop over tiles: the CTA takes what comes, by timing; or its rounds step by the number of CTAs."""
_EXTENTS = ("llvm.nvvm.read.ptx.sreg.nctaid.", "llvm.nvvm.read.ptx.sreg.nclusterid.")
_INTEGERS = ("add", "sub", "mul", "udiv", "sdiv", "shl", "lshr", "ashr")
_DEPTH = 6


class Carried:
    """In which blocks products are added to registers, which begin anew there, and where they are read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._begun: set[Region] = set()
        self._added_to: set[Region] = set()
        self._reads: dict[Region, tuple[Location | None, frozenset[ir.Value]]] = {}
        """Of each loop the first read whose values are not just added to: where it is, and the values."""
        self._own: set[ir.Value] = set()
        """All values that they were read to have."""

    def begin(self, regions: Iterable[Region]) -> None:
        """Inside these blocks, what the registers held before no longer counts."""
        self._begun.update(regions)

    def add(self, regions: Iterable[Region]) -> None:
        """Inside these blocks, products are added to what is there."""
        self._added_to.update(regions)

    def set(self, regions: Iterable[Region], values: Sequence[ir.Value]) -> None:
        """They get other values inside these blocks, which may be sums of what they held before and of products."""
        terms = _Terms(self._own)
        parts = [terms.of(value) for value in values]
        if not all(parts):
            self.begin(regions)
            return
        self.add(regions)
        used = frozenset().union(*parts)
        self._reads = {region: read for region, read in self._reads.items() if used.isdisjoint(read[1])}

    def read(self, regions: Sequence[Region], values: Iterable[ir.Value]) -> None:
        """They are read inside these blocks: of a loop around, in every round, if no branch is between the two."""
        own = frozenset(value for value in values if isinstance(value, ir.Instruction))
        self._own |= own
        for region in reversed(regions):
            if region.kind in LOOPS and region not in self._reads:
                self._reads[region] = caller_location(), own
            elif region.kind not in (*LOOPS, "function"):
                return

    def goes_on_in(self, region: Region) -> bool:
        """Whether products are added inside of a block in which nothing lets them begin anew."""
        return region in self._added_to - self._begun

    def faults(self) -> Iterator[tuple[Region, Location | None]]:
        """The loops over tiles that read the sums of earlier tiles, and where."""
        for region, (place, _) in self._reads.items():
            if region.tiles is not None and self.goes_on_in(region):
                yield region, place


class Sums(Protocol):
    """What keeps the sums of a kernel."""

    sums: list[Carried]


def carried_sums(k: Sums) -> Iterator[Diagnostic]:
    """accumulator.carried and accumulator.carried-by-grid: once for each line and loop."""
    seen: set[tuple[Region, Location | None]] = set()
    for each in k.sums:
        for region, place in each.faults():
            if (region, place) not in seen:
                seen.add((region, place))
                rule = CARRIED if region.tiles == DRAWN else CARRIED_BY_GRID
                yield rule.diagnose(at=place, accumulator=each.name, block=region.describe())


def over_tiles(regions: Sequence[Region], kind: str) -> None:
    """The innermost loop of these blocks is one over tiles."""
    for region in reversed(regions):
        if region.kind in LOOPS:
            region.tiles = region.tiles or kind
            return


def steps_by_grid(value: ir.Value, depth: int = _DEPTH) -> bool:
    """Whether a number is computed of the number of CTAs or clusters of the grid."""
    if isinstance(value, ir.CallInstr):
        return str(getattr(value.callee, "name", "")).startswith(_EXTENTS)
    if not isinstance(value, ir.Instruction) or not depth:
        return False
    if value.opname not in _INTEGERS and not isinstance(value, ir.CastInstr | ir.ExtractValue):
        return False
    operands = [value.aggregate] if isinstance(value, ir.ExtractValue) else value.operands
    return any(steps_by_grid(operand, depth - 1) for operand in operands)


class _Terms:
    """Which of some values are terms of a sum. Many registers come of one call, which is looked at once."""

    def __init__(self, own: Collection[ir.Value]) -> None:
        self._own = own
        self._found: dict[tuple[ir.Value, int], frozenset[ir.Value]] = {}

    def of(self, value: ir.Value, depth: int = _DEPTH) -> frozenset[ir.Value]:
        """The values that are a term of the sum that `value` certainly is."""
        if not isinstance(value, ir.Instruction):
            return frozenset()
        if value in self._own:
            return frozenset((value,))
        key = value, depth
        if key not in self._found:
            parts = (self.of(term, depth - 1) for term in (_terms(value) if depth else ()))
            self._found[key] = frozenset().union(*parts)
        return self._found[key]


def _terms(value: ir.Value) -> tuple[ir.Value, ...]:
    """What is added up in a value."""
    if isinstance(value, ir.ExtractValue):
        return (value.aggregate,)
    if isinstance(value, ir.CastInstr):
        return tuple(value.operands)
    if isinstance(value, ir.CallInstr):
        name = str(getattr(value.callee, "name", value.callee))
        return tuple(value.args[-1:] if ".fma" in name else value.args if "mma." in name else ())
    adds = isinstance(value, ir.Instruction) and value.opname in ("fadd", "add")
    return tuple(value.operands) if adds else ()
