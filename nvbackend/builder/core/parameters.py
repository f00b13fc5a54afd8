"""Kernel parameters: their checks before any IR is made, and tensor maps inside the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from llvmlite import ir

from nvbackend.builder.scopes import rules
from nvbackend.builder.scopes.names import name_fault
from nvbackend.builder.scopes.parameter_types import not_a_type
from nvbackend.builder.values.attributes import OF_TILE, KnownAttributes
from nvbackend.diagnostics import Diagnostic, raise_all, record, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy.tma_tensor import RANKS
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.layout.descriptors.smem_layout import TMA_BOX_LIMIT
from nvbackend.signature import Parameter, Pointer, Scalar, TensorMap

TENSOR_MAP_BYTES = 128
TENSOR_MAP_ALIGNMENT = 64
POINTER_BYTES = 8
PARAMETER_BYTES = 32764
"""The most bytes that a kernel's parameters may take (PTX ISA 11.2.1, .entry; ptxas 13.5 on every target)."""


@user_facing
@record
@dataclass(frozen=True, slots=True)
class TensorMapParameter(KnownAttributes):
    """A tensor map inside the kernel: its address in parameter space, and what is known of it at build time."""

    name: str
    address: ir.Value
    type: TensorMap

    if not TYPE_CHECKING:  # it would make a type checker accept the operators

        def __getitem__(self, index: object) -> NoReturn:
            """Raises tile.attribute: a map is not a pointer."""
            advice = (
                "copy a box of them to shared memory by k.tma.load(tile, map, coordinates, barrier) and read the tile; "
                "for single elements declare the parameter as nvb.Pointer"
            )
            OF_TILE.fail(owner=f"the tensor map {self.name}", name="elements that a thread can read", advice=advice)

        def __setitem__(self, index: object, value: object) -> NoReturn:
            """Raises tile.attribute: a map is not a pointer."""
            self[index]

        def __add__(self, elements: object) -> NoReturn:
            """Raises tile.attribute: a copy begins at coordinates."""
            advice = "give the coordinates of the box's first element to the copy; an nvb.Pointer has addresses"
            OF_TILE.fail(owner=f"the tensor map {self.name}", name="elements to step by", advice=advice)

        __radd__ = __sub__ = __add__


def check_parameters(kernel: str, parameters: Sequence[Parameter]) -> None:
    """Raises kernel.parameter and kernel.parameter-fact for everything that is wrong, together."""
    raise_all([*(fault for each in parameters for fault in _faults(kernel, each)), *_twice(kernel, parameters)])
    total = 0
    for parameter in parameters:
        size, align = _size(parameter)
        total = -(-total // align) * align + size
    if total > PARAMETER_BYTES:
        needs = f"a kernel takes {PARAMETER_BYTES} bytes of parameters in all, these are {total}"
        rules.PARAMETER_FACT.fail(
            name=kernel, given=f"with {len(parameters)} parameters", needs=needs, advice="pass some of them in memory"
        )


def _faults(kernel: str, parameter: object) -> Iterator[Diagnostic]:
    kind = getattr(parameter, "type", None)
    name = getattr(parameter, "name", parameter)
    if not isinstance(parameter, Parameter):
        advice = 'write nvb.Parameter("x", nvb.Pointer(nvb.f32)), with a name and a type'
        yield rules.PARAMETER_TYPE.diagnose(
            name=parameter, kernel=kernel, problem="is not an nvb.Parameter", advice=advice
        )
        return
    if not isinstance(kind, (Scalar, Pointer, TensorMap)):
        yield not_a_type(kernel, name, kind)
        return
    fault = name_fault(parameter.name)
    if fault is not None:
        yield fault
    if not isinstance(kind.element, ElementType):
        needs, advice = "its element is not an element type", "use one such as nvb.f16"
        yield rules.PARAMETER_FACT.diagnose(name=name, given=repr(kind.element), needs=needs, advice=advice)
    elif isinstance(kind, Pointer) and kind.space != "global":
        needs, advice = "a kernel is launched with addresses of global memory", "allocate the other by k.shared"
        yield rules.PARAMETER_FACT.diagnose(name=name, given=f"space={kind.space!r}", needs=needs, advice=advice)
    elif isinstance(kind, TensorMap) and kind.im2col is None and not _is_box(kind.box):
        needs = f"a box has {RANKS[0]} to {RANKS[-1]} dimensions of 1 to {TMA_BOX_LIMIT} elements"
        advice = "use several copies for a larger tile; a tile's layout knows its box: SmemLayout.tma_box"
        yield rules.PARAMETER_FACT.diagnose(name=name, given=f"box={kind.box!r}", needs=needs, advice=advice)


def _twice(kernel: str, parameters: Sequence[object]) -> Iterator[Diagnostic]:
    """Parameters with the name of an earlier one: an argument that is named would be given to one of them alone."""
    places: dict[str, int] = {}
    for place, parameter in enumerate(parameters):
        if isinstance(parameter, Parameter) and places.setdefault(parameter.name, place) != place:
            problem = f"has the name of another one: parameters {places[parameter.name]} and {place} are both called so"
            yield rules.PARAMETER_TYPE.diagnose(
                name=parameter.name, kernel=kernel, problem=problem, advice="give each a name of its own"
            )


def _is_box(box: tuple[int, ...]) -> bool:
    return len(box) in RANKS and all(1 <= extent <= TMA_BOX_LIMIT for extent in box)


def _size(parameter: Parameter) -> tuple[int, int]:
    """Bytes and alignment."""
    if isinstance(parameter.type, TensorMap):
        return TENSOR_MAP_BYTES, TENSOR_MAP_ALIGNMENT
    size = POINTER_BYTES if isinstance(parameter.type, Pointer) else parameter.type.element.bytes_for(1)
    return size, size
