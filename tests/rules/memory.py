"""Accesses to memory and its layout in the CTA."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import e2m1, f32, s4, s8, u8, u32, u64
from tests.rules.example import kernel


@kernel("memory.alignment")
def vector_at_one_float(k, x: nvb.Pointer(f32, align=4)):
    x.load(4)  # breaks
    x.load()  # keeps


@kernel("memory.atomic")
def greatest_of_floats(k, x: nvb.Pointer[f32]):
    x.atomic("max", 1.0)  # breaks
    x.atomic("add", 1.0)  # keeps


@kernel("memory.pointer")
def address_of_an_address(k, x: nvb.Pointer[f32], address: nvb.i64):
    k.global_address(address.ir, f32, 4)  # breaks
    k.global_address(k.function.args[0], f32, 4)  # keeps


@kernel("memory.sub-byte")
def step_of_half_a_byte(k, x: nvb.Pointer[e2m1]):
    x = x + 3  # breaks
    x = x + 4  # keeps


@kernel("memory.element")
def pair_of_nibbles(k, x: nvb.Pointer[s4], out: nvb.Pointer[s8]):
    low, high = x.load(2)  # breaks
    both = x.cast(s8)[0]  # keeps
    low, high = both.to(s4), (both >> 4).to(s4)  # keeps
    out[0], out[1] = low.to(s8), high.to(s8)


@kernel("memory.vector")
def access_of_twelve_bytes(k, x: nvb.Pointer(f32, align=16)):
    x.load(3)  # breaks
    x.load(4)  # keeps


@kernel("memory.order")
def release_that_loads(k, flag: nvb.Pointer[u32], out: nvb.Pointer[u32]):
    out[0] = flag.load(order="release", scope="gpu")[0]  # breaks
    out[0] = flag.load(order="acquire", scope="gpu")[0]  # keeps


@kernel("memory.caching")
def ordered_load_with_a_cache_operator(k, flag: nvb.Pointer[u32], out: nvb.Pointer[u32]):
    out[0] = flag.load(order="relaxed", scope="gpu", cache="cg")[0]  # breaks
    out[0] = flag.load(order="relaxed", scope="gpu", evict="L1::no_allocate")[0]  # keeps


@kernel("memory.constant")
def store_to_what_nothing_writes(k, table: nvb.Pointer(f32, const=True), out: nvb.Pointer[f32]):
    table[0] = out[1]  # breaks
    out[0] = table[1]  # keeps


@kernel("local.extent")
def local_array_without_an_element(k, out: nvb.Pointer[f32]):
    own = k.local.array(f32, 0)  # breaks
    own = k.local.array(f32, 1)  # keeps
    own[0] = out[1]
    out[0] = own[0]


@kernel("local.unwritten")
def local_array_that_nothing_sets(k, out: nvb.Pointer[f32]):
    own = k.local.array(f32, 4)
    own[0] = 1.0  # keeps
    out[k.thread_id()] = own[0]


@kernel("local.index")
def local_element_after_the_last(k, out: nvb.Pointer[f32]):
    own = k.local.array(f32, 4, fill=0.0)
    out[0] = own[4]  # breaks
    out[0] = own[3]  # keeps


@kernel("shared.alignment")
def aligned_to_more_than_the_base(k):
    k.shared(u8, 4096, align=2048)  # breaks
    k.shared(u8, 4096, align=1024)  # keeps


@kernel("shared.extent")
def alignment_that_is_no_power_of_two(k):
    k.shared(u8, 64, align=24)  # breaks
    k.shared(u8, 64, align=32)  # keeps


@kernel("shared.size")
def more_shared_memory_than_there_is(k):
    k.shared(u8, 228 * 1024)  # breaks
    k.shared(u8, 227 * 1024)  # keeps


@kernel("shared.static-size", "sm_90")
def too_much_static_shared_memory(k):
    k.shared_static(u8, 40 * 1024)
    k.shared_static(u8, 16 * 1024)  # breaks
    k.shared(u8, 16 * 1024)  # keeps


@kernel("shared.tile")
def stage_behind_the_last(k):
    tiles = k.shared_tiles(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, nvb.f16, 64, 64), 4)
    tiles.at(4)  # breaks
    tiles.at(3)  # keeps


@kernel("memory.misaligned", "sm_80")
def rows_of_a_matrix_at_eight_bytes(k):
    tile, lane = k.shared(u8, 512), k.lane_id()
    k.mma.ldmatrix(tile + lane * 8, 4)  # breaks
    k.mma.ldmatrix(tile + lane * 16, 4)  # keeps


@kernel("async-copy.pending", "sm_80")
def fewer_than_no_groups(k):
    k.cp_async.wait_group(-1)  # breaks
    k.cp_async.wait_group(0)  # keeps


@kernel("cache.policy", "sm_80")
def no_policy(k, x: nvb.Pointer[u8]):
    tile = k.shared(u8, 2048)
    policy = k.const(0, u64)  # breaks
    policy = k.cache.policy("L2::evict_last")  # keeps
    k.cp_async.copy(tile + k.thread_id() * 16, x, 16, cache_policy=policy)


@kernel("async-copy.read-bytes", "sm_80")
def more_than_is_copied(k, x: nvb.Pointer[u8]):
    tile = k.shared(u8, 2048)
    k.cp_async.copy(tile + k.thread_id() * 16, x, 16, read_bytes=32)  # breaks
    k.cp_async.copy(tile + k.thread_id() * 16, x, 16, read_bytes=8)  # keeps


@kernel("memory.space", "sm_80")
def prefetch_of_shared_memory(k, x: nvb.Pointer[f32]):
    box = k.shared(f32, 4)
    k.cache.prefetch(box)  # breaks
    k.cache.prefetch(x)  # keeps
