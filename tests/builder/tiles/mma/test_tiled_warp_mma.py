"""mma.sync over a CTA's warps: products by an interpreter of the emitted code, order and number, edges, mistakes."""

from __future__ import annotations

from collections import Counter

import ml_dtypes
import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, Pointer, e4m3, f16, f32, i32, tf32, ue8m0
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.layout import ComposedLayout, Layout, Swizzle, composition, size
from nvbackend.signature import Parameter, Scalar
from nvbackend.tiled import MmaOperand, make_tiled_mma
from nvbackend.tiled import gemm as layout_gemm
from tests.support.cta_interpreter import Recorded, run
from tests.support.ir_addresses import condition_of, evaluate, instructions, pointer_of
from tests.support.said import said
from tests.support.warp_mma import Case, cases

pytestmark = pytest.mark.sampled(3)

HALVES = nvb.mma.sync("m16n8k16", f16, f16, f32)
SWIZZLED = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 64), (64, 1)))
SCALED = "SM120_16x8x32_TN_VS<float_e4m3_t, float_e4m3_t, float, float_ue8m0_t, 32>"


def multiplied(case, seed):
    """C as the interpreter finds it, and as it should be."""
    k = case.kernel(Recorded)
    a, b, *metadata, product = case.matrices(seed)
    c = np.zeros(case.tile[:2], case.atom.d.storage)
    run(k, case.threads, dict(zip("abce", (a, b, c, *metadata), strict=False)))
    return c.astype(np.int64), product


@pytest.mark.parametrize("case", cases(5, 12), ids=lambda case: str(case.atom))
def test_products_of_random_atoms_and_layouts(case):
    found, product = multiplied(case, 1)
    assert np.array_equal(found, product)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("parts", [2, 3, 4])
def test_partial_sums_of_several_warps(parts):
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 1, parts))
    found, product = multiplied(Case(mma, (32, 16, 32 * parts)), parts)
    assert np.array_equal(found, product)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", cases(3, 200), ids=lambda case: str(case.atom))
def test_products_of_every_atom(case):
    found, product = multiplied(case, 2)
    assert np.array_equal(found, product)


def test_scale_factors_go_to_the_blocks_they_belong_to():
    """Powers of two for each 32 elements of a row, by an interpreter that has each factor where the PTX ISA says."""
    k = scaled_kernel(Recorded)
    random = np.random.default_rng(4)
    a, b = (random.integers(-2, 3, (rows, 128)) for rows in (64, 32))
    scales = [random.integers(125, 130, (rows, 4), np.uint8) for rows in (64, 32)]
    c = np.zeros((64, 32), np.float32)
    given = [one.astype(ml_dtypes.float8_e4m3fn).view(np.uint8) for one in (a, b)]
    run(k, 64, dict(zip(("a", "b", "sa", "sb", "c"), (*given, *scales, c), strict=True)))
    factors = [np.repeat(np.ldexp(1.0, one.astype(int) - 127), 32, axis=1) for one in scales]
    assert np.array_equal(c, (a * factors[0]) @ (b * factors[1]).T)


def scaled_kernel(builder=KernelBuilder):
    names = {"a": e4m3, "b": e4m3, "sa": ue8m0, "sb": ue8m0, "c": f32}
    k = builder("scaled", "sm_120a", threads=64, parameters=[Parameter(n, Pointer(t, 16)) for n, t in names.items()])
    a, b, scale_a, scale_b, c = k.arguments
    mma = k.tiled_mma(make_tiled_mma(SCALED, (2, 1, 1), (32, 16, 32)), tile=(64, 32))
    acc = mma.accumulator()
    rows, columns = Layout((64, 128), (128, 1)), Layout((32, 128), (128, 1))
    scales = (
        mma.load_scales_a(k.tensor(scale_a, Layout((64, 4), (4, 1)))),
        mma.load_scales_b(k.tensor(scale_b, Layout((32, 4), (4, 1)))),
    )
    mma.gemm(
        acc, mma.load_a(k.tensor(a, rows)), mma.load_b(k.tensor(b, columns)), scales_a=scales[0], scales_b=scales[1]
    )
    mma.store(acc, k.tensor(c, Layout((64, 32), (32, 1))))
    return k


def test_scaled_products_assemble():
    text = scaled_kernel().compile()
    assert text.ptx.count("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale") == 2 * 4 * 4
    assert text.cubin.resources[0].spill_stores_bytes == 0


# -- which instructions ------------------------------------------------------------------------------------------------


class Scene:
    """Four warps, a swizzled tile in shared memory and a matrix in global memory."""

    def __init__(self, target="sm_80", threads=128, pitch=None):
        parameters = [Parameter("c", Pointer(f32, 16)), Parameter("h", Pointer(f16, 16)), Parameter("n", Scalar(i32))]
        self.k = KernelBuilder("scene", target, threads=threads, parameters=parameters)
        self.c, self.halves, self.n = self.k.arguments
        self.tile = self.k.tensor(self.k.shared(f16, 64 * 64, align=1024, name="tile"), SWIZZLED)

    def mma(self, warps=(2, 2), permutation=(None, 32), tile=(64, 64)):
        return self.k.tiled_mma(HALVES, warps, permutation=permutation, tile=tile)

    def opcodes(self):
        return [one.opcode for one in self.k.machine.instructions()]


def test_the_order_is_that_of_the_layouts():
    """What gemm returns is what nvbackend.tiled.gemm gives, and as many instructions are emitted."""
    scene = Scene()
    mma = scene.mma()
    acc, a, b = mma.accumulator(), mma.fragment_a(64), mma.fragment_b(64)
    issues = mma.gemm(acc, a, b)
    fragments = (
        mma.layouts.make_fragment_A(a.layout),
        mma.layouts.make_fragment_B(b.layout),
        mma.layouts.make_fragment_C(acc.layout),
    )
    assert issues == layout_gemm(mma.layouts, *fragments)
    assert [(one.m, one.n, one.k) for one in issues[:5]] == [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 2, 0)]
    assert Counter(scene.opcodes())["mma"] == len(issues) == 2 * 4 * 4


def test_fragments_are_loaded_in_front_of_the_k_that_reads_them():
    scene = Scene()
    mma = scene.mma()
    mma.accumulate(mma.accumulator(), scene.tile, scene.tile)
    wanted = [one for one in scene.opcodes() if one in ("ldmatrix", "mma")]
    assert wanted == (["ldmatrix"] * 4 + ["mma"] * 8) * 4


def test_neighbours_are_stored_together_where_pitch_and_end_allow():
    """Pairs of f32 where the pitch is a multiple of 2, single ones where nothing is known of it."""
    for pitch, width in ((lambda n: n * 8, "st.global.v2.b32"), (lambda n: n, "st.global.b32")):
        scene = Scene()
        mma, n = scene.mma(), pitch(scene.n)
        inside = scene.k.identity_tensor((64, 64)).below(50, n)
        mma.store(mma.accumulator(), scene.k.tensor(scene.c, Layout((64, 64), (n, 1))), where=inside)
        found = Counter(word for word in scene.k.compile().ptx.split() if word.startswith("st.global"))
        assert found == {width: 2 * 4 * 4 // (2 if "v2" in width else 1)}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("m", "n"), [(64, 64), (50, 24), (1, 8)])
def test_accumulators_are_stored_inside_of_the_matrix_once(m, n):
    scene = Scene()
    mma, pitch = scene.mma(), scene.n * 8
    inside = scene.k.identity_tensor((64, 64)).below(m, pitch)
    mma.store(mma.accumulator(), scene.k.tensor(scene.c, Layout((64, 64), (pitch, 1))), where=inside)
    written = Counter()
    stores = list(instructions(scene.k.function, "store"))
    for thread in range(128):
        known = {"tid.x": thread, "c": 0, "n": n // 8}
        for one in stores:
            if evaluate(condition_of(one), known):
                first = evaluate(pointer_of(one), known) // 4
                written.update((first, first + 1))
    assert written == dict.fromkeys(range(m * n), 1)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("element", "major", "form"),
    [(f16, "K", "x4.shared"), (f16, "MN", "x4.trans.shared"), (e4m3, "K", "x4.shared"), (e4m3, "MN", None)],
    ids=str,
)
def test_ldmatrix_reads_what_its_rows_are(element, major, form):
    """Rows along K as they are, rows along M transposed; of elements of a byte there is no such transpose here."""
    name = "SM89_16x8x32_F32E4M3E4M3F32_TN" if element is e4m3 else "SM80_16x8x16_F32F16F16F32_TN"
    k = KernelBuilder("matrices", "sm_90a", threads=128)
    mma = k.tiled_mma(name, (2, 2), tile=(64, 64))
    layout = Layout((64, 64), (64, 1) if major == "K" else (1, 64))
    mma.load_a(k.tensor(k.shared(element, 64 * 64, align=1024, name="tile"), layout))
    found = {one.row.ptx for one in k.machine.instructions() if "ldmatrix" in one.opcode}
    assert found == ({f"ldmatrix.sync.aligned.m8n8.{form}.b16"} if form else set())


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("SM80_16x8x16_F32F16F16F32_TN", "x4", "x2"),
        ("SM80_16x8x8_F32F16F16F32_TN", "x2", "x1"),
        ("SM89_16x8x32_F32E4M3E4M3F32_TN", "x4", "x2"),
        ("SM80_16x8x8_F32TF32TF32F32_TN", "x4", "x2"),
    ],
)
def test_ldmatrix_reads_as_many_matrices_as_one_atom_has(name, a, b):
    """8 rows of 16 bytes are a matrix; of the atom's extents by the size of its elements."""
    k = KernelBuilder("matrices", "sm_90a", threads=32)
    mma = k.tiled_mma(name)
    element = f32 if mma.layouts.atom.a is tf32 else mma.layouts.atom.a
    for load, operand, form in ((mma.load_a, MmaOperand.A, a), (mma.load_b, MmaOperand.B, b)):
        before = len(list(k.machine.instructions()))
        rows, columns = mma.layouts.extents(operand)
        layout = Layout((rows, columns), (columns, 1))
        load(k.tensor(k.shared(element, rows * columns, align=1024), layout))
        emitted = [one.row.ptx for one in list(k.machine.instructions())[before:]]
        assert emitted == [f"ldmatrix.sync.aligned.m8n8.{form}.shared.b16"]
        assert rows * columns * element.bits == 8 * 8 * 16 * int(form[1:])


def test_tiles_of_parts_of_a_byte_are_of_plain_words():
    """Of s4 a tile is of u32, eight elements each; a swizzled one has no layout of elements."""
    k = KernelBuilder("words", "sm_80", threads=32)
    mma = k.tiled_mma(nvb.mma.sync("m16n8k64", nvb.s4, nvb.s4, nvb.s32))
    words = Layout((16, 8), (8, 1))
    assert size(mma.load_a(k.tensor(k.shared(nvb.u32, 128, align=1024), words)).layout) == 32
    swizzled = composition(Swizzle(3, 4, 3), words)
    for element, layout, problem in (
        (nvb.u32, swizzled, "the words of its tile are swizzled"),
        (nvb.u8, words, "the tile is of u8, and u32 is wanted"),
    ):
        with pytest.raises(nvb.DiagnosticError, match=rf"warp-mma\.fragment.*{problem}"):
            mma.load_a(k.tensor(k.shared(element, 128, align=1024), layout))
    halves = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, nvb.f32))
    halves.load_a(k.tensor(k.shared(f16, 256, align=1024), composition(Swizzle(1, 3, 3), Layout((16, 16), (16, 1)))))


# -- rings -------------------------------------------------------------------------------------------------------------


def test_a_ring_waits_before_it_is_read_and_fills_behind_the_barrier():
    scene = Scene()
    k, fetched = scene.k, []
    ring = k.pipeline(3, copies="cp.async", a=(f16, SWIZZLED))
    with ring.steps(scene.n, lambda step, stage: fetched.append(stage.a.shape)) as (_, stage):
        assert stage.a.shape == (64, 64)
    assert fetched == [(64, 64)] * 3  # two in front of the loop, one in it
    commit, wait = "cp.async.commit_group", "cp.async.wait_group"
    assert scene.opcodes() == [commit, commit, wait, "bar.sync", commit]
    waits = [one for one in k.machine.instructions() if one.opcode == wait]
    assert [one.immediates for one in waits] == [{"pending": 1}]


# -- mistakes ----------------------------------------------------------------------------------------------------------


def too_many_warps():
    Scene(threads=64).mma()


def half_a_warp():
    Scene("sm_75").k.tiled_mma("SM70_8x8x4_F32F16F16F32_TN")


def numbers_that_no_thread_has():
    Scene("sm_75", threads=32).k.tiled_mma("SM70_8x8x4_F32F16F16F32_TN", atom_layout=Layout((2, 2), (4, 8)))


def sums_of_another_type():
    Scene("sm_75").k.tiled_mma("SM70_8x8x4_F32F16F16F16_TN", atom_layout=(2, 2))


def another_type():
    scene = Scene()
    scene.mma().load_a(scene.k.tensor(scene.c, Layout((64, 64), (64, 1))))


def stored_as_another_type():
    scene = Scene()
    mma = scene.mma()
    mma.store(mma.accumulator(), scene.tile)


def stored_to_two_tiles():
    scene = Scene()
    mma = scene.mma()
    mma.store(mma.accumulator(), scene.k.tensor(scene.c, Layout((128, 64), (64, 1))))


def added_to_two_tiles():
    scene = Scene()
    mma = scene.mma()
    mma.axpby(1.0, mma.accumulator(), 1.0, scene.k.tensor(scene.c, Layout((64, 128), (128, 1))))


def accumulators_as_operand():
    scene = Scene()
    mma = scene.mma()
    mma.gemm(mma.accumulator(), mma.accumulator(), mma.fragment_b(64))


def half_a_tile():
    scene = Scene()
    mma = scene.mma()
    mma.gemm(mma.accumulator(), mma.fragment_a(64), mma.fragment_b(32))


def factors_of_what_has_none():
    scene = Scene()
    scene.mma().load_scales_a(scene.tile)


def scaled():
    k = KernelBuilder("scaled", "sm_120a", threads=128, parameters=[Parameter("a", Pointer(f16))])
    return k, k.tiled_mma(SCALED, (2, 2), tile=(64, 64))


def factors_of_another_type():
    k, mma = scaled()
    mma.load_scales_b(k.tensor(k.arguments[0], Layout((64, 4), (4, 1))))


def swizzled_factors():
    k, mma = scaled()
    mma.load_scales_a(k.tensor(k.shared(ue8m0, 64 * 64, align=1024), SWIZZLED))


def factors_of_half_a_register():
    k, mma = scaled()
    mma.load_scales_a(k.tensor(k.shared(ue8m0, 64 * 6, align=1024), Layout((64, 6), (6, 1))))


def metadata_of_another_type():
    k = KernelBuilder("sparse", "sm_90a", threads=128, parameters=[Parameter("a", Pointer(f16))])
    mma = k.tiled_mma("SM80_SPARSE_16x8x32_F32F16F16F32_TN", (2, 2), tile=(64, 64))
    mma.load_metadata(k.tensor(k.arguments[0], Layout((64, 4), (4, 1))))


def on_an_older_chip():
    Scene("sm_75").mma()


def one_stage():
    Scene().k.pipeline(1, copies="cp.async", a=(f16, SWIZZLED))


def no_tiles():
    Scene().k.pipeline(2, copies="cp.async")


MISTAKES = {
    too_many_warps: ("warp-mma.atom", "it takes 128 threads, up to number 127, and a CTA has 64"),
    half_a_warp: ("warp-mma.atom", "it takes 8 threads"),
    numbers_that_no_thread_has: ("warp-mma.atom", ", up to number 115, "),
    sums_of_another_type: ("warp-mma.atom", "it adds f16 and gives f32"),
    another_type: ("warp-mma.fragment", "the tile is of f32, and f16 is wanted"),
    stored_as_another_type: ("warp-mma.fragment", "convert them: acc.elements().store(tile, where=...)"),
    stored_to_two_tiles: ("warp-mma.fragment", "store to a part of 64 x 64: tensor.tile((64, 64), (row, column)), or"),
    added_to_two_tiles: ("warp-mma.fragment", "they are stored to is of 64 x 128"),
    accumulators_as_operand: ("warp-mma.fragment", "make it with mma.fragment_a"),
    half_a_tile: ("tiled-mma.gemm", "A has 4 atoms along K, B 2"),
    factors_of_what_has_none: ("warp-mma.fragment", "its products are not scaled"),
    factors_of_another_type: ("warp-mma.fragment", "they are of f16, and ue8m0 is wanted"),
    swizzled_factors: ("warp-mma.fragment", "they are swizzled"),
    factors_of_half_a_register: ("warp-mma.fragment", "a row of the tile has 6 factors, and a register 4"),
    metadata_of_another_type: ("warp-mma.fragment", "they are of f16, and u16 is wanted"),
    on_an_older_chip: ("mma.target", "m16n8k16"),
    one_stage: ("pipeline.stages", "a ring of 1 stage"),
    no_tiles: ("pipeline.tiles", "a ring has no tile"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.__name__)
def test_mistakes_are_told_where_they_are_made(mistake):
    rule, words = MISTAKES[mistake]
    with pytest.raises(DiagnosticError) as caught:
        mistake()
    found = caught.value.diagnostics[0]
    assert found.rule.id == rule
    assert words in said(found)
    assert found.location is not None
    assert found.location.file == __file__


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rows", [32, 128])
def test_a_result_of_other_rows_is_no_operand(rows: int) -> None:
    k = KernelBuilder("rows", "sm_80", threads=64)
    first, second = (k.tiled_mma(HALVES, (2, 1), tile=(m, 32)) for m in (rows, 64))
    with pytest.raises(DiagnosticError, match=f"it has {rows} rows, and A 64") as caught:
        second.make_fragment_A(first.accumulator().elements())
    assert [one.rule_id for one in caught.value.diagnostics] == ["elements.operand"]


def test_elements_are_no_operand_of_another_width_however_they_lie() -> None:
    """Fragments of A in tf32 have columns 0 and 4 where accumulators have 0 and 1: no layout of warps helps."""
    k = KernelBuilder("widths", "sm_80", threads=32)
    mma = k.tiled_mma(nvb.mma.sync("m16n8k8", nvb.tf32, nvb.tf32, f32), tile=(16, 16))
    with pytest.raises(DiagnosticError, match=r"elements\.operand") as caught:
        mma.make_fragment_A(mma.accumulator().elements())
    assert caught.value.diagnostics[0].fix == "go through shared memory: x.store(tile), a barrier, and mma.load_a(tile)"
