"""SASS, where a disassembler is there."""

from __future__ import annotations

import pytest

from nvbackend.codegen.ptxas import assemble
from nvbackend.codegen.sass import count_instructions, disassemble
from nvbackend.codegen.toolchain import Tool, locate
from nvbackend.diagnostics import DiagnosticError
from nvbackend.isel.target.target import Target
from tests.support.wgmma_ptx import COMMIT, FENCE, WAIT, kernel, mma

HOPPER = Target.parse("sm_90a")
CHAIN = 3
PTX = kernel(FENCE + mma() * CHAIN + COMMIT + WAIT + "@q bar.sync 1;\n")


@pytest.mark.parametrize("name", ["nvdisasm", "cuobjdump"])
def test_a_wgmma_chain_is_as_many_hgmma(name: str) -> None:
    path = locate(name)
    assert path is not None
    sass = disassemble(assemble(PTX, HOPPER).data, tool=Tool.at(path))
    counts = count_instructions(sass)
    assert counts["HGMMA"] == CHAIN
    assert counts["EXIT"] == 1
    # One store for each of the four accumulators.
    assert counts["STG"] == 4
    # The predicated one is counted under its opcode too.
    assert counts["BAR"] == 1
    assert list(counts.values()) == sorted(counts.values(), reverse=True)


def test_every_line_of_code_is_counted() -> None:
    sass = disassemble(assemble(PTX, HOPPER).data)
    # nvdisasm puts each instruction on a line with its address, ended by a semicolon.
    assert sum(count_instructions(sass).values()) == sum(line.rstrip().endswith(";") for line in sass.splitlines())


def test_what_is_no_cubin_is_refused() -> None:
    with pytest.raises(DiagnosticError, match=r"sass\.failed"):
        disassemble(b"not an image")
