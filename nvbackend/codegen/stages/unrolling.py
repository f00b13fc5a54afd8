"""Loops that LLVM has not unrolled, against what their metadata asks for."""

from __future__ import annotations

import re
from collections import Counter

from nvbackend.diagnostics import Diagnostic, Location, Rule, Severity
from nvbackend.diagnostics.classes.late_pattern import late_pattern

NOT_UNROLLED = Rule(
    id="llvm.not-unrolled",
    severity=Severity.WARNING,
    message="LLVM left the loop as it was, and unroll= asks for copies of its body",
    fix="count to a known multiple of the copies: an nvb.i32(multiple_of=4) with unroll=4, or a Python integer",
    why=(
        "The remaining rounds need a body of their own, and LLVM does not copy barriers, or other "
        "instructions that threads execute together, into it. Nor does it make a loop of more than some "
        "thousand instructions."
    ),
    reference="LLVM 22.1 LoopUnrollPass (convergent operations); LLVM Language Reference (convergent)",
)
_LINE = "nvbackend.line"
_LOOP = late_pattern(r"^!(?P<id>\d+) = distinct !\{!(?P=id), (?P<parts>[^}]*)\}$", re.MULTILINE)
_PLACE = late_pattern(rf'^!(\d+) = !\{{!"{_LINE}", !"([^"]*):(\d+)"\}}$', re.MULTILINE)
_ASKED = late_pattern(r'^!(\d+) = !\{!"llvm\.loop\.unroll\.(?:count|full)"', re.MULTILINE)
_DONE = late_pattern(r'^!(\d+) = !\{!"llvm\.loop\.unroll\.disable"\}$', re.MULTILINE)


def not_unrolled(optimized_ir: str) -> list[Diagnostic]:
    """A warning for each of these loops, at its line.

    LLVM marks the loop of the copies as one that is not to be unrolled again. Where each copy may leave the loop, the
    exits of the others keep the metadata that asks.
    """
    if _LINE not in optimized_ir:
        return []
    places = {number: Location(file, int(line), "") for number, file, line in _PLACE.findall(optimized_ir)}
    asked, done = set(_ASKED.findall(optimized_ir)), set(_DONE.findall(optimized_ir))
    left: Counter[str | None] = Counter()
    for match in _LOOP.finditer(optimized_ir):
        parts = re.findall(r"!(\d+)", match["parts"])
        place = next((part for part in parts if part in places), None)
        left[place] += (not asked.isdisjoint(parts)) - (not done.isdisjoint(parts))
    return [NOT_UNROLLED.diagnose(at=places.get(place or "")) for place, count in left.items() for _ in range(count)]
