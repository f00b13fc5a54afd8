"""Thread identity: special registers, indices, and the election of a single thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from operator import index

from nvbackend.builder.core.control import Control
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import issue, result
from nvbackend.builder.scopes import rules
from nvbackend.builder.scopes.blocks import with_block
from nvbackend.builder.value_tracking.warp_indices import SharedIndex
from nvbackend.builder.values.values import Operand, Value
from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import f32, pred, s32
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import special_registers, warp
from nvbackend.isel.operands.sync import check_special_register
from nvbackend.isel.target.target import VARIANT, variant

LINEAR = "linear"
"""The number of a thread in its CTA, by which warps are made of threads: along x first, then y, then z."""
_AXES = ("x", "y", "z")
OTHER_WARP = Rule(
    id="control.other-warp",
    message="k.one_thread({given}) takes a thread of warp {given}, and only {there} may come here",
    fix="name a warp that comes here: k.one_thread({first})",
    why="No thread would ever run the block, and those that wait for what it does would hang.",
    reference="PTX ISA 10 (special registers: tid)",
)


class Threads:
    """Thread identity: indices, special registers, election, and the number of threads that arrive at a barrier."""

    def __init__(self, k: Core, control: Control) -> None:
        self._k = k
        self._control = control

    def special_register(self, name: str) -> Value:
        """`k.special_register`."""
        check_special_register(name)
        row = special_registers.special_register(name)
        return self._k.wrap(self._k.emit(row, {}, name=name)["value"][0], row.operand("value").type)

    def thread_id(self, axis: str = "x") -> Value:
        """`k.thread_id`."""
        return self._linear() if axis == LINEAR else self._along("tid", axis, f", {LINEAR}")

    def _linear(self) -> Value:
        """The thread's number (PTX ISA 2.2.1: x + y * ntid.x + z * ntid.x * ntid.y)."""
        number: Value | None = None
        for axis, extent in zip(reversed(_AXES), reversed(self._k.bounds.shape), strict=True):
            if extent > 1:
                own = self.thread_id(axis)
                number = own if number is None else number * extent + own
        return self.thread_id() if number is None else number

    def block_id(self, axis: str = "x") -> Value:
        """`k.block_id`."""
        return self._along("ctaid", axis)

    def block_count(self, axis: str = "x") -> Value:
        """`k.block_count`."""
        return self._along("nctaid", axis)

    def _along(self, register: str, axis: str, others: str = "") -> Value:
        """An index or an extent along one of the axes (instruction.variant); the call takes `others`, too."""
        return self.special_register(f"{register}.{known_axis(register, axis, others)}")

    def lane_id(self) -> Value:
        """`k.lane_id`."""
        return self.thread_id(LINEAR) % WARP_SIZE

    def warp_id(self) -> Value:
        """`k.warp_id`."""
        return self._index_of(WARP_SIZE)

    def warpgroup_id(self) -> Value:
        """`k.warpgroup_id`."""
        return self._index_of(WARPGROUP_SIZE)

    def _index_of(self, size: int) -> Value:
        """The index of the thread's group of `size` threads: lane 0's, or the thread's own if lanes have diverged."""
        own = self.thread_id(LINEAR) // size
        if self._k.alone() is not None:
            return own
        shared = self.uniform(own)
        here = self._k.execution.here()
        if here is None or not here.is_of_whole_warps:
            emitted = self._k.machine.block(self._k.llvm.block.name).instructions[-1]
            self._k.indices.append(SharedIndex(own.ir, shared.ir, emitted))
        return shared

    def uniform(self, value: Value) -> Value:
        """`k.uniform`."""
        bits = value.bitcast(s32) if value.type is f32 else value
        operands = {"members": warp.ALL_LANES, "value": bits.ir, "lane": 0, "clamp": warp.WHOLE_WARP}
        shared = result(self._k, warp.shuffle("idx"), bits.type, **operands)
        return shared.bitcast(f32) if value.type is f32 else shared

    def elect(self) -> Value:
        """`k.elect`."""
        return self._k.wrap(issue(self._k, sync.elect(), mask=warp.ALL_LANES)["elected"][0], pred)

    @with_block
    def one_thread(self, warp_index: int = 0) -> Iterator[None]:
        """`k.one_thread`."""
        warps = self._k.threads // WARP_SIZE
        if not 0 <= index(warp_index) < warps:
            rules.WARP.fail(given=warp_index, warps="0 alone" if warps == 1 else f"0 to {warps - 1}")
        coming = self._coming_warps()
        if coming and warp_index not in coming:
            OTHER_WARP.fail(given=warp_index, there=_spoken(coming), first=coming[0])
        with self._control.if_((self.warp_id() == warp_index) & self.elect()):
            yield

    def _coming_warps(self) -> list[int]:
        """The warps of which threads may come here; none where nothing is known, or the block is for no thread."""
        among, lanes = self._k.regions[-1].among or 0, (1 << WARP_SIZE) - 1
        return [warp for warp in range(self._k.threads // WARP_SIZE) if among >> warp * WARP_SIZE & lanes]

    def coming_to(self, barrier: Value) -> int:
        """The number of threads here that certainly arrive at the barrier numbered `barrier`; 0 if unknown."""
        here = self._k.execution.here()
        if isinstance(barrier.constant, int):
            return 0 if here is None else here.count or 0
        return max(Counter(self._k.execution.numbers_here(barrier.ir).values()).values(), default=0)

    def griddepcontrol(self, action: str) -> None:
        """`k.griddepcontrol`."""
        issue(self._k, variant("griddepcontrol", sync.griddepcontrol, action))

    def nanosleep(self, nanoseconds: Operand) -> None:
        """`k.nanosleep`."""
        issue(self._k, sync.nanosleep(), nanoseconds=nanoseconds)


def _spoken(warps: list[int]) -> str:
    """Ascending numbers of warps, for people."""
    first, last = warps[0], warps[-1]
    if first == last:
        return f"warp {first}"
    if len(warps) == last - first + 1:
        return f"warps {first} to {last}"
    return f"warps {', '.join(map(str, warps[:-1]))} and {last}"


def known_axis(register: str, axis: str, others: str = "") -> str:
    """`axis`, if the register has it (instruction.variant); its call takes `others`, too."""
    if axis not in _AXES:
        VARIANT.fail(instruction=f"%{register}", reason=f"{axis!r} is not an axis; the axes are x, y, z{others}")
    return axis
