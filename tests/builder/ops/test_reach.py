"""How far the text of a row goes from an address without a gap, against the set of its bytes."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from nvbackend.builder.ops.inline.effects import READS, WRITES, TextEffect
from nvbackend.builder.ops.inline.reach import reaches
from nvbackend.intrinsics.row.row import RegisterClass, Row
from nvbackend.ptx.parser import parse
from nvbackend.ptx.syntax import Instruction
from nvbackend.rows import Asm, Semantics, operand, writes

TEXT = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry store() {
  .reg .b32 %r<3>;
  .reg .pred %p<2>;
  st.shared.u32 [%r1], %r2;
  @%p1 st.shared.u32 [%r1], %r2;
}
"""
STORE, GUARDED = [each for each in parse(TEXT).kernels["store"].body.statements if isinstance(each, Instruction)]
ROW = Row(
    family="mine",
    opcode="st.mine",
    ptx="st.shared.u32",
    operands=(operand("address", RegisterClass.SHARED, align=4), operand("value", RegisterClass.B32)),
    lowering=Asm("{ptx} [{address}], {value};"),
    semantics=Semantics(memory=(writes("address", None),)),
    summary="Stores words.",
)
ACCESSES = st.lists(st.tuples(st.integers(-4, 12), st.integers(1, 8), st.sampled_from([READS, WRITES])), max_size=5)


@settings(max_examples=60, deadline=None)
@given(ACCESSES)
def test_the_reach_is_what_is_accessed_without_a_gap(accesses: list[tuple[int, int, str]]) -> None:
    effects = [
        ("address", TextEffect(STORE, kind, "%r1", "shared", size, offset=offset)) for offset, size, kind in accesses
    ]
    touched = {offset + byte for offset, size, _ in accesses for byte in range(size)}
    end = next(byte for byte in count() if byte not in touched)
    assert reaches(ROW, effects) == ({"address": end} if end else {})


def test_what_only_some_threads_access_does_not_count() -> None:
    known = TextEffect(STORE, WRITES, "%r1", "shared", 4)
    for unsure in (replace(known, instruction=GUARDED, offset=4), replace(known, size=None, offset=4)):
        assert reaches(ROW, [("address", known), ("address", unsure)]) == {"address": 4}
        assert reaches(ROW, [("address", unsure)]) == {}


def test_what_the_semantics_say_is_not_asked_of_the_text() -> None:
    """Of two addresses, that alone whose extent they leave out."""
    known = TextEffect(STORE, WRITES, "%r1", "shared", 8)
    effects = [("address", known), ("other", replace(known, size=16))]
    for address, other in ((None, 4), (4, None), (4, 4), (None, None)):
        row = replace(ROW, semantics=Semantics(memory=(writes("address", address), writes("other", other))))
        said = {"address": (address, 8), "other": (other, 16)}
        assert reaches(row, effects) == {name: size for name, (extent, size) in said.items() if extent is None}
