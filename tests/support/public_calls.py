"""Every public function, constructor and method."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

import nvbackend as nvb
from tests.api.document import is_made_by_calls, is_ours
from tests.api.public import modules, names, nouns
from tests.support.members import member_of


def public_calls() -> Iterator[tuple[str, Any, str]]:
    """Each public function, constructor and method: its name, what it is an attribute of, and as what."""
    owners = dict(modules())
    for full, public in names().items():
        place, _, name = full.rpartition(".")
        if isinstance(public, FunctionType):
            yield full, owners[place], name
        elif isinstance(public, type) and not isinstance(public, nvb.ElementType):
            if not is_made_by_calls(public):
                yield full, public, "__init__"
            yield from _methods("k" if public is nvb.KernelBuilder else full, public)
    for noun, calls in nouns().items():
        yield from _methods(f"k.{noun}", type(calls))


def _methods(full: str, cls: type) -> Iterator[tuple[str, type, str]]:
    for name in sorted(dir(cls)):
        is_of_k = cls is nvb.AttachedBuilder and hasattr(nvb.KernelBuilder, name)
        if name.startswith("_") or is_of_k or not is_ours(cls, name):
            continue
        if isinstance(member_of(cls, name), FunctionType | classmethod | staticmethod):
            yield f"{full}.{name}", cls, name
