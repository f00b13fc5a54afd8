"""Parameters that name a thread or a CTA: the kernel asks whether its place is the one that they give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir

from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.scenario.few_steps import registers

_PLACES = ("tid", "laneid", "warpid", "ctaid", "clusterid", "cluster_ctaid", "cluster_ctarank")
_CASTS = ("zext", "sext", "trunc")
_EQUAL = ("eq", "ne")


def naming_a_place(function: ir.Function, program: Program) -> frozenset[str]:
    """The parameters that places of threads are compared with for equality alone: other ones are sizes."""
    compared = list(_compared(function))
    if not any(is_equality for _, _, is_equality in compared):
        return frozenset()
    roots = registers(program, _PLACES)
    places: set[Any] = {*roots, *program.uses.derived_from(roots)}
    named: dict[bool, set[str]] = {False: set(), True: set()}
    for name, other, is_equality in compared:
        if other in places:
            named[is_equality].add(name)
    return frozenset(named[True] - named[False])


def _compared(function: ir.Function) -> Iterator[tuple[str, ir.Value, bool]]:
    """The parameters that are compared, with what, and whether for equality."""
    for one in (one for block in function.blocks for one in block.instructions if one.opname == "icmp"):
        for parameter, other in (one.operands, one.operands[::-1]):
            plain = _plain(parameter)
            if isinstance(plain, ir.Argument):
                yield str(plain.name), other, one.op in _EQUAL


def _plain(value: Any) -> Any:
    while isinstance(value, ir.Instruction) and value.opname in _CASTS:
        value = value.operands[0]
    return value
