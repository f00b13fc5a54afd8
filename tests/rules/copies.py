"""Copy atoms, tiled copies, the boxes of TMA, and tensors."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f16, f32, i32, u8
from nvbackend.layout import ComposedLayout, Layout, SmemPtr, Swizzle
from nvbackend.tiled import (
    cp_async_copy,
    ldmatrix_copy,
    make_tiled_copy,
    make_tma_copy,
    tma_partition,
    universal_copy,
)
from nvbackend.tiled.vectorize import access_faults
from tests.rules.example import kernel, program


@program("copy.alignment")
def rows_of_nine_words():
    """Of the source, addresses are known to be multiples of 4 bytes."""
    copy = make_tiled_copy(universal_copy(f32, 128), Layout((8, 4), (4, 1)), Layout((1, 4)))  # breaks
    copy = make_tiled_copy(universal_copy(f32, 32), Layout((8, 4), (4, 1)), Layout((1, 4)))  # keeps
    part = copy.get_slice(0).partition_S(Layout((8, 16), (36, 1)))
    return access_faults(copy.atom, part.layout, "the source", 4)


@program("copy.box")
def a_padded_tile():
    tensor = Layout((1024, 512), (512, 1))
    make_tma_copy(f16, tensor, Layout((64, 64), (72, 1)))  # breaks
    make_tma_copy(f16, tensor, Layout((64, 64), (64, 1)))  # keeps


@kernel("copy.boxes")
def a_tile_in_two_boxes(k, matrix: nvb.TensorMap(f16, box=(64, 64), swizzle=0)):
    tensor = Layout((1024, 512), (512, 1))
    layout = Layout((128, 64), (64, 1))  # breaks
    layout = Layout((64, 64), (64, 1))  # keeps
    tile = k.tensor(k.shared(f16, 128 * 64, align=128), layout)
    full = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=64 * 64 * 2)
        k.copy(make_tma_copy(f16, tensor, layout), matrix, tile, at=(0, 0), barrier=full)
    k.mbarrier.wait(full, 0)


@program("copy.element")
def words_through_the_transpose_of_halves():
    ldmatrix_copy(f32, 4, transposed=True)  # breaks
    ldmatrix_copy(f16, 4, transposed=True)  # keeps


@program("copy.fragment")
def a_fragment_of_another_mma():
    copy = make_tiled_copy(universal_copy(f16, 32), Layout((8, 4), (4, 1)), Layout((1, 4)))
    copy.retile(Layout((3, 2, 2)))  # breaks
    copy.retile(Layout((4, 2, 2)))  # keeps


@program("copy.multicast")
def one_box_for_two_ctas():
    tensor, tile = Layout((1024, 512), (512, 1)), Layout((64, 64), (64, 1))
    copy = make_tma_copy(f16, tensor, tile)  # breaks
    copy = make_tma_copy(f16, tensor, tile, multicast=2)  # keeps
    tma_partition(copy, 0, 2)


@kernel("copy.operands", "sm_80")
def into_registers_without_a_load(k, a: nvb.Pointer[f16]):
    copy = make_tiled_copy(cp_async_copy(f16), Layout((16, 8), (8, 1)), Layout((1, 8)))  # breaks
    copy = make_tiled_copy(universal_copy(f16, 128), Layout((16, 8), (8, 1)), Layout((1, 8)))  # keeps
    part = k.tensor(a, Layout((16, 64), (64, 1))).partition(copy.get_slice(k.thread_id()).partition_S)
    registers = k.register_tensor(f16, part.shape)
    k.copy(copy, part, registers)


@program("copy.threads")
def half_a_warp_for_ldmatrix():
    make_tiled_copy(ldmatrix_copy(f16), Layout((4, 4), (4, 1)), Layout((2, 4)))  # breaks
    make_tiled_copy(ldmatrix_copy(f16), Layout((8, 4), (4, 1)), Layout((2, 4)))  # keeps


@program("copy.tile")
def rows_that_are_one():
    make_tiled_copy(universal_copy(f16), Layout((4, 8), (0, 1)), Layout((1, 2)))  # breaks
    make_tiled_copy(universal_copy(f16), Layout((4, 8), (8, 1)), Layout((1, 2)))  # keeps


@program("copy.vector")
def vectors_across_the_rows():
    copy = make_tiled_copy(universal_copy(f16, 128), Layout((4, 8), (8, 1)), Layout((1, 8)))  # breaks
    copy = make_tiled_copy(universal_copy(f16, 128), Layout((4, 8)), Layout((8, 1)))  # keeps
    part = copy.get_slice(0).partition_S(Layout((64, 64), (1, 64)))
    return access_faults(copy.atom, part.layout, "the source", 16)


@program("copy.width")
def three_matrices():
    ldmatrix_copy(f16, 3)  # breaks
    ldmatrix_copy(f16, 2)  # keeps


@kernel("copy.where", "sm_80")
def an_end_in_the_middle_of_a_vector(k, a: nvb.Pointer[f16], n: i32):
    """Of n nothing is known; n * 8 is a multiple of the eight elements that a thread copies at once."""
    copy = make_tiled_copy(universal_copy(f16, 128), Layout((16, 8), (8, 1)), Layout((1, 8)))
    mine = copy.get_slice(k.thread_id())
    part = k.tensor(a, Layout((16, 64), (64, 1))).partition(mine.partition_S)
    places = k.identity_tensor((16, 64)).partition(mine.partition_S)
    inside = places.below(None, n)  # breaks
    inside = places.below(None, n * 8)  # keeps
    k.copy(copy, part, k.register_tensor(f16, part.shape), where=inside)


@kernel("tensor.below", "sm_80")
def the_bound_of_the_rows_alone(k, a: nvb.Pointer[f16], n: i32):
    copy = make_tiled_copy(universal_copy(f16), Layout((16, 8), (8, 1)))
    mine = copy.get_slice(k.thread_id())
    part = k.tensor(a, Layout((16, 64), (64, 1))).partition(mine.partition_S)
    places = k.identity_tensor((16, 64)).partition(mine.partition_S)
    inside = places.below(n)  # breaks
    inside = places.below(n, 64)  # keeps
    k.copy(copy, part, k.register_tensor(f16, part.shape), where=inside)


@kernel("tensor.open-coordinate", "sm_80")
def whether_a_whole_row_is_inside(k, a: nvb.Pointer[f16], n: i32):
    inside = k.identity_tensor((16, 64)).below(n, 64)
    found = inside.holds((0, None))  # breaks
    found = inside.holds((0, 63))  # keeps
    with k.if_(found):
        a[0] = 1.0


@kernel("tensor.base", "sm_90a")
def a_swizzled_tile_at_any_place(k):
    memory = k.shared(f16, 64 * 64, align=128)  # breaks
    memory = k.shared(f16, 64 * 64, align=1024)  # keeps
    k.tensor(memory, ComposedLayout(Swizzle(3, 4, 3), SmemPtr(16), Layout((64, 64), (64, 1))))


@kernel("tensor.element", "sm_90a")
def halves_in_memory_of_bytes(k):
    memory = k.shared(u8, 64 * 128, align=1024)
    k.tensor(memory, ComposedLayout(Swizzle(3, 4, 3), SmemPtr(16), Layout((64, 64), (64, 1))))  # breaks
    k.tensor(memory.cast(f16), ComposedLayout(Swizzle(3, 4, 3), SmemPtr(16), Layout((64, 64), (64, 1))))  # keeps


@kernel("tensor.bounds", "sm_90a")
def padding_that_was_not_allocated(k):
    memory = k.shared(f16, 64 * 64)  # breaks
    memory = k.shared(f16, 64 * 72)  # keeps
    k.tensor(memory, Layout((64, 64), (72, 1)))


@kernel("tensor.multiple", "sm_90a")
def rows_that_promise_nothing(k, a: nvb.Pointer[f16], pitch: i32):
    k.tensor(a, Layout((64, 64), (pitch, 1)), multiple_of=0)  # breaks
    k.tensor(a, Layout((64, 64), (pitch, 1)), multiple_of=8)  # keeps


@kernel("tensor.registers", "sm_90a")
def half_a_register(k):
    registers = k.register_tensor(f16, (3, 2))  # breaks
    registers = k.register_tensor(f16, (4, 2))  # keeps
    registers[None, 1].registers()


@kernel("tensor.register-count", "sm_90a")
def a_matrix_in_one_thread(k):
    k.register_tensor(f32, (64, 64))  # breaks
    k.register_tensor(f32, (8, 8))  # keeps


@kernel("tensor.register-index", "sm_90a")
def a_register_by_its_number(k, out: nvb.Pointer[f32]):
    registers = k.register_tensor(f32, 4)
    with k.range(4) as i:  # breaks
        out[i] = registers[i]  # breaks
    for i in range(4):  # keeps
        out[i] = registers[i]  # keeps


@kernel("tensor.coordinate", "sm_90a")
def the_row_after_the_last(k, out: nvb.Pointer[f32]):
    matrix = k.tensor(out, Layout((8, 8), (8, 1)))
    matrix[8, 0] = 1.0  # breaks
    matrix[7, 0] = 1.0  # keeps


@kernel("copy.tma-only", "sm_80")
def threads_that_wait_at_an_mbarrier(k, a: nvb.Pointer[f16]):
    copy = make_tiled_copy(universal_copy(f16, 128), Layout((16, 8), (8, 1)), Layout((1, 8)))
    part = k.tensor(a, Layout((16, 64), (64, 1))).partition(copy.get_slice(k.thread_id()).partition_S)
    registers, full = k.register_tensor(f16, part.shape), k.mbarrier.array(1, 1)
    k.copy(copy, part, registers, barrier=full)  # breaks
    k.copy(copy, part, registers)  # keeps
