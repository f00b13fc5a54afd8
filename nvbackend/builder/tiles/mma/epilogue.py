"""From accumulators to global memory by TMA, staged through swizzled shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from nvbackend.atoms import atom_of
from nvbackend.builder.core.instructions import issue, result
from nvbackend.builder.core.parameters import TensorMapParameter
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.ops.copy.tma import boxes_a_panel
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.scopes.rules import TMA_PLACE, UNSUPPORTED_OPERATION
from nvbackend.builder.tiles.tensor import Walker, make_tensor
from nvbackend.builder.values.accumulator import Accumulator
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import Rule, user_facing
from nvbackend.intrinsics.copy import matrix_move
from nvbackend.intrinsics.mma import wgmma
from nvbackend.intrinsics.mma.wgmma import M as ROWS
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import bf16, f16, f32, s32
from nvbackend.intrinsics.words.smem_descriptor import Major, SwizzleMode
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from nvbackend.tiled import make_tiled_copy_C, make_tiled_mma, stmatrix_copy

MATRICES = 4
"""How many matrices of 8 x 8 f16 a warp's stmatrix stores."""
WARPGROUP_WARPS = WARPGROUP_SIZE // WARP_SIZE
FIRST_NAMED_BARRIER = 1

TILE_OF_ANOTHER_SHAPE = Rule(
    id="epilogue.accumulator",
    message="the epilogue stores f32 accumulators of {wanted} columns; {name} is {given} of {columns}",
    fix="make the epilogue with n={columns}, and accumulate in f32",
    why="The rest of the buffer would be stored as it was, or the buffer next to it overwritten.",
    reference="PTX ISA 9.7.15.5.1 (register fragments)",
)


@user_facing
@dataclass(frozen=True, slots=True)
class Reservation:
    """A warpgroup's buffer, reserved for the tile that goes to (row, column) of the tensor."""

    epilogue: TmaEpilogue
    row: Value
    column: Value
    warpgroup: Value

    def store(self, accumulator: Accumulator) -> None:
        """Store the accumulator, which must be drained. All 128 threads of the warpgroup execute it."""
        self.epilogue._store(accumulator, self)


@user_facing
class TmaEpilogue:
    """Stores f32 accumulators as 16-bit tiles of a tensor, through one buffer of shared memory per warpgroup.

    A store stays in flight: the next store waits for the buffer, and so does `finish` before the kernel ends.
    """

    def __init__(self, k: FunctionBuilder, target: TensorMapParameter, n: int, warpgroups: int) -> None:
        element = target.type.element
        if element not in (f16, bf16):
            UNSUPPORTED_OPERATION.fail(
                operation="the TMA epilogue",
                element=element,
                advice="store to an f16 or bf16 tensor, or from registers",
            )
        self._k = k
        self._target = target
        self._layout = SmemLayout(Major.K, SwizzleMode.B128, element, ROWS, n)
        multiplied = make_tiled_mma(atom_of(wgmma.mma_async(n, f32, element, element)))
        self._copy = make_tiled_copy_C(stmatrix_copy(element, MATRICES), multiplied)
        self._buffers = k.shared_tiles(self._layout, warpgroups, name="epilogue")
        boxes_a_panel(self._buffers.at(0), target, "k.tma_epilogue", f"k.tma.store_box({target.name}, ...)")

    def __repr__(self) -> str:
        return f"<epilogue of tiles {ROWS} x {self._layout.columns} to {self._target.name}>"

    def reserve(self, at: tuple[Operand, Operand], warpgroup: Operand) -> Reservation:
        """Wait until the buffer of `warpgroup` is free for the tile at (row, column) `at` of the tensor.

        All 128 threads of the warpgroup execute it. Call it while the last mma of the tile still run: it also computes
        the tile's place, which would otherwise delay the mma of the next tile.
        """
        k = self._k
        if len(at) != 2:
            TMA_PLACE.fail(name=self._target.name, given=len(at), rank=2)
        place = tuple(k.uniform(as_value(k.core, coordinate, s32)) for coordinate in at)
        warpgroup = as_value(k.core, warpgroup, s32)
        with k.if_(self._is_leader()):
            k.tma.wait_group(reading=True)
        k.barrier.sync(warpgroup + FIRST_NAMED_BARRIER, WARPGROUP_SIZE)
        return Reservation(self, place[0], place[1], warpgroup)

    def _store(self, accumulator: Accumulator, reserved: Reservation) -> None:
        k = self._k
        if (accumulator.element, accumulator.n) != (f32, self._layout.columns):
            TILE_OF_ANOTHER_SHAPE.fail(
                wanted=self._layout.columns, name=accumulator.name, given=accumulator.element, columns=accumulator.n
            )
        buffer = self._buffers.at(reserved.warpgroup)
        self._to_shared(accumulator, buffer)
        k.fence.proxy_async()
        k.barrier.sync(reserved.warpgroup + FIRST_NAMED_BARRIER, WARPGROUP_SIZE)
        with k.if_(self._is_leader()):
            k.tma.store(self._target, (reserved.row, reserved.column), buffer)
            k.tma.commit_group()

    def _is_leader(self) -> Value:
        """One thread of the warpgroup, the same at each call: bulk groups belong to the thread that made them."""
        k = self._k
        return (k.warp_id() % WARPGROUP_WARPS == 0) & k.elect()

    def finish(self) -> None:
        """Wait until every store of this thread has read its buffer. Each thread that stored executes it."""
        self._k.tma.wait_group(reading=True)

    def _to_shared(self, accumulator: Accumulator, buffer: SharedTile) -> None:
        """Store the thread's registers in the order of C, four to a stmatrix, at the rows that the copy gives it."""
        k = self._k
        pairs = self._packed(accumulator.values())
        thread = k.thread_id("linear") % WARPGROUP_SIZE
        tile = make_tensor(k, buffer.address.cast(self._layout.element), buffer.cute)
        rows = tile.partition(self._copy.get_slice(thread).partition_D)
        walker = Walker(rows)
        for group in range(len(pairs) // MATRICES):
            place = walker.address(((0, group), 0, 0)).bytes
            registers = pairs[MATRICES * group : MATRICES * (group + 1)]
            issue(k.core, matrix_move.stmatrix(MATRICES), address=place.ir, fragment=registers)

    def _packed(self, registers: list[Value]) -> list[Value]:
        row = matrix_move.pack(f"{self._layout.element.ptx}x2")
        pairs = zip(registers[::2], registers[1::2], strict=True)
        return [result(self._k.core, row, low=low, high=high) for low, high in pairs]
