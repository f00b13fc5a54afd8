"""Single TMA instructions from the builder: what each emits, and the diagnostics of what it refuses."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from nvbackend import f16
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.types import u8, u32
from nvbackend.signature import Parameter, Pointer
from tests.support.barriers import barrier_of_somebody
from tests.support.said import said


class Copying:
    """A kernel with a tensor map, a pointer, a barrier and shared memory."""

    def __init__(self, rank=2, target="sm_90a", cluster=1):
        tensor_map = nvb.TensorMap(f16, box=(1,) * (rank - 2) + (64, 64) if rank > 1 else (64,))
        corners = (0,) * max(rank - 2, 1)
        pixels = {
            "pixels": nvb.Im2col(max(rank, 3), corners, corners),
            "wide": nvb.Im2col(max(rank, 3), (0,), (0,), "w128"),
        }
        boxes = {"pixels": (64, 64), "wide": (128, 64)}
        others = [Parameter(name, nvb.TensorMap(f16, boxes[name], 128, walk)) for name, walk in pixels.items()]
        parameters = [Parameter("tensor", tensor_map), Parameter("memory", Pointer(u8)), *others]
        self.k = KernelBuilder("copy", target, threads=128, cluster=cluster, parameters=parameters)
        self.tensor, self.memory, self.pixels, self.wide = self.k.arguments
        self.barrier = barrier_of_somebody(self.k)
        self.tile = self.k.shared(u8, 64 * 64 * 2, align=128)

    def ptx(self):
        self.k.tma.commit_group()
        self.k.tma.wait_group()
        return re.sub(r"[ \t]+", " ", self.k.finish(check=False).compile().ptx)


def broken(call):
    with pytest.raises(nvb.DiagnosticError) as caught:
        call()
    assert {one.location.file for one in caught.value.diagnostics} == {__file__}
    return [one.rule_id for one in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("rank", "target", "options", "spelling"),
    [
        (1, "sm_90a", {}, "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes ["),
        (
            2,
            "sm_90a",
            {"space": "cta"},
            "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [",
        ),
        (2, "sm_90a", {"multicast_mask": 1}, ".mbarrier::complete_tx::bytes.multicast::cluster ["),
        (4, "sm_90a", {"mode": "im2col", "offsets": (1, 2)}, "4d.shared::cluster.global.im2col.mbarrier"),
        (
            3,
            "sm_100a",
            {"mode": "im2col::w::128", "offsets": (1, 2)},
            "3d.shared::cluster.global.im2col::w::128.mbarrier",
        ),
        (2, "sm_100a", {"cta_group": 2}, ".mbarrier::complete_tx::bytes.cta_group::2 ["),
    ],
)
def test_a_load_is_spelled_as_its_options_say(rank, target, options, spelling):
    c = Copying(rank, target)
    tensor = {"im2col": c.pixels, "im2col::w::128": c.wide}.get(options.get("mode"), c.tensor)
    with c.k.one_thread():
        c.k.tma.load_box(c.tile, tensor, (0,) * rank, c.barrier, **options)
    assert spelling in c.ptx()


def test_a_map_is_used_in_the_mode_that_it_was_declared_for():
    c = Copying(4, "sm_100a")
    place = (0,) * 4
    for tensor, options in (
        (c.tensor, {"mode": "im2col", "offsets": (0, 0)}),
        (c.pixels, {}),
        (c.wide, {"mode": "im2col", "offsets": (0, 0)}),
        (c.wide, {"mode": "im2col::w", "offsets": (0, 0)}),
        (c.pixels, {"mode": "im2col::w::128", "offsets": (0, 0)}),
    ):
        assert broken(lambda t=tensor, o=options: c.k.tma.load_box(c.tile, t, place, c.barrier, **o)) == [
            "tma.map-mode"
        ]
    assert broken(lambda: c.k.tma.store_box(c.pixels, place, c.tile)) == ["tma.map-mode"]
    assert broken(lambda: c.k.tma.prefetch_box(c.tensor, place, mode="im2col", offsets=(0, 0))) == ["tma.map-mode"]


def test_rows_of_a_matrix_are_gathered_and_scattered():
    c = Copying(2, "sm_100a")
    with c.k.one_thread():
        c.k.tma.load_box(c.tile, c.tensor, (0, 1, 2, 3, 4), c.barrier, mode="tile::gather4")
        c.k.mbarrier.wait(c.barrier, 0)
        c.k.tma.store_box(c.tensor, (0, 1, 2, 3, 4), c.tile, mode="tile::scatter4")
    text = c.ptx()
    assert "global.tile::gather4.mbarrier" in text
    assert "global.shared::cta.tile::scatter4.bulk_group [" in text


def test_stores_reductions_and_prefetches_take_a_policy():
    c = Copying(3)
    policy = c.k.cache.policy("L2::evict_first")
    c.k.tma.store_box(c.pixels, (0, 0, 0), c.tile, mode="im2col_no_offs", cache_policy=policy)
    c.k.tma.reduce_box(c.tensor, (0, 0, 0), c.tile, "add", cache_policy=policy)
    c.k.tma.prefetch_box(c.pixels, (0, 0, 0), mode="im2col", offsets=(1,), cache_policy=policy)
    text = c.ptx()
    assert "createpolicy.fractional.L2::evict_first.b64" in text
    assert "3d.global.shared::cta.im2col_no_offs.bulk_group.L2::cache_hint [" in text
    assert "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group.L2::cache_hint [" in text
    assert "cp.async.bulk.prefetch.tensor.3d.L2.global.im2col.L2::cache_hint [" in text


def test_bytes_in_a_row_go_every_way():
    c = Copying(target="sm_100a", cluster=2)
    memory = c.memory
    c.k.bulk.load(c.tile, memory, 64, c.barrier)
    c.k.mbarrier.wait(c.barrier, 0)
    c.k.bulk.store(memory, c.tile, 64)
    c.k.bulk.store(memory, c.tile, 64, byte_mask=0xF0F0)
    c.k.bulk.reduce(memory, c.tile, 64, "add", f16)
    c.k.bulk.store(c.tile, c.tile, 64, barrier=c.barrier, rank=1)
    c.k.bulk.prefetch(memory, 64)
    text = c.ptx()
    for spelling in (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [",
        "cp.async.bulk.global.shared::cta.bulk_group [",
        "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [",
        "cp.async.bulk.prefetch.L2.global [",
    ):
        assert spelling in text


def test_a_tensor_map_is_changed_published_and_acquired():
    c = Copying()
    c.k.tensormap.replace(c.tile, "global_address", c.memory.bytes)
    c.k.tensormap.replace(c.tile, "global_dim", 4096, dimension=1)
    c.k.tensormap.replace(c.tile, "swizzle_mode", 3)
    c.k.barrier.sync()
    c.k.tensormap.publish(c.memory, c.tile)
    c.k.tensormap.release(scope="cta")
    c.k.tensormap.acquire(c.memory)
    text = c.ptx()
    assert "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [" in text
    assert re.search(r"global_dim\.shared::cta\.b1024\.b32 \[%\w+\], 1, (4096|%r\d+);", text)
    assert "swizzle_mode.shared::cta.b1024.b32 [" in text
    assert "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [" in text
    assert "fence.proxy.tensormap::generic.release.cta;" in text
    assert "fence.proxy.tensormap::generic.acquire.gpu [" in text


BULK = {
    "load": (lambda c, tile, odd, far: c.k.bulk.load(odd, c.memory, 64, c.barrier), "destination"),
    "store": (lambda c, tile, odd, far: c.k.bulk.store(c.memory, odd, 64), "source"),
    "reduce": (lambda c, tile, odd, far: c.k.bulk.reduce(c.memory, odd, 64, "add", u32), "source"),
    "store from": (lambda c, tile, odd, far: c.k.bulk.store(tile, odd, 64, **far), "source"),
    "store to": (lambda c, tile, odd, far: c.k.bulk.store(odd, tile, 64, **far), "destination"),
    "reduce from": (lambda c, tile, odd, far: c.k.bulk.reduce(tile, odd, 64, "add", u32, **far), "source"),
    "reduce to": (lambda c, tile, odd, far: c.k.bulk.reduce(odd, tile, 64, "add", u32, **far), "destination"),
}


@pytest.mark.parametrize("name", BULK)
def test_the_operand_that_is_not_aligned_is_named(name):
    c = Copying(2, cluster=2)
    call, operand = BULK[name]
    with pytest.raises(nvb.DiagnosticError) as caught:
        call(c, c.tile, c.k.shared(u32, 64, align=8), {"rank": 1, "barrier": c.barrier})
    (found,) = caught.value.diagnostics
    assert found.rule_id == "tma.alignment"
    assert operand in said(found)
    assert ({"source", "destination"} - {operand}).pop() not in said(found)
    assert "8" in said(found)


def test_what_can_not_be_copied_is_refused_at_the_call():
    c = Copying(2)
    k, tile, tensor, barrier = c.k, c.tile, c.tensor, c.barrier
    assert broken(lambda: k.tma.load_box(tile, tensor, (0, 0), barrier, mode="im2col")) == ["tma.im2col-rank"]
    assert broken(lambda: k.tma.load_box(tile, tensor, (0, 0), barrier, cta_group=2)) == ["tma.two-cta-target"]
    assert broken(lambda: k.tma.load_box(tile, tensor, (0, 0, 0), barrier)) == ["tma.box-operands"]
    assert broken(lambda: k.tma.load_box(tile, tensor, (0, 0), barrier, offsets=(1,))) == ["tma.box-operands"]
    assert broken(lambda: k.tma.reduce_box(tensor, (0, 0), tile, "mul")) == ["tma.reduction"]
    assert broken(lambda: k.bulk.load(tile, c.memory, 40, barrier)) == ["tma.bulk-size"]
    assert broken(lambda: k.bulk.reduce(c.memory, tile, 64, "inc", f16)) == ["instruction.variant"]
    assert broken(lambda: k.bulk.store(c.memory, tile, 64, byte_mask=1)) == ["target.feature"]
    assert broken(lambda: k.tensormap.replace(tile, "colour", 1)) == ["instruction.variant"]
    assert broken(lambda: k.tensormap.replace(tile, "swizzle_mode", 9)) == ["machine.immediate"]
    assert broken(lambda: k.tensormap.publish(c.memory, tile, scope="warp")) == ["instruction.variant"]
    assert [one.opcode for one in k.machine.instructions() if one.row] == []
