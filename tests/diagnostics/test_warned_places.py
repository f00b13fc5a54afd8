"""Where Python's warnings point: at the place that is known, else at the user's line."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import replace

import pytest

import nvbackend as nvb
from nvbackend import f32
from nvbackend.diagnostics import Location, announce
from nvbackend.diagnostics.announce import Suppressed, warn
from nvbackend.diagnostics.deprecated import Deprecation
from nvbackend.dry_run import runs

RULE = nvb.Rule(
    id="test.warned", message="{what}", fix="none", why="none", reference="none", severity=nvb.Severity.WARNING
)
SOMEWHERE = Location("model.dsl", 17, "scale")
OLD = Deprecation("tile", "shape", "0.2", "0.4")


def line() -> int:
    """The caller's line."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_a_diagnostic_is_told_at_its_place_or_at_the_users_line() -> None:
    found = [replace(RULE.diagnose(what=what), location=at) for what, at in (("first", SOMEWHERE), ("second", None))]
    here = line() + 2
    with pytest.warns(nvb.DiagnosticWarning) as told:
        announce.announce(found, [Suppressed(RULE.diagnose(what="third"), "it is known")])
    assert [(each.filename, each.lineno) for each in told] == [("model.dsl", 17), (__file__, here)]
    assert [str(each.message) for each in told] == list(map(str, found))


def test_a_deprecation_is_told_at_the_users_line() -> None:
    here = line() + 2
    with pytest.warns(nvb.DeprecatedWarning) as told:
        OLD.warn()
    assert [(each.filename, each.lineno, str(each.message)) for each in told] == [(__file__, here, str(OLD))]


def test_a_dry_run_that_fails_is_told_at_the_line_that_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is built all the same."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("of its own")

    @nvb.kernel("sm_90a", threads=32)
    def fill(k: nvb.KernelBuilder, out: nvb.Pointer[f32]) -> None:  # type: ignore[valid-type]
        out[k.thread_id()] = 1.0

    monkeypatch.setattr(runs, "check", fail)
    here = line() + 2
    with pytest.warns(RuntimeWarning) as told:
        finished = fill.build()
    assert finished.diagnostics == ()
    assert [(each.filename, each.lineno) for each in told] == [(__file__, here)]
    assert str(told[0].message) == "the dry run of fill failed: ZeroDivisionError('of its own')"


def test_where_the_package_is_the_program_no_line_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announce, "caller_location", lambda: None)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warn("text", nvb.DiagnosticWarning)
    assert [(each.filename, each.lineno, each.category) for each in told] == [("nvbackend", 0, nvb.DiagnosticWarning)]
