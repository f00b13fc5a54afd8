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
    Location,
    caller_frame,
    caller_location,
    placed,
)

FILES = {
    "user": "/home/user/{}.py",
    "installed": "/usr/lib/python3/site-packages/{}.py",
    "python": unittest.__file__,
    "ours": "/home/user/nvbackend/{}.py",
    "installed ours": "/usr/lib/python3/site-packages/nvbackend/{}.py",
    "entrance": "/home/user/{}.py",
    "compiler": "/usr/lib/python3/site-packages/{}.py",
    "users compiler": "/home/user/{}.py",
}
MODULES = {"ours": "nvbackend.made_up", "installed ours": "nvbackend.made_up", "entrance": "nvbackend.made_up"}
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


KINDS = [kind for kind in FILES if kind != "installed ours"]
LINKS = {(kind, number): link(kind, f"{kind.replace(' ', '_')}_{number}") for kind in FILES for number in range(8)}


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
    assert alike(chain.location(), place)
    return lines, again, frames.caller().f_code.co_name, caller_frame().f_code.co_name
"""


def alike(one: Location | None, other: Location | None) -> bool:
    """Whether two places are the same, with their callers, which do not count in comparisons."""
    if one is None or other is None:
        return one is other
    return one == other and len(one.callers) == len(other.callers) and all(map(alike, one.callers, other.callers))


@pytest.mark.parametrize("seed", range(4))
def test_the_place_of_what_asks_again_is_that_of_what_asks_once(seed: int) -> None:
    """Also in an installed package, and where a place is stated."""
    chance, chain = random.Random(seed), CallerChain()
    module: dict[str, Any] = {"__name__": MODULES["ours"], "chain": chain, "caller_location": caller_location}
    exec(compile("def asks(_): return chain.location(), caller_location()", FILES["ours"], "exec"), module)
    stated = Location("stated.py", 3, "stated")
    for _ in range(ASKED):
        kinds = chance.choices([*FILES], k=chance.randint(0, 7))
        calls = [*(LINKS[kind, chance.randrange(8)] for kind in kinds), module["asks"]]
        assert alike(*calls[0](calls[1:])), kinds
        with placed(stated):
            one, other = calls[0](calls[1:])
        assert alike(one, other)
        assert other == stated
    with placed():
        assert alike(*module["asks"](()))


@pytest.mark.parametrize("seed", range(4))
def test_all_ways_tell_the_same_lines(seed: int) -> None:
    """Those that are asked again and again keep whose code it is, whatever led there before."""
    chance = random.Random(seed)
    module: dict[str, Any] = {
        "__name__": MODULES["ours"],
        "chain": CallerChain(),
        "frames": CallerFrames(),
        "alike": alike,
    }
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
