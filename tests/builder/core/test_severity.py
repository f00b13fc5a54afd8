"""Rules whose severity a kernel changes: what becomes a warning, what an error, and where a warning is seen."""

from __future__ import annotations

import logging

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f32
from nvbackend.builder.scopes.allow import UNUSED

RULE = "shared.missing-barrier"
"""What `racing` breaks."""


def racing(k, x: nvb.Pointer[f32]):
    box = k.shared(f32, 128)
    i = k.thread_id()
    box[i] = x[i]
    x[i] = box[127 - i]


def definition(severity, **more):
    return nvb.kernel("sm_90a", threads=128, severity=severity, **more)(racing)


@pytest.mark.parametrize("severity", ["warning", nvb.Severity.WARNING])
def test_an_error_becomes_a_warning(severity, caplog) -> None:
    with caplog.at_level(logging.WARNING), pytest.warns(nvb.DiagnosticWarning, match=RULE):
        finished = definition({RULE: severity}).build()
    assert {each.rule_id for each in finished.diagnostics} == {RULE}
    assert all(each.severity is nvb.Severity.WARNING for each in finished.diagnostics)
    assert f"warning[{RULE}]" in caplog.text
    assert __file__ in caplog.text
    with pytest.warns(nvb.DiagnosticWarning):
        report = definition({RULE: severity}).compile().report()
    assert f"warning[{RULE}]" in report
    with pytest.raises(DiagnosticError):  # the rule itself is as it was
        definition(None).build()


def test_a_warning_stays_one_in_what_with_makes() -> None:
    with pytest.warns(nvb.DiagnosticWarning):
        definition({RULE: "warning"}).with_(name="other").build()


def test_an_error_stays_an_error_and_what_is_allowed_is_not_reported() -> None:
    with pytest.raises(DiagnosticError):
        definition({RULE: "error"}).build()
    assert definition({RULE: "error"}, allow={RULE: "either value will do"}).build().diagnostics == ()


def test_a_warning_becomes_an_error() -> None:
    """Of a protocol: the warnings that the analyses have."""
    from nvbackend.builder.scopes import allow

    allowances = allow.Allowances()
    warned = allow.Severity.WARNING
    allowances.of_severity({RULE: "error"})
    rule = nvb.Rule(id=RULE, message="m", fix="f", why="w", reference="r", severity=warned)
    (kept,) = allowances.kept([rule.diagnose()])
    assert kept.severity is nvb.Severity.ERROR
    assert UNUSED.severity is warned


@pytest.mark.parametrize(
    ("severity", "rule"),
    [
        ({"target.feature": "warning"}, "allow.legality"),
        ({"value.type": "warning"}, "allow.legality"),
        ({"shared.mising-barrier": "warning"}, "allow.unknown"),
        ({RULE: "off"}, "allow.form"),
        ({RULE: None}, "allow.form"),
        ({5: "warning"}, "allow.form"),
        ((RULE,), "call.argument"),
    ],
)
def test_what_is_refused(severity, rule) -> None:
    with pytest.raises(DiagnosticError) as error:
        definition(severity).build()
    assert [each.rule_id for each in error.value.diagnostics] == [rule]
    location = error.value.diagnostics[0].location
    assert location is not None
    assert location.file == __file__


def test_an_allowance_for_nothing_is_at_the_function() -> None:
    def right(k, x: nvb.Pointer[f32]):
        x[k.thread_id()] = 1.0

    with pytest.warns(nvb.DiagnosticWarning, match=r"allow\.unused"):
        (warning,) = nvb.kernel("sm_90a", threads=128, allow={RULE: "there was one"})(right).build().diagnostics
    assert warning.location is not None
    assert warning.location.line == right.__code__.co_firstlineno
