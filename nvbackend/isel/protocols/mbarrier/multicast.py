"""Bytes that a multicast brings to CTAs of the cluster whose code announces none on their mbarrier."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nvbackend.diagnostics import Diagnostic
from nvbackend.isel import facts
from nvbackend.isel.flow.cluster_paths import cluster_size, coming_ranks
from nvbackend.isel.machine import MachineFunction
from nvbackend.isel.protocols.mbarrier import rules
from nvbackend.isel.protocols.mbarrier.uses import Role, Use, find_uses


def check_multicast_bytes(function: MachineFunction) -> Iterator[Diagnostic]:
    """Each multicast to a CTA that certainly never announces bytes on the barrier, once for each barrier."""
    if cluster_size(function) < 2:
        return
    uses, coming = find_uses(function), coming_ranks(function)
    if uses.lost & Role.EXPECT:
        return
    told = set()
    for use in uses.all:
        mask = use.fact(facts.MASK)
        if mask is None or not use.role & Role.COMPLETE or use.is_remote or not coming[use.site.block]:
            continue
        expects = () if use.cell.object in uses.escaped else uses.of(use.cell, Role.EXPECT)
        rank = _first(mask & ~_announcing(expects, coming) & (1 << cluster_size(function)) - 1)
        if expects and rank is not None and use.cell not in told and not any(one.is_remote for one in expects):
            told.add(use.cell)
            notes = tuple(("bytes are announced here", one.site.instr.location) for one in expects[:1])
            yield rules.UNEXPECTED_IN_PEER.diagnose(
                at=use.site.instr.location,
                notes=notes,
                instruction=use.site.instr.opcode,
                rank=rank,
                barrier=use.cell,
            )


def _announcing(expects: Iterable[Use], coming: dict[str, int]) -> int:
    """The CTAs that may come to one of them, a bit each."""
    found = 0
    for use in expects:
        found |= coming[use.site.block]
    return found


def _first(ranks: int) -> int | None:
    return (ranks & -ranks).bit_length() - 1 if ranks else None
