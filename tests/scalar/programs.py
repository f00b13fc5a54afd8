"""Random programs of variables, branches, loops, arrays and exchanges: emitted by the builder, and run by NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nvbackend.builder.kernel.kernel import FinishedKernel, KernelBuilder
from nvbackend.signature import Parameter, Pointer
from tests.scalar import numbers
from tests.scalar.numbers import Array
from tests.scalar.program_blocks import Blocks, emit_all, run_all
from tests.scalar.program_values import ELEMENTS, INPUTS, KINDS, THREADS, Machine, State
from tests.scalar.specials import random_bits


class Program:
    """A program, the numbers that it reads, and those that it leaves in memory."""

    def __init__(self, seed: int, size: int = 6, depth: int = 3) -> None:
        drawing = Blocks(seed)
        self.statements = [*drawing.block(size, depth, together=True), *drawing.block(size, depth, together=True)]
        self.elements, self.array_elements = drawing.elements, drawing.array_elements
        rng = np.random.default_rng(seed)
        self.bits = {element: [random_bits(rng, element, THREADS) for _ in range(INPUTS)] for element in KINDS}
        if rng.random() < 0.7:  # small numbers, which reach more branches
            for element, columns in self.bits.items():
                if element.is_integer:
                    columns[0] = rng.integers(0, 20, THREADS).astype(columns[0].dtype)

    @property
    def text(self) -> str:
        """The program, as Python would write it."""
        heads = [f"v{place}: {element}" for place, element in enumerate(self.elements)]
        return "\n".join([", ".join(heads), *(line for each in self.statements for line in each.lines)])

    def inputs(self) -> list[Array]:
        """An array for each type."""
        return [np.concatenate([numbers.from_bits(element, each) for each in self.bits[element]]) for element in KINDS]

    def outputs(self) -> list[Array]:
        """An array for each variable, and for each array of the threads, before."""
        return [np.zeros(THREADS, numbers.dtype(element)) for element in self.elements] + [
            np.zeros(THREADS * ELEMENTS, numbers.dtype(element)) for element in self.array_elements
        ]

    def expected(self) -> list[Array]:
        """What the outputs are afterwards."""
        state = State(
            {element: [numbers.from_bits(element, each) for each in columns] for element, columns in self.bits.items()},
            [np.zeros(THREADS, numbers.dtype(element)) for element in self.elements],
            [np.zeros((THREADS, ELEMENTS), numbers.dtype(element)) for element in self.array_elements],
        )
        for place, element in enumerate(self.elements):
            state.variables[place] = state.inputs[element][0].copy()
        with np.errstate(all="ignore"):
            run_all(self.statements, state, np.ones(THREADS, bool))
        return [*state.variables, *(each.ravel() for each in state.arrays)]

    def kernel(self, target: str = "sm_90a") -> FinishedKernel:
        """The program as a kernel of one CTA."""
        every = [*self.elements, *self.array_elements]
        k = KernelBuilder(
            "program",
            target,
            threads=THREADS,
            parameters=[
                *(Parameter(f"in_{element}", Pointer(element)) for element in KINDS),
                *(Parameter(f"out{place}", Pointer(element)) for place, element in enumerate(every)),
            ],
        )
        given = list(k.arguments)
        inputs, outputs = dict(zip(KINDS, given, strict=False)), given[len(KINDS) :]
        thread = k.thread_id()
        variables = [k.var(inputs[element][thread], name=f"v{place}") for place, element in enumerate(self.elements)]
        arrays = [k.local.array(element, ELEMENTS) for element in self.array_elements]
        for each, element in zip(arrays, self.array_elements, strict=True):
            for place in range(ELEMENTS):
                each[place] = k.const(0, element)
        shared = {element: k.shared(element, THREADS) for element in dict.fromkeys(self.elements)}
        machine = Machine(k, inputs, variables, arrays, shared)
        emit_all(self.statements, machine)
        for place, variable in enumerate(machine.variables):
            outputs[place][thread] = variable.value
        for array, output in zip(arrays, outputs[len(variables) :], strict=True):
            for place in range(ELEMENTS):
                output[thread * ELEMENTS + place] = array[place]
        return k.finish()

    def differences(self, results: Sequence[Array]) -> list[str]:
        """The outputs that are not NumPy's, with the first thread of each."""
        found = []
        every = [*self.elements, *self.array_elements]
        for number, (element, got, wanted) in enumerate(zip(every, results, self.expected(), strict=True)):
            equal = numbers.same(element, got, wanted)
            if not equal.all():
                row = int(np.argmin(equal))
                found.append(f"output {number} ({element}) at {row}: {got[row]!r}, expected {wanted[row]!r}")
        return found
