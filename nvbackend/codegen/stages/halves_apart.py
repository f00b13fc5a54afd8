"""Maxima of 16-bit integers with 0, which ptxas would take for those of the neighbour too.

From sm_90 on, ptxas makes one instruction of a minimum or maximum of 16 bits and of the maximum with 0 of that
(VIMNMX.S16x2.RELU), and one of two whose results a program packs, all with 0 or none, whatever the program says
(ptxas 12.9, 13.0 and 13.5; seen on an H200). A maximum in 32 bits is an instruction of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nvbackend.codegen.stages.names import NAME, unused_prefix

_WITH_ZERO = re.compile(
    rf"^(?P<before>  {NAME} = )(?:tail )?call [^@]*?(?P<type>(?P<count><\d+ x )?i(?:8|16)(?P<end>>?)) "
    rf"@llvm\.smax\.\w+\((?P=type) (?:\w+ )*(?P<value>{NAME}), (?P=type) (?P<zero>0|zeroinitializer)\)"
    r"(?: #\d+)?(?P<after>.*)$"
)


def halves_apart(ir: str) -> str:
    """The optimised IR, whose maxima of 16 bits with 0 are maxima of 32 bits."""
    if "@llvm.smax." not in ir:
        return ir
    prefix, lines = unused_prefix(ir, "halves"), ir.split("\n")
    declarations = dict[str, None]()
    for place, line in enumerate(lines):
        if maximum := _WITH_ZERO.match(line):
            *lines_of_it, declaration = _widened(maximum, f"%{prefix}.{place}")
            lines[place] = "\n".join(lines_of_it)
            declarations[declaration] = None
    missing = [declaration for declaration in declarations if declaration not in ir]
    return "\n".join([*lines, *missing, *[""] * bool(missing)])


def _widened(maximum: re.Match[str], name: str) -> Iterator[str]:
    """The lines of a maximum in 32 bits, then the declaration of its function."""
    wide = f"{maximum['count'] or ''}i32{maximum['end']}"
    count = (maximum["count"] or "").strip("< x")
    function = f"@llvm.smax.{f'v{count}' if count else ''}i32"
    after = maximum["after"]
    yield f"  {name}.wide = sext {maximum['type']} {maximum['value']} to {wide}{after}"
    yield f"  {name} = call {wide} {function}({wide} {name}.wide, {wide} {maximum['zero']}){after}"
    yield f"{maximum['before']}trunc {wide} {name} to {maximum['type']}{after}"
    yield f"declare {wide} {function}({wide}, {wide})"
