"""Which register a text reads before it writes it: every place that an instruction reads, and every scope."""

from __future__ import annotations

import pytest

from nvbackend.builder.ops.inline.text import statements_of, whole_text
from nvbackend.builder.ops.inline.unset import read_unset
from nvbackend.isel.target.target import Target

GIVEN = [".reg .b32 %d, %a, %b;", ".reg .b64 %w;", ".reg .pred %p;"]
OWN = ".reg .b32 t, u; .reg .b64 w, x; .reg .pred q, r, s; "
READS = {
    "add.s32 %d, %d, %a;": "%d",
    "add.s32 %d, %a, t;": "t",
    "@q mov.b32 %d, %a;": "q",
    "@!q mov.b32 %d, %a;": "q",
    "mov.b64 w, {%a, u};": "u",
    "mov.b64 {t, u}, w;": "w",
    "setp.eq.and.u32 q, %a, 1, !s;": "s",
    "setp.eq.and.u32 q|r, %a, 1, s;": "s",
    "shfl.sync.idx.b32 %d|q, t, 0, 31, -1;": "t",
    "ld.global.b32 %d, [w];": "w",
    "ld.global.b32 %d, [w+8];": "w",
    "st.global.b32 [%w], t;": "t",
    "st.global.b32 [w], %a;": "w",
    "st.global.v2.b32 [%w], {%a, u};": "u",
    "red.global.add.u32 [%w], t;": "t",
    "red.global.add.u32 [w], %a;": "w",
    "atom.global.add.u32 %d, [w], %a;": "w",
    "bar.sync t;": "t",
    "barrier.cta.sync t, 64;": "t",
    "bar.red.popc.u32 %d, 0, q;": "q",
    "nanosleep.u32 t;": "t",
    "cp.async.ca.shared.global [t], [%w], 4;": "t",
    "cp.async.ca.shared.global [%a], [w], 4;": "w",
    "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%a], [%w, {%a, u}], [%a];": "u",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 t, 32;": "t",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {u}, [t];": "t",
}
"""An instruction, and what it reads that has no value; whatever else it reads has one."""
WRITES = {
    "mov.b32 t, %a;": "t",
    "@%p mov.b32 t, %a;": "t",
    "mov.b64 {t, u}, %w;": "u",
    "setp.eq.u32 q|r, %a, 1;": "r",
    "shfl.sync.idx.b32 t|q, %a, 0, 31, -1;": "q",
    "ld.global.b32 t, [%w];": "t",
    "ld.global.v2.b32 {t, u}, [%w];": "u",
    "atom.global.add.u32 t, [%w], %a;": "t",
    "bar.red.popc.u32 t, 0, %p;": "t",
    "bar.red.or.pred q, 0, %p;": "q",
    "tcgen05.ld.sync.aligned.32x32b.x2.b32 {t, u}, [%a];": "u",
    "tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {t, u}, %d, [%a];": "%d",
}
"""An instruction, and a register that has a value after it."""
USE = {"q": "@q nanosleep.u32 1;", "r": "@r nanosleep.u32 1;"}


def found(text: str) -> tuple[str, str] | None:
    statements = statements_of(whole_text(text, GIVEN, Target.parse("sm_103a")), "the text")
    unset = read_unset(statements, ["%d"])
    return unset and (unset[0], unset[1].opcode)


@pytest.mark.parametrize("instruction", READS)
def test_what_an_instruction_reads(instruction: str) -> None:
    code = instruction.split(maxsplit=1)[1] if instruction.startswith("@") else instruction
    assert found(OWN + instruction) == (READS[instruction], code.split()[0].rstrip(";"))


@pytest.mark.parametrize("instruction", WRITES)
def test_what_an_instruction_writes(instruction: str) -> None:
    register = WRITES[instruction]
    use = USE.get(register, f"nanosleep.u32 {register};")
    assert found(OWN + use) == (register, "nanosleep.u32")
    assert found(OWN + instruction + use) is None


READ_D = "add.s32 %d, %d, 1;"
SCOPES = {
    "mov.b32 %d, %a; " + READ_D: None,
    "{ mov.b32 %d, %a; } " + READ_D: None,
    "{ " + READ_D + " }": "%d",
    "{ .reg .b32 t; mov.b32 t, 1; { .reg .b32 t; mov.b32 %d, t; } }": "t",
    "{ .reg .b32 t; { .reg .b32 t; mov.b32 t, 1; } mov.b32 %d, t; }": "t",
    "{ .reg .b32 t; { mov.b32 t, 1; } mov.b32 %d, t; }": None,
    "{ .reg .b32 t; mov.b32 t, 1; { .reg .b32 u; mov.b32 u, t; mov.b32 %d, u; } }": None,
    ".reg .b32 t<3>; mov.b32 t0, 1; mov.b32 t2, 2; add.s32 %d, t0, t2;": None,
    ".reg .b32 t<3>; mov.b32 t0, 1; add.s32 %d, t0, t2;": "t2",
    ".reg .b32 t<3>; mov.b32 t1, 1; add.s32 %d, t0, t1;": "t0",
    ".reg .v2 .b32 v; mov.b32 v.x, 1; mov.b32 v.y, 2; st.global.v2.b32 [%w], v;": None,
    ".shared .align 4 .b32 v; ld.shared.b32 %d, [v];": None,
    ".shared .align 4 .b8 v[8]; mov.u32 %d, v+4;": None,
    "L: " + READ_D: None,
    READ_D + " { { L: mov.b32 %d, 1; } }": None,
    "{ L: mov.b32 %b, 1; } { " + READ_D + " }": None,
    "{ mov.b32 %b, 1; } { " + READ_D + " }": "%d",
}


@pytest.mark.parametrize("text", SCOPES)
def test_which_registers_there_are(text: str) -> None:
    """Vectors are written by element, memory is no register, and a text with labels is not followed."""
    unset = found(text)
    assert (unset and unset[0]) == SCOPES[text]
