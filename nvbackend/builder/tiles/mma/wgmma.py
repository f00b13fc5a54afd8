"""wgmma tiled over warpgroups and tiles: the layouts of its operands, and the instructions that multiply two tiles."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from nvbackend.atoms import Residency
from nvbackend.atoms.warpgroup import atom_of_request
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.ops.matrix.operand_descriptor import TileFragment, tile_fragment
from nvbackend.builder.ops.matrix.wgmma import check_operand
from nvbackend.builder.scopes.names import name_or
from nvbackend.builder.scopes.rules import TILE_MISMATCH
from nvbackend.builder.tiles.coordinates import Cut
from nvbackend.builder.tiles.elements.places import MmaPlaces
from nvbackend.builder.tiles.mma.rules import ACCUMULATORS, PARTS, REGISTERS, WARPGROUP, WARPGROUPS_THERE
from nvbackend.builder.tiles.roles import Roles
from nvbackend.builder.values.accumulator import Accumulator, WgmmaFragment
from nvbackend.builder.values.attributes import KnownAttributes
from nvbackend.builder.values.values import Operand
from nvbackend.diagnostics import Diagnostic, raise_all, user_facing
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import u32
from nvbackend.intrinsics.words.smem_descriptor import Major, SwizzleMode
from nvbackend.isel.select.wgmma.request import WgmmaRequest, reading
from nvbackend.layout import Layout, size
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from nvbackend.layout.descriptors.tile_atoms import check_tile, tile_faults
from nvbackend.tiled import Fragment as TiledFragment
from nvbackend.tiled import Issue, ThrMMA, TiledMMA, gemm, split_k
from nvbackend.tiled.operand import MmaOperand

if TYPE_CHECKING:  # what few kernels use
    from nvbackend.builder.tiles.elements.tile_values import TileValues
    from nvbackend.builder.tiles.mma.accumulators import Accumulators, RegisterFragment
    from nvbackend.builder.tiles.register_tensor import RegisterTensor

_MOST_PARTS = 64
"""The smallest accumulator has 4 registers a thread, and a thread has 255."""


@user_facing
class TiledWgmma(KnownAttributes):
    """`instruction` over the warpgroups of `layouts` and over a tile of `shape` (M, N); made by `k.tiled_mma`.

    A warpgroup has an accumulator for each of the atoms in its part of the tile, MMA_M x MMA_N of them. K is what the
    operand tiles have, in steps of the instruction's. Warpgroups have the numbers of the atom layout: along M first,
    then along N, then along K.
    """

    def __init__(
        self,
        k: FunctionBuilder,
        roles: Roles,
        instruction: WgmmaRequest,
        layouts: TiledMMA,
        tile: tuple[int, int],
        *,
        any_major: bool,
    ) -> None:
        self._k = k
        self._roles = roles
        self._any_major = any_major
        self._c = layouts.get_atom(0).partition_fragment_C(Layout(tile))
        self.instruction = instruction
        self.layouts = layouts
        self.shape = tile

    def __repr__(self) -> str:
        return f"<{self.layouts} over a tile of {self.shape[0]} x {self.shape[1]}>"

    @property
    def warpgroups(self) -> tuple[int, int]:
        """How many there are along M and along N."""
        return size(self.layouts.atom_layout_mnk, 0), size(self.layouts.atom_layout_mnk, 1)

    # -- tiles and accumulators -------------------------------------------------------------------------------------

    def smem_a(self, k: int, major: Major | None = None, swizzle: SwizzleMode = SwizzleMode.B128) -> SmemLayout:
        """The layout of A's shared-memory tile with `k` columns, of a sparse A the stored ones.

        Left out, `major` is that of the instruction. Raises, all together, tile.mma-atom, tile.swizzle-atom and
        layout.major; else what `SmemLayout` raises.
        """
        return self._smem(MmaOperand.A, k, major, swizzle)

    def smem_b(self, k: int, major: Major | None = None, swizzle: SwizzleMode = SwizzleMode.B128) -> SmemLayout:
        """The layout of B's shared-memory tile (N rows, as B transposed) with `k` columns. Raises as `smem_a` does."""
        return self._smem(MmaOperand.B, k, major, swizzle)

    def _smem(self, which: MmaOperand, k: int, major: Major | None, swizzle: SwizzleMode) -> SmemLayout:
        rows, element = self.shape[which.places[0]], which.element_of(self.layouts.atom)
        own = major or (self.layouts.atom.a_major if which is MmaOperand.A else self.layouts.atom.b_major)
        check_tile(own, swizzle, element, (rows, k), self.layouts.atom_extents(which))
        return SmemLayout(own, swizzle, element, rows, k)

    def accumulator(self, name: str | None = None) -> Accumulator:
        """A warpgroup's accumulator, cleared. Raises mma.tile-accumulators where its part of the tile has several."""
        along_m, along_n = self._counts()
        if (along_m, along_n) != (1, 1):
            self._wrong_accumulators("one", "make them with mma.accumulators(), or the tile smaller")
        accumulator = self._k.wgmma.accumulator(self.instruction.n, self.instruction.d, name=name)
        accumulator.places = self._places()
        return accumulator

    def accumulators(self, name: str | None = None, *, parts: int = 1) -> Accumulators:
        """All accumulators of a warpgroup, cleared: `acc[m, n]`, or `acc[m, n, part]` of the `parts` of a split K.

        Steps along K go to the parts in turn, so that an instruction need not wait for the sum of the one before it;
        `acc.add_parts()` adds them in the end. Raises mma.tile-accumulators for less than one part, or so many that a
        thread has no registers for them.
        """
        from nvbackend.builder.tiles.mma.accumulators import Accumulators

        name = name_or(name, "accumulators", "acc")
        if not 1 <= parts <= _MOST_PARTS:
            self._wrong_accumulators(f"{parts} parts", "take parts=1, or a few where K is split")
        counts = (*self._counts(), parts)
        places = [place[::-1] for place in itertools.product(*map(range, counts[::-1]))]
        names = [f"{name}.{'.'.join(map(str, place if parts > 1 else place[:2]))}" for place in places]
        instruction = self.instruction
        made = [
            self._k.wgmma.accumulator(instruction.n, instruction.d, name=own)
            for own in (names if len(names) > 1 else [name])
        ]
        return Accumulators(made, counts, self._places())

    def _places(self) -> MmaPlaces:
        return MmaPlaces(
            self._k, self.layouts, MmaOperand.C, self.shape, self._thread, lambda axis: self._checked(None, (axis,))
        )

    def _counts(self) -> tuple[int, int]:
        return size(self._c.layout, 1), size(self._c.layout, 2)

    def _wrong_accumulators(self, shown: str, instead: str) -> None:
        wanted = " x ".join(map(str, self._counts()))
        tile = " x ".join(map(str, self.shape))
        ACCUMULATORS.fail(given=shown, wanted=wanted, tile=tile, mma=self.layouts, instead=instead)

    # -- what the instructions are given ----------------------------------------------------------------------------

    def partition_fragment_A(self, a: SharedTile, warpgroup: Operand | None = None) -> TileFragment:
        """tCrA of a tile in shared memory: (1, MMA_M, MMA_K) descriptors of the part that `warpgroup` multiplies.

        Raises tile.mma-atom, tile.swizzle-atom, layout.major, wgmma.operand-element, wgmma.operand-major,
        wgmma.residency, tiled-mma.tile, mma.warpgroup, and mma.warpgroups-there inside `k.consumers` where its number
        says that some part of the tile has no warpgroup.
        """
        return self._tile_fragment(MmaOperand.A, a, warpgroup)

    def partition_fragment_B(self, b: SharedTile, warpgroup: Operand | None = None) -> TileFragment:
        """tCrB: (1, MMA_N, MMA_K) descriptors. Raises as `partition_fragment_A` does."""
        return self._tile_fragment(MmaOperand.B, b, warpgroup)

    def _tile_fragment(self, which: MmaOperand, tile: SharedTile, warpgroup: Operand | None) -> TileFragment:
        number = self._checked(warpgroup, (0, 2) if which is MmaOperand.A else (1, 2))
        raise_all(self._tile_faults(which, tile))
        request = self._reading(**{"a" if which is MmaOperand.A else "b": tile.layout.major})
        check_operand(which.value.lower(), request, tile)
        layouts = dataclasses.replace(self.layouts, atom=atom_of_request(request, self._k.target))
        thread = layouts.get_atom(number)
        rows = tile.layout.first_rows(tile.view)
        part = thread.partition_A(rows) if which is MmaOperand.A else thread.partition_B(rows)
        return tile_fragment(self._k.core, layouts, which, tile, part)

    def _tile_faults(self, which: MmaOperand, tile: SharedTile) -> Iterator[Diagnostic]:
        layout, shape = tile.layout, (tile.layout.rows, tile.layout.columns)
        return tile_faults(layout.major, layout.swizzle, layout.element, shape, self.layouts.atom_extents(which))

    def _reading(self, a: Major | None = None, b: Major | None = None) -> WgmmaRequest:
        """The instruction for operands of these majors, where it is not said which it reads."""
        return reading(self.instruction, a, b) if self._any_major else self.instruction

    def register_tensor_A(self, columns: int, name: str = "a") -> RegisterTensor:
        """Registers for a thread's part of A of the tile with `columns` of K: (V, MMA_M, MMA_K), for `k.copy`."""
        from nvbackend.builder.tiles.register_tensor import make_registers

        return make_registers(self._k.core, self.instruction.a, self._registers_of(columns).layout, name)

    def _registers_of(self, columns: int) -> TiledFragment:
        return self.layouts.get_atom(0).partition_fragment_A(Layout((self.shape[0], columns)))

    def make_fragment_A(self, registers: RegisterTensor | TileValues | Sequence[WgmmaFragment]) -> RegisterFragment:
        """tCrA in registers, before the wgmma.fence of the instructions that multiply them.

        `registers` are those of `register_tensor_A`, filled, or a `k.wgmma.fragment` for each atom along M, of all
        steps along K one after another. Or they are the elements of another product, M x K, converted to A's type: P of
        attention is `mma.make_fragment_A(weights)`; no thread gives another anything. Raises mma.tile-registers, and
        elements.operand where a thread has other elements than it multiplies.
        """
        from nvbackend.builder.tiles.elements.operand import fragments_of_a
        from nvbackend.builder.tiles.elements.tile_values import TileValues
        from nvbackend.builder.tiles.mma.accumulators import RegisterFragment
        from nvbackend.builder.tiles.register_tensor import RegisterTensor

        along_m, atom = self._counts()[0], self.layouts.atom
        if isinstance(registers, RegisterTensor):
            registers = self._fragments_of(registers)
        elif isinstance(registers, TileValues):
            registers = fragments_of_a(self._k, self.layouts, registers, self.shape[0], self.instruction.a)
        steps, rest = divmod(len(registers), along_m)
        if atom.a_residency is not Residency.REGISTERS or rest or not steps:
            in_memory = atom.a_residency is not Residency.REGISTERS
            problem = "it reads A from shared memory" if in_memory else f"{len(registers)} fragments"
            instead = f"give {along_m} for each step along K, or ask for an instruction with a_in_registers=True"
            REGISTERS.fail(mma=self.layouts, problem=problem, instead=instead)
        along_k = size(self.layouts.atom_layout_mnk, 2)
        return RegisterFragment(self._registers_of(steps * atom.stored_k * along_k), tuple(registers))

    def _fragments_of(self, tensor: RegisterTensor) -> list[WgmmaFragment]:
        modes = tensor.layout.modes
        if len(modes) != 3 or tensor.element is not self.instruction.a:
            problem = f"a tensor of {tensor.element}, {tensor.layout}"
            REGISTERS.fail(mma=self.layouts, problem=problem, instead="make it with mma.register_tensor_A(columns)")
        fragments = []
        for step, m in itertools.product(range(size(modes[2])), range(size(modes[1]))):
            values = [register.bitcast(u32) for register in tensor[None, m, step].registers()]
            fragments.append(self._k.wgmma.fragment(values, tensor.element, name=f"a.{m}.{step}"))
        return fragments

    # -- instructions -----------------------------------------------------------------------------------------------

    def issues(
        self, accumulators: Accumulator | Accumulators, a: TileFragment | RegisterFragment, b: TileFragment
    ) -> tuple[Issue, ...]:
        """The instructions of `gemm`, in its order: CuTe's, k outermost, each at (m, n, k) of the fragments.

        Raises mma.tile-accumulators, and tiled-mma.gemm for tiles that do not belong together.
        """
        parts = self._parts(accumulators)
        if parts == 1:
            return gemm(self.layouts, a.fragment, b.fragment, self._c)
        whole = self.layouts.get_atom(0).partition_fragment_C(Layout((*self.shape, parts)))
        return split_k(self.layouts, a.fragment, b.fragment, whole).issues

    def issue(
        self,
        issue: Issue,
        accumulators: Accumulator | Accumulators,
        a: TileFragment | RegisterFragment,
        b: TileFragment,
        *,
        accumulate: Operand | None = None,
        metadata: Operand | None = None,
    ) -> None:
        """Emit one of the `issues`: `k.wgmma.mma_async` of its accumulator, its A and its B. Raises what that does.

        `accumulate` is scale-D; left out, a cleared accumulator is overwritten and every other one added to.
        """
        own = [accumulators] if isinstance(accumulators, Accumulator) else accumulators
        first, second = a(0, issue.m, issue.k), b(0, issue.n, issue.k)
        said: dict[str, Any] = {"accumulate": accumulate, "metadata": metadata}
        self._k.wgmma.mma_async(
            own[issue.c.offset // size(self._c.layout, 0)],
            first,
            second,
            self._reading(None if isinstance(first, WgmmaFragment) else first.major, second.major),
            **{name: value for name, value in said.items() if value is not None},
        )

    def gemm(
        self,
        accumulators: Accumulator | Accumulators,
        a: TileFragment | RegisterFragment,
        b: TileFragment,
        *,
        accumulate: Operand | None = None,
    ) -> None:
        """Emit all `issues`, inside a `k.wgmma.group()` region: cute::gemm(tiled_mma, tCrA, tCrB, tCrC).

        `accumulate` is scale-D of the first instruction of each accumulator. Raises as `issues` and `issue` do, and
        mma.operands for a sparse A: `issue` takes its metadata.
        """
        if self.instruction.sparse:
            from nvbackend.builder.ops.matrix.mma import refuse_whole_tiles

            refuse_whole_tiles("acc, left, right", ("metadata",))
        begun: set[int] = set()
        for issue in self.issues(accumulators, a, b):
            first = issue.c.offset not in begun
            begun.add(issue.c.offset)
            self.issue(issue, accumulators, a, b, accumulate=accumulate if first else None)

    def accumulate(
        self,
        accumulators: Accumulator | Accumulators,
        a: SharedTile | RegisterFragment,
        b: SharedTile,
        warpgroup: Operand | None = None,
        *,
        accumulate: Operand | None = None,
    ) -> None:
        """Multiply one pair of operand tiles, along K, for this warpgroup. Goes inside a `k.wgmma.group()` region.

        Which warpgroup it is must be said where several share a tile of A or of B. Raises mma.tile, and what
        `partition_fragment_A` and `gemm` raise.
        """
        if not isinstance(b, SharedTile):
            raise TypeError(b)  # call.argument of this call, and of all of its arguments
        if isinstance(a, SharedTile):
            self._check_k(a, b)
            raise_all([*self._tile_faults(MmaOperand.A, a), *self._tile_faults(MmaOperand.B, b)])
            first: TileFragment | RegisterFragment = self.partition_fragment_A(a, warpgroup)
        else:
            first = a
        self.gemm(accumulators, first, self.partition_fragment_B(b, warpgroup), accumulate=accumulate)

    # -- results ----------------------------------------------------------------------------------------------------

    def reduction_buffer(self, accumulators: Accumulators, name: str = "sums") -> Address:
        """Shared memory for `reduce`. Raises mma.tile-parts where no atoms lie along K, shared.size."""
        from nvbackend.builder.tiles.mma.reduction import buffer_of

        self._check_parts()
        return buffer_of(self._k, self.layouts, accumulators, name)

    def reduce(self, accumulators: Accumulators, buffer: Address, warpgroup: Operand, *, barrier: int = 1) -> None:
        """Add the sums of the warpgroups along K, each of which has multiplied a part; then the first of them have C.

        All warpgroups of the tile execute it together, their accumulators drained. It goes through `buffer`, of
        `reduction_buffer`, which is free again after a barrier of the threads, and waits at barrier `barrier`. Raises
        mma.tile-parts where no atoms lie along K.
        """
        from nvbackend.builder.tiles.mma.reduction import reduce_accumulators

        self._check_parts()
        reduce_accumulators(self._k, self.layouts, accumulators, buffer, self._checked(warpgroup), barrier)

    def store(
        self,
        accumulators: Accumulator | Accumulators,
        target: Address,
        stride: Operand,
        warpgroup: Operand | None = None,
    ) -> None:
        """Write a warpgroup's part of C straight to global memory, where `partition_C` says that it is.

        `target` is the first element of the tile, row-major with `stride` elements a row, an even number; of the
        accumulators' own type and aligned to two of them. Of warpgroups along K only the first store, which have the
        sum after `reduce`; of `parts` only part 0. All accumulators must be drained. Raises accumulator.store,
        accumulator.stride, memory.alignment, mma.warpgroup.
        """
        from nvbackend.builder.tiles.mma.accumulator_store import store_accumulators

        first, cut, part = self._stored(accumulators, warpgroup)
        with self._of_part_0(part):
            if not isinstance(part, int) or part == 0:
                store_accumulators(self._k, first, target, stride, self.shape, cut)

    def axpby(
        self,
        alpha: Operand,
        accumulators: Accumulator | Accumulators,
        beta: Operand,
        target: Address,
        stride: Operand,
        warpgroup: Operand | None = None,
        *,
        c: Address | None = None,
        c_stride: Operand | None = None,
    ) -> None:
        """Write alpha * A * B + beta * C of a warpgroup's part of the tile to D at `target`, as `store` writes A * B.

        C is what D holds, or a tile at `c` with `c_stride` elements a row, `stride` by default; either may be f16,
        bf16 or f32, and of s32 accumulators both s32. `alpha` and `beta` are numbers or f32 (s32) values. With the
        number 0 as `beta` C is not read; a `beta` that is 0 at run time lets C count for nothing. Raises
        epilogue.axpby-types and what `store` raises.
        """
        from nvbackend.builder.tiles.axpby import Axpby
        from nvbackend.builder.tiles.mma.accumulator_store import axpby_accumulators

        source = (target if c is None else c, stride if c_stride is None else c_stride)
        form = Axpby(self._k, alpha, beta, self.instruction.d, target.element, source[0].element)
        first, cut, part = self._stored(accumulators, warpgroup)
        with self._of_part_0(part):
            if not isinstance(part, int) or part == 0:
                axpby_accumulators(self._k, first, form, (target, stride), source, self.shape, cut)

    def _stored(
        self, accumulators: Accumulator | Accumulators, warpgroup: Operand | None
    ) -> tuple[list[Accumulator], Cut, Any]:
        """The accumulators that have the sum, what cuts their part out of C, and the warpgroup's place along K."""
        self._parts(accumulators)
        thread = self._thread(warpgroup)
        own = [accumulators] if isinstance(accumulators, Accumulator) else list(accumulators)
        return own[: math.prod(self._counts())], thread.partition_C, thread.vmnk[3]

    def _thread(self, warpgroup: Operand | None) -> ThrMMA:
        """The executing thread's slice, in the warpgroup of this number."""
        atom = self.layouts.get_atom(self._checked(warpgroup))
        return dataclasses.replace(atom, vmnk=(self._k.thread_id("linear") % WARPGROUP_SIZE, *atom.vmnk[1:]))

    def _of_part_0(self, part: Any) -> AbstractContextManager[None]:
        return nullcontext() if isinstance(part, int) else self._k.if_(part == 0)

    # -- checks -----------------------------------------------------------------------------------------------------

    def _check_k(self, a: SharedTile, b: SharedTile) -> None:
        columns, step = a.layout.columns * self.instruction.k // self.layouts.atom.stored_k, self.instruction.k
        if columns != b.layout.columns:
            TILE_MISMATCH.fail(a=columns, b=b.layout.columns, k=step)

    def _check_parts(self) -> None:
        if size(self.layouts.atom_layout_mnk, 2) == 1:
            PARTS.fail(mma=self.layouts, parts=1, instead="lay atoms along K: k.tiled_mma(..., atom_layout=(1, 1, 2))")

    def _parts(self, accumulators: Accumulator | Accumulators) -> int:
        counts = (1, 1, 1) if isinstance(accumulators, Accumulator) else accumulators.shape
        if counts[:2] != self._counts():
            self._wrong_accumulators(" x ".join(map(str, counts[:2])), "make them with mma.accumulators()")
        return counts[2]

    def _checked(self, warpgroup: Operand | None, parted: Sequence[int] = range(3)) -> Operand:
        """The number of a warpgroup; 0 where none is given and the modes `parted` have one warpgroup each."""
        atoms = self.layouts.atom_layout_mnk
        counts = [size(atoms, place) for place in range(3)]
        along = " x ".join(map(str, counts if counts[2] > 1 else counts[:2]))
        wanted = math.prod(counts)
        if warpgroup is None:
            if any(counts[place] > 1 for place in parted):
                WARPGROUP.fail(given="no warpgroup", along=along, last=wanted - 1)
            warpgroup = 0
        number = warpgroup if isinstance(warpgroup, int) else getattr(warpgroup, "constant", None)
        if isinstance(number, int) and not 0 <= number < wanted:
            WARPGROUP.fail(given=f"warpgroup {number}", along=along, last=wanted - 1)
        there = self._roles.warpgroups(warpgroup)
        if there is not None and there < wanted:
            WARPGROUPS_THERE.fail(along=along, there=there, wanted=wanted)
        return number if isinstance(number, int) else warpgroup
