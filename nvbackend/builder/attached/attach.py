"""For a compiler that has an llvmlite function of its own: the same calls, emitted at its IRBuilder's position."""

from __future__ import annotations

from copy import copy

from llvmlite import ir

from nvbackend.builder.attached.owned_code import FollowingBuilder, is_transparent, late_code, wrong_ends
from nvbackend.builder.core.core import Core
from nvbackend.builder.kernel.bounds import checked_bounds
from nvbackend.builder.kernel.operations import Operations
from nvbackend.builder.kernel.owners import AGAIN, BASE, builder_of, claim, is_kernel, owner_faults
from nvbackend.builder.ops.groups import of_whole_calls
from nvbackend.builder.scopes import rules
from nvbackend.builder.scopes.names import is_ptx_name, suggested_kernel_name
from nvbackend.diagnostics import Diagnostic, Rule, caller_location, raise_all, user_facing
from nvbackend.diagnostics.announce import announce
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.machine.unknown_threads import blocks_of_unknown_threads
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED
from nvbackend.isel.target.target import Target
from nvbackend.isel.verify.verify import verify
from nvbackend.signature import Extents, LaunchBounds, shape_of

LOWERINGS = ("intrinsic", "asm")
"""How instructions get into the IR for which LLVM has intrinsics: by these, or by inline asm as all others."""
LOWERING = Rule(
    id="attach.lowering",
    message="lowering={given!r} of an attached function",
    fix='leave it out, or pass "asm" where your LLVM or libNVVM does not have all intrinsics',
    why="Instructions are intrinsics or inline assembly in the IR.",
    reference="docs/embedding.md, Your own LLVM",
)
_LOCAL = ("internal", "private")
"""The linkage of functions that LLVM renames to fit PTX; names that others know it leaves as they are."""


class AttachedCore(Core):
    """The core of a function that has an owner: it emits at the position of the owner's IRBuilder."""

    def __init__(self, builder: ir.IRBuilder, target: Target, bounds: LaunchBounds, lowering: str) -> None:
        function = builder.function
        super().__init__(function.name, target, function, bounds=bounds, cached_storage=False)
        self.in_asm = lowering == LOWERINGS[1]
        self.llvm = self.following = FollowingBuilder(builder, super().check_live)
        self._latest: dict[str, ir.Value] = {}
        """The instruction before the IRBuilder's position when something was last recorded, by block."""

    def check_live(self) -> None:
        """As for any function; which threads reach a block of the owner's is unknown."""
        super().check_live()
        if self.llvm.block not in self.homes:
            self.execution.forget()

    def record(self, instruction: MachineInstr) -> None:
        """As for any function. Raises attach.order and attach.block."""
        self._check_order()
        super().record(instruction)

    def link(self, *, everywhere: bool = False) -> dict[ir.Value, ir.Value]:
        """As for any function."""
        replaced = super().link(everywhere=everywhere)
        self._latest = {name: replaced.get(value, value) for name, value in self._latest.items()}
        return replaced

    def _check_order(self) -> None:
        """Raises attach.order if the owner moved the IRBuilder before code that was already emitted in this block.

        Raises attach.block if it is after the end of a block, or in another function.
        """
        block, place = self.llvm.block, self.llvm._anchor
        if block.parent is not self.function:
            problem = f"it is one of {block.parent.name}, and this is the builder of {self.function.name}"
            rules.ATTACH_BLOCK.fail(block=block.name, problem=problem, advice="attach to each function by itself")
        if block.is_terminated and block.terminator in block.instructions[:place]:
            problem, advice = "the IRBuilder is after its end", "emit before the block is ended, or in another one"
            rules.ATTACH_BLOCK.fail(block=block.name, problem=problem, advice=advice)
        latest = self._latest.get(block.name)
        if latest is not None and latest not in block.instructions[:place]:
            rules.ATTACH_ORDER.fail(block=block.name)
        if place:
            self._latest[block.name] = block.instructions[place - 1]


@user_facing
class AttachedBuilder(Operations):
    """The builder's calls on somebody else's function.

    Instructions go to the position of the llvmlite IRBuilder at each call, so blocks and branches may be its owner's.
    They get its `debug_metadata`: lines are those of the owner's program. Values come in through `value` and go out
    through `Value.ir`. `verify` checks the machine form of what was emitted here, along the function's control flow.
    """

    def __init__(
        self,
        builder: ir.IRBuilder,
        target: str | Target,
        *,
        threads: Extents,
        cluster: Extents = 1,
        shared_base: int | None = None,
        lowering: str = LOWERINGS[0],
    ) -> None:
        if lowering not in LOWERINGS:
            LOWERING.fail(given=lowering)
        if not isinstance(builder, ir.IRBuilder) or builder.block is None:
            rules.ATTACH_PLACE.fail(given=builder)
        function, parsed = builder.function, Target.parse(target)
        bounds, self._warnings = checked_bounds(parsed, threads, cluster)
        if shared_base is not None and (type(shared_base) is not int or shared_base < 0):
            BASE.fail(given=shared_base)
        if function.linkage not in _LOCAL and not is_ptx_name(function.name):
            rules.KERNEL_NAME.fail(given=function.name, suggested=suggested_kernel_name(function.name))
        core = AttachedCore(builder, parsed, bounds, lowering)
        super().__init__(core)
        claim(function, self)
        self._following = core.following
        core.attached = caller_location()
        self.memory.declares_base = shared_base is not None
        self.memory.start = self.memory.end = shared_base or 0
        self.machine.attributes.update(attached=True)
        entry = function.entry_basic_block
        self._knows_threads = builder.block is entry
        core.is_shaped = not isinstance(threads, int)
        core.execution.start(bounds, entered=self._knows_threads, shaped=core.is_shaped)
        if self._knows_threads:
            self.core.homes[entry] = self.core.regions[0]
            self.core.execution.enter(self.machine.block(entry.name))

    @property
    def shared_bytes(self) -> int:
        """Bytes of dynamic shared memory that the calls so far need, with those up to `shared_base`."""
        return self.memory.end

    def verify(self) -> tuple[Diagnostic, ...]:
        """Check everything emitted, once all blocks of the function end (attach.block). Raises all errors.

        If the owner's code only computes, branches and accesses memory that is not shared, the kernel is judged as one
        of KernelBuilder. Raises attach.shared too, where a caller, a callee or an array `extern .shared` has the same
        shared memory, shared.size with the owner's static arrays, and attach.threads. Returns the warnings.
        """
        self.core.check_blocks()
        raise_all([*wrong_ends(self.function), *late_code(self.function)])
        self.core.link()
        of_calls = [*owner_faults(self), *self.core.peers.faults(), *self.groups.faults()]
        faults = [*self._warnings, *of_calls, *verify(self._judged())]
        allowed = self.core.allowances
        warnings = (*raise_all(of_whole_calls(self.core, allowed.kept(faults))), *allowed.unused())
        announce(warnings, allowed.suppressed)
        return warnings

    def _judged(self) -> MachineFunction:
        """The machine form, without the facts about threads that the owner's code may invalidate."""
        emitted = self._following.emitted
        whole = self._knows_threads and not self.memory.declares_base and is_kernel(self.function)
        machine = copy(self.machine)
        machine.kept = None
        if whole and is_transparent(self.function, emitted, self.core.homes):
            machine.attributes = {**self.machine.attributes, ATTACHED: False}
        else:
            machine.blocks = blocks_of_unknown_threads(self.machine)
        machine.values = self.machine.values
        return machine


@user_facing
def attach(
    builder: ir.IRBuilder,
    target: str | Target,
    *,
    threads: Extents,
    cluster: Extents = 1,
    shared_base: int | None = None,
    lowering: str = LOWERINGS[0],
) -> AttachedBuilder:
    """The calls of nvbackend at the place of `builder`, an llvmlite IRBuilder.

    A function has one; attaching again with the same IRBuilder returns it. Its dynamic shared memory begins at byte
    `shared_base`, after the shared memory of its callers and owner. Without that it begins at 0, and `verify` refuses
    anything else there. `lowering="asm"` is for an LLVM or libNVVM of its own that lacks the intrinsics of some
    instructions: all are inline assembly then, of which ptxas makes the same. Raises target.unknown, kernel.name,
    kernel.bounds, cluster.size, cluster.target, attach.place, attach.again, attach.lowering and attach.shared-base.
    """
    earlier = builder_of(builder.function) if isinstance(builder, ir.IRBuilder) and builder.block else None
    if earlier is None:
        return AttachedBuilder(builder, target, threads=threads, cluster=cluster, shared_base=shared_base, lowering=lowering)
    if not isinstance(earlier, AttachedBuilder):
        AGAIN.fail(function=earlier.name, problem="that is a KernelBuilder, whose calls are these")
    facts = {
        "another IRBuilder": builder is earlier._following.owner,
        "another target": Target.parse(target) == earlier.target,
        "another number of threads": shape_of(threads) == earlier.core.bounds.shape,
        "another cluster": shape_of(cluster) == earlier.core.bounds.cluster_shape,
        "another shared_base": (shared_base or 0) == earlier.memory.start,
        "another lowering": (lowering == LOWERINGS[1]) == earlier.core.in_asm,
    }
    for what, is_same in facts.items():
        if not is_same:
            AGAIN.fail(function=earlier.name, problem=f"this asks for one with {what}")
    return earlier
