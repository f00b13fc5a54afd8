"""What must hold of the candidates that are measured."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_GUIDE = "docs/guide.md, Choosing by measuring"

WRONG_NUMBERS = Rule(
    id="tune.wrong-numbers",
    message="candidate {name!r} gives wrong numbers: check({name!r}) gave {result}",
    fix='run it with nvb.runtime.load(compiled, device="simulator"), which reports races and accesses out of bounds, '
    "or leave it out",
    why="A kernel that leaves work out may be the fastest one.",
    reference=_GUIDE,
)
NO_CANDIDATE = Rule(
    id="tune.no-candidate",
    message="none of the candidates runs and is right: {failures}",
    fix="correct one candidate, {name!r}: {advice}",
    why="There is no kernel to choose.",
    reference=_GUIDE,
)
