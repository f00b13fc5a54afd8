"""Every example of this folder, found by looking at its modules."""

from __future__ import annotations

import functools
import importlib
import pkgutil

import tests.rules
from tests.rules.example import Example


@functools.cache
def examples() -> tuple[Example, ...]:
    """All examples, in the order of their files' names and of their lines."""
    modules = [
        importlib.import_module(f"{tests.rules.__name__}.{module.name}")
        for module in pkgutil.iter_modules(tests.rules.__path__)
        if not module.name.startswith(("test_", "__"))
    ]
    return tuple(one for module in modules for one in vars(module).values() if isinstance(one, Example))


def family_of(rule: str) -> str:
    """What stands before the first dot of a rule's id."""
    return rule.partition(".")[0]
