"""The user's lines by three ways that ask alike: once, with its callers; again and again; and the innermost alone."""

from __future__ import annotations

import random
import unittest
from collections.abc import Callable
from typing import Any

import pytest

from nvbackend.diagnostics.location import (
    MARK_OF_ENTRANCE,
    MARK_OF_PLUMBING,
    CallerChain,
    CallerFrames,
    caller_frame,
    caller_location,
)

FILES = {
    "user": "/home/user/{}.py",
    "installed": "/usr/lib/python3/site-packages/{}.py",
    "python": unittest.__file__,
    "ours": "/home/user/nvbackend/{}.py",
    "entrance": "/home/user/{}.py",
    "compiler": "/usr/lib/python3/site-packages/{}.py",
    "users compiler": "/home/user/{}.py",
}
MODULES = {"ours": "nvbackend.made_up", "entrance": "nvbackend.made_up"}
ASKED = 150
"""Chains of calls a seed."""


def link(kind: str, name: str) -> Callable[..., Any]:
    """A function of a file of that kind, which calls the next one."""
    module: dict[str, Any] = {"__name__": MODULES.get(kind, f"{kind.replace(' ', '_')}_module")}
    if kind == "entrance":
        module[MARK_OF_ENTRANCE] = True
    if "compiler" in kind:
        module[MARK_OF_PLUMBING] = True
    text = f"def {name}(rest):\n    return rest[0](rest[1:])\n"
    exec(compile(text, FILES[kind].format(name), "exec"), module)
    function: Callable[..., Any] = module[name]
    return function


KINDS = [*FILES]
LINKS = {(kind, number): link(kind, f"{kind.replace(' ', '_')}_{number}") for kind in KINDS for number in range(8)}


def expected(outer_first: list[str]) -> list[int]:
    """Which links are the user's lines, innermost first, counted from the innermost; -1 is the test's own function.

    A library that the program calls is shown, what called the program is not, and nothing that asked for a kernel.
    """
    shown: list[int] = []
    in_program = False
    for number, kind in enumerate(outer_first[::-1]):
        if kind == "entrance":
            if shown:
                return shown
        elif kind in ("installed", "python"):
            if in_program:
                return shown
            if kind == "installed" or shown:
                shown.append(number)
        elif kind == "user":
            shown.append(number)
            in_program = True
    return [*shown, -1]


ASKING = """
def asks(_):
    place = caller_location()
    lines = [place.function, *(each.function for each in place.callers)]
    again = [frame.f_code.co_name for frame in chain.frames()]
    return lines, again, frames.caller().f_code.co_name, caller_frame().f_code.co_name
"""


@pytest.mark.parametrize("seed", range(4))
def test_all_ways_tell_the_same_lines(seed: int) -> None:
    """Those that are asked again and again keep whose code it is, whatever led there before."""
    chance = random.Random(seed)
    module: dict[str, Any] = {"__name__": MODULES["ours"], "chain": CallerChain(), "frames": CallerFrames()}
    module |= {"caller_location": caller_location, "caller_frame": caller_frame}
    exec(compile(ASKING, FILES["ours"].format("asks"), "exec"), module)
    own = test_all_ways_tell_the_same_lines.__name__
    for _ in range(ASKED):
        kinds = chance.choices(KINDS, [6, 3, 1, 3, 1, 2, 1], k=chance.randint(0, 6))
        calls = [LINKS[kind, number] for number, kind in enumerate(kinds)]
        lines, again, known, innermost = [*calls, module["asks"]][0]([*calls[1:], module["asks"]] if calls else ())
        names = [*(each.__name__ for each in reversed(calls)), own]
        assert lines == [names[number] for number in expected(kinds)], kinds
        assert again == lines, kinds
        assert known == innermost == lines[0], kinds
