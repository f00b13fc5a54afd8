"""What verifying a kernel costs: its part of the way from Python to PTX, and how it grows with the kernel.

    PYTHONPATH=. python benchmarks/verification.py [--repeats N]

The kernel is a chain of loops, each with loads, waits and multiplies; at 1x, 4x and 16x it has that many of them. All
sizes are measured in turns in one process, and the least of each is taken. Prints the figures and ratios, and fails
where verification is a tenth of the way to PTX or more, or grows faster than the kernel.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import Any

import nvbackend as nvb
from nvbackend import f16, f32, i32
from nvbackend.builder.definition import KernelDefinition
from nvbackend.builder.kernel import FinishedKernel, KernelBuilder
from nvbackend.isel.verify import verify
from samples import hopper_gemm

SIZES = (1, 4, 16)
LOOPS = 4
"""Loops of the kernel of size 1."""
MOST_OF_THE_WAY = 0.1
MOST_GROWTH = 1.5
"""How much more than linearly the time may grow: caches, and the part that does not depend on the size."""
MATRIX = nvb.TensorMap(f16, box=(64, 64))


@nvb.kernel("sm_90a", threads=128)
def chain(k: KernelBuilder, a: MATRIX, b: MATRIX, c: nvb.Pointer(f32), steps: i32, *, loops: int = LOOPS) -> None:
    """`loops` products one after another, each summed in a loop of its own and stored."""
    mma = k.tiled_mma(nvb.wgmma("m64n64k16", f16, f16, f32))
    tile_a, tile_b = k.shared_tile(mma.smem_a(64), name="a"), k.shared_tile(mma.smem_b(64), name="b")
    full = k.mbarriers(1, arrivals=1, name="full")
    k.barriers_ready()
    phase, acc = k.var(0, name="phase"), mma.accumulator()
    for product in range(loops):
        acc.clear()
        with k.range(steps) as step:
            with k.one_thread():
                k.mbarrier_arrive_expect_tx(full, tile_a.layout.bytes + tile_b.layout.bytes)
                k.tma_load(tile_a, a, (product * 64, step * 64), full)
                k.tma_load(tile_b, b, (product * 64, step * 64), full)
            k.mbarrier_wait(full, phase)
            with k.wgmma():
                mma.accumulate(acc, tile_a, tile_b)
            k.barrier()
            phase.set(phase ^ 1)
        with k.if_(k.thread_id() < steps):
            c[k.thread_id() + product * 128] = acc[0]


@dataclass
class Measured:
    """The least seconds so far of building and verifying a kernel, and of its way through LLVM to PTX."""

    name: str
    instructions: int
    verified: float = float("inf")
    to_ptx: float = float("inf")

    def again(self, finished: FinishedKernel, *, to_ptx: bool) -> None:
        """Measure once more."""
        start = time.perf_counter()
        found = verify(finished.machine)
        self.verified = min(self.verified, time.perf_counter() - start)
        assert not found, [str(one) for one in found]
        if to_ptx:
            timings = finished.compile(cache=nvb.Cache.disabled(), assemble=False).timings
            self.to_ptx = min(self.to_ptx, sum(timings[stage] for stage in ("build", "verify", "optimise", "print")))


def measure(repeats: int) -> list[Measured]:
    """The sample and the chain in every size, in turns."""
    builds: list[tuple[str, KernelDefinition, dict[str, Any]]] = [("hopper_gemm", hopper_gemm.gemm, {})]
    builds += [(f"chain {size}x", chain, {"loops": LOOPS * size}) for size in SIZES]
    found: list[Measured] = []
    for turn in range(repeats):
        for place, (name, definition, constants) in enumerate(builds):
            finished = definition.build(**constants)
            if turn == 0:
                found.append(Measured(name, len(list(finished.machine.instructions()))))
            found[place].again(finished, to_ptx=turn < 3)
    return found


def main() -> int:
    """Print the table; 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    measured = measure(parser.parse_args().repeats)
    print(f"{'kernel':<14}{'instructions':>13}{'verify, ms':>12}{'to PTX, ms':>12}{'part':>8}{'us/instr':>10}")
    kept = True
    for one in measured:
        part, each = one.verified / one.to_ptx, one.verified / one.instructions
        kept &= part < MOST_OF_THE_WAY
        print(
            f"{one.name:<14}{one.instructions:13}{one.verified * 1e3:12.2f}{one.to_ptx * 1e3:12.1f}"
            f"{part:8.3f}{each * 1e6:10.2f}"
        )
    first, *others = measured[1:]
    for one in others:
        size, growth = one.instructions / first.instructions, one.verified / first.verified
        kept &= growth < MOST_GROWTH * size
        print(f"{one.name}: {size:.1f} times the instructions, {growth:.1f} times the time")
    print("kept" if kept else f"NOT KEPT: under {MOST_OF_THE_WAY} of the way, {MOST_GROWTH} times linear")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
