"""The CTAs of the cluster that a multicast names."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction, MachineInstr

MULTICAST_MASK = Rule(
    id="tma.multicast-mask",
    message="{instruction} goes to the CTAs of the mask {mask:#b}, in a cluster of {cluster}",
    fix="give a bit for each CTA that is to have it, by its rank: 1 to {most:#b}",
    why="CTAs outside the cluster are undefined behaviour; with an empty mask no barrier completes.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor, ctaMask), 9.7.16 (tcgen05.commit)",
)
RULES = (MULTICAST_MASK,)
_PAIR = 2


def check_multicast_masks(function: MachineFunction) -> Iterator[Diagnostic]:
    """tma.multicast-mask where a mask is known to name no CTA, or one past the cluster that the kernel has."""
    cluster = function.attributes.get("cluster")
    if not isinstance(cluster, int) or function.attributes.get("attached"):
        return
    for block in function.blocks.values():
        for instr in block.instructions:
            if cluster == 1 and instr.row is not None and instr.row.axes.get("cta_group") == _PAIR:
                continue  # the missing pair is all that is wrong
            wrong = (mask for mask in _masks(instr) if not mask or mask >> cluster)
            mask = next(wrong, None)
            if mask is not None and instr.row is not None:
                yield MULTICAST_MASK.diagnose(
                    at=instr.location, instruction=instr.row.ptx, mask=mask, cluster=cluster, most=(1 << cluster) - 1
                )


def _masks(instr: MachineInstr) -> Iterator[int]:
    """The masks that certainly are given in some CTA: a constant, or those of CTAs that execute it by their ranks."""
    constant = instr.facts.get(facts.MASK)
    if constant is not None:
        yield constant
    elif instr.reach is not None and instr.row is not None and instr.row.has_operand(facts.MASK):
        by_rank = [*zip(instr.reach.masks, instr.reach.threads, strict=True)]
        yield from (mask for mask, threads in by_rank if mask is not None and (threads or len(set(by_rank)) == 1))
