"""Patterns that are compiled at their first use do what Python's do."""

from __future__ import annotations

import re
from typing import Any

import pytest

from nvbackend.diagnostics.classes import late_pattern as module
from nvbackend.diagnostics.classes.late_pattern import late_pattern

TEXT = "a1\nb22\n"


@pytest.mark.parametrize("flags", [0, re.MULTILINE, re.IGNORECASE])
@pytest.mark.parametrize("pattern", [r"^([a-z])(\d+)$", r"(?P<name>B)"])
def test_it_finds_what_the_pattern_finds(pattern: str, flags: int) -> None:
    late, expected = late_pattern(pattern, flags), re.compile(pattern, flags)
    for _ in range(2):
        assert late.findall(TEXT) == expected.findall(TEXT)
        assert late.sub("x", TEXT) == expected.sub("x", TEXT)
        assert (late.search(TEXT) is None) is (expected.search(TEXT) is None)
    assert (late.pattern, late.flags, late.groups) == (expected.pattern, expected.flags, expected.groups)


def test_it_is_compiled_at_its_first_use_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    compile_ = re.compile

    def counted(*given: Any) -> Any:
        compiled.append(given)
        return compile_(*given)

    monkeypatch.setattr(module.re, "compile", counted)
    late = late_pattern("a+", re.ASCII)
    assert compiled == []
    for _ in range(3):
        assert late.fullmatch("aa")
    assert compiled == [("a+", re.ASCII)]


def test_a_name_that_patterns_do_not_have_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'matches'"):
        _ = late_pattern("a").matches  # type: ignore[attr-defined]
