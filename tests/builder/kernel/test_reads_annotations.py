"""Of the kernel's own function the annotations are read, whoever wrote it: they are its parameters."""

from __future__ import annotations

from typing import Any

import pytest

from nvbackend.builder.kernel.again.reads import Reads


def noted(module: str, note: object) -> tuple[object, ...]:
    """The content of a function of a module, with an annotation."""
    scope: dict[str, Any] = {"__name__": module}
    exec("def function(k, x): pass", scope)
    scope["function"].__annotations__ = {"x": note}
    return Reads(repr).of(scope["function"], (), ())[0]


@pytest.mark.parametrize("module", ["nvbackend.made", "made"])
def test_annotations_are_taken_down_once(module: str) -> None:
    content = noted(module, "a note")
    assert content != noted(module, "another")
    assert content.count("a note") == 1
