"""Tiles that are filled by one swizzle and read by another, or that may be: `program(scene)`."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import Major, SmemDescriptor, SmemLayout, SwizzleMode, f16, f32, i32, u32, u64
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.layout import ComposedLayout, Layout
from nvbackend.layout import Swizzle as LayoutSwizzle
from nvbackend.signature import Parameter, Pointer, Scalar, TensorMap
from tests.rules.programs.program import breaks, keeps

NARROW, WIDE, PLAIN = ((f16, (64, 32), 64), (f16, (64, 32), 128), (f16, (64, 32), 0))
REQUEST = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32, a_in_registers=True)


class Scene:
    """Room for a tile of 64 x 32, maps of three swizzles that fill it, and an mma that reads it as B."""

    def __init__(self):
        maps = [Parameter(name, TensorMap(*facts)) for name, facts in zip("nwp", (NARROW, WIDE, PLAIN), strict=True)]
        more = [Parameter("turns", Scalar(i32)), Parameter("pointer", Pointer(u32))]
        self.k = KernelBuilder("kernel", "sm_90a", threads=128, parameters=[*maps, *more])
        self.narrow, self.wide, self.plain, self.turns, self.pointer = self.k.arguments
        self.thread = self.k.thread_id()
        self.memory = self.k.shared(f16, 64 * 32, align=1024, name="memory")
        self.a = self.k.wgmma.fragment([self.k.const(0, u32)] * 4, f16)
        self.acc = self.k.wgmma.accumulator(64)
        self.full = self.k.mbarrier.array(1, arrivals=1, name="full")
        self.k.mbarrier.ready()

    def tile(self, swizzle, memory=None):
        return SharedTile(memory or self.memory, SmemLayout(Major.K, swizzle, f16, 64, 32))

    def fill(self, *maps, memory=None):
        with self.k.one_thread():
            self.k.mbarrier.arrive(self.full, expect_tx=64 * 32 * 2 * len(maps))
            for one in maps:
                self.k.tma.load_box(memory or self.memory, one, (0, 0), self.full)
        self.k.mbarrier.wait(self.full, 0)

    def store(self, place):
        """16 bytes at this place of the tile."""
        self.memory.cast(u32).byte_offset(place, align=16).store(0, 0, 0, 0)

    def write(self, bits, pitch):
        """Store the tile by a layout of rows of `pitch` bytes, of which a swizzle changes so many bits."""
        layout = ComposedLayout(LayoutSwizzle(bits, 4, 3), 0, Layout((128, pitch), (pitch, 1)))
        for turn in range(2):
            self.store(layout(self.thread // 4 + 32 * turn, self.thread % 4 * 16))
        self.k.fence.proxy_async()
        self.k.barrier.sync()

    def write_matrices(self, bits, pitch):
        """As `write`, by stmatrix."""
        layout = ComposedLayout(LayoutSwizzle(bits, 4, 3), 0, Layout((128, pitch), (pitch, 1)))
        row = self.thread // 32 * 16 + self.thread % 16
        for turn in range(2):
            place = layout(row, self.thread // 16 % 2 * 16 + 32 * turn)
            self.k.mma.stmatrix(self.memory.byte_offset(place, align=16), [self.k.const(0, u32)] * 4)
        self.k.fence.proxy_async()
        self.k.barrier.sync()

    def write_in_order(self, bits, pitch):
        """As `write`, by stores that another CTA would see in their order."""
        layout = ComposedLayout(LayoutSwizzle(bits, 4, 3), 0, Layout((128, pitch), (pitch, 1)))
        words = self.memory.cast(u32)
        for turn in range(2):
            place = words.byte_offset(layout(self.thread // 4 + 32 * turn, self.thread % 4 * 16), align=16)
            place.store(0, order="relaxed", scope="cta")
        self.k.fence.proxy_async()
        self.k.barrier.sync()

    def send(self, to):
        """Store the tile to global memory, told at the caller's line."""
        with self.k.one_thread():
            self.k.tma.store_box(to, (0, 0), self.memory)
            self.k.tma.commit_group()
            self.k.tma.wait_group(reading=True)


@keeps()
def same_swizzle(s):
    s.fill(s.narrow)
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.B64), REQUEST)


@keeps()
def one_of_two_copies(s):
    s.fill(s.wide, s.narrow)
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.B64), REQUEST)


@keeps()
def laid_out_in_global_memory(s):
    s.fill(s.plain)
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.B64), REQUEST)


@keeps()
def rearranged_by_ordinary_code(s):
    s.fill(s.narrow)
    s.memory.cast(u32)[s.turns] = 0
    s.k.fence.proxy_async()
    s.k.barrier.sync()
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.B32), REQUEST)


@keeps()
def another_allocation(s):
    other = s.k.shared(f16, 64 * 32, align=1024, name="other")
    s.fill(s.narrow, memory=other)
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.B32), REQUEST)


@keeps()
def filled_at_a_place_that_is_not_known_too(s):
    s.fill(s.narrow)
    s.fill(s.wide, memory=s.k.shared_address(s.turns.to(u32), f16, align=1024))
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.B32), REQUEST)


@keeps()
def rearranged_at_a_place_that_is_not_known(s):
    s.fill(s.narrow)
    s.k.shared_address(s.turns.to(u32), u32, align=4).store(0)
    s.k.fence.proxy_async()
    s.k.barrier.sync()
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.B32), REQUEST)


@keeps()
def stored_by_the_layout_that_is_read(s):
    s.write(2, 64)
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.B64), REQUEST)
    s.send(s.narrow)


@keeps()
def stored_by_matrices_as_it_is_read(s):
    s.write_matrices(2, 64)
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.B64), REQUEST)
    s.send(s.narrow)


@keeps()
def stored_in_order_as_it_is_read(s):
    s.write_in_order(2, 64)
    s.send(s.narrow)


@keeps()
def stored_in_rows_that_the_threads_may_have_swizzled(s):
    s.write(0, 64)
    s.send(s.narrow)


@keeps()
def stored_with_an_exclusive_or_that_no_map_has(s):
    s.store(ComposedLayout(LayoutSwizzle(2, 4, 4), 0, Layout((64, 64), (64, 1)))(s.thread // 4, s.thread % 4 * 16))
    s.send(s.wide)


@keeps()
def swizzled_for_a_map_that_has_none(s):
    s.write(2, 64)
    s.send(s.plain)


@keeps()
def loaded_by_threads_that_may_unswizzle_it(s):
    s.fill(s.narrow)
    s.k.mma.ldmatrix(s.memory.byte_offset(s.thread * 16, align=16), 4)


@breaks("descriptor.swizzle")
def fenced_though_nothing_is_stored(s):
    s.fill(s.narrow)
    s.k.fence.proxy_async()
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.B32), REQUEST)  # breaks


@breaks("descriptor.swizzle")
def stored_and_multiplied(s):
    s.write(2, 64)
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.B32), REQUEST)  # breaks


@breaks("descriptor.swizzle")
def stored_by_matrices_and_multiplied(s):
    s.write_matrices(2, 64)
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.B32), REQUEST)  # breaks


@breaks("descriptor.swizzle")
def stored_in_order_and_sent(s):
    s.write_in_order(2, 64)
    s.send(s.wide)  # breaks


@breaks("descriptor.swizzle")
def stored_and_sent(s):
    s.write(2, 64)
    s.send(s.wide)  # breaks


@breaks("descriptor.swizzle")
def stored_by_an_exclusive_or_of_its_own(s):
    row = s.thread
    for chunk in range(4):
        s.store(row * 64 + (row // 2 % 4 ^ chunk) * 16)
    s.k.fence.proxy_async()
    s.k.barrier.sync()
    s.send(s.wide)  # breaks


@breaks("descriptor.swizzle")
def multiplied_by_a_descriptor_of_its_own(s):
    s.fill(s.narrow)
    address = s.memory.bytes
    word = SmemDescriptor(0, 16, 256, swizzle=SwizzleMode.B32).encode()
    descriptor = ((address & 0x3FFFF) >> 4).to(u64) | word
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, descriptor + 2, REQUEST)  # breaks


@breaks("descriptor.swizzle")
def loaded_by_another_layout(s):
    s.fill(s.narrow)
    rows = ComposedLayout(LayoutSwizzle(3, 4, 3), 0, Layout((32, 128), (128, 1)))
    s.k.mma.ldmatrix(s.memory.byte_offset(rows(s.thread % 16, s.thread // 16 % 2 * 16), align=16), 4)  # breaks


@breaks("descriptor.swizzle")
def copied_and_loaded_by_another_layout(s):
    rows, others = (
        ComposedLayout(LayoutSwizzle(bits, 4, 3), 0, Layout((64, pitch), (pitch, 1)))
        for bits, pitch in ((2, 64), (3, 128))
    )
    place = s.memory.byte_offset(rows(s.thread // 4, s.thread % 4 * 16), align=16)
    s.k.cp_async.copy(place, s.pointer.byte_offset(s.thread * 16, align=16), 16)
    s.k.cp_async.commit_group()
    s.k.cp_async.wait_group(0)
    s.k.barrier.sync()
    s.k.mma.ldmatrix(s.memory.byte_offset(others(s.thread % 16, s.thread // 16 % 2 * 16), align=16), 4)  # breaks


@breaks("descriptor.swizzle")
def narrower(s):
    s.fill(s.narrow)
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.B32), REQUEST)  # breaks


@breaks("descriptor.swizzle")
def none_in_the_descriptor(s):
    s.fill(s.narrow)
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.NONE), REQUEST)  # breaks
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.NONE), REQUEST, b_at=(0, 16))


@breaks("descriptor.swizzle")
def filled_in_a_loop(s):
    with s.k.range(s.turns):
        s.fill(s.narrow)
        with s.k.wgmma.group():
            s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.B64), REQUEST)
    with s.k.wgmma.group():
        s.k.wgmma.mma_async(s.acc, s.a, s.tile(SwizzleMode.B32), REQUEST)  # breaks
