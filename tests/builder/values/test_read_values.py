"""Values read from an accumulator: those that nobody uses may be undefined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f16, f32

Write = Callable[[Any, Any], None]


def built(element: nvb.ElementType, write: Write) -> nvb.FinishedKernel:
    @nvb.kernel("sm_90a", threads=128)
    def written(k: Any, x: nvb.Pointer[element]) -> None:  # type: ignore[valid-type]
        acc = k.tiled_mma(nvb.wgmma.mma_async("m64n8k16", f16, f16, element)).accumulator()
        write(acc, x)
        for (row, column), value in acc.items():
            x[row * 8 + column] = value

    return written.build()


@pytest.mark.parametrize("element", [f32, f16], ids=str)
def test_coordinates_of_a_fresh_accumulator_may_be_asked_for(element: nvb.ElementType) -> None:
    kernel = built(element, lambda acc, x: acc.set([x[row * 8 + column] for (row, column), _ in acc.items()]))
    assert not kernel.diagnostics


@pytest.mark.parametrize("element", [f32, f16], ids=str)
@pytest.mark.parametrize(
    "write",
    [
        lambda acc, x: acc.set([x[0], *(value for _, value in [*acc.items()][1:])]),
        lambda acc, x: acc.set(acc.map(lambda value: value + value)),
        lambda acc, x: x.__setitem__(0, [*acc.items()][1][1]),
    ],
    ids=["set", "map", "store"],
)
def test_a_single_use_of_what_was_read_is_refused(element: nvb.ElementType, write: Write) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        built(element, write)
    assert [each.rule_id for each in caught.value.diagnostics] == ["wgmma.unwritten"]
