"""The builder is composed: few classes, few names, and parts that ask one another by public names only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

import nvbackend as nvb
from nvbackend.builder.attached.attach import AttachedBuilder
from tests.support.source import PACKAGE, Source, sources

MOST_CLASSES = 3
MOST_NAMES = 63
BUILDERS = {
    "k",
    "_k",
    "core",
    "_core",
    "memory",
    "_memory",
    "control",
    "_control",
    "threads",
    "_threads",
    "roles",
    "_roles",
}


@pytest.mark.parametrize("builder", [nvb.KernelBuilder, AttachedBuilder], ids=lambda cls: cls.__name__)
def test_a_builder_has_few_classes_and_names(builder: type) -> None:
    assert len(builder.__mro__) - 1 <= MOST_CLASSES  # `object` is not counted
    assert len([name for name in dir(builder) if not name.startswith("_")]) < MOST_NAMES


def _private_of_others(source: Source) -> Iterator[str]:
    """What is asked of a builder or of one of its parts by a private name, but in the room that has the builders."""
    if source.module.startswith(f"{PACKAGE}.builder.kernel."):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", None)
            if name in BUILDERS:
                yield f"{node.lineno}: {ast.unparse(node)}"


def test_no_part_of_the_builder_is_asked_by_a_private_name() -> None:
    asked = {source.module: list(_private_of_others(source)) for source in sources(PACKAGE)}
    assert {module: found for module, found in asked.items() if found} == {}
