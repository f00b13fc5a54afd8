"""The rules of ordinary shared memory between the threads of a CTA."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_MODEL = "PTX ISA 8 (memory consistency model: data races), 9.7.13 (barrier)"

MISSING_BARRIER = Rule(
    id="shared.missing-barrier",
    message="{reader} reads {memory} with no barrier of threads after {writer}: {second} reads byte {byte}, which "
    "{first} writes",
    fix="{fix}",
    why="Threads do not run in step: what was there before may be read. Nothing traps.",
    reference=_MODEL,
)
OVERWRITTEN_EARLY = Rule(
    id="shared.overwritten-early",
    message="{writer} overwrites {memory} with no barrier of threads after {reader}: {second} writes byte {byte}, "
    "which {first} may not have read yet",
    fix="{fix}; in a loop that is a second barrier in each round",
    why="Threads do not run in step: a slower one reads what was written for later. Nothing traps.",
    reference=_MODEL,
)
BOUNDS = Rule(
    id="shared.bounds",
    message="{instruction} {does} {size} byte(s) of {memory} from byte {start} on{who}; it has {bytes}",
    fix="allocate what is accessed, or leave out the threads and rounds that are past the end: with k.if_(index < n)",
    why="Another tile lies there, or nothing: it is read or overwritten, and nothing traps.",
    reference="PTX ISA 5.1.7 (shared state space)",
)
