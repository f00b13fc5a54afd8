"""Clusters that are taken over: each CTA of a cluster that asks for itself gets a cluster of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.scenario.few_steps import given_by, registers

_RANKS = ("cluster_ctarank", "cluster_ctaid")
_SUMS, _INDEX = ("add", "or"), "getelementptr"
_CASTS = ("zext", "sext", "trunc", "bitcast")


def takes_its_own_part(function: ir.Function, program: Program) -> bool:
    """Whether a CTA does the work of its own rank alone, in the cluster that it is answered.

    Not where it adds anything else to the answer, goes on from its own part to another one, or looks into the memory of
    its peers, which may have theirs there.
    """
    recorded = [part.recorded.instr for block in program.blocks for part in block.parts if part.recorded is not None]
    if any(instr.semantics.in_peer and instr.semantics.memory for instr in recorded):
        return False
    answers = given_by(program, lambda row: row.family == "launch_control" and "ctaid" in str(row.axes.get("query")))
    ranks = registers(program, _RANKS)
    answered, ranked = ({*each, *program.uses.derived_from(each)} for each in (answers, ranks))
    alone = answered - ranked
    uses = [one for block in function.blocks for one in block.instructions if not alone.isdisjoint(one.operands)]
    met = [one for one in uses if one.opname in _SUMS or not ranked.isdisjoint(one.operands)]
    if not met or any(one.opname not in _SUMS for one in met) or any(one.opname == _INDEX for one in uses):
        return False
    own = all(_is_plain(other, ranks) for one in met for other in one.operands if other not in alone)
    return own and not _goes_on(program, met)


def _goes_on(program: Program, sums: Sequence[ir.Value]) -> bool:
    """Whether a variable is set to what is computed from one of `sums`: it may be the part of another rank."""
    after = set(program.uses.derived_from(sums))
    held = (store.operands[0] for stores in program.uses.stores.values() for store in stores)
    return any(isinstance(one.type, ir.IntType) and one in after and not _is_plain(one, sums) for one in held)


def _is_plain(one: Any, known: Sequence[ir.Value]) -> bool:
    """Whether it is one of the `known`, in a type of its own, and no number that is computed from it."""
    while isinstance(one, ir.Instruction) and one.opname in _CASTS and one not in known:
        one = one.operands[0]
    return one in known
