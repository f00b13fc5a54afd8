"""Comparisons of f16 and bf16 that LLVM 22.1 ends the process on, written so that it does not.

LLVM takes `fcmp oeq` and `fcmp une` with zero, of a value whose bits came from the other of the two types, for a test
of those bits, and makes an integer constant of a floating-point type (an assertion in Constants.cpp). The bits may get
there through memory, which only LLVM's own passes find out, and it makes the two comparisons of others. So where a
module has both types, what it compares passes an `llvm.arithmetic.fence`: LLVM does not look through it, and it is not
an instruction of the PTX.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nvbackend.codegen.stages.names import NAME, unused_prefix
from nvbackend.diagnostics.classes.late_pattern import late_pattern

_NAMES = {"half": "f16", "bfloat": "bf16"}
_TYPE = r"half|bfloat|<(?P<count>\d+) x (?P<element>half|bfloat)>"
_COMPARISON = late_pattern(rf"^  (?P<left>%.+ = fcmp (?:\w+ )+?)(?P<type>{_TYPE})(?P<right> .*)$")
_REGISTER = late_pattern(NAME)


def has_both(text: str) -> bool:
    """Whether IR has comparisons, and values of f16 and of bf16."""
    return all(word in text for word in ("fcmp", *_NAMES))


def fenced(text: str) -> str:
    """IR, as LLVM prints it, whose comparisons of f16 and bf16 have fences around their operands."""
    prefix = unused_prefix(text, "fence")
    declared: dict[str, str] = {}
    lines: list[str] = []
    for line in text.splitlines():
        match = _COMPARISON.match(line)
        lines += [line] if match is None else _with_fences(match, f"%{prefix}.{len(lines)}", declared)
    missing = [declaration for name, declaration in declared.items() if f"declare {declaration}" not in text]
    return "\n".join([*lines, *(f"declare {declaration}" for declaration in missing), ""])


def _with_fences(match: re.Match[str], name: str, declared: dict[str, str]) -> Iterator[str]:
    """The lines of one comparison; constants need no fence."""
    kind = match["type"]
    suffix = f"v{match['count']}{_NAMES[match['element']]}" if match["count"] else _NAMES[kind]
    intrinsic = f"@llvm.arithmetic.fence.{suffix}"
    right = match["right"]
    for place, register in enumerate(dict.fromkeys(_REGISTER.findall(right))):
        declared[suffix] = f"{kind} {intrinsic}({kind})"
        yield f"  {name}.{place} = call {kind} {intrinsic}({kind} {register})"
        right = re.sub(rf"{re.escape(register)}(?![\w.$-])", f"{name}.{place}", right)
    yield f"  {match['left']}{kind}{right}"
