"""What is wrong inside of an argument: in a field of a record, in an element of that; and names that there are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from llvmlite import ir

from nvbackend.diagnostics import missing_name
from nvbackend.diagnostics.arguments import wrong_arguments
from nvbackend.diagnostics.misfits import hint


@dataclass(frozen=True)
class Extent:
    size: int
    steps: tuple[int, ...] = ()
    label: str | None = None


@dataclass(frozen=True)
class Shape:
    rows: Extent
    columns: Extent | int = 1


def take(shape: Shape, *more: Extent, **named: Extent) -> None:
    """A call with records."""


def places(*args: Any, **kwargs: Any) -> list[str]:
    return [str(one.values["problem"]).split(" must be ")[0] for one in wrong_arguments(take, args, kwargs)]


RIGHT: Any = Extent(1, (2, 3), "x")


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        (Extent("1"), "size"),  # type: ignore[arg-type]
        (Extent(1, (2, "3")), "steps[1]"),  # type: ignore[arg-type]
        (Extent(1, (2,), 3), "label"),  # type: ignore[arg-type]
        (RIGHT, None),
    ],
    ids=repr,
)
def test_the_place_is_that_of_the_innermost_value(wrong: Any, place: str | None) -> None:
    for call in (
        lambda: ("shape.rows", places(Shape(wrong))),
        lambda: ("shape.columns", places(Shape(RIGHT, wrong))),
        lambda: ("more[1]", places(Shape(RIGHT, 2), RIGHT, wrong)),
        lambda: ("last", places(Shape(RIGHT), first=RIGHT, last=wrong)),
    ):
        outer, found = call()
        assert found == ([] if place is None else [f"{outer}.{place}"])


def test_a_record_of_another_class_is_wrong_itself() -> None:
    assert places(RIGHT) == ["shape"]
    assert places(Shape(Shape(RIGHT))) == ["shape.rows"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "shown", "advice"),
    [
        ((), "and no other", "do not ask for one"),
        (("a",), "only a", "name one of them"),
        ("abcdefgh", "only a, b, c, d, e, f, g, h", "name one of them"),
        ("abcdefghi", "only a, b, c, d, e, f, g, h and others", "name one of them"),
    ],
)
def test_names_that_there_are_not(known: Any, shown: str, advice: str) -> None:
    (found,) = missing_name("the box", "lid", "z", known).diagnostics
    assert found.message == f"the box has no lid 'z', {shown}"
    assert found.fix == advice


def _of(name: str) -> object:
    """An object of a class of this name."""
    return type(name, (), {"__module__": "made.here"})()


ELEMENTWISE = ": compute it of each element, .map(lambda value: ...)"
AT_RUN_TIME = ", which is known only when the kernel runs"
PLACE = ": address[index] is what is in memory there; its address is address + index"
HINTS = [
    (_of("TileValues"), "Operand", ELEMENTWISE),
    (_of("AxisValues"), "Operand | None", ELEMENTWISE),
    (_of("AxisVariable"), "Operand", ELEMENTWISE),
    (_of("TileValues"), "int", ""),
    (_of("Tensor"), "Operand", ""),
    ([3], "Operand", ""),
    (_of("Value"), "int", AT_RUN_TIME),
    (_of("Value"), "int | None", ""),
    (_of("Value"), "ElementType", ""),
    (_of("Other"), "int", ""),
    ("f32", "ElementType", ": use nvb.f32"),
    ("f32", "str", ""),
    ("no such", "ElementType", ""),
    (
        ir.Constant(ir.IntType(32), 3),
        "Operand",
        ": not the register, .ir; an attached builder takes one by k.value(...)",
    ),
    (ir.IntType(32), "Operand", ""),
    ("f32", "ParameterType | ElementType", ": use nvb.f32"),
    (_of("Value"), "Address", PLACE),
    (_of("Value"), "Address | None", PLACE),
    (3, "Address", ""),
    ((4, 4), "AnyLayout", ": use nvb.layout.Layout(shape, stride)"),
    (4, "AnyLayout", ""),
    ((16, 8), "Layout | None", ": use nvb.layout.Layout(shape, stride)"),
    ("K", "Major", ": use nvb.Major.K or MN"),
    ("sm_90a", "Target", ": use nvb.Target.parse('sm_90a')"),
    (90, "Target", ""),
    (_of("Value"), "Inside | None", ": k.identity_tensor(shape).below(rows, columns) makes one"),
    (_of("Address"), "Tensor", ": k.tensor(address, layout) makes one"),
    ("tma", "Feature", ": use one such as nvb.rows.Feature.WGMMA"),
]


@pytest.mark.parametrize(("value", "wanted", "says"), HINTS)
def test_what_is_said_beside_the_kinds_is_for_both_of_them(value: object, wanted: str, says: str) -> None:
    assert hint(value, wanted) == says
