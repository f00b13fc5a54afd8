"""O = softmax(Q K^T) V on Hopper by persistent CTAs, which take tiles of queries from a counter in memory.

In causal attention a query sees the keys up to its own, so tiles take unequal times: those with the most keys come
first, among the heads whose keys fit into L2. The last weights of a tile are multiplied with V while the first scores
of the next tile are multiplied. The type, the head's dimension, causality, and how many heads of Q share a head of K
and V are constants of the build, and so is what `choose` returns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Annotated, Any, TypeAlias

import nvbackend as nvb
from nvbackend import Major, f16, i32, u32
from samples.attention.choice import WARPGROUP_ROWS, WARPGROUP_THREADS, Form
from samples.attention.softmax import Softmax
from samples.attention.tiles import QueryRing, Tiles, even_tiles
from samples.flash_attention import PANEL, QUICK, Keys, Output, Rows, check_shapes, packed, products, store

TOGETHER = 65536  # rows of keys of the heads that are walked together, with 256 columns half as many
FIRST_TURN = 1  # named barriers: the turn of each warpgroup

Ring: TypeAlias = "nvb.Ring[nvb.SharedTile]"
LoadKeys: TypeAlias = "Callable[[nvb.Stage[nvb.SharedTile], nvb.Value, nvb.Value], None]"
"""Loads the keys of a head from a row on, to a stage of the ring, in another order than they have in memory."""
Seen: TypeAlias = Callable[[], "nvb.TileValues"]  # the scores of a step, without those that do not count


def map_of_queries(element: nvb.ElementType, consumers: int) -> nvb.TensorMap:
    return nvb.TensorMap(element, box=(1, WARPGROUP_ROWS * consumers, PANEL))


Queries = Annotated[nvb.TensorMap, map_of_queries]


def produce(
    k: nvb.KernelBuilder,
    rings: tuple[QueryRing, Ring, Ring],
    maps: tuple[nvb.TensorMapParameter, nvb.TensorMapParameter, nvb.TensorMapParameter],
    tiles: Tiles,
    block: int,
    share: int,
    load_keys: LoadKeys | None = None,
) -> None:
    """Load a block of keys, then the values of the block before it, also across tiles: they are multiplied in turn.

    In front of all there are values of no tile, which are multiplied with weights of zero.
    """
    (q_ring, k_ring, v_ring), (q, keys, values) = rings, maps
    before = k.var(0, i32)

    def load(ring: Ring, of: nvb.TensorMapParameter, at: Sequence[nvb.Operand]) -> None:
        with ring.fill() as stage:
            k.tma.load(stage.tile, of, at, stage.full)

    def load_block(owner: nvb.Value, first: nvb.Value) -> None:
        if load_keys is None:
            load(k_ring, keys, (owner, first, 0))
            return
        with k_ring.fill() as stage:
            load_keys(stage, owner, first)

    with tiles.dealt.draw() as drawn:
        head, first, steps = tiles.place(drawn)
        owner = head // share if share > 1 else head
        load_block(owner, (steps - 1) * block)
        load(v_ring, values, (before.value, 0, 0))
        q_ring.load(q, head, first)
        with k.range(steps - 1) as done:
            at = (steps - 1 - done) * block
            load_block(owner, at - block)
            load(v_ring, values, (owner, 0, at))
        before.set(owner)
    load(v_ring, values, (before.value, 0, 0))


class Consumer:
    """A warpgroup, with the weights that are not multiplied with V yet.

    Where a block has as many keys as a warpgroup has queries, each begins with the block of its own queries, of which a
    query sees a part, and passes over the blocks after it, of which its queries see nothing.
    """

    def __init__(
        self,
        k: nvb.KernelBuilder,
        tiled: tuple[nvb.TiledWgmma, nvb.TiledWgmma],
        q_ring: QueryRing,
        mine: nvb.Value,
        form: Form,
        *,
        causal: bool,
    ) -> None:
        self._k, self._q_ring, self._mine, self._form, self._causal = k, q_ring, mine, form, causal
        self._scoring, self._weighing = tiled
        self.block = form.block
        self._scores, self._acc = self._scoring.accumulator("scores"), self._weighing.accumulator("o")
        self._words = self._weighing.register_tensor_A(form.block, "weights")
        self._words.set_registers([k.const(0, u32)] * len(self._words.registers()))
        self._leaves_out = causal and form.block == WARPGROUP_ROWS
        self.left_out = form.consumers - 1 - mine if self._leaves_out else k.const(0, i32)
        self.masked = WARPGROUP_ROWS * form.consumers // form.block if causal and not self._leaves_out else 1
        """How many of a tile's first steps have keys that some query must not see."""
        self.softmax = self._softmax(self._scores.elements(mine), self._acc.elements().shape[1])

    def _softmax(self, scores: nvb.TileValues, depth: int) -> Softmax:
        return Softmax(self._k, scores, math.log2(math.e) / math.sqrt(depth), self._form)

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

    def _leave_out(self, ring: Ring, *, turns: bool = False) -> None:
        """Pass over the blocks that none of the warpgroup's queries sees, and over its turns beside them."""
        if not self._leaves_out:
            return
        together = FIRST_TURN + self._form.consumers + self._mine
        with self._k.range(self.left_out), ring.drain(), self._my_turn() if turns else nullcontext():
            self._k.barrier.sync(together, WARPGROUP_THREADS)  # all have seen the block come before it is given back

    def _multiply(self, query: nvb.SharedTile, key: nvb.SharedTile, value: nvb.SharedTile, last: nvb.Value) -> None:
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
        self._q_ring.give_back(when=last)

    def first_seen(self, keys_left: nvb.Value) -> nvb.TileValues:
        if self._causal:
            return self.seen(0)
        return self._scores.elements(self._mine).where(lambda _, place: self._key(place) < keys_left, -math.inf)

    def seen(self, step: int) -> nvb.TileValues:
        """Scores of a tile's first steps, its last keys, without those of keys beyond the query's own."""
        form = self._form
        first = WARPGROUP_ROWS * form.consumers - form.block * (step + 1)
        key_of_mine = WARPGROUP_ROWS * self._mine if self._leaves_out else first
        seen = lambda row, place: self._key(place) + key_of_mine <= row  # noqa: E731
        return self._scores.elements(self._mine).where(seen, -math.inf)

    def _key(self, place: nvb.Value) -> nvb.Value:
        """The key of a block whose scores have this place."""
        return place

    def _packed(self, weights: nvb.TileValues) -> list[nvb.Value]:
        """The registers of A."""
        return packed(self._k, weights, self._weighing.instruction.a)

    def begin(
        self, query: nvb.SharedTile, k_ring: Ring, v_ring: Ring, seen: Seen, last: nvb.Value
    ) -> tuple[nvb.TileValues, nvb.TileValues]:
        """The first step of a tile: its weights, and what the tile before it comes to."""
        with v_ring.drain() as value:
            self._leave_out(k_ring, turns=True)
            with k_ring.drain() as key:
                self._multiply(query, key.tile, value.tile, last)
            sums = self.softmax.sums()
            weights = self.softmax.begin(seen())
            self._k.wgmma.wait_group(0, drains=[self._acc])
        self._leave_out(v_ring)
        return weights, self._acc.elements(self._mine) / sums

    def clear(self, weights: nvb.TileValues) -> None:
        self._acc.clear()
        self._words.set_registers(self._packed(weights))

    def step(self, query: nvb.SharedTile, k_ring: Ring, v_ring: Ring, seen: Seen | None, last: nvb.Value) -> None:
        """A step after the first; `seen` are its scores where some query must not see all of its keys."""
        k = self._k
        with v_ring.drain() as value:
            with k_ring.drain() as key:
                self._multiply(query, key.tile, value.tile, last)
            weights, factor, grew = self.softmax.step(self._scores.elements() if seen is None else seen())
            k.wgmma.wait_group(0, drains=[self._acc])
            with nullcontext() if grew is None else k.if_(grew):
                self._acc.set(self._acc.elements() * factor)
            self._words.set_registers(self._packed(weights))

    def finish(self, v_ring: Ring) -> nvb.TileValues:
        """The last tile."""
        fragment = self._weighing.make_fragment_A(self._words)
        with v_ring.drain() as value, self._k.wgmma.group():
            self._weighing.accumulate(self._acc, fragment, value.tile)
        return self._acc.elements(self._mine) / self.softmax.sums()


def consume(
    k: nvb.KernelBuilder,
    one: Consumer,
    tiles: Tiles,
    rings: tuple[QueryRing, Ring, Ring],
    o: nvb.Address,
    rows: nvb.Value,
) -> None:
    """Multiply and store the tiles, each after the first steps of the next one."""
    q_ring, k_ring, v_ring = rings
    of_head, of_row = k.var(0, i32), k.var(rows)  # the tile whose last weights are not multiplied yet: none
    with one.turns(), tiles.dealt.take() as taken:
        head, first, steps = tiles.place(taken)
        query, more = q_ring.wait(), steps - one.left_out - 1
        seen = partial(one.first_seen, rows - (steps - 1) * one.block)
        weights, made = one.begin(query, k_ring, v_ring, seen, more == 0)
        store(k, o, made, (of_head.value, of_row.value), rows)
        one.clear(weights)
        of_head.set(head)
        of_row.set(first)
        for step in range(1, one.masked):
            one.step(query, k_ring, v_ring, partial(one.seen, step), more == step)
        with k.range(one.masked, more + 1) as number:
            one.step(query, k_ring, v_ring, None, number == more)
    store(k, o, one.finish(v_ring), (of_head.value, of_row.value), rows)


@nvb.kernel("sm_90a", threads=lambda consumers: WARPGROUP_THREADS * (1 + consumers), min_ctas=1, math=QUICK)
def attention(
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
    scoring, weighing = products(k, element, depth, block, consumers)
    k_ring = k.pipeline(stages, consumers, tile=scoring.smem_b(depth))
    v_ring = k.pipeline(stages, consumers, tile=weighing.smem_b(block, Major.MN))
    k.tma.prefetch_maps(q, keys, values)
    tiles = even_tiles(k, counter, heads, rows, form, TOGETHER * 128 // max(depth, 128) if causal else 0)
    q_ring = QueryRing(k, scoring.smem_a(depth), form, tiles.dealt)
    k.mbarrier.ready()
    with k.producer(registers=24):
        produce(k, (q_ring, k_ring, v_ring), (q, keys, values), tiles, block, share)

    with k.consumers(registers=480 // consumers) as mine:
        one = Consumer(k, (scoring, weighing), q_ring, mine, form, causal=causal)
        consume(k, one, tiles, (q_ring, k_ring, v_ring), o, rows)


def launch(
    loaded: nvb.runtime.LoadedKernel,
    q: Any,
    keys: Any,
    values: Any,
    counter: Any,
    o: Any,
    *,
    depth: int = 128,
    share: int = 1,
    consumers: int = 2,
) -> None:
    """Start the kernel of these constants on Q, K, V and O, and a counter that is 0 and becomes 0 again.

    Q and O are of heads x rows x depth, K and V have one head for each `share` of Q. Raises ValueError for others.
    """
    check_shapes(q, keys, values, o, depth, share)
    heads, rows, _ = q.shape
    ctas = grid(heads, rows, loaded.device.limits.multiprocessors, consumers)
    loaded.launch(ctas, q, keys, values, o, heads, rows, counter)


def grid(heads: int, rows: int, multiprocessors: int, consumers: int = 2) -> int:
    """CTAs to launch: one for each multiprocessor, as long as each has a tile."""
    return min(heads * -(-rows // (WARPGROUP_ROWS * consumers)), multiprocessors)


def kernel(
    form: Form, depth: int = 128, *, causal: bool = False, share: int = 1, element: nvb.ElementType = f16
) -> nvb.KernelDefinition:
    """The kernel for these constants. Raises ValueError where a causal tile is not whole blocks of keys."""
    queries = WARPGROUP_ROWS * form.consumers
    if causal and queries % form.block:
        raise ValueError(f"{queries} queries of a causal tile are not whole blocks of {form.block} keys")
    return attention.with_(element=element, depth=depth, causal=causal, share=share, **vars(form))
