"""What no GEMM exceeds under the power cap: the same products as a GEMM's, of operands that stay where they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import nvbackend as nvb
from benchmarks.tables import gemm, other_types
from benchmarks.tables.other_types import Product
from benchmarks.tables.table import OURS, Case, Measured, Part, Row, Table, ratio, size, us
from nvbackend import e4m3, f16, f32, i32, tf32, u32
from samples.gemm.wide import overlap

CONSUMERS, STAGES, LINE = 2, 4, 128
"""Warpgroups with 64 rows each, the steps whose operands a CTA has, and bytes of a row that a step multiplies."""
ROWS, THREADS = 64 * CONSUMERS, 128 * (1 + CONSUMERS)
REGISTERS = 4
"""Of a fragment of A: pairs of f16 that a thread has (PTX ISA 9.7.15.5.1, A)."""
ALONE = "products alone"


def map_of_a(operand: nvb.ElementType) -> nvb.TensorMap:
    return nvb.TensorMap(operand, box=(ROWS, 8 * LINE // operand.bits))


def map_of_b(operand: nvb.ElementType, columns: int) -> nvb.TensorMap:
    return nvb.TensorMap(operand, box=(columns, 8 * LINE // operand.bits))


A = Annotated[nvb.TensorMap, map_of_a]
B = Annotated[nvb.TensorMap, map_of_b]


@nvb.kernel("sm_90a", threads=THREADS, min_ctas=1)
def products(
    k: nvb.KernelBuilder,
    a: A,
    b: B,
    words: nvb.Pointer[u32],
    c: nvb.Pointer[f32],
    rounds: i32,
    *,
    operand: nvb.ElementType = f16,
    columns: int = 256,
    in_registers: bool = False,
) -> None:
    """Multiply STAGES steps of A and B that were loaded once, so many times; each thread stores a sum of its sums.

    `in_registers`, A is in registers: four fragments of f16, from `words`.
    """
    depth, instruction = 8 * LINE // operand.bits, f"m64n{columns}k{256 // operand.bits}"
    mma = k.tiled_mma(
        nvb.wgmma.mma_async(instruction, operand, operand, f32, a_in_registers=in_registers), (CONSUMERS, 1)
    )
    b_tiles = k.shared_tiles(mma.smem_b(depth), STAGES, name="b_tiles")
    a_tiles = None if in_registers else k.shared_tiles(mma.smem_a(depth), STAGES, name="a_tiles")
    full = k.mbarrier.array(1, arrivals=1, name="full")
    k.mbarrier.ready()
    with k.producer(registers=40):
        overlap(k)
        k.mbarrier.arrive(full, expect_tx=STAGES * LINE * (columns + (0 if in_registers else ROWS)))
        for stage in range(STAGES):
            k.tma.load(b_tiles.at(stage), b, (0, stage * depth), full)
            if a_tiles is not None:
                k.tma.load(a_tiles.at(stage), a, (0, stage * depth), full)
    with k.consumers(registers=232) as warpgroup:
        acc = mma.accumulator()
        acc.clear()
        k.griddepcontrol("wait")
        own = words + (warpgroup * 128 + k.thread_id() % 128) * (LINE // 32 * REGISTERS)
        fours = [(own + REGISTERS * each).load(REGISTERS) for each in range(LINE // 32 if in_registers else 0)]
        fragments = [k.wgmma.fragment(four, f16) for four in fours]
        k.mbarrier.wait(full, 0)
        with k.range(rounds):
            for stage in range(STAGES):
                with k.wgmma.group(in_flight=1):
                    if a_tiles is None:
                        mma.accumulate(acc, mma.make_fragment_A(fragments), b_tiles.at(stage))
                    else:
                        mma.accumulate(acc, a_tiles.at(stage), b_tiles.at(stage), warpgroup)
        k.wgmma.wait_group(0, drains=[acc])
        values = acc.values()
        (c + (k.block_id() * THREADS + k.thread_id())).store(sum(values[1:], values[0]))


@dataclass(frozen=True)
class Same:
    """As many products as those of M x N x K, by CTAs that the chip runs at once."""

    shape: tuple[int, int, int]
    operand: nvb.ElementType = f16
    columns: int = 256
    in_registers: bool = False

    @property
    def kernel(self) -> nvb.KernelDefinition:
        return products.with_(operand=self.operand, columns=self.columns, in_registers=self.in_registers)

    def launch_of(self, multiprocessors: int) -> tuple[int, int]:
        """The grid, and the rounds of a CTA: of those that are as few as possible, no more CTAs than they need."""
        rounds = math.prod(self.shape) / (ROWS * self.columns * (8 * LINE // self.operand.bits) * STAGES)
        each = math.ceil(rounds / multiprocessors)
        return math.ceil(rounds / each), each


def with_products_alone(base: Part, same: Same) -> Part:
    """The part, and beside it the products alone, of the same operands."""

    def make(*loaded: nvb.runtime.LoadedKernel) -> Case:
        import torch

        *others, alone = loaded
        case = base.make(*others)
        grid, rounds = same.launch_of(alone.device.limits.multiprocessors)
        depth = 8 * LINE // same.operand.bits * STAGES
        few = Product(ROWS, same.columns, depth, same.operand, f32)
        a, b = (other_types.operand_of(few, rows) for rows in (few.m, few.n))
        operands = (array.view(torch.uint8) if same.operand is e4m3 else array for array in (a, b))
        numbers = torch.randint(-8, 8, (ROWS * LINE // 2,), device="cuda").to(torch.float16)
        words = (numbers * torch.rand_like(numbers)).view(torch.uint32)
        sums = torch.empty(grid * THREADS, device="cuda")
        prepared = (grid, *operands, words, sums, rounds)
        launch = lambda _, stream: alone.prepare(*prepared, stream=stream).run()  # noqa: E731
        return replace(case, ways={**case.ways, ALONE: launch})

    return Part((*base.kernels, same.kernel), make)


def bounds() -> Table:
    """Products alone, beside a GEMM of so many."""
    cube = (8192, 8192, 8192)
    few = (128, 8192, 8192)
    parts = {
        ("f16", size(*cube)): (gemm.part(*cube)[1], Same(cube)),
        ("tf32", size(*cube)): (other_types.part(Product(*cube, tf32, f32)), Same(cube, tf32)),
        ("e4m3", size(*cube)): (other_types.part(Product(*cube, e4m3, f16)), Same(cube, e4m3)),
        ("W4A16", size(*few)): (other_types.part_of_4_bits(few), Same(few, columns=128, in_registers=True)),
    }
    rows = [Row(names, (with_products_alone(*both),)) for names, both in parts.items()]
    columns = ("type", "M x N x K", "PyTorch", "nvbackend", ALONE, "PyTorch / nvbackend", "PyTorch / alone", "spread")
    return Table("What the power cap leaves", columns, rows, cells)


def cells(row: Row, every: Sequence[Measured]) -> list[str]:
    """All times, and both ratios."""
    took = every[0].took
    theirs = {"f16": gemm.THEIRS, "W4A16": other_types.IN_F16}.get(row.names[0], other_types.THEIRS)
    times = [us(took[name]) for name in (theirs, OURS, ALONE)]
    return [*times, *(ratio(took[theirs] / took[name]) for name in (OURS, ALONE))]
