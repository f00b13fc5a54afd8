"""What an instruction of a text does: to which memory, from where, how many bytes, and whether the warp does it."""

from __future__ import annotations

import pytest

from nvbackend.builder.ops.inline.effects import effects_of_lanes_and_memory
from nvbackend.builder.ops.inline.text import statements_of, whole_text
from nvbackend.isel.target.target import Target
from nvbackend.ptx.syntax import Instruction, flattened

GIVEN = [".reg .b16 %h;", ".reg .b32 %d, %a, %b, %c;", ".reg .b64 %w, %x;", ".reg .pred %p;", ".reg .b128 %o;"]
READS, WRITES, LANES, CLOCK = "reads", "writes", "convergent", "volatile"
ACCESSES = {
    "ld.global.b32 %d, [%w];": [(READS, "%w", "global", 4, 0)],
    "ld.shared.b8 %h, [%a+3];": [(READS, "%a", "shared", 1, 3)],
    "ld.shared::cta.b16 %h, [%a];": [(READS, "%a", "shared::cta", 2, 0)],
    "ld.shared::cluster.b64 %x, [%a];": [(READS, "%a", "shared::cluster", 8, 0)],
    "ld.b128 %o, [%w];": [(READS, "%w", "", 16, 0)],
    "ld.global.v4.f32 {%d, %a, %b, %c}, [%w+32];": [(READS, "%w", "global", 16, 32)],
    "ld.global.v2.b64 {%w, %x}, [%w];": [(READS, "%w", "global", 16, 0)],
    "ld.volatile.shared.v2.u16 {%h, %h}, [%a];": [(READS, "%a", "shared", 4, 0)],
    "ldu.global.u32 %d, [%w];": [(READS, "%w", "global", 4, 0)],
    "ld.const.u32 %d, [%w];": [(READS, "%w", "const", 4, 0)],
    "ld.global.u32 %d, [64];": [(READS, "", "global", 4, 0)],
    "st.global.u8 [%w+-5], %h;": [(WRITES, "%w", "global", 1, -5)],
    "st.shared.v2.u64 [%a], {%w, %x};": [(WRITES, "%a", "shared", 16, 0)],
    "st.local.f64 [%a], %w;": [(WRITES, "%a", "local", 8, 0)],
    "st.u32 [%w], %a;": [(WRITES, "%w", "", 4, 0)],
    "@%p st.shared.s32 [%a], %b;": [(WRITES, "%a", "shared", 4, 0)],
    "atom.global.add.u64 %x, [%w], %x;": [(READS, "%w", "global", 8, 0), (WRITES, "%w", "global", 8, 0)],
    "atom.shared.cas.b16 %h, [%a+2], %h, %h;": [(READS, "%a", "shared", 2, 2), (WRITES, "%a", "shared", 2, 2)],
    "atom.add.noftz.f16x2 %d, [%w], %a;": [(READS, "%w", "", 4, 0), (WRITES, "%w", "", 4, 0)],
    "red.shared.add.u32 [%a+8], %b;": [(READS, "%a", "shared", 4, 8), (WRITES, "%a", "shared", 4, 8)],
    "red.global.add.noftz.bf16x2 [%w], %b;": [(READS, "%w", "global", 4, 0), (WRITES, "%w", "global", 4, 0)],
    "red.global.add.v4.f32 [%w], {%a, %b, %c, %d};": [(READS, "%w", "global", 16, 0), (WRITES, "%w", "global", 16, 0)],
    "red.global.add.noftz.v2.f16x2 [%w], {%a, %b};": [(READS, "%w", "global", 8, 0), (WRITES, "%w", "global", 8, 0)],
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%a, %b}, [%c];": [
        (LANES, "", "", None, 0),
        (READS, "%c", "shared", None, 0),
    ],
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%c], {%a};": [
        (LANES, "", "", None, 0),
        (WRITES, "%c", "shared", None, 0),
    ],
    "shfl.sync.bfly.b32 %d, %a, 1, 31, -1;": [(LANES, "", "", None, 0)],
    "activemask.b32 %d;": [(LANES, "", "", None, 0)],
    "elect.sync %d|%p, -1;": [(LANES, "", "", None, 0)],
    "redux.sync.add.s32 %d, %a, -1;": [(LANES, "", "", None, 0)],
    "mov.u32 %d, %clock;": [(CLOCK, "", "", None, 0)],
    "mov.u64 %x, %globaltimer;": [(CLOCK, "", "", None, 0)],
    "mov.u64 %x, %clock64;": [(CLOCK, "", "", None, 0)],
    "mov.u32 %d, %tid.x;": [],
    "add.u32 %d, %a, %b;": [],
    "mad.lo.s32 %d, %a, %b, %c;": [],
}


@pytest.mark.parametrize("text", ACCESSES)
def test_what_an_instruction_does(text: str) -> None:
    statements = statements_of(whole_text(text, GIVEN, Target.parse("sm_100a")), "the text")
    (instruction,) = (each for each in flattened(statements) if isinstance(each, Instruction))
    effects = list(effects_of_lanes_and_memory(instruction))
    assert [(each.kind, each.base, each.space, each.size, each.offset) for each in effects] == ACCESSES[text]
    assert all(each.atomic == text.startswith(("atom", "red.")) for each in effects if each.space or each.size)
