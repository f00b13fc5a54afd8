"""What ptxas expands, against the SASS of kernels written without the rows."""

from __future__ import annotations

import random
import re

import pytest

from benchmarks.emulation import CHIPS, Variant, is_native, measure, mma_opcodes, variants
from nvbackend.diagnostics import Severity
from nvbackend.intrinsics.mma import mma
from nvbackend.intrinsics.mma.emulation import emulation_of, spelling_of
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.target.target import Target
from nvbackend.isel.verify.instructions import emulation_warnings
from nvbackend.isel.verify.verify import verify

pytestmark = pytest.mark.sampled(3)

EVERY = variants()
FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"


def _number(chip: str) -> int:
    return int(re.findall(r"\d+", chip)[0])


def _disagreements(chip: str, wanted: list[Variant]) -> tuple[int, list[str]]:
    """How many of `wanted` ptxas takes, and those of them of which the table says something else than the SASS."""
    measured = measure(chip, wanted)
    wrong = [
        f"{variant.ptx}: {mma_opcodes(measured[variant.ptx])}"
        for variant in wanted
        if variant.ptx in measured
        and is_native(variant, measured[variant.ptx]) != (emulation_of(variant.ptx, _number(chip)) is None)
    ]
    return len(measured), wrong


@pytest.mark.parametrize("chip", ["sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"])
def test_a_sample_agrees_with_the_sass(chip: str) -> None:
    taken, wrong = _disagreements(chip, random.Random(3).sample(EVERY, 90))
    assert taken > 20
    assert wrong == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("chip", CHIPS)
def test_every_variant_agrees_with_the_sass(chip: str) -> None:
    taken, wrong = _disagreements(chip, EVERY)
    assert taken > 40
    assert wrong == []


def test_the_witness_can_tell() -> None:
    """An fp8 mma is one QMMA where the chip has it, and HMMA where it does not."""
    (variant,) = (one for one in EVERY if one.ptx == FP8)
    ada, hopper = measure("sm_89", [variant])[FP8], measure("sm_90a", [variant])[FP8]
    assert mma_opcodes(ada) == {"QMMA": 1}
    assert mma_opcodes(hopper) == {"HMMA": 2}
    assert is_native(variant, ada)
    assert not is_native(variant, hopper)


@pytest.mark.parametrize(
    ("ptx", "shape", "a", "sparse"),
    [
        (FP8, (16, 8, 32), "e4m3", False),
        ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32", (16, 8, 32), "bf16", True),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16", (16, 16, 16), "f16", False),
        ("wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32", (8, 8, 128), "b1", False),
    ],
)
def test_what_a_spelling_says(ptx: str, shape: tuple[int, int, int], a: str, sparse: bool) -> None:
    found = spelling_of(ptx)
    assert found is not None
    assert (found.shape, found.a.name, found.is_sparse) == (shape, a, sparse)


@pytest.mark.parametrize(
    "ptx",
    [
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
        "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16",
        "tcgen05.mma.cta_group::1.kind::i8",
        "movmatrix.sync.aligned.m8n8.trans.b16",
    ],
)
def test_other_instructions_are_not_spoken_of(ptx: str) -> None:
    assert [emulation_of(ptx, number) for number in (80, 90, 120)] == [None] * 3


def _row(ptx: str) -> Row:
    return next(row for row in mma.rows() if row.ptx == ptx)


@pytest.mark.parametrize(
    ("target", "instead"),
    [("sm_90a", "use wgmma, compiled for sm_90a"), ("sm_100a", "use tcgen05.mma")],
)
def test_the_verifier_warns_and_names_what_is_fast(target: str, instead: str) -> None:
    function = MachineFunction("kernel", Target.parse(target))
    function.block("entry").instructions.append(MachineInstr("mma", _row(FP8)))
    (found,) = verify(function)
    assert (found.rule_id, found.severity) == ("row.emulated", Severity.WARNING)
    assert found.message == f"{target} has no {FP8}: ptxas makes conversions to f16, and two HMMA of it"
    assert found.fix.startswith(instead)


def test_nothing_is_said_where_it_is_native() -> None:
    assert list(emulation_warnings(_row(FP8), Target.parse("sm_89"))) == []
