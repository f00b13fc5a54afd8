"""Whose a function is, and whose its dynamic shared memory: all of a CTA's begins at one address (PTX ISA 5.1.7).

A function remembers its builder, so that two of them never share out the same bytes or each see half of a protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from llvmlite import ir

from nvbackend.builder.scaling import SHARED_SPACE
from nvbackend.diagnostics import Diagnostic, Location, Rule

_LOCAL = ("internal", "private")
_BUILDER = "_nvbackend_builder"
"""The attribute of an llvmlite function that holds the builder it has."""

AGAIN = Rule(
    id="attach.again",
    message="function {function} has a builder already, and {problem}",
    fix="attach once and keep what attach() returns; position its IRBuilder where the calls are to go",
    why="Both would lay out their shared memory from byte 0 on, and neither would see the other's barriers and waits.",
    reference="docs/guide.md, A kernel is a function that builds one",
)
BASE = Rule(
    id="attach.shared-base",
    message="dynamic shared memory that begins at byte {given!r}",
    fix="give how many bytes are taken before it, 0 or more: shared_base=caller.shared_bytes",
    why="It begins so many bytes after the start of the CTA's dynamic shared memory.",
    reference="PTX ISA 5.1.7 (shared memory)",
)
TWICE = Rule(
    id="attach.shared",
    message="bytes {first} to {last} of dynamic shared memory are laid out by {function} and by {other}, {relation}",
    fix="{advice}",
    why="All dynamic shared memory of a CTA begins at one address: each would overwrite what the other keeps there.",
    reference="PTX ISA 5.1.7 (shared memory); CUDA C++ Programming Guide, extern __shared__",
)


class Builder(Protocol):
    """What is asked of the builder of a function."""

    name: str
    function: ir.Function
    _shared_bytes: int
    _shared_start: int
    _declares_base: bool
    _first_shared: Location | None
    _dynamic: ir.GlobalVariable | None


def builder_of(function: ir.Function) -> Builder | None:
    """The builder that a function has."""
    return getattr(function, _BUILDER, None)


def claim(function: ir.Function, builder: Builder) -> None:
    """Make `builder` the only one of `function` (attach.again)."""
    if builder_of(function) is not None:
        AGAIN.fail(function=function.name, problem="this would be another")
    setattr(function, _BUILDER, builder)


def is_kernel(function: ir.Function) -> bool:
    """Whether it can only be a kernel: it returns nothing, others see it, and nothing in its module calls it."""
    if function.linkage in _LOCAL or not isinstance(function.function_type.return_type, ir.VoidType):
        return False
    return not any(
        one is function
        for other in function.module.functions
        for block in other.blocks
        for instr in block.instructions
        for one in (*instr.operands, getattr(instr, "callee", None))
    )


def shared_faults(k: Builder) -> Iterator[Diagnostic]:
    """Dynamic shared memory of `k` that is its caller's, a callee's or its owner's as well (attach.shared)."""
    if k._shared_bytes == k._shared_start:
        return
    related = list(_related(k.function))
    for function, relation in related:
        other = builder_of(function)
        if other is not None:
            yield from _overlap(k, other, relation)
    if not k._declares_base:
        yield from _arrays(k, [k.function, *(function for function, _ in related)])


def _overlap(k: Builder, other: Builder, relation: str) -> Iterator[Diagnostic]:
    first, last = max(k._shared_start, other._shared_start), min(k._shared_bytes, other._shared_bytes)
    if first < last:
        advice = "attach the callee with shared_base=caller.shared_bytes, when the caller has laid out its own"
        yield _twice(k, first, last, f"function {other.name}", relation, advice)


def _arrays(k: Builder, functions: Iterable[ir.Function]) -> Iterator[Diagnostic]:
    """Arrays `extern .shared` that somebody else declared and these functions use."""
    module = k.function.module
    own = [other._dynamic for one in module.functions if (other := builder_of(one)) is not None]
    arrays = [one for one in module.global_values if _is_extern_shared(one) and one not in own]
    if not arrays:
        return
    texts = [str(instr) for function in functions for block in function.blocks for instr in block.instructions]
    for array in arrays:
        if any(array.get_reference() in text for text in texts):
            advice = "attach with shared_base=, the bytes that the array takes; or make it with k.shared(...)"
            where = "an array of external linkage"
            yield _twice(k, k._shared_start, k._shared_bytes, array.get_reference(), where, advice)


def _twice(k: Builder, first: int, last: int, other: str, relation: str, advice: str) -> Diagnostic:
    return TWICE.diagnose(
        at=k._first_shared,
        first=first,
        last=last - 1,
        function=k.name,
        other=other,
        relation=relation,
        advice=advice,
    )


def _is_extern_shared(given: object) -> bool:
    if not isinstance(given, ir.GlobalVariable) or given.type.addrspace != SHARED_SPACE:
        return False
    return given.initializer is None and given.linkage in ("", "external", "extern_weak")


def _related(function: ir.Function) -> Iterator[tuple[ir.Function, str]]:
    """The functions that this one calls, and those that call it, directly or not."""
    calls = {one: _called(one) for one in function.module.functions if one.blocks}
    if len(calls) > 1:
        callers = {one: [other for other, called in calls.items() if one in called] for one in calls}
        yield from ((one, "which it calls") for one in _reached(function, calls))
        yield from ((one, "which calls it") for one in _reached(function, callers))


def _called(function: ir.Function) -> list[ir.Function]:
    found = {instr.callee: None for block in function.blocks for instr in block.instructions if _is_call(instr)}
    return list(found)


def _is_call(instr: ir.Instruction) -> bool:
    return isinstance(instr, ir.CallInstr) and isinstance(instr.callee, ir.Function)


def _reached(start: ir.Function, calls: Mapping[ir.Function, Iterable[ir.Function]]) -> list[ir.Function]:
    found: dict[ir.Function, None] = {}
    waiting = list(calls.get(start, ()))
    while waiting:
        one = waiting.pop()
        if one not in found and one is not start:
            found[one] = None
            waiting += calls.get(one, ())
    return list(found)
