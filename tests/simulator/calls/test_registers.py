"""setmaxnreg: the pool of a CTA, and waits that nothing ends."""

from __future__ import annotations

import pytest

from nvbackend import DiagnosticError
from tests.simulator.calls.bodies import rules, run

ROLES = "shr.u32 %r3, %r0, 7; setp.eq.u32 %p2, %r3, 0;"
PRODUCER = "setmaxnreg.dec.sync.aligned.u32 {low};"
CONSUMER = "setmaxnreg.inc.sync.aligned.u32 {high};"
FLAG = "st.shared.u32 [%r1], 1; bar.sync 0; ld.shared.u32 %r4, [%r1]; setp.eq.u32 %p3, %r4, {value};"


def specialised(producer: str, consumer: str) -> str:
    roles = f"@%p2 bra PRODUCER;\n{consumer}\nbra END;\nPRODUCER: {producer}\nEND: bar.sync 0;"
    return f"{FLAG.format(value=1)}{ROLES}\n{roles}"


@pytest.mark.parametrize("high", [24, 168, 232, 240])
def test_an_inc_waits_for_the_dec_of_the_others(high):
    body = specialised(PRODUCER.format(low=24), CONSUMER.format(high=high))
    for seed in range(3):
        assert rules(body, threads=384, seed=seed) == []


@pytest.mark.parametrize(
    ("producer", "consumer"),
    [
        (PRODUCER.format(low=24), CONSUMER.format(high=248)),
        (PRODUCER.format(low=48), CONSUMER.format(high=232)),
        ("bar.sync 1; " + PRODUCER.format(low=24), CONSUMER.format(high=232) + " bar.sync 1;"),
        ("@!%p3 " + PRODUCER.format(low=24) + "@%p3 bar.sync 1;", CONSUMER.format(high=232) + " bar.sync 1;"),
    ],
    ids=["too many", "too few given back", "in the wrong order", "under a condition"],
)
def test_an_inc_that_nothing_ends(producer, consumer):
    for seed in range(2):
        with pytest.raises(
            DiagnosticError, match=r"setmaxnreg.inc to 2[34].* asks for [0-9]+ more, and the pool"
        ) as caught:
            run(specialised(producer, consumer), threads=384, seed=seed)
        assert [one.rule_id for one in caught.value.diagnostics] == ["simulator.deadlock"]


def test_the_numbers_of_the_pool():
    """384 threads have 168 registers each; two warpgroups want 64 more for each of their 256 threads."""
    with pytest.raises(DiagnosticError) as caught:
        run(specialised("bar.sync 1;", CONSUMER.format(high=232)), threads=384)
    text = str(caught.value)
    assert f"asks for {64 * 256} more, and the pool of the CTA has 0" in text
    assert "its warpgroups hold 168, 168, 168 a thread" in text


def test_a_dec_to_more_than_there_is():
    assert [rule for rule, _ in rules("setmaxnreg.dec.sync.aligned.u32 240;", threads=384)] == ["setmaxnreg.order"]


def test_a_warp_that_ends_gives_its_registers_back():
    assert rules(f"{ROLES}\n@%p2 bra END;\n{CONSUMER.format(high=232)}\nEND:", threads=384) == []
