"""Registers of A that the machine code writes while a wgmma still reads them, found in the SASS of a cubin.

ptxas before 13.3 takes the registers of A for free once the instruction is issued, and may put another value there
before the wait. Nothing in PTX keeps it from that: what inline assembly ties is gone when ptxas sees it. Whether it did
so is read off the code, which shows each group, each wait and each written register.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nvbackend.diagnostics.classes.dataclass import dataclass

FRAGMENT_REGISTERS = 4
"""Registers of A that an instruction reads (PTX ISA 9.7.15.5.1)."""
MOST_STATES = 1024
"""States of one instruction that are distinguished; with more, the code is not judged."""

_LINE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?P<text>[^;]*?)\s*;")
_LABEL = re.compile(r"^(?P<name>[.\w$]+):")
_PREDICATE = re.compile(r"^@!?U?P\w+\s+")
_TARGET = re.compile(r"`\(([.\w$]+)\)")
_WGMMA = re.compile(r"[A-Z]GMMA(?:\.SP)?\.64x(?P<n>\d+)x\d+\.(?P<d>\w+)\S* R(?P<first>\d+), (?P<a>R\d+|gdesc)")
_WAIT = re.compile(r"WARPGROUP\.DEPBAR\.LE gsb0, (0x[0-9a-f]+)")
_DESTINATIONS = re.compile(r"^(?P<opcode>\S+)\s+(?:U?!?P\w+, ){0,2}R(?P<first>\d+)(?:\.\w+)*(?:,|$)")
_FOUR = re.compile(r"\.128\b|^(?:HMMA|IMMA|BMMA|DMMA|QMMA|TEX|TLD|ATOMG?\S*\.128)|^LDSM\S*\.4\b|^LDTM")
_TWO = re.compile(
    r"\.(?:64|WIDE|F64|S64|U64|64H|64L)\b|^(?:DADD|DMUL|DFMA|DMNMX|CS2R|I2F|F2F|F2I|FRND|I2I|LEPC|SYNCS)\b|^LDSM\S*\.2\b"
    r"|^(?:HFMA2|HADD2|HMUL2)\.MMA"
)
_WRITES_NONE = (
    *("ST", "RED", "UBLK", "UTMA", "BAR", "WARPSYNC", "NANOSLEEP", "CCTL", "MEMBAR", "R2UR", "R2P", "R2B", "BPT"),
    *("ISETP", "FSETP", "DSETP", "HSETP2", "PSETP", "FCHK"),
)
"""Opcodes whose first register is one that they read."""
_WRITES_ONE = frozenset(
    (
        *("FADD", "FFMA", "FMNMX", "FMUL", "FSEL", "FSET", "FSWZADD", "MUFU", "HADD2", "HFMA2", "HMNMX2", "HMUL2"),
        *("HSET2", "BMSK", "BREV", "FLO", "IABS", "IADD", "IADD3", "IADD32I", "IDP", "IDP4A", "IMAD", "IMNMX", "IMUL"),
        *("ISCADD", "LEA", "LOP", "LOP3", "LOP32I", "POPC", "SHF", "SHL", "SHR", "VABSDIFF", "VABSDIFF4", "VHMNMX"),
        *("VIADD", "VIADDMNMX", "VIMNMX", "VIMNMX3", "F2FP", "I2FP", "I2IP", "F2IP", "MOV", "MOV32I", "MOVM", "PRMT"),
        *("SEL", "SGXT", "SHFL", "P2R", "S2R", "B2R", "BMOV", "VOTE", "MATCH", "QSPC"),
        *("LD", "LDC", "LDG", "LDL", "LDS", "LDSM", "ATOM", "ATOMG", "ATOMS"),
    )
)
"""Opcodes that write one register where their text does not name a wider type."""


class UnreadableSass(Exception):
    """The code is not one that can be followed; says why."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """A register that an instruction writes while an earlier one reads it."""

    register: int
    reader: str
    writer: str


@dataclass(frozen=True, slots=True)
class _Instruction:
    text: str
    writes: frozenset[int]
    successors: tuple[int, ...]


_Group = tuple[tuple[int, str], ...]
"""The first register of A of each instruction of a group, and the instruction."""
_State = tuple[tuple[_Group, ...], _Group]
"""The groups in flight, oldest first, and the open group."""


def hazards(sass: str) -> tuple[Hazard, ...]:
    """What is wrong in the SASS of a cubin, as nvdisasm prints it.

    Every path through the code is followed with the groups that are in flight. Raises UnreadableSass.
    """
    code, entries = _instructions(sass)
    seen: list[set[_State]] = [set() for _ in code]
    hazards: dict[Hazard, None] = {}
    todo: list[tuple[int, _State]] = [(place, ((), ())) for place in entries]
    while todo:
        place, state = todo.pop()
        if state in seen[place]:
            continue
        if len(seen[place]) >= MOST_STATES:
            raise UnreadableSass("groups are in flight in too many ways")
        seen[place].add(state)
        instruction = code[place]
        hazards.update(dict.fromkeys(_written_in_flight(instruction, state)))
        after = _after(instruction.text, state)
        todo += [(successor, after) for successor in instruction.successors]
    return tuple(hazards)


def written(text: str) -> range:
    """The registers that an instruction writes, or some more: where the width is not certain, the larger one."""
    text = _PREDICATE.sub("", text)
    if (wgmma := _WGMMA.match(text)) is not None:
        first = int(wgmma["first"])
        return range(first, first + int(wgmma["n"]) // (4 if wgmma["d"] == "F16" else 2))
    match = _DESTINATIONS.match(text)
    if match is None or text.startswith(_WRITES_NONE):
        return range(0)
    first = int(match["first"])
    return range(first, first + _width(match["opcode"]))


def _width(opcode: str) -> int:
    """The registers of a destination; four for an opcode that is not known."""
    if _FOUR.search(opcode):
        return 4
    if _TWO.search(opcode):
        return 2
    return 1 if opcode.partition(".")[0] in _WRITES_ONE else 4


def _written_in_flight(instruction: _Instruction, state: _State) -> Iterator[Hazard]:
    groups, being_issued = state
    for group in (*groups, being_issued):
        for first, reader in group:
            for register in range(first, first + FRAGMENT_REGISTERS):
                if register in instruction.writes:
                    yield Hazard(register, reader, instruction.text)


def _after(text: str, state: _State) -> _State:
    groups, being_issued = state
    if (wgmma := _WGMMA.search(text)) is not None:
        if wgmma["a"] != "gdesc":
            being_issued = (*being_issued, (int(wgmma["a"][1:]), text))
        return ((*groups, being_issued), ()) if "gsb0" in text else (groups, being_issued)
    if (wait := _WAIT.search(text)) is not None:
        pending = int(wait[1], 16)
        return groups[max(0, len(groups) - pending) :], being_issued
    if "gsb0" in text:
        raise UnreadableSass(f"it has {text}")
    return state


def _instructions(sass: str) -> tuple[list[_Instruction], list[int]]:
    """The instructions in order, and the first of each function."""
    texts: list[str] = []
    labels: dict[str, int] = {}
    for line in sass.splitlines():
        if (label := _LABEL.match(line)) is not None:
            labels[label["name"]] = len(texts)
        elif (match := _LINE.match(line)) is not None:
            texts.append(match["text"])
    entries = [place for name, place in labels.items() if name.startswith(".text.") and place < len(texts)]
    if not entries:
        raise UnreadableSass("it has no instructions")
    returns = tuple(place + 1 for place, text in enumerate(texts) if _opcode(text).startswith("CALL"))
    code = [
        _Instruction(text, frozenset(written(text)), tuple(_successors(place, text, labels, returns, len(texts))))
        for place, text in enumerate(texts)
    ]
    return code, entries


def _opcode(text: str) -> str:
    return _PREDICATE.sub("", text)


def _successors(place: int, text: str, labels: dict[str, int], returns: tuple[int, ...], count: int) -> Iterator[int]:
    """The successors of an instruction; a return leads to after any call."""
    opcode = _opcode(text)
    always = opcode == text
    if opcode.startswith(("BRX", "JMX", "JMP", "CALL.ABS")):
        raise UnreadableSass(f"it has {opcode}")
    if opcode.startswith("RET"):
        yield from returns
    else:
        yield from (labels[name] for name in _TARGET.findall(text) if labels.get(name, count) < count)
    leaves = always and opcode.startswith(("EXIT", "RET", "CALL", "BRA `"))
    if not leaves and place + 1 < count:
        yield place + 1
