"""What ptxas says of a line of PTX is placed at the user's line that emitted it, not at the call of compile()."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f16, f32, i32
from nvbackend.codegen.compiled import CompiledKernel
from nvbackend.codegen.ptxas_messages import diagnose
from nvbackend.codegen.user_lines import at_user_lines
from nvbackend.diagnostics import Diagnostic
from nvbackend.isel.machine.function import MachineFunction

SERIALISED = (
    "ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma "
    "instructions defining accumulator registers of a wgmma between start and end of the pipeline stage in the "
    "function 'two' in line {line}"
)
SOMEWHERE = (
    "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma "
    "instructions reading accumulator registers of a wgmma between start and end of the pipeline stage in the "
    "function 'two'"
)


@nvb.kernel("sm_90a", threads=128)
def two(k: nvb.KernelBuilder, out: nvb.Pointer[f32], n: i32) -> None:  # type: ignore[valid-type]
    narrow = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32))
    tile = k.shared_tile(narrow.smem_a(64))
    first, second = narrow.accumulator(), narrow.accumulator()
    with k.range(n), k.wgmma.group():
        narrow.accumulate(first, tile, tile)  # in the loop
    with k.wgmma.group():
        narrow.accumulate(second, tile, tile)  # after it
    out[k.thread_id()] = first[0] + second[0]


@pytest.fixture(scope="module")
def compiled() -> CompiledKernel:
    return two.compile(assemble=False)


def placed(kernel: CompiledKernel, log: str) -> Diagnostic:
    (found,) = at_user_lines(diagnose(log, kernel.ptx), kernel.ptx, kernel.machine)
    assert found.location is not None
    return found


def lines_with(kernel: CompiledKernel, text: str) -> list[int]:
    return [number for number, line in enumerate(kernel.ptx.splitlines(), start=1) if text in line]


def test_a_line_of_ptx_is_the_call_that_emitted_it(compiled: CompiledKernel) -> None:
    multiplies = lines_with(compiled, "wgmma.mma_async")
    assert len(multiplies) == 8, "four steps along K of each"
    said = [placed(compiled, SERIALISED.format(line=line)) for line in multiplies]
    sources = [one.location.source for one in said if one.location]
    assert (
        sources
        == ["narrow.accumulate(first, tile, tile)  # in the loop"] * 4
        + ["narrow.accumulate(second, tile, tile)  # after it"] * 4
    )
    assert {one.location.file for one in said if one.location} == {__file__}


def test_another_instruction_of_ours_is_found_too(compiled: CompiledKernel) -> None:
    last = lines_with(compiled, "wgmma.wait_group")[-1]
    place = placed(compiled, SERIALISED.format(line=last)).location
    assert place is not None
    assert place.source == "with k.wgmma.group():"


@pytest.mark.parametrize("log", [SOMEWHERE, *(SERIALISED.format(line=line) for line in (0, 1, 100_000))])
def test_a_remark_of_no_line_is_about_the_multiplies(compiled: CompiledKernel, log: str) -> None:
    found = placed(compiled, log)
    assert found.location is not None
    places = [found.location, *(place for _, place in found.notes if place)]
    assert [place.source[:32] for place in places] == [
        "narrow.accumulate(first, tile, t",
        "narrow.accumulate(second, tile, ",
    ]


def test_registers_that_cannot_suffice_are_told_at_the_users_line() -> None:
    def wide(k: nvb.KernelBuilder, out: nvb.Pointer[f32]) -> None:  # type: ignore[valid-type]
        mma = k.tiled_mma(nvb.wgmma.mma_async("m64n256k16", f16, f16, f32))
        a, b, acc = k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64)), mma.accumulator()
        with k.wgmma.group():
            mma.accumulate(acc, a, b)  # 128 accumulators in 64 registers
        out[k.thread_id()] = acc[0]

    with pytest.raises(DiagnosticError) as raised:
        nvb.kernel("sm_90a", threads=128, max_registers=64)(wide).compile()
    (found,) = raised.value.diagnostics
    assert found.rule_id == "machine.register-room"
    assert found.location is not None
    assert found.location.source.endswith("# 128 accumulators in 64 registers")


def test_what_the_machine_form_does_not_have_is_told_at_its_loc(compiled: CompiledKernel) -> None:
    """An instruction of arithmetic, which no instruction of the machine form is made with."""
    lines = compiled.ptx.splitlines()
    number = next(number for number, line in enumerate(lines, start=1) if re.match(r"\t\.loc\t1 [1-9]", line))
    bare = MachineFunction("two", compiled.target)
    (found,) = at_user_lines(diagnose(SERIALISED.format(line=number), compiled.ptx), compiled.ptx, bare)
    assert found.location is not None
    assert (found.location.file, found.location.line) == (__file__, int(lines[number - 1].split()[2]))
