"""Layouts called with a builder's values: the arithmetic that they emit, run on this machine's processor."""

from __future__ import annotations

import operator
import re
from typing import Any

import numpy as np
import pytest

from nvbackend import DiagnosticError, Major, SwizzleMode, f16, i32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.layout import (
    AnyLayout,
    Layout,
    Swizzle,
    coalesce,
    complement,
    composition,
    cosize,
    downcast,
    gmma_atom,
    left_inverse,
    make_layout,
    parse,
    right_inverse,
    tile_to_shape,
    upcast,
    zipped_divide,
)
from nvbackend.layout.algebra.inttuple import Dynamic, RunTimeExtent
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.support.host import run_on_host
from tests.support.process import python_output

LAYOUTS: dict[str, AnyLayout] = {
    "column-major": Layout((8, 16)),
    "row-major": Layout((8, 16), (16, 1)),
    "nested": Layout(((2, 4), (3, 5)), ((1, 12), (4, 100))),
    "broadcast": Layout((8, (2, 4)), (0, (1, 8))),
    "swizzled": composition(Swizzle(3, 0, 3), Layout((8, 16), (16, 1))),
    "swizzled upwards": composition(Swizzle(2, 1, -3), Layout((8, 16), (16, 1))),
    "shared memory": tile_to_shape(gmma_atom(Major.K, SwizzleMode.B128, f16), (16, 64)),
}


def kernel_of(layout: AnyLayout, arguments: int, element: Any = i32) -> Any:
    """A kernel that writes the index of coordinate (a) or (a, b) to out[0]."""
    names = "ab"[:arguments]
    parameters = [Parameter("out", Pointer(element)), *(Parameter(name, Scalar(element)) for name in names)]
    k = KernelBuilder("address", "sm_90a", threads=32, parameters=parameters)
    out, *coordinate = k.arguments
    out[0] = layout(*coordinate)
    return k.finish()


def computed(kernel: Any, kind: Any, *coordinate: int) -> int:
    out = np.zeros(1, kind)
    run_on_host(kernel, out, *coordinate)
    return int(out[0])


@pytest.mark.parametrize("element", [i32, u32], ids=str)
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_emitted_arithmetic_is_the_layout(name: str, element: Any) -> None:
    layout, kind = LAYOUTS[name], np.int32 if element is i32 else np.uint32
    rows, columns = (8, 15) if name == "nested" else (8, 8) if name == "broadcast" else (8, 16)
    two, one = kernel_of(layout, 2, element), kernel_of(layout, 1, element)
    for row, column in [(0, 0), (1, 0), (0, 1), (3, 5), (7, columns - 1), (rows - 1, 0)]:
        assert computed(two, kind, row, column) == layout(row, column)
        assert computed(one, kind, row + 8 * column) == layout(row + 8 * column)


def emitted(layout: AnyLayout, make: Any) -> list[str]:
    """The arithmetic instructions of a kernel that stores the index of `make(a)`."""
    k = KernelBuilder(
        "address", "sm_90a", threads=32, parameters=[Parameter("a", Scalar(i32)), Parameter("out", Pointer(i32))]
    )
    a, out = k.arguments
    out[0] = layout(*make(a))
    return re.findall(r"= (add|sub|mul|shl|ashr|lshr|and|or|xor|sdiv|srem|udiv|urem)\b", k.finish().ir)


def test_what_is_known_is_folded() -> None:
    layout = Layout((8, 16), (16, 1))
    assert emitted(layout, lambda a: (a, 0)) == ["mul"]
    assert emitted(layout, lambda a: (3, a)) == ["add"]
    assert emitted(layout, lambda a: (0, a)) == []
    assert emitted(Layout((8, 16), (0, 1)), lambda a: (a, 5)) == []
    assert emitted(layout, lambda a: (3, 5)) == []
    assert emitted(Layout((1, 16)), lambda a: (a,)) == []
    assert emitted(Layout((8, 16), (0, 1)), lambda a: (a,)).count("ashr") == 1


def test_powers_of_two_are_shifts_and_masks() -> None:
    assert set(emitted(Layout((8, 16), (16, 1)), lambda a: (a,))) == {"and", "ashr", "mul", "add"}
    assert "srem" in emitted(Layout((6, 16), (16, 1)), lambda a: (a,))


def test_a_layout_of_dynamic_integers_emits_numbers() -> None:
    assert emitted(parse("(8,16):(16,1)"), lambda a: (a, 2)) == ["mul", "add"]


def with_pitch(make: Any) -> Any:
    """A kernel that writes `make(pitch, a)` to out[0]."""
    names = ("pitch", "a")
    parameters = [Parameter("out", Pointer(i32)), *(Parameter(name, Scalar(i32)) for name in names)]
    k = KernelBuilder("address", "sm_90a", threads=32, parameters=parameters)
    out, pitch, a = k.arguments
    out[0] = make(pitch, a)
    return k.finish()


def test_strides_may_be_known_at_run_time_only() -> None:
    """The tile of C that thread 0 owns (tCgC of the notes), with a leading dimension that the kernel is given."""

    def owned(pitch: Any, index: Any) -> Any:
        tile, rest = zipped_divide(Layout((128, 128), (1, pitch)), (64, 64)).modes
        value = composition(tile, parse("((_4,_8,_4),(_2,_2,_8)):((_128,_1,_16),(_64,_8,_512))"))
        assert isinstance(value, Layout)
        return coalesce(make_layout(value[1], *rest.modes), (1, 1, 1))(index)

    kernel = with_pitch(owned)
    known = parse("((_2,_2,_8),_2,_2):((512,_8,4096),_64,32768)")
    for index in (0, 1, 2, 3, 4, 31, 32, 64, 127):
        assert computed(kernel, np.int32, 512, index) == known(index)


def test_run_time_strides_print_as_question_marks_and_fold() -> None:
    shown: list[str] = []

    def address(pitch: Any, a: Any) -> Any:
        layout = Layout((4, 8), (pitch, 1))
        shown.extend([str(layout), str(layout(None, 3))])
        assert layout(0, 5) == 5
        return layout(a, 5)

    kernel = with_pitch(address)
    assert shown == ["(_4,_8):(?,_1)", "(_4):(?)"]
    assert computed(kernel, np.int32, 100, 3) == 305


@pytest.mark.parametrize(
    ("rule", "operation"),
    [
        ("run-time", lambda pitch, layout: layout.offsets()),
        ("run-time", lambda pitch, layout: cosize(layout)),
        ("run-time", lambda pitch, layout: complement(layout, 64)),
        ("run-time", lambda pitch, layout: right_inverse(layout)),
        ("run-time", lambda pitch, layout: left_inverse(layout)),
        ("run-time", lambda pitch, layout: upcast(layout, 2)),
        ("run-time", lambda pitch, layout: downcast(layout, 2)),
        ("run-time", lambda pitch, layout: composition(Layout(64), layout)),
        ("run-time", lambda pitch, layout: composition(layout, Swizzle(1, 0, 2))),
    ],
)
def test_what_compares_strides_needs_to_know_them(rule: str, operation: Any) -> None:
    with pytest.raises(DiagnosticError) as caught:
        with_pitch(lambda pitch, a: operation(pitch, Layout((4, 8), (pitch, 1))))
    assert [found.rule_id for found in caught.value.diagnostics] == [f"layout-algebra.{rule}"]


def test_the_algebra_loads_no_llvm_and_no_numpy() -> None:
    said = python_output(
        "import sys, nvbackend.layout as L; print(L.tile_to_shape(L.Layout((8, 8)), (64, 64)));"
        "print({'llvmlite', 'numpy', 'nvbackend.builder'} & set(sys.modules))"
    )
    assert said.splitlines() == ["((_8,_8),(_8,_8)):((_1,_64),(_8,_512))", "set()"]


@pytest.mark.parametrize("extent", [Dynamic(6), RunTimeExtent(lambda: 6)], ids=["dynamic", "run time"])
@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod])
def test_an_extent_has_no_operators_with_other_objects(extent: Any, operation: Any) -> None:
    for pair in ((extent, object()), (object(), extent)):
        with pytest.raises(TypeError):
            operation(*pair)
