"""O = softmax(Q K^T) V on Hopper for sequences of any lengths that lie one after another, as FlashAttention's varlen.

The host makes a list of tiles once: where the queries of a tile and the keys of its sequence begin and end. The CTAs
take tiles from the list by a counter, those with the most keys first. The last block of a sequence has fewer keys than
other blocks. They take the block's last places: TMA reads V through a window that begins at the sequence's own row,
and has zeros before it. So weights of zero are never multiplied with another sequence's V, which may be infinite or
NaN. A sequence may have more or fewer keys than queries; its last query sees all keys in causal attention, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import nvbackend as nvb
from nvbackend import Major, f16, i32
from samples.attention.choice import WARPGROUP_ROWS, WARPGROUP_THREADS, Form
from samples.attention.forward import TOGETHER, Consumer, Queries, Ring
from samples.attention.softmax import LEAST, Softmax
from samples.attention.tiles import QueryRing, grouped
from samples.flash_attention import PANEL, QUICK, Keys, Output, Rows, check_shapes, products, store

LISTED = 4  # numbers of a tile in the list


def map_of_windows(element: nvb.ElementType, block: int) -> nvb.TensorMap:
    return nvb.TensorMap(element, box=(1, 1, block, PANEL))


Windows = Annotated[nvb.TensorMap, map_of_windows]


class Place(NamedTuple):
    """A tile's head, and what the list has of it."""

    head: nvb.Value
    first: nvb.Value
    end: nvb.Value
    first_key: nvb.Value
    end_of_keys: nvb.Value


def listed_tiles(
    k: nvb.KernelBuilder,
    counter: nvb.Address,
    heads: nvb.Value,
    group: nvb.Value,
    listed: nvb.Address,
    count: nvb.Value,
    form: Form,
) -> nvb.DynamicTiles[Place]:
    """Tiles of a list in memory, whose last ones have the most keys: the list times the heads."""

    def place(number: nvb.Value) -> Place:
        head, tile = grouped(k, number, group, heads, count)
        return Place(head, *(listed[LISTED * tile + part] for part in range(LISTED)))

    return k.dynamic_tiles(counter, heads * count, form.consumers, place=place)


@dataclass(frozen=True)
class Sight:
    """What the queries of a tile see, counted from their sequence's first key."""

    reach: nvb.Value  # of causal queries the first sees the keys up to this one, each other one a key more
    keys: nvb.Value
    steps: nvb.Value
    missing: nvb.Value  # keys that the last block has too few; it begins with so many places of none

    @classmethod
    def of(cls, k: nvb.KernelBuilder, place: Place, form: Form, *, causal: bool) -> Sight:
        """There is a step at least, if only one that sees nothing."""
        keys = place.end_of_keys - place.first_key
        reach = place.first - place.end + keys
        seen = k.math.min(reach + WARPGROUP_ROWS * form.consumers, keys) if causal else keys
        steps = k.math.max((seen + (form.block - 1)) // form.block, 1)
        missing = k.math.max(steps * form.block - keys, 0)
        return cls(reach, keys, steps, missing)


def produce(
    k: nvb.KernelBuilder,
    rings: tuple[QueryRing, Ring, Ring],
    maps: tuple[nvb.TensorMapParameter, nvb.TensorMapParameter, nvb.TensorMapParameter],
    tiles: nvb.DynamicTiles[Place],
    form: Form,
    share: int,
    *,
    causal: bool,
) -> None:
    """Load keys and values in the order of `samples.attention.forward`. The first values are zeros of no tile."""
    (q_ring, k_ring, v_ring), (q, keys, windows), block = rings, maps, form.block
    owner, row, missing = k.var(0, i32), k.var(0, i32), k.var(block, i32)  # of the values that come next

    def load_keys(at: nvb.Value) -> None:
        with k_ring.fill() as stage:
            k.tma.load(stage.tile, keys, (owner.value, at, 0), stage.full)

    def load_values(owner: nvb.Value) -> None:
        with v_ring.fill() as stage:
            k.tma.load(stage.tile, windows, (owner, row.value, 0, -missing.value), stage.full)

    with tiles.draw() as place:
        sight = Sight.of(k, place, form, causal=causal)
        last = place.first_key + (sight.steps - 1) * block
        before = owner.value
        owner.set(place.head // share if share > 1 else place.head)
        load_keys(last - sight.missing)
        load_values(before)
        q_ring.load(q, place.head, place.first)
        row.set(last)
        missing.set(sight.missing)
        with k.range(sight.steps - 1):
            load_keys(row.value - block)
            load_values(owner.value)
            row.set(row.value - block)
            missing.set(0)
    load_values(owner.value)


class VarlenSoftmax(Softmax):
    """A row that sees nothing has zeros."""

    def sums(self) -> nvb.AxisValues:
        sees_none = lambda total, most: self._k.select(most <= LEAST, math.inf, total)  # noqa: E731
        return super().sums().map(sees_none, self.most.value)


class VarlenConsumer(Consumer):
    """A warpgroup for which each tile has other keys: how many steps see them all, and which are left out."""

    def _softmax(self, scores: nvb.TileValues, depth: int) -> Softmax:
        return VarlenSoftmax(self._k, scores, math.log2(math.e) / math.sqrt(depth), self._form)

    def turn_to(self, sight: Sight) -> tuple[nvb.Value, nvb.Value]:
        """The steps of a tile, and how many of them, the first ones, have keys that some query does not see."""
        k, block = self._k, self._form.block
        self._reach, self._missing, self._steps = sight.reach, sight.missing, sight.steps
        if not self._causal:
            return sight.steps, k.const(1, i32)
        reach = sight.reach + WARPGROUP_ROWS * self._mine
        if self._leaves_out:
            seen = k.math.min(reach + WARPGROUP_ROWS, sight.keys)
            self._steps = k.math.min(k.math.max((seen + (block - 1)) // block, 1), sight.steps)
            self.left_out = sight.steps - self._steps
            self._missing = k.select(self.left_out == 0, sight.missing, 0)
        whole = k.math.max(reach + 1, 0) // block
        return self._steps, k.math.max(self._steps - whole, 1)

    def first_scores(self) -> nvb.TileValues:
        """The scores of the first step that count: of a sequence's last keys some places have none."""
        missing = self._missing
        scores = self.scores_of(0, missing) if self._causal else self._scores.elements(self._mine)
        return scores.where(lambda _, place: place >= missing, -math.inf)

    def scores_of(self, step: nvb.Operand, missing: nvb.Operand = 0) -> nvb.TileValues:
        """The scores of a causal step without those of keys beyond the query's own."""
        beyond = self._reach - (self._steps - 1 - step) * self._form.block + missing
        return self._scores.elements(self._mine).where(lambda row, place: place <= row + beyond, -math.inf)


@nvb.kernel("sm_90a", threads=lambda consumers: WARPGROUP_THREADS * (1 + consumers), min_ctas=1, math=QUICK)
def attention(
    k: nvb.KernelBuilder,
    q: Queries,
    keys: Keys,
    values: Windows,
    o: Output,
    heads: Rows,
    rows: Rows,
    group: Rows,
    places: Annotated[nvb.Pointer, nvb.Pointer(i32, const=True)],
    count: Rows,
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
    """Q and O have `rows` rows in all, `group` heads are walked together, and `count` tiles of a head are listed."""
    form = Form(consumers, block, stages, q_stages, turns, patient, polynomial)
    scoring, weighing = products(k, element, depth, block, consumers)
    k_ring = k.pipeline(stages, consumers, tile=scoring.smem_b(depth))
    v_ring = k.pipeline(stages, consumers, tile=weighing.smem_b(block, Major.MN))
    k.tma.prefetch_maps(q, keys, values)
    tiles = listed_tiles(k, counter, heads, group, places, count, form)
    q_ring = QueryRing(k, scoring.smem_a(depth), form, tiles)
    k.mbarrier.ready()
    with k.producer(registers=24):
        produce(k, (q_ring, k_ring, v_ring), (q, keys, values), tiles, form, share, causal=causal)

    with k.consumers(registers=480 // consumers) as mine:
        one = VarlenConsumer(k, (scoring, weighing), q_ring, mine, form, causal=causal)
        of_head, of_row, end = k.var(0, i32), k.var(0, i32), k.var(0, i32)  # of the tile before: none
        with one.turns(), tiles.take() as place:
            query, (steps, masked) = q_ring.wait(), one.turn_to(Sight.of(k, place, form, causal=causal))
            more = steps - 1
            weights, made = one.begin(query, k_ring, v_ring, one.first_scores, more == 0)
            store(k, o, made, (of_head.value, of_row.value), rows, end.value)
            one.clear(weights)
            for variable, value in zip((of_head, of_row, end), place[:3], strict=True):
                variable.set(value)
            if causal:
                with k.range(1, masked) as number:
                    one.step(query, k_ring, v_ring, partial(one.scores_of, number), number == more)
            with k.range(masked, steps) as number:
                one.step(query, k_ring, v_ring, None, number == more)
        store(k, o, one.finish(v_ring), (of_head.value, of_row.value), rows, end.value)


@dataclass(frozen=True)
class Sequences:
    """Where the queries of each sequence begin, and where its keys do; the last numbers are where all of them end."""

    starts: tuple[int, ...]
    starts_of_keys: tuple[int, ...]

    @classmethod
    def of(cls, starts: Any, starts_of_keys: Any = None) -> Sequences:
        """Without other starts, the keys begin where the queries do. Raises ValueError for invalid starts."""
        queries = checked(starts, "starts")
        keys = queries if starts_of_keys is None else checked(starts_of_keys, "starts_of_keys")
        if len(queries) != len(keys):
            counts = f"{len(queries) - 1} sequences of queries and {len(keys) - 1} of keys"
            raise ValueError(f"there are {counts}: starts and starts_of_keys have one number each for a sequence")
        return cls(queries, keys)

    def places(self, form: Form, *, causal: bool) -> Any:
        """The list of tiles that the kernel takes, for this form: N x 4 numbers in NumPy. It is made once."""
        import numpy as np

        queries = WARPGROUP_ROWS * form.consumers
        starts, keys = np.array(self.starts), np.array(self.starts_of_keys)
        counts = -(-np.diff(starts) // queries)
        of = np.arange(len(counts)).repeat(counts)
        first = starts[of] + (np.arange(len(of)) - (counts.cumsum() - counts)[of]) * queries
        end, first_key, end_of_keys = starts[of + 1], keys[of], keys[of + 1]
        seen = end_of_keys - first_key
        if causal:
            seen = np.minimum(first - end + seen + queries, seen)
        return np.stack([first, end, first_key, end_of_keys], 1)[seen.argsort(kind="stable")].astype(np.int32)


def checked(starts: Any, name: str) -> tuple[int, ...]:
    """The starts as integers. Raises ValueError if they are invalid."""
    import numpy as np

    numbers = np.asarray(starts)
    if numbers.ndim != 1 or len(numbers) < 2 or numbers.dtype.kind not in "iu":
        shape = f"{numbers.dtype} of shape {numbers.shape}"
        raise ValueError(f"{name} are integers, one for each sequence and where the last one ends, not {shape}")
    if numbers[0] != 0:
        raise ValueError(f"{name} begin with 0, not with {numbers[0]}")
    falling = np.flatnonzero(numbers[1:] < numbers[:-1])
    if len(falling):
        at = int(falling[0])
        raise ValueError(f"{name} must not fall: {numbers[at + 1]} comes after {numbers[at]}, at {at + 1}")
    return tuple(numbers.tolist())


def windows(values: Any, block: int) -> Any:
    """V as heads x rows x block x depth: of each row the rows from it on.

    A box that begins before the first of them has zeros there, not the rows of the sequence before. The last ones are
    past the end of V, where nothing reads; the simulator, which gives an array's memory an address, has room there.
    """
    import numpy as np

    heads, rows, depth = values.shape
    array = nvb.runtime.read_array(values)
    if array is None or array.host:
        room = np.concatenate([np.reshape(values, (-1, depth)), np.zeros((block, depth), values.dtype)])
        strides = rows * room.strides[0], room.strides[0], *room.strides
        return np.lib.stride_tricks.as_strided(room, (heads, rows, block, depth), strides)
    of_head, of_row, of_column = array.strides
    return replace(array, shape=(heads, rows, block, depth), strides=(of_head, of_row, of_row, of_column))


def arguments(
    multiprocessors: int,
    q: Any,
    keys: Any,
    values: Any,
    places: Any,
    counter: Any,
    o: Any,
    *,
    sequences: Sequences,
    form: Form,
    depth: int = 128,
    share: int = 1,
) -> tuple[Any, ...]:
    """The grid and the arguments of a launch. Raises ValueError as `launch` does."""
    rows, rows_of_keys = sequences.starts[-1], sequences.starts_of_keys[-1]
    check_shapes(q, keys, values, o, depth, share, rows_of_keys)
    if q.shape[1] != rows:
        raise ValueError(f"the sequences have {rows} rows of Q, not {q.shape[1]}")
    count = sum(-(-(end - start) // (WARPGROUP_ROWS * form.consumers)) for start, end in pairwise(sequences.starts))
    if tuple(places.shape) != (count, 4):
        raise ValueError(f"these sequences have {count} tiles, the list is for others: {tuple(places.shape)}")
    if not rows_of_keys:
        raise ValueError("K and V have no rows")
    if not count:
        raise ValueError("no sequence has a query")
    group = max(TOGETHER * 128 // max(depth, 128) // rows_of_keys, 1)
    ctas = min(q.shape[0] * count, multiprocessors)
    return ctas, q, keys, windows(values, form.block), o, q.shape[0], rows, group, places, count, counter


def launch(loaded: nvb.runtime.LoadedKernel, *arrays: Any, **options: Any) -> None:
    """Start the kernel on Q, K and V, the list of tiles, a counter that is 0 and becomes 0 again, and O.

    Q and O are heads x rows x depth, of all sequences one after another; K and V have a head for each `share` of Q.
    Queries that see no key get zeros. `options` are the sequences, the form, and other constants of the build than
    their defaults. Raises ValueError for arrays and lists of others.
    """
    ctas, *others = arguments(loaded.device.limits.multiprocessors, *arrays, **options)
    loaded.launch(ctas, *others)


def kernel(
    form: Form, depth: int = 128, *, causal: bool = False, share: int = 1, element: nvb.ElementType = f16
) -> nvb.KernelDefinition:
    """The kernel for these constants."""
    return attention.with_(element=element, depth=depth, causal=causal, share=share, **vars(form))
