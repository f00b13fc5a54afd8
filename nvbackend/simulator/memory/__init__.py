"""Memory as byte arrays: allocations with their extents, each CTA's and thread's own windows, generic addresses."""

from nvbackend.simulator.memory.allocations import Allocation, Heap, Misfit
from nvbackend.simulator.memory.failures import Failures, UnsetRegister, UnwrittenRead
from nvbackend.simulator.memory.memory import Memory
from nvbackend.simulator.memory.private import Private, Shape

__all__ = ["Allocation", "Failures", "Heap", "Memory", "Misfit", "Private", "Shape", "UnsetRegister", "UnwrittenRead"]
