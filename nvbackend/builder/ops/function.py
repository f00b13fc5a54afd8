"""The calls of one function: control flow, values and memory on `k`, machine operations by noun."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from llvmlite import ir

from nvbackend.builder.core.assumptions import assume
from nvbackend.builder.core.control import Control
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import Given, generic_address
from nvbackend.builder.core.memory import Address, Memory
from nvbackend.builder.core.noun import delete_attribute, get_missing, set_attribute
from nvbackend.builder.core.threads import Threads
from nvbackend.builder.core.tile import SharedTile, SharedTiles, lay_out_tiles
from nvbackend.builder.core.variables import Several, Variable, make_variable, select
from nvbackend.builder.lower.conversions import Number
from nvbackend.builder.lower.lowering import Operands
from nvbackend.builder.ops.copy.tma import Tma
from nvbackend.builder.ops.groups import Groups
from nvbackend.builder.ops.math.functions import Math
from nvbackend.builder.ops.nouns import LateNouns
from nvbackend.builder.ops.sync.barrier import Barrier
from nvbackend.builder.ops.sync.cluster import Cluster
from nvbackend.builder.ops.sync.fence import Fence
from nvbackend.builder.ops.sync.mbarrier import Mbarrier
from nvbackend.builder.ops.sync.setmaxnreg import SetMaxNReg
from nvbackend.builder.scopes.blocks import with_block
from nvbackend.builder.scopes.names import name_or
from nvbackend.builder.values.values import Operand, Value, constant
from nvbackend.diagnostics import caller_location, refuse_copy
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.isel.machine.function import MemoryTouch, Touch
from nvbackend.layout.descriptors.smem_layout import SmemLayout

if TYPE_CHECKING:
    from nvbackend.builder.core.local import Local
    from nvbackend.builder.ops.atomics import Atomic
    from nvbackend.builder.ops.constants import Constant
    from nvbackend.builder.ops.conversion import Convert
    from nvbackend.builder.ops.copy.async_store import AsyncStore
    from nvbackend.builder.ops.copy.bulk import Bulk
    from nvbackend.builder.ops.copy.cache import CacheControl
    from nvbackend.builder.ops.copy.cp_async import CpAsync
    from nvbackend.builder.ops.copy.multimem import Multimem
    from nvbackend.builder.ops.copy.tensormap import TensorMaps
    from nvbackend.builder.ops.cta import CtaWide
    from nvbackend.builder.ops.debug.debug import Debug
    from nvbackend.builder.ops.debug.places import SourceLocation
    from nvbackend.builder.ops.debug.static import StaticAssert
    from nvbackend.builder.ops.launch_control import LaunchControl
    from nvbackend.builder.ops.math.integer import IntegerOperations
    from nvbackend.builder.ops.math.packed import PackedOperations
    from nvbackend.builder.ops.matrix.mma import Mma
    from nvbackend.builder.ops.matrix.tcgen05 import Tcgen05
    from nvbackend.builder.ops.matrix.wgmma import Wgmma
    from nvbackend.builder.ops.matrix.wmma import Wmma
    from nvbackend.builder.ops.warp import Warp

Made = TypeVar("Made")
"""A variable of several values."""


class FunctionBuilder:
    """What every builder has: the calls on `k`, and one object for each noun of the PTX ISA."""

    atomic: Atomic
    _debug: Debug
    static_assert: StaticAssert
    location: SourceLocation
    bulk: Bulk
    tensormap: TensorMaps
    cp_async: CpAsync
    async_store: AsyncStore
    cache: CacheControl
    local: Local
    constant: Constant
    launch_control: LaunchControl
    mma: Mma
    wmma: Wmma
    wgmma: Wgmma
    tcgen05: Tcgen05
    convert: Convert
    integer: IntegerOperations
    packed: PackedOperations
    multimem: Multimem
    warp: Warp
    cta: CtaWide
    _cluster_type: type[Cluster] = Cluster

    def __init__(self, core: Core) -> None:
        self.core = self._k = core
        self.name, self.target = core.name, core.target
        self.function, self.machine = core.function, core.machine
        self.llvm: ir.IRBuilder = core.llvm
        self.threads, self.cluster_size = core.threads, core.cluster_size
        self.control, self.memory = Control(core), Memory(core)
        self._threads = Threads(core, self.control)
        self.barrier = Barrier(core, self._threads)
        self.fence, self.setmaxnreg, self.math = Fence(core), SetMaxNReg(core), Math(core)
        self.groups = Groups(core, self.memory, self._threads, self.barrier)
        self._late = LateNouns(core, self.control, self.memory, self._threads, self.barrier, self.groups)
        reduce = self._late.reduce_in_cluster
        self.cluster = self._cluster_type(core, self.memory, self._threads, self.barrier, reduce)
        self._late.cluster = self.cluster
        self.mbarrier = Mbarrier(core, self.control, self.memory, self._threads, self.barrier, self.cluster, self.fence)
        self.tma = Tma(core, self.control, self._threads, self.cluster)

    # -- control flow -----------------------------------------------------------------------------------------------

    @overload
    def var(self, initial: Operand, element: ElementType | None = None, name: str | None = None) -> Variable: ...

    @overload
    def var(self, initial: Several[Made], element: None = None, name: str | None = None) -> Made: ...

    def var(self, initial: Any, element: ElementType | None = None, name: str | None = None) -> Any:
        """A mutable variable, set to `initial`. It lives in the with-block that makes it, and in the blocks inside.

        Its name is that of the Python variable it is assigned to, unless `name` is given. Of a value for each row of a
        tile, `acc.rows(...)`, it is a variable for each.
        """
        own = name_or(name, "var", "var")
        if isinstance(initial, Several):
            return initial.variable(own)
        return make_variable(self.core, initial, element, name=own)

    def if_(self, condition: Operand) -> AbstractContextManager[None]:
        """Run the block where `condition` (a predicate) holds. `k.else_()` may follow."""
        return self.control.if_(condition)

    def else_(self) -> AbstractContextManager[None]:
        """Run the block in the threads that the if_ block just above left out."""
        return self.control.else_()

    def range(
        self,
        start: Operand,
        stop: Operand | None = None,
        step: Operand = 1,
        *,
        name: str = "i",
        unroll: int | bool | None = None,
    ) -> AbstractContextManager[Value]:
        """Count from `start` (0 where only one bound is given) up to but not including `stop`, by a positive `step`.

        A step known at build time is checked (control.step); a run-time one must be positive. `unroll` is a number of
        copies of the body, True for all rounds, which must be known then, or False for one copy, by LLVM and ptxas;
        None leaves it to ptxas (control.unroll; a warning llvm.not-unrolled where LLVM could not).
        """
        return self.control.range(start, stop, step, name=name, unroll=unroll)

    def loop(self) -> AbstractContextManager[None]:
        """Repeat until break_if, break_ or return_ leaves."""
        return self.control.loop()

    def break_(self) -> None:
        """Leave the innermost loop."""
        self.control.break_()

    def continue_(self) -> None:
        """Continue with the next round of the innermost loop."""
        self.control.continue_()

    def return_(self) -> None:
        """End the kernel for the threads that reach this line."""
        self.control.return_()

    def break_if(self, condition: Operand) -> None:
        """Leave the innermost loop where `condition` holds."""
        self.control.break_if(condition)

    def continue_if(self, condition: Operand) -> None:
        """Continue with the next round of the innermost loop where `condition` holds."""
        self.control.continue_if(condition)

    def return_if(self, condition: Operand) -> None:
        """End the kernel for the threads where `condition` holds."""
        self.control.return_if(condition)

    def assume(self, condition: Operand) -> None:
        """Promise that `condition` (a predicate) holds in every thread that comes here; no instruction checks it.

        LLVM compiles for it, the dry run chooses no parameters that contradict it, and the simulator compares arguments
        with it (launch.assumed). Each launch compares what annotations assert: nvb.i32(minimum=1).
        """
        self.core.assumed = self.core.assumed or caller_location()
        assume(self.core, condition)

    # -- values -----------------------------------------------------------------------------------------------------

    def const(self, number: Number, element: ElementType) -> Value:
        """`number` as a value of `element` (value.constant where it does not fit)."""
        return constant(self.core, number, element)

    def select(self, condition: Operand, yes: Operand, no: Operand) -> Value:
        """`yes` where the predicate holds, else `no`; both are evaluated."""
        return select(self.core, condition, yes, no)

    # -- memory -----------------------------------------------------------------------------------------------------

    def shared(self, element: ElementType, count: int, *, align: int = 16, name: str | None = None) -> Address:
        """`count` elements of the CTA's dynamic shared memory, at a multiple of `align` bytes.

        Raises shared.size if the kernel needs more than a CTA can have on the target, shared.alignment above 1024
        bytes, and shared.extent.
        """
        return self.memory.shared(element, count, align=align, name=name)

    def shared_static(self, element: ElementType, count: int, *, align: int = 16, name: str = "static") -> Address:
        """`count` elements of statically allocated shared memory, at a multiple of `align` bytes.

        Raises shared.static-size above the limit for static memory (48 KB in all, except on `a` targets), shared.size
        if static and dynamic memory together are more than the target has, and shared.extent.
        """
        return self.memory.shared_static(element, count, align=align, name=name)

    def shared_tiles(self, layout: SmemLayout, count: int = 1, *, name: str | None = None) -> SharedTiles:
        """`count` tiles of `layout` in dynamic shared memory, aligned to the swizzle period and for TMA."""
        return lay_out_tiles(self.memory, layout, count, name_or(name, "shared_tiles", "tile"))

    def shared_tile(self, layout: SmemLayout, *, name: str | None = None) -> SharedTile:
        """One tile of `layout` in dynamic shared memory."""
        return lay_out_tiles(self.memory, layout, 1, name_or(name, "shared_tile", "tile")).at(0)

    def global_address(self, pointer: ir.Value, element: ElementType, align: int, *, const: bool = False) -> Address:
        """An address of global memory from an LLVM pointer in address space 1 (memory.pointer for anything else).

        `const` promises what it does for a `Pointer`.
        """
        return self.memory.global_address(pointer, element, align, const=const)

    def shared_address(self, address: Value, element: ElementType, align: int, *, window: str | None = None) -> Address:
        """An address of shared memory from its 32-bit number.

        A number from `k.cluster.map_to_peer` is an address in another CTA. In a cluster, a number of unknown origin
        (loaded, or an argument) needs a `window`: "cluster" reaches every CTA, "cta" only this one. Raises
        cluster.window, cluster.peer-address for a peer's address with "cta", cluster.no-peer for "cluster" without a
        cluster, instruction.variant for another window, memory.misaligned for an invalid alignment.
        """
        return self.memory.shared_address(address, element, align, window=window)

    def generic_address(self, address: Address) -> Value:
        """The generic address (u64) of `address`, which instructions without a state space take. PTX ISA 6.4.1.1."""
        return generic_address(self.core, address)

    # -- threads ----------------------------------------------------------------------------------------------------

    def special_register(self, name: str) -> Value:
        """A special register by its PTX name without the percent sign, such as "tid.x".

        Its type is s32, s64 for a register of 64 bits, or a predicate. Raises register.name for an unknown name.
        """
        return self._threads.special_register(name)

    def thread_id(self, axis: str = "x") -> Value:
        """The thread's index in its CTA along `axis`, x, y or z; or, of "linear", its number: x + y * X + z * X * Y.

        X and Y are the CTA's extents. Warps are made of 32 consecutive numbers. Raises instruction.variant.
        """
        return self._threads.thread_id(axis)

    def block_id(self, axis: str = "x") -> Value:
        """The CTA's index in the grid along `axis`, x, y or z (instruction.variant)."""
        return self._threads.block_id(axis)

    def block_count(self, axis: str = "x") -> Value:
        """How many CTAs the grid has along `axis`, x, y or z (instruction.variant)."""
        return self._threads.block_count(axis)

    def lane_id(self) -> Value:
        """The thread's index in its warp."""
        return self._threads.lane_id()

    def warp_id(self) -> Value:
        """The warp's index in its CTA, in a form that the compiler knows to be uniform in the warp.

        A single lane may call it.
        """
        return self._threads.warp_id()

    def warpgroup_id(self) -> Value:
        """The warpgroup's index in its CTA, likewise uniform."""
        return self._threads.warpgroup_id()

    def uniform(self, value: Value) -> Value:
        """Lane 0's `value` (32-bit) in every lane, so that the compiler can keep it in uniform registers."""
        return self._threads.uniform(value)

    def elect(self) -> Value:
        """A predicate that holds in one lane of the warp (elect.sync); the whole warp executes it."""
        return self._threads.elect()

    def one_thread(self, warp_index: int = 0) -> AbstractContextManager[None]:
        """Run the block in one elected thread of the CTA's warp `warp_index`.

        Inside, a call that a whole warp must execute raises control.one-thread. In a block of other warps name one of
        them: after `k.if_(k.warpgroup_id() == 1)` it is `k.one_thread(4)`. Raises kernel.warp if the CTA has no such
        warp, control.other-warp if it does not come here.
        """
        return self._threads.one_thread(warp_index)

    def griddepcontrol(self, action: str) -> None:
        """griddepcontrol: "wait" for the grids before this one, or "launch_dependents" of it.

        A kernel that waits may start before the earlier grids on its stream have ended, as soon as they allow it. Only
        after the wait may it read what they write, and write what they use.
        Raises instruction.variant, target.feature. PTX ISA 9.7.13.13.
        """
        self._threads.griddepcontrol(action)

    def nanosleep(self, nanoseconds: Operand) -> None:
        """nanosleep: suspend the thread for up to twice `nanoseconds`, at most 1,000,000 (nanosleep.range)."""
        self._threads.nanosleep(nanoseconds)

    # -- debugging --------------------------------------------------------------------------------------------------

    def print(self, text: str, *values: object, when: Operand | None = None, end: str = "\n") -> None:
        """Print `text` with `values` in place of its `{}`, in each thread that comes here and where `when` holds.

        `k.print("row {} is {:.3f}", row, x, when=k.thread_id() == 0)`: forms are Python's: `{:8.3f}`, `{:#x}`, `{1}`.
        Values are of any element type, addresses, or Python's numbers and strings; a negative integer in hexadecimal
        shows its bits. On a GPU the driver prints it when the stream is synchronised, the first megabyte of a launch;
        in the simulator it goes to `sys.stdout` at once. `debug=False` of the build removes it. Raises debug.format,
        debug.value. CUDA C++ Programming Guide, Formatted Output.
        """
        self._debug.print(text, values, when, end)

    def assert_(self, condition: Operand, text: str = "", *values: object) -> None:
        """End the launch if `condition` (a predicate) does not hold, with `text`, at most 8 `values` and the line.

        The call that synchronises raises launch.assertion, with the kernel, this line, the thread and the values.
        On a GPU the process's CUDA context is lost by then, with all of its memory: the driver ends it. `debug=False`
        of the build removes it. Raises debug.format, debug.value. CUDA C++ Programming Guide, Assertion.
        """
        self._debug.check(condition, text, values)

    def trap(self, text: str = "", *values: object) -> None:
        """End the launch for every thread that comes here: `assert_` without a condition, by trap (PTX ISA 9.7.19.4).

        `debug=False` of the build removes it.
        """
        self._debug.trap(text, values)

    def breakpoint(self) -> None:
        """Stop in cuda-gdb (brkpt, PTX ISA 9.7.19.1); without a debugger the launch ends with an error.

        `debug=False` of the build removes it.
        """
        self._debug.breakpoint()

    def clock(self, register: str = "clock64") -> Value:
        """The SM's cycle counter, "clock64" (s64) or its low half "clock" (s32), or nanoseconds, "globaltimer" (s64).

        With `debug=False` of the build it is the constant 0; `k.special_register("clock64")` stays. Raises
        instruction.variant for another name. PTX ISA 10 (%clock64, %globaltimer).
        """
        return self._debug.clock(register)

    @with_block
    def allow(self, *rules: str, reason: str = "") -> Iterator[None]:
        """Suppress what `rules` report about the instructions in the block; `reason` is shown in the report.

        Only rules of the protocols, which follow what a kernel does, can be allowed (allow.legality). Raises
        allow.unknown too; an allowance of nothing is the warning allow.unused. For the whole kernel write
        `nvb.kernel(..., allow={"id": "reason"})`.
        """
        begun = self.core.allowances.begin(rules, reason)
        try:
            yield
        finally:
            self.core.allowances.end(begun)

    # -- any other instruction --------------------------------------------------------------------------------------

    def emit(
        self,
        row: Row,
        operands: Operands,
        *,
        touches: Sequence[Touch] = (),
        memory: Sequence[MemoryTouch] = (),
        words: dict[str, int] | None = None,
        facts: dict[str, int] | None = None,
        extents: Mapping[str, int] | None = None,
        name: str = "",
    ) -> dict[str, list[ir.Value]]:
        """Emit one machine instruction: check it against the target, lower it, record it. Returns outputs by name.

        `extents` are the bytes that it accesses at the shared address in an operand, where the row does not say.
        Raises the diagnostics of the row's gate, with the actual target, before anything is emitted.
        """
        return self.core.emit(
            row, operands, touches=touches, memory=memory, words=words, facts=facts, extents=extents, name=name
        )

    def __repr__(self) -> str:
        return f"<builder of {self.machine!r}, {self.threads} threads>"

    def instruction(self, row: Row, **operands: Given | Sequence[Given]) -> dict[str, list[Value]]:
        """Emit `row` with `operands` by name, one value for each register; returns its outputs by name.

        Integers are unsigned registers (u16, u32, u64), whatever the type is called in PTX; immediates are Python
        integers. An Address is given in the state space that the row wants. Raises instruction.operands for other names
        or another number of registers, value.type for other types, row.text and row.semantics where the row's text does
        what the row does not say, ptx.syntax, ptxas.error, and whatever keeps the row from the target.
        """
        from nvbackend.builder.ops.inline.own_row import emit_judged  # with the parser of PTX, which few kernels need

        return emit_judged(self.core, row, operands)

    def ptx(
        self,
        text: str,
        *,
        outputs: Mapping[str, ElementType] | None = None,
        inputs: Mapping[str, Operand | Address] | None = None,
        effects: Sequence[str] = (),
        clobbers: Sequence[str] = (),
    ) -> Any:
        """A statement of PTX, judged as a row is: `k.ptx("neg.f32 {d}, {a};", outputs={"d": f32}, inputs={"a": x})`.

        Braces of PTX are doubled. Outputs are named with their types; inputs are values, addresses and integers, which
        are written out. A name in both is one register. Returns the output, several as a tuple in their order.
        `effects` says what it does beside that: "reads p" and "writes p" memory at the address p, "reads" and "writes"
        any other memory that is not shared, "convergent", and "volatile" for one that must stay; `clobbers=("memory",)`
        keeps other accesses from moving across it. ptxas assembles the text for the target when it is first used, where
        one is installed. Raises ptx.operand, ptx.effects, ptx.instruction for protocols and control flow, which have
        calls of their own, ptx.syntax, ptx.undeclared and ptxas.error.
        """
        from nvbackend.builder.ops.inline.statement import emit_ptx

        return emit_ptx(self.core, text, outputs or {}, inputs or {}, effects, clobbers)

    def value(self, value: ir.Value, element: ElementType) -> Value:
        """An llvmlite value of the function, made with `k.llvm`, as a value of this builder; `Value.ir` goes back.

        Its owner must use it only where it is defined. What it is computed of is not judged. Raises value.llvm-type
        where its LLVM type is not that of `element`, value.kernel for another function's.
        """
        from nvbackend.builder.ops.inline.statement import from_llvm

        return from_llvm(self.core, value, element)

    if not TYPE_CHECKING:  # it would make a type checker accept every name
        __getattr__, __setattr__, __delattr__, __reduce_ex__ = get_missing, set_attribute, delete_attribute, refuse_copy
