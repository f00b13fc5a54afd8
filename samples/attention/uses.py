"""What the program takes the kernels for: heads of one length, sequences of various lengths, and operands in e4m3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import nvbackend as nvb
from nvbackend import f16
from samples.attention import forward, fp8, varlen
from samples.attention.choice import Form, candidates
from samples.flash_attention import by_numpy, problem_of
from samples.formats import doubles, stored
from samples.problem import Problem
from samples.program import e4m3_matrix

SEQUENCES = 5


@dataclass(frozen=True)
class Even:
    """Heads of as many rows each, a multiple of `unit`; `long` is the length that the choice is for, if not theirs."""

    depth: int = 128
    causal: bool = False
    share: int = 1
    element: nvb.ElementType = f16
    long: int | None = None
    unit: int = 1

    def candidates(self, rows: int) -> list[Form]:
        """Every form that can be chosen for sequences of so many rows; the first is the choice."""
        return candidates(self.depth, self.long or rows, causal=self.causal)

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


@dataclass(frozen=True)
class Fp8(Even):
    """Q, K and V in e4m3, and O in `element`."""

    scales: tuple[float, float, float] = (0.5, 0.75, 2.0)
    unit: int = fp8.GROUP

    def candidates(self, rows: int) -> list[Form]:  # noqa: ARG002 (long rows have the same ones)
        return fp8.candidates(self.depth, causal=self.causal)

    def kernel(self, chosen: Form) -> nvb.KernelDefinition:
        return fp8.kernel(chosen, **self.constants)

    def problem(self, chosen: Form, heads: int, rows: int) -> Problem:
        """A weight is off by up to 2^-4 of it, as e4m3 has 3 bits of fraction, and O by 0.03 of the largest value."""
        import numpy as np

        random = np.random.default_rng(heads + rows)
        counts = heads, *[heads // self.share] * 2
        made = [[*e4m3_matrix(random, count * rows, self.depth), (count, rows, self.depth)] for count in counts]
        (q, q64), (keys, k64), (values, v64) = ((a.reshape(shape), b.reshape(shape)) for a, b, shape in made)
        scaled = (one.astype(np.float64) * by for one, by in zip((q64, k64, v64), self.scales, strict=True))
        inputs = q, keys, np.ascontiguousarray(values.transpose(0, 2, 1)), np.zeros(1, np.int32)
        start = partial(fp8.launch, form=chosen, scales=self.scales, depth=self.depth, share=self.share)
        expected, output = by_numpy(*scaled, causal=self.causal), stored(np.full(q.shape, np.nan), self.element)
        return Problem(self.kernel(chosen), start, inputs, expected, output, 2**-4, element=self.element)

    def arguments(self, chosen: Form, arrays: tuple[Any, ...], multiprocessors: int) -> tuple[Any, ...]:
        options: dict[str, Any] = {"form": chosen, "scales": self.scales, "depth": self.depth, "share": self.share}
        return fp8.arguments(multiprocessors, *arrays, **options)
