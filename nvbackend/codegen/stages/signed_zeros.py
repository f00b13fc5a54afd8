"""Selects whose sign of zero LLVM's code generator would lose.

It takes `a < 0.0 ? a : 0.0` for `min.f32 a, 0.0`, which orders -0.0 before 0.0: for an `a` of -0.0 the comparison is
false and the select gives 0.0, the minimum -0.0. It looks for a comparison in the condition itself, so a `freeze` of
that keeps the select; nothing else comes of it, as the operands are what they were.
"""

from __future__ import annotations

import re

from nvbackend.codegen.stages.names import NAME, unused_prefix
from nvbackend.diagnostics.classes.late_pattern import late_pattern

_TYPE = r"(?:float|double|half|bfloat|<\d+ x (?:float|double|half|bfloat)>)"
_OPERAND = rf"(?:{NAME}|<[^>]*>|[^,!]+)"
_COMPARED = late_pattern(
    rf"^\s*(?P<name>{NAME}) = fcmp (?:\w+ )*[ou](?P<order>lt|gt) (?P<type>{_TYPE}) "
    rf"(?P<left>{_OPERAND}), (?P<right>{_OPERAND})(?:, !.*)?$"
)
_SELECTED = late_pattern(
    rf"^(?P<before>\s*{NAME} = select (?P<flags>(?:\w+ )*)(?P<bits>i1|<\d+ x i1>) )(?P<condition>{NAME})"
    rf"(?P<after>, (?P<type>{_TYPE}) (?P<yes>{_OPERAND}), {_TYPE} (?P<no>{_OPERAND})(?:, !.*)?)$"
)
_ZEROS = {
    "0.000000e+00": "+",
    "-0.000000e+00": "-",
    "0xH0000": "+",
    "0xH8000": "-",
    "0xR0000": "+",
    "0xR8000": "-",
}
"""The signs of the zeros, by LLVM's spelling."""


def signs_kept(ir: str) -> str:
    """The optimised IR, with selects that stay selects where the sign of a zero depends on it."""
    if " select " not in ir or " fcmp " not in ir:
        return ir
    prefix, lines, compared = unused_prefix(ir, "sign"), ir.split("\n"), dict[str, re.Match[str]]()
    for place, line in enumerate(lines):
        if line.startswith("define "):
            compared = {}
        elif comparison := _COMPARED.match(line):
            compared[comparison["name"]] = comparison
        elif (choice := _SELECTED.match(line)) and _loses_a_sign(compared.get(choice["condition"]), choice):
            name = f"%{prefix}.{place}"
            freeze = f"  {name} = freeze {choice['bits']} {choice['condition']}"
            lines[place] = f"{freeze}\n{choice['before']}{name}{choice['after']}"
    return "\n".join(lines)


def _loses_a_sign(compared: re.Match[str] | None, selected: re.Match[str]) -> bool:
    """Whether the minimum or maximum of what is compared may be a zero of another sign than what is selected."""
    if compared is None or {"nsz", "fast"} & set(selected["flags"].split()):
        return False
    if compared["type"] != selected["type"] or compared["type"].startswith("<"):
        return True
    left, right = _alike(compared["left"]), _alike(compared["right"])
    if {left, right} != {_alike(selected["yes"]), _alike(selected["no"])}:
        return False
    if any(not side.startswith("%") and side not in _ZEROS for side in (left, right)):
        return False
    is_minimum = (compared["order"] == "lt") == (left == _alike(selected["yes"]))
    return _ZEROS.get(selected["no"]) != ("-" if is_minimum else "+")


def _alike(operand: str) -> str:
    """Comparisons take zeros of both signs for one."""
    return next(iter(_ZEROS)) if operand in _ZEROS else operand
