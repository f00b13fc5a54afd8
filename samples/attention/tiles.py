"""Which tile of queries a CTA takes next, by a counter in memory, and the ring that holds the queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import nvbackend as nvb
from samples.attention.choice import WARPGROUP_ROWS, WARPGROUP_THREADS, Form

Place: TypeAlias = "tuple[nvb.Value, nvb.Value, nvb.Value]"  # a tile's head, first query and steps


@dataclass(frozen=True)
class Tiles:
    """Tiles of sequences of one length, and the place of what is drawn or taken."""

    dealt: nvb.DynamicTiles[Any]
    place: Callable[[Any], Place]


def even_tiles(
    k: nvb.KernelBuilder, counter: nvb.Address, heads: nvb.Value, rows: nvb.Value, form: Form, together: int
) -> Tiles:
    """Causal tiles of a group of heads, the last queries of all its heads first; others head by head.

    The former's place is computed once and mailed; that of others follows quickly from their number.
    """
    queries, block = WARPGROUP_ROWS * form.consumers, form.block
    of_a_head = (rows + (queries - 1)) // queries
    count = heads * of_a_head

    def in_order(number: nvb.Value) -> Place:
        return number // of_a_head, number % of_a_head * queries, (rows + (block - 1)) // block

    def in_groups(number: nvb.Value) -> Place:
        group = k.math.max(together // rows, 1)
        head, tile = grouped(k, number, group, heads, of_a_head)
        return head, tile * queries, (tile + 1) * (queries // block)

    if together:
        return Tiles(k.dynamic_tiles(counter, count, form.consumers, place=in_groups), lambda place: place)
    return Tiles(k.dynamic_tiles(counter, count, form.consumers), in_order)


def grouped(
    k: nvb.KernelBuilder, number: nvb.Value, group: nvb.Value, heads: nvb.Value, of_a_head: nvb.Value
) -> tuple[nvb.Value, nvb.Value]:
    """The head and the tile of a number, if `group` heads are walked together: the last tile of each, and so on."""
    begin, rest = number // (group * of_a_head) * group, number % (group * of_a_head)
    width = k.math.min(group, heads - begin)
    return begin + rest % width, of_a_head - 1 - rest // width


class QueryRing:
    """Stages of queries, given back as soon as a tile's last scores are there: `k.pipeline` would do it at its end.

    The next queries are on their way while the last weights are made.
    """

    def __init__(self, k: nvb.KernelBuilder, layout: nvb.SmemLayout, form: Form, dealt: nvb.DynamicTiles[Any]) -> None:
        self._k, self._stages, self._dealt, self._bytes = k, form.q_stages, dealt, layout.bytes
        self._tiles = k.shared_tiles(layout, form.q_stages, name="queries")
        self._full = k.mbarrier.array(form.q_stages, arrivals=1, name="queries_full")
        self._empty = k.mbarrier.array(form.q_stages, arrivals=form.consumers, name="queries_empty")

    def load(self, queries: nvb.TensorMapParameter, head: nvb.Value, first: nvb.Value) -> None:
        """For the producer."""
        k, stage = self._k, self._dealt.before % self._stages
        k.mbarrier.wait(self._empty + stage, self._dealt.before // self._stages % 2 ^ 1)
        k.mbarrier.arrive(self._full + stage, expect_tx=self._bytes)
        k.tma.load(self._tiles.at(stage), queries, (head, first, 0), self._full + stage)

    def wait(self) -> nvb.SharedTile:
        """For all threads of the consumers."""
        stage = self._dealt.before % self._stages
        self._k.mbarrier.wait(self._full + stage, self._dealt.before // self._stages % 2)
        return self._tiles.at(stage)

    def give_back(self, when: nvb.Value) -> None:
        """For all threads of a warpgroup that has its scores of a step: if that is the last of the tile."""
        of_warpgroup = self._k.thread_id() % WARPGROUP_THREADS
        self._k.mbarrier.arrive(self._empty + self._dealt.before % self._stages, when=(of_warpgroup == 0) & when)
