"""Every case: the public calls, the operators and the conversions."""

from __future__ import annotations

from tests.gpu.differential.case import Case
from tests.gpu.differential.conversions import conversions, named
from tests.gpu.differential.floats import arithmetic, choices
from tests.gpu.differential.functions import functions
from tests.gpu.differential.integers import integers
from tests.gpu.differential.pairs import pairs


def cases() -> list[Case]:
    """All of them."""
    return [
        *arithmetic(),
        *choices(),
        *functions(),
        *integers(),
        *pairs(),
        *conversions(),
        *named(),
    ]
