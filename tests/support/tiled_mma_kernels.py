"""Kernels of whole tiles by k.tiled_mma, whose numbers are compared with NumPy's on a GPU and which ptxas assembles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, u32
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.layout import Layout, size
from nvbackend.signature import Parameter, Pointer

TURNS = 2
"""Tiles along K."""
_CHUNK_WORDS = 4


@dataclass(frozen=True)
class Case:
    """An instruction, how it is laid over the threads, the tile's K, and how operands lie in shared memory."""

    request: nvb.WgmmaRequest
    tile_k: int
    a: tuple[Major, SwizzleMode] = (Major.K, SwizzleMode.B128)
    b: tuple[Major, SwizzleMode] = (Major.K, SwizzleMode.B128)
    parts: int = 1
    how: dict[str, Any] = field(default_factory=dict)

    @property
    def warpgroups(self) -> int:
        """Atoms of the atom layout."""
        along = self.how.get("atom_layout", (*self.how.get("warpgroups", (1, 1)), 1))
        return size(along if isinstance(along, Layout) else Layout(along))

    def __str__(self) -> str:
        one = self.request
        operands = " ".join(f"{major.value}{swizzle.span}" for major, swizzle in (self.a, self.b))
        shape = f"m64n{one.n}k{one.k} {one.d} {one.a}{' RS' if one.a_in_registers else ''}"
        return f"{shape} K{self.tile_k} {operands} parts {self.parts} {self.how}"


@dataclass(frozen=True)
class Built:
    """The kernel, and the layouts of its tiles (A's None where it is read from its rows) and their shape (M, N, K)."""

    k: KernelBuilder
    a: SmemLayout | None
    b: SmemLayout
    shape: tuple[int, int, int]


def build(case: Case) -> Built:
    """C = A B^T of one tile, `TURNS` tiles along K. Parameters: images of A's tiles (or A itself), of B's tiles, C.

    With A in registers a thread loads its elements from A, row-major, K of all turns long.
    """
    one = case.request
    types = {"a": one.a if one.a_in_registers else u32, "b": u32, "c": one.d}
    parameters = [Parameter(name, Pointer(element)) for name, element in types.items()]
    k = KernelBuilder("tiled_numbers", "sm_90a", threads=128 * case.warpgroups, parameters=parameters)
    a, b, c = k.arguments
    mma = k.tiled_mma(one, **case.how)
    warpgroup = k.warpgroup_id()
    layout_a = None if one.a_in_registers else mma.smem_a(case.tile_k, *case.a)
    layout_b = mma.smem_b(case.tile_k, *case.b)
    tile_a = None if layout_a is None else k.shared_tile(layout_a, name="tile_a")
    tile_b = k.shared_tile(layout_b, name="tile_b")
    acc = mma.accumulators(parts=case.parts)
    rows = mma.register_tensor_A(case.tile_k) if one.a_in_registers else None
    with k.range(TURNS) as turn:
        if tile_a is not None:
            _fill(k, tile_a, a, turn)
        else:
            _load(k, mma, rows, a, turn, case.tile_k)
        _fill(k, tile_b, b, turn)
        k.fence.proxy_async()
        k.barrier.sync()
        first = tile_a if tile_a is not None else mma.make_fragment_A(rows)
        with k.wgmma.group():
            mma.accumulate(acc, first, tile_b, warpgroup)
        k.barrier.sync()
    if case.parts > 1:
        acc.add_parts()
    if mma.layouts.tile_size_mnk[2] > one.k:
        mma.reduce(acc, mma.reduction_buffer(acc), warpgroup)
    mma.store(acc, c, mma.shape[1], warpgroup)
    return Built(k, layout_a, layout_b, (*mma.shape, TURNS * case.tile_k))


def _fill(k: KernelBuilder, tile: SharedTile, source: Address, turn: Any) -> None:
    """Copy the bytes of a turn's tile, 16 bytes a thread and turn, with ordinary stores."""
    words, start = tile.address.cast(u32), source.byte_offset(turn * tile.layout.bytes, align=16)
    with k.range(k.thread_id(), tile.layout.bytes // 16, k.threads) as chunk:
        given = start.byte_offset(chunk * 16, align=16).load(_CHUNK_WORDS)
        words.byte_offset(chunk * 16, align=16).store(*given)


def _load(k: KernelBuilder, mma: Any, rows: Any, source: Address, turn: Any, columns: int) -> None:
    """A thread's elements of A, one by one."""
    whole = k.tensor(source + turn * columns, Layout((mma.shape[0], columns), (TURNS * columns, 1)))
    own = whole.partition(mma.layouts.get_slice(k.thread_id()).partition_A)
    for place in range(size(rows.layout)):
        values, along_m, _ = (size(rows.layout, mode) for mode in range(3))
        at = (place % values, place // values % along_m, place // values // along_m)
        rows[at] = own[at]


F16 = nvb.wgmma.mma_async("m64n32k16", nvb.f16, nvb.f16, nvb.f32)
HALVES = nvb.wgmma.mma_async("m64n32k16", nvb.f16, nvb.f16, nvb.f16)
S8 = nvb.wgmma.mma_async("m64n32k32", nvb.s8, nvb.s8, nvb.s32)
TF32 = nvb.wgmma.mma_async("m64n32k8", nvb.tf32, nvb.tf32, nvb.f32)
RS = nvb.wgmma.mma_async("m64n32k16", nvb.f16, nvb.f16, nvb.f32, a_in_registers=True)
RS_S8 = nvb.wgmma.mma_async("m64n32k32", nvb.s8, nvb.s8, nvb.s32, a_in_registers=True)
_K, _MN, _NARROW = (Major.K, SwizzleMode.B128), (Major.MN, SwizzleMode.B64), (Major.MN, SwizzleMode.B32)
_WIDE = {"warpgroups": (2, 1), "tile": (256, 64)}

CASES = [
    Case(F16, 64),
    Case(F16, 128, a=(Major.K, SwizzleMode.B64)),
    Case(F16, 64, how={"warpgroups": (2, 1)}),
    Case(F16, 64, how={"warpgroups": (1, 2)}),
    *(Case(F16, 64, one, other, how=_WIDE) for one, other in ((_K, _K), (_MN, _K), (_K, _NARROW), (_MN, _MN))),
    Case(F16, 64, _NARROW, _NARROW, how={"tile": (128, 64)}),
    Case(F16, 64, (Major.MN, SwizzleMode.NONE), (Major.K, SwizzleMode.NONE), how={"tile": (128, 64)}),
    Case(F16, 64, how={"warpgroups": (2, 2), "tile": (256, 128)}),
    Case(HALVES, 64, how=_WIDE),
    Case(S8, 128, how=_WIDE),
    Case(TF32, 32, how=_WIDE),
    Case(F16, 64, how={"warpgroups": (2, 1), "permutation": (Layout((64, 2, 2), (1, 128, 64)),)}),
    Case(F16, 64, how={"warpgroups": (1, 2), "permutation": (None, Layout((8, 4, 2), (1, 16, 8)))}),
    Case(F16, 64, _K, _NARROW, how={"permutation": (None, 64)}),
    Case(RS, 64),
    Case(RS, 64, how=_WIDE),
    Case(RS_S8, 128, how={"tile": (128, 32)}),
    Case(F16, 64, parts=2),
    Case(F16, 64, parts=4, how={"tile": (128, 32)}),
    Case(HALVES, 64, parts=2),
    Case(S8, 128, parts=2, how=_WIDE),
    Case(F16, 64, how={"atom_layout": (1, 1, 2)}),
    Case(F16, 64, how={"atom_layout": (2, 1, 2), "tile": (128, 64)}),
    Case(F16, 64, how={"atom_layout": (1, 1, 4)}),
    Case(F16, 96, (Major.K, SwizzleMode.B32), (Major.K, SwizzleMode.B32), how={"atom_layout": (1, 1, 3)}),
    Case(HALVES, 64, how={"atom_layout": (1, 1, 2)}),
    Case(RS, 64, how={"atom_layout": (1, 1, 2)}),
]
