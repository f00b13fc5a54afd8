"""What the verifier judges of an attached function, and what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import partial

from llvmlite import ir

from nvbackend.builder.attached.core import AttachedCore, Owned
from nvbackend.builder.attached.foreign import Foreign, foreign
from nvbackend.builder.attached.owned_code import computes, homes_are_left_alone, is_harmless, late_code
from nvbackend.builder.attached.whole import Whole, cut, merged
from nvbackend.builder.kernel.owners import bounds_faults, is_kernel, shared_faults
from nvbackend.diagnostics import Diagnostic, raise_all
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.machine.unknown_threads import blocks_of_unknown_threads
from nvbackend.isel.protocols.mbarrier.uses import ATTACHED
from nvbackend.isel.verify.verify import INSTRUCTION_CHECKS, verify

_LEFT_OUT = "races, refills, reads without a wait, arrivals of mbarriers, groups of other threads, indices by thread"
"""What is judged only where all accesses, barriers and threads are known."""
_FREED, _WRITTEN = "tcgen05.missing-dealloc", "tcgen05.undefined-accumulator"
"""Rules about what nothing in a function does: the part that is not known may do it."""
_POOL = "setmaxnreg.pool"
"""How many warpgroups come somewhere: they may part by the result of the owner's assembly."""


def whole_of(k: Owned) -> Whole:
    """The linked machine form of the function, with what the owner's own calls are."""
    return merged(k.function, k.machine.blocks, k.core.after, partial(_said, k.core))


def _said(core: AttachedCore, instruction: ir.Instruction) -> Foreign | None:
    """What an instruction of the owner's is; None for what the builder emitted, and for what is not a call."""
    if instruction in core.following.emitted or not isinstance(instruction, ir.CallInstr):
        return None
    return foreign(core, instruction, computes)


def faults_of(k: Owned, whole: Whole) -> Iterator[Diagnostic]:
    """What is wrong with the function."""
    machine = copy(k.machine)
    machine.kept = None
    machine.blocks, after = cut(whole.blocks, whole.stops)
    if can_be_kernel(k) and whole.is_known and not list(_hidden(k)):
        machine.attributes = {**k.machine.attributes, ATTACHED: False}
    else:
        machine.blocks = blocks_of_unknown_threads(machine)
    machine.values = k.machine.values
    yield from _verified(machine, after, whole)


def _verified(
    machine: MachineFunction, after: list[MachineInstr], whole: Whole, *, is_part: bool = False
) -> Iterator[Diagnostic]:
    """What is wrong, with the single instructions of what may come `after` it.

    What a function lacks of which this `is_part` may be in the rest.
    """
    lacking = frozenset({_FREED} if is_part or whole.stops else ())
    lacking |= frozenset({_WRITTEN} if lacking or whole.multiplies else ())
    lacking |= frozenset({_POOL} if whole.hides else ())
    yield from (each for each in verify(machine) if each.rule_id not in lacking)
    for instruction in after:
        for check in INSTRUCTION_CHECKS:
            yield from check(instruction, machine.target)


def can_be_kernel(k: Owned) -> bool:
    """Whether it is a kernel that begins where the builder was attached, so that all its threads come there."""
    return k.core.knows_threads and not k.memory.declares_base and is_kernel(k.function)


def _hidden(k: Owned) -> Iterator[ir.Instruction]:
    """Instructions of the owner's, other than calls, that matter to the protocols."""
    emitted, homes = k.core.following.emitted, k.core.homes.keys()
    for block in k.function.blocks:
        for instruction in block.instructions:
            if instruction in emitted:
                continue
            if isinstance(instruction, ir.CallInstr):
                if _is_memory_call(instruction):
                    yield instruction
            elif not is_harmless(instruction) or not homes_are_left_alone(instruction, homes):
                yield instruction


def _is_memory_call(call: ir.CallInstr) -> bool:
    return str(getattr(call.callee, "name", "")).startswith("llvm.mem")


def not_judged(k: Owned, whole: Whole) -> tuple[str, ...]:
    """What was left out, in sentences."""
    sentences = [
        f"what runs after {what}{f' ({place})' if place else ''}, along the control flow"
        for what, place in dict.fromkeys(whole.unknown)
    ]
    sentences += [f"whether {text} is PTX, before ptxas assembles it" for text in dict.fromkeys(whole.unassembled)]
    if whole.hides or whole.unknown or list(_hidden(k)):
        sentences.append(f"{_LEFT_OUT}: the owner's own code may access shared memory or order threads")
    elif not can_be_kernel(k):
        sentences.append(f"{_LEFT_OUT}: which threads come to the function is not known")
    elif any(block not in k.core.homes for block in k.function.blocks):
        sentences.append("which threads come to the blocks that the owner made, and what depends on it there")
    return (*sentences, "registers of a thread against the launch bounds; what a dry run of the kernel would show")


def verified_so_far(k: Owned) -> tuple[Diagnostic, ...]:
    """Every error of a function that is not complete, raised together; the warnings."""
    k.core.check_whole()
    machine = copy(k.machine)
    machine.kept = None
    whole = merged(k.function, k.core.blocks_so_far(), k.core.after, partial(_said, k.core))
    machine.blocks, after = cut(whole.blocks, whole.stops, k.core.open_blocks())
    machine.blocks = blocks_of_unknown_threads(machine)
    of_module = [*shared_faults(k), *bounds_faults(k)]
    faults = [*late_code(k.function), *of_module, *_verified(machine, after, whole, is_part=True)]
    return raise_all(k.core.allowances.kept(faults))
