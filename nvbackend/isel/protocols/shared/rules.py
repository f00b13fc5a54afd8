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
LOCAL_INDEX = Rule(
    id="local.index",
    message="element {index} of {name}, a local array of {count} elements{who}",
    fix="index from 0 to {last}",
    why="The access would change another variable of the thread, or fault.",
    reference="PTX ISA 5.1.5 (local state space)",
)
UNWRITTEN = Rule(
    id="local.unwritten",
    message="an element of the local array {name} is read, and nothing ever sets one",
    fix="set what is read, {name}[index] = value, or all elements: k.local.array(..., fill=0)",
    why="The element holds what was there before: an arbitrary number, different in each launch.",
    reference="PTX ISA 5.1.5 (local state space); LLVM Language Reference (undefined values)",
)
BOUNDS = Rule(
    id="shared.bounds",
    message="{instruction} {does} {size} byte(s) of {memory} from byte {start} on{who}; it has {bytes}",
    fix="allocate what is accessed, or leave out the threads and rounds that are past the end: with k.if_(index < n)",
    why="Another tile lies there, or nothing: it is read or overwritten, and nothing traps.",
    reference="PTX ISA 5.1.7 (shared state space)",
)
