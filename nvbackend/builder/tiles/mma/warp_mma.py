"""mma.sync tiled over a CTA's warps: accumulators and fragments in registers, and the loops that multiply them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import NoReturn

from nvbackend.atoms import MmaAtom, Residency
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.tiles.axpby import Axpby
from nvbackend.builder.tiles.coordinates import Inside
from nvbackend.builder.tiles.fragment_copies import PartCut, in_matrices, load_fitting, store_fitting
from nvbackend.builder.tiles.mma.axpby_fragments import axpby_fitting
from nvbackend.builder.tiles.mma.reduction import reduce_registers
from nvbackend.builder.tiles.mma.rules import WARP_ATOM, WARP_FRAGMENT
from nvbackend.builder.tiles.register_tensor import REGISTER_BITS, RegisterTensor, make_registers
from nvbackend.builder.tiles.tensor import Tensor
from nvbackend.builder.tiles.tiled_copy import copy_part
from nvbackend.builder.values.values import Value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.fragments.mma import chunk_width
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, f32, tf32, u16, u32, ue8m0
from nvbackend.isel.select.mma.request import MmaRequest, request_of
from nvbackend.isel.select.mma.select import select_mma
from nvbackend.layout import AnyLayout, Layout, make_layout, size, zipped_divide
from nvbackend.layout.algebra.swizzle import BYTE_BITS
from nvbackend.tiled import Issue, MmaOperand, Partition, ThrMMA, TiledMMA, gemm, reduction
from nvbackend.tiled.operand import Beside

_CHUNKS_A_WORD = 4
"""Groups of elements that 16 bits of metadata speak of, four bits each."""
_FACTORS = REGISTER_BITS // ue8m0.bits
"""How many scale factors a register holds."""


@dataclass(frozen=True)
class _Operands:
    """What a multiplication is given, in registers."""

    acc: RegisterTensor
    a: RegisterTensor
    b: RegisterTensor
    metadata: RegisterTensor | None
    scales_a: RegisterTensor | None
    scales_b: RegisterTensor | None


@user_facing
class TiledWarpMma:
    """mma.sync over the warps of `layouts` and a tile of `shape` (M, N); made by `k.tiled_mma`.

    `instruction` is the request, `thread` the executing thread's slice. All warps execute its calls. Fragments are
    tensors in registers, (MMA, MMA_M, MMA_N) and the like: those of tf32 are of f32, and types of 4 and 6 bits that
    take a byte each are of u8. Tiles of types that take less are read in words, from tensors of u32.
    """

    def __init__(self, k: FunctionBuilder, layouts: TiledMMA, tile: tuple[int, int]) -> None:
        self._k = k
        self.layouts = layouts
        self.shape = tile
        self._check_atom()
        self.instruction: MmaRequest = request_of(layouts.atom.row)
        select_mma(self.instruction, k.target)
        self.thread: ThrMMA = layouts.get_slice(k.thread_id())

    def __repr__(self) -> str:
        return f"<{self.layouts} over a tile of {self.shape[0]} x {self.shape[1]}>"

    def _check_atom(self) -> None:
        atom, threads = self.layouts.atom, self.layouts.size
        if atom.c is not atom.d:
            problem = f"it adds {atom.c} and gives {atom.d}, so that a sum cannot be added to again"
            instead = "take an atom whose C and D are of one type, or call k.mma.sync"
            WARP_ATOM.fail(mma=atom, problem=problem, instead=instead)
        last = max(self.layouts.thr_layout_vmnk.offsets())
        if threads % WARP_SIZE or last >= self._k.threads:
            problem = f"it takes {threads} threads, the last of them is number {last}, and a CTA has {self._k.threads}"
            WARP_ATOM.fail(mma=self.layouts, problem=problem, instead="lay atoms over whole warps that the kernel has")

    # -- registers --------------------------------------------------------------------------------------------------

    def accumulator(self, name: str = "acc") -> RegisterTensor:
        """The thread's part of C of the tile, (MMA, MMA_M, MMA_N), cleared. Raises tiled-mma.tile."""
        return self._registers(MmaOperand.C, self.layouts.partition_shape_C(self.shape), name)

    def fragment_a(self, columns: int, name: str = "a") -> RegisterTensor:
        """Registers for the thread's part of A of a tile M x `columns`, (MMA, MMA_M, MMA_K), cleared.

        Of a sparse A, `columns` counts those that are stored. Raises tiled-mma.tile.
        """
        return self._registers(MmaOperand.A, self.layouts.partition_shape_A((self.shape[0], columns)), name)

    def fragment_b(self, columns: int, name: str = "b") -> RegisterTensor:
        """Registers for the thread's part of B of a tile N x `columns`, (MMA, MMA_N, MMA_K), cleared.

        Raises tiled-mma.tile.
        """
        return self._registers(MmaOperand.B, self.layouts.partition_shape_B((self.shape[1], columns)), name)

    def _registers(self, operand: MmaOperand, shape: object, name: str) -> RegisterTensor:
        return make_registers(self._k.core, self.element_of(operand), Layout(shape), name)  # type: ignore[arg-type]

    def element_of(self, operand: MmaOperand) -> ElementType:
        """The type that the elements of an operand's fragments have in a kernel."""
        atom, element = self.layouts.atom, operand.element_of(self.layouts.atom)
        if element is tf32:
            return f32
        if operand is not MmaOperand.C and element.bits != atom.bits:
            return BY_NAME[f"u{atom.bits}"]
        return element

    # -- loads ------------------------------------------------------------------------------------------------------

    def load_a(self, tile: Tensor, *, where: Inside | None = None) -> RegisterTensor:
        """The thread's part of a tile M x K in shared or global memory: by ldmatrix where its rows allow it.

        `where` is of the tile's coordinates, for loads from global memory: elements outside of it are zeros. Raises
        tiled-mma.tile, warp-mma.fragment and what `k.copy` raises.
        """
        return self._loaded(MmaOperand.A, tile, where)

    def load_b(self, tile: Tensor, *, where: Inside | None = None) -> RegisterTensor:
        """The thread's part of a tile N x K of B, as `load_a` has A's."""
        return self._loaded(MmaOperand.B, tile, where)

    def _loaded(self, operand: MmaOperand, tile: Tensor, where: Inside | None) -> RegisterTensor:
        made = self._made(operand, tile)
        for step in self._steps(operand, tile, made, where):
            step()
        return made

    def _made(self, operand: MmaOperand, tile: Tensor) -> RegisterTensor:
        """Registers for what is to be loaded of a tile."""
        self._check_element(operand, tile)
        layout = _spread(tile.layout, self._in_word(operand)) if self._in_word(operand) > 1 else tile.layout
        return self._registers(operand, self._partition(operand)(layout).shape, operand.value.lower())

    def _in_word(self, operand: MmaOperand) -> int:
        """The elements in what a tile is counted in: those of a u32 where one takes less than a byte, else 1."""
        bits = self.element_of(operand).bits
        return 1 if bits % BYTE_BITS == 0 else REGISTER_BITS // bits

    def _steps(
        self, operand: MmaOperand, tile: Tensor, into: RegisterTensor, where: Inside | None = None
    ) -> list[Callable[[], None]]:
        """What loads the fragment, one k after the other: as many callables as k are read at a time."""
        k = self._k
        if self._in_word(operand) > 1:
            words, cut = self._words(operand, into)
            return [lambda: load_fitting(k, tile, words, cut, where)]
        pair = None if where is not None else in_matrices(k, operand, self.layouts, self.thread.thread, tile)
        if pair is not None:
            copy, part = pair
            registers = into.retile(copy.retile)
            return [
                lambda at=at: copy_part(  # type: ignore[misc]
                    k, copy.atom, part[None, None, at], registers[None, None, at]
                )
                for at in range(size(part.shape[2]))  # type: ignore[index]
            ]
        return [lambda: load_fitting(k, tile, into, self._partition(operand), where)]

    def _words(self, operand: MmaOperand, registers: RegisterTensor) -> tuple[RegisterTensor, PartCut]:
        """A fragment as the u32 that it is in, and what gives a thread's part of a tile of u32."""
        count = self._in_word(operand)

        def cut(layout: AnyLayout) -> Partition:
            part = self._partition(operand)(_spread(layout, count))
            own, *rest = part.plain.modes
            return Partition(make_layout(zipped_divide(own, count)[1], *rest), part.offset)

        own, *rest = registers.layout.modes
        shape = (size(own) // count, *map(size, rest))
        return RegisterTensor(self._k.core, u32, Layout(shape), registers._cells), cut

    def _partition(self, operand: MmaOperand) -> PartCut:
        cuts = {
            MmaOperand.A: self.thread.partition_A,
            MmaOperand.B: self.thread.partition_B,
            MmaOperand.C: self.thread.partition_C,
        }
        return cuts[operand]

    def load_metadata(self, metadata: Tensor, *, where: Inside | None = None) -> RegisterTensor:
        """What `gemm` takes beside a sparse A: metadata of a tile, u16 in global or shared memory.

        `metadata` has a row for each row of A, of words that speak of four groups of elements each: of four elements,
        of eight of 4 bits, of two of 32. The lowest bits are of the first group. PTX ISA 9.7.14.6.1.
        """
        width = _CHUNKS_A_WORD * chunk_width(self.layouts.atom.bits)

        def cut(layout: AnyLayout) -> Partition:
            part = self.thread.partition_beside(Beside.METADATA, _spread(layout, width))
            own, *rest = part.plain.modes
            words = zipped_divide(own, width)[1]
            return Partition(make_layout(words, *rest), part.offset)

        self._check_beside("metadata", metadata, u16)
        made = make_registers(self._k.core, u16, Layout(cut(metadata.layout).shape), "metadata")
        load_fitting(self._k, metadata, made, cut, where)
        return made

    def load_scales_a(self, scales: Tensor, *, where: Inside | None = None) -> RegisterTensor:
        """What `gemm` takes as scale factors of A: of a tile of M rows with a factor for each block along K.

        `scales` is M x blocks in global or shared memory, of the atom's type. `where` is of its coordinates; factors
        outside of it are the bits 0. Raises warp-mma.fragment and tiled-mma.tile.
        """
        return self._scales(Beside.SCALE_A, scales, where)

    def load_scales_b(self, scales: Tensor, *, where: Inside | None = None) -> RegisterTensor:
        """What `gemm` takes as scale factors of B, N x blocks, as `load_scales_a` has A's."""
        return self._scales(Beside.SCALE_B, scales, where)

    def _scales(self, beside: Beside, scales: Tensor, where: Inside | None) -> RegisterTensor:
        scale = self.layouts.atom.block_scale
        if scale is None:
            self._fail("scale factors", "its products are not scaled", "an atom of block scaling")
        self._check_beside("scale factors", scales, scale.scale)

        def cut(layout: AnyLayout) -> Partition:
            part = self.thread.partition_beside(beside, _spread(layout, scale.vec_size))
            assert isinstance(layout, Layout)
            return Partition(make_layout(layout[1], part.plain[1]), part.offset)

        blocks, rows = cut(scales.layout).plain.modes
        if size(blocks) % _FACTORS:
            problem = f"a row of the tile has {size(blocks)} factors, and a register {_FACTORS}"
            self._fail("scale factors", problem, f"tiles of multiples of {_FACTORS} blocks along K")
        made = make_registers(self._k.core, scale.scale, Layout((size(blocks), size(rows))), "scales")
        load_fitting(self._k, scales, made, cut, where)
        return made

    # -- products ---------------------------------------------------------------------------------------------------

    def gemm(
        self,
        acc: RegisterTensor,
        a: RegisterTensor,
        b: RegisterTensor,
        *,
        metadata: RegisterTensor | None = None,
        scales_a: RegisterTensor | None = None,
        scales_b: RegisterTensor | None = None,
    ) -> tuple[Issue, ...]:
        """Add A * B to the accumulator: an mma.sync for each of the issues that are returned, in this order.

        It is that of `nvbackend.tiled.gemm`. Raises tiled-mma.gemm, warp-mma.fragment and what `k.mma.sync` raises.
        """
        issues = self.issues(acc, a, b)
        for issue in issues:
            self._issue(issue, _Operands(acc, a, b, metadata, scales_a, scales_b))
        return issues

    def accumulate(
        self,
        acc: RegisterTensor,
        a: Tensor,
        b: Tensor,
        *,
        metadata: RegisterTensor | None = None,
        scales_a: RegisterTensor | None = None,
        scales_b: RegisterTensor | None = None,
    ) -> tuple[Issue, ...]:
        """As `gemm`, of tiles M x K and N x K in memory; loads each fragment just before the k that reads it.

        Raises also what `load_a` and `load_b` raise.
        """
        parts, steps = [], []
        for operand, tile in ((MmaOperand.A, a), (MmaOperand.B, b)):
            parts.append(self._made(operand, tile))
            steps.append(self._steps(operand, tile, parts[-1]))
        operands = _Operands(acc, parts[0], parts[1], metadata, scales_a, scales_b)
        issues = self.issues(acc, operands.a, operands.b)
        last = max((issue.k for issue in issues), default=-1) + 1
        for issue, first in zip(issues, _begins(issues), strict=True):
            for loads in steps if first else ():
                each = last // len(loads)
                if issue.k % each == 0:
                    loads[issue.k // each]()
            self._issue(issue, operands)
        return issues

    def issues(self, acc: RegisterTensor, a: RegisterTensor, b: RegisterTensor) -> tuple[Issue, ...]:
        """The instructions of `gemm`. Raises tiled-mma.gemm and warp-mma.fragment."""
        fragments = []
        for operand, tensor in ((MmaOperand.A, a), (MmaOperand.B, b), (MmaOperand.C, acc)):
            if tensor.element is not self.element_of(operand):
                problem = f"it is of {tensor.element}, and {self.element_of(operand)} is wanted"
                self._fail(operand.value, problem, f"mma.{_MAKERS[operand]}")
            fragments.append(_MADE[operand](self.layouts, tensor.layout))
        return gemm(self.layouts, *fragments)

    def _issue(self, issue: Issue, operands: _Operands) -> None:
        m, n, k = issue.m, issue.n, issue.k
        own = operands.acc[None, m, n]
        word = None if operands.metadata is None else operands.metadata[None, m, k].registers()[0]
        byte = self._first_factor(k) % _FACTORS
        registers = self._k.mma.sync(
            replace(self.instruction, byte_id_a=byte, byte_id_b=byte),
            operands.a[None, m, k].registers(),
            operands.b[None, n, k].registers(),
            own.registers(),
            metadata=word,
            scale_a=self._factors(operands.scales_a, m, k),
            scale_b=self._factors(operands.scales_b, n, k),
        )
        own.set_registers(registers)

    def _first_factor(self, k: int) -> int:
        """The number, in its row of the tile, of the first factor that the k-th instruction reads."""
        scale = self.layouts.atom.block_scale
        return 0 if scale is None else k * (self.layouts.atom.shape[2] // scale.vec_size)

    def _factors(self, scales: RegisterTensor | None, place: int, k: int) -> Value | None:
        if scales is None:
            return None
        registers: list[Value] = scales[None, place].registers()
        return registers[self._first_factor(k) // _FACTORS]

    # -- sums and results -------------------------------------------------------------------------------------------

    def reduce(self, acc: RegisterTensor) -> None:
        """Add the partial sums of several atoms along K, through shared memory: those at 0 along K have C then.

        All threads of the CTA execute it. With one atom along K there is nothing to do.
        """
        reduce_registers(self._k, self.layouts, self.thread.vmnk, acc)

    def store(self, acc: RegisterTensor, tile: Tensor, *, where: Inside | None = None) -> None:
        """Write the accumulators to a tile M x N in global or shared memory, with the widest stores that fit it.

        `where` is of the tile's coordinates: `k.identity_tensor((M, N), at=...).below(m, n)`; what is outside stays as
        it is in global memory. With several atoms along K those at 0 write. Raises tiled-mma.tile, warp-mma.fragment.
        """
        self._check_element(MmaOperand.C, tile)
        with self._those_with_sums():
            store_fitting(self._k, acc, tile, self.thread.partition_C, where)

    def axpby(
        self,
        alpha: Value | float,
        acc: RegisterTensor,
        beta: Value | float,
        tile: Tensor,
        *,
        c: Tensor | None = None,
        where: Inside | None = None,
    ) -> None:
        """Write alpha * A * B + beta * C to the tile D, M x N, as `store` writes A * B.

        C is what D holds, or the tile `c` of the same shape; either may be f16, bf16 or f32, and of accumulators of
        s32 or f64 both of that. `alpha` and `beta` are numbers or values of f32 (s32, f64). With the number 0 as
        `beta` C is not read; a `beta` that is 0 at run time lets C count for nothing. Raises epilogue.axpby-types,
        tiled-mma.tile, and what `k.copy` raises.
        """
        source = tile if c is None else c
        form = Axpby(self._k, alpha, beta, acc.element, tile.element, source.element)
        with self._those_with_sums():
            axpby_fitting(self._k, form, acc, tile, source, self.thread.partition_C, where)

    def _those_with_sums(self) -> AbstractContextManager[None]:
        """The threads that have C: all, or those at 0 of several atoms along K."""
        return nullcontext() if reduction(self.layouts).parts == 1 else self._k.if_(self.thread.vmnk[3] == 0)

    # -- checks -----------------------------------------------------------------------------------------------------

    def _check_element(self, operand: MmaOperand, tile: Tensor) -> None:
        wanted = self.element_of(operand) if self._in_word(operand) == 1 else u32
        if self._in_word(operand) > 1 and not isinstance(tile.layout, Layout):
            self._fail(operand.value, "the words of its tile are swizzled", "a tile without a swizzle")
        if tile.element is not wanted:
            problem = f"the tile is of {tile.element}, and {wanted} is wanted"
            self._fail(operand.value, problem, f"a tile of {wanted}, k.tensor(address.cast({wanted}), layout)")

    def _check_beside(self, what: str, tile: Tensor, wanted: ElementType) -> None:
        if tile.element is not wanted:
            problem = f"they are of {tile.element}, and {wanted} is wanted"
            self._fail(what, problem, f"a tile of {wanted}, k.tensor(address.cast({wanted}), layout)")
        if not isinstance(tile.layout, Layout):
            self._fail(
                what, "they are swizzled, and a thread's part of that is not a layout", "a layout without a swizzle"
            )

    def _fail(self, what: str, problem: str, instead: str) -> NoReturn:
        WARP_FRAGMENT.fail(what=what, mma=self.layouts, problem=problem, instead=instead)


_MADE = {
    MmaOperand.A: TiledMMA.make_fragment_A,
    MmaOperand.B: TiledMMA.make_fragment_B,
    MmaOperand.C: TiledMMA.make_fragment_C,
}
_MAKERS = {MmaOperand.A: "fragment_a", MmaOperand.B: "fragment_b", MmaOperand.C: "accumulator"}


def in_a_warp(atom: MmaAtom) -> bool:
    """Whether an atom is one of mma.sync: a warp or less of it, with all operands in registers."""
    return atom.threads <= WARP_SIZE and atom.d_residency is Residency.REGISTERS


def _begins(issues: tuple[Issue, ...]) -> Iterator[bool]:
    """Whether an issue is the first of its k."""
    before = -1
    for issue in issues:
        yield issue.k != before
        before = issue.k


def _spread(layout: AnyLayout, count: int) -> Layout:
    """The layout of A or B for a layout of factors, each shared by `count` elements along K."""
    assert isinstance(layout, Layout), "checked before"
    rows, words = layout.modes[:2]
    return make_layout(rows, make_layout(Layout(count, 0), words))
