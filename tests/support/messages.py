"""What a test file's diagnostics say, word for word: a golden of its own.

Tests of misuse ask for a rule's id and a few words. Every diagnostic that reaches a `pytest.raises` of a file that has
a golden in `goldens/messages` beside it is looked up there, with its message, its fix and its notes. So each branch of
a text has a witness, and a value that is put in the wrong place is seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nvbackend.diagnostics import Diagnostic, DiagnosticError
from tests.support.process import ROOT

_UNSTEADY = (
    (re.compile(re.escape(f"{ROOT}/")), ""),
    (re.compile(r"/\S*/pytest-of-[^/]+/pytest-\d+/(popen-gw\d+/)?"), ".../"),
    (re.compile(r"(\.py:)\d+"), r"\1N"),
    (re.compile(r"\b(lines? )\d+"), r"\1N"),
    (re.compile(r"\b0x[0-9a-f]{9,16}\b"), "0x..."),
    (re.compile(r"\bMachineInstr\(.*?\.\.\.\)"), "MachineInstr(...)"),  # cut after a place, which may be long
)
"""Places of this machine, of this process, and of lines in a test file, and what is written for each."""


class Messages:
    """The texts of diagnostics that tests have caught, by test file; `update` writes them instead of comparing."""

    def __init__(self, *, update: bool, whole: bool) -> None:
        self._update = update
        self._whole = whole
        """Whether files run as a whole, so that what is not said any more is left out."""
        self._known: dict[Path, set[str]] = {}
        self._caught: dict[Path, set[str]] = {}

    @contextmanager
    def held(self, file: Path) -> Iterator[None]:
        """Within it, what `pytest.raises` catches is looked up in the golden of the test file. Fails after it."""
        golden = file.parent / "goldens" / "messages" / f"{file.stem}.txt"
        if not golden.exists():
            yield
            return
        kind: Any = type(pytest.raises(DiagnosticError))
        leave, texts = kind.__exit__, set[str]()

        def left(own: Any, *raised: Any) -> bool:
            if isinstance(raised[1], DiagnosticError):
                texts.update(map(written, raised[1].diagnostics))
            return bool(leave(own, *raised))

        kind.__exit__ = left
        try:
            yield
        finally:
            kind.__exit__ = leave
        self._caught.setdefault(golden, set()).update(texts)
        if not self._update:
            new = sorted(texts - self._of(golden))
            assert not new, f"not in {golden}; read it, and bless it with pytest --update-golden:\n" + "\n".join(new)

    def _of(self, golden: Path) -> set[str]:
        if golden not in self._known:
            self._known[golden] = set(golden.read_text(encoding="utf-8").splitlines())
        return self._known[golden]

    def write(self) -> None:
        """Write what was caught, where the goldens are updated."""
        for golden, texts in self._caught.items() if self._update else ():
            kept = texts if self._whole else texts | self._of(golden)
            golden.write_text("".join(f"{text}\n" for text in sorted(kept)), encoding="utf-8")


def written(diagnostic: Diagnostic) -> str:
    """A diagnostic as one line, without the places that it names."""
    notes = [f"note: {text}" for text, _ in diagnostic.notes]
    parts = (f"{diagnostic.rule_id}: {diagnostic.message}", f"fix: {diagnostic.fix}", *notes)
    text = " | ".join(parts)
    for pattern, instead in _UNSTEADY:
        text = pattern.sub(instead, text)
    return text.encode("unicode_escape").decode("ascii")
