"""The observers that a wave has by default."""

from __future__ import annotations

from nvbackend.simulator.checks.barrier_bytes import BarrierBytes
from nvbackend.simulator.checks.late_waits import CrowdedBarriers, MissedCounts
from nvbackend.simulator.checks.lifetimes import Lifetimes
from nvbackend.simulator.checks.other_writes import OtherWrites
from nvbackend.simulator.checks.races import Races
from nvbackend.simulator.checks.tensor_order import TensorOrder
from nvbackend.simulator.events import Observer
from nvbackend.simulator.machine.wave import Wave


def watchers(wave: Wave) -> list[Observer]:
    """New observers for one wave."""
    # The first four look at the clocks before the races move them on.
    early: list[Observer] = [BarrierBytes(wave), Lifetimes(wave), MissedCounts(wave), CrowdedBarriers(wave)]
    return [*early, Races(wave), TensorOrder(wave), OtherWrites(wave)]
