"""What multimem does to memory: ld_reduce only reads it, st and red only write it, and a row must say so."""

from __future__ import annotations

import pytest

from nvbackend import DiagnosticError
from nvbackend.builder.ops.inline.own_row import check_row
from nvbackend.rows import Asm, Effect, RegisterClass, Row, Semantics, operand, output, reads, writes

ADDRESS, VALUE = operand("a", RegisterClass.GLOBAL, align=4), operand("v", RegisterClass.B32)
NONE, READS, WRITES = Effect.NONE, Effect.READS_MEMORY, Effect.WRITES_MEMORY
TEXTS = {
    "multimem.ld_reduce.weak.global.add.u32": ("{ptx} {d}, [{a}];", (output("d", RegisterClass.B32), ADDRESS), READS),
    "multimem.st.weak.global.u32": ("{ptx} [{a}], {v};", (ADDRESS, VALUE), WRITES),
    "multimem.red.relaxed.sys.global.add.u32": ("{ptx} [{a}], {v};", (ADDRESS, VALUE), WRITES),
}
"""PTX ISA 9.7.9.14 (multimem): the text, its operands, and what it does."""


def fault(spelling: str, effects: Effect) -> str | None:
    text, operands, does = TEXTS[spelling]
    use = reads("a", 4) if does is READS else writes("a", 4)
    row = Row(
        "mine", "mine", spelling, operands, Asm(text), effects=effects, semantics=Semantics(memory=(use,)), summary="x"
    )
    try:
        check_row(row)
    except DiagnosticError as error:
        return "; ".join(f"{each.rule_id} {each.message}" for each in error.diagnostics)
    return None


@pytest.mark.parametrize("effects", [NONE, READS, WRITES, READS | WRITES], ids=str)
@pytest.mark.parametrize("spelling", TEXTS)
def test_a_row_says_what_multimem_does_to_memory(spelling: str, effects: Effect) -> None:
    does = TEXTS[spelling][2]
    found = fault(spelling, effects)
    if does in effects:
        assert found is None
    else:
        assert found is not None
        assert found.startswith("row.semantics ")
        assert f"{spelling} {'reads' if does is READS else 'writes'} memory" in found
