"""A tensor map of a kernel's parameters is no pointer: what is done with it as one is refused, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f16, f32


def _store(tensor_map: Any, index: Any) -> None:
    tensor_map[index] = 1.0


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        (lambda map_, i: map_[i], "k.tma.load"),
        (lambda map_, i: map_[i, 0], "k.tma.load"),
        (_store, "nvb.Pointer"),
        (lambda map_, i: map_ + i, "coordinates"),
        (lambda map_, i: 64 + map_, "coordinates"),
        (lambda map_, i: map_ - 1, "coordinates"),
        (lambda map_, i: map_.to(f32), "name"),
        (lambda map_, i: map_.shape, "name"),
    ],
)
def test_a_map_used_as_a_pointer(use: Callable[[Any, Any], object], advice: str) -> None:
    @nvb.kernel("sm_90a", threads=32)
    def kernel(k: Any, a: nvb.TensorMap(f16, box=(64, 64)), out: nvb.Pointer[f32]) -> None:  # type: ignore[valid-type]
        use(a, k.thread_id())
        out[0] = 1.0

    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel.build()
    (found,) = caught.value.diagnostics
    assert (found.rule_id, found.location and found.location.file) == ("tile.attribute", __file__)
    assert advice in (found.fix or "")
