"""tcgen05 rows against LLVM (spelling and operands) and ptxas (legality), with what is around them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import pytest

from nvbackend.intrinsics.copy import tcgen05_memory, tcgen05_registers
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.row.row import Asm, Intrinsic, NoSuchRow, Row
from nvbackend.isel.target.target import Target, dotted
from tests.intrinsics.row.test_rows_operands import instruction
from tests.support.ptxas import on_a_sample, refusals, witnessed
from tests.support.row_verdicts import (
    acceptance_faults,
    feature_faults,
    old_chip_faults,
    spelling_faults,
    version_faults,
)
from tests.support.rows import compile_rows, lowest_target
from tests.support.tcgen05_ptx import (
    DECLARATIONS,
    Instruction,
    is_undocumented,
    memory_neighbourhood,
    mma_neighbourhood,
)

SEED = 20260
MOVES = [*tcgen05_memory.rows(), *tcgen05_registers.rows()]
ROWS = [*tcgen05.rows(), *MOVES]
WITH_TENSOR_MEMORY = [f"sm_{number}{suffix}" for number in (100, 101, 103, 110) for suffix in "af"]


def sample(rows: Sequence[Row], count: int) -> list[Row]:
    """Some of each opcode and lowering, the same each time."""
    chosen: list[Row] = []
    groups: dict[tuple[str, type], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.opcode, type(row.lowering)), []).append(row)
    for group in groups.values():
        chosen += random.Random(SEED).sample(group, min(count, len(group)))
    return chosen


SAMPLE = sample(ROWS, 5)


def test_the_catalogue_has_every_instruction_once() -> None:
    kinds, groups, sources, metadata = 4, 2, 2, 2
    lanes = 2
    without_shift, with_shift = 5, 3
    dense = (kinds + 2) * groups * metadata * lanes * (sources * without_shift + with_shift)
    scaled = (3 + 3 + 4) * groups * sources * metadata * without_shift
    stationary = kinds * sources * metadata * 2 * (1 + 4 * 4)
    assert len(list(tcgen05.rows())) == dense + scaled + stationary
    moves = 2 * 2 * (8 + 7 + 6 + 8 + 8)
    reductions = 2 * 7 * 2 * (1 + 1 + 4)
    assert len(MOVES) == moves + reductions + 2 * (6 * 3 + 4 + 5) + 4
    assert len({(row.ptx, tuple(operand.name for operand in row.operands)) for row in ROWS}) == len(ROWS)


def test_llvm_prints_the_spelling_for_lowest_and_newest_target() -> None:
    assert spelling_faults(SAMPLE) == []


@pytest.mark.exhaustive
def test_llvm_prints_every_spelling() -> None:
    assert spelling_faults(ROWS) == []


def test_ptxas_takes_rows_on_both_ends_of_their_gates_and_refuses_them_outside() -> None:
    assert acceptance_faults(SAMPLE) + feature_faults(SAMPLE) + version_faults(SAMPLE) == []


def test_the_gate_is_that_of_the_ptxas_that_knows_the_older_chips() -> None:
    assert old_chip_faults(SAMPLE) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("faults", [acceptance_faults, feature_faults, version_faults])
def test_ptxas_takes_every_row_and_refuses_it_outside_of_its_gate(faults: Callable[[list[Row]], list[str]]) -> None:
    assert faults(ROWS) == []


def key(row: Row) -> Instruction:
    return Instruction(row.ptx, tuple((operand.name, operand.count) for operand in row.operands))


LEGAL = {key(row): row for row in ROWS}


def disagreements(instructions: Sequence[Instruction], target: Target) -> list[str]:
    """Where ptxas and the catalogue differ about instructions on one target."""
    said = refusals([one.text for one in instructions], DECLARATIONS, target.name, dotted(target.ptx_version))
    found = []
    for one, message in zip(instructions, said, strict=True):
        row = LEGAL.get(one)
        ours = row is not None and target.has(row.requires) and target.ptx_version >= row.ptx_version
        if ours == bool(message) and (ours or not is_undocumented(one)):
            found.append(f"{one.text[:160]}: {'has a row' if ours else 'no row'}, ptxas says {message[:200] or 'yes'}")
    return found


@pytest.mark.parametrize("target", on_a_sample(), ids=str)
def test_the_verdict_is_that_of_ptxas_on_every_architecture(target: Target) -> None:
    count = 40 if target.name in WITH_TENSOR_MEMORY else 4
    chosen = random.Random(f"{SEED}{target.name}").sample(mma_neighbourhood(), count)
    chosen += random.Random(f"{target.name}{SEED}").sample(memory_neighbourhood(), count // 2)
    assert disagreements(chosen, target) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", witnessed(), ids=str)
@pytest.mark.parametrize("around", [mma_neighbourhood, memory_neighbourhood])
def test_the_verdict_is_that_of_ptxas_everywhere(around: Callable[[], list[Instruction]], target: Target) -> None:
    assert disagreements(around(), target) == []


def test_the_neighbourhood_has_every_row_and_much_else() -> None:
    around = {*mma_neighbourhood(), *memory_neighbourhood()}
    reduced = {one for one in LEGAL if one.spelling.startswith("tcgen05.ld.red")}
    assert set(LEGAL) - reduced <= around
    assert len(around) > 4 * len(LEGAL)


LANES = ", ".join(f"lanes{index}" for index in range(8))
EXPECTED: list[tuple[Row, str]] = [
    (
        tcgen05.mma("f16", collector="a::fill"),
        "tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [d], a_desc, b_desc, idesc, enable_d",
    ),
    (
        tcgen05.mma(
            "tf32",
            cta_group=2,
            a_in_tmem=True,
            sparse=True,
            collector="a::use",
            scale_input_d=True,
            disable_output_lane=True,
        ),
        (
            "tcgen05.mma.sp.cta_group::2.kind::tf32.collector::a::use "
            f"[d], [a], b_desc, [metadata], idesc, {{{LANES}}}, enable_d, 0"
        ),
    ),
    (
        tcgen05.mma("f8f6f4", a_in_tmem=True, ashift=True, collector="a::lastuse"),
        "tcgen05.mma.cta_group::1.kind::f8f6f4.ashift.collector::a::lastuse [d], [a], b_desc, idesc, enable_d",
    ),
    (
        tcgen05.mma("mxf4nvf4", sparse=True, scale_vector="block16", collector="a::discard"),
        (
            "tcgen05.mma.sp.cta_group::1.kind::mxf4nvf4.block_scale.block16.collector::a::discard "
            "[d], a_desc, b_desc, [metadata], idesc, [scale_a], [scale_b], enable_d"
        ),
    ),
    (
        tcgen05.mma("mxf8f6f4", a_in_tmem=True, scale_vector="scale_vec::1X"),
        (
            "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X "
            "[d], [a], b_desc, idesc, [scale_a], [scale_b], enable_d"
        ),
    ),
    (
        tcgen05.mma_ws("i8", sparse=True, collector="b2::lastuse", zero_column_mask=True),
        (
            "tcgen05.mma.ws.sp.cta_group::1.kind::i8.collector::b2::lastuse "
            "[d], a_desc, b_desc, [metadata], idesc, enable_d, zero_mask"
        ),
    ),
    (
        tcgen05.mma_ws("f16", a_in_tmem=True),
        "tcgen05.mma.ws.cta_group::1.kind::f16 [d], [a], b_desc, idesc, enable_d",
    ),
    (tcgen05_memory.alloc(2), "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [address], columns"),
    (tcgen05_memory.dealloc(), "tcgen05.dealloc.cta_group::1.sync.aligned.b32 tmem, columns"),
    (tcgen05_registers.ld("16x128b", 1), "tcgen05.ld.sync.aligned.16x128b.x1.b32 {values0, values1}, [tmem]"),
    (
        tcgen05_registers.ld("16x32bx2", 2, pack=True),
        "tcgen05.ld.sync.aligned.16x32bx2.x2.pack::16b.b32 {values0, values1}, [tmem], 0",
    ),
    (
        tcgen05_registers.ld_red("32x32b", 2, "max", "f32", absolute=True, propagate_nan=True),
        "tcgen05.ld.red.sync.aligned.32x32b.x2.max.abs.NaN.f32 {values0, values1}, reduced, [tmem]",
    ),
    (
        tcgen05_registers.st("16x32bx2", 2, unpack=True),
        "tcgen05.st.sync.aligned.16x32bx2.x2.unpack::16b.b32 [tmem], 0, {values0, values1}",
    ),
    (
        tcgen05_memory.cp("64x128b", "warpx2::02_13", unpack="b6x16_p32"),
        "tcgen05.cp.cta_group::1.64x128b.warpx2::02_13.b8x16.b6x16_p32 [tmem], source",
    ),
    (tcgen05_memory.shift(2), "tcgen05.shift.cta_group::2.down [tmem]"),
    (
        tcgen05_memory.commit(2, multicast=True),
        (
            "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
            "[barrier], multicast_mask"
        ),
    ),
    (
        tcgen05_memory.commit(space=None),
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [barrier]",
    ),
]


def test_every_operand_stands_where_the_ptx_isa_puts_it() -> None:
    compiled = compile_rows([(row, lowest_target(row)) for row, _ in EXPECTED])
    for (row, expected), result in zip(EXPECTED, compiled, strict=True):
        assert result.error == ""
        assert instruction(row, result.ptx) == expected


def test_the_asm_of_a_wait_passes_what_was_loaded_through() -> None:
    register = tcgen05_registers.ld("32x32b", 4).operand("values").register
    row = tcgen05_registers.wait("ld", ((register, 4), (register, 1)))
    assert row.constraints == "=r,=r,=r,=r,=r,0,1,2,3,4,~{memory}"
    assert row.asm == "tcgen05.wait::ld.sync.aligned;"


def test_intrinsics_are_used_wherever_llvm_spells_the_instruction() -> None:
    """LLVM always spells a collector, has no scale_vec::NX, orders ashift differently, and has no ld.red."""
    by_asm = {row.ptx for row in ROWS if isinstance(row.lowering, Asm)}
    for row in ROWS:
        no_intrinsic = (
            ("mma" in row.opcode and "collector" not in row.ptx)
            or any(part in row.ptx for part in ("ashift", "scale_vec", "ld.red"))
            or ("commit" in row.opcode and "shared" not in row.ptx)
        )
        assert (row.ptx in by_asm) == no_intrinsic
        if isinstance(row.lowering, Intrinsic):
            assert row.lowering.name.startswith("llvm.nvvm.tcgen05.")


@pytest.mark.parametrize(
    "ask",
    [
        lambda: tcgen05.mma("f32"),
        lambda: tcgen05.mma("f16", cta_group=4),
        lambda: tcgen05.mma("f16", ashift=True),
        lambda: tcgen05.mma("f16", scale_vector="block32"),
        lambda: tcgen05.mma("f16", a_in_tmem=True, ashift=True, collector="a::use"),
        lambda: tcgen05.mma("i8", scale_input_d=True),
        lambda: tcgen05.mma("mxf4nvf4"),
        lambda: tcgen05.mma("mxf4", disable_output_lane=True),
        lambda: tcgen05.mma("f16", collector="b0::fill"),
        lambda: tcgen05.mma_ws("mxf4"),
        lambda: tcgen05.mma_ws("f16", collector="a::fill"),
        lambda: tcgen05_registers.ld("16x256b", 64),
        lambda: tcgen05_registers.ld_red("16x64b", 2, "min", "u32"),
        lambda: tcgen05_registers.ld_red("32x32b", 1, "min", "u32"),
        lambda: tcgen05_registers.ld_red("32x32b", 2, "min", "u32", absolute=True),
        lambda: tcgen05_memory.cp("64x128b"),
        lambda: tcgen05_memory.commit(space="shared::cta"),
        lambda: tcgen05_memory.fence("during"),
        lambda: tcgen05_registers.wait("cp"),
    ],
)
def test_an_axis_value_without_rows_is_named(ask: Callable[[], Row]) -> None:
    with pytest.raises(NoSuchRow, match=r" cannot be .*, only "):
        ask()


def test_rows_of_one_choice_are_one_object() -> None:
    for first, second in itertools.pairwise((tcgen05.mma("f16"), tcgen05.mma("f16"))):
        assert first is second
