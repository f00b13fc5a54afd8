"""Kernels that are right on their own chip, on any other, and with one mistake in them."""

from __future__ import annotations

from nvbackend.builder.kernel.definition import KernelDefinition
from tests.corpus import attention, copies, rings, shared, tensor_memory
from tests.mutations.mutation import Mutation
from tests.rules.registry import mutations
from tests.support.random_kernels.writer import Writer

KERNELS = [
    one
    for module in (rings, attention, shared, copies, tensor_memory)
    for one in vars(module).values()
    if isinstance(one, KernelDefinition)
]
MISTAKES = (Mutation, *mutations())


def write(w: Writer, name: str) -> None:
    """One of the corpus as it is or with a mistake, on its own target or another."""
    definition = w.rng.choice(KERNELS)
    mistake = w.rng.choice(MISTAKES) if w.chance(0.5) else Mutation
    builder = type("Mutated", (mistake,), {"changed": False, "calls": {}, "__module__": mistake.__module__})
    if w.chance(0.6):
        w.target = definition.target
    w.trace.append(f"{definition.__name__} with {mistake.__name__}")
    w.k = w.call(
        builder,
        name,
        w.target,
        threads=definition.threads,
        cluster=definition.cluster,
        min_ctas=definition.min_ctas,
        max_registers=definition.max_registers,
        parameters=w.call(builder.parameters_of, definition.parameters()) or (),
    )
    if w.k is not None:
        w.call(definition._function, w.k, *w.k.arguments)
