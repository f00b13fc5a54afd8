"""tcgen05.mma tiled over a CTA's tile, or that of a CTA pair: accumulators in tensor memory, operands by layouts."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

from nvbackend.atoms import Residency
from nvbackend.atoms.tensor_memory import lane_stride
from nvbackend.atoms.umma import atom_of_request
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.ops.matrix.mma import refuse_whole_tiles
from nvbackend.builder.ops.matrix.operand_descriptor import OperandDescriptor, TileFragment, tile_fragment
from nvbackend.builder.ops.matrix.tcgen05_operands import is_padded, tile_faults
from nvbackend.builder.ops.matrix.tensor_memory import TmemColumns
from nvbackend.builder.tiles.elements.operand import check_rows, registers_in_order
from nvbackend.builder.tiles.elements.tensor_memory import load_lanes, store_lanes
from nvbackend.builder.tiles.elements.tile_values import TileValues
from nvbackend.builder.tiles.mma.rules import LANES, OPERAND_A, TENSOR_MEMORY
from nvbackend.builder.values.attributes import KnownAttributes
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import raise_all, user_facing
from nvbackend.intrinsics.copy.tcgen05_memory import ALLOCATIONS
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import u32
from nvbackend.intrinsics.words.smem_descriptor import Major, SwizzleMode
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor
from nvbackend.isel.machine.tensor_memory_uses import LANE_SHIFT
from nvbackend.isel.select.tcgen05.request import Tcgen05Request
from nvbackend.layout import ComposedLayout, Layout, logical_divide, make_layout
from nvbackend.layout.algebra.inttuple import leaves
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from nvbackend.tiled import Fragment, Issue, TiledMMA, gemm
from nvbackend.tiled.lanes import LoadedLanes, loaded_lanes, stored_lanes
from nvbackend.tiled.operand import MmaOperand
from nvbackend.tiled.tensor_memory import tmem_cell

_BYTE = 8


@user_facing
class TmemFragment:
    """A in tensor memory, (V, MMA_M, MMA_K): `fragment(0, m, k)` is the address of what one instruction takes."""

    def __init__(self, fragment: Fragment, columns: TmemColumns | Value) -> None:
        self.fragment = fragment
        self.columns = columns

    def __call__(self, *coordinate: int) -> Value:
        """The address (u32) of the operand at (0, m, k)."""
        cell = _cell(self.fragment, self.fragment(*coordinate), self.columns)
        return cell.address if isinstance(cell, TmemColumns) else cell


@user_facing
class TiledTcgen05(KnownAttributes):
    """tcgen05.mma over a tile of `shape` (M, N); made by `k.tiled_mma`.

    One thread of the CTA, or of the pair for cta_group 2, issues all of it. The accumulators are `columns` columns of
    tensor memory; each CTA of a pair has half of M of A and of D, and half of N of B.
    """

    def __init__(
        self,
        k: FunctionBuilder,
        instruction: Tcgen05Request,
        descriptor: InstructionDescriptor,
        layouts: TiledMMA,
        tile: tuple[int, int],
        *,
        any_major: bool,
    ) -> None:
        self._k = k
        self._any_major = any_major
        self.instruction = instruction
        self.descriptor = descriptor
        self.layouts = layouts
        self.shape = tile
        self.accumulators = layouts.get_slice(0).partition_fragment_C(Layout(tile))

    def __repr__(self) -> str:
        return f"<{self.layouts} over a tile of {self.shape[0]} x {self.shape[1]}>"

    @property
    def columns(self) -> int:
        """Columns of tensor memory for the accumulators, as `k.tcgen05.tmem` takes them: a power of two from 32 on."""
        return min(columns for columns in ALLOCATIONS if columns >= self._used)

    @cached_property
    def _used(self) -> int:
        return used_columns(self.accumulators)

    # -- tiles --------------------------------------------------------------------------------------------------------

    def smem_a(self, k: int, major: Major | None = None, swizzle: SwizzleMode = SwizzleMode.B128) -> SmemLayout:
        """The layout of a CTA's tile of A with `k` columns, of a sparse A the stored ones.

        Left out, `major` is that of the instruction descriptor. Raises what `SmemLayout` raises.
        """
        return self._smem(MmaOperand.A, k, major, swizzle)

    def smem_b(self, k: int, major: Major | None = None, swizzle: SwizzleMode = SwizzleMode.B128) -> SmemLayout:
        """The layout of a CTA's tile of B (N rows, as B transposed) with `k` columns. Raises as `smem_a` does."""
        return self._smem(MmaOperand.B, k, major, swizzle)

    def _smem(self, which: MmaOperand, k: int, major: Major | None, swizzle: SwizzleMode) -> SmemLayout:
        atom = self.layouts.atom
        own = major or (atom.a_major if which is MmaOperand.A else atom.b_major)
        rows = self.shape[which.places[0]] // atom.threads
        element = which.element_of(atom)
        return SmemLayout(own, swizzle, element, rows, k, padded=is_padded(atom.stored_k, element))

    # -- what the instructions are given ------------------------------------------------------------------------------

    def partition_fragment_A(self, a: SharedTile) -> TileFragment:
        """tCrA of the CTA's tile: (1, MMA_M, MMA_K) descriptors. Raises tcgen05.operand-tile and tiled-mma.tile."""
        return self._tile_fragment(MmaOperand.A, a)

    def partition_fragment_B(self, b: SharedTile) -> TileFragment:
        """tCrB of the CTA's tile: (1, MMA_N, MMA_K) descriptors. Raises tcgen05.operand-tile and tiled-mma.tile."""
        return self._tile_fragment(MmaOperand.B, b)

    def _tile_fragment(self, which: MmaOperand, tile: SharedTile) -> TileFragment:
        reading = self._reading(**{which.value: tile.layout.major})
        first, second = (tile, None) if which is MmaOperand.A else (None, tile)
        raise_all(tile_faults(first, second, reading))
        layouts = dataclasses.replace(self.layouts, atom=atom_of_request(self.instruction, reading, self._k.target))
        thread = layouts.get_slice(0)
        whole = self._of_all(which, tile.cute)
        part = thread.partition_A(whole) if which is MmaOperand.A else thread.partition_B(whole)
        return tile_fragment(self._k.core, layouts, which, tile, part)

    def _of_all(self, which: MmaOperand, own: ComposedLayout) -> ComposedLayout:
        """The tile of a pair, as each of its CTAs sees it: where the other's part is, it finds its own."""
        ctas = self.layouts.atom.threads
        if ctas == 1:
            return own
        each = self.layouts.atom_extents(which)[0] // ctas

        def both(layout: Layout) -> Layout:
            inside, outside = logical_divide(layout[0], each).modes
            return make_layout(make_layout(inside, Layout(ctas, 0), outside), layout[1])

        return own.with_layout(both)

    def make_fragment_A(self, columns: TmemColumns | Value, k: int | TileValues) -> TmemFragment:
        """tCrA in tensor memory, `k` columns of the matrix from `columns` on; of a sparse A half of them are stored.

        Instead of `k` it takes the elements of another product, rows x K (of a sparse A the stored ones), and stores
        them as A's type: P of attention is `mma.make_fragment_A(columns, weights)`. Four whole warps execute it:
        k.tcgen05.st and wait_st, no thread gives another anything. Before the mma come `fence_before_thread_sync`, a
        barrier of these warps and the thread that issues it, and `fence_after_thread_sync`. Raises mma.tile-operand
        for an instruction with A in shared memory and for too few columns, elements.operand where a thread has other
        elements than its lane of A, and tiled-mma.tile.
        """
        atom = self.layouts.atom
        if atom.a_residency is not Residency.TENSOR_MEMORY:
            problem, instead = "it reads A from shared memory", "ask for an instruction with a_in_tmem=True"
            OPERAND_A.fail(mma=self.layouts, problem=problem, instead=instead)
        if not isinstance(columns, TmemColumns):
            columns = as_value(self._k.core, columns, u32)
        stored = k.shape[1] if isinstance(k, TileValues) else k // 2 if self.descriptor.sparse else k
        tile = Layout((self.shape[0], stored))
        fragment = self.layouts.get_slice(0).partition_fragment_A(tile)
        used = used_columns(fragment)
        if isinstance(columns, TmemColumns) and columns.width < used:
            problem = f"{columns.width} column(s) for the {used} that its {self._rows} x {stored} elements take"
            OPERAND_A.fail(mma=self.layouts, problem=problem, instead=f"give it columns.columns(first, {used})")
        if isinstance(k, TileValues):
            self._store_a(fragment, columns, k)
        return TmemFragment(fragment, columns)

    def _store_a(self, fragment: Fragment, columns: TmemColumns | Value, tile: TileValues) -> None:
        check_rows(self.layouts, tile, self._rows)
        element, lanes = self.descriptor.a, stored_lanes(fragment, *tile.shape)
        if lanes is None or element.bits < _BYTE:
            small = element.bits < _BYTE
            problem = f"elements of {element.bits} bits" if small else "each of its rows is in two lanes"
            instead = "take e4m3 or f16" if small else "take an atom of 256 rows, or A in shared memory"
            OPERAND_A.fail(mma=self.layouts, problem=problem, instead=instead)
        instead = (
            "load all columns of D at once, by an atom of as many rows in as many CTAs, or go through shared memory"
        )
        registers = registers_in_order(self.layouts, tile, lanes.ownership, element, instead)
        store_lanes(self._k, columns, lanes, registers)

    def _reading(self, **majors: Major) -> InstructionDescriptor:
        """The descriptor for operands of these majors, where it is not said which it reads."""
        if not self._any_major:
            return self.descriptor
        descriptor = self.descriptor
        transposed = {name: major is Major.MN for name, major in majors.items()}
        return dataclasses.replace(
            descriptor,
            transpose_a=transposed.get("A", descriptor.transpose_a),
            transpose_b=transposed.get("B", descriptor.transpose_b),
        )

    # -- instructions -------------------------------------------------------------------------------------------------

    def issues(self, a: TileFragment | TmemFragment, b: TileFragment) -> tuple[Issue, ...]:
        """The instructions of `gemm`, in its order: CuTe's, k outermost. Raises tiled-mma.gemm."""
        return gemm(self.layouts, a.fragment, b.fragment, self.accumulators)

    def issue(
        self,
        issue: Issue,
        accumulators: TmemColumns | Value,
        a: TileFragment | TmemFragment,
        b: TileFragment,
        *,
        accumulate: Operand = True,
        metadata: Operand | None = None,
        scale_a: Operand | None = None,
        scale_b: Operand | None = None,
    ) -> None:
        """Emit one of the `issues`: `k.tcgen05.mma` of its columns of D, its A and its B. Raises what that does."""
        first, second = a(0, issue.m, issue.k), b(0, issue.n, issue.k)
        majors = {"A": first, "B": second}
        known = {name: operand.major for name, operand in majors.items() if isinstance(operand, OperandDescriptor)}
        said: dict[str, Any] = {"metadata": metadata, "scale_a": scale_a, "scale_b": scale_b}
        self._k.tcgen05.mma(
            self.instruction,
            _cell(issue.c, issue.c.offset, accumulators),
            first,
            second,
            self._reading(**known),
            accumulate=accumulate,
            **{name: value for name, value in said.items() if value is not None},
        )

    def gemm(
        self,
        accumulators: TmemColumns | Value,
        a: TileFragment | TmemFragment,
        b: TileFragment,
        *,
        accumulate: Operand = True,
    ) -> None:
        """Emit all `issues`, by one thread. `accumulate` is that of the first k. Raises as `issues` and `issue` do.

        Also mma.operands for a sparse A and for scale factors, which `issue` takes.
        """
        scales = ("scale_a", "scale_b") if self.instruction.block_scale else ()
        if own := (*(("metadata",) if self.descriptor.sparse else ()), *scales):
            refuse_whole_tiles("left, right", own, "accumulate=issue.k > 0")
        for issue in self.issues(a, b):
            self.issue(issue, accumulators, a, b, accumulate=accumulate if issue.k == 0 else True)

    def accumulate(
        self,
        accumulators: TmemColumns | Value,
        a: SharedTile | TmemFragment,
        b: SharedTile,
        *,
        accumulate: Operand = True,
    ) -> None:
        """Multiply one pair of operand tiles, along K, into tensor memory; one thread executes it.

        With `accumulate` false the accumulators are overwritten. Raises mma.tile-columns where `accumulators` are too
        few columns, and what `partition_fragment_A`, `partition_fragment_B` and `gemm` raise.
        """
        if not isinstance(b, SharedTile):
            raise TypeError(b)  # call.argument of this call, and of all of its arguments
        if isinstance(accumulators, TmemColumns) and accumulators.width < self._used:
            TENSOR_MEMORY.fail(given=accumulators.width, wanted=self._used, alloc=self.columns, mma=self.layouts)
        first = self.partition_fragment_A(a) if isinstance(a, SharedTile) else a
        self.gemm(accumulators, first, self.partition_fragment_B(b), accumulate=accumulate)

    # -- results ------------------------------------------------------------------------------------------------------

    def load(self, accumulators: TmemColumns | Value, first: int = 0, columns: int | None = None) -> TileValues:
        """`columns` columns of the CTA's rows from column `first` on, by default all, as elements with coordinates.

        Four whole warps execute it, such as warps 0 to 3, after the mma has completed and `fence_after_thread_sync`:
        k.tcgen05.ld and wait_ld. Columns are counted from `first`. Of 128 rows for each CTA thread t of the four has
        row t. Of 64 rows two threads share a row: of one CTA threads 16 apart in a warp, with half of the `columns`
        each; of a pair threads 64 apart, with half of all columns each. f16 come as f16, two from a register. Each
        column of a thread takes a register until it is converted, so load wide tiles in panels. Raises mma.tile-lanes
        where the CTA has fewer threads, the threads would have unequal parts, or the columns are not in the tile, and
        what `k.tcgen05.ld` raises.
        """
        count = self.shape[1] - first if columns is None else columns
        return load_lanes(self._k, accumulators, self._lanes(first, count), self.layouts.atom.d)

    def _lanes(self, first: int, columns: int) -> LoadedLanes:
        """How these columns are loaded. Raises mma.tile-lanes."""
        width, last = self.shape[1], first + columns - 1
        if self._k.threads < WARPGROUP_SIZE:
            problem = f"the CTA has {self._k.threads} threads, and each of four warps reaches a quarter of the lanes"
            instead = f"give the CTA {WARPGROUP_SIZE} threads or more"
        elif first < 0 or columns < 1 or last >= width:
            problem, instead = f"it has {width} columns", f"load columns 0 to {width - 1} at most"
        elif (lanes := self._loaded(first, columns)) is not None:
            return lanes
        else:
            problem = f"the {self._rows} rows of a CTA give its 128 threads unequal parts of them"
            instead = self._other_columns(first, columns)
        tile = " x ".join(map(str, self.shape))
        LANES.fail(first=first, last=last, mma=self.layouts, tile=tile, problem=problem, instead=instead)

    @property
    def _rows(self) -> int:
        """Rows of a CTA."""
        return self.shape[0] // self.layouts.atom.threads

    def _loaded(self, first: int, columns: int) -> LoadedLanes | None:
        return loaded_lanes(self.accumulators, self._rows, first, columns)

    def _other_columns(self, first: int, columns: int) -> str:
        """What can be loaded in the place of columns that cannot be: an even number, one atom's or those of two."""
        width, step = self.shape[1], self.layouts.atom.shape[1]
        if first + columns < width and self._loaded(first, columns + 1) is not None:
            return f"load an even number of columns, such as {columns + 1}"
        count = step if self._loaded(first // step * step, step) is not None else 2 * step
        start = first // count * count
        return f"load columns {start} to {start + count - 1} together"


def used_columns(fragment: Fragment) -> int:
    """Columns of tensor memory from the first to the last that has elements of a fragment."""
    flat = zip(leaves(fragment.layout.shape), leaves(fragment.layout.stride), strict=True)
    lane = lane_stride(fragment.bits)
    return tmem_cell(sum((extent - 1) * step for extent, step in flat if step < lane), fragment.bits)[1] + 1


def _cell(fragment: Fragment, index: int, columns: TmemColumns | Value) -> TmemColumns | Value:
    """The address of an index of `fragment`, whose first is at `columns`."""
    lane, column, _ = tmem_cell(index, fragment.bits)
    further = (lane << LANE_SHIFT) + column
    return columns + further if further else columns
