"""A kernel to copy in: a tensor of halves in global memory, one in shared memory, and the thread."""

from __future__ import annotations

from nvbackend import Pointer, f16, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.layout import ComposedLayout, Layout, Swizzle
from nvbackend.signature import Parameter, Scalar
from nvbackend.tiled import cp_async_copy, make_tiled_copy, make_tiled_mma

SWIZZLED = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 64), (64, 1)))
ROWS = make_tiled_copy(cp_async_copy(f16), Layout((16, 8), (8, 1)), Layout((1, 8)))
MMA = make_tiled_mma("SM80_16x8x16_F16F16F16F16_TN", (2, 2, 1), (32, 32, 16))


class Scene:
    """A kernel with a tensor of halves in global memory, one in shared memory, and its thread."""

    def __init__(self, target="sm_90a", element=f16, threads=128, align=16, layout=SWIZZLED):
        parameters = [Parameter("source", Pointer(element, align)), Parameter("n", Scalar(i32))]
        self.k = KernelBuilder("scene", target, threads=threads, parameters=parameters)
        self.source, self.n = self.k.arguments
        self.thread = self.k.thread_id()
        self.tile = self.k.tensor(self.k.shared(element, 64 * 64, align=1024, name="tile"), layout)
        self.matrix = self.k.tensor(self.source, Layout((64, 64), (64, 1)))

    def fill(self, copy=ROWS, where=None, matrix=None):
        mine = copy.get_slice(self.thread)
        source = (self.matrix if matrix is None else matrix).partition(mine.partition_S)
        self.k.copy(copy, source, self.tile.partition(mine.partition_D), where=where)

    def ptx(self):
        return self.k.compile(check=False).ptx
