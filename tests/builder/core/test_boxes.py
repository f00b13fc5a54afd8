"""The boxes of a tensor map: which extents, and how many of them (PTX ISA 5.5.1, tiled; 5.5.4, im2col)."""

from __future__ import annotations

import itertools

import pytest

from nvbackend import Im2col, TensorMap, f16
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter
from tests.support.runtime import rules

EXTENTS = (-1, 0, 1, 8, 256, 257, 1025)


def said(box: tuple[int, ...], walk: Im2col | None = None) -> list[str]:
    """What a kernel with such a map is refused by."""

    def declared() -> None:
        KernelBuilder("boxes", "sm_90a", threads=32, parameters=[Parameter("map", TensorMap(f16, box, 0, walk))])

    return rules(declared)


def wrong(box: tuple[int, ...], most: tuple[int, ...]) -> list[str]:
    """By the limits of each extent, and 16 bytes, which are 8 elements."""
    extents = ["tensor-map.box" for extent, limit in zip(box, most, strict=True) if not 0 < extent <= limit]
    return extents + ["tensor-map.box-bytes"] * (box[-1] % 8 != 0)


@pytest.mark.parametrize("dimensions", range(4))
def test_pixels_and_channels(dimensions: int) -> None:
    for box in itertools.product(EXTENTS, repeat=dimensions):
        expected = wrong(box, (1024, 256)) if dimensions == 2 else ["tensor-map.box-rank"]
        assert said(box, Im2col(4, (0, 0), (0, 0))) == expected, box


@pytest.mark.parametrize("dimensions", range(7))
def test_tiles(dimensions: int) -> None:
    for place, extent in itertools.product(range(dimensions), EXTENTS):
        box = [16] * dimensions
        box[place] = extent
        expected = wrong(tuple(box), (256,) * dimensions) if 1 <= dimensions <= 5 else ["tensor-map.box-rank"]
        assert said(tuple(box)) == expected, box
