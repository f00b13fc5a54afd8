"""Runs examples and notes which public functions they call themselves: `python -m tests.support.recorder FILE...`.

A call by the package itself does not count, but an object that it makes does for the class. `--rules` also builds the
right program of each rule.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import json
import runpy
import sys
from collections.abc import Callable
from typing import Any

from tests.support.process import ROOT
from tests.support.public_calls import public_calls

__nvbackend_plumbing__ = True
RULES = str(ROOT / "tests" / "rules")


class Recorder:
    """Notes the name of every public function that code of a file calls whose path starts with one of `places`."""

    def __init__(self, places: tuple[str, ...]) -> None:
        self.called: set[str] = set()
        self._places = places
        for full, owner, name in list(public_calls()):
            self._note(full, owner, name)

    def _note(self, full: str, owner: Any, name: str) -> None:
        member = inspect.getattr_static(owner, name) if isinstance(owner, type) else getattr(owner, name)
        if isinstance(member, classmethod | staticmethod):
            noted: Any = type(member)(self._noted(full, name, member.__func__))
        else:
            noted = self._noted(full, name, member)
        type.__setattr__(owner, name, noted) if isinstance(owner, type) else setattr(owner, name, noted)

    def _noted(self, full: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            if name == "__init__" or sys._getframe(1).f_code.co_filename.startswith(self._places):
                self.called.add(full)
            return function(*arguments, **named)

        return call


def main(files: list[str], *, rules: bool) -> dict[str, Any]:
    """What the programs call, and all that is public."""
    public = [full for full, _, _ in public_calls()]
    recorder = Recorder((*files, *([RULES] if rules else [])))
    with contextlib.redirect_stdout(io.StringIO()):
        for file in files:
            with contextlib.suppress(SystemExit):
                runpy.run_path(file, run_name="__main__")
        if rules:
            _build_rules()
    return {"public": public, "called": sorted(recorder.called)}


def _build_rules() -> None:
    from tests.rules.example import Side
    from tests.rules.registry import examples

    for example in examples():
        example.diagnostics(Side.KEEPS)


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.stdout.write(json.dumps(main([one for one in given if one != "--rules"], rules="--rules" in given)))
