"""Long runs of integer arithmetic, cut so that LLVM's code generator takes time in proportion to them.

NVPTX runs LLVM's straight-line strength reduction at every level but 0. That relates each addition and product to all
before it that share an operand, or an expression over the same operands: time grows with the square of their number,
and faster where they depend on each other. `freeze` makes a value that it cannot look through; no instruction of PTX
comes of it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from nvbackend.codegen.stages.functions import split_functions
from nvbackend.codegen.stages.names import NAME, unused_prefix
from nvbackend.diagnostics.classes.late_pattern import late_pattern

MOST_OF_A_BLOCK, MOST_OF_A_FUNCTION = 128, 512
"""So much integer arithmetic stays as it is: it takes up to 0.3 s. Kernels by hand have up to 100 in a block."""
PIECE = 16
"""The additions and products of a piece, which share no operand with those of another."""

_BLOCK = late_pattern(r"^(?=[\w.$-]+:|\"[^\"]*\":)", re.MULTILINE)
_STEP = late_pattern(
    rf"^(?P<head>  (?P<result>{NAME}) = (?P<operation>add|sub|mul|shl) (?:nuw |nsw )*(?P<type>i\d+) )"
    r"(?P<operands>[^,\n]+, [^,\n]+)(?P<rest>.*)$",
    re.MULTILINE,
)
_MULTIPLES = ("mul", "shl")
_OPERATIONS = (" = add ", " = sub ", " = mul ", " = shl ")


def cut(ir: str) -> str:
    """The IR, with the operands of long runs frozen at the start of each piece; short ones are left as they are."""
    if sum(map(ir.count, _OPERATIONS)) <= MOST_OF_A_BLOCK:
        return ir
    parts = split_functions(ir, "define")
    prefix = unused_prefix(ir, "frozen")
    parts[1::2] = [_cut_function(part, prefix) for part in parts[1::2]]
    return "".join(parts)


def _cut_function(text: str, prefix: str) -> str:
    steps = len(_STEP.findall(text))
    if steps <= MOST_OF_A_BLOCK:
        return text
    blocks = _BLOCK.split(text)
    counts = [len(_STEP.findall(block)) for block in blocks]
    most = MOST_OF_A_BLOCK if steps <= MOST_OF_A_FUNCTION else PIECE
    pieces = (f"%{prefix}.{number}" for number in itertools.count())
    return "".join(
        "\n".join(_cut_block(block, pieces)) if count > most else block
        for block, count in zip(blocks, counts, strict=True)
    )


def _cut_block(block: str, pieces: Iterator[str]) -> Iterator[str]:
    """The lines of a block; `pieces` are the beginnings of the names of what each piece freezes."""
    own: dict[str, str] = {}
    frozen: dict[str, str] = {}
    count, piece = 0, next(pieces)
    for line in block.split("\n"):
        step = _STEP.match(line)
        if step is None:
            yield line
            continue
        if count == PIECE:
            own, frozen, count, piece = {}, {}, 0, next(pieces)
        count += 1
        operands = step["operands"]
        names = dict.fromkeys(re.findall(NAME, operands))
        for name in names:
            is_sum_with_constant = step["operation"] == "add" and len(names) == 1 and own.get(name) in _MULTIPLES
            if name in frozen or (name in own and not is_sum_with_constant):
                continue
            frozen[name] = f"{piece}.{len(frozen)}"
            yield f"  {frozen[name]} = freeze {step['type']} {name}"
        for name in names:
            operands = re.sub(rf"{re.escape(name)}(?![\w.$-])", frozen.get(name, name), operands)
        yield f"{step['head']}{operands}{step['rest']}"
        own[step["result"]] = step["operation"]
