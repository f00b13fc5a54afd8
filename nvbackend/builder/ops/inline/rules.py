"""What is wrong with a statement of the user's own PTX."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_SYNTAX = "PTX ISA 4 (Syntax), 6 (Instruction Operands)"
OPERAND = Rule(
    id="ptx.operand",
    message="k.ptx({text!r}): {problem}",
    fix="{advice}",
    why="An operand that the text does not name has no place in it, and a register of another type holds other bits.",
    reference=_SYNTAX,
)
INSTRUCTION = Rule(
    id="ptx.instruction",
    message="k.ptx cannot judge {instruction}: {reason}",
    fix="{advice}",
    why="The analyses would ignore the instruction, so their findings would be wrong or missing.",
    reference="docs/guide.md, The way out",
)
EFFECTS = Rule(
    id="ptx.effects",
    message="{instruction} {does}, and effects={given!r} says otherwise",
    fix="write effects={wanted!r}",
    why="LLVM moves, merges and drops statements by their effects, and the analyses rely on them.",
    reference="docs/guide.md, The way out; LLVM Language Reference, Inline Asm",
)
ROW_TEXT = Rule(
    id="row.text",
    message="row {family}/{opcode}: {problem}",
    fix="{advice}",
    why="The text is a statement of the kernel: LLVM takes its operands for what the row says they are.",
    reference="docs/guide.md, Rows of your own",
)
ROW_SEMANTICS = Rule(
    id="row.semantics",
    message="row {family}/{opcode}: {problem}",
    fix="{advice}",
    why=("LLVM moves, merges and drops statements by their effects, and the analyses rely on the semantics."),
    reference="docs/guide.md, Rows of your own",
)
