"""Flags are looked at in every kind of call that users make: functions, and members of classes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nvbackend.diagnostics import DiagnosticError, user_facing


@user_facing
def function(flag: bool) -> bool:
    return flag


@user_facing
class Owner:
    __module__ = "nvbackend.of_a_test"

    def __init__(self, flag: bool = False) -> None:
        self._flag = flag

    def method(self, flag: bool) -> bool:
        return flag

    @staticmethod
    def static(flag: bool) -> bool:
        return flag

    @classmethod
    def of_class(cls, flag: bool) -> bool:
        return flag

    @property
    def member(self) -> bool:
        return self._flag

    @member.setter
    def member(self, flag: bool) -> None:
        self._flag = flag


@user_facing
@contextlib.contextmanager
def block(flag: bool) -> Iterator[bool]:
    yield flag


def entered(flag: object) -> object:
    with block(flag) as given:  # type: ignore[arg-type]
        return given


CALLS: dict[str, Callable[[Any], object]] = {
    "function": function,
    "maker": lambda flag: Owner(flag).member,  # type: ignore[arg-type]
    "method": lambda flag: Owner().method(flag),  # type: ignore[arg-type]
    "static": lambda flag: Owner().static(flag),  # type: ignore[arg-type]
    "of a class": Owner.of_class,
    "block": entered,
    "setter": lambda flag: set_and_get(Owner(), flag),
}


def set_and_get(owner: Owner, flag: object) -> object:
    owner.member = flag  # type: ignore[assignment]
    return owner.member


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_truth_value_is_refused(name: str) -> None:
    for flag in (True, False):
        assert CALLS[name](flag) is flag
    for wrong in ("no", 2, 0.5, [], object(), functools.partial):
        with pytest.raises(DiagnosticError, match=r"call\.argument.*flag must be ") as caught:
            CALLS[name](wrong)
        (found,) = caught.value.diagnostics
        assert found.location is not None
        assert found.location.file == __file__
