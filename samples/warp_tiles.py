"""What mma.sync is fed from: tiles of A and B in a ring in shared memory, filled by cp.async, read by ldmatrix.

All is counted in bytes, so it is one for f16 and fp8: whatever the element, an mma.sync multiplies 16 rows of A and 8
of B by 32 bytes along K, and ldmatrix gives each thread the four bytes a register that it wants (PTX ISA 9.7.14.5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import nvbackend as nvb
from nvbackend import f32, i32, i64, u8
from nvbackend.builder.memory import Address
from nvbackend.builder.values import Value
from nvbackend.builder.variables import Variable
from nvbackend.layout import ComposedLayout, Layout, Swizzle

ROWS, PITCH = 128, 128  # rows of a tile of A or B, bytes of a row: as many as the 32 banks hold
STEP = 32  # bytes along K that an mma.sync multiplies
CHUNK = 16  # bytes that a thread copies at once, and ldmatrix reads of a row
WARPS_M, WARPS_N = 2, 4
WARP_M, WARP_N = ROWS // WARPS_M, ROWS // WARPS_N
MMA_M, MMA_N = 16, 8
THREADS = 32 * WARPS_M * WARPS_N

TILE = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((ROWS, PITCH), (PITCH, 1)))
"""(row, byte) to its place in a tile: chunks change places so that the 8 rows of an ldmatrix matrix meet all banks."""


@dataclass(frozen=True)
class Stage:
    """The tiles of A and of B at `step` along K."""

    step: Value
    a: Address
    b: Address


class Ring:
    """`stages` tiles of A and as many of B: those of `a` from `row` on, those of `b` from `column`, `depth` along K."""

    def __init__(
        self, k: nvb.KernelBuilder, stages: int, a: Address, b: Address, row: Value, column: Value, depth: Value
    ) -> None:
        self.k, self.stages = k, stages
        self.pitch = depth * (a.element.bits // 8)
        self.steps = self.pitch // PITCH
        self.sources = [
            one.cast(u8).byte_offset(at.to(i64) * self.pitch.to(i64)) for one, at in ((a, row), (b, column))
        ]
        self.tiles = [k.shared(u8, stages * ROWS * PITCH, align=PITCH, name=name) for name in ("a", "b")]

    def fill(self, step: Value) -> None:
        """Start to copy the tiles at `step` along K, one group of copies; an empty one past the end."""
        k = self.k
        chunks = PITCH // CHUNK
        with k.if_(step < self.steps):
            for source, tiles in zip(self.sources, self.tiles, strict=True):
                tile = self.place(tiles, step)
                for first in range(0, ROWS, THREADS // chunks):
                    row, byte = first + k.thread_id() // chunks, k.thread_id() % chunks * CHUNK
                    chunk = source.byte_offset(row * self.pitch + step * PITCH + byte)
                    k.cp_async(tile.byte_offset(TILE(row, byte)), chunk, CHUNK, cache="cg")
        k.cp_async_commit()

    def place(self, tiles: Address, step: Value) -> Address:
        """The tile that `step` has among `tiles`."""
        return tiles.byte_offset(step % self.stages * (ROWS * PITCH))

    @contextmanager
    def drain(self) -> Iterator[Stage]:
        """Each tile of A and of B along K, while the copies of those behind it are under way."""
        k, ahead = self.k, self.stages - 1
        for first in range(ahead):
            self.fill(k.const(first, i32))
        with k.range(self.steps) as step:
            k.cp_async_wait(ahead - 1)
            k.barrier()  # all have their part of this step's tiles, and are done with those that are filled next
            self.fill(step + ahead)
            a, b = (self.place(tiles, step) for tiles in self.tiles)
            yield Stage(step, a, b)


def load_a(k: nvb.KernelBuilder, tile: Address, byte: int) -> list[list[Value]]:
    """A's fragments for the warp's rows, from `byte` on along K: 16 rows each, four registers.

    The four matrices of an ldmatrix: rows 0-7 and 8-15 at the first 16 bytes, then the same at the next.
    """
    lane, warp = k.lane_id(), k.warp_id() // WARPS_N
    row, column = lane % 16, lane // 16 * CHUNK + byte
    return [
        k.ldmatrix(tile.byte_offset(TILE(warp * WARP_M + first + row, column)), 4) for first in range(0, WARP_M, MMA_M)
    ]


def load_b(k: nvb.KernelBuilder, tile: Address, byte: int) -> list[list[Value]]:
    """B's fragments for the warp's columns of C, from `byte` on along K: 8 rows of B each, two registers.

    The four matrices of an ldmatrix: rows 0-7 at the first and the next 16 bytes, then rows 8-15.
    """
    lane, warp = k.lane_id(), k.warp_id() % WARPS_N
    row, column = lane // 16 * MMA_N + lane % MMA_N, lane // 8 % 2 * CHUNK + byte
    pairs = [
        k.ldmatrix(tile.byte_offset(TILE(warp * WARP_N + first + row, column)), 4)
        for first in range(0, WARP_N, 2 * MMA_N)
    ]
    return [fragment for pair in pairs for fragment in (pair[:2], pair[2:])]


class Accumulators:
    """The warp's part of C, 64 x 32 in f32: four registers for each mma.sync."""

    def __init__(self, k: nvb.KernelBuilder) -> None:
        self.k = k
        self.parts: dict[tuple[int, int], list[Variable]] = {
            (m, n): [k.var(0.0, f32, name=f"acc.{m}.{n}") for _ in range(4)]
            for m in range(WARP_M // MMA_M)
            for n in range(WARP_N // MMA_N)
        }

    def accumulate(
        self,
        mma: nvb.MmaRequest,
        a: Sequence[Sequence[Value]],
        b: Sequence[Sequence[Value]],
        scales: tuple[Sequence[Value], Sequence[Value]] | None = None,
    ) -> None:
        """Add the product of A's and B's fragments; `scales` are the factors of each fragment of A and of B."""
        for (m, n), part in self.parts.items():
            scale = {} if scales is None else {"scale_a": scales[0][m], "scale_b": scales[1][n]}
            for register, value in zip(part, self.k.mma_sync(mma, a[m], b[n], part, **scale), strict=True):
                register.set(value)

    def store(self, c: Address, row: Value, column: Value, pitch: Value) -> None:
        """Write the warp's part of a CTA's tile of C that begins at `row` and `column`; `pitch` elements a row."""
        lane, warp = self.k.lane_id(), self.k.warp_id()
        row += warp // WARPS_N * WARP_M + lane // 4
        column += warp % WARPS_N * WARP_N + lane % 4 * 2
        for (m, n), part in self.parts.items():
            for half in range(2):
                line = (row + m * MMA_M + half * 8).to(i64) * pitch.to(i64)
                place = c.byte_offset((line + (column + n * MMA_N).to(i64)) * 4, align=8)
                place.store(*part[2 * half : 2 * half + 2])
