"""The operands of an mma.sync in registers: which a thread holds, and how they get there from tiles in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.tiles.coordinates import Inside
from nvbackend.builder.tiles.elements.places import MmaPlaces
from nvbackend.builder.tiles.fragment_copies import PartCut, in_matrices, load_fitting
from nvbackend.builder.tiles.mma.rules import WARP_FRAGMENT
from nvbackend.builder.tiles.register_tensor import RegisterTensor, make_registers
from nvbackend.builder.tiles.tensor import Tensor
from nvbackend.builder.tiles.tiled_copy import copy_part
from nvbackend.intrinsics.fragments.mma import chunk_width
from nvbackend.intrinsics.row.types import BY_NAME, REGISTER_BITS, ElementType, f32, tf32, u16, u32, ue8m0
from nvbackend.layout import AnyLayout, Layout, make_layout, size, zipped_divide
from nvbackend.layout.algebra.inttuple import leaves
from nvbackend.layout.algebra.swizzle import BYTE_BITS
from nvbackend.tiled import MmaOperand, Partition, ThrMMA, TiledMMA
from nvbackend.tiled.operand import Beside

_CHUNKS_A_WORD = 4
"""Groups of elements that 16 bits of metadata speak of, four bits each."""
_KEEPS_THE_FIRST = 0x4444
"""Metadata that keeps the first two elements of each group: legal for elements of every width, as zeros are not."""
FACTORS = REGISTER_BITS // ue8m0.bits
"""How many scale factors a register holds."""


class WarpFragments:
    """The fragments of `thread`, one of the threads of `layouts`: (MMA, MMA_M, MMA_K) and the like."""

    def __init__(self, k: FunctionBuilder, layouts: TiledMMA, thread: ThrMMA) -> None:
        self._k = k
        self.layouts = layouts
        self.thread = thread

    def element_of(self, operand: MmaOperand) -> ElementType:
        """The type that the elements of an operand's fragments have in a kernel."""
        atom, element = self.layouts.atom, operand.element_of(self.layouts.atom)
        if element is tf32:
            return f32
        if operand is not MmaOperand.C and element.bits != atom.bits:
            return BY_NAME[f"u{atom.bits}"]
        return element

    def registers(self, operand: MmaOperand, tile: tuple[int, int], name: str) -> RegisterTensor:
        """Registers for the thread's part of a tile of an operand, cleared. Raises tiled-mma.tile."""
        return self._registers(operand, Layout(tile), name)

    def _registers(self, operand: MmaOperand, layout: AnyLayout, name: str) -> RegisterTensor:
        part = self._partition(operand)(layout)
        rows, columns, *_ = (size(mode) for mode in (layout if isinstance(layout, Layout) else layout.layout_b).modes)
        places = MmaPlaces(self._k, self.layouts, operand, (rows, columns), lambda _: self.thread)
        return make_registers(self._k.core, self.element_of(operand), Layout(part.shape), name, places)

    def load(self, operand: MmaOperand, tile: Tensor, where: Inside | None) -> RegisterTensor:
        """The thread's part of a tile of A or B."""
        made = self.made(operand, tile)
        for step in self.steps(operand, tile, made, where):
            step()
        return made

    def made(self, operand: MmaOperand, tile: Tensor) -> RegisterTensor:
        """Registers for what is to be loaded of a tile."""
        self.check_element(operand, tile)
        layout = _spread(tile.layout, self._in_word(operand)) if self._in_word(operand) > 1 else tile.layout
        return self._registers(operand, layout, operand.value.lower())

    def _in_word(self, operand: MmaOperand) -> int:
        """The elements in what a tile is counted in: those of a u32 where one takes less than a byte, else 1."""
        bits = self.element_of(operand).bits
        return 1 if bits % BYTE_BITS == 0 else REGISTER_BITS // bits

    def steps(
        self, operand: MmaOperand, tile: Tensor, into: RegisterTensor, where: Inside | None = None
    ) -> list[Callable[[], None]]:
        """What loads the fragment, one k after the other: as many callables as k are read at a time."""
        k = self._k
        if self._in_word(operand) > 1:
            words, cut = self._words(operand, into)
            return [lambda: load_fitting(k, tile, words, cut, where)]
        pair = None if where is not None else in_matrices(operand, self.layouts, self.thread.thread, tile)
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
        return RegisterTensor(self._k.core, u32, Layout(shape), registers._cells, carried=registers._carried), cut

    def _partition(self, operand: MmaOperand) -> PartCut:
        cuts = {
            MmaOperand.A: self.thread.partition_A,
            MmaOperand.B: self.thread.partition_B,
            MmaOperand.C: self.thread.partition_C,
        }
        return cuts[operand]

    def metadata(self, metadata: Tensor, where: Inside | None) -> RegisterTensor:
        """The metadata of a sparse A, u16, of a tile with a row for each row of A."""
        width = _CHUNKS_A_WORD * chunk_width(self.layouts.atom.bits)

        def cut(layout: AnyLayout) -> Partition:
            part = self.thread.partition_beside(Beside.METADATA, _spread(layout, width))
            own, *rest = part.plain.modes
            words = zipped_divide(own, width)[1]
            return Partition(make_layout(words, *rest), part.offset)

        self._check_beside("metadata", metadata, u16)
        made = make_registers(self._k.core, u16, Layout(cut(metadata.layout).shape), "metadata")
        load_fitting(self._k, metadata, made, cut, where)
        if where is not None:
            self._keep_legal(made, where.partition(cut))
        return made

    def _keep_legal(self, metadata: RegisterTensor, where: Inside) -> None:
        """Legal words in place of the zeros that were loaded for what is outside of `where`."""
        for word in range(size(metadata.layout)):
            inside = where.holds(word)
            if inside is not None:
                metadata[word] = self._k.select(inside, metadata[word], _KEEPS_THE_FIRST)

    def scales(self, beside: Beside, scales: Tensor, where: Inside | None) -> RegisterTensor:
        """The scale factors of A or B, of a tile with a row of them for each row of that."""
        scale = self.layouts.atom.block_scale
        if scale is None:
            self.fail("scale factors", "its products are not scaled", "an atom of block scaling")
        self._check_beside("scale factors", scales, scale.scale)

        def cut(layout: AnyLayout) -> Partition:
            part = self.thread.partition_beside(beside, _spread(layout, scale.vec_size))
            assert isinstance(layout, Layout)
            return Partition(make_layout(layout[1], part.plain[1]), part.offset)

        blocks, rows = cut(scales.layout).plain.modes
        if size(blocks) % FACTORS:
            problem = f"a row of the tile has {size(blocks)} factors, and a register {FACTORS}"
            self.fail("scale factors", problem, f"tiles of multiples of {FACTORS} blocks along K")
        made = make_registers(self._k.core, scale.scale, Layout((size(blocks), size(rows))), "scales")
        load_fitting(self._k, scales, made, cut, where)
        return made

    def check_element(self, operand: MmaOperand, tile: Tensor) -> None:
        """Raises warp-mma.fragment for a tile of other elements than the operand's fragments have."""
        packed = self._in_word(operand) > 1
        wanted = u32 if packed else self.element_of(operand)
        if packed and not isinstance(tile.layout, Layout):
            self.fail(operand.value, "the words of its tile are swizzled", "a tile without a swizzle")
        if tile.element is not wanted:
            problem = f"the tile is of {tile.element}, and {wanted} is wanted"
            if packed:
                self.fail(operand.value, problem, f"a tile of {wanted}, k.tensor(address.cast({wanted}), layout)")
            self._refuse(operand.value, problem, _if_it_holds(wanted, f"copy it to a tile of {wanted}"))

    def check_stored(self, tile: Tensor) -> None:
        """Raises warp-mma.fragment for a tile of other elements than the accumulators'."""
        wanted = self.element_of(MmaOperand.C)
        if tile.element is not wanted:
            problem = f"the sums are of {wanted}, and the tile that they are stored to is of {tile.element}"
            instead = "convert them: acc.elements().store(tile, where=...), or mma.axpby(1.0, acc, 0, tile, where=...)"
            self._refuse("D", problem, _if_it_holds(wanted, instead))

    def check_extents(self, tile: Tensor, shape: tuple[int, int]) -> None:
        """Raises warp-mma.fragment for a tile of other extents than the sums, and tiled-mma.tile if none fill it."""
        modes = tile.shape if isinstance(tile.shape, tuple) else (tile.shape,)
        if not all(isinstance(extent, int) for mode in modes for extent in leaves(mode)):
            return  # known when the kernel runs
        extents = tuple(math.prod(leaves(mode)) for mode in modes)
        if extents != shape:
            self.thread.partition_C(Layout(extents))
            stored, wanted = (" x ".join(map(str, sizes)) for sizes in (extents, shape))
            problem = f"the sums are of a tile of {wanted}, and the tile that they are stored to is of {stored}"
            whole = f", or take k.tiled_mma(..., tile={extents}) for all of it" if len(extents) == len(shape) else ""
            self._refuse("D", problem, f"store to a part of {wanted}: tensor.tile({shape}, (row, column)){whole}")

    def _check_beside(self, what: str, tile: Tensor, wanted: ElementType) -> None:
        if tile.element is not wanted:
            problem = f"they are of {tile.element}, and {wanted} is wanted"
            self._refuse(what, problem, _if_it_holds(wanted, f"copy them to a tile of {wanted}"))
        if not isinstance(tile.layout, Layout):
            self.fail(
                what, "they are swizzled, and a thread's part of that is not a layout", "a layout without a swizzle"
            )

    def fail(self, what: str, problem: str, instead: str) -> NoReturn:
        """Raises warp-mma.fragment: what to make the operand with `instead`."""
        self._refuse(what, problem, f"make it with {instead}")

    def _refuse(self, what: str, problem: str, instead: str) -> NoReturn:
        WARP_FRAGMENT.fail(what=what, mma=self.layouts, problem=problem, instead=instead)


def _if_it_holds(wanted: ElementType, otherwise: str) -> str:
    """What to do about a tile that says that it has other elements."""
    return f"{otherwise}; or, where the memory holds {wanted}, say so: k.tensor(address.cast({wanted}), layout)"


def _spread(layout: AnyLayout, count: int) -> Layout:
    """The layout of A or B for a layout of factors, each shared by `count` elements along K."""
    assert isinstance(layout, Layout), "checked before"
    rows, words = layout.modes
    return make_layout(rows, make_layout(Layout(count, 0), words))
