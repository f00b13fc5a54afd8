"""Tests over random examples: some of them in the ordinary run, more in an exhaustive twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

Test = Callable[..., None]


def on_examples(few: int, many: int, *strategies: Any) -> Callable[[Test], Test]:
    """Hypothesis's `given` with a `few` examples; the twin, `..._on_more_examples`, is exhaustive and has `many`."""

    def decorate(function: Test) -> Test:
        def with_examples(count: int) -> Test:
            found: Test = settings(max_examples=count, deadline=None)(given(*strategies)(function))
            return found

        twin = pytest.mark.exhaustive(with_examples(many))
        twin.__name__ = f"{function.__name__}_on_more_examples"
        function.__globals__[twin.__name__] = twin  # where pytest finds it, and Hypothesis its own examples of it
        return with_examples(few)

    return decorate
