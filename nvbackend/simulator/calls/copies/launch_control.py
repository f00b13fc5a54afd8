"""clusterlaunchcontrol: to ask for the work of a cluster that has not started. PTX ISA 9.7.13 (clusterlaunchcontrol).

The answer is the next cluster that has not started, or that there is none. It is 16 bytes, written by the async proxy:
the place of the cluster's first CTA along x, y and z, and 1; all zeros for none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.syntax import Instruction
from nvbackend.simulator.calls.copies.async_store import Sending
from nvbackend.simulator.calls.copies.engines import Side, in_cta
from nvbackend.simulator.events import Addresses, Bits, By, Site
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import WARP, Lanes
from nvbackend.simulator.machine.wave import Step, Wave
from nvbackend.simulator.rules import ASKED_AGAIN
from nvbackend.simulator.sync.mbarriers import Mbarriers

_ANSWER_BYTES = 16
_ASK = ("clusterlaunchcontrol", "try_cancel", "async", "mbarrier::complete_tx::bytes", "b128")
_ALL = "multicast::cluster::all"
_FIRST = {"get_first_ctaid::x": 0, "get_first_ctaid::y": 1, "get_first_ctaid::z": 2}


class _Refused:
    """The warps of a wave that have read an answer that no cluster is left."""

    def __init__(self, _wave: Wave) -> None:
        self._warps: set[int] = set()

    def note(self, threads: NDArray[np.int64]) -> None:
        self._warps.update((threads // WARP).tolist())

    def check(self, wave: Wave, threads: NDArray[np.int64], site: Site) -> None:
        """Raises simulator.asked-again where one of them asks."""
        for thread in threads.tolist():
            if thread // WARP in self._warps:
                ASKED_AGAIN.fail(at=site.location, thread=wave.thread_name(thread), line=site.line)


@dataclass(eq=False)
class Answering(Sending):
    """The answer to some threads on its way to their CTA, or to each CTA of their cluster."""

    def by(self) -> By:
        """The async proxy, for each of them."""
        return By(self.site, self.threads, operation=self, proxy="async", order="relaxed", scope="cluster")


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of clusterlaunchcontrol.try_cancel or query_cancel."""
    parts = instruction.parts
    if parts[1] == "query_cancel":
        return _query(instruction, place)
    if tuple(part for part in parts if part not in ("shared::cta", _ALL)) != _ASK:
        place.unknown(".".join(parts[1:]))
    target, barrier = (place.address(one) for one in instruction.operands)

    def step(wave: Wave, lanes: Lanes) -> None:
        wave.part(_Refused).check(wave, lanes.threads, place.site)
        count = wave.cluster_size if _ALL in parts else 1
        answers, barriers = (_in_each(count, one(wave, lanes)) for one in (target, barrier))
        threads = np.tile(lanes.threads, count)
        to = Side("shared::cluster" if _ALL in parts else "shared::cta", answers, _ANSWER_BYTES)
        given = np.tile(np.array([_taken(wave) for _ in lanes.threads], np.uint32), (count, 1)).view(np.uint8)
        answering = Answering(place.site, threads, parts[0], wave, to, given, barriers)
        by = answering.by()
        wave.part(Mbarriers).must_exist(by, wave.locate(by, to.space, answering.barriers))
        wave.start(answering)

    return step


def _taken(wave: Wave) -> tuple[int, int, int, int]:
    """The words of one answer."""
    cluster = wave.not_started.take()
    return (0, 0, 0, 0) if cluster is None else (*wave.first_cta_id(cluster), 1)


def _in_each(ctas: int, addresses: Addresses) -> Addresses:
    """The same offsets in each of several CTAs; for one, the addresses themselves."""
    if ctas == 1:
        return addresses
    return np.array([in_cta(address, rank) for rank in range(ctas) for address in addresses.tolist()], np.uint64)


def _query(instruction: Instruction, place: Compiling) -> Step:
    """What an answer says; the first CTA is given for zeros too, where PTX leaves it undefined."""
    _, _, asked, type, *rest = instruction.parts
    target, answer = instruction.operands
    read = place.read(answer, "b128")
    if (asked, type, rest) == ("is_canceled", "pred", ["b128"]):
        write = place.write(target, "pred")

        def is_canceled(wave: Wave, lanes: Lanes) -> None:
            canceled = np.logical_or.reduce(read(wave, lanes), axis=1)
            wave.part(_Refused).note(lanes.threads[~canceled])
            write(wave, lanes, canceled)

        return is_canceled
    if (asked, type, rest) == ("get_first_ctaid", "v4", ["b32", "b128"]):
        writes = place.writes(target, "b32")
        return lambda wave, lanes: writes(wave, lanes, _words(read(wave, lanes)))
    if asked not in _FIRST or (type, rest) != ("b32", ["b128"]):
        place.unknown(".".join(instruction.parts[2:]))
    write = place.write(target, "b32")
    return lambda wave, lanes: write(wave, lanes, _words(read(wave, lanes))[_FIRST[asked]])


def _words(answers: Bits) -> Bits:
    """(4, lanes) words of (lanes, 2) of 64 bits."""
    return np.ascontiguousarray(np.ascontiguousarray(answers).view(np.uint32).T)
