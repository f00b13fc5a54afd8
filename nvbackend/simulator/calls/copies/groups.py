"""commit_group, wait_group and wait_all of cp.async, bulk copies and wgmma. PTX ISA 9.7.9.25.3, 9.7.15.7."""

from __future__ import annotations

from nvbackend.simulator.calls.holding import held
from nvbackend.simulator.events import Sync
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.in_flight import Flights
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.wave import Step, Waiting, Wave
from nvbackend.simulator.sync.groups import Groups


def commit(kind: type[Groups]) -> Step:
    """The step that ends the open group of each lane."""

    def step(wave: Wave, lanes: Lanes) -> None:
        wave.part(kind).commit(lanes)

    return step


def wait(place: Compiling, kind: type[Groups], leave: int, *, read: bool = False, commits: bool = False) -> Step:
    """The step that holds each lane until all but its `leave` last groups are done; with `commits` it ends one first.

    With `read` it is enough that the sources were read: then nothing of the destinations is seen.
    """

    def step(wave: Wave, lanes: Lanes) -> Waiting | None:
        groups = wave.part(kind)
        if commits:
            groups.commit(lanes)

        def go_on(here: Lanes) -> None:
            for operation, threads in groups.leave(here, leave, read=read):
                wave.part(Flights).land(operation, threads)
                acquire = Sync(place.by(Lanes(threads)), operation)
                for observer in wave.observers:
                    observer.acquire(acquire)

        def reason(here: Lanes) -> str:
            waited = groups.awaited(here, leave, read=read)
            return f"{len(waited)} operations in flight, such as that of {waited[0].site}" if waited else "nothing"

        return held(lanes, lambda here: ~groups.blocked(here, leave, read=read), go_on, reason)

    return step
