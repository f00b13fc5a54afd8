"""Every wrong program with the rule that finds it: the rules page, the mutations and the tests of protocols draw on it.

The smallest program of each rule is an example, in the files of this folder; more programs of the protocols, and right
ones like them, are in `programs`; mistakes in whole kernels are in `tests.mutations`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import tests.mutations
import tests.rules
import tests.rules.programs
from tests.mutations.mutation import Mutation
from tests.rules.example import Example
from tests.rules.programs.program import Program

ROOMS = ("wgmma", "memory", "cp_async", "extents", "control", "tiles", "tensor_memory", "split_k")
"""The files of mutations in the order of their table."""


def _modules(package: ModuleType) -> list[ModuleType]:
    names = [one.name for one in pkgutil.iter_modules(package.__path__) if not one.name.startswith(("test_", "__"))]
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names if name != "registry"]


@functools.cache
def examples() -> tuple[Example, ...]:
    """All examples, in the order of their files' names and of their lines."""
    return tuple(one for module in _modules(tests.rules) for one in vars(module).values() if isinstance(one, Example))


def family_of(rule: str) -> str:
    """What is before the first dot of a rule's id."""
    return rule.partition(".")[0]


def programs(protocol: str = "") -> tuple[Program, ...]:
    """The programs in the files of `tests.rules.programs` whose names begin like this, right ones and wrong ones."""
    modules = [one for one in _modules(tests.rules.programs) if one.__name__.rpartition(".")[2].startswith(protocol)]
    return tuple(one for module in modules for one in vars(module).values() if isinstance(one, Program))


def right(protocol: str) -> tuple[Program, ...]:
    """Those that break nothing."""
    return tuple(one for one in programs(protocol) if one.rule is None)


def wrong(protocol: str) -> tuple[Program, ...]:
    """Those that break a rule."""
    return tuple(one for one in programs(protocol) if one.rule is not None)


@functools.cache
def texts(protocol: str, side: str) -> dict[str, str]:
    """Programs in the notation of `tests.support.machine` by what they are: `side` is "wrong" or "right"."""
    found: dict[str, str] = vars(importlib.import_module(f"tests.rules.programs.{protocol}_texts_{side}"))["PROGRAMS"]
    return found


@functools.cache
def mutations() -> tuple[type[Mutation], ...]:
    """All mutations in the order of their files: the classes whose docstring is a mistake in small letters."""
    return tuple(
        member
        for name in ROOMS
        for member in vars(importlib.import_module(f"tests.mutations.{name}")).values()
        if inspect.isclass(member) and issubclass(member, Mutation) and member.__module__.endswith(f".{name}")
        if member.found_by or member.unseen or member.pending
    )


def pairs() -> Iterator[tuple[str, str]]:
    """Each wrong program, by the name of its function or class, and a rule that it breaks; texts say their own."""
    yield from ((one.function.__name__, one.rule) for one in examples())
    yield from ((one.name, one.rule) for one in programs() if one.rule is not None)
    yield from ((one.__name__, rule) for one in mutations() for rule in one.found_by)
