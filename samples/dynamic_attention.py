"""O = softmax(Q K^T) V on Hopper by CTAs that ask for their tiles of queries: a counter in memory hands them out.

Causal tiles, where a query sees the keys up to its own, take unequal times: those with the most keys come first, among
the heads whose keys fit into L2. The last weights of a tile are multiplied with V beside the first scores of the next
one. The type, the head's dimension, causality, and how many heads of Q share one of K and V are constants of the build,
and so is what `choose` gives. Run it as it is.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Annotated, Any, TypeAlias

import nvbackend as nvb
from nvbackend import Major, f16, f32, i32, i64, u32
from nvbackend.layout import Layout
from samples.flash_attention import PANEL, QUICK, Keys, Output, Rows, packed, problem_of
from samples.problem import Problem
from samples.problem import main as solve

MAILBOXES, PLACE = 2, ("head", "first", "steps")
TOGETHER = 65536  # rows of keys of the heads that are walked together, with 256 columns half as many
GROWTH = 8.0  # of weights, in powers of two, that nothing is done about: f16 holds 2^15
LEAST = -1e30  # the greatest score of a row without any
FIRST_TURN = 1  # named barriers: the turn of each warpgroup
ROUND = 12582912.0  # 1.5 * 2^23: added and taken away again, it rounds an f32
EXP2 = (0.05550410866, 0.24022650695, 0.69314718056, 1.0)  # 2^x from -0.5 to 0.5, within 1e-4

Place: TypeAlias = "tuple[nvb.Value, nvb.Value, nvb.Value]"  # a tile's head, first query, and steps
Ring: TypeAlias = "nvb.Ring[nvb.SharedTile]"


def map_of_queries(element: nvb.ElementType, consumers: int) -> nvb.TensorMap:
    return nvb.TensorMap(element, box=(1, 64 * consumers, PANEL))


Queries = Annotated[nvb.TensorMap, map_of_queries]


@dataclass(frozen=True)
class Form:
    """What differs by the head's dimension and by how long the rows are. Causal tiles have whole blocks of queries."""

    consumers: int = 2
    block: int = 128  # keys of a step
    stages: int = 2
    q_stages: int = 2
    turns: bool = False  # whether warpgroups multiply in turns, by named barriers
    patient: bool = False  # whether weights may grow by 2^GROWTH before all that was summed is scaled
    polynomial: int = 0  # one of twice as many powers of two is made by multiplies; 0: none


def choose(depth: int, rows: int, *, causal: bool) -> Form:
    """The fastest of those that were measured: three warpgroups pay where a tile has many steps."""
    if depth == 256:
        return Form(block=64, q_stages=1, turns=True, patient=True)
    if depth == 128:
        return Form()
    if rows >= (8192 if causal else 2048):
        return Form(3, 96 if causal else 128, stages=3, q_stages=1, turns=causal, patient=True)
    return Form(stages=3, turns=causal, polynomial=4 if causal else 0)


class Tiles:
    """Tiles that the producer draws from a counter and hands over through mailboxes: numbers, of causal ones places."""

    def __init__(
        self, k: nvb.KernelBuilder, counter: nvb.Address, heads: nvb.Value, rows: nvb.Value, form: Form, together: int
    ) -> None:
        self._k, self._counter, self._heads, self._rows = k, counter, heads, rows
        self._queries, self._block, self._together = 64 * form.consumers, form.block, together
        divided = lambda: (rows + (self._queries - 1)) // self._queries  # noqa: E731
        at_start = None if together else divided()
        self._of_a_head = lambda: divided() if at_start is None else at_start
        self._mail = [k.shared(i32, MAILBOXES, name=name) for name in PLACE[: 3 if together else 1]]
        self._posted = k.mbarrier.array(MAILBOXES, arrivals=1, name="posted")
        self._taken = k.mbarrier.array(MAILBOXES, arrivals=128 * form.consumers, name="taken")
        self._turn = k.var(0, i32)

    def _place(self, number: nvb.Value) -> Place:
        """Causal tiles of a group of heads, the last queries of all its heads first; others head by head."""
        k = self._k
        if not self._together:
            steps = (self._rows + (self._block - 1)) // self._block
            return number // self._of_a_head(), number % self._of_a_head() * self._queries, steps
        group = k.math.max(self._together // self._rows, 1)
        of_a_group = group * self._of_a_head()
        begin, rest = number // of_a_group * group, number % of_a_group
        width = k.math.min(group, self._heads - begin)
        tile = self._of_a_head() - 1 - rest // width
        return begin + rest % width, tile * self._queries, (tile + 1) * (self._queries // self._block)

    @contextmanager
    def draw(self) -> Iterator[Place]:
        """For the producer. Who draws the last number sets the counter back to 0."""
        k = self._k
        count, ctas = self._heads * self._of_a_head(), k.block_count().to(i32)
        tile = k.var(k.block_id(), i32)
        with k.loop():
            mailbox = self._turn % MAILBOXES
            place = self._place(k.math.min(tile, count - 1)) if self._together else None
            k.mbarrier.wait(self._taken + mailbox, self._turn // MAILBOXES % 2 ^ 1)
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
            self._turn += 1

    @contextmanager
    def take(self) -> Iterator[Place]:
        """For all threads of the consumers."""
        k = self._k
        with k.loop():
            mailbox = self._turn % MAILBOXES
            k.mbarrier.wait(self._posted + mailbox, self._turn // MAILBOXES % 2)
            first, *rest = (k.var(mail[mailbox]) for mail in self._mail)
            k.mbarrier.arrive(self._taken + mailbox)
            k.break_if(first >= (self._heads if rest else self._heads * self._of_a_head()))
            yield (first.value, rest[0].value, rest[1].value) if rest else self._place(first.value)
            self._turn += 1


class Softmax:
    """The sum of weights of each row so far, and the score that they are relative to."""

    def __init__(self, k: nvb.KernelBuilder, scores: nvb.TileValues, depth: int, form: Form) -> None:
        self._k, self._form = k, form
        self._scale = math.log2(math.e) / math.sqrt(depth)  # of scores, for powers of two
        self.most = k.var(scores.rows(0.0), name="most")
        self.total = k.var(scores.rows(1.0), name="total")

    def _greatest(self, scores: nvb.TileValues) -> nvb.AxisValues:
        """Of each row, in two chains: a thread has pairs of columns, of its rows in turns."""
        first, second, third, fourth = (reduce(self._k.math.max, scores[part::4]) for part in range(4))
        own = iter((self._k.math.max(first, second), self._k.math.max(third, fourth)))
        return scores.rows(0.0).map(lambda _: next(own)).reduce_lanes("max")

    def _weights(self, scores: nvb.TileValues, most: nvb.AxisValues) -> nvb.TileValues:
        """Powers of two, one of `polynomial` * 2 by multiplies: the unit that has them is the slowest of all."""
        numbers = iter(range(len(scores)))

        def weight(score: nvb.Value, shift: nvb.Value) -> nvb.Value:
            number, power = next(numbers), score * self._scale - shift
            mine = self._form.polynomial and number // 4 % self._form.polynomial == 0 and number % 2
            return self._by_multiplies(power) if mine else self._k.math.exp2(power)

        return scores.map(weight, most.map(lambda value: value * self._scale))

    def _by_multiplies(self, power: nvb.Value) -> nvb.Value:
        power = self._k.math.max(power, -126.0)
        whole = power + ROUND
        rest = power - (whole - ROUND)
        made = reduce(lambda sum_, factor: sum_ * rest + factor, EXP2[1:], self._k.const(EXP2[0], f32))
        return (made.bitcast(i32) + (whole.bitcast(i32) << 23)).bitcast(f32)

    def begin(self, scores: nvb.TileValues) -> nvb.TileValues:
        """The weights of a tile's first scores. A row may have none that count."""
        most = self._greatest(scores).map(lambda value: self._k.math.max(value, LEAST))
        weights = self._weights(scores, most)
        self.most.set(most)
        self.total.set(weights.reduce_rows("add", lanes=False))
        return weights

    def step(self, scores: nvb.TileValues) -> tuple[nvb.TileValues, nvb.AxisValues, nvb.Value | None]:
        """The weights of more scores, the factor for the weights before, and whether a row of the warp has one."""
        k, before = self._k, self.most.value
        limit = GROWTH / self._scale
        above = (lambda old, new: k.select(new > old + limit, new, old)) if self._form.patient else k.math.max
        most = before.map(above, self._greatest(scores))
        factor = before.map(lambda old, new: k.math.exp2((old - new) * self._scale), most)
        weights = self._weights(scores, most)
        self.total.set(self.total.value * factor + weights.reduce_rows("add", lanes=False))
        first, second = zip(before.values, most.values, strict=True)
        self.most.set(most)
        if not self._form.patient:
            return weights, factor, None
        return weights, factor, k.warp.vote("any", (first[1] > first[0]) | (second[1] > second[0]))

    def sums(self) -> nvb.AxisValues:
        """The sum of each row's weights, over the four lanes that have parts of it."""
        return self.total.value.reduce_lanes("add")


def produce(
    k: nvb.KernelBuilder,
    rings: tuple[Ring, Ring, Ring],
    maps: tuple[nvb.TensorMapParameter, nvb.TensorMapParameter, nvb.TensorMapParameter],
    tiles: Tiles,
    block: int,
    share: int,
) -> None:
    """Load a block of keys, then the values of the block before it, also across tiles: they are multiplied in turn.

    In front of all there are values of no tile, which are multiplied with weights of zero.
    """
    (q_ring, k_ring, v_ring), (q, keys, values) = rings, maps
    before = k.var(0, i32)

    def load(ring: Ring, of: nvb.TensorMapParameter, at: Sequence[nvb.Operand]) -> None:
        with ring.fill() as stage:
            k.tma.load(stage.tile, of, at, stage.full)

    with tiles.draw() as (head, first, steps):
        owner = head // share if share > 1 else head
        load(k_ring, keys, (owner, (steps - 1) * block, 0))
        load(v_ring, values, (before.value, 0, 0))
        load(q_ring, q, (head, first, 0))
        with k.range(steps - 1) as done:
            at = (steps - 1 - done) * block
            load(k_ring, keys, (owner, at - block, 0))
            load(v_ring, values, (owner, 0, at))
        before.set(owner)
    load(v_ring, values, (before.value, 0, 0))


class Consumer:
    """A warpgroup, with the weights that are not multiplied with V yet."""

    def __init__(
        self,
        k: nvb.KernelBuilder,
        tiled: tuple[nvb.TiledWgmma, nvb.TiledWgmma],
        mine: nvb.Value,
        form: Form,
        *,
        causal: bool,
    ) -> None:
        self._k, self._mine, self._form, self._causal = k, mine, form, causal
        self._scoring, self._weighing = tiled
        self._scores, self._acc = self._scoring.accumulator("scores"), self._weighing.accumulator("o")
        self._words = self._weighing.register_tensor_A(form.block, "weights")
        self._words.set_registers([k.const(0, u32)] * len(self._words.registers()))
        self._depth = self._acc.elements().shape[1]
        self._queries = 64 * form.consumers
        self.softmax = Softmax(k, self._scores.elements(mine), self._depth, form)

    @contextmanager
    def turns(self) -> Iterator[None]:
        """Let the first warpgroup begin, and take the turn that is left at the end."""
        if not self._form.turns:
            yield
            return
        with self._k.if_(self._mine == self._form.consumers - 1):
            self._k.barrier.arrive(FIRST_TURN, 256)
        yield
        with self._k.if_(self._mine == 0):
            self._k.barrier.sync(FIRST_TURN, 256)

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        if not self._form.turns:
            yield
            return
        last = self._mine == self._form.consumers - 1
        self._k.barrier.sync(FIRST_TURN + self._mine, 256)
        yield
        self._k.barrier.arrive(self._k.select(last, FIRST_TURN, FIRST_TURN + 1 + self._mine), 256)

    def _multiply(self, query: nvb.SharedTile, key: nvb.SharedTile, value: nvb.SharedTile) -> None:
        """The next scores, and the weights times V, of which only the scores are there after it."""
        k = self._k
        self._scores.clear()
        fragment = self._weighing.make_fragment_A(self._words)
        with self._my_turn():
            k.wgmma.fence()
            self._scoring.accumulate(self._scores, query, key, self._mine)
            k.wgmma.commit_group()
            self._weighing.accumulate(self._acc, fragment, value)
            k.wgmma.commit_group()
        k.wgmma.wait_group(1, drains=[self._scores])

    def _first_seen(self, keys_left: nvb.Value) -> nvb.TileValues:
        if self._causal:
            return self._seen(0)
        return self._scores.elements(self._mine).where(lambda _, key: key < keys_left, -math.inf)

    def _seen(self, step: int) -> nvb.TileValues:
        """Scores of a tile's first steps, its last keys, without those of keys beyond the query's own."""
        after = self._queries - self._form.block * (step + 1)
        return self._scores.elements(self._mine).where(lambda row, key: key + after <= row, -math.inf)

    def _set_words(self, weights: nvb.TileValues, element: nvb.ElementType) -> None:
        self._words.set_registers(packed(self._k, weights, element))

    def begin(
        self, query: nvb.SharedTile, k_ring: Ring, v_ring: Ring, keys_left: nvb.Value
    ) -> tuple[nvb.TileValues, nvb.TileValues]:
        """The first step of a tile: its weights, and what the tile before it comes to."""
        with v_ring.drain() as value:
            with k_ring.drain() as key:
                self._multiply(query, key.tile, value.tile)
            sums = self.softmax.sums()
            weights = self.softmax.begin(self._first_seen(keys_left))
            self._k.wgmma.wait_group(0, drains=[self._acc])
        return weights, self._acc.elements(self._mine) / sums

    def clear(self, weights: nvb.TileValues, element: nvb.ElementType) -> None:
        self._acc.clear()
        self._set_words(weights, element)

    def step(self, query: nvb.SharedTile, k_ring: Ring, v_ring: Ring, element: nvb.ElementType, masked: int) -> None:
        """A step after the first; `masked` is its number where some query must not see all of its keys, else 0."""
        k = self._k
        with v_ring.drain() as value:
            with k_ring.drain() as key:
                self._multiply(query, key.tile, value.tile)
            weights, factor, grew = self.softmax.step(self._seen(masked) if masked else self._scores.elements())
            k.wgmma.wait_group(0, drains=[self._acc])
            with nullcontext() if grew is None else k.if_(grew):
                self._acc.set(self._acc.elements() * factor)
            self._set_words(weights, element)

    def finish(self, v_ring: Ring) -> nvb.TileValues:
        """The last tile."""
        fragment = self._weighing.make_fragment_A(self._words)
        with v_ring.drain() as value, self._k.wgmma.group():
            self._weighing.accumulate(self._acc, fragment, value.tile)
        return self._acc.elements(self._mine) / self.softmax.sums()


def store(
    k: nvb.KernelBuilder, o: nvb.Address, tile: nvb.TileValues, at: tuple[nvb.Value, nvb.Value], rows: nvb.Value
) -> None:
    """Store a tile of a head from its first row on, up to the last of its rows."""
    (head, first), shape = at, tile.shape
    place = (head.to(i64) * rows.to(i64) + first.to(i64)) * shape[1]
    to = k.tensor(o + place, Layout(shape, (shape[1], 1)))
    tile.store(to, where=k.identity_tensor(shape, at=(first, 0)).below(rows, None))


@nvb.kernel("sm_90a", threads=lambda consumers: 128 * (1 + consumers), min_ctas=1, math=QUICK)
def dynamic_attention(
    k: nvb.KernelBuilder,
    q: Queries,
    keys: Keys,
    values: Keys,
    o: Output,
    heads: Rows,
    rows: Rows,
    counter: Annotated[nvb.Pointer, nvb.Pointer(i32)],
    *,
    element: nvb.ElementType = f16,
    depth: int = 128,
    causal: bool = False,
    share: int = 1,
    consumers: int = 2,
    block: int = 128,
    stages: int = 2,
    q_stages: int = 2,
    turns: bool = False,
    patient: bool = False,
    polynomial: int = 0,
) -> None:
    """`share` heads of Q have one head of K and V."""
    form = Form(consumers, block, stages, q_stages, turns, patient, polynomial)
    scoring = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{block}k16", element, element, f32), (consumers, 1))
    weights_times_v = nvb.wgmma.mma_async(f"m64n{depth}k16", element, element, f32, a_in_registers=True)
    weighing = k.tiled_mma(weights_times_v, (consumers, 1))
    q_ring = k.pipeline(q_stages, consumers, tile=scoring.smem_a(depth))
    k_ring = k.pipeline(stages, consumers, tile=scoring.smem_b(depth))
    v_ring = k.pipeline(stages, consumers, tile=weighing.smem_b(block, Major.MN))
    k.tma.prefetch_maps(q, keys, values)
    tiles = Tiles(k, counter, heads, rows, form, TOGETHER * 128 // max(depth, 128) if causal else 0)
    k.mbarrier.ready()
    with k.producer(registers=24):
        produce(k, (q_ring, k_ring, v_ring), (q, keys, values), tiles, block, share)

    with k.consumers(registers=480 // consumers) as mine:
        one = Consumer(k, (scoring, weighing), mine, form, causal=causal)
        of_head, of_row = k.var(0, i32), k.var(rows)  # the tile whose last weights are not multiplied yet: none
        masked = 64 * consumers // block if causal else 1  # steps of a tile with keys that some query must not see
        with one.turns(), tiles.take() as (head, first, steps), q_ring.drain() as query:
            weights, made = one.begin(query.tile, k_ring, v_ring, rows - (steps - 1) * block)
            store(k, o, made, (of_head.value, of_row.value), rows)
            one.clear(weights, element)
            of_head.set(head)
            of_row.set(first)
            for step in range(1, masked):
                one.step(query.tile, k_ring, v_ring, element, step)
            with k.range(steps - masked):
                one.step(query.tile, k_ring, v_ring, element, 0)
        store(k, o, one.finish(v_ring), (of_head.value, of_row.value), rows)


def launch(
    loaded: nvb.runtime.LoadedKernel, q: Any, keys: Any, values: Any, counter: Any, o: Any, *, consumers: int = 2
) -> None:
    """Start the kernel on Q, K, V and O, each of heads x rows x depth, and a counter that is 0 and becomes 0 again."""
    heads, rows, _ = q.shape
    ctas = grid(heads, rows, loaded.device.limits.multiprocessors, consumers)
    loaded.launch(ctas, q, keys, values, o, heads, rows, counter)


def grid(heads: int, rows: int, multiprocessors: int, consumers: int = 2) -> int:
    """CTAs to launch: one for each multiprocessor, as long as each has a tile."""
    return min(heads * -(-rows // (64 * consumers)), multiprocessors)


def kernel(
    form: Form, depth: int = 128, *, causal: bool = False, share: int = 1, element: nvb.ElementType = f16
) -> nvb.KernelDefinition:
    """The kernel for these constants."""
    return dynamic_attention.with_(element=element, depth=depth, causal=causal, share=share, **vars(form))


FORMS: dict[str, dict[str, Any]] = {
    "causal": {"causal": True},
    "plain": {},
    "shared": {"causal": True, "share": 2},
    "broad": {"depth": 256},
    "broad_causal": {"depth": 256, "causal": True},
    "narrow": {"depth": 64},
    "narrow_causal": {"depth": 64, "causal": True},
    "narrow_long": {"depth": 64, "long": 2048},
    "narrow_long_causal": {"depth": 64, "causal": True, "long": 8192},
}


def problem(form: str, heads: int, rows: int) -> Problem:
    """Random Q, K and V, and O in f64. The long forms are what `choose` has for longer rows."""
    import numpy as np

    constants = FORMS[form].copy()
    length = constants.pop("long", rows)
    depth, causal = constants.get("depth", 128), constants.get("causal", False)
    chosen = choose(depth, length, causal=causal)
    one = problem_of(kernel(chosen, **constants), partial(launch, consumers=chosen.consumers), heads, rows, **constants)
    return replace(one, inputs=(*one.inputs, np.zeros(1, np.int32)))


def main() -> int:
    return solve(
        __doc__, problem, sizes="heads and rows", on_the_gpu=(4, 1000), in_the_simulator=(2, 300), forms=tuple(FORMS)
    )


if __name__ == "__main__":
    sys.exit(main())
