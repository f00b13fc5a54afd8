"""Rows that are no mma of one warp are native wherever they are legal: ptxas makes no function call of any."""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from nvbackend.codegen.sass import disassemble
from nvbackend.codegen.toolchain import find_ptxas
from nvbackend.intrinsics.catalogue import FAMILIES
from nvbackend.intrinsics.mma import mma
from nvbackend.intrinsics.mma.emulation import emulation
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.select.rows import faults
from nvbackend.isel.target.target import Target
from tests.support.rows import compile_rows, joined

pytestmark = pytest.mark.sampled(3)

CHIPS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")
OWN_MEASURE = ("mma", "wmma")
"""Families of mma of one warp: tests/intrinsics/mma/test_emulation.py measures every variant of them."""
SAMPLED = 20
_CALL = re.compile(r"\bCALL\.\w")


def called(rows: Sequence[Row], target: Target) -> list[str]:
    """The rows whose kernel calls a function, by the SASS."""
    compiled = compile_rows([(row, target) for row in rows])
    assert [row.ptx for row, one in zip(rows, compiled, strict=True) if not one.ptx] == []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "k.ptx").write_text(joined([one.ptx for one in compiled]), encoding="utf-8")
        done = find_ptxas().run([f"-arch={target}", "-O3", "k.ptx", "-o", "k.cubin"], folder)
        assert done.returncode == 0, done.stderr
        sass = disassemble((folder / "k.cubin").read_bytes())
    bodies = re.split(r"\.text\.kernel(\d+):|Function : kernel(\d+)", sass)[1:]
    found = {int(bodies[at] or bodies[at + 1]): bodies[at + 2] for at in range(0, len(bodies), 3)}
    assert found.keys() == set(range(len(rows)))
    return [row.ptx for place, row in enumerate(rows) if _CALL.search(found[place])]


@pytest.mark.parametrize("chip", CHIPS)
def test_no_row_of_another_family_is_a_call(chip: str) -> None:
    target = Target.parse(chip)
    every = [row for family, rows in FAMILIES.items() if family not in OWN_MEASURE for row in rows()]
    every = random.Random(chip).sample(every, len(every))
    legal = []
    for row in every:
        # Two CTA groups do not go into one module of tcgen05, nor an allocation with what is allocated in another way.
        if row.axes.get("cta_group") in (None, 1) and not list(faults(row, target, {})):
            legal.append(row)
            if len(legal) == SAMPLED:
                break
    assert [emulation(row, target.number) for row in legal] == [None] * SAMPLED
    assert called(legal, target) == []


def test_the_witness_can_tell() -> None:
    row = next(row for row in mma.rows() if row.ptx == "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32")
    target = Target.parse("sm_90a")
    assert emulation(row, target.number) is not None
    assert called([row], target) == [row.ptx]
