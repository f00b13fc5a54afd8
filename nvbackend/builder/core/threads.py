"""Who a thread is: special registers, indices, and which thread of a warp does something alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nvbackend.builder.core.control import Control
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import issue, result
from nvbackend.builder.scopes import rules
from nvbackend.builder.scopes.blocks import with_block
from nvbackend.builder.value_tracking.warp_indices import SharedIndex
from nvbackend.builder.values.values import Operand, Value
from nvbackend.intrinsics.row.hierarchy import WARP_SIZE, WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import f32, pred, s32
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import special_registers, warp
from nvbackend.isel.select import family_rules
from nvbackend.isel.target.variants import VARIANT, variant

_AXES = ("x", "y", "z")


class Threads:
    """Who a thread is: indices, special registers, election, and what threads come here."""

    def __init__(self, k: Core, control: Control) -> None:
        self._k = k
        self._control = control

    def special_register(self, name: str) -> Value:
        """A special register by its PTX name without the percent sign, such as "tid.x".

        It is an s32, an s64 where it has 64 bits, or a predicate.

        Raises register.name for a name that is none.
        """
        family_rules.check_special_register(name)
        row = special_registers.special_register(name)
        return self._k.wrap(self._k.emit(row, {}, name=name)["value"][0], row.operand("value").type)

    def thread_id(self, axis: str = "x") -> Value:
        """The thread's index in its CTA."""
        return self._along("tid", axis)

    def block_id(self, axis: str = "x") -> Value:
        """The CTA's index in the grid."""
        return self._along("ctaid", axis)

    def block_count(self, axis: str = "x") -> Value:
        """The CTAs of the grid."""
        return self._along("nctaid", axis)

    def _along(self, register: str, axis: str) -> Value:
        """An index or an extent along one of the axes (instruction.variant)."""
        if axis not in _AXES:
            VARIANT.fail(instruction=f"%{register}", reason=f"{axis!r} is not an axis; x, y and z are")
        return self.special_register(f"{register}.{axis}")

    def lane_id(self) -> Value:
        """The thread's index in its warp."""
        return self.thread_id() % WARP_SIZE

    def warp_id(self) -> Value:
        """The warp's index in its CTA, in a form the compiler knows to be the same for the whole warp.

        Any lane may ask for it by itself.
        """
        return self._index_of(WARP_SIZE)

    def warpgroup_id(self) -> Value:
        """The warpgroup's index in its CTA, likewise uniform."""
        return self._index_of(WARPGROUP_SIZE)

    def _index_of(self, size: int) -> Value:
        """The index of the thread's group of `size`: lane 0's, or its own where only some lanes of the warp come."""
        own = self.thread_id() // size
        if self._k.alone() is not None:
            return own
        shared = self.uniform(own)
        here = self._k.execution.here()
        if here is None or not here.is_of_whole_warps:
            emitted = self._k.machine.block(self._k.llvm.block.name).instructions[-1]
            self._k.indices.append(SharedIndex(own.ir, shared.ir, emitted))
        return shared

    def uniform(self, value: Value) -> Value:
        """Lane 0's `value` (32-bit) in every lane, so that what is computed from it can live in uniform registers."""
        given = value.bitcast(s32) if value.type is f32 else value
        operands = {"members": warp.ALL_LANES, "value": given.ir, "lane": 0, "clamp": warp.WHOLE_WARP}
        shared = result(self._k, warp.shuffle("idx"), given.type, **operands)
        return shared.bitcast(f32) if value.type is f32 else shared

    def elect(self) -> Value:
        """A predicate that one lane of the warp has (elect.sync); the whole warp executes it."""
        return self._k.wrap(issue(self._k, sync.elect(), mask=warp.ALL_LANES)["elected"][0], pred)

    @with_block
    def one_thread(self, warp_index: int = 0) -> Iterator[None]:
        """Run the block in one elected thread of the CTA's warp `warp_index`.

        Raises control.one-thread inside for what a whole warp executes, and kernel.warp where there is no such warp.
        """
        warps = self._k.threads // WARP_SIZE
        if not 0 <= warp_index < warps:
            rules.WARP.fail(given=warp_index, warps=warps, last=warps - 1)
        with self._control.if_((self.warp_id() == warp_index) & self.elect()):
            yield

    def coming_to(self, barrier: Value) -> int:
        """The most threads here that certainly come to one barrier, whose number is `barrier`; 0 where not known."""
        here = self._k.execution.here()
        if isinstance(barrier.constant, int):
            return 0 if here is None else here.count or 0
        return max(Counter(self._k.execution.numbers_here(barrier.ir).values()).values(), default=0)

    def griddepcontrol(self, action: str) -> None:
        """griddepcontrol: "wait" for the grids before this one, or "launch_dependents" of it.

        Raises instruction.variant, target.feature. PTX ISA 9.7.13.13.
        """
        issue(self._k, variant("griddepcontrol", sync.griddepcontrol, action))

    def nanosleep(self, nanoseconds: Operand) -> None:
        """nanosleep: suspend the thread for 0 to twice `nanoseconds`, which is at most 1,000,000 (nanosleep.range)."""
        issue(self._k, sync.nanosleep(), nanoseconds=nanoseconds)
