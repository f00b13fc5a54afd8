"""Plain stores to one of many maps, where the CTA decides which: exactly the copies by that map are reported."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32, u32

ROW = nvb.TensorMap(f32, box=(1, 32), swizzle=0)
MAP_WORDS = 32
REGISTERS = [
    *(f"{name}.{axis}" for name in ("ctaid", "nctaid", "clusterid", "nclusterid") for axis in "xyz"),
    "cluster_ctaid.x",
    "cluster_nctaid.x",  # along the others a cluster of two CTAs has one each
]


def copies_told(store: Callable[[Any], Any], maps_of: list[Callable[[Any], Any]]) -> list[str]:
    """The rules of a kernel that stores to a map and then copies by others, by the words where they begin."""

    @nvb.kernel("sm_90a", threads=32, cluster=2)
    def kernel(k: Any, maps: nvb.Pointer(u32, align=128)) -> None:  # type: ignore[valid-type]
        row, full = k.shared(f32, 32, align=128), k.mbarrier.array(len(maps_of), arrivals=1)
        k.mbarrier.ready()
        with k.one_thread():
            maps[store(k)] = 0  # type: ignore[index]
            for index, place in enumerate(maps_of):
                k.mbarrier.arrive(full + index, expect_tx=128)
                k.tma.load_box(row, k.tensormap.at(maps + place(k), ROW), (0, 0), full + index)
                k.mbarrier.wait(full + index, 0)

    try:
        kernel.build()
    except nvb.DiagnosticError as error:
        return [diagnostic.rule_id for diagnostic in error.diagnostics]
    return []


def by(register: str, times: int = 1, words: int = 0) -> Callable[[Any], Any]:
    return lambda k: k.special_register(register).to(nvb.i32) * (times * MAP_WORDS) + words


@pytest.mark.parametrize("register", REGISTERS)
def test_each_register_of_the_cta_is_another_number(register: str) -> None:
    assert copies_told(by(register), [by(register)]) == ["tensor-map.not-acquired"]
    assert copies_told(by(register), [by(each) for each in REGISTERS if each != register]) == []


def test_words_of_the_map_and_words_around_it() -> None:
    others = [by("ctaid.y", times, words) for times in (1, 2, 3) for words in (-MAP_WORDS, 0, MAP_WORDS)]
    others.pop(4)  # twice the index, and nothing more
    own = [by("ctaid.y", 2)]
    for words, is_inside in ((-1, False), (0, True), (17, True), (MAP_WORDS - 1, True), (MAP_WORDS, False)):
        store = by("ctaid.y", 2, words)
        assert len(copies_told(store, own)) == is_inside, words
        if is_inside:
            assert copies_told(store, others) == []


@pytest.mark.parametrize(("operations", "told"), [(1, 1), (8, 1), (40, 0)])
def test_long_sums_are_followed_so_far(operations: int, told: int) -> None:
    """The store's place is as long a sum as the map's, with another number at its end."""

    def place(k: Any, words: int) -> Any:
        total = k.special_register("ctaid.x").to(nvb.i32)
        for _ in range(operations - 1):
            total = total + k.special_register("ctaid.y").to(nvb.i32)
        return (total * MAP_WORDS) + words

    assert len(copies_told(lambda k: place(k, 1), [lambda k: place(k, 0)])) == told


@pytest.mark.parametrize("others", [0, 1, 3])
def test_the_store_that_is_named(others: int) -> None:
    """Of several one after another, before and after it, the one to the map."""

    @nvb.kernel("sm_90a", threads=32)
    def kernel(k: Any, maps: nvb.Pointer(u32, align=128)) -> None:  # type: ignore[valid-type]
        row, full = k.shared(f32, 32, align=128), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.one_thread():
            for index in range(others):
                maps[MAP_WORDS * (index + 2)] = 0  # type: ignore[index]
            maps[17] = 0  # type: ignore[index]
            for index in range(others):
                maps[MAP_WORDS * (index + 2)] = 1  # type: ignore[index]
            k.mbarrier.arrive(full, expect_tx=128)
            k.tma.load_box(row, k.tensormap.at(maps, ROW), (0, 0), full)
            k.mbarrier.wait(full, 0)

    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel.build()
    (found,) = caught.value.diagnostics
    ((_, place),) = found.notes
    assert place is not None
    assert linecache.getline(__file__, place.line).strip().startswith("maps[17] = 0")
