"""Attention forward beside cuDNN and FlashAttention, which PyTorch calls, and the same with operands in e4m3."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import nvbackend as nvb
from benchmarks.tables.table import OURS, Case, Measured, Part, Row, Table, rate, ratio, size, turns_for
from nvbackend import bf16, f16
from samples.attention import forward, fp8
from samples.attention.choice import Form, choose

CUDNN, FLASH, IN_F16 = "cuDNN", "FlashAttention", "nvbackend, f16"
TOGETHER = 16
"""Heads of an element of PyTorch's batch."""
LIMITS: dict[Any, float] = {f16: 2**-7, bf16: 2e-2}
"""Either side rounds its weights to the type of the operands."""
LIMIT_OF_E4M3 = 2**-4
"""Its weights have 3 bits of fraction."""


@dataclass(frozen=True)
class Heads:
    """What is computed: heads of as many rows each, the columns of a head, and the type of the operands."""

    heads: int
    rows: int
    depth: int = 128
    causal: bool = False
    element: nvb.ElementType = f16

    @property
    def operations(self) -> float:
        """Those of both products; half of them where a query sees only the keys before it."""
        return 4.0 * self.heads * self.rows**2 * self.depth / (2 if self.causal else 1)

    @property
    def bytes(self) -> int:
        """Those of Q, K, V and O."""
        return 4 * self.heads * self.rows * self.depth * self.element.bits // 8

    @property
    def kind(self) -> str:
        """The first cell of its row."""
        words = [str(self.depth), *(["causal"] if self.causal else []), *(["bf16"] if self.element is bf16 else [])]
        return ", ".join(words)


LENGTHS = ((256, 1024), (128, 2048), (64, 4096), (32, 8192), (16, 16384))
EVERY = (
    *(Heads(*each, 128, causal) for causal in (False, True) for each in LENGTHS),
    *(Heads(*each, 64, causal) for causal in (False, True) for each in LENGTHS),
    *(Heads(*each, 128, element=bf16) for each in LENGTHS),
    *(Heads(*each, 256) for each in ((256, 1024), (64, 4096), (64, 8192))),
    *(Heads(*each, 256, causal=True) for each in ((256, 1024), (128, 2048), (64, 4096), (64, 8192))),
)
IN_E4M3 = (
    Heads(64, 4096, 64),
    Heads(64, 4096, 64, causal=True),
    Heads(64, 4096, 128),
    Heads(64, 4096, 128, causal=True),
    Heads(16, 16384, 128),
    Heads(64, 4096, 256),
    Heads(64, 4096, 256, causal=True),
)

Batch = tuple[Any, Any, Any]


def random(of: Heads, turns: int) -> list[Batch]:
    """Q, K and V of each set."""
    import torch

    kind = torch.bfloat16 if of.element is bf16 else torch.float16
    shape = of.heads, of.rows, of.depth
    return [tuple(torch.randn(*shape, device="cuda", dtype=kind) for _ in range(3)) for _ in range(turns)]


def outputs(sets: Sequence[Batch], kind: Any = None) -> list[Any]:
    """An O that is not a number for each set."""
    import torch

    return [torch.full_like(q, math.nan, dtype=kind) for q, _, _ in sets]


def counters(sets: Sequence[Batch]) -> list[Any]:
    """What the CTAs of a launch take tiles by."""
    import torch

    return [torch.zeros(1, device="cuda", dtype=torch.int32) for _ in sets]


def by_pytorch(library: str, sets: Sequence[Batch], into: list[Any], *, causal: bool) -> Callable[[int, Any], None]:
    """A launch by one of PyTorch's libraries, which leaves O in a list."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backend = {CUDNN: SDPBackend.CUDNN_ATTENTION, FLASH: SDPBackend.FLASH_ATTENTION}[library]
    heads, rows, depth = sets[0][0].shape
    shape = -1, math.gcd(heads, TOGETHER), rows, depth
    batches = [tuple(array.view(shape) for array in each) for each in sets]

    def launch(turn: int, _: Any) -> None:
        with sdpa_kernel(backend):
            result = torch.nn.functional.scaled_dot_product_attention(*batches[turn], is_causal=causal)
        into[turn] = result.reshape(heads, rows, depth)

    return launch


def by_kernel(
    of: Heads, form: Form, loaded: nvb.runtime.LoadedKernel, sets: Sequence[Batch], into: Sequence[Any]
) -> Callable[[int, Any], None]:
    """A launch of the kernel for heads of one length."""
    ctas = forward.grid(of.heads, of.rows, loaded.device.limits.multiprocessors, form.consumers)
    counter = counters(sets)

    def launch(turn: int, stream: Any) -> None:
        loaded.prepare(ctas, *sets[turn], into[turn], of.heads, of.rows, counter[turn], stream=stream).run()

    return launch


def case(of: Heads, form: Form, loaded: nvb.runtime.LoadedKernel) -> Case:
    """All three, on the same numbers."""
    turns = turns_for(of.bytes)
    sets = random(of, turns)
    results = {CUDNN: [None] * turns, FLASH: [None] * turns, OURS: outputs(sets)}
    ways = {library: by_pytorch(library, sets, results[library], causal=of.causal) for library in (CUDNN, FLASH)}
    ways[OURS] = by_kernel(of, form, loaded, sets, results[OURS])
    return Case(turns, ways, partial(left_in, results), CUDNN, {OURS: LIMITS[of.element]})


def left_in(results: dict[str, list[Any]], turn: int) -> dict[str, Any]:
    """What each way that ran has left for a set."""
    return {name: every[turn] for name, every in results.items() if every[turn] is not None}


def row(of: Heads) -> Row:
    """Heads of one length."""
    form = choose(of.depth, of.rows, causal=of.causal)
    kernel = forward.kernel(form, of.depth, causal=of.causal, element=of.element)
    return Row((of.kind, size(of.heads, of.rows)), (Part((kernel,), partial(case, of, form)),))


def attention() -> Table:
    """Heads of 64, 128 and 256 columns, in f16 and in bf16."""
    every_row = {(each.kind, size(each.heads, each.rows)): each for each in EVERY}

    def cells(row: Row, every: Sequence[Measured]) -> list[str]:
        measured, of = every[0], every_row[row.names[0], row.names[1]]
        fastest = measured.fastest(CUDNN, FLASH)
        whose = "" if fastest == CUDNN else f" ({fastest})"
        return [rate(of.operations, measured.took[CUDNN]), ratio(measured.ratio(CUDNN, FLASH)) + whose]

    columns = ("dimension of a head", "heads x rows", "cuDNN, TFLOP/s", "ratio", "spread")
    return Table("Attention", columns, list(map(row, EVERY)), cells)


def in_e4m3(of: Heads, forms: tuple[Form, Form], *loaded: nvb.runtime.LoadedKernel) -> Case:
    """The same numbers in e4m3 and in f16, which has all of them."""
    import torch

    bits, kind = torch.uint8, torch.float8_e4m3fn
    turns = turns_for(of.bytes)
    small: list[Batch] = [tuple(array.to(kind) for array in each) for each in random(of, turns)]
    sets: list[Batch] = [tuple(array.to(torch.float16) for array in each) for each in small]
    transposed = [values.view(bits).transpose(1, 2).contiguous().view(kind) for _, _, values in small]
    results = {CUDNN: [None] * turns, IN_F16: outputs(sets), OURS: outputs(sets)}
    multiprocessors, counter = loaded[0].device.limits.multiprocessors, counters(sets)

    def launch(turn: int, stream: Any) -> None:
        (q, keys, _), values = small[turn], transposed[turn]
        operands = q, keys, values, counter[turn], results[OURS][turn]
        ctas, *arguments = fp8.arguments(multiprocessors, *operands, form=forms[0], depth=of.depth)
        loaded[0].prepare(ctas, *arguments, stream=stream).run()

    ways = {
        CUDNN: by_pytorch(CUDNN, sets, results[CUDNN], causal=of.causal),
        IN_F16: by_kernel(of, forms[1], loaded[1], sets, results[IN_F16]),
        OURS: launch,
    }
    return Case(turns, ways, partial(left_in, results), CUDNN, {OURS: LIMIT_OF_E4M3, IN_F16: LIMITS[f16]})


def row_in_e4m3(of: Heads) -> Row:
    """The first form that there is, beside the choice in f16."""
    form, other = fp8.candidates(of.depth, causal=of.causal)[0], choose(of.depth, of.rows, causal=of.causal)
    kernels = (
        fp8.kernel(form, of.depth, causal=of.causal),
        forward.kernel(other, of.depth, causal=of.causal),
    )
    return Row((size(of.heads, of.rows), of.kind), (Part(kernels, partial(in_e4m3, of, (form, other))),))


def attention_in_e4m3() -> Table:
    """Q, K and V in e4m3."""
    every_row = {(size(each.heads, each.rows), each.kind): each for each in IN_E4M3}

    def cells(row: Row, every: Sequence[Measured]) -> list[str]:
        of, took = every_row[row.names[0], row.names[1]], every[0].took
        rates = [rate(of.operations, took[way]) for way in (CUDNN, IN_F16, OURS)]
        return [*rates, ratio(every[0].ratio(CUDNN))]

    return Table(
        "Operands in e4m3",
        ("heads x rows", "dimension of a head", "cuDNN, f16", "nvbackend, f16", "nvbackend, e4m3", "ratio", "spread"),
        list(map(row_in_e4m3, IN_E4M3)),
        cells,
    )
