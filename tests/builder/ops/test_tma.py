"""TMA copies of tiles: which boxes a tile is made of, and which tensor maps do not fit it."""

from __future__ import annotations

import math
import re

import pytest

import nvbackend as nvb
from nvbackend import bf16, f16
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.ops.copy.box_operands import box_extent
from nvbackend.builder.ops.copy.tma import tile_boxes
from nvbackend.signature import Parameter
from tests.support.barriers import barrier_of_somebody
from tests.support.ir_addresses import condition_of, evaluate
from tests.support.said import said


def builder(tensor_map, cluster=1):
    k = KernelBuilder("copy", "sm_90a", threads=128, cluster=cluster, parameters=[Parameter("source", tensor_map)])
    return k, k.arguments[0], barrier_of_somebody(k)


def loads(k):
    return [found for found in k.machine.instructions() if found.opcode == "cp.async.bulk.tensor"]


def layout(rows, columns, swizzle=nvb.SwizzleMode.B128, major=nvb.Major.K):
    return nvb.SmemLayout(major, swizzle, f16, rows, columns)


@pytest.mark.parametrize(
    ("box", "rows", "columns", "copies"),
    [((128, 64), 128, 64, 1), ((64, 64), 128, 64, 2), ((64, 64), 64, 128, 2), ((32, 64), 128, 128, 8)],
)
def test_a_tile_is_loaded_box_by_box(box, rows, columns, copies):
    k, source, barrier = builder(nvb.TensorMap(f16, box=box))
    with k.one_thread():
        k.tma.load(k.shared_tile(layout(rows, columns)), source, (0, 0), barrier)
    assert len(loads(k)) == copies
    k.finish()


@pytest.mark.parametrize(
    ("box", "outer"),
    [((128, 64), 0), ((1, 64), 0), ((1, 1, 64), 1), ((64, 1, 64), 0), ((1, 64, 64), 1), ((1, 1, 1, 64), 2)],
)
def test_the_rows_of_a_tile_are_along_the_dimension_in_which_a_box_is_wide(box, outer):
    """Where it is wide in none, they are along the last but the innermost: the coordinates before it stay."""
    k, source, _ = builder(nvb.TensorMap(f16, box=box))
    tile = k.shared_tile(layout(128, 64))
    assert tile_boxes(tile, source, "k.tma.load", "").outer == outer


def test_one_thread_prefetches_the_maps():
    k, source, _ = builder(nvb.TensorMap(f16, box=(64, 64)))
    k.tma.prefetch_maps(source)
    (prefetch,) = (one for block in k.function.blocks for one in block.instructions if "prefetch.tensormap" in str(one))
    condition = condition_of(prefetch)
    assert [thread for thread in range(128) if evaluate(condition, {"tid.x": thread})] == [0]


@pytest.mark.parametrize(("rows", "said"), [(8, []), (4, ["tma.alignment"])])
def test_boxes_of_a_tile_begin_at_multiples_of_128(rows, said):
    """PTX ISA 5.5: rows of 16 bytes without a swizzle, so that a box of four is 64 bytes and the next begins there."""
    k, source, barrier = builder(nvb.TensorMap(f16, box=(rows, 8), swizzle=0))
    found = []
    with k.one_thread():
        try:
            k.tma.load(k.shared_tile(layout(8, 16, swizzle=nvb.SwizzleMode.NONE)), source, (0, 0), barrier)
        except nvb.DiagnosticError as error:
            found = [one.rule_id for one in error.diagnostics]
    assert found == said


def test_each_cta_of_a_cluster_loads_its_share():
    k, source, barrier = builder(nvb.TensorMap(f16, box=(64, 64)), cluster=2)
    with k.one_thread():
        k.tma.load(k.shared_tile(layout(256, 64)), source, (0, 0), barrier, multicast=True)
    assert len(loads(k)) == 2
    assert all("multicast::cluster" in found.row.ptx for found in loads(k))
    assert k.finish(check=False).compile(assemble=False).ptx.count("multicast::cluster") == 2


def test_an_mn_major_tile_has_its_contiguous_dimension_innermost():
    k, source, barrier = builder(nvb.TensorMap(f16, box=(32, 64)))
    with k.one_thread():
        k.tma.load(k.shared_tile(layout(128, 32, major=nvb.Major.MN)), source, (0, 0), barrier)
    assert len(loads(k)) == 2
    k.finish()


PIXELS = nvb.Im2col.of_convolution((3, 3), padding=(1, 1))


@pytest.mark.parametrize(
    ("tensor_map", "rule", "says"),
    [
        (nvb.TensorMap(f16, box=(100, 64)), "tma.box", "(128, 64)"),
        (nvb.TensorMap(f16, box=(128, 32)), "tma.box", "(128, 64)"),
        (nvb.TensorMap(f16, box=(2, 64, 64)), "tma.tile-rank", "(2, 64, 64)"),
        (nvb.TensorMap(f16, box=(64,)), "tma.tile-rank", "(64,)"),
        (nvb.TensorMap(f16, box=(128, 64), im2col=PIXELS), "tma.map-mode", "of pixels"),
        (nvb.TensorMap(f16, box=(1, 100, 64)), "tma.box", "(1, 128, 64)"),
        (nvb.TensorMap(f16, box=(100, 1, 64)), "tma.box", "(128, 1, 64)"),
        (nvb.TensorMap(f16, box=(128, 64), swizzle=0), "tma.swizzle", "128"),
        (nvb.TensorMap(bf16, box=(128, 64)), "tma.element", "bf16"),
    ],
)
def test_a_tensor_map_that_does_not_fit_the_tile_is_refused(tensor_map, rule, says):
    k, source, barrier = builder(tensor_map)
    tile = k.shared_tile(layout(128, 64))
    for copy in (lambda: k.tma.load(tile, source, (0, 0), barrier), lambda: k.tma.store(source, (0, 0), tile)):
        with pytest.raises(nvb.DiagnosticError) as caught:
            copy()
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.rule_id == rule
        assert says in said(diagnostic)
        assert diagnostic.location.file == __file__
    assert not loads(k)


def test_everything_wrong_with_a_map_is_said_at_once():
    k, source, barrier = builder(nvb.TensorMap(bf16, box=(100, 64), swizzle=0))
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.tma.load(k.shared_tile(layout(128, 64)), source, (0, 0), barrier)
    assert [one.rule_id for one in caught.value.diagnostics] == ["tma.element", "tma.swizzle", "tma.box"]


def test_boxes_that_a_cluster_can_not_share_are_refused():
    k, source, barrier = builder(nvb.TensorMap(f16, box=(128, 64)), cluster=2)
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.tma.load(k.shared_tile(layout(128, 64)), source, (0, 0), barrier, multicast=True)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "tma.multicast"
    assert "2 times smaller" in diagnostic.fix


@pytest.mark.parametrize(
    ("box", "mode", "expected"),
    [
        ((8, 64), "tile", 8 * 64 * 2),
        ((1, 64), "tile::gather4", 4 * 64 * 2),
        ((1, 32), "tile::scatter4", 4 * 32 * 2),
        ((8, 64), "tile::gather4", None),
        ((8, 64), "im2col::w::128", None),
    ],
)
def test_the_bytes_of_a_box_are_those_of_what_the_mode_copies(box, mode, expected):
    """Four rows where the mode says so, whatever the map says; nothing where the map is for something else."""
    assert box_extent(nvb.TensorMap(f16, box), mode, "at") == ({} if expected is None else {"at": expected})


MAPS = {
    "two panels": (nvb.TensorMap(f16, box=(64, 64)), layout(128, 128), (256, 192), False, ["192", "256"]),
    "MN-major": (nvb.TensorMap(f16, box=(32, 64)), layout(128, 32, major=nvb.Major.MN), (64, 96), False, ["64", "96"]),
    "of a batch": (nvb.TensorMap(f16, box=(1, 64, 64)), layout(128, 64), (3, 128, 64), False, ["64", "128", "3"]),
    "of heads": (nvb.TensorMap(f16, box=(64, 1, 64)), layout(64, 64), (5, 192, 0), False, ["0", "5", "192"]),
    "shared by a cluster": (nvb.TensorMap(f16, box=(32, 64)), layout(128, 128), (128, 64), True, None),
}


def boxes_in_ptx(text, opcode):
    """The coordinates of each copy, registers by the values that they hold."""
    held = dict(re.findall(r"mov\.b32 \t(%r\d+), (-?\d+);", text))
    named = re.findall(rf"{opcode}\S* .*?\[%rd\d+, {{(.*?)}}\]", text)
    return [[held.get(each, each) for each in found.split(", ")] for found in named]


@pytest.mark.parametrize("name", MAPS)
def test_a_prefetch_of_a_tile_takes_the_boxes_that_its_load_takes(name):
    tensor_map, shape, at, multicast, first = MAPS[name]
    k, source, barrier = builder(tensor_map, cluster=2)
    tile = k.shared_tile(shape)
    with k.one_thread():
        k.tma.prefetch(tile, source, at, multicast=multicast)
        k.tma.load(tile, source, at, barrier, multicast=multicast)
    text = k.finish(check=False).compile(assemble=False).ptx
    fetched, loaded = (boxes_in_ptx(text, f"cp.async.bulk.{what}") for what in ("prefetch.tensor", "tensor"))
    assert fetched == loaded
    assert len(loaded) == shape.rows * shape.columns // math.prod(tensor_map.box) // (2 if multicast else 1)
    if first is not None:
        assert fetched[0] == first


@pytest.mark.parametrize(
    ("span", "at", "rule"),
    [("B64", (0, 0), "tma.swizzle"), ("B128", (0, 3), "tma.start"), ("B128", (0,), "tma.place")],
)
def test_a_prefetch_of_a_tile_is_checked_as_its_load(span, at, rule):
    k, source, barrier = builder(nvb.TensorMap(f16, box=(64, 64)))
    tile = k.shared_tile(layout(64, 64, swizzle=nvb.SwizzleMode[span]))
    with k.one_thread():
        for call, more in ((k.tma.prefetch, ()), (k.tma.load, (barrier,))):
            with pytest.raises(nvb.DiagnosticError) as raised:
                call(tile, source, at, *more)
            assert rule in {each.rule_id for each in raised.value.diagnostics}


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
@pytest.mark.parametrize("given", [2, 3])
def test_coordinates_are_counted_against_the_dimensions_of_the_map(rank, given):
    """A matrix inside a map of more dimensions is still a map of more dimensions."""
    box = (*(1,) * (rank - 2), 64, 64)
    k, source, barrier = builder(nvb.TensorMap(f16, box=box))
    tile = k.shared_tile(layout(64, 64))
    with k.one_thread():
        if given == rank:
            k.tma.load(tile, source, (0,) * given, barrier)
            return
        for copy in (
            lambda: k.tma.load(tile, source, (0,) * given, barrier),
            lambda: k.tma.prefetch(tile, source, (0,) * given),
        ):
            with pytest.raises(nvb.DiagnosticError, match=r"tma\.place") as caught:
                copy()
            (found,) = caught.value.diagnostics
            coordinates, dimensions = "coordinate" + "s" * (given > 1), "dimension" + "s" * (rank > 1)
            said = f"the copy gives {given} {coordinates} for tensor map 'source', which has {rank} {dimensions}"
            assert found.message == said
            assert found.fix.startswith(f"give {rank}: row and column last")


@pytest.mark.parametrize("box", [(2, 64, 64), (2, 2, 8, 64), (64,)])
def test_a_box_that_is_no_matrix_is_copied_as_the_fix_says(box):
    k, source, barrier = builder(nvb.TensorMap(f16, box=box))
    tile = k.shared_tile(layout(128, 64))
    with k.one_thread():
        with pytest.raises(nvb.DiagnosticError, match=r"tma\.tile-rank") as caught:
            k.tma.load(tile, source, (0,) * len(box), barrier)
        (found,) = caught.value.diagnostics
        assert "k.tma.load_box(address, source, coordinates, barrier)" in found.fix
        assert f"{len(box)} coordinate{'s' * (len(box) > 1)}" in found.fix
        k.tma.load_box(tile.address, source, (0,) * len(box), barrier)
    assert len(loads(k)) == 1


@pytest.mark.parametrize(("align", "is_global"), [(64, True), (64, False), (32, True), (128, True)])
def test_a_map_in_memory_is_in_global_memory_on_64_bytes(align: int, is_global: bool) -> None:
    """CUDA Driver API, CUtensorMap: its address is a multiple of 64; PTX ISA 5.5.8: the object is in global memory."""
    k = KernelBuilder("at", "sm_90a", threads=32, parameters=[nvb.Parameter("maps", nvb.Pointer(nvb.u32, align=align))])
    address = k.arguments[0] if is_global else k.shared(nvb.u32, 32, align=align)
    if is_global and align >= 64:
        assert k.tensormap.at(address, nvb.TensorMap(f16, box=(8, 64))).type == nvb.TensorMap(f16, box=(8, 64))
    else:
        with pytest.raises(nvb.DiagnosticError, match=r"tma\.map-address"):
            k.tensormap.at(address, nvb.TensorMap(f16, box=(8, 64)))


@pytest.mark.parametrize("multicast", [False, True])
def test_copies_of_a_tile_take_a_policy(multicast):
    k, source, barrier = builder(nvb.TensorMap(f16, box=(32, 64)), cluster=2)
    tile = k.shared_tile(layout(64, 64))
    with k.one_thread():
        policy = k.cache.policy("L2::evict_first")
        k.tma.prefetch(tile, source, (0, 0), multicast=multicast, cache_policy=policy)
        k.tma.load(tile, source, (0, 0), barrier, multicast=multicast, cache_policy=policy)
        k.mbarrier.wait(barrier, 0)
        k.tma.store(source, (0, 0), tile, cache_policy=policy)
        k.tma.commit_group()
        k.tma.wait_group(reading=True)
    text = k.finish(check=False).compile(assemble=False).ptx
    assert set(re.findall(r"cp\.async\.bulk\S*?2d\S+", text)) == {
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile.L2::cache_hint",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        + (".multicast::cluster" if multicast else "")
        + ".L2::cache_hint",
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint",
    }
