"""k.tensor and k.copy: which instructions there are, where they read and write by the emitted arithmetic."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nvbackend as nvb
from nvbackend import DiagnosticError, Major, Pointer, SwizzleMode, f16, f32, i32, s64, u8, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.layout import ComposedLayout, Layout, Swizzle, make_ordered_layout
from nvbackend.signature import Parameter, Scalar
from nvbackend.tiled import (
    cp_async_copy,
    ldmatrix_copy,
    make_tiled_copy,
    make_tiled_copy_A,
    universal_copy,
)
from tests.support.copy_scene import MMA, ROWS, SWIZZLED, Scene
from tests.support.ir_addresses import evaluate, instructions, pointer_of
from tests.support.numbers_kernel import build
from tests.support.tiled_gemm import gemm
from tests.support.tiled_kernels import THREADS, through_matrices, through_registers, tma_boxes

pytestmark = pytest.mark.sampled(3)

# -- where instructions read and write, by the arithmetic that was emitted ---------------------------------------------


@st.composite
def copies(draw):
    """128 threads in any order, vectors along rows, and a tile in shared memory, swizzled or not."""
    rows = draw(st.sampled_from([4, 8, 16, 32]))
    thr = make_ordered_layout((rows, 128 // rows), draw(st.permutations((0, 1)).map(tuple)))
    width = draw(st.sampled_from([2, 4, 8]))
    val = Layout((draw(st.sampled_from([1, 2])), width), (width, 1))
    layout = draw(
        st.sampled_from([SWIZZLED, Layout((64, 64), (72, 1)), ComposedLayout(Swizzle(2, 3, 4), 0, SWIZZLED.layout_b)])
    )
    return make_tiled_copy(cp_async_copy(f16, 16 * width), thr, val), layout


@settings(max_examples=15, deadline=None)
@given(copies())
def test_cp_async_fills_the_tile(case):
    """Of every thread each copy: from the matrix's rows to where the layout has them, every element once."""
    copy, layout = case
    k = KernelBuilder(
        "fill", "sm_80", threads=128, parameters=[Parameter("a", Pointer(f16)), Parameter("n", Scalar(i32))]
    )
    a, n = k.arguments
    extents = tuple(max(64, extent) for extent in copy.tiler)
    assume(extents == (64, 64))
    tile = k.tensor(k.shared(f16, 64 * 72, align=1024, name="tile"), layout)
    mine = copy.get_slice(k.thread_id())
    k.copy(
        copy, k.tensor(a, Layout((64, 64), (n * 8, 1))).partition(mine.partition_S), tile.partition(mine.partition_D)
    )
    moved = {}
    width = copy.atom.access_bytes // 2
    for call in instructions(k.function, "cp.async"):
        for thread in range(128):
            to, start = (evaluate(one, {"tid.x": thread, "a": 0, "n": 100}) for one in call.args[:2])
            assert to % (2 * width) == start % (2 * width) == 0
            for place in range(width):
                assert to // 2 + place not in moved
                moved[to // 2 + place] = start // 2 + place
    assert moved == {layout(i, j): 800 * i + j for i, j in itertools.product(range(64), range(64))}


def test_every_thread_reads_and_writes_its_own_elements():
    """Loads of 16 bytes into registers, stores of 4: each element comes out where it went in."""
    scene = Scene(target="sm_75")
    k = scene.k
    loads = make_tiled_copy(universal_copy(f16, 128), Layout((16, 8), (8, 1)), Layout((1, 8)))
    stores = make_tiled_copy(universal_copy(f16, 32), Layout((16, 8), (8, 1)), Layout((1, 8)))
    mine, theirs = loads.get_slice(scene.thread), stores.get_slice(scene.thread)
    source = scene.matrix.partition(mine.partition_S)
    registers = k.register_tensor(f16, source.shape)
    k.copy(loads, source, registers)
    pairs = registers.retile(lambda layout: Layout(((2, 4), *layout.shape[1:]), ((1, 2), 8, 0)))
    k.copy(stores, pairs, scene.tile.partition(theirs.partition_D))
    for thread in (0, 1, 37, 127):
        known = {"tid.x": thread, "source": 0}
        read = [evaluate(pointer_of(one), known) // 2 for one in instructions(k.function, "load")]
        written = [evaluate(pointer_of(one), known) // 2 for one in instructions(k.function, "store")]
        elements = [start + place for start in read for place in range(8)]
        places = [start + place for start in written for place in range(2)]
        assert len(elements) == 32
        assert dict(zip(elements, places, strict=True)) == {e: SWIZZLED(e // 64, e % 64) for e in elements}
    assert Counter(word for word in scene.ptx().split() if word.startswith(("ld.global", "st.shared"))) == {
        "ld.global.v4.b32": 4,
        "st.shared.b32": 16,
    }


def test_ldmatrix_reads_rows_of_the_swizzled_tile():
    """Each lane's address against the layout: lanes 0-15 rows of the first eight columns, the others of the next."""
    scene = Scene()
    k = scene.k
    copy = make_tiled_copy_A(ldmatrix_copy(f16), MMA)
    mine = copy.get_slice(scene.thread)
    fragment = k.register_tensor(f16, MMA.partition_shape_A((64, 64)))
    k.copy(copy, scene.tile.partition(mine.partition_S), fragment.retile(mine.retile_D))
    calls = list(instructions(k.function, "ldmatrix"))
    assert len(calls) == 8
    for (step, m), call in zip(itertools.product(range(4), range(2)), calls, strict=True):
        for thread in range(128):
            lane, warp = thread % 32, thread // 32 % 2
            row, column = 32 * m + 16 * warp + lane % 16, 16 * step + lane // 16 * 8
            assert evaluate(call.args[0], {"tid.x": thread}) == 2 * SWIZZLED(row, column)


def test_a_gemm_of_tiles_assembles():
    """The whole way: cp.async, swizzled tiles, ldmatrix, mma.sync, stmatrix, and rows of 16 bytes to global memory."""
    compiled = gemm.compile()
    found = Counter(word.rstrip(";") for word in compiled.ptx.split())
    assert found["ldmatrix.sync.aligned.m8n8.x4.shared.b16"] == 16
    assert found["cp.async.cg.shared.global"] == 8
    assert found["stmatrix.sync.aligned.m8n8.x4.shared.b16"] == 4
    assert found["st.global.v4.b32"] == 4
    assert found["mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"] == 32
    assert [used.spill_stores_bytes for used in compiled.cubin.resources] == [0]


def test_accesses_are_known_to_the_analyses():
    """The machine form has the allocation, also behind the arithmetic of a swizzle."""
    scene = Scene()
    scene.fill()
    copies = [
        one for block in scene.k.machine.blocks.values() for one in block.instructions if one.opcode == "cp.async"
    ]
    assert len(copies) == 4
    assert all([touch.object.name for touch in one.memory] == ["tile"] for one in copies)


@pytest.mark.parametrize(("count", "transposed", "operand"), [(1, True, "A"), (2, False, "C"), (4, True, "C")])
def test_matrices_through_registers_assemble(count, transposed, operand):
    """Four registers at once, two or one: of a tile of 64 x 64, A is read by two warps, C by one."""
    text = build(through_matrices(count, transposed, operand), threads=THREADS).compile().ptx
    form = f".sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    times = 64 * 64 // (64 * count) // (2 if operand == "A" else 4)
    assert (text.count(f"ldmatrix{form}"), text.count(f"stmatrix{form}")) == (times, times)


@pytest.mark.parametrize(("element", "bits"), [(u8, 8), (u8, 16), (u8, 64), (f16, 16), (f32, 128)])
def test_loads_of_every_width_assemble(element, bits):
    text = build(through_registers(element, bits), threads=THREADS).compile().ptx
    names = {8: "b8", 16: "b16", 64: "v2.b32", 128: "v4.b32"}
    assert text.count(f"ld.shared.{names[bits]}") == 64 * 64 * element.bits // bits // THREADS


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("major", Major)
def test_boxes_of_a_tile_assemble(major, whole):
    kind, body = tma_boxes(major, SwizzleMode.B64, (2, 1) if major is Major.MN else (1, 2), whole)
    text = build(body, threads=THREADS, extra=[Parameter("tensor_map", kind)]).compile().ptx
    assert text.count("cp.async.bulk.tensor.2d.shared::cluster.global") == {Major.K: 2, Major.MN: 4}[major]


# -- single elements and tiles -----------------------------------------------------------------------------------------


def test_elements_and_tiles():
    scene = Scene()
    k = scene.k
    part = scene.matrix.tile((16, 32), (2, 1))
    assert part.shape == (16, 32)
    scene.tile[3, scene.thread % 8] = part[3, 5]
    (load,) = instructions(k.function, "load")
    (store,) = instructions(k.function, "store")
    known = {"tid.x": 6, "source": 4096}
    assert evaluate(pointer_of(load), known) == 4096 + 2 * (64 * (2 * 16 + 3) + 32 + 5)
    assert evaluate(pointer_of(store), known) == 2 * SWIZZLED(3, 6)
    assert scene.matrix.tile((16, 32), (None, 1)).shape == (16, 32, 4)
    assert scene.tile[None, 3].shape == (64,)


def test_registers_element_by_element():
    scene = Scene()
    registers = scene.k.register_tensor(f16, (4, 2))
    registers[1, 1] = 1.5
    assert registers[1, 1].type is f16
    assert len(registers.registers()) == 4
    assert len(registers[None, 1].registers()) == 2
    words = scene.k.register_tensor(f32, Layout((2, 3)))
    assert [value.type for value in words.registers()] == [f32] * 6


def test_256_bits_on_sm_100():
    copy = make_tiled_copy(universal_copy(f16, 256), Layout((32, 4), (4, 1)), Layout((1, 16)))
    scene = Scene("sm_100a", align=32)
    mine = copy.get_slice(scene.thread)
    source = scene.matrix.partition(mine.partition_S)
    registers = scene.k.register_tensor(f16, source.shape)
    scene.k.copy(copy, source, registers)
    behind = scene.k.tensor(scene.source + 64 * 64, Layout((64, 64), (64, 1)))
    scene.k.copy(copy, registers, behind.partition(mine.partition_D))
    text = scene.ptx()
    assert text.count("ld.global.v4.b64") == text.count("st.global.v4.b64") == 2


# -- edges -------------------------------------------------------------------------------------------------------------


def test_what_is_outside_is_not_copied():
    """The predicate of every copy, evaluated: true for rows and columns below the bounds."""
    scene = Scene()
    k = scene.k
    mine = ROWS.get_slice(scene.thread)
    inside = k.identity_tensor((64, 64), at=(128, 0)).partition(mine.partition_S).below(scene.n, scene.n * 8)
    scene.fill(where=inside)
    ignored = [one.args[-1] for one in k.function.entry_basic_block.instructions if "cp.async.ca" in str(one)]
    for thread in range(128):
        rows = [128 + 16 * step + thread // 8 for step in range(4)]
        found = [evaluate(predicate, {"tid.x": thread, "n": 150}) for predicate in ignored]
        assert found == [int(row >= 150) for row in rows]
    assert scene.ptx().count("cp.async.ca.shared.global") == 4


def test_loads_and_stores_under_a_condition():
    scene = Scene("sm_80")
    k = scene.k
    copy = make_tiled_copy(universal_copy(f16, 128), Layout((16, 8), (8, 1)), Layout((1, 8)))
    mine = copy.get_slice(scene.thread)
    inside = k.identity_tensor((64, 64)).partition(mine.partition_S).below(scene.n, None)
    source = scene.matrix.partition(mine.partition_S)
    registers = k.register_tensor(f16, source.shape)
    k.copy(copy, source, registers, where=inside)
    k.copy(copy, registers, scene.matrix.partition(mine.partition_D), where=inside)
    for kind in ("load", "store"):
        assert [one.parent.name.partition(".")[0] for one in instructions(k.function, kind)] == ["then"] * 4
    text = scene.ptx()
    assert text.count("ld.global.v4.b32") == text.count("st.global.v4.b32") == 4


@pytest.mark.parametrize("n", [0, 10, 64])
def test_what_is_outside_becomes_zero_in_shared_memory(n):
    """As cp.async with ignored bytes has it: what was there does not stay."""

    @nvb.kernel("sm_80", threads=64)
    def masked(k, x: Pointer(f32), y: Pointer(f32), n: i32):
        words, thread, rows = k.shared(f32, 128, name="tile"), k.thread_id(), Layout((64, 2), (2, 1))
        words[thread], words[thread + 64] = 7.0, 7.0
        k.barrier.sync()
        copy = make_tiled_copy(universal_copy(f32, 32), Layout((64, 1), (1, 64)), Layout((1, 2), (2, 1)))
        mine = copy.get_slice(thread)
        inside = k.identity_tensor((64, 2)).partition(mine.partition_S).below(n, None)
        source, tile = (k.tensor(one, rows) for one in (x, words))
        k.copy(copy, source.partition(mine.partition_S), tile.partition(mine.partition_D), where=inside)
        k.barrier.sync()
        y[thread], y[thread + 64] = words[thread], words[thread + 64]

    x, y = np.arange(1, 129, dtype=np.float32), np.full(128, -1, np.float32)
    compiled = masked.compile(cache=nvb.Cache.disabled(), assemble=False)
    nvb.runtime.load(compiled, device="simulator").launch(1, x, y, n)
    assert y.tolist() == [*x[: 2 * n], *np.zeros(128 - 2 * n)]


def test_the_same_program_gives_the_same_text():
    scenes = [Scene() for _ in range(2)]
    for scene in scenes:
        scene.fill()
    assert len({str(scene.k.function) for scene in scenes}) == 1


def test_tensors_of_another_kernel():
    one, other = Scene(), Scene()
    with pytest.raises(DiagnosticError) as caught:
        one.k.tensor(other.source, Layout(64))
    assert [found.rule.id for found in caught.value.diagnostics] == ["value.kernel"]


@pytest.mark.parametrize("packed", [4, 6])
def test_narrow_elements_are_unpacked(packed):
    """Each lane gives the address of one row of 16 bytes, and gets a register of four bytes of each matrix."""
    scene = Scene(target="sm_120a", element=u8, threads=32, layout=Layout((64, 64), (64, 1)))
    copy = make_tiled_copy(ldmatrix_copy(u8, 4, packed=packed), Layout((8, 4), (4, 1)), Layout((4, 4), (4, 1)))
    mine = copy.get_slice(scene.thread)
    part = scene.tile.tile((32, 16), (0, 0)).partition(mine.partition_S)
    registers = scene.k.register_tensor(u8, mine.partition_D(Layout((32, 16))).shape)
    scene.k.copy(copy, part, registers)
    qualifier = {4: "b8x16.b4x16_p64", 6: "b8x16.b6x16_p32"}[packed]
    assert scene.ptx().count(f"ldmatrix.sync.aligned.m8n16.x4.shared.{qualifier}") == 1


@pytest.mark.parametrize("kind", [i32, u32, s64], ids=str)
def test_an_index_is_compared_in_its_own_type(kind):
    """One that is known in s32; a dimension without a bound counts for nothing."""
    parameters = [Parameter("out", Pointer(u32)), Parameter("begin", Scalar(kind)), Parameter("end", Scalar(kind))]
    k = KernelBuilder("inside", "sm_80", threads=32, parameters=parameters)
    out, begin, end = k.arguments
    known, moved = (k.identity_tensor((32, 2), at=first) for first in ((7, 2), (begin, begin)))
    bounded = (known.below(end.to(i32), None), known.below(None, 3), moved.below(end, None), moved.below(end, 3))
    for place, inside in enumerate(bounded):
        for row in range(2):
            out[place * 2 + row] = k.select(inside.holds((5 + row, row)), k.const(1, u32), 0)
    assert known.below(None, None).holds((3, 0)) is None
    loaded = nvb.runtime.load(k.compile(assemble=False), device="simulator")
    for first, last in ((1, 12), (1, 13), (1, 7), (2, 7), (2, 8), (3, 14)):
        got = np.zeros(8, np.uint32)
        loaded.launch(1, got, first, last)
        rows = [[at + row < last for row in (5, 6)] for at in (7, first)]
        columns = [[True, False], [first < 3, first + 1 < 3]]
        both = [one and other for one, other in zip(rows[1], columns[1], strict=True)]
        assert got.tolist() == [*rows[0], *columns[0], *rows[1], *both]


PLACES = {
    "a tile": lambda k, x, n: k.tensor(x, Layout((8, 32), (32, 1))).tile((1, 32), (3, 0)),
    "a tile of a run-time pitch": lambda k, x, n: k.tensor(x, Layout((8, 32), (n, 1))).tile((1, 32), (3, 0)),
    "a tile at a run-time row": lambda k, x, n: k.tensor(x, Layout((8, 32), (n, 1))).tile((1, 32), (n // 10, 0)),
    "a part": lambda k, x, n: k.tensor(x, Layout((8, 32), (32, 1)))[3, None],
    "a part of columns": lambda k, x, n: k.tensor(x, Layout((32, 8), (1, n)))[None, 3],
    "the whole": lambda k, x, n: k.tensor(x + 96, Layout((5, 32), (32, 1))),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_address_of_a_tensor_is_where_it_begins(place):
    """Not where the tensor begins of which it is a tile or a part."""

    @nvb.kernel("sm_80", threads=32)
    def third_row(k, x: nvb.Pointer[f32], n: nvb.i32, out: nvb.Pointer[f32]):
        out[k.thread_id()] = PLACES[place](k, x, n).address[k.thread_id()]

    x, out = np.arange(256, dtype=np.float32), np.zeros(32, np.float32)
    nvb.runtime.load(third_row.compile(assemble=False), device="simulator").launch(1, x, 32, out)
    assert np.array_equal(out, x[96:128])
