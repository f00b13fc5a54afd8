"""A block that is never opened is named as a program calls it, in the message and in the fix."""

import pytest

import nvbackend as nvb
from nvbackend import f16, i32

TILE = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64)
CALLS = {
    "k.if_": lambda k, n: k.if_(n > 0),
    "k.range": lambda k, n: k.range(n),
    "k.loop": lambda k, n: k.loop(),
    "k.one_thread": lambda k, n: k.one_thread(),
    "k.producer": lambda k, n: k.producer(registers=40),
    "k.allow": lambda k, n: k.allow("shared.missing-barrier"),
    "k.location": lambda k, n: k.location("a.dsl", 1),
    "k.mbarrier.scope": lambda k, n: k.mbarrier.scope(1, 1),
    "k.wgmma.group": lambda k, n: k.wgmma.group(),
    "k.tcgen05.tmem": lambda k, n: k.tcgen05.tmem(32),
    "ring.fill": lambda k, n: k.pipeline(2, 1, a=TILE).fill(),
    "ring.drain": lambda k, n: k.pipeline(2, 1, a=TILE).drain(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_without_with_is_named_as_it_is_written(call):
    @nvb.kernel("sm_100a" if "tcgen05" in call else "sm_90a", threads=256, min_ctas=1)
    def forgotten(k, n: i32):
        CALLS[call](k, n)

    with pytest.raises(nvb.DiagnosticError) as caught:
        forgotten.build()
    found = {one.rule_id: one for one in caught.value.diagnostics}["control.not-entered"]
    assert found.message.startswith(f"{call}(...) was called here")
    assert found.fix.startswith(f"write `with {call}(...):`")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("use", [bool, iter])
def test_a_call_in_a_statement_of_python_is_named_as_it_is_written(call, use):
    @nvb.kernel("sm_100a" if "tcgen05" in call else "sm_90a", threads=256, min_ctas=1)
    def mistaken(k, n: i32):
        use(CALLS[call](k, n))

    with pytest.raises(nvb.DiagnosticError, match=r"control\.with") as caught:
        mistaken.build()
    (found,) = caught.value.diagnostics
    assert found.message.startswith(f"{call}(...) is not a Python ")
    assert found.fix.startswith(f"write `with {call}(...)")
