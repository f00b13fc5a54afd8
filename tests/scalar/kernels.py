"""A kernel of many expressions, and where its results differ from NumPy's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nvbackend.builder.kernel.kernel import FinishedKernel, KernelBuilder
from nvbackend.codegen.llvm import compile_ir
from nvbackend.intrinsics.row.types import ElementType, pred, s4, s8, s64, u4, u8, u64
from nvbackend.signature import Parameter, Pointer
from tests.scalar import numbers
from tests.scalar.expressions import ROWS, Expressions, Node, described, emitted
from tests.support.host import HostKernel

_PAIR_BYTES = 16


@dataclass(frozen=True)
class Batch:
    """Pairs of expressions of one type in a kernel, and the memory that they read."""

    kernel: FinishedKernel
    pairs: Sequence[tuple[Node, Node]]
    words: numbers.Array

    @property
    def results(self) -> numbers.Array:
        """Memory for the results: 16 bytes for each pair and row."""
        return np.zeros(len(self.pairs) * ROWS * _PAIR_BYTES, np.uint8)

    def differences(self, results: numbers.Array) -> list[str]:
        """The expressions whose results are not NumPy's, with the first row of each."""
        found = []
        table = results.reshape(len(self.pairs), ROWS, _PAIR_BYTES)
        for place, pair in enumerate(self.pairs):
            kind = numbers.dtype(pair[0].element)
            for part, node in enumerate(pair):
                start = part * kind.itemsize
                got = np.ascontiguousarray(table[place, :, start : start + kind.itemsize]).view(kind)[:, 0]
                equal = numbers.same(node.element, got, node.rows)
                if not equal.all():
                    row = int(np.argmin(equal))
                    found.append(f"got {got[row]!r}, expected {described(node, row)}")
        return found


def batch(seed: int, count: int, depth: int, target: str = "sm_90a", *, plain: bool = False) -> Batch:
    """`count` random expressions in a kernel that writes them as vectors of two; `plain` as of Expressions."""
    drawn = Expressions(seed, target, plain=plain)
    with np.errstate(all="ignore"):
        pairs = []
        for number in range(count // 2):
            first = drawn.any(1 + number % depth)
            pairs.append((first, drawn.of(first.element, 1 + number % depth)))
    return Batch(_kernel(pairs, target), pairs, drawn.words)


def _kernel(pairs: Sequence[tuple[Node, Node]], target: str) -> FinishedKernel:
    parameters = [Parameter("words", Pointer(u64, align=16)), Parameter("out", Pointer(u64, align=16))]
    k = KernelBuilder("scalars", target, threads=ROWS, parameters=parameters)
    words, out = k.arguments
    row = k.thread_id().to(s64)
    memory: Any = (k, words, row)
    values: dict[int, Any] = {}
    for place, pair in enumerate(pairs):
        at = out + (row + place * ROWS) * 2
        stored = [_storable(emitted(node, memory, values), node.element) for node in pair]
        at.cast(stored[0].type).store(*stored)
    return k.finish()


def _storable(value: Any, element: ElementType) -> Any:
    if element in (pred, s4, u4):
        return value.to(s8 if element is s4 else u8)
    return value.bitcast(u8) if element.bits < u8.bits else value


def host_results(given: Batch) -> numbers.Array:
    """What the optimised kernel makes on this machine: what LLVM has concluded for NVPTX is in it."""
    results = given.results
    optimised = compile_ir(given.kernel.ir, given.kernel.target).optimized_ir
    HostKernel(given.kernel, optimised)(given.words, results, threads=ROWS)
    return results


def gpu_results(given: Batch) -> numbers.Array:
    """What the kernel makes on a GPU of sm_90, whose driver assembles what LLVM printed for an older chip."""
    from numba import cuda

    from nvbackend import runtime

    out = cuda.to_device(given.results.view(np.uint64))
    kernel = runtime.load(given.kernel.compile(assemble=given.kernel.target.number == 90))
    kernel.launch(1, cuda.to_device(given.words), out)
    kernel.synchronize()
    return np.asarray(out.copy_to_host()).view(np.uint8)
