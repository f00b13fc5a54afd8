"""Which tile of queries a CTA takes next, by a counter in memory, and the ring that holds the queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import nvbackend as nvb
from nvbackend import i32
from samples.attention.choice import WARPGROUP_ROWS, WARPGROUP_THREADS, Form

MAILBOXES = 2

Place: TypeAlias = "tuple[nvb.Value, ...]"  # a tile's head, first query, and what else both sides need


class Tiles(ABC):
    """Tiles that the producer draws from a counter and hands over through mailboxes: numbers, or parts of a place."""

    def __init__(
        self,
        k: nvb.KernelBuilder,
        counter: nvb.Address,
        heads: nvb.Value,
        of_a_head: Callable[[], nvb.Value],
        form: Form,
        parts: Sequence[str],
    ) -> None:
        self._k, self._counter, self._heads, self._of_a_head = k, counter, heads, of_a_head
        self._mail = [k.shared(i32, MAILBOXES, name=name) for name in parts]
        self._posted = k.mbarrier.array(MAILBOXES, arrivals=1, name="posted")
        self._taken = k.mbarrier.array(MAILBOXES, arrivals=WARPGROUP_THREADS * form.consumers, name="taken")
        self.turn = k.var(0, i32, name="turn")
        """How many tiles there were before, of the producer or of the consumers."""

    @abstractmethod
    def _place(self, number: nvb.Value) -> Place:
        """Where a tile is."""

    def _in_groups(self, number: nvb.Value, group: nvb.Value) -> tuple[nvb.Value, nvb.Value]:
        """The head and the tile of a number, if `group` heads are walked together: the last tile of each, and so on."""
        of_a_group = group * self._of_a_head()
        begin, rest = number // of_a_group * group, number % of_a_group
        width = self._k.math.min(group, self._heads - begin)
        tile = self._of_a_head() - 1 - rest // width
        return begin + rest % width, tile

    @contextmanager
    def draw(self) -> Iterator[Place]:
        """For the producer. Who draws the last number sets the counter back to 0."""
        k = self._k
        count, ctas = self._heads * self._of_a_head(), k.block_count().to(i32)
        tile = k.var(k.block_id(), i32)
        with k.loop():
            mailbox = self.turn % MAILBOXES
            place = self._place(k.math.min(tile, count - 1)) if len(self._mail) > 1 else None
            k.mbarrier.wait(self._taken + mailbox, self.turn // MAILBOXES % 2 ^ 1)
            posted = (tile,) if place is None else (k.select(tile < count, place[0], self._heads), *place[1:])
            for mail, number in zip(self._mail, posted, strict=True):
                mail[mailbox] = number
            k.mbarrier.arrive(self._posted + mailbox)
            k.break_if(tile >= count)
            following = k.atomic.add(self._counter, 1) + ctas
            yield place or self._place(tile.value)
            with k.if_(following == count + ctas - 1):
                self._counter.store(0, order="relaxed", scope="gpu")
            tile.set(following)
            self.turn += 1

    @contextmanager
    def take(self) -> Iterator[Place]:
        """For all threads of the consumers."""
        k = self._k
        with k.loop():
            mailbox = self.turn % MAILBOXES
            k.mbarrier.wait(self._posted + mailbox, self.turn // MAILBOXES % 2)
            first, *rest = (k.var(mail[mailbox]) for mail in self._mail)
            k.mbarrier.arrive(self._taken + mailbox)
            k.break_if(first >= (self._heads if rest else self._heads * self._of_a_head()))
            yield (first.value, *(part.value for part in rest)) if rest else self._place(first.value)
            self.turn += 1


class EvenTiles(Tiles):
    """Tiles of sequences of `rows`, one for each head: their head, first query, and steps."""

    def __init__(
        self, k: nvb.KernelBuilder, counter: nvb.Address, heads: nvb.Value, rows: nvb.Value, form: Form, together: int
    ) -> None:
        self._rows, self._queries, self._block = rows, WARPGROUP_ROWS * form.consumers, form.block
        self._together = together
        divided = lambda: (rows + (self._queries - 1)) // self._queries  # noqa: E731
        at_start = None if together else divided()
        parts = ("head", "first", "steps") if together else ("number",)
        super().__init__(k, counter, heads, lambda: divided() if at_start is None else at_start, form, parts)

    def _place(self, number: nvb.Value) -> Place:
        """Causal tiles of a group of heads, the last queries of all its heads first; others head by head."""
        if not self._together:
            steps = (self._rows + (self._block - 1)) // self._block
            return number // self._of_a_head(), number % self._of_a_head() * self._queries, steps
        head, tile = self._in_groups(number, self._k.math.max(self._together // self._rows, 1))
        return head, tile * self._queries, (tile + 1) * (self._queries // self._block)


class QueryRing:
    """Stages of queries, given back as soon as a tile's last scores are there: `k.pipeline` would do it at its end.

    The next queries are on their way while the last weights are made.
    """

    def __init__(self, k: nvb.KernelBuilder, layout: nvb.SmemLayout, form: Form, turn: nvb.Variable) -> None:
        self._k, self._stages, self._turn, self._bytes = k, form.q_stages, turn, layout.bytes
        self._tiles = k.shared_tiles(layout, form.q_stages, name="queries")
        self._full = k.mbarrier.array(form.q_stages, arrivals=1, name="queries_full")
        self._empty = k.mbarrier.array(form.q_stages, arrivals=form.consumers, name="queries_empty")

    def load(self, queries: nvb.TensorMapParameter, head: nvb.Value, first: nvb.Value) -> None:
        """For the producer."""
        k, stage = self._k, self._turn % self._stages
        k.mbarrier.wait(self._empty + stage, self._turn // self._stages % 2 ^ 1)
        k.mbarrier.arrive(self._full + stage, expect_tx=self._bytes)
        k.tma.load(self._tiles.at(stage), queries, (head, first, 0), self._full + stage)

    def wait(self) -> nvb.SharedTile:
        """For all threads of the consumers."""
        stage = self._turn % self._stages
        self._k.mbarrier.wait(self._full + stage, self._turn // self._stages % 2)
        return self._tiles.at(stage)

    def give_back(self, when: nvb.Value) -> None:
        """For all threads of a warpgroup that has its scores of a step: if that is the last of the tile."""
        of_warpgroup = self._k.thread_id() % WARPGROUP_THREADS
        self._k.mbarrier.arrive(self._empty + self._turn % self._stages, when=(of_warpgroup == 0) & when)
