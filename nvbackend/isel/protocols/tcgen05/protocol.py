"""What must hold over a whole function that uses tcgen05."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.flow.paths import cluster_size, is_for_each, rank_paths
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED

CTA_GROUPS_MIXED = Rule(
    id="tcgen05.cta-groups-mixed",
    message="{instruction} is of cta_group::{given} in a kernel whose {first} is of cta_group::{group}",
    fix="use one cta_group for every tcgen05 instruction of the kernel, allocation included",
    why="ptxas refuses the function: a CTA shares its tensor memory with its pair, or does not.",
    reference="PTX ISA 9.7.16.5 (issue granularity); ptxas 13.5",
)

PAIR_CLUSTER = Rule(
    id="tcgen05.pair-cluster",
    message="{instruction} is of cta_group::2 in a kernel that is launched in clusters of {cluster}",
    fix="declare a cluster of whole pairs where the kernel is made, cluster=2, or use cta_group 1",
    why="The two CTAs of a group are those of a cluster whose ranks differ in the last bit: no second CTA exists.",
    reference="PTX ISA 9.7.16.5 (issue granularity), CTA pair",
)
PAIR_ISSUE = Rule(
    id="tcgen05.pair-issue",
    message="{instruction} of cta_group::2 is issued by both CTAs of the pair of ranks {first} and {second}",
    fix="let one CTA of each pair issue it: with k.if_((k.cluster.rank() & 1) == 0), around the thread that issues",
    why="One thread of the pair starts it for both CTAs: a second thread starts it again while the first still runs.",
    reference="PTX ISA 9.7.16.5 (issue granularity: a single thread in the CTA pair)",
)
_PAIR = 2


def check_pairs(function: MachineFunction) -> Iterator[Diagnostic]:
    """The first instruction of a pair of CTAs in a kernel without pairs, or that both of a pair certainly issue."""
    groups = {group for instr in function.instructions() if (group := _group(instr)) is not None}
    if function.attributes.get(ATTACHED) or groups != {_PAIR}:
        return
    cluster = cluster_size(function)
    told = False
    for block in function.blocks.values():
        for instr in block.instructions:
            if _group(instr) != _PAIR or told:
                continue
            if cluster % _PAIR:
                told = True
                yield PAIR_CLUSTER.diagnose(at=instr.location, instruction=instr.opcode, cluster=cluster)
            elif _is_issued_once(instr) and (first := _issuing_pair(function, block.name)) is not None:
                told = True
                yield PAIR_ISSUE.diagnose(at=instr.location, instruction=instr.opcode, first=first, second=first + 1)


def _issuing_pair(function: MachineFunction, block: str) -> int | None:
    """The first rank of a pair of which both CTAs run the block; None where that is not certain of any."""
    paths = rank_paths(function)
    for first in range(0, len(paths), _PAIR):
        if all(is_for_each(path, block) for path in paths[first : first + _PAIR]):
            return first
    return None


def check_cta_groups(function: MachineFunction) -> Iterator[Diagnostic]:
    """Each tcgen05 instruction of another cta_group than the function's first one."""
    first: MachineInstr | None = None
    for instr in function.instructions():
        group = _group(instr)
        if group is None:
            continue
        if first is None:
            first = instr
        elif group != _group(first):
            yield CTA_GROUPS_MIXED.diagnose(
                at=instr.location,
                notes=((f"the first one, {first.opcode}", first.location),),
                instruction=instr.opcode,
                given=group,
                first=first.opcode,
                group=_group(first),
            )


def _is_issued_once(instr: MachineInstr) -> bool:
    """Whether one thread of a pair does it for both CTAs."""
    return instr.semantics.completion is Completion.COMMIT


def _group(instr: MachineInstr) -> int | None:
    return instr.semantics.cta_group
