"""Sequences of various lengths that lie one after another, beside PyTorch's nested tensors and its `varlen_attn`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import nvbackend as nvb
from benchmarks.tables.attention import CUDNN, LIMITS, Batch, Heads, by_pytorch, counters, left_in, outputs, random
from benchmarks.tables.table import OURS, Case, Measured, Part, Row, Table, rate, ratio, turns_for
from nvbackend import f16
from samples.attention import varlen
from samples.attention.choice import Form, choose

Launch = Callable[[int, Any], object]

HEADS, DEPTH = 16, 128
NESTED, PACKED, EVEN = "nested", "varlen_attn", "even"
VARIOUS = (7540, 4933, 7244, 7884, 718, 592, 4117, 4096, 4547, 6095, 2583, 1452, 5571, 3179, 7616, 516)
"""Drawn at random from 1 to 8,192."""
LENGTHS = {
    "16 of 4,096 rows": (4096,) * 16,
    "64 of 1,024 rows": (1024,) * 64,
    "various, up to 8,192 rows": VARIOUS,
}


def operations(lengths: tuple[int, ...]) -> float:
    """Those of both products."""
    return 4.0 * HEADS * DEPTH * sum(length**2 for length in lengths)


def nested(sets: Sequence[Batch], starts: tuple[int, ...], longest: int, into: list[Any]) -> Launch:
    """A launch on nested tensors, whose rows are those of all heads."""
    import torch

    ends = torch.tensor(starts, device="cuda")
    shortest = min(end - start for start, end in pairwise(starts))

    def as_nested(array: Any) -> Any:
        rows = array.transpose(0, 1).contiguous()
        lengths = {"min_seqlen": shortest, "max_seqlen": longest}
        return torch.nested.nested_tensor_from_jagged(rows, ends, **lengths).transpose(1, 2)

    batches = [tuple(map(as_nested, each)) for each in sets]

    def launch(turn: int, _: Any) -> None:
        result = torch.nn.functional.scaled_dot_product_attention(*batches[turn])
        into[turn] = result.transpose(1, 2).values().transpose(0, 1)

    return launch


def packed(sets: Sequence[Batch], starts: tuple[int, ...], longest: int, into: list[Any]) -> Launch:
    """A launch of PyTorch's call for such sequences, which newer releases have."""
    import torch

    ends = torch.tensor(starts, device="cuda", dtype=torch.int32)
    batches = [tuple(array.transpose(0, 1).contiguous() for array in each) for each in sets]

    def launch(turn: int, _: Any) -> None:
        from torch.nn.attention.varlen import varlen_attn

        into[turn] = varlen_attn(*batches[turn], ends, ends, longest, longest).transpose(0, 1)

    return launch


def even(sets: Sequence[Batch], length: int, into: list[Any]) -> Launch:
    """A launch of cuDNN on one tensor of sequences of one length, each of whose heads is one of the batch."""
    shape = -1, length, DEPTH
    split = [tuple(array.reshape(shape) for array in each) for each in sets]
    results: list[Any] = [None] * len(sets)
    run = by_pytorch(CUDNN, split, results, causal=False)

    def launch(turn: int, stream: Any) -> None:
        run(turn, stream)
        into[turn] = results[turn].view(sets[turn][0].shape)

    return launch


def case(lengths: tuple[int, ...], form: Form, loaded: nvb.runtime.LoadedKernel) -> Case:
    """All of them, on the same numbers."""
    import torch

    of = Heads(HEADS, sum(lengths), DEPTH)
    turns = turns_for(of.bytes)
    sets, sequences = random(of, turns), varlen.Sequences.of([0, *accumulate(lengths)])
    results: dict[str, list[Any]] = {way: [None] * turns for way in (NESTED, PACKED, EVEN)}
    results[OURS] = outputs(sets)
    places, counter = torch.from_numpy(sequences.places(form, causal=False)).to("cuda"), counters(sets)
    multiprocessors = loaded.device.limits.multiprocessors

    def launch(turn: int, stream: Any) -> None:
        operands = *sets[turn], places, counter[turn], results[OURS][turn]
        ctas, *arguments = varlen.arguments(multiprocessors, *operands, sequences=sequences, form=form, depth=DEPTH)
        loaded.prepare(ctas, *arguments, stream=stream).run()

    rows = sequences.starts, max(lengths)
    ways = {NESTED: nested(sets, *rows, results[NESTED]), PACKED: packed(sets, *rows, results[PACKED])}
    if len(set(lengths)) == 1:
        ways[EVEN] = even(sets, lengths[0], results[EVEN])
    ways[OURS] = launch
    return Case(turns, ways, partial(left_in, results), NESTED, dict.fromkeys((OURS, PACKED, EVEN), LIMITS[f16]))


def row(name: str) -> Row:
    """Some sequences, for whose mean length the form is chosen."""
    lengths = LENGTHS[name]
    form = choose(DEPTH, sum(lengths) // len(lengths), causal=False)
    return Row((name,), (Part((varlen.kernel(form, DEPTH),), partial(case, lengths, form)),))


def cells(row: Row, every: Sequence[Measured]) -> list[str]:
    """The rates, as far as there are calls, and the ratio to the fastest one."""
    (measured,) = every
    done = operations(LENGTHS[row.names[0]])
    ways = (OURS, NESTED, PACKED, EVEN)
    rates = [rate(done, measured.took[way]) if way in measured.took else "" for way in ways]
    return [*rates, ratio(measured.ratio(*ways[1:]))]


def various_lengths() -> Table:
    """Long sequences, short ones, and a mix."""
    columns = ("sequences", OURS, NESTED, PACKED, EVEN, "ratio", "spread")
    return Table("Sequences of various lengths", columns, list(map(row, LENGTHS)), cells)
