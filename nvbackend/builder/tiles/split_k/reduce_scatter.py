"""The sums of a tile whose depth the CTAs of a cluster share: each CTA gets those of some of its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import NoReturn

from nvbackend.atoms import atom_of
from nvbackend.builder.core.memory import Address
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.scopes.blocks import LOOPS
from nvbackend.builder.tiles.elements.places import MmaPlaces
from nvbackend.builder.tiles.elements.tile_values import TileValues
from nvbackend.builder.tiles.mma.wgmma import TiledWgmma
from nvbackend.builder.tiles.split_k import rules
from nvbackend.builder.values.accumulator import Accumulator, halves, pack_halves
from nvbackend.builder.values.attributes import KnownAttributes
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import Diagnostic, Location, printed, user_facing
from nvbackend.intrinsics.mma import wgmma
from nvbackend.intrinsics.mma.wgmma import M as ROWS
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE, MbarrierUse, Scope
from nvbackend.intrinsics.row.types import f16, s32, u32
from nvbackend.tiled import MmaOperand, ThrMMA, TiledMMA, make_tiled_mma
from nvbackend.tiled.ownership import ownership_of_mma

UNIT = 8
"""Columns of which a thread has whole registers: a pair in each of two rows (PTX ISA 9.7.15.5.1, D)."""
_MOST = 4
"""Registers that one st.async sends."""


@user_facing
class ReduceScatter(KnownAttributes):
    """Adds the sums that the CTAs of a cluster have of one tile, and scatters its columns over them.

    Made by `k.cluster.reduce_scatter`. Each CTA multiplies some steps of the tile's depth. Then `send` gives every CTA
    the sums of the columns that are its own, thread by thread, with stores that complete on an mbarrier there
    (st.async), and `sums` waits for these and adds them, in the order of the ranks; with `own_first` the CTA's own come
    first, then those of the ranks below, from the next one down. The CTA of rank r has `columns` columns of the tile,
    from `first`, r * `columns`, on.
    """

    def __init__(self, k: FunctionBuilder, mma: TiledWgmma, *, own_first: bool) -> None:
        size = k.cluster_size
        if size == 1:
            rules.CLUSTER.fail()
        _check_tile(mma, size)
        self._k = k
        self._mma = mma
        self._own_first = own_first
        self.columns = mma.shape[1] // size
        """Columns of the tile of which this CTA has the sums."""
        self._threads = WARPGROUP_SIZE * mma.warpgroups[0]
        packed = mma.instruction.d is f16
        self._registers = self.columns // (4 if packed else 2)
        """Registers of a thread for these columns."""
        self._together = _MOST if self._registers % _MOST == 0 else 2
        self._sources = size - 1 if own_first else size
        """CTAs from which sums come; one that does not have its own first sends them to itself, too."""
        kind = u32 if packed else mma.instruction.d
        count = self._registers * self._threads * self._sources
        self._sent = k.shared(kind, count, align=self._together * kind.bits // 8, name="sums")
        self._full = k.mbarrier.array(1, arrivals=1, name="sent")
        with k.if_(k.thread_id("linear") == 0):
            k.mbarrier.arrive(self._full, expect_tx=count * kind.bits // 8)
        self._own: list[Value] = []
        self._warpgroup: Operand = 0
        self._place: Location | None = None
        """Where the sums were sent."""
        self._is_read = False
        self._is_ordered = not own_first

    def __repr__(self) -> str:
        rows, columns = self._mma.shape
        return f"<reduce-scatter of {rows} x {columns} over {self._k.cluster_size} CTAs, {self.columns} columns each>"

    # -- columns ----------------------------------------------------------------------------------------------------

    @property
    def first(self) -> Value:
        """The tile's first column of which this CTA has the sums, in elements (s32)."""
        return self._k.cluster.rank() * self.columns

    def parts(self) -> list[Value]:
        """For each part of an accumulator's columns, in order, the first of the tile's columns that it has (s32).

        With `own_first`, the order begins with this CTA's own columns, and after those of the last rank come those of
        rank 0: load the right operand in these parts, `stage.b.rows_from(part, exchange.columns)`.
        """
        self._is_ordered = True
        k, size = self._k, self._k.cluster_size
        if not self._own_first:
            return [k.const(part * self.columns, s32) for part in range(size)]
        rank = k.cluster.rank()
        return [(rank + part) % size * self.columns for part in range(size)]

    def column(self, at: Operand) -> Value:
        """The tile's column that an accumulator has as column `at` (s32): for factors of columns before the sum."""
        self._is_ordered, number = True, as_value(self._k.core, at, s32)
        return (number + self.first) % self._mma.shape[1] if self._own_first else number

    # -- the exchange -----------------------------------------------------------------------------------------------

    def send(self, acc: Accumulator | TileValues, warpgroup: Operand | None = None) -> None:
        """Send the other CTAs their part of the sums of this CTA: an accumulator, drained, or its elements.

        All warpgroups of the tiled MMA execute it, once; `warpgroup` is their number, if there are several. Raises
        reduce-scatter.accumulator, reduce-scatter.threads, reduce-scatter.not-ready, reduce-scatter.once,
        mma.warpgroup.
        """
        k, size = self._k, self._k.cluster_size
        self._check_once("send(...)", again=self._place is not None)
        self._check_ready()
        self._check_threads("send(...)")
        registers = self._registers_of(acc)
        self._warpgroup, self._place = self._mma._checked(warpgroup, (0,)), k.core.here()
        thread, own = self._thread(), self._registers
        self._own = registers[:own] if self._own_first else []
        for part in range(self._own_first, size):
            rank = (k.cluster.rank() + part) % size if self._own_first else k.const(part, s32)
            source = part - 1 if self._own_first else k.cluster.rank()
            for group in range(own // self._together):
                first = own * part + self._together * group
                place = self._place_of(source, group, thread)
                k.async_store.store(place, registers[first : first + self._together], self._full, rank)

    def sums(self) -> TileValues:
        """Wait for the other CTAs, and add what they have sent: a thread's elements of `columns` columns of the tile.

        The threads of `send` execute it after that, once. Column 0 of what it returns is column `first` of the tile,
        and its rows are those of the tile: `store`, `columns`, `to` and the epilogues take it. When it returns, nothing
        is on its way to this CTA, which may end. Raises reduce-scatter.once, reduce-scatter.threads.
        """
        if self._place is None:
            rules.ONCE.fail(call="sums()", problem="comes before send(...)", advice="call send(acc, warpgroup) before")
        self._check_once("sums()", again=self._is_read)
        self._check_threads("sums()")
        self._is_read = True
        self._k.mbarrier.wait(self._full, 0)
        elements = [element for group in range(self._registers // self._together) for element in self._added(group)]
        made: TileValues = self._places().elements(elements, self._warpgroup)
        return made

    def _added(self, group: int) -> Sequence[Value]:
        """The elements of a thread's registers that are sent together, from all CTAs."""
        thread, packed = self._thread(), self._mma.instruction.d is f16
        own = self._own[self._together * group :][: self._together]
        parts = [own] if own else []
        parts += [self._place_of(source, group, thread).load(self._together) for source in range(self._sources)]
        each = [[half for pair in part for half in halves(pair)] if packed else part for part in parts]
        total, *others = each
        for other in others:
            total = [value + more for value, more in zip(total, other, strict=True)]
        return total

    def _place_of(self, source: Operand, group: int, thread: Value) -> Address:
        groups = self._registers // self._together
        number = as_value(self._k.core, source, s32) * groups + group
        return self._sent + (number * self._threads + thread) * self._together

    def _thread(self) -> Value:
        """The number of the executing thread among all of the tile's."""
        warpgroup, own = as_value(self._k.core, self._warpgroup, s32), self._k.thread_id("linear") % WARPGROUP_SIZE
        return own if warpgroup.constant == 0 else warpgroup * WARPGROUP_SIZE + own

    def _places(self) -> MmaPlaces:
        layouts = _layouts(self.columns, self._mma.warpgroups[0])

        def thread(warpgroup: Operand) -> ThrMMA:
            atom = layouts.get_atom(warpgroup)
            return replace(atom, vmnk=(self._k.thread_id("linear") % WARPGROUP_SIZE, *atom.vmnk[1:]))

        return MmaPlaces(self._k, layouts, MmaOperand.C, (self._mma.shape[0], self.columns), thread)

    # -- what is checked --------------------------------------------------------------------------------------------

    def _registers_of(self, acc: Accumulator | TileValues) -> list[Value]:
        """The thread's registers. Raises reduce-scatter.accumulator."""
        n, element, held = self._mma.shape[1], self._mma.instruction.d, ""
        if isinstance(acc, Accumulator):
            if acc.n == n and acc.element is element:
                return acc.values()
        elif acc.element is element and acc.shape == self._mma.shape:
            if self._is_held(acc):
                values = list(acc)
                pairs = zip(values[::2], values[1::2], strict=True)
                return [pack_halves(*pair) for pair in pairs] if element is f16 else values
            held = ", of which a thread of the tiled MMA has others"
        rows, columns = self._mma.shape
        rules.ACCUMULATOR.fail(given=printed(acc), rows=rows, columns=columns, element=element, held=held)

    def _is_held(self, values: TileValues) -> bool:
        """Whether a thread has those elements of the tile that an accumulator has, in the same order."""
        layouts = _layouts(self._mma.shape[1], self._mma.warpgroups[0])
        return values.held.ownership == ownership_of_mma(layouts, MmaOperand.C, self._mma.shape)

    def _check_once(self, call: str, *, again: bool) -> None:
        """Raises reduce-scatter.once for a second call, and for one in a loop."""
        if again:
            advice = "make another one for another tile: k.cluster.reduce_scatter(...), with memory of its own"
            rules.ONCE.fail(call=call, problem="is called a second time", advice=advice)
        loop = next((region for region in self._k.core.regions if region.kind in LOOPS), None)
        if loop is not None:
            advice = "end the loop before: a cluster shares one tile, so start a cluster for each tile"
            rules.ONCE.fail(call=call, problem=f"is in {loop.describe()}, and is for one tile", advice=advice)

    def _check_ready(self) -> None:
        """Raises reduce-scatter.not-ready where no barrier of the cluster follows the set-up of the mbarrier."""
        for instruction in reversed(list(self._k.machine.instructions())):
            if instruction.semantics.waits_at(Scope.CLUSTER):
                return
            if instruction.semantics.mbarrier is MbarrierUse.INIT:
                rules.NOT_READY.fail()

    def _check_threads(self, call: str) -> None:
        here = self._k.core.execution.here()
        if here is not None and here.count != self._threads:
            rules.THREADS.fail(call=call, count=here.count, threads=self._threads)

    def _faults(self) -> Iterator[Diagnostic]:
        """What is missing at the end of the kernel: reduce-scatter.not-read, reduce-scatter.order."""
        if self._place is not None and not self._is_read:
            yield rules.NOT_READ.diagnose(at=self._place)
        if self._place is not None and not self._is_ordered:
            yield rules.ORDER.diagnose(at=self._place)


@cache
def _layouts(columns: int, warpgroups: int) -> TiledMMA:
    """Those of a tile with so many columns: all accumulators lie as those of f16 do."""
    return make_tiled_mma(atom_of(wgmma.mma_async(columns, f16, f16, f16)), (warpgroups, 1, 1))


def _check_tile(mma: TiledWgmma, size: int) -> None:
    """Raises reduce-scatter.tile."""
    rows, columns = mma.shape

    def fail(problem: str, advice: str) -> NoReturn:
        rules.TILE.fail(size=size, rows=rows, columns=columns, problem=problem, advice=advice)

    if mma.warpgroups[1] != 1 or mma._counts() != (1, 1):
        advice = f"use a tile of {ROWS * mma.warpgroups[0]} rows and 8 to 256 columns, with all warpgroups along M"
        fail("a warpgroup has not all of the columns of its rows in one accumulator", advice)
    if columns % (UNIT * size):
        legal = [each for each in range(2, 17) if columns % (UNIT * each) == 0]
        fewer = f", or a cluster of {' or '.join(map(str, legal))}" if legal else ""
        up = -(-columns // (UNIT * size)) * UNIT * size
        fail(f"{columns} columns are not {size} parts of whole {UNIT} columns", f"use a tile of {up} columns{fewer}")
