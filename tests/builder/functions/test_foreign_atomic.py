"""Which calls of foreign functions count as atomic accesses."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from nvbackend import u32
from tests.builder.functions.test_foreign import of_text

ATOMIC = "atom.shared.add.u32 %r1, [%d1], 1;"
LOAD, STORE = "ld.shared.u32 %r1, [%d1];", "st.shared.u32 [%d1], %r1;"


@pytest.mark.parametrize(
    ("body", "effects", "is_atomic"),
    [
        (ATOMIC, ("reads p", "writes p"), True),
        (ATOMIC + ATOMIC, ("reads p", "writes p"), True),
        (ATOMIC + "mov.u32 %r1, %clock;", ("reads p", "writes p", "volatile"), True),
        (LOAD, ("reads p",), False),
        (ATOMIC + LOAD, ("reads p", "writes p"), False),
        (STORE + ATOMIC, ("reads p", "writes p"), False),
        ("", ("reads p", "writes p"), False),
    ],
)
def test_a_call_counts_as_atomic_where_all_that_it_does_with_memory_is(body, effects, is_atomic):
    """One that does less than it declares does not: what it declares is taken for plain accesses."""
    text = of_text(f"ld.param.u64 %d1, [p]; {body} st.param.b32 [r], 0;", parameters=".param .b64 p")
    pointer = nvb.Pointer(u32, space="shared", align=4)
    counted = nvb.extern_function("f", {"p": pointer}, u32, ptx=text, effects=effects)
    k = nvb.KernelBuilder("k", "sm_90", threads=32)
    shared = k.shared(u32, 32)
    counted(k, shared + k.thread_id())
    (call,) = [each for each in k.core.machine.instructions() if each.opcode.startswith("call")]
    assert call.row.semantics.atomic is is_atomic
