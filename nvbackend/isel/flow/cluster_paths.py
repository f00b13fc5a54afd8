"""The control flow as each CTA of a cluster goes through it: branches over the CTA's rank are decided."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.isel.flow.finished import kept, with_successors
from nvbackend.isel.flow.warp_paths import reachable
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineBlock, MachineFunction, MachineInstr, Scope

CLUSTER = "cluster"


def cluster_size(function: MachineFunction) -> int:
    """The CTAs of a cluster, 1 where that is not known."""
    size = function.attributes.get(CLUSTER)
    return size if isinstance(size, int) else 1


@kept
def coming_ranks(function: MachineFunction) -> dict[str, int]:
    """The CTAs of the cluster that may come to each block, a bit each: those that no branch keeps from it."""
    found = dict.fromkeys(function.blocks, 0)
    for rank, path in enumerate(rank_paths(function)):
        for block in reachable(path, [path.entry.name]):
            found[block] |= 1 << rank
    return found


@kept
def rank_paths(function: MachineFunction) -> list[MachineFunction]:
    """The function with the successors that the threads of each CTA take, by its rank."""
    decided = [block for block in function.blocks.values() if len(block.successors) > 1 and any(block.ranks)]
    if not decided:
        return [function] * cluster_size(function)
    return [
        with_successors(function, {block.name: _taken(block, rank) for block in decided})
        for rank in range(cluster_size(function))
    ]


def _taken(block: MachineBlock, rank: int) -> list[str]:
    holds, fails = (bits >> rank & 1 for bits in block.ranks)
    return block.successors[:1] if holds else block.successors[1:2] if fails else block.successors


def is_for_each(path: MachineFunction, name: str) -> bool:
    """Whether the block is run in the CTA that goes this way whenever it is in any CTA that goes so.

    A branch that CTAs may take differently does not depend on a thread's index, but on a value that one CTA alone has.
    """
    leading = {one for one, block in path.blocks.items() if _may_differ(block)} & reachable(path, [path.entry.name])
    return name in reachable(path, [path.entry.name]) and not any(
        name in reachable(path, path.blocks[one].successors) and _is_avoided(path, one, name) for one in leading
    )


def _may_differ(block: MachineBlock) -> bool:
    branch = block.branch
    if len(block.successors) < 2 or block.sides is not None:
        return False
    return branch is None or branch.uniform <= Scope.CTA


def is_avoided(path: MachineFunction, name: str) -> bool:
    """Whether some way through the kernel, as this CTA goes, does not come by the block."""
    return name != path.entry.name and _is_avoided(path, path.entry.name, name)


def _is_avoided(path: MachineFunction, start: str, name: str) -> bool:
    """Whether some way from `start` to an end of the kernel goes around the block."""
    around = reachable(path, path.blocks[start].successors, without=(name,))
    return any(not path.blocks[one].successors for one in around)


def wrong_mask(instr: MachineInstr, cluster: int) -> int | None:
    """A mask that it certainly is given, and that names no CTA or one past the cluster."""
    return next((mask for mask in _masks(instr) if not mask or mask >> cluster), None)


def _masks(instr: MachineInstr) -> Iterator[int]:
    """The masks that certainly are given in some CTA: a constant, or those of CTAs that execute it by their ranks."""
    constant = instr.facts.get(facts.MASK)
    if constant is not None:
        yield constant
    elif instr.reach is not None and instr.row is not None and instr.row.has_operand(facts.MASK):
        by_rank = [*zip(instr.reach.masks, instr.reach.threads, strict=True)]
        yield from (mask for mask, threads in by_rank if mask is not None and (threads or len(set(by_rank)) == 1))
