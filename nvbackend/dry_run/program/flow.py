"""Where lanes of a warp that diverge at a branch reconverge."""

from __future__ import annotations

from collections.abc import Sequence

from nvbackend.isel.flow.graphs import ControlFlow, reached
from nvbackend.isel.machine.function import MachineFunction


def meetings(machine: MachineFunction, names: Sequence[str]) -> list[str | None]:
    """The immediate post-dominator of each block of `names`, by the ways that lead to the kernel's last end.

    Lanes that leave the kernel earlier never meet the others, which do not wait for them.
    """
    successors = {name: machine.blocks[name].successors for name in names}
    ends = [name for name in names if not successors[name]]
    if not ends:
        return [None] * len(names)
    before: dict[str, list[str]] = {name: [] for name in names}
    for name, following in successors.items():
        for one in following:
            before[one].append(name)
    alive = reached([ends[-1]], before.__getitem__)
    pruned = {
        name: [one for one in following if one in alive] if name in alive else following
        for name, following in successors.items()
    }
    found = ControlFlow(pruned).meeting
    return [found.get(name) for name in names]
