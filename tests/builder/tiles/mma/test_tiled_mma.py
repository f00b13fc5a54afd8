"""k.tiled_mma of wgmma: what it takes, and which instructions with which descriptors come of it."""

from __future__ import annotations

import math

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, Major, SmemLayout, SwizzleMode, f16, f32
from nvbackend.atoms import atom
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.values.accumulator import Accumulator
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.layout import Layout
from nvbackend.tiled import make_tiled_mma
from tests.support.tiled_mma_kernels import CASES, build

NAME = "SM90_64x64x16_F32F16F16_SS<Major::K, Major::K>"
REQUEST = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)


def builder(threads: int = 128) -> KernelBuilder:
    return KernelBuilder("tiled", "sm_90a", threads=threads)


def products(k: KernelBuilder) -> list[MachineInstr]:
    return [one for one in k.machine.instructions() if one.opcode == "wgmma.mma_async"]


@pytest.mark.parametrize("given", [REQUEST, NAME, atom(NAME), make_tiled_mma(NAME)])
def test_a_request_an_atom_its_name_and_a_tiled_mma_are_the_same(given):
    k = builder()
    mma = k.tiled_mma(given)
    a, b = k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64))
    acc = mma.accumulator()
    with k.wgmma.group():
        mma.accumulate(acc, a, b)
    assert [one.row.ptx for one in products(k)] == ["wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"] * 4
    assert str(mma.layouts) == NAME


@pytest.mark.parametrize("given", [Layout((2, 2)), 42, None, f16])
def test_what_is_no_instruction_is_named(given):
    with pytest.raises(nvb.DiagnosticError) as caught:
        builder().tiled_mma(given)
    (found,) = caught.value.diagnostics
    assert (found.rule_id, found.message) == (
        "mma.tiled",
        f"{given!r} cannot be laid over tiles: it is not an instruction",
    )
    assert (found.fix or "").startswith("give a request such as nvb.wgmma.mma_async(...)")


def test_a_request_reads_tiles_of_any_major():
    k = builder()
    mma = k.tiled_mma(REQUEST)
    a = k.shared_tile(SmemLayout(Major.MN, SwizzleMode.B128, f16, 64, 64))
    b = k.shared_tile(SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64))
    with k.wgmma.group():
        mma.accumulate(mma.accumulator(), a, b)
    assert {(one.immediates["trans_a"], one.immediates["trans_b"]) for one in products(k)} == {(1, 0)}


def test_an_atom_reads_what_its_name_says():
    k = builder()
    mma = k.tiled_mma(NAME)
    a = k.shared_tile(SmemLayout(Major.MN, SwizzleMode.B128, f16, 64, 64))
    with pytest.raises(nvb.DiagnosticError, match=r"wgmma\.operand-major"):
        mma.partition_fragment_A(a)


@pytest.mark.parametrize("case", CASES[::4], ids=str)
def test_every_tiling_is_assembled_without_a_warning(case):
    """The first product of each kernel is what NumPy's is compared with on a GPU."""
    finished = build(case).k.finish()
    compiled = finished.compile()
    assert finished.diagnostics == compiled.diagnostics == ()
    steps = case.tile_k // case.request.k
    shape = case.how.get("tile", (64, 32))
    assert compiled.ptx.count("wgmma.mma_async") >= steps // case.warpgroups * max(1, shape[0] // 64 // case.warpgroups)
    assert compiled.cubin


def multiplied(**how) -> list[MachineInstr]:
    k = builder()
    mma = k.tiled_mma(REQUEST, **how)
    a, b = k.shared_tile(mma.smem_a(64), name="a"), k.shared_tile(mma.smem_b(64), name="b")
    with k.wgmma.group():
        mma.accumulate(mma.accumulators(), a, b)
    return products(k)


def test_the_128_by_128_tile_of_the_notes_is_16_instructions_a_stage():
    """K outermost, then along N there and back. 64 rows are 64 x 128 bytes further on, a step of K 32 bytes."""
    found = multiplied(tile=(128, 128))
    places = [{touch.operand: touch.offset for touch in one.memory} for one in found]
    rows, order = 64 * 128, [(0, 0), (0, 1), (1, 1), (1, 0)]
    assert [(one["a_desc"], one["b_desc"]) for one in places] == [
        (m * rows + 32 * step, n * rows + 32 * step) for step in range(4) for m, n in order
    ]
    names = [one.touches[0].block.name for one in found]
    assert names == [f"acc.{m}.{n}" for _ in range(4) for m, n in order]


def test_each_operand_is_told_as_far_as_it_reaches():
    """Of the rows of 128 bytes that it lies in, all; their last one ends the operand."""
    reached = [touch.bytes for one in multiplied() for touch in one.memory if touch.operand == "a_desc"]
    assert reached == [64 * 128 - 32 * step for step in range(4)]


def test_parts_take_the_steps_in_turn():
    k = builder()
    mma = k.tiled_mma(REQUEST)
    a, b = k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64))
    acc = mma.accumulators(parts=2)
    with k.wgmma.group():
        mma.accumulate(acc, a, b)
    acc.add_parts()
    assert [one.touches[0].block.name for one in products(k)] == ["acc.0.0.0", "acc.0.0.1"] * 2
    assert k.finish().ir.count("fadd float") == 32


@pytest.mark.parametrize("tile", [(64, 64), (64, 128), (128, 64), (128, 192)])
@pytest.mark.parametrize(
    ("begin", "call"),
    [(lambda acc, count: acc.fill(2.0), "fill"), (lambda acc, count: acc.set([2.0] * 32 * count), "set")],
)
def test_a_sum_of_parts_begins_with_what_part_0_is_given(begin, call, tile, monkeypatch):
    """The other parts begin at 0, whatever they held before."""
    acc, done = builder().tiled_mma(REQUEST, tile=tile).accumulators(parts=2), []
    for name in ("fill", "set", "clear"):
        monkeypatch.setattr(Accumulator, name, lambda own, *_, name=name: done.append((name, own.name)))
    first = [(m, n) for n in range(tile[1] // 64) for m in range(tile[0] // 64)]
    begin(acc, len(first))
    assert done == [(name, f"acc.{m}.{n}.{part}") for part, name in enumerate((call, "clear")) for m, n in first]


@pytest.mark.parametrize("given", [3 * 32 - 1, 3 * 32 + 1, 3 * 31 + 1, 3 * 33 + 2])
def test_values_of_several_accumulators_are_counted_together(given):
    """Of three of 32 registers: one more than they have would be left out without a word."""
    acc = builder().tiled_mma(REQUEST, tile=(192, 64)).accumulators()
    with pytest.raises(DiagnosticError) as caught:
        acc.set([2.0] * given)
    (only,) = caught.value.diagnostics
    assert (only.rule_id, only.location.file) == ("wgmma.registers", __file__)
    assert f"has 96 registers a thread, and {given} values" in only.message


def test_the_first_instruction_of_each_accumulator_is_told_what_the_caller_says():
    k = builder()
    mma = k.tiled_mma(REQUEST, tile=(128, 64))
    a, b = k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64))
    with k.wgmma.group():
        mma.accumulate(mma.accumulators(), a, b, accumulate=False)
    assert [one.facts.get("scale_d") for one in products(k)] == [0, 0, *[None] * 6]


def test_instructions_can_be_emitted_one_by_one():
    def one_by_one(k, mma, acc, a, b):
        first, second = mma.partition_fragment_A(a), mma.partition_fragment_B(b)
        for issue in mma.issues(acc, first, second):
            mma.issue(issue, acc, first, second)

    def by_hand(k, mma, acc, a, b):
        first, second = mma.partition_fragment_A(a), mma.partition_fragment_B(b)
        for issue in mma.issues(acc, first, second):
            words = first.descriptors(0, issue.m, issue.k), second.descriptors(0, issue.n, issue.k)
            k.wgmma.mma_async(acc[issue.m, issue.n], *words, mma.instruction)

    def at_once(k, mma, acc, a, b):
        mma.accumulate(acc, a, b)

    texts = []
    for way in (at_once, one_by_one, by_hand):
        k = builder()
        mma = k.tiled_mma(REQUEST, tile=(128, 64))
        a, b = k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64))
        acc = mma.accumulators()
        with k.wgmma.group():
            way(k, mma, acc, a, b)
        texts.append(str(k.finish().machine))
    assert len(set(texts)) == 1


def test_fragments_print_as_in_the_notes():
    k = builder()
    mma = k.tiled_mma("SM90_64x64x16_F16F16F16_SS<Major::MN, Major::MN>", tile=(128, 128))
    a = mma.partition_fragment_A(k.shared_tile(mma.smem_a(64)))
    assert str(a) == "GMMA::DescriptorIterator o (_1,_2,_4):(_0,_512,_128)"


def test_registers_of_a_are_multiplied_step_by_step():
    k = builder()
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32, a_in_registers=True), tile=(128, 64))
    b = k.shared_tile(mma.smem_b(32, swizzle=SwizzleMode.B64))
    acc = mma.accumulators()
    given = [k.wgmma.fragment([k.const(index, nvb.u32)] * 4, f16, name=f"own.{index}") for index in range(4)]
    first = mma.make_fragment_A(given)
    with k.wgmma.group():
        mma.accumulate(acc, first, b)
    names = [[touch.block.name for touch in one.touches] for one in products(k)]
    assert names == [["acc.0.0", "own.0"], ["acc.1.0", "own.1"], ["acc.0.0", "own.2"], ["acc.1.0", "own.3"]]


@pytest.mark.parametrize(
    ("how", "rule"),
    [
        ({"warpgroups": (1, 2), "atom_layout": (1, 2, 1)}, "mma.tiled"),
        ({"warpgroups": (0, 1)}, "mma.warpgroups"),
        ({"tile": (96, 64)}, "tiled-mma.tile"),
        ({"atom_layout": (1, 1, 1, 2)}, "tiled-mma.atom-layout"),
        ({"permutation": (96,)}, "tiled-mma.permutation"),
        ({"permutation": (-32,)}, "tiled-mma.permutation"),
        ({"permutation": (True,)}, "tiled-mma.permutation"),
    ],
)
def test_a_tiling_that_is_none(how, rule):
    with pytest.raises(nvb.DiagnosticError) as caught:
        builder().tiled_mma(REQUEST, **how)
    if "permutation" in how and how["permutation"] != (96,):
        assert f"permutation {how['permutation'][0]} of M" in caught.value.diagnostics[0].message
    assert [one.rule_id for one in caught.value.diagnostics] == [rule]
    assert caught.value.diagnostics[0].location.file == __file__


def tiles_of_other_rows(k, mma):
    a = k.shared_tile(SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64))
    mma.accumulate(mma.accumulators(), a, k.shared_tile(mma.smem_b(64)))


def parts_of_nothing(k, mma):
    mma.accumulators(parts=0)


def parts_for_more_registers_than_a_thread_has(k, mma):
    """An accumulator of 64 x 8 has 64 * 8 / 128 = 4 registers a thread: 64 are more than its 255."""
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n8k16", f16, f16, nvb.f32))
    assert len(mma.accumulators(parts=64)) == 64
    mma.accumulators(parts=65)


def accumulators_of_another_tile(k, mma):
    other = k.tiled_mma(REQUEST)
    mma.accumulate(other.accumulator(), k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64)))


def a_store_of_another_tile(k, mma):
    mma.store(k.tiled_mma(REQUEST).accumulator(), k.shared(nvb.f32, 128 * 64), 64)


def an_axpby_of_another_tile(k, mma):
    mma.axpby(1.0, k.tiled_mma(REQUEST, tile=(64, 128)).accumulators(), 0.0, k.shared(nvb.f32, 128 * 64), 64)


def elements_of_another_type(k, mma):
    mma.partition_fragment_A(k.shared_tile(SmemLayout(Major.K, SwizzleMode.B128, nvb.bf16, 128, 64)))


def a_sum_over_one_warpgroup(k, mma):
    mma.reduction_buffer(mma.accumulators())


def registers_for_an_operand_in_memory(k, mma):
    mma.make_fragment_A([k.wgmma.fragment([0] * 4, f16)] * 2)


@pytest.mark.parametrize(
    ("element", "shape", "problem"),
    [
        (nvb.bf16, (8, 1, 1), "a tensor of bf16, (_8,_1,_1)"),
        (f16, (8, 1), "a tensor of f16, (_8,_1):"),
        (f16, (8, 3, 1), "3 fragments"),
    ],
)
def test_registers_that_are_no_operand_are_shown(element, shape, problem):
    k = builder()
    mma = k.tiled_mma(
        nvb.wgmma.mma_async("m64n64k16", f16, f16, nvb.f32, a_in_registers=True), warpgroups=(1, 1), tile=(128, 64)
    )
    strides = tuple(math.prod(shape[:mode]) for mode in range(len(shape)))
    with pytest.raises(nvb.DiagnosticError) as caught:
        mma.make_fragment_A(k.register_tensor(element, Layout(shape, strides)))
    [found] = caught.value.diagnostics
    assert found.rule_id == "mma.tile-registers"
    assert problem in found.message


@pytest.mark.parametrize(
    ("misuse", "rule"),
    [
        (tiles_of_other_rows, "tiled-mma.gemm"),
        (parts_of_nothing, "mma.tile-accumulators"),
        (parts_for_more_registers_than_a_thread_has, "mma.tile-accumulators"),
        (accumulators_of_another_tile, "mma.tile-accumulators"),
        (a_store_of_another_tile, "mma.tile-accumulators"),
        (an_axpby_of_another_tile, "mma.tile-accumulators"),
        (elements_of_another_type, "wgmma.operand-element"),
        (a_sum_over_one_warpgroup, "mma.tile-parts"),
        (registers_for_an_operand_in_memory, "mma.tile-registers"),
    ],
)
def test_misuse_is_told(misuse, rule):
    k = builder()
    with pytest.raises(nvb.DiagnosticError) as caught:
        misuse(k, k.tiled_mma(REQUEST, tile=(128, 64)))
    assert [one.rule_id for one in caught.value.diagnostics] == [rule]
    assert caught.value.diagnostics[0].location.file == __file__


def test_the_contract_of_atoms_is_checked_before_anything_is_emitted():
    k = KernelBuilder("contract", "sm_75", threads=128, parameters=[])
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.tiled_mma("SM80_16x8x16_F32F16F16F32_TN")
    assert [(one.rule_id, one.location.file) for one in caught.value.diagnostics] == [("atom.target", __file__)]


@pytest.mark.parametrize("along", [(1, 1), (8, 1), (2, 4), (9, 1), (3, 3), (8, 4), (32, 1), (33, 1), (8, 5), (5, 13)])
@pytest.mark.parametrize("name", ["SM80_16x8x16_F32F16F16F32_TN", NAME])
def test_a_cta_has_the_threads_of_all_atoms(name: str, along: tuple[int, int]) -> None:
    each = 128 if name == NAME else 32
    threads = math.prod(along) * each
    if threads <= 1024:
        builder(1024).tiled_mma(name, atom_layout=(*along, 1))
        return
    with pytest.raises(nvb.DiagnosticError, match=rf"mma\.threads.* {threads} threads; a CTA has 1024"):
        builder(1024).tiled_mma(name, atom_layout=(*along, 1))


@pytest.mark.parametrize("shape", [(0, 64, 1), (-1, 1, 1), (-40, -40, 1), (64, 0, 64)])
def test_atoms_that_are_no_shape_are_told_as_such(shape: tuple[int, int, int]) -> None:
    with pytest.raises(nvb.DiagnosticError, match=r"layout-algebra\.extent"):
        builder(1024).tiled_mma("SM80_16x8x16_F32F16F16F32_TN", atom_layout=shape)
