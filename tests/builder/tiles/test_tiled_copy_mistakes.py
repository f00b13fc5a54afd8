"""k.tensor and k.copy: mistakes, and what only looks like one."""

from __future__ import annotations

import itertools

import pytest

from nvbackend import DiagnosticError, Pointer, bf16, e2m1, e3m2, f16, f64, u8
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.layout import ComposedLayout, Layout, SmemPtr, Swizzle
from nvbackend.signature import Parameter
from nvbackend.tiled import (
    ldmatrix_copy,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_C,
    stmatrix_copy,
    universal_copy,
)
from tests.support import copy_scene
from tests.support.copy_scene import MMA, ROWS, SWIZZLED, Scene
from tests.support.said import said


def narrow_pointer():
    Scene(align=8).fill()


def odd_pitch():
    scene = Scene()
    scene.fill(matrix=scene.k.tensor(scene.source, Layout((64, 64), (scene.n * 4, 1))))


def any_pitch():
    scene = Scene()
    scene.fill(matrix=scene.k.tensor(scene.source, Layout((64, 64), (scene.n, 1))))


def columns():
    scene = Scene()
    scene.fill(matrix=scene.k.tensor(scene.source, Layout((64, 64), (1, 64))))


def unknown_steps():
    scene = Scene()
    scene.fill(matrix=scene.k.tensor(scene.source, Layout((64, 64), (64, scene.n))))


def to_the_wrong_side():
    scene = Scene()
    mine = ROWS.get_slice(scene.thread)
    scene.k.copy(ROWS, scene.tile.partition(mine.partition_S), scene.matrix.partition(mine.partition_D))


def another_type():
    scene = Scene(element=u8)
    mine = ROWS.get_slice(scene.thread)
    scene.k.copy(ROWS, scene.matrix.partition(mine.partition_S), scene.tile.partition(mine.partition_D))


def of_two_types():
    """As wide as the copy's, but no conversion is done."""
    scene = Scene()
    copy = make_tiled_copy(universal_copy(f16, 128), Layout((16, 8), (8, 1)), Layout((1, 8)))
    mine = copy.get_slice(scene.thread)
    other = scene.k.tensor(scene.k.shared(bf16, 64 * 64, align=16), Layout((64, 64), (64, 1)))
    scene.k.copy(copy, scene.matrix.partition(mine.partition_S), other.partition(mine.partition_D))


def another_tile():
    scene = Scene()
    mine = ROWS.get_slice(scene.thread)
    half = scene.matrix.tile((32, 64), (0, 0))
    scene.k.copy(ROWS, half.partition(mine.partition_S), scene.tile.partition(mine.partition_D))


def not_retiled():
    scene = Scene()
    copy = make_tiled_copy_C(stmatrix_copy(f16), MMA)
    fragment = scene.k.register_tensor(f16, MMA.partition_shape_C((64, 64)))
    scene.k.copy(copy, fragment, scene.tile.partition(copy.get_slice(scene.thread).partition_D))


def threads_beyond():
    Scene(threads=256).fill()


def threads_beyond_in_a_block():
    scene = Scene(threads=256)
    with scene.k.if_(scene.thread >= 96):
        scene.fill()


def wide_on_hopper():
    copy = make_tiled_copy(universal_copy(f16, 256), Layout((32, 4), (4, 1)), Layout((1, 16)))
    scene = Scene(align=32)
    mine = copy.get_slice(scene.thread)
    scene.k.copy(copy, scene.matrix.partition(mine.partition_S), scene.matrix.partition(mine.partition_D))


def an_end_in_the_middle():
    scene = Scene()
    mine = ROWS.get_slice(scene.thread)
    scene.fill(where=scene.k.identity_tensor((64, 64)).partition(mine.partition_S).below(64, scene.n))


def where_of_a_warp():
    scene = Scene()
    copy = make_tiled_copy_A(ldmatrix_copy(f16), MMA)
    mine = copy.get_slice(scene.thread)
    fragment = scene.k.register_tensor(f16, MMA.partition_shape_A((64, 64)))
    inside = scene.k.identity_tensor((64, 64)).partition(mine.partition_S).below(scene.n, None)
    scene.k.copy(copy, scene.tile.partition(mine.partition_S), fragment.retile(mine.retile_D), where=inside)


def too_few_threads():
    scene = Scene(threads=64)
    scene.fill()


def _whole(source, destination, where=None):
    scene = Scene()
    tiles = [
        scene.k.tensor(scene.k.shared(f16, 64 * 64, align=128), Layout(shape, (64, 1)))
        for shape in (source, destination)
    ]
    copy = make_tiled_copy(universal_copy(f16, 128), Layout((16, 8), (8, 1)), Layout((1, 8)))
    inside = None if where is None else scene.k.identity_tensor(source).below(where, None)
    scene.k.copy_tile(copy, *tiles, where=inside)
    return scene


def tiles_of_two_shapes():
    _whole((64, 64), (64, 32))


def a_tile_that_is_narrower_than_the_threads():
    _whole((64, 32), (64, 32))


def a_tile_with_a_part_of_their_rows():
    _whole((40, 64), (40, 64))


def nibbles():
    k = KernelBuilder("nibbles", "sm_90a", threads=32, parameters=[Parameter("a", Pointer(e2m1))])
    k.tensor(k.arguments[0], Layout(64))


def a_nibble():
    registers = Scene().k.register_tensor(e2m1, (16, 2))
    registers[3, 1]


def six_bits():
    Scene().k.register_tensor(e3m2, (16, 2))


def past_the_end():
    scene = Scene()
    scene.k.tensor(scene.k.shared(f16, 63 * 64, align=1024, name="short"), SWIZZLED)


def a_swizzle_from_the_middle():
    scene = Scene()
    layout = ComposedLayout(Swizzle(3, 4, 3), SmemPtr(16), Layout((64, 64), (64, 1)))
    scene.k.tensor(scene.k.shared(f16, 64 * 64, align=128, name="low"), layout)


def half_a_register():
    registers = Scene().k.register_tensor(f16, (3, 2))
    registers[None, 1].registers()


def halves_of_registers():
    registers = Scene().k.register_tensor(f16, (4, 4))
    registers[0, None].registers()


def multiple_of_nothing():
    scene = Scene()
    scene.k.tensor(scene.source, Layout((64, 64), (scene.n, 1)), multiple_of=0)


MISTAKES = {
    narrow_pointer: (
        "copy.alignment",
        "the source that are multiples of 16 bytes, and this tensor's are only known to be multiples of 8",
    ),
    odd_pitch: ("copy.alignment", "take cp_async_copy(f16, 64)"),
    any_pitch: ("copy.alignment", "only known to be multiples of 2"),
    columns: ("copy.vector", "1 of them follow each other"),
    unknown_steps: ("copy.vector", "1 of them follow each other"),
    to_the_wrong_side: ("copy.operands", "it reads global memory, not shared memory"),
    another_type: ("copy.operands", "give both as tensors of f16"),
    of_two_types: ("copy.operands", "give both as tensors of f16"),
    another_tile: ("copy.operands", "(_1,_2,_1) and (_1,_4,_1) instructions"),
    not_retiled: ("copy.operands", "it would have 2 values at once, and has 8"),
    threads_beyond: ("copy.operands", "over threads 0 to 127, and thread 128 of the CTA comes as 128"),
    threads_beyond_in_a_block: ("copy.operands", "thread 128 of the CTA comes as 128"),
    wide_on_hopper: ("copy.operands", "32 bytes at once are of sm_100"),
    an_end_in_the_middle: ("copy.where", "8 elements along dimension 1 are copied at once"),
    where_of_a_warp: ("copy.where", "a warp executes it together"),
    too_few_threads: ("copy.operands", "it is laid over 128 threads, and the kernel has 64"),
    tiles_of_two_shapes: ("copy.operands", "the tiles are 64 x 64 and 64 x 32"),
    a_tile_that_is_narrower_than_the_threads: ("copy.operands", "64 x 32 is not made of 16 x 64, which the threads"),
    a_tile_with_a_part_of_their_rows: ("copy.operands", "use a tile of 48 x 64, lay the copy over"),
    nibbles: ("memory.sub-byte", "e2m1"),
    a_nibble: ("memory.sub-byte", "e2m1"),
    six_bits: ("tensor.registers", "6 bits do not fill a register"),
    past_the_end: ("tensor.bounds", "reaches 8192 bytes, and short has 8064"),
    a_swizzle_from_the_middle: ("tensor.base", "k.shared(..., align=1024)"),
    half_a_register: ("tensor.registers", "3 elements, of which 2 are in one"),
    halves_of_registers: ("tensor.registers", "elements [0, 4] are not those of one register"),
    multiple_of_nothing: ("tensor.multiple", "multiple_of=0 is not a positive number"),
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.__name__)
def test_mistakes_are_told_where_they_are_made(mistake):
    rule, words = MISTAKES[mistake]
    with pytest.raises(DiagnosticError) as caught:
        mistake()
    (found,) = caught.value.diagnostics
    assert found.rule.id == rule
    assert words in said(found)
    assert found.location is not None
    assert found.location.file in (__file__, copy_scene.__file__)


def test_where_ends_a_tile_that_is_less_than_the_threads_copy():
    assert "setp" in _whole((40, 64), (40, 64), where=40).ptx()


def test_more_threads_with_numbers_that_there_are():
    """Behind a guard, counted from 0 in each warpgroup, or by a number that nobody knows."""
    for threads in (256, 384):
        scene = Scene(threads=threads)
        with scene.k.if_(scene.thread < 128):
            scene.fill()
        scene.thread = scene.thread % 128
        scene.fill()
        scene.thread = scene.n
        scene.fill()
        assert scene.ptx().count("cp.async.ca.shared.global") == 12


def test_a_pitch_that_is_promised():
    """multiple_of says what the arithmetic of a stride does not show."""
    scene = Scene()
    scene.fill(matrix=scene.k.tensor(scene.source, Layout((64, 64), (scene.n, 1)), multiple_of=8))
    assert scene.ptx().count("cp.async.ca.shared.global") == 4


def test_an_identity_tensor_begins_at_an_index_for_each_mode() -> None:
    with pytest.raises(DiagnosticError) as caught:
        KernelBuilder("k", "sm_90a", threads=32).identity_tensor((8, 4), (0, 0, 0))
    assert [one.rule_id for one in caught.value.diagnostics] == ["tensor.coordinate"]


@pytest.mark.parametrize("element", [u8, f16, f64], ids=str)
@pytest.mark.parametrize("first", [0, 8, 40])
def test_a_tensor_ends_with_its_memory(element: ElementType, first: int) -> None:
    """That of 64 elements, from one of them on; a layout reaches the place of its last element."""
    k = KernelBuilder("k", "sm_100a", threads=32)
    memory = k.shared(element, 64) + first
    for rows, pitch in itertools.product((1, 2, 3), (4, 8, 10, 12, 20)):
        reach = (rows - 1) * pitch + 4
        layouts = [Layout((rows, 4), (pitch, 1)), ComposedLayout(Swizzle(0, 3, 3), 0, Layout((rows, 4), (pitch, 1)))]
        for layout in layouts:
            if first + reach <= 64:
                k.tensor(memory, layout)
                continue
            with pytest.raises(DiagnosticError, match=r"tensor\.bounds"):
                k.tensor(memory, layout)


@pytest.mark.parametrize("first", [-60, 0, 40])
def test_where_a_tensor_begins_at_a_number_of_the_run_nothing_is_certain(first: int) -> None:
    scene = Scene()
    memory = scene.k.shared(f16, 64)
    scene.k.tensor(memory + (scene.n + first), Layout(32))
    with pytest.raises(DiagnosticError, match=r"tensor\.bounds"):
        scene.k.tensor(memory + 40, Layout(32))
