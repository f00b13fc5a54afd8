"""What verifying a kernel costs: its part of the way from Python to PTX, and how it grows with the kernel.

    PYTHONPATH=. python benchmarks/verification.py [--repeats N]

The kernels are the samples, which represent wgmma, tcgen05, and mma.sync with and without scale factors; a chain of
loops, each with loads, waits and multiplies; and a row of mbarriers that are each used alone. The last two come in the
sizes 1x, 4x and 16x. All kernels are measured in turns in one process, and the least time of each is taken, in seconds
of processor time. Verification is `verify` and, before it, which threads each branch keeps together (`uniformity`).

Prints the figures and ratios, protocol by protocol (work that several protocols share counts for the first one). Fails
if verification is a tenth of the time to PTX or more, or if it or one of its parts grows faster than the kernel.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar
from unittest import mock

import nvbackend as nvb
from nvbackend import f16, f32, i32, verify
from nvbackend.builder.core import core
from nvbackend.builder.value_tracking import uniformity
from nvbackend.isel.flow.finished import finished
from nvbackend.isel.verify.verify import PROTOCOLS
from samples import ada_gemm, ampere_gemm, blackwell_gemm, consumer_blackwell_gemm, hopper_gemm, turing_gemm

SIZES = (1, 4, 16)
LOOPS, BARRIERS = 4, 64
"""Loops, and mbarriers, of the kernels of size 1."""
SAMPLES = (hopper_gemm, blackwell_gemm, consumer_blackwell_gemm, ada_gemm, ampere_gemm, turing_gemm)
MOST_OF_THE_WAY = 0.1
MOST_GROWTH = 1.5
"""How much more than linearly the time may grow: caches, and states that hold more until they are full."""
LEAST_PART = 0.02
"""Of verifying the longest kernel; what takes less is not measured well enough to be judged by its growth."""
UNIFORMITY, VERIFY = "uniformity", "verify"
CHAIN, ROW = "chain", "row"
Result = TypeVar("Result")
MATRIX = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(64, 64))]


@nvb.kernel("sm_90a", threads=128)
def chain(k: nvb.KernelBuilder, a: MATRIX, b: MATRIX, c: nvb.Pointer[f32], steps: i32, *, loops: int = LOOPS) -> None:
    """`loops` products one after another, each summed in a loop of its own and stored."""
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    tile_a, tile_b = k.shared_tile(mma.smem_a(64), name="a"), k.shared_tile(mma.smem_b(64), name="b")
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    phase, acc = k.var(0, name="phase"), mma.accumulator()
    for product in range(loops):
        acc.clear()
        with k.range(steps) as step:
            with k.one_thread():
                k.mbarrier.arrive(full, expect_tx=tile_a.layout.bytes + tile_b.layout.bytes)
                k.tma.load(tile_a, a, (product * 64, step * 64), full)
                k.tma.load(tile_b, b, (product * 64, step * 64), full)
            k.mbarrier.wait(full, phase)
            with k.wgmma.group():
                mma.accumulate(acc, tile_a, tile_b)
            k.barrier.sync()
            phase.set(phase ^ 1)
        with k.if_(k.thread_id() < steps):
            c[k.thread_id() + product * 128] = acc[0]


@nvb.kernel("sm_90a", threads=128)
def row(k: nvb.KernelBuilder, c: nvb.Pointer[f32], *, barriers: int = BARRIERS) -> None:
    """`barriers` mbarriers, each waited for by itself, in a branch of its own."""
    cells = k.mbarrier.array(barriers, arrivals=1, name="cells")
    k.mbarrier.ready()
    for index in range(barriers):
        with k.one_thread():
            k.mbarrier.arrive(cells + index)
        k.mbarrier.wait(cells + index, 0)
    c[k.thread_id()] = 0.0


@dataclass
class Measured:
    """The least seconds so far of each part of verifying a kernel, and of its way from Python to PTX."""

    name: str
    instructions: int = 0
    parts: dict[str, float] = field(default_factory=dict)
    to_ptx: float = float("inf")

    @property
    def verified(self) -> float:
        """All that verification costs."""
        return self.parts[UNIFORMITY] + self.parts[VERIFY]

    def timed(self, part: str, call: Callable[..., Result], *arguments: object) -> Result:
        """What `call` returns; its seconds count as those of `part`."""
        start = time.process_time()
        result = call(*arguments)
        self.parts[part] = min(self.parts.get(part, float("inf")), time.process_time() - start)
        return result

    def again(self, definition: nvb.KernelDefinition, constants: dict[str, Any], *, to_ptx: bool) -> None:
        """Measure once more."""
        branches = uniformity.branches
        start = time.process_time()
        with mock.patch.object(core, "branches", lambda *given: self.timed(UNIFORMITY, branches, *given)):
            built = definition.build(check=False, **constants)
        seconds = time.process_time() - start
        self.instructions = len(list(built.machine.instructions()))
        found = self.timed(VERIFY, verify, built.machine)
        assert not found, [str(one) for one in found]
        machine = finished(built.machine)
        for protocol in PROTOCOLS:
            self.timed(protocol.__name__.removeprefix("check_"), lambda: list(protocol(machine)))  # noqa: B023
        if to_ptx:
            start = time.process_time()
            built.compile(cache=nvb.Cache.disabled(), assemble=False)
            self.to_ptx = min(self.to_ptx, seconds + time.process_time() - start)


def measure(repeats: int) -> list[Measured]:
    """The samples, and the chain and the row in every size, in turns."""
    builds: list[tuple[Measured, nvb.KernelDefinition, dict[str, Any]]] = [
        (Measured(sample.__name__.rpartition(".")[2].removesuffix("_gemm")), sample.gemm, {}) for sample in SAMPLES
    ]
    builds += [(Measured(f"{CHAIN} {size}x"), chain, {"loops": LOOPS * size}) for size in SIZES]
    builds += [(Measured(f"{ROW} {size}x"), row, {"barriers": BARRIERS * size}) for size in SIZES]
    gc.disable()  # its time depends on what else the process holds
    for turn in range(repeats):
        for measured, definition, constants in builds:
            measured.again(definition, constants, to_ptx=turn < 3)
            gc.collect()
    return [measured for measured, _, _ in builds]


def print_ways(measured: list[Measured]) -> bool:
    """What part of the way to PTX verification is, for each kernel; whether that is as promised."""
    print(f"{'kernel':<20}{'instructions':>13}{'verify, ms':>12}{'to PTX, ms':>12}{'part':>8}{'us/instr':>10}")
    for one in measured:
        part, each = one.verified / one.to_ptx, one.verified / one.instructions
        print(
            f"{one.name:<20}{one.instructions:13}{one.verified * 1e3:12.2f}{one.to_ptx * 1e3:12.1f}"
            f"{part:8.3f}{each * 1e6:10.2f}"
        )
    return all(one.verified < MOST_OF_THE_WAY * one.to_ptx for one in measured)


def print_parts(measured: list[Measured]) -> None:
    """The milliseconds of each part for each kernel."""
    print(f"\n{'ms':<20}" + "".join(f"{one.name[:10]:>11}" for one in measured))
    for part in measured[0].parts:
        print(f"{part:<20}" + "".join(f"{one.parts[part] * 1e3:11.2f}" for one in measured))
    print(f"{'all':<20}" + "".join(f"{one.verified * 1e3:11.2f}" for one in measured))


def print_growth(grown: list[Measured]) -> bool:
    """How the parts grow from the first of the kernels to the last, against the text; whether that is as promised."""
    first, last = grown[0], grown[-1]
    size = last.instructions / first.instructions
    ratios = {
        part: last.parts[part] / first.parts[part]
        for part in first.parts
        if last.parts[part] > LEAST_PART * last.verified
    }
    ratios["all"] = last.verified / first.verified
    print(f"\n{first.name} to {last.name}: {size:.1f} times the instructions, and of the time of each part")
    print(", ".join(f"{part} {ratio:.1f}" for part, ratio in ratios.items()))
    return all(ratio < MOST_GROWTH * size for ratio in ratios.values())


def main() -> int:
    """Print the tables; 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    measured = measure(parser.parse_args().repeats)
    kept = [print_ways(measured)]
    print_parts(measured)
    kept += [print_growth([one for one in measured if one.name.startswith(name)]) for name in (CHAIN, ROW)]
    print("kept" if all(kept) else f"NOT KEPT: under {MOST_OF_THE_WAY} of the way, {MOST_GROWTH} times linear")
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
