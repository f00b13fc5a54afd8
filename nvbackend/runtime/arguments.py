"""From what the user passes to what the driver gets: one value a parameter, or every reason why not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from nvbackend.diagnostics import Diagnostic
from nvbackend.intrinsics.types import ElementType
from nvbackend.runtime import tensor_map
from nvbackend.runtime.arrays import DeviceArray, accepted_dtypes, describe, read_array
from nvbackend.runtime.device import Device
from nvbackend.runtime.rules import (
    ALIGNMENT,
    ARGUMENT_COUNT,
    ARGUMENT_KIND,
    DEVICE,
    DTYPE,
    SCALAR_RANGE,
    SHAPE,
    STRIDE,
)
from nvbackend.runtime.scalars import Misfit, range_text, scalar_argument
from nvbackend.runtime.streams import same_stream
from nvbackend.signature import Parameter, Pointer, Scalar, Signature, TensorMap


@dataclass
class Bound:
    """Arguments ready for the driver: `values` in order, tensor maps still as plans; `arrays` that keep memory alive;
    `streams` whose work must come first; `problems`, with which nothing may be launched."""

    values: list[Any] = field(default_factory=list)
    arrays: list[DeviceArray] = field(default_factory=list)
    streams: list[int] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)


def bind(signature: Signature, arguments: Sequence[object], device: Device, stream: int) -> Bound:
    """Check `arguments` against the parameters of `signature` and convert them; every problem found is listed.

    Pointers become addresses, scalars ctypes integers of their exact bits, tensor maps `TensorMapPlan`s. `stream` is
    the CUDA handle that the kernel will run on.
    """
    bound = Bound()
    parameters = signature.parameters
    if len(arguments) != len(parameters):
        names = ", ".join(parameter.name for parameter in parameters) or "none"
        bound.problems.append(
            ARGUMENT_COUNT.diagnose(kernel=signature.name, expected=len(parameters), names=names, given=len(arguments))
        )
        return bound
    for parameter, argument in zip(parameters, arguments, strict=True):
        if isinstance(parameter.type, Scalar):
            _bind_scalar(bound, parameter, parameter.type.element, argument)
        else:
            _bind_array(bound, parameter, argument, device, stream)
    return bound


def _bind_scalar(bound: Bound, parameter: Parameter, element: ElementType, argument: object) -> None:
    value = scalar_argument(element, argument)
    if value is Misfit.KIND:
        bound.problems.append(
            ARGUMENT_KIND.diagnose(name=parameter.name, given=describe(argument), expected=f"a scalar of {element}")
        )
    elif value is Misfit.RANGE:
        bound.problems.append(
            SCALAR_RANGE.diagnose(name=parameter.name, value=argument, element=element, range=range_text(element))
        )
    bound.values.append(value)


def _bind_array(bound: Bound, parameter: Parameter, argument: object, device: Device, stream: int) -> None:
    kind = parameter.type
    assert not isinstance(kind, Scalar)
    array = read_array(argument, stream)
    if array is None:
        expected = f"a device array of {kind.element}"
        bound.problems.append(ARGUMENT_KIND.diagnose(name=parameter.name, given=describe(argument), expected=expected))
        return
    problems = list(check_array(parameter.name, kind, array, device))
    bound.problems += problems
    if problems:
        return
    bound.arrays.append(array)
    if array.stream is not None and not same_stream(array.stream, stream):
        bound.streams.append(array.stream)
    bound.values.append(tensor_map.plan(kind, array) if isinstance(kind, TensorMap) else array.pointer)


def check_array(name: str, kind: Pointer | TensorMap, array: DeviceArray, device: Device) -> Iterator[Diagnostic]:
    """What keeps `array` from being the argument `name`: place, element type, shape, strides, alignment."""
    yield from check_place(name, array, device)
    accepted = accepted_dtypes(kind.element)
    if array.dtype not in accepted:
        yield DTYPE.diagnose(name=name, given=array.dtype, element=kind.element, accepted=", ".join(accepted))
    if isinstance(kind, TensorMap):
        yield from tensor_map.check_array(name, kind, array)
        return
    if not array.size:
        yield SHAPE.diagnose(name=name, shape=array.shape)
    if not array.is_contiguous:
        yield STRIDE.diagnose(name=name, shape=array.shape, strides=array.strides, expected=array.contiguous_strides)
    if array.pointer % kind.align:
        yield ALIGNMENT.diagnose(name=name, address=array.pointer, align=kind.align)


def check_place(name: str, array: DeviceArray, device: Device) -> Iterator[Diagnostic]:
    """Whether the kernel's device reaches `array`: launch.device for host memory and other devices."""
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
