"""What the program takes the kernels for: heads of one length, and sequences of various lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import nvbackend as nvb
from nvbackend import f16
from samples.attention import forward, varlen
from samples.attention.choice import Form
from samples.flash_attention import by_numpy, problem_of
from samples.formats import doubles, stored
from samples.problem import Problem

SEQUENCES = 5


@dataclass(frozen=True)
class Even:
    """Heads of as many rows each. `long` is the length that the choice is for, where that is not theirs."""

    depth: int = 128
    causal: bool = False
    share: int = 1
    element: nvb.ElementType = f16
    long: int | None = None

    @property
    def constants(self) -> Mapping[str, Any]:
        """What kernels are built with."""
        return {"depth": self.depth, "causal": self.causal, "share": self.share, "element": self.element}

    def kernel(self, chosen: Form) -> nvb.KernelDefinition:
        """The kernel of a form."""
        return forward.kernel(chosen, **self.constants)

    def problem(self, chosen: Form, heads: int, rows: int) -> Problem:
        """Random Q, K and V, and O in f64."""
        import numpy as np

        start = partial(forward.launch, depth=self.depth, share=self.share, consumers=chosen.consumers)
        one = problem_of(self.kernel(chosen), start, heads, rows, **self.constants)
        return replace(one, inputs=(*one.inputs, np.zeros(1, np.int32)))

    def arguments(self, chosen: Form, arrays: tuple[Any, ...], multiprocessors: int) -> tuple[Any, ...]:
        """The grid and the arguments of a launch on the problem's arrays."""
        q, keys, values, counter, o = arrays
        heads, rows, _ = q.shape
        return forward.grid(heads, rows, multiprocessors, chosen.consumers), q, keys, values, o, heads, rows, counter


@dataclass(frozen=True)
class Varlen(Even):
    """Sequences of random lengths, the second one empty; each has `cached` keys more than queries."""

    cached: int = 0

    def kernel(self, chosen: Form) -> nvb.KernelDefinition:
        return varlen.kernel(chosen, **self.constants)

    def sequences(self, rows: int) -> varlen.Sequences:
        """Those of so many rows."""
        import numpy as np

        starts = np.array([0, *np.sort(np.random.default_rng(rows).integers(0, rows + 1, SEQUENCES - 1)), rows])
        starts[2] = starts[1]
        return varlen.Sequences.of(starts, starts + self.cached * np.arange(SEQUENCES + 1))

    def problem(self, chosen: Form, heads: int, rows: int) -> Problem:
        import numpy as np

        sequences, random = self.sequences(rows), np.random.default_rng(heads + rows)
        places = sequences.places(chosen, causal=self.causal)
        ends = [sequences.starts, *[sequences.starts_of_keys] * 2]
        q, keys, values = (
            stored(random.standard_normal((count, of[-1], self.depth)), self.element)
            for count, of in zip((heads, *[heads // self.share] * 2), ends, strict=True)
        )
        start = partial(varlen.launch, sequences=sequences, form=chosen, depth=self.depth, share=self.share)
        parts = [np.split(doubles(a, self.element), of[1:-1], 1) for a, of in zip((q, keys, values), ends, strict=True)]
        expected = np.concatenate([by_numpy(*each, causal=self.causal) for each in zip(*parts, strict=True)], 1)
        output = stored(np.full(q.shape, np.nan), self.element)
        inputs = q, keys, values, places, np.zeros(1, np.int32)
        return Problem(self.kernel(chosen), start, inputs, expected, output, 2**-9, element=self.element)

    def arguments(self, chosen: Form, arrays: tuple[Any, ...], multiprocessors: int) -> tuple[Any, ...]:
        options: dict[str, Any] = {"form": chosen, "depth": self.depth, "share": self.share}
        sequences = self.sequences(arrays[0].shape[1])
        return varlen.arguments(multiprocessors, *arrays, sequences=sequences, **options)
