"""What one of our modules has of itself, which no program has set: functions, classes and modules of ours."""

from __future__ import annotations

import math
import types

import pytest

from nvbackend import diagnostics
from nvbackend.builder.kernel.again import objects, reads

USERS = types.ModuleType("users")


def of_user() -> None:
    """A function that no module of ours defines."""


@pytest.mark.parametrize(
    ("module", "value", "is_ours"),
    [
        (objects, objects.is_part, True),
        (objects, of_user, False),
        (reads, reads.is_part, False),  # imported by name: another module may have set it
        (diagnostics, diagnostics.location, True),
        (objects, math, False),
        (objects, USERS, False),
        (objects, 7, False),
        (USERS, objects.is_part, False),
        (USERS, diagnostics, False),
    ],
)
def test_a_part_is_defined_by_its_module(module: types.ModuleType, value: object, is_ours: bool) -> None:
    assert objects.is_part(module, value) is is_ours


def test_a_class_is_a_part_of_the_module_that_defines_it() -> None:
    for value in vars(reads).values():
        if isinstance(value, type):
            assert objects.is_part(reads, value) is (value.__module__ == reads.__name__)
