"""Whose a function is, and whose its dynamic shared memory: all of a CTA's begins at one address (PTX ISA 5.1.7).

A function remembers its builder, so that two of them never share out the same bytes or each see half of a protocol.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import SHARED_BASE_ALIGNMENT, Memory
from nvbackend.builder.lower.lowering import NamedAsm
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import SHARED_SPACE
from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.isel.target.shared_memory import SHARED_LIMIT
from nvbackend.isel.target.target import Target
from nvbackend.signature import Shape

LOCAL = ("internal", "private")
"""The linkage of functions that nothing outside of their module sees."""
_BUILDER = "_nvbackend_builder"
"""The attribute of an llvmlite function that holds the builder it has."""

AGAIN = Rule(
    id="attach.again",
    message="function {function} has a builder already, and {problem}",
    fix="attach once and keep what attach() returns; position its IRBuilder where the calls are to go",
    why="Both would lay out their shared memory from byte 0 on, and neither would see the other's barriers and waits.",
    reference="docs/guide.md, In a compiler of your own",
)
BASE = Rule(
    id="attach.shared-base",
    message="dynamic shared memory cannot begin at byte {given!r}",
    fix="give how many bytes are taken before it, 0 or more: shared_base=caller.shared_bytes",
    why="It is the distance in bytes from the start of the CTA's dynamic shared memory.",
    reference="PTX ISA 5.1.7 (shared memory)",
)
TWICE = Rule(
    id="attach.shared",
    message="bytes {first} to {last} of dynamic shared memory are laid out by {function} and by {other}, {relation}",
    fix="{advice}",
    why="All dynamic shared memory of a CTA begins at one address: each would overwrite what the other keeps there.",
    reference="PTX ISA 5.1.7 (shared memory); CUDA C++ Programming Guide, extern __shared__",
)


THREADS = Rule(
    id="attach.threads",
    message="function {function} is built for CTAs of {threads} threads{and_cluster}, and {other}",
    fix="attach both with the threads= and cluster= that the kernel is launched with",
    why=(
        "Barriers would count threads that do not exist, or leave some out, and indices would leave the "
        "memory that was laid out."
    ),
    reference="docs/guide.md, In a compiler of your own; PTX ISA 11.4 (.maxntid, .reqntid)",
)


class Builder(Protocol):
    """What is asked of the builder of a function."""

    name: str
    function: ir.Function
    threads: int
    cluster_size: int
    target: Target
    memory: Memory

    @property
    def core(self) -> Core:
        """What it emits with."""


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
    if function.linkage in LOCAL or not isinstance(function.function_type.return_type, ir.VoidType):
        return False
    return not any(
        operand is function
        for other in function.module.functions
        for block in other.blocks
        for instr in block.instructions
        for operand in (*instr.operands, getattr(instr, "callee", None))
    )


def owner_faults(k: Builder) -> Iterator[Diagnostic]:
    """What is wrong between `k` and the other functions and arrays of its module."""
    yield from shared_faults(k)
    yield from bounds_faults(k)
    yield from room_faults(k)


def bounds_faults(k: Builder) -> Iterator[Diagnostic]:
    """Another number of threads, or of CTAs in a cluster, than a caller, a callee, or the launch bounds of `k` have."""
    for function, relation in related(k.function):
        other = builder_of(function)
        if other is None:
            continue
        if (other.threads, other.cluster_size) != (k.threads, k.cluster_size):
            size = f" in clusters of {other.cluster_size}" if other.cluster_size != k.cluster_size else ""
            yield _bounds(k, f"function {other.name}, {relation}, for {other.threads}{size}")
        elif other.core.is_shaped and k.core.is_shaped and _shapes(other) != _shapes(k):
            own, its = _shapes(k), _shapes(other)
            shape, ctas = f" of shape {its[0]}, not {own[0]}", f" in clusters of shape {its[1]}, not {own[1]}"
            yield _bounds(k, f"function {other.name}, {relation}, for those{shape if own[0] != its[0] else ctas}")
    most, required = _declared_threads(k.function)
    if required is not None and required != k.threads:
        yield _bounds(k, f"its launch bounds require {required}")
    elif most is not None and most < k.threads:
        yield _bounds(k, f"its launch bounds allow {most}")


def _shapes(k: Builder) -> tuple[Shape, Shape]:
    return k.core.bounds.shape, k.core.bounds.cluster_shape


def _bounds(k: Builder, other: str) -> Diagnostic:
    size = f" in clusters of {k.cluster_size}" if k.cluster_size > 1 else ""
    return THREADS.diagnose(at=k.core.attached, function=k.name, threads=k.threads, and_cluster=size, other=other)


def _declared_threads(function: ir.Function) -> tuple[int | None, int | None]:
    """The most threads of a CTA, and how many it must have, by the module's nvvm.annotations."""
    bounds: dict[str, int] = {}
    named = function.module.namedmetadata.get("nvvm.annotations")
    for node in () if named is None else named.operands:
        first, *notes = node.operands
        if first is not function:
            continue
        for key, number in zip(notes[::2], notes[1::2], strict=False):
            if isinstance(number, ir.Constant) and isinstance(number.constant, int):
                bounds[str(getattr(key, "string", ""))] = number.constant
    most, required = (
        math.prod(bounds.get(f"{name}{axis}", 1) for axis in "xyz") if f"{name}x" in bounds else None
        for name in ("maxntid", "reqntid")
    )
    return most, required


def room_faults(k: Builder) -> Iterator[Diagnostic]:
    """Static arrays of the owner and dynamic memory of `k` that are together more than the target has (shared.size)."""
    functions = [k.function, *(function for function, _ in related(k.function))]
    arrays = [global_value for global_value in k.function.module.global_values if _is_static_shared(global_value)]
    used = _mentioned(arrays, functions)
    static = 0
    for array in used:
        align = array.align or 1
        static = -(-static // align) * align + _bytes_of(array.value_type)
    dynamic = max(
        (other.memory.end for function in functions if (other := builder_of(function)) is not None), default=0
    )
    total = -(-static // SHARED_BASE_ALIGNMENT) * SHARED_BASE_ALIGNMENT + dynamic if dynamic else static
    limit = SHARED_LIMIT[k.target.number]
    if total > limit and static > k.memory.static_bytes:
        names = ", ".join(array.name for array in used)
        yield rules.SHARED_SIZE.diagnose(
            at=k.memory.first_shared, name=names, total=total, target=k.target, limit=limit, over=total - limit
        )


def _is_static_shared(value: object) -> bool:
    return (
        isinstance(value, ir.GlobalVariable) and value.type.addrspace == SHARED_SPACE and value.initializer is not None
    )


_SIZES = ((ir.DoubleType, 8), (ir.FloatType, 4), (ir.HalfType, 2))


def _bytes_of(kind: ir.Type) -> int:
    """The bytes of a type made of arrays and numbers; 0 for any other type."""
    count = 1
    while isinstance(kind, ir.ArrayType | ir.VectorType):
        count, kind = count * int(kind.count), kind.element
    if isinstance(kind, ir.IntType):
        return count * (-(-int(kind.width) // 8))
    return count * next((size for cls, size in _SIZES if isinstance(kind, cls)), 0)


def _mentioned(arrays: Sequence[ir.GlobalVariable], functions: Iterable[ir.Function]) -> list[ir.GlobalVariable]:
    """The `arrays` that the code of `functions` names."""
    if not arrays:
        return []
    texts = [str(instr) for function in functions for block in function.blocks for instr in block.instructions]
    return [array for array in arrays if any(_names(text, array) for text in texts)]


def _names(text: str, array: ir.GlobalVariable) -> bool:
    return re.search(rf"{re.escape(array.get_reference())}(?![\w.$-])", text) is not None


def shared_faults(k: Builder) -> Iterator[Diagnostic]:
    """Dynamic shared memory of `k` that is its caller's, a callee's or its owner's as well (attach.shared)."""
    if k.memory.end == k.memory.start:
        return
    relatives = list(related(k.function))
    for function, relation in relatives:
        other = builder_of(function)
        if other is not None:
            yield from _overlap(k, other, relation)
    if not k.memory.declares_base:
        yield from _arrays(k, [k.function, *(function for function, _ in relatives)])


def _overlap(k: Builder, other: Builder, relation: str) -> Iterator[Diagnostic]:
    first, last = max(k.memory.start, other.memory.start), min(k.memory.end, other.memory.end)
    if first < last:
        advice = "attach the callee with shared_base=caller.shared_bytes, when the caller has laid out its own"
        yield _twice(k, first, last, f"function {other.name}", relation, advice)


def _arrays(k: Builder, functions: Iterable[ir.Function]) -> Iterator[Diagnostic]:
    """Arrays `extern .shared` that somebody else declared and these functions use."""
    module = k.function.module
    own = [other.memory.dynamic for function in module.functions if (other := builder_of(function)) is not None]
    arrays = [
        global_value
        for global_value in module.global_values
        if _is_extern_shared(global_value) and global_value not in own
    ]
    for array in _mentioned(arrays, functions):
        advice = "attach with shared_base=, the bytes that the array takes; or make it with k.shared(...)"
        where = "an array of external linkage"
        yield _twice(k, k.memory.start, k.memory.end, array.get_reference(), where, advice)


def _twice(k: Builder, first: int, last: int, other: str, relation: str, advice: str) -> Diagnostic:
    return TWICE.diagnose(
        at=k.memory.first_shared,
        first=first,
        last=last - 1,
        function=k.name,
        other=other,
        relation=relation,
        advice=advice,
    )


def _is_extern_shared(value: object) -> bool:
    if not isinstance(value, ir.GlobalVariable) or value.type.addrspace != SHARED_SPACE:
        return False
    return value.initializer is None and value.linkage in ("", "external", "extern_weak")


def related(function: ir.Function) -> Iterator[tuple[ir.Function, str]]:
    """The functions that this one calls, and those that call it, directly or not."""
    defined = [other for other in function.module.functions if other.blocks]
    if len(defined) < 2:
        return
    taken = _taken(function.module)
    calls = {caller: _called(caller, taken) for caller in defined}
    callers = {callee: [caller for caller, called in calls.items() if callee in called] for callee in calls}
    yield from ((relative, "which it calls") for relative in _reached(function, calls))
    yield from ((relative, "which calls it") for relative in _reached(function, callers))


def _called(function: ir.Function, taken: Sequence[ir.Function]) -> list[ir.Function]:
    """The functions that this one calls; at an indirect call, all of that type whose addresses are `taken`."""
    callees: dict[ir.Function, None] = {}
    for block in function.blocks:
        for instr in block.instructions:
            if _is_call(instr):
                callees[instr.callee] = None
            elif _is_indirect(instr):
                arguments = [arg.type for arg in instr.args]
                callees.update(
                    dict.fromkeys(function for function in taken if list(function.function_type.args) == arguments)
                )
    return list(callees)


def _is_indirect(instr: ir.Instruction) -> bool:
    return isinstance(instr, ir.CallInstr) and not isinstance(instr.callee, ir.Function | ir.InlineAsm | NamedAsm)


def _taken(module: ir.Module) -> list[ir.Function]:
    """The functions whose address something other than a call takes."""
    named: dict[ir.Value, None] = {}
    for function in module.functions:
        for block in function.blocks:
            for instr in block.instructions:
                operands = instr.args if isinstance(instr, ir.CallInstr) else instr.operands
                named.update(dict.fromkeys(operands))
    held = [
        str(global_value.initializer)
        for global_value in module.global_values
        if getattr(global_value, "initializer", None) is not None
    ]
    return [
        function for function in module.functions if function in named or any(_names(text, function) for text in held)
    ]


def _is_call(instr: ir.Instruction) -> bool:
    return isinstance(instr, ir.CallInstr) and isinstance(instr.callee, ir.Function)


def _reached(start: ir.Function, calls: Mapping[ir.Function, Iterable[ir.Function]]) -> list[ir.Function]:
    reached: dict[ir.Function, None] = {}
    waiting = list(calls.get(start, ()))
    while waiting:
        function = waiting.pop()
        if function not in reached and function is not start:
            reached[function] = None
            waiting += calls.get(function, ())
    return list(reached)
