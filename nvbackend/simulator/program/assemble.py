"""A kernel's program: its functions compiled, instruction by instruction, into blocks of closures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import cache, partial
from typing import Protocol

import numpy as np

from nvbackend.diagnostics import Diagnostic, DiagnosticError, raise_all
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.names import Names
from nvbackend.ptx.syntax import Function, Guard, Instruction, Label, Module, Name, Position
from nvbackend.simulator.events import Site
from nvbackend.simulator.machine.compiling import Compile, Compiling
from nvbackend.simulator.machine.deciding import Deciding, deciding
from nvbackend.simulator.machine.in_flight import guarded, late_slots
from nvbackend.simulator.machine.lanes import Lanes
from nvbackend.simulator.machine.polls import polls_of
from nvbackend.simulator.machine.slots import Slots
from nvbackend.simulator.machine.symbols import Place, Symbols
from nvbackend.simulator.machine.unset import Lines, Unset, followed, unset
from nvbackend.simulator.machine.uses import Use, uses
from nvbackend.simulator.machine.wave import Poll, Step, Waiting, Wave
from nvbackend.simulator.program import flow
from nvbackend.simulator.program.blocks import Code, End, Jump, Program, places_of, starts
from nvbackend.simulator.program.call import (
    Linkage,
    call_end,
    compile_after,
    compile_arguments,
    entry_step,
    result_step,
)
from nvbackend.simulator.program.ends import Branch, Exit, Guarded, Return, Switch
from nvbackend.simulator.program.layout import functions_of, lay_out
from nvbackend.simulator.program.listing import Listing, constant_registers, listing
from nvbackend.simulator.program.pure import Domain, PureInstruction, compile_pure

ENDS = ("bra", "brx", "call", "ret", "exit")
"""The opcodes that end a block."""


class Knowledge(Protocol):
    """What the simulator knows of instructions."""

    def family(self, parts: tuple[str, ...]) -> Compile | None:
        """How instructions of an opcode with these pieces are compiled, if they touch the machine."""

    def pure(self, parts: tuple[str, ...]) -> PureInstruction | None:
        """The instruction that only computes, if there is one."""


@dataclass(slots=True)
class _Block:
    """Instructions `first` to `last` (excluded) of a listing; `last` is the instruction that ends it, if any does."""

    first: int
    last: int
    end: Instruction | None
    successors: list[int] = field(default_factory=list)


def _blocks(text: Listing, names: Names) -> list[_Block]:
    """The blocks in the order of the text, with an empty one at the end, from which a function returns."""
    count = len(text.lines)
    leaders = {0, count, *text.labels.values()}
    leaders |= {index + 1 for index, (instruction, _) in enumerate(text.lines) if instruction.parts[0] in ENDS}
    firsts = sorted(leaders)
    number = {first: place for place, first in enumerate(firsts)}
    found = []
    for place, first in enumerate(firsts):
        after = firsts[place + 1] if place + 1 < len(firsts) else count
        last = text.lines[after - 1][0] if after > first else None
        end = last if last is not None and last.parts[0] in ENDS else None
        block = _Block(first, after - (end is not None), end)
        if place + 1 < len(firsts):
            targets = [] if end is None else [number[text.labels[one]] for one in branch_targets(end, names)]
            falls = end is None or end.guard is not None or end.parts[0] == "call"
            block.successors = targets + [place + 1] * falls
        found.append(block)
    return found


def branch_targets(instruction: Instruction, names: Names) -> list[Position]:
    """The labels that a branch may go to, by where they are."""
    if instruction.parts[0] not in ("bra", "brx"):
        return []
    last = instruction.operands[-1]
    declared = names[last] if isinstance(last, Name) else None
    if isinstance(declared, Label):
        return [declared.position]
    targets = getattr(declared, "targets", ())
    return [names[target].position for target in targets]


class Assembler:
    """Makes the program of one kernel."""

    def __init__(
        self, module: Module, names: Names, knowledge: Knowledge, fixed: Mapping[Position, Place], domain: Domain
    ) -> None:
        self._module = module
        self._names = names
        self._knowledge = knowledge
        self._fixed = fixed
        self._domain = domain
        self._problems: list[Diagnostic] = []
        self._late: frozenset[int] = frozenset()
        """The slots that asynchronous instructions of the program write later."""

    def program(self, kernel: Function) -> Program:
        """The program. Raises simulator.unknown for every instruction that the simulator does not know."""
        functions = functions_of(self._module, self._names, kernel)
        texts = {function.name: listing(self._module, function) for function in functions}
        layout = lay_out(self._module, self._names, texts.values(), self._fixed)
        slots = Slots()
        symbols = Symbols(self._names, slots, layout.places, constant_registers(texts.values(), self._names))
        lines = (instruction for text in texts.values() for instruction, _ in text.lines)
        self._late = late_slots(symbols, lines)
        linkage = Linkage(functions, texts, layout, symbols)
        program = Program(kernel.name, slots, static_shared=layout.static_shared)
        program.frame_bytes = sum(layout.frames.values())
        program.parameters = layout.parameters
        program.shared = tuple(layout.shared)
        program.deciding = cache(partial(self._deciding, symbols, texts.values()))
        program.polls = cache(partial(self._polls, symbols, texts.values()))
        program.uses = cache(partial(self._uses, symbols, texts.values()))
        program.unset = cache(partial(self._unset, symbols, texts.values(), program))
        drafts = self._drafts(linkage, symbols)
        places = starts([len(draft.steps) for draft in drafts])
        place_of = {(draft.function, draft.number): place for draft, place in zip(drafts, places, strict=True)}
        for name in texts:
            linkage.enter(name, place_of[name, 0])
        for draft, place in zip(drafts, places, strict=True):
            program.codes.append(self._code(draft, place, place_of, linkage, symbols))
        program.entry = place_of[kernel.name, 0]
        raise_all(self._problems)
        return program

    def _deciding(self, symbols: Symbols, texts: Iterable[Listing]) -> Deciding:
        lines = [line for text in texts for line in text.lines]
        return deciding(symbols, lines, (self._computes(line.parts) for line, _ in lines))

    def _polls(self, symbols: Symbols, texts: Iterable[Listing]) -> dict[Site, Poll]:
        found: dict[Site, Poll] = {}
        for text in texts:
            for number, block in enumerate(_blocks(text, self._names)):
                end = block.end
                if end is not None and end.parts[0] == "bra" and end.guard is not None and number in block.successors:
                    lines, again = text.lines[block.first : block.last], block.successors[0] == number
                    found.update(polls_of(symbols, lines, end, again=again))
        return found

    def _uses(self, symbols: Symbols, texts: Iterable[Listing]) -> dict[Site, Use]:
        lines = (line for text in texts for line in text.lines)
        return uses(symbols, lines, lambda instruction: self._computes(instruction.parts))

    def _unset(self, symbols: Symbols, texts: Iterable[Listing], program: Program) -> Unset:
        names: dict[int, str] = {}
        sites: set[Site] = set()
        for text in texts:
            blocks = [
                Lines(text.lines[block.first : block.last + (block.end is not None)], block.successors)
                for block in _blocks(text, self._names)
            ]
            registers = (each for each in text.function.parameters if each.space == "reg")
            given = {symbols.of_register(each, each.name)[0] for each in registers}
            if own := unset(symbols, blocks, given):
                names |= own
                sites |= followed(blocks, program.uses(), own)
        return Unset(names, places_of(program.codes, sites)) if names else Unset()

    def _computes(self, parts: tuple[str, ...]) -> bool:
        """Whether an instruction does nothing but compute registers."""
        return parts[0] not in ENDS and self._knowledge.family(parts) is None

    def _drafts(self, linkage: Linkage, symbols: Symbols) -> list[_Draft]:
        drafts: list[_Draft] = []
        for name in linkage.callees_first():
            text = linkage.texts[name]
            blocks = _blocks(text, self._names)
            for number in flow.order([block.successors for block in blocks]):
                draft = self._draft(text, blocks, number, linkage, symbols)
                drafts.append(draft)
        return drafts

    def _draft(self, text: Listing, blocks: list[_Block], number: int, linkage: Linkage, symbols: Symbols) -> _Draft:
        block = blocks[number]
        function = text.function
        site = text.lines[min(block.last, len(text.lines) - 1)][1]
        draft = _Draft(function.name, number, block, site, falls_to=number + 1)
        if number == 0:
            draft.add(entry_step(function, linkage), site, "enter")
        before = blocks[number - 1].end if number else None
        if before is not None and before.parts[0] == "call":
            call_site = text.lines[blocks[number - 1].last][1]
            self._try(draft, call_site, "call", lambda: compile_after(before, linkage))
        for instruction, each in text.lines[block.first : block.last]:
            self._try(draft, each, instruction.opcode, lambda i=instruction, s=each: self._step(i, s, symbols))  # type: ignore[misc]
        if block.end is not None and block.end.parts[0] == "call":
            end = block.end
            self._try(draft, site, "call", lambda: compile_arguments(end, linkage))
        returns = block.end is None and number == len(blocks) - 1
        if not function.is_entry and (returns or (block.end is not None and block.end.parts[0] == "ret")):
            draft.add(result_step(function, linkage), site, "ret")
        return draft

    def _try(self, draft: _Draft, site: Site, opcode: str, make: Callable[[], Step | None]) -> None:
        try:
            step = make()
        except DiagnosticError as error:
            self._problems += error.diagnostics
            return
        if step is not None:
            draft.add(step, site, opcode)

    def _step(self, instruction: Instruction, site: Site, symbols: Symbols) -> Step:
        place = Compiling(instruction, site, symbols, self._module.target[0])
        family = self._knowledge.family(instruction.parts)
        if family is not None:
            step = family(instruction, place)
        else:
            pure = self._knowledge.pure(instruction.parts)
            if pure is None:
                place.unknown(instruction.opcode)
            step = compile_pure(instruction, place, pure, self._domain)
        if self._late:
            step = guarded(step, instruction, site, symbols, self._late)
        return step if instruction.guard is None else _guarded(step, *self._guard(instruction.guard, symbols))

    def _guard(self, guard: Guard, symbols: Symbols) -> tuple[int, bool]:
        found = symbols.slot(guard.register, "pred")
        assert found is not None
        return found.slot, guard.negated

    def _code(
        self, draft: _Draft, place: int, place_of: Mapping[tuple[str, int], int], linkage: Linkage, symbols: Symbols
    ) -> Code:
        sites, opcodes = tuple(draft.sites), tuple(draft.opcodes)
        end: End = Jump(-1)
        try:
            end = self._end(draft, place_of, linkage, symbols)
        except DiagnosticError as error:
            self._problems += error.diagnostics
        last = draft.block.end
        leaves = last is not None and last.parts[0] not in opcodes
        return Code(place, tuple(draft.steps), sites, end, draft.site, opcodes, last.opcode if last and leaves else "")

    def _end(self, draft: _Draft, place_of: Mapping[tuple[str, int], int], linkage: Linkage, symbols: Symbols) -> End:
        instruction, site = draft.block.end, draft.site
        function = linkage.texts[draft.function].function
        otherwise = place_of.get((draft.function, draft.falls_to), -1)
        leave: Exit | Return = Exit(site) if function.is_entry else linkage.leaving
        if instruction is None:
            return Jump(otherwise) if draft.block.successors else leave
        place = Compiling(instruction, site, symbols, self._module.target[0])
        opcode = instruction.parts[0]
        guard = self._guard(instruction.guard, symbols) if instruction.guard is not None else None
        text = linkage.texts[draft.function]
        blocks = {text.labels[one]: one for one in branch_targets(instruction, self._names)}
        targets = [place_of[draft.function, number] for number in draft.block.successors[: len(blocks) or None]]
        if opcode == "call":
            return call_end(instruction, place, linkage, otherwise, guard)
        if opcode == "bra":
            return Jump(targets[0]) if guard is None else Branch(guard[0], guard[1], targets[0], otherwise)
        ends: Exit | Return | Switch = leave if opcode == "ret" else Exit(site)
        if opcode == "brx":
            labels = branch_targets(instruction, self._names)
            every = [place_of[draft.function, number] for number in draft.block.successors[: len(labels)]]
            ends = Switch(place.read(instruction.operands[0], "u32"), tuple(every), site)
        return ends if guard is None else Guarded(ends, guard[0], guard[1], otherwise)


@dataclass(slots=True)
class _Draft:
    """A block whose steps are compiled and whose place is not known yet."""

    function: str
    number: int
    block: _Block
    site: Site
    falls_to: int
    steps: list[Step] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    opcodes: list[str] = field(default_factory=list)

    def add(self, step: Step | None, site: Site, opcode: str) -> None:
        """One more step."""
        if step is not None:
            self.steps.append(step)
            self.sites.append(site)
            self.opcodes.append(opcode)


def _guarded(step: Step, predicate: int, negated: bool) -> Step:
    """The step for the threads whose predicate holds."""

    def run(wave: Wave, lanes: Lanes) -> Waiting | None:
        mask = wave.registers[predicate][lanes.index]
        if negated:
            mask = ~mask
        count = int(np.count_nonzero(mask))
        if count == lanes.count:
            return step(wave, lanes)
        return step(wave, Lanes(lanes.threads[mask])) if count else None

    return run
