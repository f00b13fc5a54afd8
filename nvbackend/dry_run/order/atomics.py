"""Atomics and strong loads that decide branches: warps may wait for one another by them, in ways that no step shows."""

from __future__ import annotations

from nvbackend.dry_run.seam import Step


class Atomics:
    """By CTA and warp, the memory of its atomics, None for global memory, and of those that it decides by.

    Memory of all CTAs of a cluster counts as one.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[int, int], set[int | None]] = {}
        self._decided: dict[tuple[int, int], set[int | None]] = {}

    def note(self, step: Step) -> None:
        """A warp executes an atomic, or another strong access. A load tells others nothing."""
        place = step.instr.memory[0].object if step.instr.memory else None
        memory = None if place is None else place.id if place.twin is None else place.twin
        changes = step.instr.row is None or any(one.writes for one in step.instr.semantics.memory)
        for where in (self._made,) * changes + (self._decided,) * step.decides:
            where.setdefault((step.cta, step.warps[0]), set()).add(memory)

    def decides(self, warp: tuple[int, int]) -> bool:
        """Whether a warp decides anything by an atomic: its lanes may wait for one another, or for others."""
        return bool(self._decided.get(warp))

    def may_order(self, *warps: tuple[int, int]) -> bool:
        """Whether one of the warps decides by atomics of what the other, or any other, changes by atomics too."""
        for one in warps if self._decided else ():
            others = [other for other in (warps if len(warps) > 1 else self._made) if other != one]
            if any(self._decided.get(one, set()) & self._made.get(other, set()) for other in others):
                return True
        return False
