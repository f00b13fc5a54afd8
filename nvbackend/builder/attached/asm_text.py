"""Inline asm of LLVM IR as instructions of PTX: its text, with the registers and numbers of its operands named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from llvmlite import ir

from nvbackend.builder.ops.inline.text import statements_of, whole_text
from nvbackend.diagnostics import DiagnosticError
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.target.target import Target
from nvbackend.ptx.syntax import Instruction, Label, flattened

PREFIX = "%nvb_"
_TYPES = {"h": "b16", "r": "b32", "l": "b64", "f": "f32", "d": "f64", "b": "pred", "q": "b128"}
"""Registers of PTX by the letters of constraints (LLVM, Supported Constraint Code List: NVPTX)."""
_NUMBERS = frozenset({"n", "i"})
_ESCAPED = re.compile(r"\\([0-9A-Fa-f]{2}|\\)")
_OPERAND = re.compile(r"\$(\$|\d+|\{\d+\})")
_TARGET = "sm_90a"
"""Any target will do: the text is read, not assembled."""


class Unreadable(Exception):
    """The text is not PTX, or uses what is not read here."""


@dataclass(frozen=True)
class AsmText:
    """The instructions of a text, whether it jumps, and its operands by the names that they have there.

    An operand is a value, or None for a result of the statement.
    """

    instructions: tuple[Instruction, ...]
    jumps: bool
    operands: dict[str, ir.Value | None]


def read_asm(asm: ir.InlineAsm, arguments: Sequence[ir.Value]) -> AsmText:
    """The text of a statement with these arguments. Raises Unreadable."""
    outputs, inputs = _constraints(str(asm.constraint))
    values: list[ir.Value | None] = [None] * len(outputs) + [*arguments]
    names: list[str] = []
    declared: list[str] = []
    for place, (letter, value) in enumerate(zip([*outputs, *inputs], values, strict=False)):
        tied = int(letter) if letter.isdigit() else None
        if tied is not None and tied < min(place, len(outputs)):
            names.append(names[tied])
            values[tied] = value
        elif letter in _NUMBERS and isinstance(value, ir.Constant) and isinstance(value.constant, int):
            names.append(str(int(value.constant)))
        elif letter in _TYPES:
            names.append(f"{PREFIX}{place}")
            declared.append(f".reg .{_TYPES[letter]} {PREFIX}{place};")
        else:
            raise Unreadable
    if len(names) != len(outputs) + len(arguments):
        raise Unreadable
    instructions, jumps = _read(_with_names(_unescaped(str(asm.asm)), names), tuple(declared))
    return AsmText(instructions, jumps, dict(zip(names, values, strict=True)))


def _constraints(text: str) -> tuple[list[str], list[str]]:
    """The letters of outputs, and those of inputs; clobbers come last and have no values."""
    parts = text.split(",")
    return [part.lstrip("=&") for part in parts if part.startswith("=")], [
        part for part in parts if not part.startswith("=")
    ]


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda code: "\\" if code[1] == "\\" else chr(int(code[1], 16)), text)


def _with_names(text: str, names: Sequence[str]) -> str:
    def name(place: re.Match[str]) -> str:
        if place[1] == "$":
            return "$"
        number = int(place[1].strip("{}"))
        if number >= len(names):
            raise Unreadable
        return names[number]

    if "$" in _OPERAND.sub("", text):  # a modifier, a choice of dialects, or what LLVM ends its process for
        raise Unreadable
    return _OPERAND.sub(name, text)


@lru_cache(maxsize=1024)
def _read(text: str, declared: tuple[str, ...]) -> tuple[tuple[Instruction, ...], bool]:
    try:
        statements = statements_of(whole_text(text, declared, Target.parse(_TARGET)), "inline assembly")
    except DiagnosticError:
        raise Unreadable from None
    every = list(flattened(statements))
    return tuple(each for each in every if isinstance(each, Instruction)), any(
        isinstance(each, Label) for each in every
    )
