"""Parameters that name a thread or a CTA: the kernel asks whether its place is the one that they give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir

from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.scenario.few_steps import derived_from, registers

_PLACES = ("tid", "laneid", "warpid", "ctaid", "clusterid", "cluster_ctaid", "cluster_ctarank")
_CASTS = ("zext", "sext", "trunc")
_EQUAL = ("eq", "ne")


def naming_a_place(function: ir.Function, program: Program) -> frozenset[str]:
    """The parameters that places of threads are compared with for equality alone: other ones are sizes."""
    roots = registers(program, _PLACES)
    places: set[Any] = {*roots, *derived_from(function, roots)}
    compared: dict[bool, set[str]] = {False: set(), True: set()}
    for one in _comparisons(function):
        for parameter, other in (one.operands, one.operands[::-1]):
            plain = _plain(parameter)
            if isinstance(plain, ir.Argument) and other in places:
                compared[one.op in _EQUAL].add(str(plain.name))
    return frozenset(compared[True] - compared[False])


def _comparisons(function: ir.Function) -> Iterator[ir.Instruction]:
    return (one for block in function.blocks for one in block.instructions if one.opname == "icmp")


def _plain(value: Any) -> Any:
    while isinstance(value, ir.Instruction) and value.opname in _CASTS:
        value = value.operands[0]
    return value
