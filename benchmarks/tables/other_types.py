"""GEMMs of other types, in batches, with block scales and with weights of 4 bits, beside PyTorch's calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import nvbackend as nvb
from benchmarks.arguments import extents
from benchmarks.gemm_shapes import SIZES
from benchmarks.tables.table import OURS, Case, Measured, Part, Row, Table, ratio, size, turns_for, us
from nvbackend import bf16, e4m3, f16, f32, s8, s32, tf32
from samples import block_scaled_gemm
from samples.block_scales import BLOCK
from samples.gemm.choice import choose
from samples.gemm.forms import Form, launch_of
from samples.w4a16 import choice as w4a16
from samples.w4a16 import weights as of_4

THEIRS, BEFORE, IN_F16 = "PyTorch", "before", "f16 of PyTorch"
LIMIT = 2**-6
"""Of results with few bits, or of operands whose products are added with few. Integers are equal."""

Choice = Any
Loaded = nvb.runtime.LoadedKernel


@dataclass(frozen=True)
class Product:
    """A batch of products, if there is a batch, and the types of operands and results."""

    m: int
    n: int
    depth: int
    operand: nvb.ElementType
    result: nvb.ElementType
    batches: int | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K."""
        return self.m, self.n, self.depth

    @property
    def bytes(self) -> int:
        """Those of A, B and C."""
        bits = (self.m + self.n) * self.depth * self.operand.bits + self.m * self.n * self.result.bits
        return (self.batches or 1) * bits // 8


IN_BF16 = (*(Product(*extents(word), bf16, bf16) for word in SIZES), Product(1024, 1024, 1024, bf16, bf16, 64))
CUBES = (
    *(Product(extent, extent, extent, e4m3, f16) for extent in (4096, 8192)),
    *(Product(extent, extent, extent, s8, s32) for extent in (4096, 8192)),
    *(Product(extent, extent, extent, tf32, f32) for extent in (4096, 8192)),
    Product(1024, 1024, 1024, f16, f16, 64),
)
FEW_ROWS = (
    *(Product(m, extent, extent, e4m3, f16) for extent in (8192, 4096) for m in (1, 16, 64)),
    Product(32, 8192, 8192, s8, s32),
    Product(16, 8192, 8192, tf32, f32),
)
SCALED = (4096, 8192)
SCALED_FEW_ROWS = (
    (8, 4096, 7168),
    (16, 7168, 2048),
    (16, 8192, 8192),
    (16, 18432, 7168),
    (16, 24576, 1536),
    (32, 4096, 7168),
    (64, 8192, 8192),
    (64, 2112, 7168),
    (128, 4096, 4096),
    (128, 4096, 14336),
)
ROWS = (1, 16, 32, 64, 96, 128)
WEIGHTS = ((4096, 4096), (14336, 4096), (4096, 14336), (5120, 5120), (28672, 8192), (2048, 8192), (3584, 18944))


def operand_of(of: Product, rows: int) -> Any:
    """A random operand."""
    import torch

    shape = (*(() if of.batches is None else (of.batches,)), rows, of.depth)
    if of.operand is s8:
        return torch.randint(-128, 128, shape, device="cuda", dtype=torch.int8)
    kinds: dict[Any, Any] = {bf16: torch.bfloat16, f16: torch.float16, tf32: torch.float32, e4m3: torch.float8_e4m3fn}
    return torch.randn(shape, device="cuda").to(kinds[of.operand])


def results_of(shape: Sequence[int], kinds: dict[str, Any], turns: int) -> list[dict[str, Any]]:
    """A result for each way, of each set, that is wrong before."""
    import torch

    return [
        {way: torch.full(tuple(shape), 77, device="cuda", dtype=kind) for way, kind in kinds.items()}
        for _ in range(turns)
    ]


def case(of: Product, choice: Choice, loaded: Loaded) -> Case:
    """The product by PyTorch, and by the loaded kernel of the choice."""
    import torch

    turns = turns_for(of.bytes)
    sets = [(operand_of(of, of.m), operand_of(of, of.n)) for _ in range(turns)]
    kinds: dict[Any, Any] = {bf16: torch.bfloat16, f16: torch.float16, f32: torch.float32, s32: torch.int32}
    shape = (*(() if of.batches is None else (of.batches,)), of.m, of.n)
    results = results_of(shape, dict.fromkeys((THEIRS, OURS), kinds[of.result]), turns)
    form = Form(of.operand, of.result, batches=of.batches)
    grid, last = launch_of(choice, *of.shape, loaded.device.limits.multiprocessors, form)
    unit = torch.ones((), device="cuda")
    torch.backends.cuda.matmul.allow_tf32 = True

    def by_kernel(turn: int, stream: Any) -> None:
        operands = (array.view(torch.uint8) if of.operand is e4m3 else array for array in sets[turn])
        loaded.prepare(grid, *operands, results[turn][OURS], *last, stream=stream).run()

    def by_pytorch(turn: int, _: Any) -> None:
        (a, b), c = sets[turn], results[turn][THEIRS]
        if of.operand is e4m3:
            torch._scaled_mm(a, b.T, scale_a=unit, scale_b=unit, out_dtype=c.dtype, use_fast_accum=True, out=c)
        elif of.operand is s8:
            torch._int_mm(a, b.T, out=c)
        else:
            torch.matmul(a, b.mT, out=c)

    limit = 0.0 if of.result is s32 else LIMIT
    return Case(turns, {THEIRS: by_pytorch, OURS: by_kernel}, results.__getitem__, THEIRS, {OURS: limit})


def part(of: Product) -> Part:
    """The product by the model's choice."""
    choice = choose(*of.shape, of.operand, of.result, batches=of.batches)
    return Part((choice.kernel,), partial(case, of, choice))


def scaled_case(shape: tuple[int, int, int], choices: dict[str, Choice], *loaded: Loaded) -> Case:
    """e4m3 with a factor for 1 x 128 elements of A and 128 x 128 of B, by each of the choices."""
    import torch

    m, n, depth = shape
    turns, sets = turns_for((m + n) * depth + 2 * m * n), []
    for _ in range(turns):
        a, b = (torch.randn(rows, depth, device="cuda").to(torch.float8_e4m3fn) for rows in (m, n))
        across = -(-n // BLOCK)
        scales_a, padded = (
            torch.rand(depth // BLOCK, count, device="cuda") + 0.5 for count in (m, across + -across % 4)
        )
        scales_b = padded[:, :across]  # its rows are multiples of 16 bytes, for TMA
        columns_of_b = scales_b.T.contiguous().T  # cuBLAS wants the factors of 128 rows of B side by side
        sets.append((a, scales_a, b, scales_b, columns_of_b))
    kinds = {THEIRS: torch.bfloat16, **dict.fromkeys(choices, torch.float16)}
    results = results_of((m, n), kinds, turns)

    def by_pytorch(turn: int, _: Any) -> None:
        a, scales_a, b, _, columns_of_b = sets[turn]
        scales = {"scale_a": scales_a.T, "scale_b": columns_of_b}
        torch._scaled_mm(a, b.T, **scales, out_dtype=torch.bfloat16, out=results[turn][THEIRS])

    def by_kernel(way: str, kernel: Loaded, turn: int, stream: Any) -> None:
        a, scales_a, b, scales_b, _ = sets[turn]
        grid, last = choices[way].launch_of(m, n, depth, kernel.device.limits.multiprocessors)
        operands = a.view(torch.uint8), b.view(torch.uint8), results[turn][way], scales_a, scales_b
        kernel.prepare(grid, *operands, *last, stream=stream).run()

    ways = {way: partial(by_kernel, way, kernel) for way, kernel in zip(choices, loaded, strict=True)}
    limits = dict.fromkeys(choices, LIMIT)
    return Case(turns, {THEIRS: by_pytorch, **ways}, results.__getitem__, THEIRS, limits)


def scaled_part(shape: tuple[int, int, int], **choices: Choice) -> Part:
    """The same, by each choice."""
    return Part([choice.kernel for choice in choices.values()], partial(scaled_case, shape, choices))


def of_4_bits(shape: tuple[int, int, int], choice: Choice, loaded: Loaded) -> Case:
    """Weights of 4 bits, beside a dense product of weights in f16."""
    import torch

    m, n, depth = shape
    turns, sets = turns_for(n * depth // 2), []
    block = torch.randint(0, 16, (of_4.UNIT, depth))  # all tiles of rows are alike, as it takes long to pack them
    words = torch.from_numpy(of_4.pack(block.numpy()).view("int32")).to("cuda").view(depth // of_4.PART, -1)
    numbers = block.to("cuda").repeat(n // of_4.UNIT, 1)
    packed = words.repeat(1, n // of_4.UNIT).view(-1).view(torch.uint32)
    for _ in range(turns):
        x = torch.randn(m, depth, device="cuda", dtype=torch.float16)
        scales = torch.rand(depth // of_4.GROUP, n, device="cuda").to(torch.float16) * 0.1 + 0.01
        dense = (numbers - of_4.BIAS).to(torch.float16) * scales.T.repeat_interleave(of_4.GROUP, 1)
        sets.append((x, packed.clone(), scales, dense))
    results = results_of((m, n), dict.fromkeys((IN_F16, OURS), torch.float16), turns)
    sizes = zip(choice.workspace(*shape), (torch.float32, torch.uint32), strict=False)
    workspace = [torch.zeros(size, dtype=dtype, device="cuda") for size, dtype in sizes]

    def by_kernel(turn: int, stream: Any) -> None:
        x, w, scales, _ = sets[turn]
        last = *workspace, results[turn][OURS], m, n, depth // of_4.GROUP
        loaded.prepare(choice.grid(*shape), x, w, scales, *last, stream=stream).run()

    def by_pytorch(turn: int, _: Any) -> None:
        x, _, _, dense = sets[turn]
        torch.matmul(x, dense.T, out=results[turn][IN_F16])

    return Case(turns, {IN_F16: by_pytorch, OURS: by_kernel}, results.__getitem__, IN_F16, {OURS: LIMIT})


def part_of_4_bits(shape: tuple[int, int, int]) -> Part:
    """The product by the sample's choice."""
    choice = w4a16.choose(*shape)
    return Part((choice.kernel,), partial(of_4_bits, shape, choice))


def cells(theirs: str, _: Row, every: Sequence[Measured]) -> list[str]:
    """Both times, and the ratio."""
    (measured,) = every
    return [us(measured.took[theirs]), us(measured.took[OURS]), ratio(measured.ratio(theirs))]


COLUMNS = THEIRS, OURS, "ratio", "spread"


def in_batch(text: str, of: Product) -> str:
    """The text, and how many products there are."""
    return text if of.batches is None else f"{text}, a batch of {of.batches}"


def in_bf16() -> Table:
    """The shapes of the first table, and a batch."""
    rows = [Row((in_batch(size(*of.shape), of),), (part(of),)) for of in IN_BF16]
    return Table("Other types", ("bf16, M x N x K", *COLUMNS), rows, partial(cells, THEIRS))


def types() -> Table:
    """Square products."""

    def row(of: Product) -> Row:
        return Row((in_batch(str(of.operand), of), str(of.m)), (part(of),))

    return Table("Other types", ("type", "M = N = K", *COLUMNS), list(map(row, CUBES)), partial(cells, THEIRS))


def types_few_rows() -> Table:
    """Few rows of A."""
    rows = [Row((str(of.operand), size(*of.shape)), (part(of),)) for of in FEW_ROWS]
    return Table("Other types", ("type", "M x N x K", *COLUMNS), rows, partial(cells, THEIRS))


def scaled() -> Table:
    """Square products with block scales, by either tile."""
    tiles = map(block_scaled_gemm.Large, (3, 2))
    rows = [
        Row((str(extent), tile.label), (scaled_part((extent,) * 3, **{OURS: tile}),))
        for extent, tile in ((extent, tile) for tile in tiles for extent in SCALED)
    ]
    columns = ("M = N = K", "tile of C", *COLUMNS)
    return Table("Block-scaled fp8", columns, sorted(rows, key=lambda row: row.names[0]), partial(cells, THEIRS))


def scaled_few_rows() -> Table:
    """Few rows of A with block scales, and before there was a kernel for them."""

    def row(shape: tuple[int, int, int]) -> Row:
        choices = {BEFORE: block_scaled_gemm.Large(2), OURS: block_scaled_gemm.choose(*shape)}
        return Row((size(*shape),), (scaled_part(shape, **choices),))

    def with_before(_: Row, every: Sequence[Measured]) -> list[str]:
        theirs, ours, gain = cells(THEIRS, _, every)
        return [theirs, ratio(every[0].took[THEIRS] / every[0].took[BEFORE]), ours, gain]

    columns = ("M x N x K", THEIRS, "before, ratio", OURS, "ratio", "spread")
    return Table("Block-scaled fp8", columns, list(map(row, SCALED_FEW_ROWS)), with_before)


def weights() -> Table:
    """Weights of 4 bits."""
    columns = ("weights of 4 bits, rows x 8192 x 8192", IN_F16, OURS, "ratio", "spread")
    rows = [Row((str(m),), (part_of_4_bits((m, 8192, 8192)),)) for m in ROWS]
    return Table("Weights of 4 bits", columns, rows, partial(cells, IN_F16))


def other_weights() -> Table:
    """A row for each number of rows of X, and a column for each W."""
    return Table(
        "Weights of 4 bits",
        ("rows", *(size(*shape) for shape in WEIGHTS), "spread"),
        [Row((str(m),), [part_of_4_bits((m, *shape)) for shape in WEIGHTS]) for m in ROWS],
        lambda _, every: [f"{us(each.took[OURS])}, {ratio(each.ratio(IN_F16))}" for each in every],
    )
