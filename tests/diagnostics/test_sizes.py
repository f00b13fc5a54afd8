"""Arguments that are too large or too deep for Python: told by the call that they were given to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.support.runtime import broken

LIBRARY = """
from nvbackend.diagnostics import user_facing

@user_facing
def shifted(shape, other: int = 0, *, name="x"):
    raise OverflowError("too many digits in integer")

@user_facing
def nested(shape, other: int = 0, *, name="x"):
    raise RecursionError

@user_facing
def printed_number(shape):
    raise ValueError("Exceeds the limit (4300 digits) for integer string conversion")

@user_facing
def refused(shape):
    raise ValueError("a value of another kind")
"""


@pytest.fixture(scope="module")
def library() -> Iterator[Any]:
    """LIBRARY as if it were a module of the package."""
    module = ModuleType("nvbackend.made_up_sizes")
    sys.modules[module.__name__] = module
    exec(compile(LIBRARY, "nvbackend/made_up_sizes.py", "exec", dont_inherit=True), vars(module))
    yield module
    del sys.modules[module.__name__]


LARGE = 1 << 64  # has 65 bits


@pytest.mark.parametrize(
    ("given", "bits"),
    [
        (LARGE, 65),
        (-LARGE, 65),
        (LARGE << 35, 100),
        ((1, LARGE), 65),
        ([(4, 3), [7, (LARGE << 1, 5)]], 66),
        ({"a": 4, "b": LARGE}, 65),
        ({"a": ({"c": [LARGE]}, LARGE << 5)}, 70),
    ],
    ids=str,
)
def test_a_number_of_more_than_64_bits_is_told_wherever_it_is(library: Any, given: object, bits: int) -> None:
    problem = f"has a number of {bits} bits, more than the 64 of any kernel's"
    for call, parameter in (
        (lambda: library.shifted(given), "shape"),
        (lambda: library.shifted((2, 3), given), "other"),
        (lambda: library.shifted((2, 3), name=given), "name"),
        (lambda: library.printed_number(given), "shape"),
    ):
        if parameter == "other" and not isinstance(given, int):
            continue  # another kind of argument, which comes first
        [diagnostic] = broken(call)
        assert diagnostic.rule_id == "call.argument"
        assert f": {parameter} {problem}" in diagnostic.message


@pytest.mark.parametrize("given", [LARGE - 1, 1 - LARGE, (LARGE - 1,), "text", 2.5, None, [], {}, {"a": ()}], ids=str)
def test_numbers_that_fit_are_not_blamed(library: Any, given: object) -> None:
    """So the exception is a mistake of ours, and stays."""
    with pytest.raises(OverflowError):
        library.shifted(given)


def test_only_what_python_could_not_count_is_looked_at_for_its_size(library: Any) -> None:
    with pytest.raises(ValueError, match="another kind"):
        library.refused(LARGE)


def deep(levels: int, kind: type, inside: object = 1) -> object:
    given = inside
    for _ in range(levels):
        given = kind([given])
    return given


@pytest.mark.parametrize("kind", [list, tuple])
def test_arguments_are_at_most_64_deep(library: Any, kind: type) -> None:
    for levels in (65, 66, 300):
        [diagnostic] = broken(lambda levels=levels: library.nested(deep(levels, kind)))  # type: ignore[misc]
        assert diagnostic.message == "nested: shape is nested more than 64 deep"
        [diagnostic] = broken(lambda levels=levels: library.nested((1, 2), name=deep(levels, kind)))  # type: ignore[misc]
        assert diagnostic.message == "nested: name is nested more than 64 deep"
    with pytest.raises(RecursionError):
        library.nested(deep(64, kind))


@pytest.mark.parametrize("kind", [list, tuple])
def test_what_holds_itself_many_times_is_counted_once_a_level(library: Any, kind: type) -> None:
    given: object = 1
    for _ in range(70):
        given = kind([given, given, given])
    [diagnostic] = broken(lambda: library.nested(given))
    assert "more than 64 deep" in diagnostic.message
    given = LARGE
    for _ in range(40):
        given = kind([given, given, given])
    [diagnostic] = broken(lambda: library.shifted(given))
    assert "65 bits" in diagnostic.message
