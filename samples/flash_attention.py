"""O = softmax(Q K^T) V on Hopper, flash attention forward: the scores of a block of keys never leave registers.

One thread loads, and two warpgroups of 64 queries multiply in turns. While a warpgroup computes the softmax of its next
scores, the tensor core multiplies its last weights with V, and multiplies for the other warpgroup. Constants of the
build are the type, the head's dimension, causality, and how many heads of Q share one of K and V. Run it as it is.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import Major, bf16, f16, f32, i32, i64, u32
from nvbackend.layout import Layout
from samples.formats import doubles, stored
from samples.problem import Problem
from samples.problem import main as solve

CONSUMERS, STAGES = 2, 2
QUERIES = 64 * CONSUMERS
BLOCKS = {64: 128, 128: 176, 256: 80}  # keys of a step, by the head's dimension
PANEL = 64  # columns of a row that TMA loads at a time, swizzled
FIRST_TURN = 1  # named barriers: the turn of each warpgroup


def map_of_queries(element: nvb.ElementType) -> nvb.TensorMap:
    return nvb.TensorMap(element, box=(1, QUERIES, PANEL))


def map_of_keys(element: nvb.ElementType, block: int) -> nvb.TensorMap:
    return nvb.TensorMap(element, box=(1, block, PANEL))


def output_of(element: nvb.ElementType) -> nvb.Pointer:
    return nvb.Pointer(element)


Queries = Annotated[nvb.TensorMap, map_of_queries]
Keys = Annotated[nvb.TensorMap, map_of_keys]
Output = Annotated[nvb.Pointer, output_of]
Rows = Annotated[i32, nvb.Scalar(i32, minimum=1)]
QUICK = nvb.MathPolicy(contract=True, ftz=True, approx=True)


@contextmanager
def tiles(
    k: nvb.KernelBuilder, heads: nvb.Value, rows: nvb.Value, block: int, *, causal: bool
) -> Iterator[tuple[nvb.Value, nvb.Value, nvb.Value]]:
    """This CTA's tiles: head, first query, and steps. Of a head, causal tiles with the most keys come first."""
    of_a_head = (rows + (QUERIES - 1)) // QUERIES
    with k.range(k.block_id(), heads * of_a_head, k.block_count()) as index:
        tile = index % of_a_head
        if causal:
            tile = of_a_head - 1 - tile
        yield index // of_a_head, tile * QUERIES, tile + 1 if causal else (rows + (block - 1)) // block


def produce(
    k: nvb.KernelBuilder,
    k_ring: nvb.Ring[nvb.SharedTile],
    v_ring: nvb.Ring[nvb.SharedTile],
    keys: nvb.TensorMapParameter,
    values: nvb.TensorMapParameter,
    steps: nvb.Value,
    head: nvb.Value,
    block: int,
) -> None:
    """Load the keys of a block before the values of the one before it: they are multiplied in this order.

    The last block comes first: some of its keys may not exist, and only its scores are masked.
    """
    with k_ring.fill() as stage:
        k.tma.load(stage.tile, keys, (head, (steps - 1) * block, 0), stage.full)
    with k.range(steps) as done:
        at = (steps - 1 - done) * block
        with k.if_(at > 0), k_ring.fill() as stage:
            k.tma.load(stage.tile, keys, (head, at - block, 0), stage.full)
        with v_ring.fill() as stage:
            k.tma.load(stage.tile, values, (head, 0, at), stage.full)


def packed(k: nvb.KernelBuilder, weights: nvb.TileValues, element: nvb.ElementType) -> list[nvb.Value]:
    """Pairs of 16 bits, as A of an instruction has them: in the order of the scores."""
    pairs = zip(weights[::2], weights[1::2], strict=True)
    return [k.convert.pack(f"{element}x2", low, high).bitcast(u32) for low, high in pairs]


def store(
    k: nvb.KernelBuilder,
    o: nvb.Address,
    tile: nvb.TileValues,
    at: tuple[nvb.Value, nvb.Value],
    rows: nvb.Value,
    end: nvb.Value | None = None,
) -> None:
    """Store a tile of a head from its first row on, up to the last of its rows, or to the row before `end`."""
    (head, first), shape = at, tile.shape
    place = (head.to(i64) * rows.to(i64) + first.to(i64)) * shape[1]
    to = k.tensor(o + place, Layout(shape, (shape[1], 1)))
    tile.store(to, where=k.identity_tensor(shape, at=(first, 0)).below(rows if end is None else end, None))


def products(
    k: nvb.KernelBuilder, element: nvb.ElementType, depth: int, block: int, consumers: int = CONSUMERS
) -> tuple[nvb.TiledWgmma, nvb.TiledWgmma]:
    """Q K^T of a block of keys, and the weights, in registers, times V."""
    k_extent = 256 // element.bits
    scoring = nvb.wgmma.mma_async(f"m64n{block}k{k_extent}", element, element, f32)
    weighing = nvb.wgmma.mma_async(f"m64n{depth}k{k_extent}", element, element, f32, a_in_registers=True)
    return k.tiled_mma(scoring, (consumers, 1)), k.tiled_mma(weighing, (consumers, 1))


@contextmanager
def turns(k: nvb.KernelBuilder, mine: nvb.Value) -> Iterator[None]:
    """Let the first warpgroup begin, and take the turn that is left at the end."""
    with k.if_(mine == 1):
        k.barrier.arrive(FIRST_TURN, 128 * CONSUMERS)
    yield
    with k.if_(mine == 0):
        k.barrier.sync(FIRST_TURN, 128 * CONSUMERS)


@contextmanager
def my_turn(k: nvb.KernelBuilder, mine: nvb.Value) -> Iterator[None]:
    """Run the block when it is this warpgroup's turn to multiply, and let the other one begin after it."""
    k.barrier.sync(FIRST_TURN + mine, 128 * CONSUMERS)
    yield
    k.barrier.arrive(FIRST_TURN + 1 - mine, 128 * CONSUMERS)


class Softmax:
    """The greatest score and the sum of weights of each row so far."""

    def __init__(self, k: nvb.KernelBuilder, scores: nvb.TileValues, depth: int) -> None:
        self._k = k
        self._scale = math.log2(math.e) / math.sqrt(depth)  # of scores, for powers of two
        self.most = k.var(scores.reduce_rows("max"), name="most")
        self.weights = self._weights(scores, self.most.value)
        self.total = k.var(self.weights.reduce_rows("add", lanes=False), name="total")

    def _weights(self, scores: nvb.TileValues, most: nvb.AxisValues) -> nvb.TileValues:
        shift = most.map(lambda value: value * self._scale)
        return scores.map(lambda score, by: self._k.math.exp2(score * self._scale - by), shift)

    def step(self, scores: nvb.TileValues) -> tuple[nvb.TileValues, nvb.AxisValues]:
        """The weights of more scores, and the factor for what the weights before were."""
        most = self.most.value.map(self._k.math.max, scores.reduce_rows("max"))
        factor = self.most.value.map(lambda old, new: self._k.math.exp2((old - new) * self._scale), most)
        weights = self._weights(scores, most)
        self.total.set(self.total.value * factor + weights.reduce_rows("add", lanes=False))
        self.most.set(most)
        return weights, factor

    def sums(self) -> nvb.AxisValues:
        """The sum of each row's weights, over the four lanes that have parts of it."""
        return self.total.value.reduce_lanes("add")


@nvb.kernel("sm_90a", threads=128 * (1 + CONSUMERS), min_ctas=1, math=QUICK)
def attention(
    k: nvb.KernelBuilder,
    q: Queries,
    keys: Keys,
    values: Keys,
    o: Output,
    heads: Rows,
    rows: Rows,
    *,
    element: nvb.ElementType = f16,
    depth: int = 128,
    block: int = 176,
    causal: bool = False,
    share: int = 1,
) -> None:
    """`share` heads of Q have one head of K and V. A causal step has as many keys as a tile has queries."""
    scoring, weighing = products(k, element, depth, block)
    q_ring = k.pipeline(1, CONSUMERS, tile=scoring.smem_a(depth))
    k_ring = k.pipeline(STAGES, CONSUMERS, tile=scoring.smem_b(depth))
    v_ring = k.pipeline(STAGES, CONSUMERS, tile=weighing.smem_b(block, Major.MN))
    k.tma.prefetch_maps(q, keys, values)
    k.mbarrier.ready()
    walk = lambda: tiles(k, heads, rows, block, causal=causal)  # noqa: E731
    with k.producer(registers=24), walk() as (head, first, steps):
        with q_ring.fill() as stage:
            k.tma.load(stage.tile, q, (head, first, 0), stage.full)
        produce(k, k_ring, v_ring, keys, values, steps, head // share if share > 1 else head, block)

    with k.consumers(registers=240) as mine:
        scores, acc = scoring.accumulator("scores"), weighing.accumulator("o")
        words = weighing.register_tensor_A(block, "weights")
        with turns(k, mine), walk() as (head, first, steps):
            with q_ring.drain() as query:
                scores.clear()
                with k_ring.drain() as key, k.wgmma.group():
                    scoring.accumulate(scores, query.tile, key.tile, mine)
                keys_left = rows - (steps - 1) * block
                seen = (lambda row, key: key <= row) if causal else (lambda _, key: key < keys_left)
                softmax = Softmax(k, scores.elements(mine).where(seen, -math.inf), depth)
                words.set_registers(packed(k, softmax.weights, element))
                acc.clear()
                with k.range(steps - 1), v_ring.drain() as value:
                    with k_ring.drain() as key:
                        scores.clear()
                        fragment = weighing.make_fragment_A(words)
                        with my_turn(k, mine):
                            k.wgmma.fence()
                            scoring.accumulate(scores, query.tile, key.tile, mine)
                            k.wgmma.commit_group()
                            weighing.accumulate(acc, fragment, value.tile)
                            k.wgmma.commit_group()
                        k.wgmma.wait_group(1, drains=[scores])
                    weights, factor = softmax.step(scores.elements())
                    k.wgmma.wait_group(0, drains=[acc])
                    acc.set(acc.elements() * factor)
                    words.set_registers(packed(k, weights, element))
            fragment = weighing.make_fragment_A(words)
            with v_ring.drain() as value, k.wgmma.group():
                weighing.accumulate(acc, fragment, value.tile)
            store(k, o, acc.elements(mine) / softmax.sums(), (head, first), rows)


def check_shapes(
    q: Any, keys: Any, values: Any, o: Any, depth: int, share: int, rows_of_keys: int | None = None
) -> None:
    """Raises ValueError for other shapes than the kernel takes: TMA reads zeros past the end of an array."""
    if len(q.shape) != 3 or q.shape[2] != depth or share < 1 or q.shape[0] % share:
        raise ValueError(f"Q is heads x rows x {depth}, of a multiple of {share} heads, not {tuple(q.shape)}")
    of_keys = q.shape[0] // share, q.shape[1] if rows_of_keys is None else rows_of_keys, depth
    for name, array, shape in (("K", keys, of_keys), ("V", values, of_keys), ("O", o, q.shape)):
        if tuple(array.shape) != tuple(shape):
            raise ValueError(f"{name} is {tuple(shape)}, as Q is {tuple(q.shape)}, not {tuple(array.shape)}")


def check_places(o: Any) -> None:
    """Raises ValueError for more elements than a kernel that computes places in 32 bits has places for."""
    if math.prod(o.shape) > 2**31:
        raise ValueError(f"places in O have 32 bits, and {' x '.join(map(str, o.shape))} elements are more than 2^31")


def launch(
    loaded: nvb.runtime.LoadedKernel,
    q: Any,
    keys: Any,
    values: Any,
    o: Any,
    *,
    depth: int = 128,
    causal: bool = False,
    share: int = 1,
) -> None:
    """Start the kernel of these constants on Q, K, V and O, of heads x rows x depth; a head of a batch is a head.

    K and V have one head for each `share` of Q. Raises ValueError for other shapes.
    """
    check_shapes(q, keys, values, o, depth, share)
    heads, rows, _ = q.shape
    ctas = grid(heads, rows, loaded.device.limits.multiprocessors, causal=causal)
    loaded.launch(ctas, q, keys, values, o, heads, rows)


def grid(heads: int, rows: int, multiprocessors: int, *, causal: bool = False) -> int:
    """CTAs to launch: one for each multiprocessor. Causal tiles take unequal times, so each has a CTA of its own."""
    tiles = heads * -(-rows // QUERIES)
    return tiles if causal else min(tiles, multiprocessors)


def kernel(
    depth: int = 128, *, causal: bool = False, share: int = 1, element: nvb.ElementType = f16
) -> nvb.KernelDefinition:
    """The kernel for these constants, with as many keys a step as fit. Raises ValueError for another depth."""
    if depth not in BLOCKS:
        raise ValueError(f"heads have {', '.join(map(str, BLOCKS))} columns, not {depth}")
    block = QUERIES if causal else BLOCKS[depth]
    return attention.with_(element=element, depth=depth, block=block, causal=causal, share=share)


FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "shared": {"share": 2},
    "narrow": {"depth": 64},
    "narrow_causal": {"depth": 64, "causal": True},
    "broad": {"depth": 256},
    "bf16": {"element": bf16},
}


def problem(form: str, heads: int, rows: int) -> Problem:
    """Random Q, K and V, and O in f64."""
    chosen = FORMS[form]
    shapes = {name: value for name, value in chosen.items() if name != "element"}
    return problem_of(kernel(**chosen), partial(launch, **shapes), heads, rows, **chosen)


def problem_of(
    definition: nvb.KernelDefinition,
    start: Callable[..., None],
    heads: int,
    rows: int,
    *,
    depth: int = 128,
    share: int = 1,
    causal: bool = False,
    element: nvb.ElementType = f16,
) -> Problem:
    """What a kernel of attention is started on, and has to give: of bf16 the weights and O have 8 bits.

    Raises ValueError where heads of Q are left over.
    """
    import numpy as np

    if heads % share:
        raise ValueError(f"{heads} heads of Q: each {share} share one of K and V")
    random = np.random.default_rng(heads + rows)
    q, keys, values = (
        stored(random.standard_normal((count, rows, depth)), element) for count in (heads, *[heads // share] * 2)
    )
    expected = by_numpy(*(doubles(one, element) for one in (q, keys, values)), causal=causal)
    output = stored(np.full(q.shape, np.nan), element)
    tolerance = 2**-9 if element is f16 else 2**-7
    return Problem(definition, start, (q, keys, values), expected, output, tolerance, element=element)


def by_numpy(q: Any, keys: Any, values: Any, *, causal: bool) -> Any:
    """O in f64; the last of causal queries sees all keys, and a query that sees none has zeros."""
    import numpy as np

    (heads, rows, depth), count = q.shape, keys.shape[1]
    keys, values = (one.repeat(heads // len(one), 0) for one in (keys, values))
    scores = q @ keys.transpose(0, 2, 1) / np.sqrt(depth)
    if causal:
        scores[:, ~np.tri(rows, count, count - rows, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(2, keepdims=True, initial=-1e30))
    sums = weights.sum(2, keepdims=True)
    return np.divide(weights @ values, sums, out=np.zeros_like(q), where=sums != 0)


def main() -> int:
    return solve(
        __doc__,
        problem,
        sizes="heads and rows",
        on_the_gpu=(4, 1000),
        in_the_simulator=(2, 200),
        forms=tuple(FORMS),
    )


if __name__ == "__main__":
    sys.exit(main())
