"""O = softmax(Q K^T) V on Hopper with Q, K and V in e4m3, each with a scale, and O in f16 or bf16.

Instructions of 8 bits read V along the keys, so V is transposed: heads x depth x rows. They read the weights in another
order than the one that scores have: of 16 keys, a thread has the places 2t, 2t + 1, 8 + 2t and 9 + 2t, where it needs
4t to 4t + 3. The order of a sum does not matter, so TMA loads the keys in an order in which the scores' places are what
the weights need: no thread gives another anything. Only masks must know whose key a place is. Weights are as much as
256, not 1, so that small ones are not lost in e4m3; the sum that O is divided by has the same factor.

A weight in e4m3 is off by up to 2^-4 of itself, and O of random values by 3 % of its largest one. The tensor core adds
products of e4m3 with fewer bits than f32 has, which `samples/block_scaled_gemm.py` avoids and this kernel does not.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Annotated, Any

import nvbackend as nvb
from nvbackend import SwizzleMode, e4m3, f16, f32, i32, u32
from samples.attention.choice import POLYNOMIAL, WARPGROUP_ROWS, WARPGROUP_THREADS, Form
from samples.attention.forward import TOGETHER, Consumer, consume, grid, produce
from samples.attention.softmax import Softmax
from samples.attention.tiles import QueryRing, even_tiles
from samples.flash_attention import QUICK, Output, Rows, products

GROUP = 16
"""Keys that change places with each other; rows of K and V are a multiple of it, as a row of V^T is 16 bytes then."""
RAISED = 8.0
"""The greatest weight is 2^8: e4m3 holds 448, and 2^-9 is its least number."""
PANEL = 128
STAGES = {64: 4, 128: 3, 256: 2}
"""Of the rings of keys and values, by the columns of a head."""
LEAST_SCALE, MOST_SCALE = 2.0**-100, 2.0**100
"""What f32 has, after it was made one of powers of two, too: zeros and infinities would make NaN of masked scores."""


def swizzle_of(columns: int) -> SwizzleMode:
    """Of a tile with rows of so many bytes."""
    return SwizzleMode.B128 if columns >= PANEL else SwizzleMode.B64


def map_of_queries(depth: int, consumers: int) -> nvb.TensorMap:
    panel = min(depth, PANEL)
    return nvb.TensorMap(e4m3, box=(1, WARPGROUP_ROWS * consumers, panel), swizzle=panel)


def map_of_keys(depth: int, block: int) -> nvb.TensorMap:
    panel = min(depth, PANEL)
    return nvb.TensorMap(e4m3, box=(block // GROUP, 2, 4, 2, panel), swizzle=panel)


def map_of_values(depth: int, block: int) -> nvb.TensorMap:
    panel = min(block, PANEL)
    return nvb.TensorMap(e4m3, box=(1, depth, panel), swizzle=panel)


class Fp8Softmax(Softmax):
    """Weights from 0 to 2^RAISED; the factor of V divides the sums."""

    def __init__(
        self, k: nvb.KernelBuilder, scores: nvb.TileValues, scales: tuple[nvb.Value, nvb.Value], form: Form
    ) -> None:
        of_scores, self._of_values = scales
        super().__init__(k, scores, of_scores, form)

    def _shift(self, most: nvb.Value) -> nvb.Value:
        return most * self._scale - RAISED

    def sums(self) -> nvb.AxisValues:
        return super().sums() / self._of_values


class Fp8Consumer(Consumer):
    """A warpgroup whose scores have the keys of each GROUP in the order in which weights are multiplied."""

    def __init__(
        self,
        k: nvb.KernelBuilder,
        tiled: tuple[nvb.TiledWgmma, nvb.TiledWgmma],
        q_ring: QueryRing,
        mine: nvb.Value,
        form: Form,
        scales: tuple[nvb.Value, nvb.Value],
        *,
        causal: bool,
    ) -> None:
        self._scales = scales
        super().__init__(k, tiled, q_ring, mine, form, causal=causal)

    def _softmax(self, scores: nvb.TileValues, depth: int) -> Softmax:
        of_scores, of_values = self._scales
        return Fp8Softmax(self._k, scores, (of_scores * (math.log2(math.e) / math.sqrt(depth)), of_values), self._form)

    def _key(self, place: nvb.Value) -> nvb.Value:
        """Place 8h + 2t + e of a GROUP has its key 4t + 2h + e."""
        return place & ~14 | (place & 6) << 1 | (place & 8) >> 2

    def _packed(self, weights: nvb.TileValues) -> list[nvb.Value]:
        """Four of a row in each register: of 8 places two, and two of the 8 places after them."""
        pack = self._k.convert.pack
        pairs = [pack("e4m3x2", low, high).to(u32) for low, high in zip(weights[::2], weights[1::2], strict=True)]
        return [pairs[at + row] | pairs[at + row + 2] << 16 for at in range(0, len(pairs), 4) for row in (0, 1)]


@nvb.kernel("sm_90a", threads=lambda consumers: WARPGROUP_THREADS * (1 + consumers), min_ctas=1, math=QUICK)
def attention(
    k: nvb.KernelBuilder,
    q: Annotated[nvb.TensorMap, map_of_queries],
    keys: Annotated[nvb.TensorMap, map_of_keys],
    values: Annotated[nvb.TensorMap, map_of_values],
    o: Output,
    heads: Rows,
    rows: Annotated[i32, nvb.Scalar(i32, minimum=GROUP, multiple_of=GROUP)],
    counter: Annotated[nvb.Pointer, nvb.Pointer(i32)],
    of_scores: f32,
    of_values: f32,
    *,
    element: nvb.ElementType = f16,  # noqa: ARG001 (the type of O, which its parameter asks for)
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
    """`of_scores` is the product of the scales of Q and K. `share` heads of Q have one head of K and V."""
    form = Form(consumers, block, stages, q_stages, turns, patient, polynomial)
    tiled = scoring, weighing = products(k, e4m3, depth, block, consumers)
    k_ring = k.pipeline(stages, consumers, tile=scoring.smem_b(depth, swizzle=swizzle_of(depth)))
    v_ring = k.pipeline(stages, consumers, tile=weighing.smem_b(block, swizzle=swizzle_of(block)))
    k.tma.prefetch_maps(q, keys, values)
    tiles = even_tiles(k, counter, heads, rows, form, TOGETHER * 2 * 128 // max(depth, 128) if causal else 0)
    q_ring = QueryRing(k, scoring.smem_a(depth, swizzle=swizzle_of(depth)), form, tiles.dealt)
    k.mbarrier.ready()

    def load_keys(stage: nvb.Stage[nvb.SharedTile], head: nvb.Value, first: nvb.Value) -> None:
        for column in range(0, depth, PANEL):
            at = column, 0, 0, 0, (head * rows + first) // GROUP
            k.tma.load_box(stage.tile.at(0, column), keys, at, stage.full)

    with k.producer(registers=24):
        produce(k, (q_ring, k_ring, v_ring), (q, keys, values), tiles, block, share, load_keys)

    with k.consumers(registers=480 // consumers) as mine:
        one = Fp8Consumer(k, tiled, q_ring, mine, form, (of_scores, of_values), causal=causal)
        consume(k, one, tiles, (q_ring, k_ring, v_ring), o, rows)


def in_places(keys: Any) -> Any:
    """The memory of K, with each GROUP in the order of its places. Raises ValueError for gaps between rows."""
    heads, rows, depth = keys.shape
    shape, steps = (heads * rows // GROUP, 2, 4, 2, depth), (GROUP * depth, 2 * depth, 4 * depth, depth, 1)
    array = nvb.runtime.read_array(keys)
    on_the_gpu = array is not None and not array.host
    if not (array.is_contiguous if array is not None and on_the_gpu else keys.flags.c_contiguous):
        raise ValueError("the rows of K must lie one after another, without gaps")
    if array is not None and on_the_gpu:
        return replace(array, shape=shape, strides=steps)
    import numpy as np

    return np.lib.stride_tricks.as_strided(np.asarray(keys), shape, steps)


def check_shapes(q: Any, keys: Any, values: Any, o: Any, depth: int, share: int) -> None:
    """Raises ValueError for other shapes than the kernel takes."""
    if len(q.shape) != 3 or q.shape[2] != depth or share < 1 or q.shape[0] % share or q.shape[1] % GROUP:
        wanted = f"heads x rows x {depth}, of a multiple of {share} heads and of {GROUP} rows"
        raise ValueError(f"Q is {wanted}, not {tuple(q.shape)}")
    heads, rows, _ = q.shape
    of_keys, of_values = (heads // share, rows, depth), (heads // share, depth, rows)
    for name, array, shape in (
        ("K", keys, of_keys),
        ("V, transposed,", values, of_values),
        ("O", o, (heads, rows, depth)),
    ):
        if tuple(array.shape) != shape:
            raise ValueError(f"{name} is {shape}, as Q is {tuple(q.shape)}, not {tuple(array.shape)}")


def checked(scales: tuple[float, float, float]) -> tuple[float, float]:
    """The factors of scores and of V. Raises ValueError for scales that make none."""
    try:
        of_queries, of_keys, of_values = map(float, scales)
    except (TypeError, ValueError):
        raise ValueError(f"scales are three numbers, of Q, K and V, not {scales!r}") from None
    if not all(scale > 0 for scale in (of_queries, of_keys, of_values)):
        raise ValueError(f"scales are greater than 0, not {scales}")
    factors = of_queries * of_keys, of_values
    if not all(LEAST_SCALE <= factor <= MOST_SCALE for factor in factors):
        raise ValueError(f"the scales of Q and K, multiplied, and that of V are from 2^-100 to 2^100, not {factors}")
    return factors


def arguments(
    multiprocessors: int,
    q: Any,
    keys: Any,
    values: Any,
    counter: Any,
    o: Any,
    *,
    form: Form,
    scales: tuple[float, float, float] = (1.0, 1.0, 1.0),
    depth: int = 128,
    share: int = 1,
) -> tuple[Any, ...]:
    """The grid and the arguments of a launch. Raises ValueError as `launch` does."""
    check_shapes(q, keys, values, o, depth, share)
    of_scores, of_values = checked(scales)
    heads, rows, _ = q.shape
    ctas = grid(heads, rows, multiprocessors, form.consumers)
    return ctas, q, in_places(keys), values, o, heads, rows, counter, of_scores, of_values


def launch(loaded: nvb.runtime.LoadedKernel, *arrays: Any, **options: Any) -> None:
    """Start the kernel on Q, K, V transposed, a counter that is 0 and becomes 0 again, and O.

    Q and O are heads x rows x depth, V is heads x depth x rows; K and V have a head for each `share` of Q. `options`
    are the form, the scales of Q, K and V, which their numbers are multiplied with, and other constants of the build
    than their defaults. Scores of more than 2^20, with their scales, are too far apart for f32: O may be wrong or NaN.
    Raises ValueError for arrays of other shapes, and for scales that are not from 2^-100 to 2^100.
    """
    ctas, *others = arguments(loaded.device.limits.multiprocessors, *arrays, **options)
    loaded.launch(ctas, *others)


def check_depth(depth: int) -> None:
    """Raises ValueError for heads of another number of columns."""
    if depth not in STAGES:
        raise ValueError(f"heads have {', '.join(map(str, STAGES))} columns, not {depth}")


def candidates(depth: int, *, causal: bool) -> list[Form]:
    """The forms that fit registers and shared memory; the first is the choice."""
    check_depth(depth)
    tiles = [Form(stages=STAGES[depth], q_stages=1 if depth == 256 else 2)]
    if depth == 64 and not causal:  # a third warpgroup: 603 TFLOP/s at 64 x 4096 instead of 526 (H200)
        tiles.insert(0, Form(3, stages=STAGES[depth], q_stages=1))
    ways = itertools.product((False, True), (0, POLYNOMIAL))
    return [replace(tile, turns=turns, polynomial=often) for (turns, often), tile in itertools.product(ways, tiles)]


def kernel(
    form: Form, depth: int = 128, *, causal: bool = False, share: int = 1, element: nvb.ElementType = f16
) -> nvb.KernelDefinition:
    """The kernel for these constants; `element` is the type of O. Raises ValueError for a form that has no kernel."""
    check_depth(depth)
    queries = WARPGROUP_ROWS * form.consumers
    if form.patient:
        raise ValueError("patient weights grow beyond 2^8, and e4m3 ends at 448: take a form that is not patient")
    if form.block % PANEL and form.block != WARPGROUP_ROWS:
        raise ValueError(f"a block has {WARPGROUP_ROWS} keys or a multiple of {PANEL}, not {form.block}")
    if causal and queries % form.block:
        raise ValueError(f"{queries} queries of a causal tile are not whole blocks of {form.block} keys")
    return attention.with_(element=element, depth=depth, causal=causal, share=share, **vars(form))
