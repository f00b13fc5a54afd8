"""k.copy of boxes of TMA: the same instructions as box by box, and mistakes."""

from __future__ import annotations

import pytest

from nvbackend import DiagnosticError, Major, SwizzleMode, TensorMap, bf16, f16
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.layout import ComposedLayout, Layout, Swizzle, gmma_atom, tile_to_shape
from nvbackend.signature import Im2col, Parameter
from nvbackend.tiled import make_tiled_copy, make_tma_copy, tma_partition, universal_copy
from tests.support.lines import without_lines
from tests.support.said import said

GLOBAL = {Major.K: Layout((256, 128), (128, 1)), Major.MN: Layout((256, 128), (1, 256))}
STAGES = 2


class Scene:
    """A kernel with a map and a ring of two tiles of 128 x 64, laid out for wgmma."""

    def __init__(self, major=Major.K, mode=SwizzleMode.B128, cluster=1, kind=None, multicast=1):
        atom, order = gmma_atom(major, mode, f16), (1, 2, 3) if major is Major.K else (2, 1, 3)
        self.layout = tile_to_shape(atom, (128, 64), order[:2])
        self.copy = make_tma_copy(f16, GLOBAL[major], self.layout, multicast=multicast)
        kind = TensorMap(f16, self.copy.map_box, self.copy.swizzle) if kind is None else kind
        self.k = k = KernelBuilder(
            "boxes", "sm_90a", threads=128, cluster=cluster, parameters=[Parameter("source", kind)]
        )
        (self.map,) = k.arguments
        ring = tile_to_shape(atom, (128, 64, STAGES), order)
        self.ring = k.tensor(k.shared(f16, 128 * 64 * STAGES, align=1024, name="ring"), ring)
        self.tile = self.ring[None, None, 1]
        self.full = k.mbarrier.array(1, 1)
        k.mbarrier.ready()

    def loaded(self, load):
        with self.k.one_thread():
            self.k.mbarrier.arrive(self.full, expect_tx=self.copy.bytes)
            load()
        self.k.mbarrier.wait(self.full, 0)
        return without_lines(self.k.finish().ir)


def loads(text):
    """How many boxes are loaded."""
    return sum("call" in line and "g2s.tile.2d" in line for line in text.splitlines())


@pytest.mark.parametrize("mode", SwizzleMode)
@pytest.mark.parametrize("major", Major)
def test_a_tile_is_loaded_as_box_by_box(major, mode):
    one, other = Scene(major, mode), Scene(major, mode)

    def by_hand():
        begin = other.ring.address + 128 * 64
        for box in tma_partition(other.copy):
            place = other.copy.coordinates_of(box, (64, 0))
            other.k.tma.load_box(begin + box.offset, other.map, place, other.full)

    found = one.loaded(lambda: one.k.copy(one.copy, one.map, one.tile, at=(64, 0), barrier=one.full))
    assert found == other.loaded(by_hand)
    assert loads(found) == one.copy.count


def test_a_tile_is_stored_box_by_box():
    scene = Scene(Major.MN)
    with scene.k.one_thread():
        scene.k.copy(scene.copy, scene.tile, scene.map, at=(128, 64))
        scene.k.tma.commit_group()
        scene.k.tma.wait_group()
    text = scene.k.compile().ptx
    assert text.count("cp.async.bulk.tensor.2d.global.shared::cta") == scene.copy.count == 2


def test_each_cta_loads_its_share_for_all():
    scene = Scene(cluster=2, multicast=2)
    text = scene.loaded(
        lambda: scene.k.copy(scene.copy, scene.map, scene.tile, at=(0, 0), barrier=scene.full, multicast=True)
    )
    assert scene.copy.count == 2
    assert loads(text) == 1
    assert "cluster.ctarank" in text


def test_no_multicast_without_a_cluster():
    one, other = Scene(), Scene()
    texts = [
        scene.loaded(
            lambda scene=scene, shared=shared: scene.k.copy(
                scene.copy, scene.map, scene.tile, at=(0, 0), barrier=scene.full, multicast=shared
            )
        )
        for scene, shared in ((one, True), (other, False))
    ]
    assert len(set(texts)) == 1


def load(scene, **given):
    scene.k.copy(scene.copy, scene.map, scene.tile, **{"at": (0, 0), "barrier": scene.full, **given})


def of_another_box():
    load(Scene(kind=TensorMap(f16, (64, 64))))


def of_another_type():
    load(Scene(kind=TensorMap(bf16, (128, 64))))


def of_another_swizzle():
    load(Scene(kind=TensorMap(f16, (128, 64), 0)))


def of_pixels():
    load(Scene(kind=TensorMap(f16, (128, 64), im2col=Im2col(4, (0, 0), (0, 0)))))


def to_another_layout():
    scene = Scene()
    scene.tile = scene.k.tensor(scene.ring.address, tile_to_shape(gmma_atom(Major.K, SwizzleMode.B64, f16), (128, 64)))
    load(scene)


def to_another_swizzle():
    """The same rows and columns, of which another swizzle changes the order."""
    scene = Scene()
    plain = scene.tile.layout
    scene.tile = scene.k.tensor(scene.ring.address, ComposedLayout(Swizzle(2, 4, 3), plain.offset, plain.layout_b))
    load(scene)


def to_no_swizzle():
    scene = Scene()
    scene.tile = scene.k.tensor(scene.ring.address, scene.tile.layout.layout_b)
    load(scene)


def to_half_the_tile():
    scene = Scene()
    scene.tile = scene.tile.tile((64, 64), (0, 0))
    load(scene)


def to_rows_at_a_run_time_distance():
    scene = Scene(mode=SwizzleMode.NONE)
    scene.tile = scene.k.tensor(scene.ring.address, Layout((128, 64), (scene.k.thread_id() * 8, 1)))
    load(scene)


def a_bounded_load():
    scene = Scene()
    load(scene, where=scene.k.identity_tensor((128, 64)).below(100, None))


def by_threads(scene: Scene, **given):
    copy = make_tiled_copy(universal_copy(f16, 128), Layout((16, 8), (8, 1)), Layout((1, 8)))
    scene.k.copy(copy, scene.tile, scene.tile, **given)


def threads_to_all():
    by_threads(Scene(cluster=2), multicast=True)


def threads_at_an_index():
    by_threads(Scene(), at=(0, 0))


def threads_with_a_barrier():
    scene = Scene()
    by_threads(scene, barrier=scene.full)


def two_maps():
    scene = Scene()
    scene.k.copy(scene.copy, scene.map, scene.map, at=(0, 0), barrier=scene.full)


def two_tensors():
    scene = Scene()
    scene.k.copy(scene.copy, scene.tile, scene.tile, at=(0, 0), barrier=scene.full)


def nowhere():
    load(Scene(), at=None)


def too_few_indices():
    load(Scene(), at=(0,))


def without_a_barrier():
    load(Scene(), barrier=None)


def a_store_with_a_barrier():
    scene = Scene()
    scene.k.copy(scene.copy, scene.tile, scene.map, at=(0, 0), barrier=scene.full)


def a_store_to_all():
    scene = Scene(cluster=2)
    scene.k.copy(scene.copy, scene.tile, scene.map, at=(0, 0), multicast=True)


def one_box_for_two():
    load(Scene(cluster=2), multicast=True)


def a_map_for_threads():
    scene = Scene()
    copy = make_tiled_copy(universal_copy(f16, 128), Layout((16, 8), (8, 1)), Layout((1, 8)))
    scene.k.copy(copy, scene.map, scene.tile)


MISTAKES = {
    of_another_box: ("copy.boxes", "declare the map as TensorMap(f16, (128, 64), 128)"),
    of_another_type: ("copy.boxes", "the map has boxes of (128, 64) of bf16"),
    of_another_swizzle: ("copy.boxes", "the map swizzles by 0 bytes"),
    of_pixels: ("copy.boxes", "declare the map as"),
    to_another_layout: ("copy.boxes", "the tensor is another than it was made for"),
    to_another_swizzle: ("copy.boxes", "the tensor is another than it was made for"),
    to_no_swizzle: ("copy.boxes", "the tensor is another than it was made for"),
    to_half_the_tile: ("copy.boxes", "the tensor is another than it was made for"),
    to_rows_at_a_run_time_distance: ("copy.boxes", "the tensor is another than it was made for"),
    a_bounded_load: ("copy.boxes", "leave it out: TMA fills what is outside"),
    threads_to_all: ("copy.tma-only", "`multicast`"),
    threads_at_an_index: ("copy.tma-only", "`at`"),
    threads_with_a_barrier: ("copy.tma-only", "`barrier`"),
    two_maps: ("copy.boxes", "one of them is a map and the other a tensor"),
    two_tensors: ("copy.boxes", "one of them is a map and the other a tensor"),
    nowhere: ("copy.boxes", "give an index for each of the 2 modes"),
    too_few_indices: ("copy.boxes", "give an index for each of the 2 modes"),
    without_a_barrier: ("copy.boxes", "give `barrier`"),
    a_store_with_a_barrier: ("copy.boxes", "leave `barrier` out"),
    a_store_to_all: ("copy.boxes", "leave `multicast` out"),
    one_box_for_two: ("copy.multicast", "multicast=2"),
    a_map_for_threads: ("copy.tma-only", "make it with make_tma_copy"),
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
    assert found.location.file == __file__
