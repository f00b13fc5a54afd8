"""The CTAs of the cluster that a multicast names."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.isel.flow.paths import cluster_size, wrong_mask
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED

MULTICAST_MASK = Rule(
    id="tma.multicast-mask",
    message="{instruction} goes to the CTAs of the mask {mask:#b}, in a cluster of {cluster}",
    fix="give a bit for each CTA that is to have it, by its rank: 1 to {most:#b}",
    why="CTAs outside the cluster are undefined behaviour; with an empty mask no barrier completes.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor, ctaMask), 9.7.16 (tcgen05.commit)",
)
_PAIR = 2


def check_multicast_masks(function: MachineFunction) -> Iterator[Diagnostic]:
    """tma.multicast-mask where a mask is known to name no CTA, or one past the cluster that the kernel has."""
    if function.attributes.get(ATTACHED):
        return
    cluster = cluster_size(function)
    for block in function.blocks.values():
        for instr in block.instructions:
            mask = wrong_mask(instr, cluster)
            if mask is None or instr.row is None:
                continue
            if cluster > 1 or instr.row.axes.get("cta_group") != _PAIR:  # else the missing pair is all that is wrong
                yield MULTICAST_MASK.diagnose(
                    at=instr.location, instruction=instr.row.ptx, mask=mask, cluster=cluster, most=(1 << cluster) - 1
                )
