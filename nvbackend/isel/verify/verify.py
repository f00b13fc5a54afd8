"""The machine verifier: the second validation, on what was selected, against the exact target.

The gates of a row are checked here and, by the same functions, where the row is emitted. So nothing that the verifier
refuses is ever emitted, and LLVM is never asked for an instruction that it cannot select.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from nvbackend.diagnostics import Diagnostic, DiagnosticError, Location, Rule, raise_all, told_once, user_facing
from nvbackend.intrinsics.copy import tma_parts
from nvbackend.intrinsics.mma import mma, tcgen05, wmma
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Legal, Row
from nvbackend.isel.flow.finished import finished
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.machine.packed_words import decoder
from nvbackend.isel.machine.register_room import check_register_room
from nvbackend.isel.protocols.cluster.multicast_masks import check_multicast_masks
from nvbackend.isel.protocols.cluster.protocol import check_cluster_protocol
from nvbackend.isel.protocols.convergence.convergence import check_convergence
from nvbackend.isel.protocols.groups.threads import check_group_threads
from nvbackend.isel.protocols.mbarrier.protocol import check_mbarrier_protocol
from nvbackend.isel.protocols.proxy.protocol import check_proxy_protocol
from nvbackend.isel.protocols.proxy.refills import check_refills
from nvbackend.isel.protocols.proxy.unwaited_reads import check_unwaited_reads
from nvbackend.isel.protocols.registers.budget import check_register_budget
from nvbackend.isel.protocols.shared.bounds import check_shared_bounds
from nvbackend.isel.protocols.shared.descriptor_swizzle import check_swizzles
from nvbackend.isel.protocols.shared.races import check_shared_races
from nvbackend.isel.protocols.tcgen05.protocol import check_cta_groups, check_pairs
from nvbackend.isel.protocols.tmem.protocol import check_tmem_protocol
from nvbackend.isel.protocols.wgmma.protocol import check_wgmma_protocol
from nvbackend.isel.protocols.wgmma.rules import WAIT_RANGE
from nvbackend.isel.protocols.wgmma.state import MMA_ASYNC
from nvbackend.isel.protocols.wgmma.unwritten import check_unwritten
from nvbackend.isel.protocols.wmma.fragments import check_fragments, move_faults
from nvbackend.isel.select.memory_rules import PENDING_COPIES, PENDING_STORES
from nvbackend.isel.select.mma import request as mma_request
from nvbackend.isel.select.mma import rules as mma_rules
from nvbackend.isel.select.tcgen05 import request as tcgen05_request
from nvbackend.isel.select.tcgen05 import rules as tcgen05_rules
from nvbackend.isel.select.tma import request as tma_request
from nvbackend.isel.select.tma import rules as tma_rules
from nvbackend.isel.select.tma.place_rules import check_places
from nvbackend.isel.select.wgmma.request import request_of
from nvbackend.isel.select.wgmma.rules import GATES as WGMMA_GATES
from nvbackend.isel.select.wmma import rules as wmma_rules
from nvbackend.isel.target.gates import why_not
from nvbackend.isel.target.target import Target, dotted, target_names
from nvbackend.isel.verify.constant_faults import constant_faults, constants
from nvbackend.isel.verify.emulated import emulation_warnings
from nvbackend.isel.verify.register_counts import count_faults
from nvbackend.isel.verify.row_identity import row_faults
from nvbackend.isel.verify.tcgen05_words import word_faults

TARGET_FEATURE = Rule(
    id="target.feature",
    message="{instruction} needs {missing}, which {target} does not have",
    fix="compile for {targets}, or use an instruction that {target} has",
    why="LLVM ends the whole process where it cannot select an instruction, and ptxas refuses it.",
    reference="PTX ISA, Target ISA Notes of the instruction",
)
ROW_PTX_VERSION = Rule(
    id="target.row-ptx-version",
    message="{instruction} needs PTX {needed} or later; {target} is compiled with PTX {given}",
    fix="leave the PTX version of the target out, or give {needed} or later",
    why="LLVM ends the whole process, or ptxas refuses the instruction.",
    reference="PTX ISA, PTX ISA Notes of the instruction",
)
IMMEDIATE = Rule(
    id="machine.immediate",
    message="{instruction}: immediate {name} is {given}, and must be {legal}",
    fix="use {nearest}",
    why="The encoding cannot hold it: the value is cut off, or LLVM or ptxas stop without a place in the program.",
    reference="PTX ISA, the instruction's syntax",
)
SUCCESSOR = Rule(
    id="machine.successor",
    message="block {block} of {function} continues in {successor}, which the function does not have",
    fix="add the block {successor}, or take it from the successors",
    why="The analyses follow the control flow and cannot follow this one.",
    reference="nvbackend machine form",
)
RULES = (TARGET_FEATURE, ROW_PTX_VERSION, IMMEDIATE, SUCCESSOR)

Check = Callable[[MachineInstr, Target], Iterable[Diagnostic]]
Protocol = Callable[[MachineFunction], Iterable[Diagnostic]]


@user_facing
def verify(function: MachineFunction) -> list[Diagnostic]:
    """Everything that is wrong with `function`: its instructions in the order of the text, then its protocols.

    Diagnostics equal in every word and place (a line that the user's Python ran more than once) appear once. Never
    raises for the program's mistakes; `raise_all` does.
    """
    broken = list(_successors(function))
    if broken:
        return broken
    function = finished(function)
    found = list(_instruction_faults(function))
    for protocol in PROTOCOLS:
        found += protocol(function)
    return told_once(found)


def _instruction_faults(function: MachineFunction) -> Iterator[Diagnostic]:
    """What is wrong with each instruction by itself; of those that are alike and sound, one is checked.

    The row of a sound instruction must be the row of its axes, which is checked once for each row.
    """
    sound: set[tuple[object, ...]] = set()
    genuine: set[int] = set()
    for instr in function.instructions():
        alike = (
            *(instr.opcode, id(instr.row), *constants(instr), tuple(instr.registers.items())),
            *(tuple(instr.immediates.items()), tuple(instr.words.items()), tuple(instr.facts.items())),
        )
        if alike in sound:
            continue
        found = [diagnostic for check in INSTRUCTION_CHECKS for diagnostic in check(instr, function.target)]
        if not found and instr.row is not None and id(instr.row) not in genuine:
            found += row_faults(instr.row, instr.location)
        if not found:
            genuine.add(id(instr.row))
            sound.add(alike)
        yield from found


def check_row(row: Row, target: Target, immediates: Mapping[str, int]) -> None:
    """Raises whatever keeps `row` with these immediates from being emitted for `target`, at the caller's line."""
    if any(row_gates(row, target, immediates)):
        raise_all(gates(row, target, immediates))


def row_gates(
    row: Row, target: Target, immediates: Mapping[str, int], at: Location | None = None
) -> Iterator[Diagnostic]:
    """What `target` lacks for `row`, and which of the `immediates` it does not take."""
    if not target.has(row.requires):
        missing = row.requires & ~target.features
        yield TARGET_FEATURE.diagnose(
            at=at,
            instruction=row.ptx,
            target=target,
            missing=" and ".join(str(feature.name) for feature in missing),
            targets=targets_with(row.requires),
        )
    if row.ptx_version > target.ptx_version:
        yield ROW_PTX_VERSION.diagnose(
            at=at,
            instruction=row.ptx,
            needed=dotted(row.ptx_version),
            target=target,
            given=dotted(target.ptx_version),
        )
    for operand in row.immediates:
        given = immediates.get(operand.name)
        legal = operand.values or ()
        if given is not None and given not in legal:
            yield _immediate(row, operand.name, legal, given, at)


def _immediate(row: Row, name: str, legal: Legal, given: int, at: Location | None) -> Diagnostic:
    """A broken immediate, by the rule of its own where it has one."""
    words = in_words(legal)
    match row.opcode, name:
        case "wgmma.wait_group", "pending":
            return WAIT_RANGE.diagnose(at=at, pending=given, lowest=min(legal), highest=max(legal))
        case "cp.async.wait_group", "pending":
            return PENDING_COPIES.diagnose(at=at, instruction=row.ptx, given=given, legal=words)
        case "cp.async.bulk.wait_group", "pending":
            return PENDING_STORES.diagnose(at=at, instruction=row.ptx, given=given, legal=words)
    nearest = min(legal, key=lambda value: abs(value - given))
    return IMMEDIATE.diagnose(at=at, instruction=row.ptx, name=name, given=given, legal=words, nearest=nearest)


@cache
def targets_with(features: Feature) -> str:
    """The names of the targets that have all of `features`, in words."""
    names = [name for name in target_names() if Target.parse(name).has(features)]
    return " or ".join(names) if len(names) <= 2 else f"one of {', '.join(names)}"


def in_words(values: Iterable[int]) -> str:
    """Legal values for people: `24 to 256 by 8`, or each of them where they are not such a run."""
    run = sorted(values)
    step = run[1] - run[0] if len(run) > 1 else 1
    if len(run) > 2 and run == list(range(run[0], run[-1] + 1, step)):
        return f"{run[0]} to {run[-1]}" + (f" by {step}" if step > 1 else "")
    return " or ".join(str(value) for value in run)


def _gates(instr: MachineInstr, target: Target) -> Iterable[Diagnostic]:
    """The gates of the instruction's family, which know what to use instead, or else those of every row."""
    return gates(instr.row, target, instr.immediates, instr.location) if instr.row is not None else ()


def gates(row: Row, target: Target, immediates: Mapping[str, int], at: Location | None = None) -> Iterable[Diagnostic]:
    """Everything that `target` and these immediates have against `row`; nothing where it is legal there.

    Asks the family's own rules first, which know what to use instead.
    """
    return _family_gates(row, target, immediates, at) or row_gates(row, target, immediates, at)


def _family_gates(row: Row, target: Target, immediates: Mapping[str, int], at: Location | None) -> Sequence[Diagnostic]:
    if row.opcode == MMA_ASYNC:
        return why_not(WGMMA_GATES, request_of(row, immediates), target, at)
    if row.family == mma.FAMILY:
        return why_not(mma_rules.GATES, mma_request.request_of(row, immediates), target, at)
    if row.opcode in (tcgen05.MMA, tcgen05.MMA_WS):
        return why_not(tcgen05_rules.GATES, tcgen05_request.request_of(row), target, at)
    if row.family == wmma.FAMILY:
        return wmma_rules.row_violations(row, target, at)
    if row.family == tma_parts.FAMILY:
        copied = tma_request.request_of(row)
        return why_not(tma_rules.GATES, copied, target, at) if copied is not None else ()
    return ()


def _packed_words(instr: MachineInstr, target: Target) -> Iterator[Diagnostic]:  # noqa: ARG001
    """Packed words, decoded again from their bits."""
    for name, word in instr.words.items():
        decode = decoder(instr, name)
        if decode is not None:
            try:
                decode(word)
            except DiagnosticError as error:
                yield from (replace(found, location=instr.location) for found in error.diagnostics)


def _successors(function: MachineFunction) -> Iterator[Diagnostic]:
    for block in function.blocks.values():
        for successor in block.successors:
            if successor not in function.blocks:
                last = next((one.location for one in reversed(block.instructions) if one.location), None)
                yield SUCCESSOR.diagnose(at=last, block=block.name, function=function.name, successor=successor)


def _emulated(instr: MachineInstr, target: Target) -> Iterable[Diagnostic]:
    """Legal, and not what the chip has: a warning."""
    return emulation_warnings(instr.row, target, instr.location) if instr.row is not None else ()


INSTRUCTION_CHECKS: tuple[Check, ...] = (
    *(_gates, count_faults, _packed_words, word_faults),
    *(constant_faults, check_places, move_faults, _emulated),
)
"""What is checked of every instruction by itself: its row, numbers of registers, immediates, words and facts."""
PROTOCOLS: tuple[Protocol, ...] = (
    check_wgmma_protocol,
    check_unwritten,
    check_swizzles,
    check_fragments,
    check_cta_groups,
    check_pairs,
    check_tmem_protocol,
    check_proxy_protocol,
    check_unwaited_reads,
    check_refills,
    check_multicast_masks,
    check_shared_bounds,
    check_shared_races,
    check_group_threads,
    check_convergence,
    check_register_budget,
    check_register_room,
    check_mbarrier_protocol,
    check_cluster_protocol,
)
"""What is checked of the function as a whole, along its control flow."""
