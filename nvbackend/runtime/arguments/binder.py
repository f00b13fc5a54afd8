"""Converts the user's arguments to what the driver takes: one value per parameter, or every reason why not."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any, TypeGuard

from nvbackend.diagnostics import Diagnostic, with_article
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.runtime import tensor_map
from nvbackend.runtime.arguments.apart import Apart
from nvbackend.runtime.arguments.arrays import (
    DeviceArray,
    Facts,
    accepted_dtypes,
    array_facts,
    describe,
    described,
    has_key,
    read_array,
    shown_dtypes,
    tensor_key,
)
from nvbackend.runtime.arguments.scalars import Misfit, range_text, scalar_argument
from nvbackend.runtime.device import Device
from nvbackend.runtime.rules import (
    ALIGNMENT,
    ARGUMENT_COUNT,
    ARGUMENT_KIND,
    ASSERTED,
    DEVICE,
    DTYPE,
    SCALAR_RANGE,
    SHAPE,
    STRIDE,
)
from nvbackend.runtime.streams import same_stream
from nvbackend.signature import BoundTensorMap, Pointer, Scalar, Signature, TensorMap

KNOWN_ARRAYS = 1024
"""Arrays that a parameter remembers: the weights of a model's layers are passed again and again."""
KNOWN_NUMBERS = 256
"""Integers that a parameter remembers."""


@dataclass(slots=True)
class Bound:
    """Arguments ready for the driver: `values` in order, tensor maps still as plans; `owners` that keep memory alive;
    `streams` whose work must come first; `problems`, with which nothing may be launched."""

    values: list[Any] = field(default_factory=list)
    owners: list[object] = field(default_factory=list)
    streams: list[int] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)


class Binder:
    """Checks and converts the arguments of one kernel's launches; an argument that passed once is not checked again.

    An array that passed is remembered by everything it reports about itself (address, shape, strides, type, place), so
    one that differs in anything is checked anew. What it does not say, on which device its memory is, the driver is
    asked for each object that comes.
    """

    __slots__ = ("_apart", "_device", "_maps", "_signature", "_slots", "_tables", "_tensors")

    def __init__(self, signature: Signature, device: Device, apart: Sequence[tuple[int, int]] = ()) -> None:
        """`apart` are the places of parameters whose arrays must not overlap."""
        self._signature = signature
        self._device = device
        self._apart = Apart(signature, apart) if apart else None
        self._maps = tensor_map.TensorMapCache()
        self._tensors: set[type] = set()
        """Types of tensors that were passed: each of these objects has a key."""
        self._slots = tuple(
            _ScalarSlot(parameter.name, parameter.type)
            if isinstance(parameter.type, Scalar)
            else _ArraySlot(parameter.name, parameter.type, device, self._maps, self._tensors)
            for parameter in signature.parameters
        )
        self._tables = tuple((slot.values, slot) for slot in self._slots)

    def bind(self, arguments: Sequence[object], stream: int) -> Bound:
        """Check `arguments` against the parameters and convert them; every problem found is listed.

        Pointers become addresses, scalars NumPy integers of their exact bits, tensor maps what `encoded` takes.
        `stream` is the CUDA handle that the kernel will run on.
        """
        bound = Bound()
        slots = self._slots
        if len(arguments) != len(slots):
            names = ", ".join(parameter.name for parameter in self._signature.parameters) or "none"
            kernel, expected = self._signature.name, len(slots)
            problem = ARGUMENT_COUNT.diagnose(kernel=kernel, expected=expected, names=names, given=len(arguments))
            bound.problems.append(problem)
            return bound
        for slot, argument in zip(slots, arguments):  # noqa: B905 (their lengths were compared)
            bound.values.append(slot.bind(bound, argument, stream))
        if self._apart is not None:
            self._compare(self._apart, bound)
        return bound

    def _compare(self, apart: Apart, bound: Bound) -> None:
        """Add what overlaps. Every array that is known was noted, and has to be checked anew if that is forgotten."""
        ranges = {place: bound.values[place].range for place in apart.places if bound.values[place] is not None}
        if not apart.note(ranges):
            for slot in self._slots:
                if isinstance(slot, _ArraySlot):
                    slot.forget()
        if not bound.problems:
            bound.problems += apart.overlaps(ranges)

    def known(self, arguments: Sequence[object], stream: int) -> list[Any] | None:
        """What the driver gets for `arguments` that were all found right before and wait for no other stream.

        None where that is not known; `bind` finds out.
        """
        tables, tensors = self._tables, self._tensors
        if len(arguments) != len(tables):
            return None
        values = []
        for (table, slot), argument in zip(tables, arguments):  # noqa: B905 (their lengths were compared)
            kind, value = type(argument), None
            if kind is int:
                value = table.get(argument)
            elif kind in tensors:
                try:
                    value = table.get(tensor_key(argument))
                except (AttributeError, TypeError, RuntimeError):  # one without a plain address, a sparse one
                    return None
            if value is None:
                value = slot.known(argument, stream)
                if value is None:
                    return None
            values.append(value)
        return values if self._apart is None or self._apart.holds(values) else None

    def encoded(self, bound: Bound) -> list[Any]:
        """What the driver gets for arguments without problems; tensor maps are encoded, once for each content.

        Raises tensor-map.unavailable, tensor-map.encoding-failed.
        """
        return [value.value() if type(value) is _Known else value for value in bound.values]


class _ScalarSlot:
    __slots__ = ("_element", "_integers", "_name", "_scalar", "values")

    def __init__(self, name: str, scalar: Scalar) -> None:
        self._name = name
        self._scalar = scalar
        self._element = scalar.element
        self._integers = scalar.values if scalar.element.is_integer else ()
        self.values: dict[object, Any] = {}
        """What the driver gets for Python's own integers that passed."""

    def known(self, argument: object, _stream: int) -> Any:
        value = self._value(argument)
        return None if isinstance(value, Diagnostic) else value

    def bind(self, bound: Bound, argument: object, _stream: int) -> Any:
        value = self._value(argument)
        if isinstance(value, Diagnostic):
            bound.problems.append(value)
        return value

    def _value(self, argument: object) -> Any | Diagnostic:
        """What the driver gets for `argument`, or what is wrong with it."""
        value = scalar_argument(self._element, argument)
        if isinstance(value, Misfit):
            return self._misfit(value, argument)
        if self._scalar.asserts and not self._is_asserted(int(value)):
            return ASSERTED.diagnose(name=self._name, value=argument, asserted=self._scalar.asserted)
        if type(argument) is int:
            if len(self.values) >= KNOWN_NUMBERS:
                self.values.clear()
            self.values[argument] = value
        return value

    def _is_asserted(self, bits: int) -> bool:
        every = self._element.integers
        return (bits if bits in every else bits - (1 << self._element.bits)) in self._integers

    def _misfit(self, misfit: Misfit, argument: object) -> Diagnostic:
        name, element = self._name, self._element
        if misfit is Misfit.KIND:
            of = ""
            if element.is_integer and _is_float(argument):
                number = float(argument)
                of = f": {int(number)}, an integer" if number.is_integer() else ", an integer: round it first"
            kind, expected = with_article(describe(argument)), f"a scalar of {element}"
            return ARGUMENT_KIND.diagnose(name=name, given=kind, expected=expected, of=of)
        return SCALAR_RANGE.diagnose(name=name, value=argument, element=element, range=range_text(element))


def _is_float(argument: object) -> TypeGuard[float]:
    """Whether it is a float of Python, or a number of NumPy's floating-point types."""
    kind = getattr(getattr(argument, "dtype", None), "kind", "")
    gives_one = hasattr(type(argument), "__float__")
    return isinstance(argument, float) or (gives_one and kind == "f" and getattr(argument, "shape", None) == ())


@dataclass(slots=True)
class _Known:
    """An array that passed every check: what the driver gets for it. It does not keep the array's memory alive."""

    name: str
    address: int
    extent: int
    """The bytes from the address to its last element."""
    plan: tensor_map.TensorMapPlan | None
    maps: tensor_map.TensorMapCache
    stream: int | None
    tells_device: bool
    """Whether the array itself reports its device: it names no stream then, which only an array interface does."""
    owner: Callable[[], object]
    """The object, while it lives, whose memory was last found to be on the kernel's device."""
    encoded: Any = None
    always: Any = None
    """The same, where that is all there is to know of the array at a launch."""

    @property
    def range(self) -> range:
        """The addresses of its bytes."""
        return range(self.address, self.address + self.extent)

    def value(self) -> Any:
        if self.encoded is None:
            self.encoded = self.address if self.plan is None else self.maps.get(self.name, self.plan)
            if self.tells_device:
                self.always = self.encoded
        return self.encoded


class _ArraySlot:
    __slots__ = ("_device", "_kind", "_known", "_maps", "_name", "_tensors", "values")

    def __init__(
        self,
        name: str,
        kind: Pointer | TensorMap,
        device: Device,
        maps: tensor_map.TensorMapCache,
        tensors: set[type],
    ) -> None:
        self._name = name
        self._kind = kind
        self._device = device
        self._maps = maps
        self._tensors = tensors
        self._known: dict[Facts | None, _Known] = {}
        self.values: dict[object, Any] = {}
        """What the driver gets for tensors that passed, by their keys."""

    def forget(self) -> None:
        """Check every array anew."""
        self._known.clear()
        self.values.clear()

    def known(self, argument: object, stream: int) -> Any:
        try:
            known = self._known.get(array_facts(argument))
        except TypeError:  # an extent or a dtype of a kind of its own, which is not hashable
            return None
        if known is None:
            return None
        if (always := known.always) is not None:
            self._remember(argument, always)
            return always
        if known.stream not in (None, stream) or not (known.tells_device or known.owner() is argument):
            return None
        return known.encoded

    def _remember(self, argument: object, value: Any) -> None:
        """Keep what the driver gets for an array that is known by all that it says, if it has a key."""
        kind = type(argument)
        if kind in self._tensors or has_key(kind):
            if len(self.values) >= KNOWN_ARRAYS:
                self.values.clear()
            with contextlib.suppress(AttributeError, TypeError, RuntimeError):
                self.values[tensor_key(argument)] = value
                self._tensors.add(kind)

    def bind(self, bound: Bound, argument: object, stream: int) -> _Known | None:
        if isinstance(argument, BoundTensorMap):
            if argument.parameter != self._kind:
                actual, expected = f"binding of {argument.parameter}", f"a {self._kind}"
                bound.problems.append(ARGUMENT_KIND.diagnose(name=self._name, given=actual, expected=expected, of=""))
                return None
            argument = argument.array
        facts = array_facts(argument)
        try:
            known = None if facts is None else self._known.get(facts)
        except TypeError:  # an extent or a dtype of a kind of its own, which is not hashable
            facts, known = None, None
        if known is None or not self._is_reachable(known, argument):
            known = self._check(bound, argument, facts, stream)
            if known is None:
                return None
        else:
            bound.owners.append(argument)
        if known.stream is not None and not same_stream(known.stream, stream):
            bound.streams.append(known.stream)
        return known

    def _is_reachable(self, known: _Known, argument: object) -> bool:
        """Whether the memory of an array with known facts is on the kernel's device.

        An object keeps its memory, so it is asked for once. Memory at the same address that comes in another object may
        have been freed between, and be another device's.
        """
        if known.tells_device or known.owner() is argument:
            return True
        if self._device.ordinal_of(known.address) != self._device.limits.ordinal:
            return False
        known.owner = _weak(argument)
        return True

    def _check(self, bound: Bound, argument: object, facts: Facts | None, stream: int) -> _Known | None:
        kind, name = self._kind, self._name
        array = described(facts, argument) if facts is not None else read_array(argument, stream)
        if array is None:
            expected, actual = f"an array of {kind.element}", with_article(describe(argument))
            of = ": on a GPU one of a library such as CuPy or PyTorch, in the simulator one of NumPy"
            bound.problems.append(ARGUMENT_KIND.diagnose(name=name, given=actual, expected=expected, of=of))
            return None
        problems = list(check_array(name, kind, array, self._device))
        bound.problems += problems
        if problems:
            return None
        bound.owners.append(array)
        plan = tensor_map.plan(kind, array) if isinstance(kind, TensorMap) else None
        tells_device = array.device is not None
        known = _Known(
            name,
            array.pointer,
            array.size * array.item_bytes,
            plan,
            self._maps,
            array.stream,
            tells_device,
            _weak(argument),
        )
        if facts is not None:
            if len(self._known) >= KNOWN_ARRAYS:
                # All at once: it costs nothing at each launch, and a kernel that sees ever new arrays gains nothing.
                self._known.clear()
            self._known[facts] = known
        return known


def _weak(argument: object) -> Callable[[], object]:
    """A weak reference; one to nothing for an object that allows none."""
    try:
        return weakref.ref(argument)
    except TypeError:
        return _nothing


def _nothing() -> None:
    return None


def check_array(name: str, kind: Pointer | TensorMap, array: DeviceArray, device: Device) -> Iterator[Diagnostic]:
    """Why `array` cannot be the argument `name`: place, element type, shape, strides, alignment."""
    yield from check_place(name, array, device)
    accepted = accepted_dtypes(kind.element)
    if array.dtype not in accepted:
        yield DTYPE.diagnose(name=name, given=array.dtype, element=kind.element, accepted=shown_dtypes(accepted))
    if isinstance(kind, TensorMap):
        yield from tensor_map.check_array(name, kind, array)
        return
    if not array.size:
        yield SHAPE.diagnose(name=name, shape=array.shape)
    if not array.is_contiguous:
        yield STRIDE.diagnose(name=name, shape=array.shape, strides=array.strides, expected=array.contiguous_strides)
    if array.pointer % kind.align:
        least = kind.element.bytes_for(1)
        yield ALIGNMENT.diagnose(name=name, address=array.pointer, align=kind.align, element=kind.element, known=least)


def check_place(name: str, array: DeviceArray, device: Device) -> Iterator[Diagnostic]:
    """Checks that the kernel's device reaches `array`: launch.device for host memory and other devices."""
    current = device.limits.ordinal
    if array.host:
        yield DEVICE.diagnose(name=name, place=array.host, current=current)
        return
    if not array.size:
        return
    ordinal = device.ordinal_of(array.pointer) if array.device is None else array.device
    if ordinal is None:
        yield DEVICE.diagnose(name=name, place=f"no CUDA memory (address {array.pointer:#x})", current=current)
    elif ordinal != current:
        yield DEVICE.diagnose(name=name, place=f"the memory of device {ordinal}", current=current)
