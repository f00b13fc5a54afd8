"""What diagnostics say, without the lines of source that they show."""

from __future__ import annotations

from nvbackend import Diagnostic


def said(*diagnostics: Diagnostic) -> str:
    """Messages, fixes and notes. A line of the test itself may hold the words that the test expects."""
    lines = [line for one in diagnostics for line in (one.message, one.fix, *(note for note, _ in one.notes))]
    return "\n".join(lines)
