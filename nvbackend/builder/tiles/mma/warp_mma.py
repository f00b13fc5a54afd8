"""mma.sync tiled over a CTA's warps: accumulators and fragments in registers, and the loops that multiply them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.tiles.axpby import Axpby
from nvbackend.builder.tiles.coordinates import Inside
from nvbackend.builder.tiles.elements.operand import registers_of_a
from nvbackend.builder.tiles.elements.tile_values import TileValues
from nvbackend.builder.tiles.fragment_copies import store_fitting
from nvbackend.builder.tiles.mma.axpby_fragments import axpby_fitting
from nvbackend.builder.tiles.mma.reduction import reduce_registers
from nvbackend.builder.tiles.mma.rules import WARP_ATOM, WARP_FRAGMENT
from nvbackend.builder.tiles.mma.warp_fragments import FACTORS, WarpFragments
from nvbackend.builder.tiles.register_tensor import RegisterTensor
from nvbackend.builder.tiles.tensor import Tensor
from nvbackend.builder.values.attributes import KnownAttributes
from nvbackend.builder.values.values import Value
from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.isel.select.mma.request import MmaRequest, request_of
from nvbackend.isel.select.mma.select import select_mma
from nvbackend.tiled import Issue, MmaOperand, ThrMMA, TiledMMA, gemm, reduction
from nvbackend.tiled.operand import Beside


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
class TiledWarpMma(KnownAttributes):
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
        self.thread: ThrMMA = layouts.get_slice(k.thread_id("linear"))
        self._fragments = WarpFragments(k, layouts, self.thread)

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
            problem = f"it takes {threads} threads, up to number {last}, and a CTA has {self._k.threads}"
            WARP_ATOM.fail(mma=self.layouts, problem=problem, instead="lay atoms over whole warps that the kernel has")

    # -- registers --------------------------------------------------------------------------------------------------

    def accumulator(self, name: str = "acc") -> RegisterTensor:
        """The thread's part of C of the tile, (MMA, MMA_M, MMA_N), cleared. Raises tiled-mma.tile."""
        return self._fragments.registers(MmaOperand.C, self.shape, name)

    def fragment_a(self, columns: int, name: str = "a") -> RegisterTensor:
        """Registers for the thread's part of A of a tile M x `columns`, (MMA, MMA_M, MMA_K), cleared.

        Of a sparse A, `columns` counts those that are stored. Raises tiled-mma.tile.
        """
        return self._fragments.registers(MmaOperand.A, (self.shape[0], columns), name)

    def fragment_b(self, columns: int, name: str = "b") -> RegisterTensor:
        """Registers for the thread's part of B of a tile N x `columns`, (MMA, MMA_N, MMA_K), cleared.

        Raises tiled-mma.tile.
        """
        return self._fragments.registers(MmaOperand.B, (self.shape[1], columns), name)

    def make_fragment_A(self, tile: TileValues, name: str = "a") -> RegisterTensor:
        """A from the elements of another product, M x K, converted to A's type: P of attention, in one call.

        No thread gives another anything. Raises elements.operand where a thread has other elements than it multiplies,
        and tiled-mma.tile where the columns are not whole steps along K.
        """
        made = self._fragments.registers(MmaOperand.A, tile.shape, name)
        made.set_registers(registers_of_a(self.layouts, tile, self.shape[0], made.element))
        return made

    def _element_of(self, operand: MmaOperand) -> ElementType:
        """The type that the elements of an operand's fragments have in a kernel."""
        return self._fragments.element_of(operand)

    # -- loads ------------------------------------------------------------------------------------------------------

    def load_a(self, tile: Tensor, *, where: Inside | None = None) -> RegisterTensor:
        """The thread's part of a tile M x K in shared or global memory: by ldmatrix where its rows allow it.

        `where` is of the tile's coordinates, for loads from global memory: elements outside of it are zeros. Raises
        tiled-mma.tile, warp-mma.fragment and what `k.copy` raises.
        """
        return self._fragments.load(MmaOperand.A, tile, where)

    def load_b(self, tile: Tensor, *, where: Inside | None = None) -> RegisterTensor:
        """The thread's part of a tile N x K of B, like `load_a` for A."""
        return self._fragments.load(MmaOperand.B, tile, where)

    def load_metadata(self, metadata: Tensor, *, where: Inside | None = None) -> RegisterTensor:
        """What `gemm` takes in addition to a sparse A: metadata of a tile, u16 in global or shared memory.

        `metadata` has a row for each row of A, of words that speak of four groups of elements each: of four elements,
        of eight of 4 bits, of two of 32. The lowest bits are of the first group. Words outside of `where` are legal
        ones, which keep the first elements of each group. PTX ISA 9.7.14.6.1.
        """
        return self._fragments.metadata(metadata, where)

    def load_scales_a(self, scales: Tensor, *, where: Inside | None = None) -> RegisterTensor:
        """What `gemm` takes as scale factors of A: those of a tile of M rows, with a factor for each block along K.

        `scales` is M x blocks in global or shared memory, of the atom's type. `where` is of its coordinates; factors
        outside of it are the bits 0. Raises warp-mma.fragment and tiled-mma.tile.
        """
        return self._fragments.scales(Beside.SCALE_A, scales, where)

    def load_scales_b(self, scales: Tensor, *, where: Inside | None = None) -> RegisterTensor:
        """What `gemm` takes as scale factors of B, N x blocks, like `load_scales_a` for A."""
        return self._fragments.scales(Beside.SCALE_B, scales, where)

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
        for what, operand in (("A", a), ("B", b)):
            self._check_is_loaded(what, operand)
        issues = self.issues(acc, a, b)
        for issue in issues:
            self._issue(issue, _Operands(acc, a, b, metadata, scales_a, scales_b))
        return issues

    def _check_is_loaded(self, what: str, operand: RegisterTensor | Tensor) -> None:
        if not isinstance(operand, Tensor):
            return
        instead = f"multiply tiles in memory by mma.accumulate(acc, a, b), or load it: mma.load_{what.lower()}(tile)"
        problem = "it is a tile in memory, and gemm takes fragments in registers"
        WARP_FRAGMENT.fail(what=what, mma=self.layouts, problem=problem, instead=instead)

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
        """Like `gemm`, for tiles M x K and N x K in memory; it loads each fragment just before the step that reads it.

        Raises also what `load_a` and `load_b` raise.
        """
        parts, steps = [], []
        for operand, tile in ((MmaOperand.A, a), (MmaOperand.B, b)):
            parts.append(self._fragments.made(operand, tile))
            steps.append(self._fragments.steps(operand, tile, parts[-1]))
        operands = _Operands(acc, parts[0], parts[1], metadata, scales_a, scales_b)
        issues = self.issues(acc, operands.a, operands.b)
        last = max(issue.k for issue in issues) + 1
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
            wanted = self._element_of(operand)
            if tensor.element is not wanted:
                problem = f"it is of {tensor.element}, and {wanted} is wanted"
                self._fragments.fail(operand.value, problem, f"mma.{_MAKERS[operand]}")
            fragments.append(_MADE[operand](self.layouts, tensor.layout))
        return gemm(self.layouts, *fragments)

    def _issue(self, issue: Issue, operands: _Operands) -> None:
        m, n, k = issue.m, issue.n, issue.k
        own = operands.acc[None, m, n]
        word = None if operands.metadata is None else operands.metadata[None, m, k].registers()[0]
        byte = self._first_factor(k) % FACTORS
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
        return registers[self._first_factor(k) // FACTORS]

    # -- sums and results -------------------------------------------------------------------------------------------

    def reduce(self, acc: RegisterTensor) -> None:
        """Add the partial sums of several atoms along K, through shared memory: then the atoms at 0 along K have C.

        All threads of the CTA execute it. With one atom along K there is nothing to do.
        """
        reduce_registers(self._k, self.layouts, self.thread.vmnk, acc)

    def store(self, acc: RegisterTensor, tile: Tensor, *, where: Inside | None = None) -> None:
        """Write the accumulators to a tile M x N in global or shared memory, with the widest stores that fit it.

        `where` is of the tile's coordinates: `k.identity_tensor((M, N), at=...).below(m, n)`; what is outside stays as
        it is in global memory. With several atoms along K those at 0 write. A tile of another type takes
        `acc.elements().store`, which converts. Raises tiled-mma.tile, warp-mma.fragment.
        """
        self._fragments.check_stored(tile)
        self._fragments.check_extents(tile, self.shape)
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
        for written_or_read in (tile, source):
            self._fragments.check_extents(written_or_read, self.shape)
        form = Axpby(self._k, alpha, beta, acc.element, tile.element, source.element)
        with self._those_with_sums():
            axpby_fitting(self._k, form, acc, tile, source, self.thread.partition_C, where)

    def _those_with_sums(self) -> AbstractContextManager[None]:
        """The threads that have C: all, or those at 0 of several atoms along K."""
        return nullcontext() if reduction(self.layouts).parts == 1 else self._k.if_(self.thread.vmnk[3] == 0)


_MADE = {
    MmaOperand.A: TiledMMA.make_fragment_A,
    MmaOperand.B: TiledMMA.make_fragment_B,
    MmaOperand.C: TiledMMA.make_fragment_C,
}
_MAKERS = {MmaOperand.A: "fragment_a", MmaOperand.B: "fragment_b", MmaOperand.C: "accumulator"}


def _begins(issues: tuple[Issue, ...]) -> Iterator[bool]:
    """Whether an issue is the first of its k."""
    before = -1
    for issue in issues:
        yield issue.k != before
        before = issue.k
