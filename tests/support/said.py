"""What diagnostics say, without the lines of source that they show, and where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nvbackend import Diagnostic, DiagnosticError


def said(*diagnostics: Diagnostic) -> str:
    """Messages, fixes and notes. A line of the test itself may hold the words that the test expects."""
    lines = [line for one in diagnostics for line in (one.message, one.fix, *(note for note, _ in one.notes))]
    return "\n".join(lines)


def rule_here(call: Callable[[], Any]) -> str:
    """The rule that `call`, a function of the test's own, breaks: one alone, at a line of that file."""
    with pytest.raises(DiagnosticError) as caught:
        call()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.location is not None
    assert diagnostic.location.file == call.__code__.co_filename
    return diagnostic.rule_id
