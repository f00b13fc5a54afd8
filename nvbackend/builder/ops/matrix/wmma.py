"""wmma: fragments, their loads and stores, and the product."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import converted
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.lower.conversions import Number, llvm_type, not_a_value
from nvbackend.builder.scopes.blocks import Storage
from nvbackend.builder.values.attributes import KnownAttributes
from nvbackend.builder.values.carried import Carried
from nvbackend.builder.values.values import GLOBAL_SPACE, Operand, Value, as_value
from nvbackend.diagnostics import Diagnostic, raise_all, run_callback, user_facing
from nvbackend.intrinsics.fragments.wmma import Shape, contiguous, register_count, spelled_shape
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType, f16, f32, f64, s32, u32
from nvbackend.isel.machine import facts
from nvbackend.isel.operands import wmma as wmma_operands
from nvbackend.isel.select.shapes import shape_extents
from nvbackend.isel.select.wmma.request import WmmaMoveRequest, WmmaRequest
from nvbackend.isel.select.wmma.select import select_wmma, select_wmma_move

_NUMBERS = (f32, f64, s32)
"""Types whose registers hold one element each, and are values of that type; others are packed into u32."""

_F16_MOST = 65504


@user_facing
class WmmaFragment(KnownAttributes):
    """A thread's part of a matrix: `fragment` "a", "b", "c" or "d" of `shape` (M, N, K), `layout` being that of A or B.

    Which thread holds which element is not specified (PTX ISA 9.7.14.4.1): use `map` for what is the same for all.
    """

    def __init__(
        self,
        k: Core,
        fragment: str,
        shape: Shape,
        element: ElementType,
        layout: str | None,
        registers: Sequence[Value],
    ) -> None:
        self._k = k
        self._registers = tuple(registers)
        self.fragment = fragment
        self.shape = shape
        self.element = element
        self.layout = layout

    @property
    def count(self) -> int:
        """Registers a thread."""
        return register_count(self.fragment, self.shape, self.element)

    def values(self) -> list[Value]:
        """The thread's registers: f32, f64 and s32 as they are, other elements packed into u32."""
        return list(self._registers)

    def map(self, function: Callable[[Value], Value]) -> WmmaFragment:
        """A fragment whose registers are `function` of this one's, which must treat all elements alike."""
        kind = register_type(self.element)
        registers = [
            as_value(self._k, run_callback("WmmaFragment.map", function, value), kind) for value in self.values()
        ]
        return WmmaFragment(self._k, self.fragment, self.shape, self.element, self.layout, registers)

    def position(self, thread: int, index: int) -> tuple[int, int]:
        """Raises wmma.opaque, always: the place of an element is not specified."""
        wmma_operands.OPAQUE.fail(index=index, thread=thread, fragment=self._describe())

    def _describe(self) -> str:
        """What diagnostics call it."""
        layout = f" {self.layout}" if self.layout else ""
        return f"a fragment {self.fragment.upper()} of {spelled_shape(self.shape)} {self.element}{layout}"

    def __repr__(self) -> str:
        return f"<{self._describe()}, {self.count} registers>"


@user_facing
class WmmaAccumulator(WmmaFragment):
    """An accumulator that can be set, so that loops carry it. It reads as its current value."""

    def __init__(self, k: Core, shape: Shape, element: ElementType, storage: Storage) -> None:
        super().__init__(k, "c", shape, element, None, ())
        self._storage = storage
        self._carried = Carried(storage.name)
        self._carried.begin(k.regions)
        k.sums.append(self._carried)

    def values(self) -> list[Value]:
        """The thread's registers with their current values."""
        kind = register_type(self.element)
        registers = self._k.read(self._storage)
        self._carried.read(self._k.regions, registers)
        return [self._k.wrap(register, kind) for register in registers]

    def set(self, fragment: WmmaFragment) -> None:
        """Set it to an accumulator of the same shape and type, such as the result of `k.wmma.mma` (wmma.operand)."""
        raise_all(_misplaced("c", self.shape, fragment, self.element))
        kind = register_type(self.element)
        registers = [as_value(self._k, value, kind).ir for value in fragment.values()]
        self._carried.set(self._k.regions, registers)
        self._k.write(self._storage, registers)


@user_facing
class Wmma(Noun):
    """wmma: fragments, their loads and stores, and the product (PTX ISA 9.7.14.4)."""

    __noun__ = "wmma"
    __usual__ = "mma"

    def load(
        self,
        fragment: str,
        shape: str,
        element: ElementType,
        address: Address | Value,
        *,
        layout: str = "row",
        stride: Operand | None = None,
    ) -> WmmaFragment:
        """Load `fragment` ("a": M x K, "b": K x N, "c": M x N) of an mma of `shape`, such as "m16n16k16".

        `address` is the first element's in global or shared memory, or a generic address (u64); all threads give the
        same. `layout` says whether rows or columns are contiguous, `stride` how many elements apart they are (None: no
        gap). What other lanes have written is ordered by `k.warp.sync()` before it, not by the load; nothing is said
        where that is missing. Raises every broken rule: wmma.target, wmma.fragment, wmma.fragment-type, wmma.layout,
        wmma.alignment, wmma.stride, wmma.element; mma.shape for a text that does not spell a shape. PTX ISA 9.7.14.4.3.
        """
        extents = shape_extents(shape)
        request = WmmaMoveRequest("load", fragment, extents, element, layout, _space(address), stride is not None)
        row = select_wmma_move(request, self._k.target)
        registers = self._move(request, row, address, stride)["fragment"]
        values = [self._k.wrap(register, register_type(element)) for register in registers]
        return WmmaFragment(self._k, fragment, extents, element, None if fragment == "c" else layout, values)

    def store(
        self,
        address: Address | Value,
        fragment: WmmaFragment,
        *,
        layout: str = "row",
        stride: Operand | None = None,
    ) -> None:
        """Store an accumulator (M x N) to memory; `address`, `layout` and `stride` as for `k.wmma.load`.

        Raises every broken rule: wmma.target, wmma.fragment, wmma.alignment, wmma.stride, wmma.overlap, wmma.element.
        PTX ISA 9.7.14.4.4.
        """
        # C and D are the same registers: a loaded C may be stored as it is.
        which = "d" if fragment.fragment == "c" else fragment.fragment
        strided = stride is not None
        request = WmmaMoveRequest("store", which, fragment.shape, fragment.element, layout, _space(address), strided)
        row = select_wmma_move(request, self._k.target)
        self._move(request, row, address, stride, fragment=[value.ir for value in fragment.values()])

    def mma(
        self,
        a: WmmaFragment,
        b: WmmaFragment,
        c: WmmaFragment,
        d: ElementType | None = None,
        *,
        satfinite: bool = False,
        rounding: str | None = None,
        popc: str | None = None,
    ) -> WmmaFragment:
        """D = A * B + C, in a new accumulator of type `d` (by default that of C).

        `satfinite` clamps integers, `rounding` is that of f64 ("rn", "rz", "rm", "rp"), `popc` the bit operation of b1
        ("xor", "and"). Raises every broken rule: wmma.operand, wmma.target, wmma.types, wmma.shape, wmma.layout,
        wmma.satfinite, wmma.rounding, wmma.popc. PTX ISA 9.7.14.4.5.
        """
        places = {"a": a, "b": b, "c": c}
        raise_all([fault for place, fragment in places.items() for fault in _misplaced(place, a.shape, fragment)])
        result = c.element if d is None else d
        request = WmmaRequest(
            *(a.shape, a.element, b.element, c.element, result),
            a_layout=a.layout or "",
            b_layout=b.layout or "",
            satfinite=satfinite,
            rounding=rounding,
            popc=popc,
        )
        row = select_wmma(request, self._k.target)
        results = self._k.emit(
            row, {place: [value.ir for value in fragment.values()] for place, fragment in places.items()}
        )
        kind = register_type(result)
        registers = [self._k.wrap(register, kind) for register in results["d"]]
        return WmmaFragment(self._k, "d", a.shape, result, None, registers)

    def accumulator(
        self, shape: str, element: ElementType = f32, fill: Number = 0, *, name: str = "acc"
    ) -> WmmaAccumulator:
        """An accumulator of an mma of `shape`, every element `fill`, which can be set again (f16, f32, f64 or s32).

        Raises wmma.fragment-type for a shape and type that no accumulator has, and wmma.target.
        """
        extents = shape_extents(shape)
        select_wmma_move(WmmaMoveRequest("load", "c", extents, element), self._k.target)
        kind = register_type(element)
        count = register_count("c", extents, element)
        storage = self._k.new_storage([llvm_type(kind)] * count, name)
        number = as_value(self._k, _twice(fill) if element is f16 else fill, kind)
        self._k.write(storage, [number.ir] * count)
        return WmmaAccumulator(self._k, extents, element, storage)

    def fragment(
        self, fragment: str, shape: str, element: ElementType, registers: Sequence[Operand], *, layout: str = "row"
    ) -> WmmaFragment:
        """A fragment made of registers: the `values` of another fragment, after code of your own.

        `fragment` is "a", "b" or "c", `layout` the one that A or B was loaded from; registers as `values` gives them.
        Raises wmma.arity where there are more or fewer than the fragment has, wmma.fragment, wmma.fragment-type,
        wmma.layout and wmma.target. PTX ISA 9.7.14.4.1.
        """
        extents = shape_extents(shape)
        select_wmma_move(WmmaMoveRequest("load", fragment, extents, element, layout), self._k.target)
        kind = register_type(element)
        wmma_operands.check_arity(fragment, extents, element, kind, len(registers))
        values = [as_value(self._k, register, kind) for register in registers]
        return WmmaFragment(self._k, fragment, extents, element, None if fragment == "c" else layout, values)

    def _move(
        self,
        request: WmmaMoveRequest,
        row: Row,
        address: Address | Value,
        stride: Operand | None,
        **fragment: Sequence[ir.Value],
    ) -> dict[str, list[ir.Value]]:
        """Emit a load or store, once address and stride are right as far as they are known."""
        place = (request.fragment, request.shape, request.element)
        faults: list[Diagnostic] = []
        if isinstance(address, Address):
            faults += wmma_operands.address_violations(row.ptx, *place, address.element, address.align)
        number = None if stride is None else as_value(self._k, stride, s32).constant
        if isinstance(number, int):
            extent = contiguous(request.fragment, request.shape, request.layout)
            faults += wmma_operands.stride_violations(row.ptx, *place, number, extent)
        raise_all(faults)
        registers = converted(self._k, row, {"address": address, "stride": stride, **fragment})
        return self._k.emit(row, registers, facts=_known(address))


def register_type(element: ElementType) -> ElementType:
    """What one register of a fragment is as a value."""
    return element if element in _NUMBERS else u32


def _known(address: Address | Value) -> dict[str, int]:
    return {facts.ALIGNMENT: address.align} if isinstance(address, Address) else {}


def _space(address: Address | Value) -> str | None:
    if not isinstance(address, Address):
        return None
    return "global" if address.space == GLOBAL_SPACE else "shared"


def _misplaced(
    place: str, shape: Shape, fragment: WmmaFragment, element: ElementType | None = None
) -> list[Diagnostic]:
    """What is wrong with `fragment` where a fragment `place` of `shape`, and of `element` if one is named, belongs."""
    return wmma_operands.operand_violations(
        place,
        shape,
        element or fragment.element,
        (fragment.fragment, fragment.shape, fragment.element),
        fragment._describe(),
    )


def _twice(number: Number) -> int:
    """The bits of a register that holds `number` as f16 in both halves (value.constant where f16 does not reach)."""
    try:
        (half,) = struct.unpack("<H", struct.pack("<e", number))
    except OverflowError:
        not_a_value(number, f16, f"a number from -{_F16_MOST} to {_F16_MOST}")
    return int(half) << 16 | int(half)
