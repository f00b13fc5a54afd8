"""Of a tile that several warpgroups share, each call says whose part it means."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32
from nvbackend.layout import Layout
from nvbackend.signature import Parameter, Pointer, TensorMap

THREADS = 256
STEPS = 4
"""Instructions of K 16 in tiles of 64 columns."""


def multiplied(warpgroups: tuple[int, int], *number: object, stored: tuple[object, ...] | None = None) -> list[str]:
    """The opcodes of a product of tiles in shared memory and a store: `number` is what is said of the warpgroup."""
    k = nvb.KernelBuilder("two", "sm_90a", threads=THREADS, parameters=[Parameter("out", Pointer(f32, align=8))])
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), warpgroups=warpgroups)
    a, b = k.shared_tile(mma.smem_a(64)), k.shared_tile(mma.smem_b(64))
    acc = mma.accumulator()
    said = [k.warpgroup_id() if one == "id" else one for one in number]
    with k.wgmma.group():
        mma.accumulate(acc, a, b, *said)
    mma.store(acc, k.arguments[0], 64 * warpgroups[1], *(said if stored is None else stored))
    return re.findall(r"wgmma\.\w+", str(k.finish(check=False).machine))


@pytest.mark.parametrize("warpgroups", [(2, 1), (1, 2)])
def test_a_product_without_a_number_is_refused(warpgroups: tuple[int, int]) -> None:
    with pytest.raises(nvb.DiagnosticError) as raised:
        multiplied(warpgroups)
    (fault,) = raised.value.diagnostics
    assert fault.rule_id == "mma.warpgroup"
    assert f"gives no warpgroup for a tile of {warpgroups[0]} x {warpgroups[1]} warpgroups" in fault.message
    assert "acc.elements(warpgroup)" in fault.fix


@pytest.mark.parametrize("warpgroups", [(2, 1), (1, 2)])
def test_a_store_without_a_number_is_refused(warpgroups: tuple[int, int]) -> None:
    with pytest.raises(nvb.DiagnosticError, match=r"mma\.warpgroup"):
        multiplied(warpgroups, "id", stored=())


@pytest.mark.parametrize("number", ["id", 0, 1])
def test_with_a_number_it_is_built(number: object) -> None:
    assert multiplied((2, 1), number).count("wgmma.mma_async") == STEPS


def test_one_warpgroup_needs_no_number() -> None:
    assert multiplied((1, 1)).count("wgmma.mma_async") == STEPS


@pytest.mark.parametrize("warpgroups", [(2, 1), (1, 2)], ids=["rows", "columns"])
@pytest.mark.parametrize("is_known", [True, False], ids=["a number of the build", "a number of the run"])
def test_each_warpgroup_multiplies_the_part_of_its_number(warpgroups: tuple[int, int], is_known: bool) -> None:
    """Also where each is said by itself: compared with NumPy."""
    m, n, steps = 64 * warpgroups[0], 64 * warpgroups[1], 64
    maps = [Parameter(name, TensorMap(f16, box=(extent, steps))) for name, extent in (("a", m), ("b", n))]
    k = nvb.KernelBuilder("two", "sm_90a", threads=THREADS, parameters=[*maps, Parameter("c", Pointer(f32, align=8))])
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), warpgroups=warpgroups)
    tiles = [k.shared_tile(mma.smem_a(steps)), k.shared_tile(mma.smem_b(steps))]
    full = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=sum(tile.layout.bytes for tile in tiles))
        for tile, source in zip(tiles, k.arguments[:2], strict=True):
            k.tma.load(tile, source, (0, 0), full)
    k.mbarrier.wait(full, 0)

    def multiply(number: nvb.Operand) -> None:
        acc = mma.accumulator()
        with k.wgmma.group():
            mma.accumulate(acc, *tiles, number)
        mma.store(acc, k.arguments[2], n, number)

    if is_known:
        for number in range(2):
            with k.if_(k.warpgroup_id() == number):
                multiply(number)
    else:
        multiply(k.warpgroup_id())
    chance = np.random.default_rng(7)
    a, b = (chance.integers(-4, 5, (extent, steps)).astype(np.float16) for extent in (m, n))
    c = np.zeros((m, n), np.float32)
    compiled = k.finish().compile(cache=nvb.Cache.disabled(), assemble=False)
    nvb.runtime.load(compiled, device="simulator").launch(1, a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.T.astype(np.float32))


BELOW, BESIDE = (2, 1), (1, 2)
"""Two warpgroups below each other, whose rows differ, and two beside each other, whose columns do."""
ASKED: dict[str, tuple[Callable[[Any, Any], object], set[tuple[int, int]]]] = {
    "rows": (lambda _, acc: acc.rows(lambda row: row.to(f32)), {BELOW}),
    "columns": (lambda _, acc: acc.columns(lambda column: column.to(f32)), {BESIDE}),
    "items": (lambda _, acc: list(acc.items()), {BELOW, BESIDE}),
    "where": (lambda _, acc: acc.elements().where(lambda row, column: column <= row, 0.0), {BELOW, BESIDE}),
    "owned": (lambda _, acc: acc.elements().reduce_rows("add", lanes=False).owned(), {BESIDE}),
    "stored": (lambda matrix, acc: acc.elements().store(matrix), {BELOW, BESIDE}),
    "values": (lambda _, acc: acc.set(acc.map(lambda value: value * 2.0)), set()),
}
"""What is asked of a thread's elements, and of which tiles it depends on the number of the warpgroup."""


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("warpgroups", [BELOW, BESIDE, (1, 1)], ids=["below", "beside", "one"])
def test_coordinates_that_depend_on_the_number_are_refused_without_it(asked: str, warpgroups: tuple[int, int]) -> None:
    k = nvb.KernelBuilder("two", "sm_90a", threads=THREADS, parameters=[Parameter("out", Pointer(f32, align=16))])
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32), warpgroups=warpgroups)
    shape = (64 * warpgroups[0], 64 * warpgroups[1])
    matrix, acc = k.tensor(k.arguments[0], Layout(shape, (shape[1], 1))), mma.accumulator()
    ask, depends = ASKED[asked]
    with pytest.raises(nvb.DiagnosticError, match=r"mma\.warpgroup") if warpgroups in depends else nullcontext():
        ask(matrix, acc)
