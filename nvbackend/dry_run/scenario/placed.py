"""Parameters that name a thread or a CTA: the kernel asks whether its place is the one that they give."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.scenario.few_steps import derived_from, registers

_PLACES = ("tid", "laneid", "warpid", "ctaid", "clusterid", "cluster_ctaid", "cluster_ctarank")
_CASTS = ("zext", "sext", "trunc")


def naming_a_place(function: ir.Function, program: Program) -> frozenset[str]:
    """The parameters that are compared with a place of threads for equality, and so are no sizes."""
    roots = registers(program, _PLACES)
    places: set[Any] = {*roots, *derived_from(function, roots)}
    equal = [
        one.operands
        for block in function.blocks
        for one in block.instructions
        if one.opname == "icmp" and one.op in ("eq", "ne")
    ]
    named = {(_plain(a), b) for left, right in equal for a, b in ((left, right), (right, left))}
    return frozenset(str(one.name) for one, other in named if isinstance(one, ir.Argument) and other in places)


def _plain(value: Any) -> Any:
    while isinstance(value, ir.Instruction) and value.opname in _CASTS:
        value = value.operands[0]
    return value
