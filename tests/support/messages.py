"""What a test file's diagnostics say, word for word: a golden of its own.

Tests of misuse ask for a rule's id and a few words. Every diagnostic that reaches a `pytest.raises` of a file that has
a golden in `goldens/messages` beside it is looked up there, with its message, its fix and its notes. So each branch of
a text has a witness, and a value that is put in the wrong place is seen.

Analyses return what they find, and raise nothing: with a golden in `goldens/diagnosed`, every diagnostic that is made
while a test of the file runs is looked up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
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
        """Within it, what is said is looked up in the goldens of the test file that are there. Fails after it."""
        with ExitStack() as stack:
            for folder, listening, write in (("messages", _raised, written), ("diagnosed", _made, ranked)):
                golden = file.parent / "goldens" / folder / f"{file.stem}.txt"
                if golden.exists():
                    stack.enter_context(self._looked_up(golden, partial(listening, write)))
            yield

    @contextmanager
    def _looked_up(self, golden: Path, listening: Callable[[set[str]], AbstractContextManager[None]]) -> Iterator[None]:
        texts = set[str]()
        with listening(texts):
            yield
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


Written = Callable[[Diagnostic], str]
_TRIED = ("row.axis",)
"""What is made and caught where rows are looked for: how often depends on the rows that a process has already."""


@contextmanager
def _raised(write: Written, texts: set[str]) -> Iterator[None]:
    """Within it, `pytest.raises` adds the texts of what it catches."""
    kind: Any = type(pytest.raises(DiagnosticError))
    leave = kind.__exit__

    def left(own: Any, *raised: Any) -> bool:
        if isinstance(raised[1], DiagnosticError):
            texts.update(map(write, raised[1].diagnostics))
        return bool(leave(own, *raised))

    kind.__exit__ = left
    try:
        yield
    finally:
        kind.__exit__ = leave


@contextmanager
def _made(write: Written, texts: set[str]) -> Iterator[None]:
    """Within it, each diagnostic that is made adds its text."""
    kind: Any = Diagnostic
    make = kind.__init__

    def made(own: Any, *args: Any, **kwargs: Any) -> None:
        make(own, *args, **kwargs)
        if own.rule_id not in _TRIED:
            texts.add(write(own))

    kind.__init__ = made
    try:
        yield
    finally:
        kind.__init__ = make


def written(diagnostic: Diagnostic) -> str:
    """A diagnostic as one line, without the places that it names."""
    text = _parts(diagnostic)
    for pattern, instead in _UNSTEADY:
        text = pattern.sub(instead, text)
    return text.encode("unicode_escape").decode("ascii")


_LINE = re.compile(r"(\.(?:py|ptx|cu):|\blines? |\band (?=\d+ of \S+\.py))(\d+)")


def ranked(diagnostic: Diagnostic) -> str:
    """As `written`, with its lines and those of its notes, all numbered in their order in the file, from 1 on.

    So it is seen when two are interchanged, and not when others are added above them.
    """
    places = [diagnostic.location, *(place for _, place in diagnostic.notes)]
    file = None if diagnostic.location is None else diagnostic.location.file
    lines = [place.line if place is not None and place.file == file else None for place in places]
    text = _parts(diagnostic)
    numbers = {int(number) for _, number in _LINE.findall(text)} | {line for line in lines if line is not None}
    ranks = {number: place for place, number in enumerate(sorted(numbers), start=1)}
    text = _LINE.sub(lambda found: f"{found[1]}<{ranks[int(found[2])]}>", text)
    for pattern, instead in _UNSTEADY:
        text = pattern.sub(instead, text)
    at = " ".join("-" if line is None else f"<{ranks[line]}>" for line in lines)
    return f"{text} | at {at}".encode("unicode_escape").decode("ascii")


def _parts(diagnostic: Diagnostic) -> str:
    notes = [f"note: {text}" for text, _ in diagnostic.notes]
    return " | ".join((f"{diagnostic.rule_id}: {diagnostic.message}", f"fix: {diagnostic.fix}", *notes))
