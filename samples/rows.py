"""Softmax, layer norm and RMS norm of the rows of a matrix: a CTA reads its row once, and keeps it in registers.

Run it as it is: it builds and verifies a kernel, prints what was built, runs it on random rows (on a machine without a
GPU in the simulator), and compares the result with NumPy.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import f16, f32, i32, i64
from samples.problem import Problem
from samples.problem import main as solve

VALUES = 16  # elements that a thread has; of long rows, and of short ones in 16 bits, it has twice as many
EPSILON = 1e-5

Elements = Annotated[nvb.Pointer, lambda element: nvb.Pointer(element, align=16)]
Shared = Annotated[nvb.Pointer, lambda element: nvb.Pointer(element, const=True)]
Columns = Annotated[i32, nvb.Scalar(i32, minimum=8, multiple_of=8)]


def resident(threads: int, elements: int, element: nvb.ElementType) -> int:
    """CTAs that run at once: some load while others reduce. With more, their registers would spill."""
    most = 1024 if elements > VALUES or element.bits > 16 else 1536 if threads <= 256 else 2048
    return min(max(1, most // threads), 16)


kernel = nvb.kernel(
    "sm_80",
    threads=lambda threads: threads,
    min_ctas=resident,
    math=nvb.MathPolicy(contract=True, ftz=True, approx=True),
)


class Row:
    """The CTA's row. A thread has so many `elements` of it in vectors of 16 bytes, as far as the row goes."""

    def __init__(
        self, k: nvb.KernelBuilder, columns: nvb.Value, element: nvb.ElementType, threads: int, elements: int
    ) -> None:
        if k.target.number >= 90:  # CTAs of the next launch come as these leave, and wait for what these write
            k.griddepcontrol("launch_dependents")
            k.griddepcontrol("wait")
        self._k, self._columns, self._width = k, columns, 128 // element.bits
        self._begin = k.block_id().to(i64) * columns.to(i64)
        steps = range(elements // self._width)
        self._places = [(step * threads + k.thread_id()) * self._width for step in steps]

    def load(self, matrix: nvb.Address, otherwise: float = 0.0) -> list[nvb.Value]:
        """The thread's elements, with `otherwise` past the end of the row; the lines need not stay in L1."""
        vectors = [
            (matrix + self._begin + at).load(
                self._width, where=at < self._columns, otherwise=otherwise, evict="L1::no_allocate"
            )
            for at in self._places
        ]
        return [value.to(f32) for vector in vectors for value in vector]

    def store(
        self, matrix: nvb.Address, values: list[nvb.Value], finish: Callable[..., nvb.Value], *shared: nvb.Address
    ) -> None:
        """Write `finish` of each value and of what the `shared` rows have in its column: a vector at a time."""
        for at in self._places:
            inside = at < self._columns
            parts = [[one.to(f32) for one in (row + at).load(self._width, where=inside)] for row in shared]
            vector, values = values[: self._width], values[self._width :]
            results = [finish(*column).to(matrix.element) for column in zip(vector, *parts, strict=True)]
            (matrix + self._begin + at).store(*results, where=inside, evict="L1::no_allocate")

    def inside(self, values: Sequence[nvb.Value]) -> list[nvb.Value]:
        """The values, and 0 past the end of the row."""
        return [
            self._k.select(self._places[index // self._width] < self._columns, value, 0.0)
            for index, value in enumerate(values)
        ]

    def reduce(self, operation: str, values: Sequence[nvb.Value]) -> nvb.Value:
        """All values of the row combined, of every thread: pairs first, so that no long chain of sums waits."""
        combine = {"add": lambda a, b: a + b, "max": self._k.math.max}[operation]
        while len(values) > 1:
            values = [combine(a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
        return self._k.cta.reduce(operation, values[0])


@kernel
def softmax(
    k: nvb.KernelBuilder,
    x: Elements,
    y: Elements,
    columns: Columns,
    *,
    element: nvb.ElementType = f16,
    threads: int = 256,
    elements: int = VALUES,
) -> None:
    row = Row(k, columns, element, threads, elements)
    values = row.load(x, otherwise=-math.inf)
    most = row.reduce("max", values) * math.log2(math.e)
    powers = [k.math.exp2(value * math.log2(math.e) - most) for value in values]
    scale = 1.0 / row.reduce("add", powers)
    row.store(y, powers, lambda power: power * scale)


@kernel
def layer_norm(
    k: nvb.KernelBuilder,
    x: Elements,
    weight: Shared,
    bias: Shared,
    y: Elements,
    columns: Columns,
    *,
    element: nvb.ElementType = f16,
    threads: int = 256,
    elements: int = VALUES,
) -> None:
    row = Row(k, columns, element, threads, elements)
    values = row.load(x)
    count = columns.to(f32)
    mean = row.reduce("add", values) / count
    centred = row.inside([value - mean for value in values])
    scale = k.math.rsqrt(row.reduce("add", [value * value for value in centred]) / count + EPSILON)
    row.store(y, centred, lambda value, factor, offset: value * scale * factor + offset, weight, bias)


@kernel
def rms_norm(
    k: nvb.KernelBuilder,
    x: Elements,
    weight: Shared,
    y: Elements,
    columns: Columns,
    *,
    element: nvb.ElementType = f16,
    threads: int = 256,
    elements: int = VALUES,
) -> None:
    row = Row(k, columns, element, threads, elements)
    values = row.load(x)
    scale = k.math.rsqrt(row.reduce("add", [value * value for value in values]) / columns.to(f32) + EPSILON)
    row.store(y, values, lambda value, factor: value * scale * factor, weight)


def fitting(definition: nvb.KernelDefinition, columns: int, element: nvb.ElementType = f16) -> nvb.KernelDefinition:
    """The kernel for rows of `columns` elements: as many threads as have room for them."""
    few, many = (256 * VALUES, 512 * VALUES) if element.bits <= 16 else (0, 1024 * VALUES)
    elements = VALUES if few < columns <= many else 2 * VALUES
    return definition.with_(element=element, threads=-(-columns // (32 * elements)) * 32, elements=elements)


def launch(loaded: nvb.runtime.LoadedKernel, x: Any, *others: Any) -> None:
    """Start a kernel on X (rows x columns), its weights, and Y."""
    rows, columns = x.shape
    loaded.launch(rows, x, *others, columns)


KERNELS = {"softmax": softmax, "layer_norm": layer_norm, "rms_norm": rms_norm}


def problem(form: str, rows: int, columns: int) -> Problem:
    """Random rows in f16, and what NumPy makes of them in f64."""
    import numpy as np

    random = np.random.default_rng(rows + columns)
    x = (random.standard_normal((rows, columns)) * 2 + 1).astype(np.float16)
    weight, bias = (random.standard_normal(columns).astype(np.float16) for _ in range(2))
    weights = {"softmax": (), "layer_norm": (weight, bias), "rms_norm": (weight,)}[form]
    kernel = fitting(KERNELS[form], columns)
    return Problem(kernel, launch, (x, *weights), expected(form, x, *weights), np.full_like(x, np.nan), 2**-10)


def expected(form: str, x: Any, *weights: Any) -> Any:
    """The same in f64."""
    import numpy as np

    x, *factors = (one.astype(np.float64) for one in (x, *weights))
    if form == "softmax":
        powers = np.exp(x - x.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)
    centred = x - x.mean(1, keepdims=True) if form == "layer_norm" else x
    normal = centred / np.sqrt((centred**2).mean(1, keepdims=True) + EPSILON) * factors[0]
    return normal + factors[1] if form == "layer_norm" else normal


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="rows and columns",
        multiples=(1, 8),
        on_the_gpu=(8192, 8192),
        in_the_simulator=(5, 1000),
        forms=tuple(KERNELS),
    )


if __name__ == "__main__":
    sys.exit(main())
