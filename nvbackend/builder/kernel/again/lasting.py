"""Names that mean the same in every process: of what a function reads, for keys of kernels on disk."""

from __future__ import annotations

import enum
import io
import operator
import os
import pickle
import types
from typing import Any

from nvbackend.builder.kernel.again.constants import ATOMS, bits_of
from nvbackend.builder.kernel.again.content import Content, UnknownRead
from nvbackend.builder.kernel.again.objects import name_of
from nvbackend.codegen.cache import sha256

_BYTES_OF_CODE = operator.attrgetter("co_code", "co_exceptiontable", "co_linetable")
_OF_CODE = operator.attrgetter(
    *("co_firstlineno", "co_name", "co_qualname", "co_flags", "co_names", "co_varnames", "co_freevars", "co_cellvars"),
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount"),
)
"""What a code object is besides its file and its constants: also the lines that diagnostics and debug lines name."""

_OFTEN = {kind: [kind.__name__] for kind in (*ATOMS, *(float, tuple, dict, types.FunctionType))}
"""Kinds of values, each as the only list of one part that has its name: content names them before most values."""


def lasting_name(value: object) -> object:
    """A name that means the object `value` in every process. Raises UnknownRead for an object without one."""
    match value:
        case types.CodeType():
            return f"code {digest_of(value)}"
        case types.ModuleType() if name_of(value):
            return f"module {name_of(value)}"
        case enum.Enum():
            number = value._value_ if type(value._value_) in ATOMS else ""  # a repr of the user's may say anything
            return f"{lasting_name(type(value))} {value._name_} {number!r}"
        case type():
            return f"class {value.__module__}.{value.__qualname__}"
        case types.BuiltinFunctionType(__self__=types.ModuleType() | type() as owner):
            return f"function {lasting_name(owner)} {value.__qualname__}"
        case types.WrapperDescriptorType() | types.MethodDescriptorType() | types.ClassMethodDescriptorType():
            return f"method {lasting_name(value.__objclass__)} {value.__name__}"
    raise UnknownRead(f"a {type(value).__qualname__}, which has no name in another process")


def lasting_key(content: Content) -> str:
    """A digest of what `content` is in every process. Raises UnknownRead for an object without a name in others."""
    return digest_of(_lasting(content))


def _lasting(content: Content) -> tuple[object, ...]:
    """The parts that last, with a name that lasts for each object that they name."""
    parts = list(content.parts[: content.lasts])
    for place, value in content.named:
        if place < content.lasts:
            if type(value) is not types.CodeType:
                parts[place] = _lasting(value) if type(value) is Content else lasting_name(value)
            else:
                parts[place] = value
    return tuple(parts)


def digest_of(parts: object) -> str:
    """A digest of plain values in tuples: of equal ones alone it is the same. Raises UnknownRead for others."""
    digested = io.BytesIO()
    pickler = pickle.Pickler(digested, 4)
    pickler.fast = True  # equal values are written alike, whether or not they are one object
    pickler.dump(_plain(parts))
    return sha256(digested.getbuffer()).hexdigest()


def _of_code(code: types.CodeType) -> list[object]:
    file, texts = code.co_filename, _BYTES_OF_CODE(code)
    place = file if os.path.isabs(file) else os.path.abspath(file)
    digest = sha256(b"".join(texts)).digest()
    return ["code", place, *map(len, texts), digest, _plain(code.co_consts), *_OF_CODE(code)]


def _plain(value: Any) -> object:
    """What has one pickle for equal values of equal kinds alone: a list, which no value is, begins with a kind."""
    kind = type(value)
    if kind is tuple:
        return tuple([each if type(each) in ATOMS else _plain(each) for each in value])
    if kind in ATOMS:
        return value
    if kind is type or isinstance(value, type):
        often = _OFTEN.get(value) if kind is type else None
        return often or ["class", value.__module__, value.__qualname__]
    if kind is frozenset:  # of constants, in no order of its own
        return ["frozenset", *sorted(map(digest_of, value))]
    if kind is float or kind is complex:
        return [kind.__name__, bits_of(value)]
    if kind is types.CodeType:
        return _of_code(value)
    raise UnknownRead(f"a {kind.__qualname__}, which has no text")
