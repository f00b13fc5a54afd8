"""How a foreign function is called: its parameters and its result in registers, and the sequence of the call.

Source: PTX ISA 7.1 (function declarations and definitions), 9.7.12 (call); PTX Writer's Guide to Interoperability.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
from nvbackend.builder.values.values import Value
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.row import RegisterClass
from nvbackend.intrinsics.row.types import ElementType, Scalar, bf16, f16, f32, f64, pred, u8, u16, u32
from nvbackend.ptx.declarations import TYPES
from nvbackend.ptx.syntax import Function, Variable
from nvbackend.signature import Pointer

_OF_BITS = {16: RegisterClass.B16, 32: RegisterClass.B32, 64: RegisterClass.B64}
_FLOATS = {f32: RegisterClass.F32, f64: RegisterClass.F64}
_HALVES = (f16, bf16)


def is_passed(element: ElementType) -> bool:
    """Whether a value of this type can be passed and returned."""
    is_pair = element.is_pair and element.bits == 32
    return element in (pred, *_HALVES, *_FLOATS) or is_pair or (element.is_integer and element.bits >= 8)


def _bits(own: Variable) -> int:
    return TYPES[own.type] * own.vector * math.prod(extent or 0 for extent in own.shape)


def fits(kind: Scalar | Pointer, own: Variable) -> bool:
    """Whether a parameter of the text holds what is declared; small integers may fill a register of 32 bits."""
    if own.space != "param":
        return False
    if isinstance(kind, Pointer):
        return _bits(own) == 64 and own.type[0] in "bu"
    element = kind.element
    bits = 8 if element is pred else element.bits
    if _bits(own) != bits and (_bits(own), bits < 32) != (32, True):
        return False
    is_float = element in _FLOATS
    return own.type.startswith("b") or own.type.startswith("f") == is_float


@dataclass(frozen=True, slots=True)
class Returned:
    """A result: `own` is the text's return parameter, or the member of its struct that begins at `offset` bytes."""

    element: ElementType
    own: Variable
    offset: int = 0


def returned(results: Sequence[ElementType], function: Function) -> list[Returned] | None:
    """Where the results are: one in the return parameter, several in a struct, as C has it; None where they differ.

    A struct is an array of bytes. Each member begins at a multiple of its size, and so does the next struct. ptxas
    takes several return parameters in registers alone, which no compiler prints.
    """
    if not results and not function.results:
        return []
    if len(function.results) != 1 or not results:
        return None
    if len(results) == 1:
        return [Returned(results[0], function.results[0])]
    (whole,) = function.results
    members, end, widest = [], 0, 1
    for element in results:
        size = 1 if element is pred else element.bits // 8
        offset, widest = -(-end // size) * size, max(widest, size)
        members.append(Returned(element, replace(whole, type=f"b{8 * size}", vector=1, shape=()), offset))
        end = offset + size
    return members if _bits(whole) == -(-end // widest) * widest * 8 and whole.shape else None


def shown(own: Variable) -> str:
    """A parameter as the text has it."""
    return f".{own.space} .{own.type} {own.name}{_array(own)}"


def register(kind: Scalar | Pointer, own: Variable) -> RegisterClass:
    """The register that is passed."""
    if isinstance(kind, Pointer):
        return RegisterClass.GLOBAL if kind.space == "global" else RegisterClass.SHARED
    return _FLOATS.get(kind.element) or _OF_BITS[max(_bits(own), 16 if _keeps_half(kind.element, own) else 32)]


def _keeps_half(element: ElementType, own: Variable) -> bool:
    """Whether it is passed in a register of 16 bits."""
    return element.bits == _bits(own) == 16


def passed(value: Value | Address, own: Variable) -> ir.Value:
    """An argument in that register."""
    if isinstance(value, Address):
        return value.bytes.ir
    element = value.type
    if element in _FLOATS or element.bits >= 32:
        return (value.bitcast(u32) if element.is_pair else value).ir
    if element in _HALVES:
        value = value.bitcast(u16)
    return value.ir if _keeps_half(element, own) else value.to(u32).ir


def received(core: Core, bits: ir.Value, element: ElementType, own: Variable) -> Value:
    """A result from its register."""
    if element in _FLOATS or (element.bits >= 32 and not element.is_pair):
        return core.wrap(bits, element)
    if element.is_pair:
        return core.wrap(bits, u32).bitcast(element)
    if _keeps_half(element, own):
        half = core.wrap(bits, u16)
    else:
        word = core.wrap(bits, u32)
        if element is pred:
            return word.to(u8) != 0
        if element.bits == 8:
            return word.to(element)
        half = word.to(u16)
    return half.bitcast(element) if element in _HALVES else half.to(element)


def template(function: Function, kinds: Mapping[str, Scalar | Pointer], results: Mapping[str, Returned]) -> str:
    """The text of inline asm of one call, in a scope of its own, as it may come twice."""
    own = [f"nvb_p{index}" for index in range(len(kinds))]
    lines = [
        f".param {_typed(each)} {name}{_array(each)};" for each, name in zip(function.parameters, own, strict=True)
    ]
    lines += [f".param {_typed(each)} nvb_r{_array(each)};" for each in function.results]
    for (name, kind), each, place in zip(kinds.items(), function.parameters, own, strict=True):
        lines += _stored(name, kind, each, place)
    given_back = "(nvb_r), " if function.results else ""
    arguments = f", ({', '.join(own)})" if own else ""
    lines.append(f"call.uni {given_back}{function.name}{arguments};".replace("$", "$$"))
    for name, result in results.items():
        at = f"nvb_r + {result.offset}" if result.offset else "nvb_r"
        lines.append(f"ld.param.b{_bits(result.own)} {{{name}}}, [{at}];")
    return "\n".join(("{{", *lines, "}}"))


def _stored(name: str, kind: Scalar | Pointer, own: Variable, place: str) -> Iterator[str]:
    if isinstance(kind, Pointer) and kind.space == "shared":
        yield f".reg .u64 %{place};"
        yield f".reg .u32 %{place}_w;"
        yield f"mov.u32 %{place}_w, {{{name}}};"
        yield f"cvt.u64.u32 %{place}, %{place}_w;"
        yield f"cvta.shared.u64 %{place}, %{place};"
        yield f"st.param.b64 [{place}], %{place};"
    else:
        yield f"st.param.b{_bits(own)} [{place}], {{{name}}};"


def _typed(own: Variable) -> str:
    align = f".align {own.alignment} " if own.alignment is not None else ""
    return f"{align}.{own.type}"


def _array(own: Variable) -> str:
    return "".join(f"[{'' if extent is None else extent}]" for extent in own.shape)
