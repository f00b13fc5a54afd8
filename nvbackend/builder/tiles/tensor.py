"""Tensors: memory seen through a layout, cut into tiles and threads' parts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from nvbackend.builder.core.memory import Address
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.scopes import rules
from nvbackend.builder.tiles.coordinates import Cut, check_closed, check_inside, divisor, is_open, sliced
from nvbackend.builder.values.attributes import KnownAttributes
from nvbackend.builder.values.values import Operand, Value, address_type, as_index
from nvbackend.diagnostics import Rule, run_callback, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.layout import AnyLayout, ComposedLayout, IntTuple, Layout, SmemPtr, Swizzle, cosize, zipped_divide
from nvbackend.layout.algebra.inttuple import RunTimeExtent, added, leaves, modes, nested_as, valued
from nvbackend.layout.algebra.layout import must_be_known
from nvbackend.layout.algebra.swizzle import BYTE_BITS
from nvbackend.tiled import Partition, ThrCopy
from nvbackend.tiled.vectorize import multiple

if TYPE_CHECKING:
    from nvbackend.builder.tiles.register_tensor import RegisterTensor

Part: TypeAlias = "Tensor | RegisterTensor"
"""What a thread has of a tile."""

BOUNDS = Rule(
    id="tensor.bounds",
    message="{layout} of {element} reaches {bytes} bytes, and {name} has {there} from there on",
    fix="allocate {count} elements, or give the layout of what there is",
    why="Other shared memory would be read and overwritten.",
    reference="PTX ISA 5.1.7 (shared memory)",
)
BASE = Rule(
    id="tensor.base",
    message="{layout} swizzles addresses in a pattern of {period} bytes; its memory begins at a multiple of {align}",
    fix="{advice}",
    why="The bits that TMA and the tensor core exchange are those of the address, not of the place in the tensor.",
    reference="PTX ISA 5.5.7 (swizzling modes)",
)
ELEMENT = Rule(
    id="tensor.element",
    message="{layout} counts elements of {bits} bits; the memory is of {element}",
    fix="say what lies there, address.cast(...) to an element of {bits} bits, or make the layout for {element}",
    why="Every element but the first would be read from, or written to, the place of another.",
    reference="CUTLASS include/cute/pointer_flagged.hpp (smem_ptr); docs/tiled.md",
)
MULTIPLE = Rule(
    id="tensor.multiple",
    message="multiple_of={given!r} is not a positive number of elements",
    fix="give a positive integer, such as multiple_of=8",
    why="Misaligned accesses would be taken for aligned.",
    reference="CUTLASS include/cute/numeric/integral_constant.hpp (assume)",
)


@dataclass(frozen=True)
class Term:
    """A part of an index: that of `part` times `scale`, a run-time stride of which a multiple is known; None for 1."""

    part: Partition
    scale: Value | None = None
    multiple: int = 1


@user_facing
class Tensor(KnownAttributes):
    """Elements at `address + layout(coordinate)`, made by `k.tensor`: CuTe's Tensor in shared or global memory.

    `tensor[i, j]` reads an element and can be assigned; with the index `_` for a mode it is a tensor of that mode.
    Indices may be values. A thread's part is `tensor.partition(thr.partition_S)`, a tile `tensor.tile((64, 32), (i,
    j))`.
    """

    def __init__(self, k: FunctionBuilder, address: Address, terms: tuple[Term, ...], thread: Any = None) -> None:
        self._k = k
        self._terms = terms
        self._thread = thread
        self._memory = address
        """What the layouts of its terms count from: the place of a tile is in them."""

    @property
    def address(self) -> Address:
        """Where it begins: the address of its first element, before the swizzle of a swizzled tensor."""
        return Walker(self).begin

    @property
    def element(self) -> ElementType:
        """The element type."""
        return self._memory.element

    @property
    def shape(self) -> IntTuple:
        """The extents; those that are known only at run time are values."""
        extents: IntTuple = valued(self._extents)
        return extents

    @property
    def _extents(self) -> IntTuple:
        return self._terms[0].part.shape

    @property
    def layout(self) -> AnyLayout:
        """From a coordinate to the element's index; strides that are known only at run time are 0 in it."""
        return self._terms[0].part.layout

    def partition(self, cut: Cut) -> Tensor:
        """The part that `cut` gives of the layout: `tensor.partition(thr_mma.partition_A)`. Raises what `cut` does."""
        owner = getattr(cut, "__self__", None)
        thread = owner.thread if isinstance(owner, ThrCopy) else self._thread
        return Tensor(self._k, self._memory, tuple(_cut(term, cut) for term in self._terms), thread)

    def tile(self, tiler: Any, coordinate: Any) -> Tensor:
        """The tile at a coordinate, `_` for all tiles along a mode: CuTe's local_tile.

        Raises layout-algebra.tiler, layout-algebra.coordinate, and tensor.coordinate for a tile that there is not.
        """

        def cut(layout: AnyLayout) -> Partition:
            divided = Partition(zipped_divide(layout, tiler))
            check_inside(coordinate, modes(divided.shape)[1])
            part = divided((None, coordinate))
            assert isinstance(part, Partition)
            inside, *rest = part.plain.modes
            return dataclasses.replace(part, layout=_with(layout, _joined(inside, rest)))

        return self.partition(cut)

    def at(self, *coordinate: Any) -> Address:
        """The address of an element. Raises layout-algebra.coordinate, and tensor.coordinate outside of the shape."""
        check_closed(coordinate, self.shape)
        check_inside(coordinate, self._extents)
        return Walker(self).address(coordinate[0] if len(coordinate) == 1 else coordinate)

    def __getitem__(self, coordinate: Any) -> Any:
        if not is_open(coordinate):
            return self.at(coordinate).load()[0]
        check_inside(coordinate, self._extents)
        return self.partition(lambda layout: sliced(layout, coordinate))

    def __setitem__(self, coordinate: Any, value: Operand) -> None:
        self.at(coordinate).store(value)

    __iter__ = None  # or Python would ask for elements 0, 1, 2, ... and never come to an end

    def __repr__(self) -> str:
        strides = "" if len(self._terms) == 1 else f" and {len(self._terms) - 1} run-time strides"
        return f"<tensor of {self.element}: {self.layout}{strides}>"


def _cut(term: Term, cut: Cut) -> Term:
    part = run_callback("Tensor.partition", cut, term.part.layout, gives=(Partition,))
    return dataclasses.replace(term, part=Partition(part.layout, added(term.part.offset, part.offset)))


def _with(layout: AnyLayout, plain: Layout) -> AnyLayout:
    return dataclasses.replace(layout, layout_b=plain) if isinstance(layout, ComposedLayout) else plain


def _joined(inside: Layout, rest: Sequence[Layout]) -> Layout:
    """The modes of a tile, then those along which there are tiles."""
    parts = [*inside.modes, *rest]
    return Layout(tuple(part.shape for part in parts), tuple(part.stride for part in parts))


class Walker:
    """The addresses of a tensor's elements, with what they have in common computed once, where the walk begins."""

    def __init__(self, tensor: Tensor) -> None:
        self._k, self._tensor = tensor._k, tensor
        self._size = tensor.element.bytes_for(1)
        first, *others = tensor._terms
        self._others = others
        layout = first.part.layout
        swizzled = isinstance(layout, ComposedLayout) and layout.swizzle.bits
        self._swizzle = layout.swizzle if isinstance(layout, ComposedLayout) and swizzled else None
        self._start = first.part.offset
        self._places: dict[int, Address] = {}
        starts = [self._scaled(term, term.part.offset) for term in others]
        base = tensor._memory
        for start in [*([] if self._swizzle else [self._start]), *starts]:
            base = self._moved(base, start)
        self._base = base

    @property
    def begin(self) -> Address:
        """Where the first element is, before it is swizzled."""
        return self._base if self._swizzle is None else self._moved(self._base, self._start)

    @property
    def align(self) -> int:
        """What the address of each of the tensor's accesses, ((FrgV, FrgX), ...), is a multiple of, in bytes."""
        known = 0
        for term in self._tensor._terms:
            step = math.gcd(multiple(term.part.layout), divisor(self._k, term.part.offset))
            known = math.gcd(known, step * term.multiple)
        return math.gcd(self._tensor._memory.align, known * self._size)

    def address(self, coordinate: Any, align: int | None = None) -> Address:
        """Where an element is; `align` is what is known of that address."""
        plain = self._tensor._terms[0].part.plain
        index = plain(coordinate)
        base = self._base
        if self._swizzle is not None:
            base, index = self._swizzled(self._swizzle, index)
        moved = self._moved(base, index)
        for term in self._others:
            moved = self._moved(moved, self._scaled(term, term.part.plain(coordinate)))
        if align is None:
            return moved
        return moved.byte_offset(0, align=align)

    def _swizzled(self, swizzle: Swizzle, index: Any) -> tuple[Address, Any]:
        """An address before the swizzled index and what is left: whole periods of the pattern stay outside of it."""
        if not isinstance(index, int):
            return self._moved(self._base, swizzle(self._start + index)), 0
        inside = index % swizzle.period
        if inside not in self._places:
            self._places[inside] = self._moved(self._base, swizzle(self._start + inside))
        return self._places[inside], index - inside

    def _scaled(self, term: Term, index: Any) -> Any:
        if isinstance(index, int) and index == 0:
            return 0
        assert term.scale is not None
        return term.scale * (index if isinstance(index, int) else index.to(term.scale.type))

    def _moved(self, base: Address, elements: Any) -> Address:
        if isinstance(elements, int):
            return base if elements == 0 else base + elements
        multiples = divisor(self._k, elements) * self._size
        return base.steps(elements, self._size, align=math.gcd(base.align, multiples))


def make_tensor(k: FunctionBuilder, address: Address, layout: AnyLayout, *, multiple_of: int = 1) -> Tensor:
    """The memory at `address` seen through `layout`: see `k.tensor`. CuTe's make_tensor."""
    if type(multiple_of) is not int or multiple_of < 1:
        MULTIPLE.fail(given=multiple_of)
    if address._k is not k.core:
        rules.FOREIGN_VALUE.fail(owner=address._k.name, user=k.name)
    if address.element.bits % BYTE_BITS:
        rules.SUB_BYTE.fail(count="any number of", element=address.element, bits=address.element.bits)
    plain = layout.layout_b if isinstance(layout, ComposedLayout) else layout
    strides = list(leaves(plain.stride))
    known = [stride if isinstance(stride, int) else 0 for stride in strides]
    static = Layout(plain.shape, nested_as(plain.shape, known))
    if isinstance(layout, ComposedLayout):
        must_be_known(plain, "a swizzled tensor")
        return Tensor(k, address, (Term(_placed(address, layout)),))
    _check_bounds(address, layout, cosize(static))
    terms = [Term(Partition(static))]
    for place, stride in enumerate(strides):
        if not isinstance(stride, int):
            unit = [int(other == place) for other in range(len(strides))]
            value = as_index(k.core, stride).to(address_type(address.space))
            multiple = math.lcm(divisor(k, stride), multiple_of)
            terms.append(Term(Partition(Layout(plain.shape, nested_as(plain.shape, unit))), value, multiple))
    return Tensor(k, address, tuple(terms))


def _placed(address: Address, layout: ComposedLayout) -> Partition:
    """A swizzled layout as one of elements that begins at its memory, and what it begins at in front."""
    plain = layout.in_elements()
    if isinstance(layout.offset, SmemPtr):
        if layout.offset.bits != address.element.bits:
            ELEMENT.fail(layout=layout, bits=layout.offset.bits, element=address.element)
        period = layout.swizzle.period
        if address.align % period:
            BASE.fail(layout=layout, period=period, align=address.align, advice=address._how_to_align(period))
    _check_bounds(address, layout, plain.reach())
    return Partition(dataclasses.replace(plain, offset=0), plain.offset)


def _check_bounds(address: Address, layout: AnyLayout, count: int) -> None:
    place, plain = address._place, layout.layout_b if isinstance(layout, ComposedLayout) else layout
    if any(isinstance(extent, RunTimeExtent) for extent in leaves(plain.shape)):
        return
    if place is None or place.terms or place.object.bytes is None:
        return
    wanted, there = address.element.bytes_for(count), place.object.bytes - place.offset
    if wanted > there:
        whole = count + place.offset * BYTE_BITS // address.element.bits
        BOUNDS.fail(
            layout=layout, element=address.element, bytes=wanted, name=place.object.name, there=there, count=whole
        )
