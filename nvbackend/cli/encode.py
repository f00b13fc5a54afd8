"""`nvbackend encode FORMAT FIELD=VALUE ...`: print the descriptor or other packed word that has these fields."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from nvbackend.cli.words import Format, add_format, chosen, fail, nearest, number
from nvbackend.diagnostics import raise_all
from nvbackend.intrinsics.row.types import BY_NAME, ElementType
from nvbackend.intrinsics.words.tcgen05_control import SEED_KINDS

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_FIELDS = "of a wgmma-desc: start_address=0x400 leading_byte_offset=16 stride_byte_offset=1024 swizzle=B128"
_YES_NO = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def add_to(commands: Commands) -> None:
    """The command's arguments."""
    parser = commands.add_parser("encode", help="print a descriptor or another packed word", description=__doc__)
    add_format(parser)
    parser.add_argument("fields", nargs="+", metavar="FIELD=VALUE", help=_FIELDS)
    parser.add_argument("--json", action="store_true", help="print a JSON object with the word")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Iterator[str]:
    """The command's output. Raises cli.word, descriptor.* where a value does not fit, and tensor-map.*."""
    form, kind = chosen(arguments)
    values = {**({"kind": kind} if kind else {}), **_given(form, arguments)}
    if missing := [name for name in _required(form.cls) if name not in values]:
        fail(f"{arguments.format} needs {', '.join(missing)}", f"add {' '.join(f'{name}=...' for name in missing)}")
    filled = form.cls(**values)
    raise_all(form.faults(filled))
    word, bits = filled.encode(), form.word(kind).bits
    printed = f"0x{word:0{bits // 4}x}"
    yield f"{json.dumps({'format': arguments.format, 'word': printed}) if arguments.json else printed}\n"


def _given(form: Format, arguments: argparse.Namespace) -> dict[str, Any]:
    """The values of the command line's fields, by name."""
    fields: dict[str, Any] = {}
    hints, names = get_type_hints(form.cls), _names(form)
    for pair in arguments.fields:
        name, equals, value = pair.partition("=")
        if not equals:
            fail(f"{pair!r} has no value", "write it as FIELD=VALUE")
        if name not in names:
            fail(f"{arguments.format} has no field {name!r}", nearest(name, names))
        if name in fields:
            fail(f"{name} is given twice", "give it once")
        fields[name] = _value(name, value, hints[name])
    return fields


def _names(form: Format) -> list[str]:
    return [field.name for field in dataclasses.fields(form.cls) if field.name != "kind"]


def _required(cls: type[Any]) -> list[str]:
    return [field.name for field in dataclasses.fields(cls) if field.default is dataclasses.MISSING]


def _value(name: str, text: str, kind: Any) -> Any:
    """The value of a field from its text: a number, yes or no, the name of a mode or of an element type."""
    if kind is bool:
        if text.lower() not in _YES_NO:
            fail(f"{name} = {text!r} is neither yes nor no", f"write {name}=yes or {name}=no")
        return _YES_NO[text.lower()]
    if kind is ElementType or ElementType in get_args(kind):
        if text not in BY_NAME:
            fail(f"{name} = {text!r} is not an element type", f"write it as in {name}=bf16")
        return BY_NAME[text]
    if isinstance(kind, enum.EnumMeta):
        if text not in kind.__members__:
            fail(f"{name} has no mode {text!r}", nearest(text, list(kind.__members__)))
        return kind[text]
    if kind is str:
        return text
    return _number(name, text, kind)


def _number(name: str, text: str, kind: Any) -> Any:
    """The value of a field that is a number, several numbers, or the name of one."""
    if get_origin(kind) is tuple:
        return tuple(number(part, name, "64,128: numbers with commas alone between them") for part in text.split(","))
    if name == "mma_kind" and text in SEED_KINDS:
        return SEED_KINDS.index(text)
    return number(text, name)
