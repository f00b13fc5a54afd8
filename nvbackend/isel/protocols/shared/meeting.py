"""Where a barrier belongs that two accesses lack, and of whom it is."""

from __future__ import annotations

from nvbackend.intrinsics.row.semantics import WARP_SIZE, Scope
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.protocols.convergence.regions import divergence_of


def are_parted(function: MachineFunction, first: str, second: str) -> bool:
    """Whether some branch that parts threads decides about both blocks: who comes to one may not come to the other."""
    divergence = divergence_of(function)
    return divergence.is_parted(second, Scope.CTA) and any(
        first in divergence.region(each) for each in divergence.partings_of(second, Scope.CTA)
    )


def is_before(function: MachineFunction, first: MachineInstr, second: MachineInstr) -> bool:
    """Whether threads may come from the first instruction to the second, and never from the second to the first."""
    places = {
        id(each): (name, at) for name, block in function.blocks.items() for at, each in enumerate(block.instructions)
    }
    here, there = places.get(id(first)), places.get(id(second))
    if here is None or there is None:
        return False
    after, before = _after(function, here[0]), _after(function, there[0])
    if here[0] == there[0]:
        return here[1] < there[1] and here[0] not in after
    return there[0] in after and here[0] not in before


def _after(function: MachineFunction, block: str) -> set[str]:
    """The blocks to which threads may come from the end of a block."""
    reached: set[str] = set()
    left = list(function.blocks[block].successors)
    while left:
        if (each := left.pop()) not in reached:
            reached.add(each)
            left += function.blocks[each].successors
    return reached


def barrier_between(function: MachineFunction, first: str, second: str, between: str = "between the two") -> str:
    """The fix for accesses in these blocks: one of all threads never inside a branch by which only some come there."""
    divergence = divergence_of(function)
    partings = list(divergence.partings_of(second, Scope.CTA)) if divergence.is_parted(second, Scope.CTA) else []
    around = [each for each in partings if first in divergence.region(each)]
    narrow = [each for each in around if each.branch.uniform < Scope.WARP]
    if narrow:
        who = _sync_of(function, narrow[-1].block) if len(around) > len(narrow) else "k.barrier.sync()"
        return f"end the block of {narrow[-1].described()} {between}, put {who} there, and open it again"
    within = [each for each in partings if each not in around]
    here = f"before {within[-1].described()}" if within else between
    if around:
        sync = _sync_of(function, within[-1].block if within else second)
        return f"put {sync} {here}, a named barrier that counts the threads that come here"
    if within:
        return f"put k.barrier.sync() {here}, where all threads come"
    return f"put k.barrier.sync(), or a named barrier of the threads concerned, {here}"


def _sync_of(function: MachineFunction, block: str) -> str:
    """A named barrier of the threads that come to a block."""
    crew = function.blocks[block].crew
    threads = 0 if crew is None or crew.elected else crew.bits.bit_count()
    return f"k.barrier.sync(number, {threads if threads and not threads % WARP_SIZE else 'threads'})"
