"""Which values count as never changing, and are taken down once: those that Python says are immutable."""

from __future__ import annotations

import dataclasses
import enum
import fractions
from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.again.constants import is_constant, is_ours, is_trusted_class, may_be_constant
from nvbackend.builder.kernel.again.reads import Reads

POINTER = nvb.Pointer(nvb.f32)


class Number(int):
    """May have attributes, as every class of the user's."""


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Record:
    part: object = 1


ATOMS: list[Any] = [3, True, 2.5, 1.5j, "text", b"bytes", None, ..., NotImplemented, range(2, 7), nvb.Major.K]


@pytest.mark.parametrize("value", [*ATOMS, POINTER, (), (1, 2.5, ("a", range(3)))], ids=repr)
def test_what_nothing_changes(value: Any) -> None:
    assert is_constant(value)
    assert is_constant((value, (7, value)))


@pytest.mark.parametrize(
    "make",
    [list, dict, set, bytearray, object, Number, Record, lambda: Colour.RED, lambda: len, lambda: Record],
)
def test_what_may_change_or_is_the_users(make: Callable[[], object]) -> None:
    assert not is_constant(make())
    assert not is_constant((1, make()))
    assert not is_constant((make(), 1))


@pytest.mark.parametrize("value", ATOMS, ids=repr)
def test_a_record_of_ours_is_constant_with_what_it_holds(value: Any) -> None:
    holding, changing = (dataclasses.replace(POINTER) for _ in range(2))
    object.__setattr__(holding, "align", value)
    object.__setattr__(changing, "align", [value])
    reads = Reads()
    assert reads.constant(holding) is reads.constant(holding) is not None
    assert reads.constant(changing) is None


class Derived(nvb.Pointer):
    """The user's, though its base is ours."""


class Claimed:
    """Says that it is of a module of ours, which has no such class."""

    __module__ = nvb.Pointer.__module__


MADE = dataclasses.make_dataclass("Made", ["part"], frozen=True)
"""Of Python's own `types` or of this module, as the version of Python has it."""


@pytest.mark.parametrize(
    ("cls", "trusted", "ours", "constant"),
    [
        (nvb.Pointer, True, True, True),
        (nvb.MachineFunction, True, True, False),  # a record that changes
        (nvb.KernelBuilder, True, True, False),
        (nvb.Major, True, False, False),
        (fractions.Fraction, True, False, False),
        (int, False, False, False),
        (Record, False, False, False),
        (Derived, False, False, False),
        (Claimed, False, False, False),
        (MADE, False, False, False),
    ],
)
def test_classes_are_told_by_the_module_that_has_them(cls: type, trusted: bool, ours: bool, constant: bool) -> None:
    assert (is_trusted_class(cls), is_ours(cls), may_be_constant(cls)) == (trusted, ours, constant)


def test_an_object_of_ours_that_is_no_record_may_change() -> None:
    assert not is_constant(Reads())
    assert not is_constant((Reads(),))
