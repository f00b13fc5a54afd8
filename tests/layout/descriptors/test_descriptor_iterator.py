"""Descriptor iterators: the notes' printout, words of numbers, and the arithmetic that values emit."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvbackend import (
    DiagnosticError,
    Major,
    SmemDescriptor,
    SwizzleMode,
    Tcgen05SmemDescriptor,
    Tcgen05Swizzle,
    f16,
    i32,
    u64,
)
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.layout import DescriptorIterator, Layout, _, make_gmma_desc, make_umma_desc, parse, rank, size, smem_desc
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.support.host import run_on_host

T_CRA = parse("(_1,_2,_4,_3):(_0,_64,_256,_1024)")
"""tCrA of the CUTLASS WGMMA notes."""
BASE = SmemDescriptor(0x400, 1024, 2048, swizzle=SwizzleMode.B128)
UMMA_BASE = Tcgen05SmemDescriptor(0x400, 1024, 2048, swizzle=Tcgen05Swizzle.B128)
ADDRESS_BITS = 0x3FFF


def layout() -> Layout:
    assert isinstance(T_CRA, Layout)
    return T_CRA


def test_it_prints_as_in_cute() -> None:
    steps = "(_1,_2,_4,_3):(_0,_64,_256,_1024)"
    assert str(DescriptorIterator(None, layout())) == f"GMMA::DescriptorIterator o {steps}"
    assert str(DescriptorIterator(UMMA_BASE, layout())) == f"UMMA::DescriptorIterator o {steps}"
    unplaced = DescriptorIterator(None, layout(), Tcgen05SmemDescriptor)
    assert str(unplaced) == f"UMMA::DescriptorIterator o {steps}"
    assert str(DescriptorIterator(BASE, layout())(_, 1, _, 2)) == "GMMA::DescriptorIterator o (_1,_4):(_0,_256)"
    assert (size(unplaced), size(unplaced, 2), rank(unplaced)) == (24, 4, 4)


@pytest.mark.parametrize("base", [BASE, UMMA_BASE], ids=["gmma", "umma"])
def test_words_differ_in_their_address_alone(base: SmemDescriptor | Tcgen05SmemDescriptor) -> None:
    """The notes' sum, base + 64 m + 256 k + 1024 p, in units of 16 bytes."""
    fragment = DescriptorIterator(base, layout())
    for m, k, p in itertools.product(range(2), range(4), range(3)):
        word = fragment(0, m, k, p)
        assert word == fragment[0, m, k, p] == fragment[m + 2 * k + 8 * p]
        assert word & ADDRESS_BITS == (0x400 >> 4) + 64 * m + 256 * k + 1024 * p
        assert word & ~ADDRESS_BITS == base.encode() & ~ADDRESS_BITS
        assert fragment(_, m, _, p)(0, k) == fragment(_, _, k, _)(0, m, p) == word
        assert (fragment + 16)(0, m, k, p) == word + 16


coordinates = st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 2))


@settings(max_examples=30, deadline=None)
@given(coordinates, st.lists(st.booleans(), min_size=3, max_size=3), st.booleans())
def test_values_give_the_words_that_numbers_give(
    place: tuple[int, int, int], known: list[bool], known_base: bool
) -> None:
    """Some coordinates, or the base, known when the kernel runs only."""
    names = [name for name, is_known in zip("mkp", known, strict=True) if not is_known]
    parameters = [
        Parameter("out", Pointer(u64)),
        Parameter("base", Scalar(u64)),
        *(Parameter(name, Scalar(i32)) for name in names),
    ]
    k = KernelBuilder("descriptor", "sm_90a", threads=32, parameters=parameters)
    out, base, *values = k.arguments
    given_values = iter(values)
    coordinate = [number if is_known else next(given_values) for number, is_known in zip(place, known, strict=True)]
    fragment = DescriptorIterator(BASE if known_base else base, layout())
    out[0] = fragment(0, *coordinate)
    out[1] = fragment(_, coordinate[0], _, coordinate[2])(0, coordinate[1])
    kernel, results = k.finish(), np.zeros(2, np.uint64)
    run_on_host(
        kernel,
        results,
        BASE.encode(),
        *(number for number, is_known in zip(place, known, strict=True) if not is_known),
    )
    assert results.tolist() == [DescriptorIterator(BASE, layout())(0, *place)] * 2


def emitted(make: Any) -> list[str]:
    """The arithmetic of a kernel that stores `make(base, stage)`."""
    parameters = [Parameter("out", Pointer(u64)), Parameter("base", Scalar(u64)), Parameter("stage", Scalar(i32))]
    k = KernelBuilder("descriptor", "sm_90a", threads=32, parameters=parameters)
    out, base, stage = k.arguments
    out[0] = make(base, stage)
    return re.findall(r"= (add|sub|mul|shl|and|or|xor|sext|zext)\b", k.finish().ir)


def test_what_is_known_is_folded() -> None:
    assert emitted(lambda base, stage: DescriptorIterator(base, layout())(0, 0, 0, 0)) == []
    assert emitted(lambda base, stage: DescriptorIterator(base, layout())(0, 1, 3, 2)) == ["add"]
    assert emitted(lambda base, stage: DescriptorIterator(BASE, layout())(0, 1, 3, 2)) == []
    assert emitted(lambda base, stage: DescriptorIterator(BASE, layout())(0, 1, 3, stage)).count("mul") == 1


@pytest.mark.parametrize(
    ("rule", "operation"),
    [
        ("descriptor.index", lambda: DescriptorIterator(BASE, layout())(0, 2, 0, 0)),
        ("descriptor.index", lambda: DescriptorIterator(BASE, layout())(24)),
        ("descriptor.index", lambda: DescriptorIterator(BASE, layout())(_, -1, 0, 0)),
        ("descriptor.no-base", lambda: DescriptorIterator(None, layout())(0, 0, 0, 0)),
        ("descriptor.no-base", lambda: DescriptorIterator(None, layout())(_, 1, _, 0)),
        ("descriptor.advance-carry", lambda: DescriptorIterator(BASE, Layout((1, 2), (0, 1 << 14)))(0, 1)),
        ("layout-algebra.coordinate", lambda: DescriptorIterator(BASE, layout())(0, 1)),
        ("descriptor.no-base", lambda: DescriptorIterator(12, layout())),
        ("call.argument", lambda: DescriptorIterator(BASE, "(_1):(_0)")),  # type: ignore[arg-type]
    ],
)
def test_what_it_refuses(rule: str, operation: Any) -> None:
    with pytest.raises(DiagnosticError) as caught:
        operation()
    assert [found.rule_id for found in caught.value.diagnostics] == [rule]
    assert caught.value.diagnostics[0].location.file == __file__


@pytest.mark.parametrize(
    ("argument", "make"),
    [
        ("layout", lambda wrong: DescriptorIterator(None, wrong)),
        ("major", lambda wrong: make_gmma_desc(wrong, Layout((8, 16), (16, 1)), f16)),
        ("layout", lambda wrong: make_gmma_desc(Major.K, wrong, f16)),
        ("element", lambda wrong: make_gmma_desc(Major.K, Layout((8, 16), (16, 1)), wrong)),
        ("major", lambda wrong: make_umma_desc(wrong, Layout((8, 16), (16, 1)), f16)),
        ("layout", lambda wrong: make_umma_desc(Major.K, wrong, f16)),
        ("element", lambda wrong: make_umma_desc(Major.K, Layout((8, 16), (16, 1)), wrong)),
        ("major", lambda wrong: smem_desc(wrong, Layout((8, 16), (16, 1)), f16)),
        ("layout", lambda wrong: smem_desc(Major.K, wrong, f16)),
        ("element", lambda wrong: smem_desc(Major.K, Layout((8, 16), (16, 1)), wrong)),
    ],
)
@pytest.mark.parametrize("wrong", ["K", 16, None])
def test_what_is_of_another_kind_is_named(argument: str, make: Any, wrong: object) -> None:
    with pytest.raises(DiagnosticError) as caught:
        make(wrong)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "call.argument"
    assert f"{argument} must be " in found.message
    assert f"not {wrong!r}" in found.message
