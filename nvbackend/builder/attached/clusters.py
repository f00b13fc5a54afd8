"""Whether an attached kernel must be launched in clusters: its instructions, its owner's, those of its callees."""

from __future__ import annotations

import re
from typing import cast

from llvmlite import ir

from nvbackend.builder.attached.asm_text import Unreadable, read_asm
from nvbackend.builder.attached.core import AttachedCore, Owned
from nvbackend.builder.kernel.owners import Builder, builder_of, related
from nvbackend.intrinsics.copy import async_store
from nvbackend.isel.machine.clusters import needs_cluster

_UNREAD = r"\b(st|red)\.async\b|\.shared::cluster\.shared::cta\b"
"""What is taken for one in a text that is not read: a cluster of one CTA does no harm."""


def stops_without_cluster(k: Owned) -> bool:
    """Whether the kernel, or a function that it calls, has an instruction that stops a kernel without a cluster.

    The owner's code counts as it is written, also where it is guarded, or in a function that has no builder.
    """
    functions = [k.function, *(function for function, _ in related(k.function))]  # nothing calls a kernel
    return any(_has_one(function, builder_of(function)) for function in functions)


def _has_one(function: ir.Function, k: Builder | None) -> bool:
    core = cast("AttachedCore", k.core) if k is not None and k.core.attached is not None else None
    if core is not None and needs_cluster(core.machine):
        return True
    emitted = set() if core is None else core.following.emitted
    calls = (each for block in function.blocks for each in block.instructions if isinstance(each, ir.CallInstr))
    return any(_is_one(call) for call in calls if call not in emitted)


def _is_one(call: ir.CallInstr) -> bool:
    """Whether it is inline assembly with such an instruction, or LLVM's intrinsic for one."""
    callee = call.callee
    if not isinstance(callee, ir.InlineAsm):
        return str(getattr(callee, "name", "")) == async_store.CLUSTER_COPY
    text = str(callee.asm)
    if "async" not in text:
        return False
    try:
        read = read_asm(callee, call.args)
    except Unreadable:
        return re.search(_UNREAD, text) is not None
    return any(async_store.stops_without_cluster(instruction.parts) for instruction in read.instructions)
