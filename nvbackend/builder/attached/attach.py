"""For a compiler that has an llvmlite function of its own: the same calls, emitted at its IRBuilder's position."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING

from llvmlite import ir

from nvbackend.builder.attached.arguments import check_arguments, received
from nvbackend.builder.attached.core import AttachedCore, Verified
from nvbackend.builder.attached.finished import finished_kernel, text_of
from nvbackend.builder.attached.judged import faults_of, not_judged, verified_so_far, whole_of
from nvbackend.builder.attached.owned_code import late_code, wrong_ends
from nvbackend.builder.kernel.bounds import checked_bounds
from nvbackend.builder.kernel.kernel import FinishedKernel
from nvbackend.builder.kernel.operations import Operations
from nvbackend.builder.kernel.owners import AGAIN, BASE, LOCAL, builder_of, claim, owner_faults
from nvbackend.builder.ops.groups import of_whole_calls
from nvbackend.builder.scopes import rules
from nvbackend.builder.scopes.names import is_ptx_name, suggested_kernel_name
from nvbackend.diagnostics import Diagnostic, Rule, caller_location, raise_all, user_facing
from nvbackend.diagnostics.announce import announce
from nvbackend.isel.target.target import Target
from nvbackend.signature import Extents, Parameter, shape_of

if TYPE_CHECKING:
    from nvbackend.builder.core.memory import Address
    from nvbackend.builder.core.parameters import TensorMapParameter
    from nvbackend.builder.values.values import Value

LOWERINGS = ("intrinsic", "asm")
"""How instructions get into the IR for which LLVM has intrinsics: by these, or by inline asm as all others."""
LOWERING = Rule(
    id="attach.lowering",
    message="lowering={given!r} is not a lowering of an attached function",
    fix='leave it out, or pass "asm" where your LLVM or libNVVM does not have all intrinsics',
    why="Instructions are intrinsics or inline assembly in the IR.",
    reference="docs/embedding.md, Your own LLVM",
)


@user_facing
class AttachedBuilder(Operations):
    """The builder's calls on somebody else's function.

    Instructions go to the position of the llvmlite IRBuilder at each call, so blocks and branches may be its owner's.
    They get its `debug_metadata`: lines are those of the owner's program. Values come in through `value` and go out
    through `Value.ir`. `verify` checks the machine form of what was emitted here, along the function's control flow;
    what the owner's own intrinsics and inline assembly do is known where the catalogue has them, and `unknown` says
    what was not judged. `finish` gives a kernel, as KernelBuilder does. `arguments` are the kernel's `parameters`.
    """

    core: AttachedCore
    unknown: tuple[str, ...]
    """What the last `verify` did not judge, in sentences."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        target: str | Target,
        *,
        threads: Extents,
        cluster: Extents = 1,
        shared_base: int | None = None,
        lowering: str = LOWERINGS[0],
        parameters: Sequence[Parameter] = (),
    ) -> None:
        if lowering not in LOWERINGS:
            LOWERING.fail(given=lowering)
        if not isinstance(builder, ir.IRBuilder) or builder.block is None:
            rules.ATTACH_PLACE.fail(given=builder)
        function, parsed = builder.function, Target.parse(target)
        bounds, self._warnings = checked_bounds(parsed, threads, cluster)
        if shared_base is not None and (type(shared_base) is not int or shared_base < 0):
            BASE.fail(given=shared_base)
        if function.linkage not in LOCAL and not is_ptx_name(function.name):
            rules.KERNEL_NAME.fail(given=function.name, suggested=suggested_kernel_name(function.name))
        check_arguments(function, parameters)
        core = AttachedCore(builder, parsed, bounds, in_asm=lowering == LOWERINGS[1])
        super().__init__(core)
        claim(function, self)
        self._following = core.following
        core.attached = caller_location()
        self.memory.declares_base = shared_base is not None
        self.memory.start = self.memory.end = shared_base or 0
        self.machine.attributes.update(attached=True)
        entry = function.entry_basic_block
        self.core.knows_threads = builder.block is entry
        core.is_shaped = not isinstance(threads, int)
        core.execution.start(bounds, entered=self.core.knows_threads, shaped=core.is_shaped)
        if self.core.knows_threads:
            self.core.homes[entry] = self.core.regions[0]
            self.core.execution.enter(self.machine.block(entry.name))

        self.core.parameters = tuple(parameters)
        self._arguments = received(self, parameters)
        self.unknown = ()

    @property
    def arguments(self) -> list[Value | Address | TensorMapParameter]:
        """The function's parameters in their order, as the calls take them: values, addresses and tensor maps."""
        return self._arguments

    @property
    def shared_bytes(self) -> int:
        """Bytes of dynamic shared memory that the calls so far need, with those up to `shared_base`."""
        return self.memory.end

    def verify(self, *, partial: bool = False) -> tuple[Diagnostic, ...]:
        """Check everything emitted, once all blocks of the function end (attach.block). Raises all errors.

        If the owner's code only computes, branches, accesses memory that is not shared and calls what the catalogue
        has, the kernel is judged as one of KernelBuilder. Where the owner executes something unknown, nothing is said
        of what comes after it; `unknown` lists it. Raises attach.shared too, where a caller, a callee or an array
        `extern .shared` has the same shared memory, shared.size with the owner's static arrays, and attach.threads.
        Returns the warnings.

        With `partial`, inside a lowering, blocks and with-blocks may be open: each instruction is checked, and what is
        certain of the code so far, whatever comes.
        """
        if partial:
            return verified_so_far(self)
        self.core.verified = None
        started = time.perf_counter()
        self.core.check_blocks()
        raise_all([*wrong_ends(self.function), *late_code(self.function)])
        self.core.link()
        of_calls = [*owner_faults(self), *self.core.peers.faults(), *self.groups.faults()]
        whole = whole_of(self)
        faults = [*self._warnings, *of_calls, *faults_of(self, whole)]
        allowed = self.core.allowances
        warnings = (*raise_all(of_whole_calls(self.core, allowed.kept(faults))), *allowed.unused())
        machine = copy(self.machine)
        machine.blocks = whole.blocks
        announce(warnings, allowed.suppressed)
        seconds = time.perf_counter() - started
        self.unknown = not_judged(self, whole)
        self.core.verified = Verified(text_of(self.function), machine, warnings, self.unknown, seconds)
        return warnings

    def finish(self) -> FinishedKernel:
        """The kernel, to be compiled: with its module's text, the bounds and `parameters` that it was attached with.

        The text is that of the whole module, with the bounds of all its attached kernels: several of one module
        compile together by `nvb.compile_module`. Raises attach.kernel, and attach.unverified where this or another
        attached function of the module was not verified, or has changed since.
        """
        return finished_kernel(self, self.core.verified)


@user_facing
def attach(
    builder: ir.IRBuilder,
    target: str | Target,
    *,
    threads: Extents,
    cluster: Extents = 1,
    shared_base: int | None = None,
    lowering: str = LOWERINGS[0],
    parameters: Sequence[Parameter] = (),
) -> AttachedBuilder:
    """A builder whose calls emit at the position of `builder`, an llvmlite IRBuilder.

    A function has one builder; attaching again with the same IRBuilder returns it. The function's dynamic shared memory
    begins at byte `shared_base`, after the shared memory of its callers and owner. By default it begins at 0, and
    `verify` refuses anything else there. `lowering="asm"` is for an LLVM or libNVVM that lacks the intrinsics of some
    instructions: then all instructions are inline assembly, from which ptxas makes the same code. `parameters` describe
    the function's arguments like those of a kernel, for `finish` and for the builder's `arguments`: integers and floats
    of their types, pointers to global memory (of address space 1, or generic), tensor maps by value (generic pointers).

    Raises target.unknown, kernel.name, kernel.bounds, cluster.size, cluster.target, attach.place, attach.again,
    attach.lowering, attach.parameters, attach.shared-base, kernel.parameter and kernel.parameter-fact.
    """
    if lowering not in LOWERINGS:
        LOWERING.fail(given=lowering)
    earlier = builder_of(builder.function) if isinstance(builder, ir.IRBuilder) and builder.block else None
    if earlier is None:
        return AttachedBuilder(
            builder,
            target,
            threads=threads,
            cluster=cluster,
            shared_base=shared_base,
            lowering=lowering,
            parameters=parameters,
        )
    if not isinstance(earlier, AttachedBuilder):
        AGAIN.fail(function=earlier.name, problem="that is a KernelBuilder, whose calls are these")
    facts = {
        "another IRBuilder": builder is earlier._following.owner,
        "another target": Target.parse(target) == earlier.target,
        "another number of threads": shape_of(threads) == earlier.core.bounds.shape,
        "another cluster": shape_of(cluster) == earlier.core.bounds.cluster_shape,
        "another shared_base": (shared_base or 0) == earlier.memory.start,
        "other parameters": not parameters or tuple(parameters) == earlier.core.parameters,
        "another lowering": (lowering == LOWERINGS[1]) == earlier.core.in_asm,
    }
    for what, is_same in facts.items():
        if not is_same:
            AGAIN.fail(function=earlier.name, problem=f"this asks for one with {what}")
    return earlier
