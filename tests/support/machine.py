"""Machine functions written as text, one instruction a line, so that a test reads like the kernel it is about.

    entry -> loop           a block starts at the margin, with its successors
      write acc other       ordinary code writes (reads) register blocks
      fence
      mma acc               an mma of shape m64n64k16; `mma acc n=128`, `mma acc a=frag` for A in registers
      commit
      wait 1 acc            wait_group 1 that hands back acc
      ret                   leaves the kernel
      read acc  ! wgmma.read-in-flight      what the line breaks: any number of rule ids

A register block exists from its first mention. Every instruction's location is its line of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import dedent
from typing import Any

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.isel.machine.function import Access, MachineFunction, MachineInstr, RegisterBlock, Touch
from nvbackend.isel.target.target import Target
from tests.support.semantics import semantics_of

FILE = "kernel.py"


class Program:
    """A machine function, and the mistakes its text announces, as (line, rule id)."""

    def __init__(self, text: str, target: str = "sm_90a") -> None:
        self.function = MachineFunction("kernel", Target.parse(target))
        self.expected: set[tuple[int, str]] = set()
        self._registers: dict[str, RegisterBlock] = {}
        block = None
        for number, raw in enumerate(dedent(text).splitlines(), start=1):
            line, _, broken = raw.partition("!")
            if not line.strip():
                continue
            if not line.startswith(" "):
                name, _, successors = line.partition("->")
                block = self.function.block(name.strip())
                block.successors = successors.split()
                continue
            assert block is not None, "an instruction outside of a block"
            block.instructions.append(self._instruction(line.split(), number))
            self.expected |= {(number, rule) for rule in broken.split()}

    def _instruction(self, words: list[str], number: int) -> MachineInstr:
        opcode, *rest = words
        options = dict(word.split("=") for word in rest if "=" in word)
        names = [word for word in rest if "=" not in word]
        location = Location(FILE, number, "kernel")
        if opcode == "mma":
            touches = tuple(self._mma(names[0], options))
            return _instr("wgmma.mma_async", touches=touches, location=location)
        if opcode == "wait":
            pending, *drained = names
            touches = self._touches(drained, Access.DRAIN)
            return _instr("wgmma.wait_group", immediates={"pending": int(pending)}, touches=touches, location=location)
        simple = {"fence": "wgmma.fence", "commit": "wgmma.commit_group", "ret": "ret"}
        if opcode in simple:
            return _instr(simple[opcode], location=location)
        access = {"read": Access.READ, "write": Access.WRITE}[opcode]
        return MachineInstr(f"registers.{opcode}", touches=self._touches(names, access), location=location)

    def _mma(self, accumulator: str, options: dict[str, str]) -> Iterator[Touch]:
        shape = (64, int(options.get("n", "64")), int(options.get("k", "16")))
        yield Touch(self.registers(accumulator), Access.ACCUMULATE, shape)
        if "a" in options:
            yield Touch(self.registers(options["a"]), Access.MULTIPLY)

    def _touches(self, names: Iterable[str], access: Access) -> tuple[Touch, ...]:
        return tuple(Touch(self.registers(name), access) for name in names)

    def registers(self, name: str) -> RegisterBlock:
        return self._registers.setdefault(name, RegisterBlock(len(self._registers) + 1, name))


def _instr(opcode: str, **parts: Any) -> MachineInstr:
    return MachineInstr(opcode, semantics=semantics_of(opcode), **parts)


def lines_and_rules(diagnostics: Iterable[Diagnostic]) -> set[tuple[int, str]]:
    """Where and what: (line, rule id)."""
    return {(one.location.line if one.location else 0, one.rule_id) for one in diagnostics}
