"""A thread's part of a tensor: a layout and where it begins, and what an instruction takes of it.

That is registers, descriptors, or cells of tensor memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import lru_cache
from operator import index
from typing import Any, NoReturn

from nvbackend.atoms import MmaAtom, Residency
from nvbackend.diagnostics import printed, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType, u8
from nvbackend.intrinsics.words.smem_descriptor import UNIT, Major, SmemDescriptor
from nvbackend.intrinsics.words.tcgen05_descriptor import Tcgen05SmemDescriptor
from nvbackend.layout import (
    AnyLayout,
    ComposedLayout,
    DescriptorIterator,
    IntTuple,
    Layout,
    SmemPtr,
    filter_zeros,
    make_layout,
    make_ordered_layout,
    recast_layout,
    size,
    smem_desc,
    tiled_product,
)
from nvbackend.layout.algebra.inttuple import Dynamic, added, index_of, is_run_time, leaves, modes, nested_as
from nvbackend.layout.algebra.layout import is_static
from nvbackend.tiled.operand import MmaOperand
from nvbackend.tiled.rules import FRAGMENT, THREAD

_TILES = 256
"""So many tiles are remembered with their first descriptor: those of a kernel come again and again."""


def check_thread(layout: Layout, thread: int, mma: object) -> None:
    """Raises tiled-mma.thread if `layout` maps nothing to `thread`."""
    taking_part = layout.offsets()
    if thread in taking_part:
        return
    last = max(taking_part)
    inside = 0 <= thread <= last
    problem = "others make up its atoms" if inside else f"they are numbered from 0 to {last}"
    instead = "lay more atoms over the warp, or leave it out" if inside else "count from its first thread"
    THREAD.fail(given=thread, mma=mma, problem=problem, instead=instead)


def place_of(thread: Any, layout: Layout, mma: object) -> Any:
    """A thread's number, or a builder's value of it. Raises tiled-mma.thread."""
    number = index_of(thread)
    if number is not None:
        check_thread(layout, number, mma)
        return number
    if not is_run_time(thread):
        problem = "it is neither an integer nor a run-time value"
        THREAD.fail(given=printed(thread), mma=mma, problem=problem, instead="use k.thread_id(), or a number")
    return thread


def thread_coordinate(layout: Layout, thread: Any) -> tuple[Any, Any, Any, Any]:
    """(V, M, N, K) of a thread, each one integer: CuTe's get_flat_coord.

    Each leaf's index is what its stride is reached with, below the next larger stride; the last one goes round.
    """
    parts = []
    for place, mode in enumerate(layout.modes):
        step = 1
        for extent, stride in zip(leaves(mode.shape), leaves(mode.stride), strict=True):
            if extent > 1:
                parts.append((stride, extent, place, step))
                step *= extent
    parts.sort()
    coordinate: list[Any] = [0, 0, 0, 0]
    for number, (stride, extent, place, step) in enumerate(parts):
        around = parts[number + 1][0] if number + 1 < len(parts) else stride * extent
        index = thread % around if stride == 1 else thread % around // stride
        coordinate[place] = coordinate[place] + (index if step == 1 else index * step)
    v, m, n, k = coordinate
    return v, m, n, k


@user_facing
@dataclass(frozen=True, repr=False)
class Partition:
    """A thread's part of a tensor, as `ThrMMA.partition_A`, `_B` and `_C` give it: CuTe's tCsA, tCgC.

    Coordinate c is at index `offset + layout(c)` of the tensor, through the tensor's swizzle where it has one: the
    offset is added before bits are exchanged. `offset` is an integer, or a builder's value where the thread is one.
    `start` is where it comes from, so that it can be counted in other units too: a layout and the thread's coordinate.
    """

    layout: AnyLayout
    offset: Any = 0
    start: tuple[Layout, Any] | None = field(default=None, compare=False)

    def offset_in(self, elements: int, bits: int) -> Any:
        """The offset in units of `elements` elements, of `bits` bits each.

        Raises layout-algebra.recast where it is not a whole number of them.
        """
        if isinstance(self.offset, int) and self.offset == 0:
            return 0
        if self.start is None:
            return self.offset // elements
        threads, coordinate = self.start
        return recast_layout(threads, bits, index(bits) * index(elements))(coordinate)

    @property
    def plain(self) -> Layout:
        """The layout without a swizzle, as CuTe prints a tensor in shared memory."""
        return self.layout.layout_b if isinstance(self.layout, ComposedLayout) else self.layout

    @property
    def shape(self) -> IntTuple:
        """(MMA, MMA_M, MMA_K, ...) of A, (MMA, MMA_N, MMA_K, ...) of B, (MMA, MMA_M, MMA_N, ...) of C."""
        return self.plain.shape

    def __call__(self, *coordinate: Any) -> Any:
        """The index of a coordinate in the tensor; with `_` in it, the partition of the modes that are left open.

        Raises layout-algebra.coordinate, and layout-algebra.element-width where the swizzle needs to know it.
        """
        kept, start = self.plain.slice_and_offset(*coordinate)
        offset = added(self.offset, start)
        if kept.shape != ():
            return Partition(self._with(kept), offset)
        if not isinstance(self.layout, ComposedLayout):
            return offset
        function = self.layout.in_elements()
        return function.swizzle(function.offset + offset)

    def offsets(self) -> list[int]:
        """The indices of all coordinates, in the order of the coordinate as one integer.

        Raises layout-algebra.run-time and layout-algebra.element-width.
        """
        indices = [self.offset + index for index in self.plain.offsets()]
        if not isinstance(self.layout, ComposedLayout):
            return indices
        function = self.layout.in_elements()
        return [function.swizzle(function.offset + index) for index in indices]

    def _with(self, layout: Layout) -> AnyLayout:
        return replace(self.layout, layout_b=layout) if isinstance(self.layout, ComposedLayout) else layout

    def __str__(self) -> str:
        known = isinstance(self.offset, int)
        return str(self.layout) if known and self.offset == 0 else f"{self.layout} from {self.offset if known else '?'}"

    def __repr__(self) -> str:
        return f"Partition({self.layout!r}, {self.offset!r})"


_BYTE_BITS = 8
_UNIT_BITS = UNIT * _BYTE_BITS
_INSTRUCTION_ROW_BITS = 256
"""What an instruction that reads shared or tensor memory takes of a row of A: its K, half of it where A is sparse."""
_UNITS = {
    Residency.REGISTERS: "registers",
    Residency.SHARED_DESCRIPTOR: "descriptors",
    Residency.TENSOR_MEMORY: "tmem",
}


@user_facing
@dataclass(frozen=True, repr=False)
class Fragment:
    """An operand as the instructions of `atom` take it: CuTe's tCrA, tCrB, tCrC.

    Mode 0 of `layout` is what one instruction has. Its indices count the thread's own elements where it is in
    registers; descriptors in units of 16 bytes from that of the tensor, one for an instruction; in tensor memory
    elements of `bits` (see `cells`). `offset` is where the thread's part begins, which may be a builder's value. Of
    descriptors, `tile` is the partitioned layout that they were made of.
    """

    atom: MmaAtom
    operand: MmaOperand
    layout: Layout
    offset: Any = 0
    tile: AnyLayout | None = None

    @property
    def residency(self) -> Residency:
        """Where the operand is: registers, shared memory or tensor memory."""
        return self.operand.residency_of(self.atom)

    @property
    def element(self) -> ElementType:
        """The type of an element."""
        return self.operand.element_of(self.atom)

    @property
    def bits(self) -> int:
        """The bits of an element there."""
        if self.operand is MmaOperand.C:
            return self.element.bits
        return self.atom.bits if self.residency is Residency.REGISTERS else memory_bits(self.atom)

    @property
    def shape(self) -> IntTuple:
        """The layout's shape."""
        return self.layout.shape

    def __call__(self, *coordinate: Any) -> Any:
        """The index of a coordinate; with `_` in it, the fragment of the modes left open.

        Raises layout-algebra.coordinate.
        """
        kept, start = self.layout.slice_and_offset(*coordinate)
        offset = self.offset + start
        return offset if kept.shape == () else replace(self, layout=kept, offset=offset)

    def offsets(self) -> list[int]:
        """The indices of all coordinates, in the order of the coordinate as one integer."""
        return [self.offset + index for index in self.layout.offsets()]

    def descriptors(self, base: Any = None) -> DescriptorIterator:
        """The descriptors themselves, for instructions: CuTe's DescriptorIterator.

        `base` is the descriptor of the tensor's first operand, or its word as a builder's value; the default is the one
        that follows from the layout, for a tensor at address 0. Raises tiled-mma.fragment for operands that are not in
        shared memory, and what `nvbackend.layout.smem_desc` raises.
        """
        if self.residency is not Residency.SHARED_DESCRIPTOR:
            self._fail("descriptors", "pass registers to the instruction unchanged, and tensor memory by its address")
        assert self.tile is not None
        kind = SmemDescriptor if self.atom.d_residency is Residency.REGISTERS else Tcgen05SmemDescriptor
        major = self.atom.a_major if self.operand is MmaOperand.A else self.atom.b_major
        # Elements of 4 and 6 bits with padding lie as those of a byte do.
        element = u8 if self.element.bits < memory_bits(self.atom) else self.element
        first = _first_descriptor(major, self.tile, element, kind) if base is None else base
        begun: DescriptorIterator = DescriptorIterator(first, self.layout, kind) + self.offset
        return begun

    def cells(self) -> list[tuple[int, int, int]]:
        """Of tensor memory: (lane, 32-bit column, bit in it) of all coordinates. Raises tiled-mma.fragment."""
        if self.residency is not Residency.TENSOR_MEMORY:
            self._fail("cells of tensor memory", "ask for them of the accumulators of tcgen05")
        from nvbackend.tiled.tensor_memory import tmem_cell

        return [tmem_cell(index, self.bits) for index in self.offsets()]

    def _fail(self, what: str, instead: str) -> NoReturn:
        problem = f"it is in {self.residency}, which has no {what}"
        FRAGMENT.fail(operand=self.operand.value, mma=self.atom, given=self.layout, problem=problem, instead=instead)

    def __str__(self) -> str:
        return f"{_UNITS[self.residency]}[{self.bits}b] o {self.layout}"

    def __repr__(self) -> str:
        return f"Fragment({self.atom.name!r}, {self.operand}, {self.layout!r}, {self.offset!r})"


def _first_descriptor(
    major: Major, tile: AnyLayout, element: ElementType, kind: type[SmemDescriptor | Tcgen05SmemDescriptor]
) -> SmemDescriptor | Tcgen05SmemDescriptor:
    """That of the first operand of a partitioned tile. Raises what `smem_desc` raises."""
    plain, offset = (tile.layout_b, tile.offset) if isinstance(tile, ComposedLayout) else (tile, 0)
    find: Callable[..., SmemDescriptor | Tcgen05SmemDescriptor] = (
        _descriptor_before if is_static(plain) and not isinstance(offset, Dynamic) else _descriptor
    )
    return find(major, tile, element, kind)


def _descriptor(
    major: Major, tile: AnyLayout, element: ElementType, kind: type[SmemDescriptor | Tcgen05SmemDescriptor]
) -> SmemDescriptor | Tcgen05SmemDescriptor:
    first: SmemDescriptor | Tcgen05SmemDescriptor = smem_desc(major, tile, element, kind=kind).base
    return first


_descriptor_before = lru_cache(maxsize=_TILES)(_descriptor)


def memory_bits(atom: MmaAtom) -> int:
    """Bits of an element of A or B in shared or tensor memory; those of kind::f8f6f4 take a byte each."""
    return max(atom.bits, _INSTRUCTION_ROW_BITS // atom.stored_k)  # a K of 96 is longer than a row


def make_fragment(atom: MmaAtom, operand: MmaOperand, partitioned: Partition | AnyLayout) -> Fragment:
    """The fragment of a partitioned operand, a `Partition` or its layout, ((MMA, ...), MMA_M, ...).

    Raises tiled-mma.fragment, tiled-mma.tensor-memory, and layout-algebra.recast where descriptors cannot begin
    where an instruction's part does.
    """
    part = partitioned if isinstance(partitioned, Partition) else Partition(partitioned)
    residency = operand.residency_of(atom)
    _check_partitioned(atom, operand, part)
    if residency is Residency.REGISTERS:
        # Accumulators are not laid out as what they are written to: that may have any order.
        return Fragment(atom, operand, Layout(part.shape) if operand is MmaOperand.C else _like(part.plain))
    if residency is Residency.TENSOR_MEMORY:
        from nvbackend.tiled.tensor_memory import tmem_layout

        bits = operand.element_of(atom).bits if operand is MmaOperand.C else memory_bits(atom)
        return Fragment(atom, operand, tmem_layout(atom, operand, part.shape, bits))
    return _descriptors(atom, operand, part)


def _descriptors(atom: MmaAtom, operand: MmaOperand, part: Partition) -> Fragment:
    """CuTe's make_tensor<smem_desc>: the layout in units of 16 bytes, with one descriptor for all of mode 0."""
    bits = memory_bits(atom)
    _check_width(atom, operand, part, bits)
    apart = make_layout(*part.plain.modes[1:])
    rest = recast_layout(apart, bits, _UNIT_BITS)
    if rest.shape != apart.shape:
        problem = f"the operands of two instructions are less than {UNIT} bytes apart"
        instead = "permute nothing along the dimension that is contiguous in shared memory"
        FRAGMENT.fail(operand=operand.value, mma=atom, given=part, problem=problem, instead=instead)
    offset = part.offset_in(_UNIT_BITS // bits, bits)
    return Fragment(atom, operand, make_layout(Layout(1, 0), *rest.modes), offset, part.layout)


def _like(layout: Layout) -> Layout:
    """CuTe's make_fragment_like: mode 0 compact, the others in the order that they have in memory."""
    own, *rest = layout.modes
    block = Layout(own.shape, Layout(filter_zeros(own).shape).stride)
    others = make_layout(*rest)
    strides = list(leaves(others.stride))
    known = [stride for stride in strides if isinstance(stride, int) and not isinstance(stride, Dynamic)]
    last = max(known, default=0) + 1  # what is known at run time only comes after all that is known before, as in CuTe
    order = [
        stride if isinstance(stride, int) and not isinstance(stride, Dynamic) else last + place
        for place, stride in enumerate(strides)
    ]
    return tiled_product(block, make_ordered_layout(others.shape, nested_as(others.shape, order)))


def _check_partitioned(atom: MmaAtom, operand: MmaOperand, part: Partition) -> None:
    values = size(operand.layout_of(atom), 1)
    parts = modes(part.shape)
    if len(parts) >= 3 and size(parts[0]) == values:
        return
    problem = f"its first mode is not the {values} elements that one instruction has of a thread, or two do not follow"
    instead = f"cut it first: thread.partition_{operand.value}(layout)"
    FRAGMENT.fail(operand=operand.value, mma=atom, given=part, problem=problem, instead=instead)


def _check_width(atom: MmaAtom, operand: MmaOperand, part: Partition, bits: int) -> None:
    layout = part.layout
    if not (isinstance(layout, ComposedLayout) and isinstance(layout.offset, SmemPtr)):
        return
    held = layout.offset.bits
    if held is not None and held != bits:
        problem = f"its elements have {held} bits, those of the operand {bits} in shared memory"
        FRAGMENT.fail(
            operand=operand.value,
            mma=atom,
            given=part,
            problem=problem,
            instead=f"make the layout of elements of {bits} bits",
        )
