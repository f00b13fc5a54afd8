"""Runs examples and notes which public functions they call themselves: `python -m tests.support.recorder FILE...`.

A call by the package itself does not count, but an object that it makes does for the class. `--rules` also builds the
right program of each rule.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import runpy
import sys
from collections.abc import Callable
from typing import Any

from tests.support.members import member_of
from tests.support.process import ROOT
from tests.support.public_calls import public_calls

__nvbackend_plumbing__ = True
RULES = str(ROOT / "tests" / "rules")


class Recorder:
    """Notes every public name of a function that code of a file calls whose path starts with one of `places`.

    A function that is public in two places, or inherited, needs one example.
    """

    def __init__(self, places: tuple[str, ...]) -> None:
        self.called: set[str] = set()
        self._places = places
        names: dict[Any, list[tuple[str, Any, str]]] = {}
        for full, owner, name in public_calls():
            member = member_of(owner, name) if isinstance(owner, type) else getattr(owner, name)
            key = (owner, name) if name == "__init__" else getattr(member, "__func__", member)
            names.setdefault(key, []).append((full, owner, name))
        for same in names.values():
            self._note(same)

    def _note(self, same: list[tuple[str, Any, str]]) -> None:
        full = frozenset(full for full, _, _ in same)
        places = {
            (id(place), name): (place, name) for place, name in (_defined(owner, name) for _, owner, name in same)
        }
        for place, name in places.values():
            if isinstance(place, type):
                member = self._noted_member(full, name, member_of(place, name))
                type.__setattr__(place, name, member)
            else:
                setattr(place, name, self._noted(full, name, getattr(place, name)))

    def _noted_member(self, full: frozenset[str], name: str, member: Any) -> Any:
        if isinstance(member, classmethod | staticmethod):
            return type(member)(self._noted(full, name, member.__func__))
        return self._noted(full, name, member)

    def _noted(self, full: frozenset[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            if name == "__init__" or sys._getframe(1).f_code.co_filename.startswith(self._places):
                self.called |= full
            return function(*arguments, **named)

        return call


def _defined(owner: Any, name: str) -> tuple[Any, str]:
    """The class that defines the method, or the module."""
    if not isinstance(owner, type) or name == "__init__":
        return owner, name
    return next(base for base in owner.__mro__ if name in vars(base)), name


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
