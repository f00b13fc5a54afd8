"""Patterns of `re` that are compiled at their first use: a fresh process imports dozens, and needs few."""

from __future__ import annotations

import re
from typing import Any, cast


class _LatePattern:
    """Has each method of the pattern from its first use."""

    def __init__(self, text: str, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        member = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, member)
        return member


def late_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, of which only the attributes are there: functions of `re` do not take it."""
    return cast("re.Pattern[str]", _LatePattern(text, flags))
