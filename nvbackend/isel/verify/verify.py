"""The machine verifier: the second validation, on what was selected, against the exact target.

The gates of a row are checked here and, by the same functions, where the row is emitted (`isel.select.rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from nvbackend.diagnostics import Diagnostic, DiagnosticError, Rule, told_once, user_facing
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.agreeing import certain
from nvbackend.isel.flow.finished import finished
from nvbackend.isel.flow.paths import unreached, without_unreached
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, decoder
from nvbackend.isel.machine.register_room import check_register_room
from nvbackend.isel.operands.tma_places import check_places
from nvbackend.isel.protocols.cluster.multicast_masks import check_multicast_masks
from nvbackend.isel.protocols.cluster.protocol import check_cluster_protocol
from nvbackend.isel.protocols.convergence.convergence import check_convergence
from nvbackend.isel.protocols.convergence.members import check_members
from nvbackend.isel.protocols.groups.threads import check_group_threads
from nvbackend.isel.protocols.mbarrier.protocol import check_mbarrier_protocol
from nvbackend.isel.protocols.proxy.protocol import check_proxy_protocol
from nvbackend.isel.protocols.proxy.refills import check_refills
from nvbackend.isel.protocols.proxy.unwaited import check_unwaited_reads
from nvbackend.isel.protocols.registers.budget import check_register_budget
from nvbackend.isel.protocols.shared.bounds import check_local_arrays, check_shared_bounds
from nvbackend.isel.protocols.shared.descriptor_swizzle import check_swizzles
from nvbackend.isel.protocols.shared.races import check_shared_races
from nvbackend.isel.protocols.tcgen05.issue import check_issue
from nvbackend.isel.protocols.tcgen05.protocol import check_cta_groups, check_pairs
from nvbackend.isel.protocols.wgmma.protocol import check_wgmma_protocol
from nvbackend.isel.protocols.wgmma.unwritten import check_unwritten
from nvbackend.isel.select.rows import constant_faults, constants, faults
from nvbackend.isel.target.target import Target
from nvbackend.isel.verify.instructions import count_faults, emulation_warnings, row_faults
from nvbackend.isel.verify.rare import (
    check_fragments,
    check_grids,
    check_moves,
    check_tensor_maps,
    check_tensor_memory,
    check_words,
)

SUCCESSOR = Rule(
    id="machine.successor",
    message="block {block} of {function} continues in {successor}, which the function does not have",
    fix="add the block {successor}, or take it from the successors",
    why="The analyses follow the control flow and cannot follow this one.",
    reference="nvbackend machine form",
)

Check = Callable[[MachineInstr, Target], Iterable[Diagnostic]]
Protocol = Callable[[MachineFunction], Iterable[Diagnostic]]


@user_facing
def verify(function: MachineFunction, *, rules: Sequence[Rule] = ()) -> list[Diagnostic]:
    """Everything that is wrong with `function`: its instructions in the order of the text, then its protocols.

    What no thread comes to is only checked for how it is written.
    `rules` are rules of the caller's own, which are asked last (rule.form, rule.analysis). Diagnostics equal in every
    word and place (a line that the user's Python ran more than once) appear once. Never raises for the program's
    mistakes; `raise_all` does.
    """
    broken = list(_successors(function))
    if broken:
        return broken
    whole = finished(function)
    nowhere = unreached(whole)
    function = without_unreached(whole, nowhere)
    faults = list(_instruction_faults(whole, nowhere))
    for protocol in PROTOCOLS:
        faults += certain(protocol, function, RELATED.get(protocol, Scope.GRID))
    if rules:
        from nvbackend.isel.verify.own_rules import checked_rules, own_findings

        faults += own_findings(function, checked_rules(rules))
    return told_once(faults)


def _instruction_faults(function: MachineFunction, nowhere: Container[str]) -> Iterator[Diagnostic]:
    """What is wrong with each single instruction; equal sound ones are checked once.

    The row of a sound instruction must be the row of its axes, which is checked once for each row. `nowhere` are the
    blocks that no thread comes to.
    """
    sound: set[tuple[object, ...]] = set()
    genuine: set[int] = set()
    for name, instr in ((name, instr) for name, block in function.blocks.items() for instr in block.instructions):
        if name in nowhere:
            yield from (each for check in SPELLING_CHECKS for each in check(instr, function.target))
            continue
        alike = (
            *(instr.opcode, id(instr.row), *constants(instr), tuple(instr.registers.items())),
            *(tuple(instr.immediates.items()), tuple(instr.words.items()), tuple(instr.facts.items())),
        )
        if alike in sound:
            continue
        faults = [diagnostic for check in INSTRUCTION_CHECKS for diagnostic in check(instr, function.target)]
        if not faults and instr.row is not None and id(instr.row) not in genuine:
            faults += row_faults(instr.row, instr.location)
        if not faults:
            genuine.add(id(instr.row))
            sound.add(alike)
        yield from faults


def _gates(instr: MachineInstr, target: Target) -> Iterable[Diagnostic]:
    """The gates of the instruction's family, which know what to use instead, or else those of every row."""
    return faults(instr.row, target, instr.immediates, instr.location) if instr.row is not None else ()


def _packed_words(instr: MachineInstr, target: Target) -> Iterator[Diagnostic]:  # noqa: ARG001
    """Packed words, decoded again from their bits."""
    for name, word in instr.words.items():
        decode = decoder(instr, name)
        if decode is not None:
            try:
                decode(word)
            except DiagnosticError as error:
                yield from (replace(diagnostic, location=instr.location) for diagnostic in error.diagnostics)


def _successors(function: MachineFunction) -> Iterator[Diagnostic]:
    for block in function.blocks.values():
        for successor in block.successors:
            if successor not in function.blocks:
                last = next(
                    (instruction.location for instruction in reversed(block.instructions) if instruction.location), None
                )
                yield SUCCESSOR.diagnose(at=last, block=block.name, function=function.name, successor=successor)


def _emulated(instr: MachineInstr, target: Target) -> Iterable[Diagnostic]:
    """Legal, and not what the chip has: a warning."""
    return emulation_warnings(instr.row, target, instr.location) if instr.row is not None else ()


SPELLING_CHECKS: tuple[Check, ...] = (_gates, count_faults, _packed_words, check_words)
"""The checks of how an instruction is written, whether or not a thread comes there."""
INSTRUCTION_CHECKS: tuple[Check, ...] = (
    *SPELLING_CHECKS,
    *(constant_faults, check_places, check_issue, check_moves, _emulated),
)
"""The checks of a single instruction: its row, numbers of registers, immediates, words and facts."""
PROTOCOLS: tuple[Protocol, ...] = (
    check_wgmma_protocol,
    check_unwritten,
    check_swizzles,
    check_fragments,
    check_cta_groups,
    check_pairs,
    check_tensor_memory,
    check_proxy_protocol,
    check_unwaited_reads,
    check_refills,
    check_tensor_maps,
    check_grids,
    check_multicast_masks,
    check_shared_bounds,
    check_local_arrays,
    check_shared_races,
    check_group_threads,
    check_convergence,
    check_members,
    check_register_budget,
    check_register_room,
    check_mbarrier_protocol,
    check_cluster_protocol,
)
"""What is checked of the function as a whole, along its control flow."""
RELATED: Mapping[Protocol, Scope] = {
    check_fragments: Scope.WARP,
    **dict.fromkeys((check_wgmma_protocol, check_unwritten), Scope.WARPGROUP),
    **dict.fromkeys((check_tensor_memory, check_group_threads, check_proxy_protocol, check_unwaited_reads), Scope.CTA),
    **dict.fromkeys((check_refills, check_shared_races, check_tensor_maps), Scope.CTA),
}
"""The threads whose steps a check relates, where these are not those of all CTAs."""
