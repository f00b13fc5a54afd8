"""A dry run makes thousands of objects, which go as soon as it is over: Python need not look for cycles among them."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator

import pytest

import nvbackend as nvb
from samples import ampere_gemm, flash_attention, hopper_gemm

_ROOMS = tuple(
    f"nvbackend.dry_run.{room}." for room in ("machine", "objects", "order", "program", "protocols", "scenario")
)


def _living() -> Counter[str]:
    """The objects of dry runs, by their classes."""
    names = (f"{type(each).__module__}.{type(each).__name__}" for each in gc.get_objects())
    return Counter(name for name in names if name.startswith(_ROOMS))


@pytest.fixture
def _uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_uncollected")
@pytest.mark.parametrize(
    "kernel", [hopper_gemm.gemm, ampere_gemm.gemm, flash_attention.attention], ids=lambda each: each.name
)
def test_nothing_is_left_of_a_run(kernel: nvb.KernelDefinition) -> None:
    kernel.build()  # what is kept for all kernels
    before = _living()
    kernel.build()
    assert _living() - before == Counter()
