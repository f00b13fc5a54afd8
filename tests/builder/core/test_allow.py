"""Rules that an author allows: what is suppressed, printed and warned of."""

from __future__ import annotations

import logging
import warnings

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f32

RACE = "shared.race"


def racing(k, x: nvb.Pointer[f32]):
    box = k.shared(f32, 128)
    i = k.thread_id()
    box[i] = x[i]
    x[i] = box[127 - i]


def rules_of(call) -> list[str]:
    with pytest.raises(DiagnosticError) as caught:
        call()
    return [each.rule_id for each in caught.value.diagnostics]


def broken_by() -> str:
    (rule,) = set(rules_of(nvb.kernel("sm_90a", threads=128)(racing).build))
    return rule


def test_a_kernel_allows_a_rule_and_the_report_says_so() -> None:
    rule = broken_by()
    kernel = nvb.kernel("sm_90a", threads=128, allow={rule: "the reader takes either value"})(racing)
    finished = kernel.build()
    assert {each.diagnostic.rule_id for each in finished.suppressed} == {rule}
    report = kernel.compile().report()
    assert f"error[{rule}]" in report
    assert "allowed: the reader takes either value" in report
    assert "1 suppressed" in report


def test_a_block_allows_what_is_in_it() -> None:
    rule = broken_by()

    @nvb.kernel("sm_90a", threads=128)
    def inside(k, x: nvb.Pointer[f32]):
        box = k.shared(f32, 128)
        i = k.thread_id()
        with k.allow(rule, reason="tried on purpose"):
            box[i] = x[i]
            x[i] = box[127 - i]

    @nvb.kernel("sm_90a", threads=128)
    def outside(k, x: nvb.Pointer[f32]):
        box = k.shared(f32, 128)
        i = k.thread_id()
        with k.allow(rule, reason="elsewhere"):
            other = box[i] if False else x[i]
        box[i] = other
        x[i] = box[127 - i]

    assert inside.build().suppressed[0].reason == "tried on purpose"
    assert rule in rules_of(outside.build)


def test_what_allows_nothing_is_a_warning() -> None:
    rule = broken_by()

    @nvb.kernel("sm_90a", threads=32, allow=(rule,))
    def right(k, x: nvb.Pointer[f32]):
        x[k.thread_id()] = k.const(1.0, f32)

    with pytest.warns(nvb.DiagnosticWarning, match="allow.unused") as caught:
        finished = right.build()
    assert [each.rule_id for each in finished.diagnostics] == ["allow.unused"]
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", nvb.DiagnosticWarning)
        with pytest.raises(nvb.DiagnosticWarning):
            right.build()


def test_suppressions_and_warnings_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    rule = broken_by()
    with caplog.at_level(logging.INFO, logger="nvbackend"):
        nvb.kernel("sm_90a", threads=128, allow={rule: "why"})(racing).build()
    assert any("allowed: why" in record.message for record in caplog.records)


def test_legality_and_unknown_rules_are_refused() -> None:
    def decorated(rule: str):
        return nvb.kernel("sm_90a", threads=128, allow=(rule,))(racing).build

    assert rules_of(decorated("target.feature")) == ["allow.legality"]
    assert rules_of(decorated("wgmma.n-step")) == ["allow.legality"]
    with pytest.raises(DiagnosticError) as caught:
        decorated("wgmma.read-in-fligt")()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "allow.unknown"
    assert "'wgmma.read-in-flight'" in diagnostic.fix


@pytest.mark.parametrize(
    ("allow", "shown"),
    [
        ("shared.race", "'shared.race' is one text"),
        ({5: "x"}, "5 is not a text"),
        ({RACE: 5}, "the reason of 'shared.race' is 5"),
        ({RACE: None}, "the reason of 'shared.race' is None"),
        ({RACE: " "}, "the reason of 'shared.race' is empty"),
    ],
)
def test_allowances_of_another_form_are_refused(allow: object, shown: str) -> None:
    def direct() -> None:
        nvb.KernelBuilder("k", "sm_90a", threads=32, allow=allow)

    for call in (direct, nvb.kernel("sm_90a", threads=128, allow=allow)(racing).build):
        with pytest.raises(DiagnosticError) as caught:
            call()
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.rule_id == "allow.form"
        assert shown in diagnostic.message


def test_a_block_allows_with_a_reason_in_words() -> None:
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)

    def block() -> None:
        with k.allow("shared.missing-barrier", reason=5):
            pass

    assert rules_of(block) in (["allow.form"], ["call.argument"])
