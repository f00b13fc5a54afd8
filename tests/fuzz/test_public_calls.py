"""Every public callable with arguments of other types: it takes them or raises a Diagnostic, nothing else."""

from __future__ import annotations

import enum
import inspect
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.runtime import device, driver, timing
from tests.api.document import is_made_by_calls
from tests.api.public import names
from tests.api.things import SCENES
from tests.support.fuzz import JUNK, Attempts
from tests.support.hostile import HOSTILE
from tests.support.members import member_of

ODD: tuple[object, ...] = (
    *JUNK,
    *(-0.0, 1 << 70, b"x", (2, (3, 4)), ("a",), [1.5], {1}, {"a": 1}, range(3), iter(()), complex(1, 2)),
    *(np.float32(1), np.array([1, 2]), np.zeros((2, 2)), len, int, type, nvb, nvb.Severity, nvb.layout.Layout((2, 2))),
    *(nvb.Target.parse("sm_90a"), nvb.mma.sync("m16n8k16", nvb.f16, nvb.f16, nvb.f32), nvb.Pointer(nvb.f32)),
)


def _absurd() -> tuple[object, ...]:
    """What no program means: numbers and texts without end, nests, and what another builder or a closed block gave."""
    nest: list[object] = []
    nest.append(nest)
    deep: object = 1
    for _ in range(5000):
        deep = (deep,)
    other = nvb.KernelBuilder("other", "sm_90a", threads=128)
    thread = other.thread_id()
    with other.if_(thread < 3):
        inside = thread + 1
    return (
        *(nest, deep, other, thread, inside, other.mbarrier.array(1, arrivals=1), 10**5000, float("-inf"), -5),
        *("a\x00b", "\ud800", "x" * 100_000, [[[[]]]], {"a": {"b": []}}, {None: None}, [None] * 3, (1, (2, (3, (4,))))),
        *(
            slice(None),
            memoryview(b"ab"),
            bytearray(b"x"),
            frozenset({1}),
            NotImplemented,
            b"\xff\x00",
            ValueError("x"),
        ),
    )


ABSURD = (*_absurd(), *HOSTILE)
COUNT, LONG_COUNT = 12, 400
SLOW = {"CompiledKernel.html": 20, "KernelDefinition.build": 20}
"""What takes a second each time, and how often it is tried at most."""
ABSURD_SHARE = 0.4
PROTOCOLS = {"nvb.runtime.Compiled"}
OF_PROGRAMS = {"nvb.Diagnostic", "nvb.Rule", "nvb.DiagnosticError"}
"""What reports a mistake: it is made by this package, and its methods raise."""


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions, constructors, static and class methods."""
    for name, given in names().items():
        if isinstance(given, FunctionType):
            yield name, given
        elif isinstance(given, type) and name not in PROTOCOLS | OF_PROGRAMS:
            if not is_made_by_calls(given):
                yield name, given
            for part in _public(given):
                if isinstance(member_of(given, part), staticmethod | classmethod):
                    yield f"{name}.{part}", getattr(given, part)


def methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of an object of every public class, but for those that start a program each time.

    What a class has from Python's own, such as the `index` of a Sequence, raises as Python's own does.
    """
    ours = tuple(one for one in names().values() if isinstance(one, type) and not issubclass(one, enum.Enum))
    seen = set()
    for thing in [thing for scene in SCENES for thing in scene()]:
        if type(thing) not in ours or isinstance(thing, nvb.DiagnosticError | nvb.Diagnostic | nvb.Rule):
            continue
        for part in _public(type(thing)):
            kind = member_of(type(thing), part)
            if (
                isinstance(kind, FunctionType)
                and kind.__module__.startswith("nvbackend.")
                and part != "sass"
                and (type(thing), part) not in seen
                and _takes_arguments(kind)
            ):
                seen.add((type(thing), part))
                yield f"{type(thing).__name__}.{part}", getattr(thing, part)


def _public(cls: type) -> list[str]:
    return [one for one in dir(cls) if not one.startswith("_")]


def _takes_arguments(function: FunctionType) -> bool:
    """Besides options by name, which are passed on."""
    kinds = [one.kind for one in inspect.signature(function).parameters.values()]
    return len(kinds) - (inspect.Parameter.VAR_KEYWORD in kinds) > 1


def _odd(rng: random.Random, annotation: object) -> object:
    """Something of any kind, but no function for a function: what the user's own code raises is the user's."""
    runs_it = re.search(r"Callable|Cut\b|Operation\b", str(annotation))
    among = ABSURD if rng.random() < ABSURD_SHARE else ODD
    return rng.choice([one for one in among if not callable(one)] if runs_it else among)


def oddly(rng: random.Random, function: Callable[..., Any]) -> tuple[list[object], dict[str, object]]:
    """Arguments of any kind for every parameter that must have one, and for some of the others."""
    positional: list[object] = []
    named: dict[str, object] = {}
    for place, parameter in enumerate(inspect.signature(function).parameters.values()):
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += [_odd(rng, parameter.annotation) for _ in range(rng.randrange(3))]
        elif parameter.kind is not parameter.VAR_KEYWORD:
            if parameter.default is not parameter.empty and rng.random() < 0.6:
                continue
            if parameter.kind is not parameter.KEYWORD_ONLY and len(positional) == place:
                positional.append(_odd(rng, parameter.annotation))
            else:
                named[parameter.name] = _odd(rng, parameter.annotation)
    return positional, named


def run(made: Iterator[tuple[str, Callable[..., Any]]], count: int, seed: int) -> Attempts:
    attempts = Attempts(random.Random(seed))
    for name, function in made:
        for _ in range(min(count, SLOW.get(name, count))):
            args, kwargs = oddly(attempts.rng, function)
            attempts.attempt(_exhausted, function, *args, **kwargs)
    return attempts


def _exhausted(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> object:
    """The result, with what a generator gives."""
    found = function(*args, **kwargs)
    return list(found) if inspect.isgenerator(found) else found


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a call writes, and the user's cache, are in a folder of the test. There is no GPU.

    An integer for a stream or an array may be an address, which the driver follows: a wrong one ends the process.
    """
    for module in (driver, device, timing):
        monkeypatch.setattr(module, "no_gpu_reason", lambda: "this test has none")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("made", [callables, methods])
def test_every_public_call_takes_or_refuses_them(made: Callable[[], Iterator[tuple[str, Callable[..., Any]]]]) -> None:
    attempts = run(made(), COUNT, 1)
    assert attempts.failures == {}
    assert attempts.requests > 1000
    assert 0 < attempts.answered < attempts.requests / 2


@pytest.mark.exhaustive(seconds=120)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("made", [callables, methods])
def test_for_many_arguments(made: Callable[[], Iterator[tuple[str, Callable[..., Any]]]]) -> None:
    assert run(made(), LONG_COUNT, 2).failures == {}
