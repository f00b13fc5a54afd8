"""An instruction of PTX as a row of the catalogue, with what its operands are: by the text that the row has itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from nvbackend.builder.attached.asm_text import PREFIX
from nvbackend.builder.ops.inline.text import statements_of, whole_text
from nvbackend.intrinsics.row.asm_form import asm_form
from nvbackend.intrinsics.row.row import Asm, Row
from nvbackend.isel.target.target import Target
from nvbackend.lint.lifted.matching import rows_of
from nvbackend.ptx.syntax import (
    Address,
    Instruction,
    Integer,
    Label,
    Name,
    Operand,
    Pair,
    Vector,
    flattened,
)

Bound = Mapping[str, tuple[Operand, ...]]
"""What each operand of a row is in a text: registers and numbers in their order."""
_PLACE = f"{PREFIX}row_"
_TARGET = "sm_90a"


def rows_for(instruction: Instruction, *, waits: bool) -> Iterator[tuple[Row, Bound]]:
    """The rows that `instruction` can be, with their operands; those that loop until they are done if it `waits`."""
    for row in rows_of(instruction.opcode):
        for pattern, jumps in _patterns(row):
            bound = _bound(pattern, instruction) if jumps is waits else None
            if bound is not None:
                yield row, bound


@lru_cache(maxsize=4096)
def _patterns(row: Row) -> tuple[tuple[Instruction, bool], ...]:
    """The instruction of the row's text that is spelled as the row, and whether the text jumps."""
    lowering = asm_form(row).lowering
    assert isinstance(lowering, Asm)
    places = {each.name: [f"{_PLACE}{each.name}_{index}" for index in range(each.count)] for each in row.operands}
    text = lowering.template.format(ptx=row.ptx, **{name: ", ".join(names) for name, names in places.items()})
    declared = [f".reg .b32 {name};" for names in places.values() for name in names]
    whole = whole_text(text, declared, Target.parse(_TARGET))
    every = list(flattened(statements_of(whole, row.ptx)))
    jumps = any(isinstance(each, Label) for each in every)
    spelled = {each.opcode: each for each in reversed(every) if isinstance(each, Instruction)}
    return ((spelled[row.ptx], jumps),) if row.ptx in spelled else ()


def _bound(pattern: Instruction, instruction: Instruction) -> Bound | None:
    """What the operands of `pattern` are in `instruction`; None where it is another one."""
    pairs: list[tuple[str, Operand]] = []
    if not _match_all(pattern.operands, instruction.operands, pairs):
        return None
    bound: dict[str, list[Operand]] = {}
    for name, operand in pairs:
        bound.setdefault(name.removeprefix(_PLACE).rpartition("_")[0], []).append(operand)
    return {name: tuple(operands) for name, operands in bound.items()}


def _match_all(patterns: Sequence[Operand], operands: Sequence[Operand], pairs: list[tuple[str, Operand]]) -> bool:
    return len(patterns) == len(operands) and all(_match(*pair, pairs) for pair in zip(patterns, operands, strict=True))


def _match(pattern: Operand, operand: Operand, pairs: list[tuple[str, Operand]]) -> bool:
    if isinstance(pattern, Name):
        if pattern.text.startswith(_PLACE):
            pairs.append((pattern.text, operand))
            return not isinstance(operand, Vector | Pair | Address)
        return isinstance(operand, Name) and (not _is_sink(pattern) or _is_sink(operand))
    return _match_parts(pattern, operand, pairs)


def _match_parts(pattern: Operand | None, operand: Operand | None, pairs: list[tuple[str, Operand]]) -> bool:
    match pattern, operand:
        case Vector(), Vector():
            return _match_all(pattern.elements, operand.elements, pairs)
        case Pair(), Pair():
            return _match(pattern.first, operand.first, pairs) and _match(pattern.second, operand.second, pairs)
        case Address(), Address():
            return _match_address(pattern, operand, pairs)
        case Integer(), Integer():
            return pattern.value == operand.value
        case None, None:
            return True
    return False


def _match_address(pattern: Address, operand: Address, pairs: list[tuple[str, Operand]]) -> bool:
    """With bytes added to it, an address is another one than the operand: its place is not known."""
    base: Operand = operand.base if operand.offset == pattern.offset else Name("?")
    return _match(pattern.base, base, pairs) and _match_parts(pattern.coordinates, operand.coordinates, pairs)


def _is_sink(name: Name) -> bool:
    return name.text == "_"
