"""Kernels that are compiled again and again, and how often they are built."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32
from nvbackend.builder.kernel.again.on_disk import KernelsOnDisk
from nvbackend.builder.kernel.definition import KernelDefinition

OUT = nvb.Pointer[f32]
KEY = KernelsOnDisk.key
"""As it is outside of the tests."""


def build_always() -> None:
    """Take no kernel from disk: tests are there to build, and some change the package while it runs."""
    KernelsOnDisk.key = lambda *_: None  # type: ignore[method-assign, assignment, misc]


def compiled(definition: KernelDefinition, **options: Any) -> Any:
    return definition.compile(assemble=False, **options)


def defined(function: Callable[..., None]) -> KernelDefinition:
    return nvb.kernel("sm_80", threads=32)(function)


class Runs:
    """How often kernels were built."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        build = KernelDefinition._build

        def counted(definition: KernelDefinition, *given: Any, **named: Any) -> Any:
            self.count += 1
            return build(definition, *given, **named)

        monkeypatch.setattr(KernelDefinition, "_build", counted)


def in_module(text: str) -> types.ModuleType:
    """A module of the user's with this text."""
    sys.modules["users_module"] = module = types.ModuleType("users_module")
    source = "import nvbackend as nvb\nfrom nvbackend import f32\n" + text
    exec(compile(source, "users_module.py", "exec", dont_inherit=True), vars(module))
    return module


@contextlib.contextmanager
def classes_as_they_are() -> Iterator[None]:
    """What the block sets on the builder's class, under a name that it has not, is taken off again."""
    before = set(vars(nvb.KernelBuilder))
    try:
        yield
    finally:
        for name in set(vars(nvb.KernelBuilder)) - before:
            delattr(nvb.KernelBuilder, name)


HEAD = '@nvb.kernel("sm_80", threads=32)\n'
BODY = HEAD + "def kernel(k, out: nvb.Pointer[f32]):\n    out[0] = "
"""A kernel as text, up to the value that it stores."""
