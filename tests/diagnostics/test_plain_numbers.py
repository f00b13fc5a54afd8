"""NumPy's numbers given to a call of ours: Python's arrive, wherever in the call they were."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy
import pytest

LIBRARY = """
from nvbackend.diagnostics import user_facing

@user_facing
def taken(first, second=None, *, third=None):
    return first, second, third

@user_facing
def passed_on(*args, **named):
    return args, named
"""
NUMBERS: list[tuple[Any, Any]] = [
    *((getattr(numpy, f"{kind}{bits}")(7), 7) for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    (numpy.int64(-(2**63)), -(2**63)),
    (numpy.uint64(2**64 - 1), 2**64 - 1),
    *((getattr(numpy, f"float{bits}")(1.5), 1.5) for bits in (16, 32, 64)),
]
UNCHANGED: list[Any] = [
    True,
    3,
    2.5,
    "text",
    None,
    numpy.True_,
    numpy.zeros(2),
    ml_dtypes.bfloat16(1.5),
    [numpy.int8(1)],
]


@pytest.fixture(scope="module")
def library() -> Iterator[Any]:
    """LIBRARY as if it were a module of the package."""
    module = ModuleType("nvbackend.made_up_numbers")
    sys.modules[module.__name__] = module
    exec(compile(LIBRARY, "nvbackend/made_up_numbers.py", "exec", dont_inherit=True), vars(module))
    yield module
    del sys.modules[module.__name__]


@pytest.mark.parametrize(("given", "plain"), NUMBERS, ids=lambda one: f"{type(one).__name__} {one}")
def test_numbers_arrive_plain(library: Any, given: Any, plain: Any) -> None:
    for arrived in (
        library.taken(given)[0],
        library.taken("a", given)[1],
        library.taken("a", third=given)[2],
        library.taken("a", 1, third=("b", given))[2][1],
        library.taken((given, 2.5))[0][0],
        library.taken((1, 2), (3, given))[1][1],
    ):
        assert type(arrived) is type(plain)
        assert arrived == plain


@pytest.mark.parametrize("given", UNCHANGED, ids=repr)
def test_what_is_no_number_of_numpys_arrives_itself(library: Any, given: Any) -> None:
    others = numpy.int8(1)
    assert library.taken(given)[0] is given
    assert all(arrived is given for arrived in library.taken(others, given, third=given)[1:])
    assert library.taken((given, others))[0][0] is given
    assert library.taken(1, third=given)[2] is given


def test_what_takes_anything_passes_it_on_unchanged(library: Any) -> None:
    """It may be the user's own function that is called."""
    for given, _ in NUMBERS:
        (args, named) = library.passed_on(given, (given,), name=given)
        assert args[0] is given
        assert args[1][0] is given
        assert named["name"] is given
