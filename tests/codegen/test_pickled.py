"""What bytes of a cache may name: classes of this package, and a few of Python's."""

from __future__ import annotations

import os
import pickle
import subprocess
from fractions import Fraction

import pytest

import nvbackend as nvb
from nvbackend.codegen.pickled import loaded, short
from nvbackend.intrinsics.row.row import RegisterClass


def named(module: str, name: str) -> bytes:
    """Bytes that name something, as a pickle of protocol 4 does."""
    return b"\x80\x04" + b"".join(b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name)) + b"\x93."


OBJECTS = [
    nvb.Target.parse("sm_90a"),
    nvb.Parameter("x", nvb.Pointer(nvb.f16)),
    nvb.f16,
    RegisterClass.SHARED,
    (1, 2.5, "text", b"bytes", None, [True], {"key": ()}),
    range(1, 9, 2),
    slice(1, 2),
    {1},
    frozenset({2}),
    bytearray(b"x"),
    1j,
]


@pytest.mark.parametrize("each", OBJECTS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("protocol", range(4, pickle.HIGHEST_PROTOCOL + 1))
def test_objects_of_this_package_and_plain_ones_come_back(each: object, protocol: int) -> None:
    content = pickle.dumps(each, protocol)
    assert loaded(content) == loaded(short(content)) == each
    assert not content.startswith(short(content)[:1])


def test_a_long_text_takes_less_room() -> None:
    text = pickle.dumps("add.f32 %f1, %f2, %f3;\n" * 1000)
    assert len(short(text)) < len(text) // 10


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("builtins", "object"),
        ("os", "system"),
        ("posix", "system"),
        ("nvbackend_of_others", "Kernel"),
        ("nvbackend.codegen.pickled", "loaded"),
        ("nvbackend.codegen.pickled", "pickle"),
        ("nvbackend.codegen.pickled", "pickle.loads"),
        ("nvbackend.intrinsics.row.types", "ElementType.__init__"),
        ("nvbackend.intrinsics.row.types", "dataclass"),
    ],
)
def test_nothing_else_is_named(module: str, name: str) -> None:
    with pytest.raises(pickle.UnpicklingError, match=f"{module}.{name} is not a class of nvbackend"):
        loaded(named(module, name))


@pytest.mark.parametrize("each", [os.getcwd, subprocess.Popen, Fraction(1, 3)], ids=repr)
def test_objects_of_other_packages_do_not_come_back(each: object) -> None:
    with pytest.raises(pickle.UnpicklingError):
        loaded(pickle.dumps(each))
