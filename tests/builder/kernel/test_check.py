"""The option `check` of a build: what it takes, and that the dry run is on without it."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Parameter, Pointer, Scalar, f16, f32, i32, i64, u8, u32, u64
from nvbackend.builder.kernel.check import sizes_of
from tests.support.runtime import broken, rules

RACE = "shared.missing-barrier"


@nvb.kernel("sm_90a", threads=128, allow=("kernel.unused-parameter",))
def race(k, out: Pointer[f32], a: Annotated[nvb.TensorMap, nvb.TensorMap(f16, (64, 64))], n: i32, m: u32, x: f32):
    """Reads what another thread wrote, with no barrier between them, from a place that a size decides."""
    words = k.shared(f32, 256)
    words[k.thread_id() + (n & 1)] = x
    out[k.thread_id()] = words[127 - k.thread_id()]


def by_hand() -> nvb.KernelBuilder:
    k = nvb.KernelBuilder(
        "race", "sm_90a", threads=128, parameters=[Parameter("out", Pointer(f32)), Parameter("n", Scalar(i32))]
    )
    out, n = k.arguments
    words = k.shared(f32, 256)
    words[k.thread_id() + (n & 1)] = 1.0
    out[k.thread_id()] = words[127 - k.thread_id()]
    return k


def test_a_kernel_is_tried_out_unless_that_is_switched_off():
    assert rules(race.build) == rules(lambda: race.build(check=True)) == rules(race.compile) == [RACE]
    assert race.build(check=False).diagnostics == ()
    assert race.compile(check=False, assemble=None).diagnostics == ()
    assert rules(lambda: race.build(check=[{"n": 5}, {"m": 7}])) == [RACE]
    assert rules(lambda: by_hand().finish()) == rules(lambda: by_hand().finish(check=True)) == [RACE]
    assert by_hand().finish(check=False).diagnostics == ()


def test_a_kernel_that_is_not_checked_is_not_kept_as_one_that_is():
    assert race.compile(check=False, assemble=None) == race.compile(check=False, assemble=None)
    assert rules(lambda: race.compile(assemble=None)) == [RACE]


WRONG = {
    "'yes'": ("yes", "it is of type str", "pass True, False, or a list of sizes by name: check=[{'n': 256}]"),
    "3": (3, "it is of type int", "pass True, False"),
    "None": (None, "it is of type NoneType", "pass True, False"),
    "[]": ([], "a list without sizes asks for no run", "pass False for no run"),
    "[3]": ([3], "3 is not a dictionary of sizes", "name the parameter of each size"),
    "[{'stepz': 3}]": ([{"stepz": 3}], "'stepz' is not a parameter of it", "name a parameter that is an integer: n, m"),
    "[{3: 3}]": ([{3: 3}], "3 is not a parameter of it", "name a parameter that is an integer: n, m"),
    "[{'m': -1}]": ([{"m": -1}], "m=-1 is not a number of u32", "give m a number from 0 to 4294967295"),
    "[{'n': 2147483648}]": ([{"n": 1 << 31}], "n=2147483648 is not a number of s32", "from -2147483648 to 2147483647"),
    "[{'n': 2.5}]": ([{"n": 2.5}], "n=2.5 is not an integer", "give n an integer"),
    "[{'n': True}]": ([{"n": True}], "n=True is not an integer", "give n an integer"),
    "[{'n': 1}, {'out': 3}]": ([{"n": 1}, {"out": 3}], "out is not an integer: its type is Pointer", "only: n, m"),
    "[{'a': 3}]": ([{"a": 3}], "a is not an integer: its type is TensorMap", "give sizes of integers only: n, m"),
    "[{'x': 3}]": ([{"x": 3}], "x is not an integer: its type is Scalar(element=f32)", "only: n, m"),
}


@pytest.mark.parametrize("kind", [Pointer(i32), Pointer(u8), nvb.TensorMap(u8, (64, 64)), Scalar(f16)], ids=repr)
def test_a_parameter_that_is_no_scalar_integer_has_no_size(kind):
    """Not even an array of integers."""
    parameters = [Parameter("x", kind), Parameter("n", Scalar(i32))]
    (found,) = broken(lambda: sizes_of([{"x": 4}], "sized", parameters))
    assert found.rule_id == "kernel.check"
    assert "x is not an integer: its type is" in found.message
    assert found.fix == "give sizes of integers only: n"
    assert sizes_of([{"n": 4}], "sized", parameters)


@pytest.mark.parametrize("shown", WRONG)
@pytest.mark.parametrize("call", ["build", "compile"])
def test_what_check_does_not_take(shown: str, call: str):
    given, problem, advice = WRONG[shown]
    use = lambda: getattr(race, call)(check=given)  # noqa: E731
    [found] = broken(use)
    assert found.rule_id == "kernel.check"
    assert found.message.startswith(f"check={shown} of race: ")
    assert problem in found.message
    assert advice in found.fix
    assert found.location.line == use.__code__.co_firstlineno


def test_a_wrong_check_is_said_before_the_function_runs():
    @nvb.kernel("sm_90a", threads=128)
    def fails(k, n: i32):
        raise AssertionError("the function ran")

    [found] = broken(lambda: fails.build(check=[{"m": 3}]))
    assert found.rule_id == "kernel.check"


@pytest.mark.parametrize("call", ["build", "compile"])
def test_sizes_that_are_not_in_a_list(call: str):
    """A dictionary is none of the classes that the call declares, which is found before the kernel is built."""
    [found] = broken(lambda: getattr(race, call)(check={"n": 3}))
    assert found.rule_id == "call.argument"
    assert found.message.endswith("check must be bool | Sequence[Mapping[str, int]], not {'n': 3} (a dict)")


@pytest.mark.parametrize("sizes", [{"n": -1}, {"n": np.int64(3), "m": 5}, {}])
def test_what_check_takes(sizes):
    assert rules(lambda: race.build(check=[sizes])) == rules(lambda: race.build(check=(sizes,))) == [RACE]


def test_a_kernel_without_sizes():
    @nvb.kernel("sm_90a", threads=32)
    def none(k, out: Pointer[f32]):
        out[k.thread_id()] = 0.0

    [found] = broken(lambda: none.build(check=[{"n": 3}]))
    assert found.fix == "name a parameter that is an integer: it has none"


def test_the_same_of_finish():
    assert rules(lambda: by_hand().finish(check=True)) == [RACE]
    use = lambda: by_hand().finish(check=[{"m": 3}])  # noqa: E731
    [found] = broken(use)
    assert (found.rule_id, found.location.line) == ("kernel.check", use.__code__.co_firstlineno)


@pytest.mark.parametrize("options", [{}, {"check": True}, {"check": False}])
def test_a_constant_that_is_called_check(options):
    """Which of the two is meant must be said: the constant's value would switch the dry run."""

    @nvb.kernel("sm_90a", threads=32)
    def named(k, out: Pointer[u64], *, check: bool = False):
        out[k.thread_id()] = int(check)

    [found] = broken(lambda: named.build(**options))
    assert found.rule_id == "kernel.function"
    assert "its build-time constant 'check' is called like the option" in found.message
    assert f"constants={{'check': {options.get('check', True)}}}" in found.fix
    texts = {named.build(constants={"check": value}, **options).ir for value in (True, False)}
    assert len(texts) == 2


def test_a_size_is_what_a_register_holds_of_it():
    """Of each type: the bits of the number, in two's complement, and its own limits."""
    limits = {i32: (-(1 << 31), (1 << 31) - 1), u32: (0, (1 << 32) - 1), u8: (0, 255), i64: (-(1 << 63), (1 << 63) - 1)}
    for element, (lowest, highest) in limits.items():
        parameters = [Parameter("n", Scalar(element))]
        for number in (lowest, -1, 0, 1, highest):
            if lowest <= number:
                assert sizes_of([{"n": number}], "kernel", parameters) == [{"n": number % (1 << element.bits)}]
        for number in (lowest - 1, highest + 1):
            with pytest.raises(nvb.DiagnosticError, match=f"from {lowest} to {highest}"):
                sizes_of([{"n": number}], "kernel", parameters)
    assert sizes_of(True, "kernel", ()) == ()
    assert sizes_of(False, "kernel", ()) is None
