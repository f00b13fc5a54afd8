"""Numbers added to addresses and subtracted from them: NumPy says what lies there."""

from __future__ import annotations

import fractions
import operator

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Pointer, f32, i32, u8, u32, u64
from nvbackend.builder.core.address_arithmetic import whole_bytes
from tests.dry_run.refusals import refusals
from tests.support.runtime import broken

U32 = Pointer[u32]
COMPARED = "compare it with an address or an integer, such as 0 for a null pointer"


@nvb.kernel("sm_80", threads=32)
def backwards(k, x: U32, out: U32, whole: i32, small: u8, unsigned: u32, long: u64):
    thread = k.thread_id()
    words = k.shared(u32, 64, name="words")
    (words + 63 - thread)[0] = (x + 40 - thread)[0]
    k.barrier.sync()
    out[thread] = (words - thread.to(u32) + 63)[0]
    (out + 63 - thread)[0] = (100 + x - whole - small - unsigned - long)[0]
    out -= thread
    (out + 95)[0] = 5 + thread.to(u32)


def test_an_address_minus_a_number_is_that_many_elements_before_it() -> None:
    x, out = np.arange(128, dtype=np.uint32), np.zeros(96, np.uint32)
    compiled = backwards.compile(assemble=False)
    nvb.runtime.load(compiled, device="simulator").launch(1, x, out, -3, 20, 7, 9)
    assert np.array_equal(out[:32], x[40 - np.arange(32)])
    assert (out[32:64] == 100 + 3 - 20 - 7 - 9).all()
    assert np.array_equal(out[64:], 5 + np.arange(32)[::-1])


@nvb.kernel("sm_90a", threads=64)
def ring(k, out: U32, *, before):
    full = k.mbarrier.array(4, arrivals=64, name="full")
    k.mbarrier.ready()
    with k.range(1, 5) as stage:
        k.mbarrier.arrive(full + stage - before)
        k.mbarrier.wait(full + stage - before, 0)


@nvb.kernel("sm_80", threads=32)
def shared(k, out: U32, *, start):
    words = k.shared(u32, 32, name="words")
    (words + start - k.thread_id())[0] = 1


@pytest.mark.parametrize(
    ("kernel", "given", "found"),
    [
        (ring, {"before": 1}, []),
        (ring, {"before": 0}, ["shared.bounds", "shared.bounds"]),
        (shared, {"start": 31}, []),
        (shared, {"start": 30}, ["shared.bounds"]),
        (shared, {"start": 32}, ["shared.bounds"]),
    ],
)
def test_places_before_an_address_are_judged_as_those_after_it(kernel, given, found) -> None:
    assert refusals(kernel, **given) == found


def test_the_distance_of_two_addresses_is_one_of_their_numbers() -> None:
    @nvb.kernel("sm_80", threads=32)
    def apart(k, out: U32):
        (out + 4) - out

    @nvb.kernel("sm_80", threads=32)
    def fraction(k, out: U32, x: f32):
        (out - x)[0] = 1

    assert [one.rule_id for one in broken(apart.build)] == ["value.type"]
    assert [one.rule_id for one in broken(fraction.build)] == ["value.operation"]


@pytest.mark.parametrize(("element", "elements"), [(nvb.f16, "// 2"), (nvb.f64, "// 8"), (nvb.u4, "* 8 // 4")])
def test_the_fix_for_a_distance_is_of_the_elements(element, elements) -> None:
    def apart(k, out):
        out - out

    apart.__annotations__["out"] = nvb.Pointer(element)
    (found,) = broken(nvb.kernel("sm_80", threads=32)(apart).build)
    assert found.fix == f"subtract their numbers, and count the elements between them: (a.bytes - b.bytes) {elements}"


@nvb.kernel("sm_80", threads=32)
def alike(k, x: U32, y: U32, out: U32):
    thread = k.thread_id()
    words = k.shared(u32, 32, name="words")
    answers = [
        x + thread == y + 3,
        x + thread != y + 3,
        x + thread == (x + 9).bytes,
        words + thread == words + 5,
        words + thread != words + 5,
        x == 0,
        x != 0,
        x - 3 + thread == x,
    ]
    for place, answer in enumerate(answers):
        out[thread + 32 * place] = answer.to(u32)


@pytest.mark.parametrize("apart", [False, True])
def test_addresses_are_alike_where_they_are_one_place(apart: bool) -> None:
    x, y, out = np.zeros(64, np.uint32), np.zeros(64, np.uint32), np.full(8 * 32, 7, np.uint32)
    kernel = nvb.runtime.load(alike.compile(assemble=False), device="simulator")
    kernel.launch(1, x, y if apart else x, out)
    thread = np.arange(32)
    at_three = (thread == 3) & (not apart)
    wanted = [at_three, ~at_three, thread == 9, thread == 5, thread != 5, thread < 0, thread >= 0, thread == 3]
    assert np.array_equal(out.reshape(8, 32), np.array(wanted, np.uint32))


@pytest.mark.parametrize("compare", [operator.eq, operator.ne])
@pytest.mark.parametrize(
    ("other", "problem", "fix"),
    [
        (
            lambda k: k.shared(u32, 32),
            "addresses of two state spaces are compared",
            "compare k.generic_address of both",
        ),
        *(
            (lambda k, value=value: value, f"an address is compared with {value!r}", COMPARED)
            for value in (True, False, 1.5, "0", None, (0,))
        ),
    ],
)
def test_an_address_is_compared_with_addresses_and_integers(compare, other, problem, fix) -> None:
    @nvb.kernel("sm_80", threads=32)
    def compared(k, out: U32):
        compare(out, other(k))

    (found,) = broken(compared.build)
    assert (found.rule_id, found.fix) == ("value.type", fix)
    assert problem in found.message


@pytest.mark.parametrize("element", [nvb.u4, nvb.s4, nvb.e2m1, nvb.e2m3], ids=str)
def test_a_step_over_parts_of_bytes_is_one_of_whole_bytes(element) -> None:
    """How many bits an element takes is in the PTX ISA's table of types; a fraction says what is left over."""
    bits = {"u4": 4, "s4": 4, "e2m1": 4, "e2m3": 6}[str(element)]
    for count in range(-17, 18):
        exact = fractions.Fraction(count * bits, 8)
        if exact.denominator == 1:
            assert whole_bytes(element, count) == exact
        else:
            with pytest.raises(nvb.DiagnosticError) as caught:
                whole_bytes(element, count)
            (found,) = caught.value.diagnostics
            assert found.rule_id == "memory.sub-byte"
            assert f"a step of {count} {element} elements of {bits} bits" in found.message


def test_a_step_over_parts_of_bytes_is_known() -> None:
    @nvb.kernel("sm_80", threads=32)
    def stepped(k, n: i32):
        k.shared(nvb.u4, 64) + n

    (found,) = broken(stepped.build)
    assert "a step of a run-time number of u4 elements of 4 bits" in found.message


@pytest.mark.parametrize("index", [0, 1, 2, "thread"])
@pytest.mark.parametrize("stores", [False, True])
def test_an_element_of_part_of_a_byte_is_not_advised_to_be_stepped_to(index, stores) -> None:
    """A step in bytes, which was the fix, would be refused in its turn: no access has a nibble."""

    @nvb.kernel("sm_80", threads=32)
    def nibble(k, x: nvb.Pointer[nvb.u4]):
        at = k.thread_id() if index == "thread" else index
        if stores:
            x[at] = k.const(1, nvb.u4)
        x[at]

    with pytest.raises(nvb.DiagnosticError) as caught:
        nibble.build()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "memory.element"
    assert "address.cast(nvb.u8)" in found.fix
