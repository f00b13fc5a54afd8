"""Names that mean the same in every process: of what a function reads, for keys of kernels on disk."""

from __future__ import annotations

import enum
import hashlib
import os
import types
from collections.abc import Iterable, Iterator

from nvbackend.builder.kernel.again.constants import ATOMS, bits_of
from nvbackend.builder.kernel.again.content import Content, UnknownRead

_OF_CODE = (
    *("co_code", "co_exceptiontable", "co_linetable", "co_firstlineno", "co_name", "co_qualname", "co_flags"),
    *("co_names", "co_varnames", "co_freevars", "co_cellvars"),
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount"),
)
"""What a code object is besides its file and its constants: also the lines that diagnostics and debug lines name."""


def lasting_name(value: object) -> object:
    """A name that means the object `value` in every process. Raises UnknownRead for an object without one."""
    match value:
        case types.CodeType():
            return f"code {_digest(_parts(_of_code(value)))}"
        case types.ModuleType():
            return f"module {value.__name__}"
        case enum.Enum():
            return f"{lasting_name(type(value))} {value.name} {value.value!r}"
        case type():
            return f"class {value.__module__}.{value.__qualname__}"
        case types.BuiltinFunctionType(__self__=types.ModuleType() | type() as owner):
            return f"function {lasting_name(owner)} {value.__qualname__}"
    raise UnknownRead(f"a {type(value).__qualname__}, which has no name in another process")


def lasting_key(content: Content) -> str:
    """A digest of what `content` is in every process. Raises UnknownRead for an object without a name in others."""
    return digest_of(_lasting(content))


def _lasting(content: Content) -> tuple[object, ...]:
    """The parts that last, with a name that lasts for each object that they name."""
    parts = list(content.parts[: content.lasts])
    for place, value in content.named:
        if place < content.lasts:
            parts[place] = _lasting(value) if type(value) is Content else lasting_name(value)
    return tuple(parts)


def digest_of(parts: object) -> str:
    """A digest of plain values in tuples: of equal ones alone it is the same. Raises UnknownRead for others."""
    return _digest(_parts(parts))


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _of_code(code: types.CodeType) -> tuple[object, ...]:
    return (os.path.abspath(code.co_filename), code.co_consts, *(getattr(code, name) for name in _OF_CODE))


def _parts(value: object) -> Iterator[str]:
    """Texts that are the same for equal values of equal kinds alone: none has a line break."""
    kind = type(value)
    if kind in ATOMS or (kind is tuple and ATOMS.issuperset(map(type, value))):  # type: ignore[call-overload]
        yield f"{kind.__name__} {value!r}"
    elif kind is tuple:
        yield f"tuple {len(value)}"  # type: ignore[arg-type]
        for each in value:  # type: ignore[attr-defined]
            yield from _parts(each)
    elif kind is frozenset:  # of constants, in no order of its own
        yield from sorted(_digest(_parts(each)) for each in value)  # type: ignore[attr-defined]
        yield "frozenset"
    elif kind is float or kind is complex:
        yield f"{kind.__name__} {bits_of(value).hex()}"  # type: ignore[arg-type]
    elif kind is types.CodeType:
        yield from _parts(_of_code(value))  # type: ignore[arg-type]
    elif isinstance(value, type):
        yield str(lasting_name(value))
    else:
        raise UnknownRead(f"a {kind.__qualname__}, which has no text")
