"""Every barrier that a row of one's own can say it is, against every text of one and of two barriers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import pytest

from nvbackend.builder.ops.inline.claims import unfounded
from nvbackend.builder.ops.inline.text import statements_of, whole_text
from nvbackend.intrinsics.row.semantics import ThreadBarrier
from nvbackend.isel.target.target import Target
from nvbackend.ptx.syntax import Instruction, flattened
from nvbackend.rows import Asm, RegisterClass, Row, Scope, Semantics, operand


class Barrier(NamedTuple):
    """What the PTX ISA says of an instruction (9.7.13.1 to 9.7.13.3)."""

    scope: Scope
    arrives: bool
    waits: bool
    counts: bool = False


TEXTS = {
    "bar.sync 0;": Barrier(Scope.CTA, True, True),
    "bar.sync 1, 64;": Barrier(Scope.CTA, True, True, counts=True),
    "barrier.cta.sync.aligned 2;": Barrier(Scope.CTA, True, True),
    "barrier.sync 3, %r1;": Barrier(Scope.CTA, True, True, counts=True),
    "bar.arrive 4, 96;": Barrier(Scope.CTA, True, False, counts=True),
    "bar.red.popc.u32 %r2, 5, %p1;": Barrier(Scope.CTA, True, True),
    "bar.red.popc.u32 %r2, 6, 32, %p1;": Barrier(Scope.CTA, True, True, counts=True),
    "bar.warp.sync %r1;": Barrier(Scope.WARP, True, True),
    "barrier.cluster.arrive.aligned;": Barrier(Scope.CLUSTER, True, False),
    "barrier.cluster.wait.aligned;": Barrier(Scope.CLUSTER, False, True),
}
ELSE = "mov.u32 %r1, 7;"
DECLARED = [".reg .b32 %r<4>;", ".reg .pred %p<2>;"]
SAID = [
    ThreadBarrier(scope, *does)
    for scope, does in product((Scope.WARP, Scope.CTA, Scope.CLUSTER), [(True, True), (True, False), (False, True)])
]


def read(text: str) -> list[Instruction]:
    statements = statements_of(whole_text(text, DECLARED, Target.parse("sm_90a")), text)
    return [each for each in flattened(statements) if isinstance(each, Instruction)]


def row_of(said: ThreadBarrier, *, counted: bool) -> Row:
    threads = (operand("threads", RegisterClass.B32),) if counted else ()
    return Row("mine", "meet", "mine", threads, Asm("text"), semantics=Semantics(barrier=said), summary="Meets.")


def lacks(said: ThreadBarrier, barriers: Sequence[Barrier], *, counted: bool) -> bool:
    """Whether the row says more than its text does, or not how many threads take part."""
    own = [each for each in barriers if each.scope is said.scope]
    arrives, waits = any(each.arrives for each in own), any(each.waits for each in own)
    return (
        not own
        or (said.arrives and not arrives)
        or (said.waits and not waits)
        or (any(each.counts for each in own) and not counted)
    )


READ = {text: read(text) for text in (*TEXTS, ELSE)}


@pytest.mark.parametrize("said", SAID, ids=str)
def test_what_a_row_says_of_its_barrier_is_in_its_text(said: ThreadBarrier) -> None:
    for texts in [(), *((text,) for text in TEXTS), *product(TEXTS, repeat=2)]:
        instructions = [each for text in (ELSE, *texts) for each in READ[text]]
        for counted in (False, True):
            found = unfounded(row_of(said, counted=counted), instructions)
            assert (found is not None) is lacks(said, [TEXTS[text] for text in texts], counted=counted), (texts, found)
            assert found is None or found[0] == "barrier"
