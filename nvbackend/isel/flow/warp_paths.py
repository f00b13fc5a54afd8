"""The control flow as each warp of the CTA goes through it: branches over the thread's index are decided.

Where a part of a warp takes a branch, the warp goes through the branch and then on.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from nvbackend.intrinsics.row.hierarchy import WARP_SIZE
from nvbackend.isel.flow.finished import kept, with_successors
from nvbackend.isel.flow.graphs import reached
from nvbackend.isel.machine.function import MachineBlock, MachineFunction

THREADS = "threads"
_LANES = (1 << WARP_SIZE) - 1


def warp_paths(function: MachineFunction) -> Iterator[MachineFunction]:
    """The function with the successors that the warps of one class take, for each class; as it is where none is known.

    Blocks that such a warp never reaches stay, so that places in the text are the same in all of them.
    """
    threads = function.attributes.get(THREADS)
    decided = [block for block in function.blocks.values() if block.sides is not None and len(block.successors) > 1]
    if not isinstance(threads, int) or not decided:
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
    if block.sides is None or len(block.successors) < 2:
        return ((successor, 0) for successor in block.successors)
    return zip(block.successors, reversed(block.sides), strict=True)


def everyone(function: MachineFunction) -> int:
    """The threads of the CTA, a bit each; every bit where their number is not known."""
    threads = function.attributes.get(THREADS)
    return (1 << threads) - 1 if isinstance(threads, int) else -1


@kept
def coming(function: MachineFunction) -> dict[str, int]:
    """The threads that may come to each block, a bit each: those that no branch keeps from it."""
    found = dict.fromkeys(function.blocks, 0)
    found[function.entry.name] = everyone(function)
    waiting = [function.entry.name]
    while waiting:
        name = waiting.pop()
        for successor, others in ways(function.blocks[name]):
            more = found[name] & ~others & ~found[successor]
            if more:
                found[successor] |= more
                waiting.append(successor)
    return found


def reachable(function: MachineFunction, starts: Iterable[str], *, without: Container[str] = ()) -> set[str]:
    """The blocks that can be reached from `starts`, themselves included, not through the blocks `without`."""
    return reached(starts, lambda name: function.blocks[name].successors, without=without)
