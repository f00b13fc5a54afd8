"""The control flow as each warp of the CTA and each CTA of a cluster goes through it.

Branches over the thread's index, or the CTA's rank, are decided. Where a part of a warp takes a branch, the warp goes
through the branch and then on.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace

from nvbackend.intrinsics.row.semantics import WARP_SIZE, Scope
from nvbackend.isel.flow.finished import finished, kept, with_blocks, with_successors
from nvbackend.isel.flow.graphs import reached
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineBlock, MachineFunction, MachineInstr

_THREADS = "threads"
_LANES = (1 << WARP_SIZE) - 1


def warp_paths(function: MachineFunction) -> Iterator[MachineFunction]:
    """The function with the successors that the warps of one class take, for each class; as it is where none is known.

    Blocks that such a warp never reaches stay, so that places in the text are the same in all of them.
    """
    threads = thread_count(function)
    decided = [block for block in function.blocks.values() if block.sides is not None and len(block.successors) > 1]
    if not threads or not decided:
        yield function
        return
    seen: set[tuple[tuple[str, ...], ...]] = set()
    both = {block.name: _of_a_part(function, block) for block in decided}
    for warp in range(-(-threads // WARP_SIZE)):
        lanes = _LANES << warp * WARP_SIZE & (1 << threads) - 1
        taken = tuple([_taken(block, lanes, both[block.name]) for block in decided])
        if taken not in seen:
            seen.add(taken)
            yield with_successors(function, {block.name: [*ways] for block, ways in zip(decided, taken, strict=True)})


def _taken(block: MachineBlock, lanes: int, both: tuple[str, ...]) -> tuple[str, ...]:
    """The successors that a warp with these lanes takes, `both` where its threads go either way."""
    assert block.sides is not None
    first, second = block.sides
    if not lanes & ~first:
        return (block.successors[0],)
    if not lanes & ~second:
        return (block.successors[1],)
    return both


def _of_a_part(function: MachineFunction, block: MachineBlock) -> tuple[str, ...]:
    """The successors of a warp of which a part takes the first: that alone if it leads to the other."""
    arm, rest = block.successors
    return (arm,) if rest in reachable(function, [arm], without=(block.name,)) else (arm, rest)


def ways(block: MachineBlock) -> Iterator[tuple[str, int]]:
    """The successors of `block`, each with the threads, a bit each, that certainly go another way."""
    sides = block.sides
    if sides is None and block.branch is not None and block.branch.formula is not None:
        sides = block.branch.formula.threads({}, -1)
    if sides is None or len(block.successors) < 2:
        return ((successor, 0) for successor in block.successors)
    (first, second), (holds, fails) = block.successors, sides
    return iter([(first, fails), (second, holds)])


def thread_count(function: MachineFunction) -> int:
    """The threads of the CTA; 0 where that is not known, which it is wherever run-time values are."""
    threads = function.attributes.get(_THREADS)
    return threads if isinstance(threads, int) else 0


def everyone(function: MachineFunction) -> int:
    """The threads of the CTA, a bit each; every bit where their number is not known."""
    return (1 << thread_count(function)) - 1 or -1


@kept
def coming(function: MachineFunction) -> dict[str, int]:
    """The threads that may come to each block, a bit each: those that no branch keeps from it."""
    coming = dict.fromkeys(function.blocks, 0)
    coming[function.entry.name] = everyone(function)
    waiting = [function.entry.name]
    while waiting:
        name = waiting.pop()
        for successor, others in ways(function.blocks[name]):
            come = coming[successor] | coming[name] & ~others
            if come != coming[successor]:
                coming[successor] = come
                waiting.append(successor)
    return coming


def unreached(function: MachineFunction) -> set[str]:
    """The blocks to which certainly no thread comes, such as guarded passes of a loop that Python has unrolled."""
    threads, ranks = coming(function), coming_ranks(function)
    return {name for name in function.blocks if not threads[name] or not ranks[name]}


def without_unreached(function: MachineFunction, nowhere: set[str]) -> MachineFunction:
    """The function as threads may run it: the blocks `nowhere` are empty, and nothing goes on there."""
    if not nowhere:
        return function
    blocks = {}
    for name, block in function.blocks.items():
        following = [each for each in block.successors if each not in nowhere]
        if name in nowhere:
            blocks[name] = MachineBlock(name)
        elif len(following) < len(block.successors):
            blocks[name] = replace(block, successors=following, branch=None, sides=None, ranks=(0, 0))
    return finished(with_blocks(function, blocks))


def reachable(function: MachineFunction, starts: Iterable[str], *, without: Container[str] = ()) -> set[str]:
    """The blocks that can be reached from `starts`, themselves included, not through the blocks `without`."""
    return reached(starts, lambda name: function.blocks[name].successors, without=without)


CLUSTER = "cluster"


def cluster_size(function: MachineFunction) -> int:
    """The CTAs of a cluster, 1 where that is not known."""
    size = function.attributes.get(CLUSTER)
    return size if isinstance(size, int) else 1


@kept
def coming_ranks(function: MachineFunction) -> dict[str, int]:
    """The CTAs of the cluster that may come to each block, a bit each: those that no branch keeps from it."""
    coming = dict.fromkeys(function.blocks, 0)
    for rank, path in enumerate(rank_paths(function)):
        for block in reachable(path, [path.entry.name]):
            coming[block] |= 1 << rank
    return coming


@kept
def rank_paths(function: MachineFunction) -> list[MachineFunction]:
    """The function with the successors that the threads of each CTA take, by its rank."""
    decided = [block for block in function.blocks.values() if len(block.successors) > 1 and any(block.ranks)]
    if not decided:
        return [function] * cluster_size(function)
    return [
        with_successors(function, {block.name: _taken_by(block, rank) for block in decided})
        for rank in range(cluster_size(function))
    ]


def _taken_by(block: MachineBlock, rank: int) -> list[str]:
    holds, fails = (bits >> rank & 1 for bits in block.ranks)
    return block.successors[:1] if holds else block.successors[1:2] if fails else block.successors


def is_for_each(path: MachineFunction, name: str) -> bool:
    """Whether the block is run in the CTA that goes this way whenever it is in any CTA that goes so.

    A branch that CTAs may take differently does not depend on a thread's index, but on a value that one CTA alone has.
    """
    leading = {leader for leader, block in path.blocks.items() if _may_differ(block)} & reachable(
        path, [path.entry.name]
    )
    return name in reachable(path, [path.entry.name]) and not any(
        name in reachable(path, path.blocks[leader].successors) and _is_avoided(path, leader, name)
        for leader in leading
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
    return any(not path.blocks[inside].successors for inside in around)


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
