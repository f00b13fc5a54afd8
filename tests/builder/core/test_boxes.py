"""The boxes of a tensor map: which extents, and how many of them (PTX ISA 5.5.1, tiled; 5.5.4, im2col)."""

from __future__ import annotations

import itertools

import pytest

from nvbackend import Im2col, TensorMap, f16
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter
from tests.support.runtime import rules

EXTENTS = (-1, 0, 1, 5, 256, 257)


def said(kind: TensorMap) -> list[str]:
    return rules(lambda: KernelBuilder("boxes", "sm_90a", threads=32, parameters=[Parameter("map", kind)]))


@pytest.mark.parametrize("dimensions", range(4))
def test_pixels_and_channels(dimensions: int) -> None:
    for box in itertools.product(EXTENTS, repeat=dimensions):
        is_right = dimensions == 2 and all(extent > 0 for extent in box)
        assert said(TensorMap(f16, box, im2col=Im2col(4, (0, 0), (0, 0)))) == (
            [] if is_right else ["kernel.parameter-fact"]
        ), box


@pytest.mark.parametrize("dimensions", range(7))
def test_tiles(dimensions: int) -> None:
    for place, extent in itertools.product(range(dimensions), EXTENTS):
        box = [3] * dimensions
        box[place] = extent
        is_right = 1 <= dimensions <= 5 and 0 < extent <= 256
        assert said(TensorMap(f16, tuple(box))) == ([] if is_right else ["kernel.parameter-fact"]), box
