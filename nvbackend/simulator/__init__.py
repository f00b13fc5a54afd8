"""Runs PTX text without a GPU: the same launch, the same arrays, and checks that the hardware does not make."""

from nvbackend.simulator.machine.specials import multiprocessors
from nvbackend.simulator.report.report import Report
from nvbackend.simulator.simulator import SimulatedModule, Simulator
from nvbackend.simulator.stepping import SteppedLaunch

__all__ = ["Report", "SimulatedModule", "Simulator", "SteppedLaunch", "multiprocessors"]
