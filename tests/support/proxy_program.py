"""Kernels of one warpgroup whose accesses to shared memory are short to write, for the tests of the proxy analysis."""

from __future__ import annotations

from nvbackend import KernelBuilder, f16, f32, i32, u32, wgmma
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.values.accumulator import Accumulator
from nvbackend.diagnostics import Diagnostic
from nvbackend.intrinsics.words.smem_descriptor import Major, SwizzleMode
from nvbackend.isel.protocols.proxy.protocol import check_proxy_protocol
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from nvbackend.signature import Parameter, Pointer, Scalar, TensorMap

TILE = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)
MMA = wgmma.mma_async("m64n64k16", f16, f16, f32)


class Program:
    """A kernel of one warpgroup with two tiles, a barrier, and calls short enough to read."""

    def __init__(self, target: str = "sm_90a", tiles: int = 1) -> None:
        parameters = [
            Parameter("map", TensorMap(f16, (64, 64))),
            Parameter("p", Pointer(f16, 16)),
            Parameter("n", Scalar(i32)),
        ]
        self.k = KernelBuilder("kernel", target, threads=128, parameters=parameters)
        self.map, self.pointer, self.n = self.k.arguments
        self.tiles = self.k.shared_tiles(TILE, tiles, name="tile")
        self.other = self.k.shared_tile(TILE, name="other")
        self.full = self.k.mbarrier.array(2, 1, name="full")
        self.k.mbarrier.ready()

    @property
    def tile(self) -> SharedTile:
        return self.tiles.at(0)

    def accumulator(self) -> Accumulator:
        return self.k.wgmma.accumulator(64)

    def mma(self, acc: Accumulator, tile: SharedTile | None = None, b: SharedTile | None = None) -> None:
        tile = tile or self.tile
        for column in range(0, 64, 16):
            self.k.wgmma.mma_async(acc, tile, b or tile, MMA, a_at=(0, column), b_at=(0, column))

    def write(self, tile: SharedTile | None = None) -> None:
        (tile or self.tile).address.byte_offset(self.k.thread_id() * 16, align=16).cast(u32).store(1)

    def stmatrix(self, tile: SharedTile | None = None) -> None:
        place = (tile or self.tile).address.byte_offset(self.k.thread_id() * 16, align=16)
        self.k.mma.stmatrix(place, [self.k.const(0, u32)] * 4)

    def load(self, tile: SharedTile | None = None, barrier: Address | None = None) -> None:
        with self.k.one_thread():
            self.k.mbarrier.arrive(barrier or self.full, expect_tx=TILE.bytes)
            self.k.tma.load(tile or self.tile, self.map, (0, 0), barrier or self.full)

    def store(self, tile: SharedTile | None = None, *, commit: bool = True, wait: bool = False) -> None:
        with self.k.one_thread():
            self.k.tma.store(self.map, (0, 0), tile or self.tile)
            if commit:
                self.k.tma.commit_group()
            if wait:
                self.k.tma.wait_group(reading=True)

    def found(self) -> list[Diagnostic]:
        self.k.return_()
        self.k.core.link()
        return check_proxy_protocol(self.k.machine)
