"""The lines of the PTX against its syntax tree: every instruction has the place of the last `.loc` before it."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32
from nvbackend.codegen.looking.listings import counts_by_line, ptx_lines
from nvbackend.ptx.syntax import Instruction, Loc, flattened

Matrix = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(64, 64))]


@nvb.kernel("sm_90a", threads=256)
def multiplied(k: nvb.KernelBuilder, a: Matrix, b: Matrix, steps: i32, out: nvb.Pointer[f32]) -> None:
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    ring = k.pipeline(2, consumers=1, a=mma.smem_a(64), b=mma.smem_b(64))
    k.mbarrier.ready()
    with k.if_(k.warpgroup_id() == 0), k.one_thread(), k.range(steps) as step, ring.fill() as stage:
        k.tma.load(stage.a, a, (0, step * 64), stage.full)
        k.tma.load(stage.b, b, (0, step * 64), stage.full)
    with k.else_():
        acc = mma.accumulator()
        with k.range(steps), ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
            mma.accumulate(acc, stage.a, stage.b)
        k.wgmma.wait_group(0, drains=[acc])
        out[k.thread_id()] = acc[0]


@pytest.fixture(scope="module")
def compiled() -> nvb.CompiledKernel:
    return multiplied.compile(assemble=False)


def places_of_instructions(ptx: str) -> list[tuple[str, int]]:
    """The opcode of each instruction and the line of the last `.loc` before it, by the parser."""
    (function,) = (each for each in nvb.ptx.parse(ptx).functions if each.name == "multiplied")
    found, here = [], 0
    for statement in flattened([function.body] if function.body else ()):
        if isinstance(statement, Loc):
            here = statement.line
        elif isinstance(statement, Instruction):
            found.append((statement.opcode, here))
    return found


def test_each_instruction_of_the_ptx_is_at_its_line(compiled: nvb.CompiledKernel) -> None:
    """Those of multi-line assembly too, and those after its last brace."""
    parsed = places_of_instructions(compiled.ptx)
    multiplies = {line for opcode, line in parsed if opcode.startswith("wgmma.mma_async")}
    listed = {line.place[1] if line.place else 0 for line in ptx_lines(compiled) if "wgmma.mma_async" in line.text}
    assert listed == multiplies
    counted = {place[1]: of_line["ptx"] for place, of_line in counts_by_line(compiled, ("ptx",)).items()}
    assert counted == Counter(line for _, line in parsed if line)
