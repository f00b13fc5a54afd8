"""All that a run of the protocols holds: its warps, barriers, groups, memory, and what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nvbackend.dry_run.findings import Findings
from nvbackend.dry_run.objects.barriers import Barrier
from nvbackend.dry_run.objects.groups import Groups, Issued
from nvbackend.dry_run.objects.mbarriers import Arrival, Invalidated, Mbarrier, Place, Wait
from nvbackend.dry_run.order.atomics import Atomics
from nvbackend.dry_run.order.events import Events, Warp
from nvbackend.dry_run.order.extents import Extents
from nvbackend.dry_run.order.footprints import Footprints, far_from
from nvbackend.dry_run.order.memory import Conflict, Left, Memory
from nvbackend.dry_run.seam import RANK_SHIFT, Launch, Step
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.intrinsics.sync.register_budget import REGISTER_COUNTS, THREAD_REGISTERS, launch_share


class State:
    """The state of one run."""

    def __init__(self, launch: Launch, conflict: Conflict, told: Left) -> None:
        self.launch = launch
        self.events = Events(launch.ctas)
        self.findings = Findings(self.events)
        self.atomics = Atomics()
        self.footprints = Footprints(launch.cluster)
        self.memory = Memory(launch.ctas, Extents(launch), conflict, told)
        self.warps = {
            (cta, index): Warp(cta, index, self.events, self.memory.flush, lanes=launch.lanes(index))
            for cta in range(launch.ctas)
            for index in range(launch.warps)
        }
        self.mbarriers: dict[Place, Mbarrier] = {}
        self.invalidated: dict[Place, Invalidated] = {}
        self.waits: dict[tuple[int, int], dict[Place, Wait]] = {key: {} for key in self.warps}
        self.passed: Counter[tuple[tuple[int, int], Place]] = Counter()
        """How many waits of a warp for an mbarrier have passed."""
        self.guards: dict[tuple[int, int], Wait] = {}
        """The last wait of each warp."""
        self.asked: set[tuple[int, int, Place]] = set()
        """The warps that polled a phase, each with its mbarrier, and have not seen that phase over since."""
        self.is_relaxed = False
        """Whether some arrival tells nothing of what came before it."""
        self.barriers: dict[tuple[int, int], Barrier] = {}
        self.clusters: dict[int, Barrier] = {}
        self.groups: dict[tuple[int, int, Completion], Groups] = {}
        self.tensor_issued = {key: Issued() for key in self.warps}
        """The tcgen05 operations that each warp has issued, of the kind that commits track."""
        self.tensor_commits = dict.fromkeys(self.warps, 0)
        """The events of the arrivals of a warp's commits, in their order; what it does next may come before them."""
        self.exits = [0] * launch.ctas
        """What the warps of a CTA that have ended knew at their end."""
        share = launch_share(launch.threads)
        if launch.registers is not None:
            most = launch.registers if launch.registers < THREAD_REGISTERS[-1] else REGISTER_COUNTS[-1]
            share = min(share, most)
        self.registers = {(cta, group): share for cta in range(launch.ctas) for group in range(-(-launch.warps // 4))}
        left = launch_share(launch.threads) - share
        self.pools = [left * -(-launch.warps // 4)] * launch.ctas
        """Registers that are left in each CTA's pool, in units of a warpgroup's threads."""

    def warp(self, step: Step) -> Warp:
        """The first warp of a step."""
        return self.warps[step.cta, step.warps[0]]

    def warps_of(self, step: Step) -> Iterator[Warp]:
        """All warps of a step."""
        return (self.warps[step.cta, index] for index in step.warps)

    def groups_of(self, warp: Warp, kind: Completion) -> Groups:
        """The groups of one kind of a warp."""
        key = warp.cta, warp.index, kind
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = Groups()
        return found

    def cluster_of(self, cta: int) -> int:
        """The first CTA of the cluster of a CTA."""
        return cta - cta % self.launch.cluster

    def place(self, step: Step, address: int) -> Place:
        """The CTA and offset of an address of shared memory, as the CTA of the step sees it.

        An address beyond all CTAs of the cluster is one of the own CTA, far from what it has.
        """
        first, rank = self.cluster_of(step.cta), address >> RANK_SHIFT
        if rank >= self.launch.cluster:
            return step.cta, far_from(step.cta - first, address)
        return first + rank, address & ((1 << RANK_SHIFT) - 1)

    def of_cta(self, cta: int) -> str:
        """ " of CTA 1", where there are several."""
        return f" of CTA {cta}" if self.launch.ctas > 1 else ""

    def named(self, barrier: Mbarrier, cta: int = -1) -> str:
        """The name of an mbarrier, with its CTA where this is not `cta`, and there are several."""
        return barrier.name if barrier.place[0] == cta else f"{barrier.name}{self.of_cta(barrier.place[0])}"

    def overtaken(self, barrier: Mbarrier) -> tuple[tuple[int, int], Wait, list[Arrival]] | None:
        """A wait for the phase before the one that has just ended: its warp, and who came without waiting for it.

        A parity tells a phase from the next one alone: a warp that looks later waits for the phase after that.
        """
        if self.is_relaxed:
            return None
        over = barrier.phase - 1
        for who, waits in self.waits.items():
            wait = waits.get(barrier.place)
            if wait is None or wait.guaranteed != over or not wait.event or wait.event & barrier.known[over][0]:
                continue
            came = [one for one in barrier.ended[over] if (one.cta, one.warp) != who]
            if wait.barrier is barrier and came:
                return who, wait, came
        return None

    def alive(self, cta: int) -> int:
        """How many warps of a CTA have not ended."""
        return sum(not self.warps[cta, index].ended for index in range(self.launch.warps))
