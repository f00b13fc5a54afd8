"""What launches in the simulator say of arguments that break what the kernel promises by k.assume."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32, i64, u32
from tests.support import runtime

NUMBERS = (-(2**31), -96, -64, -33, -1, 0, 1, 5, 31, 32, 63, 64, 65, 96, 640, 2**31 - 1)
PROMISES = {
    "a multiple": (lambda k, n, m: n % 32 == 0, lambda n, m: n % 32 == 0),
    "a rest": (lambda k, n, m: n % 7 != 3, lambda n, m: n % 7 != 3),
    "a relation": (lambda k, n, m: n >= 2 * m, lambda n, m: n >= (2 * m + 2**31) % 2**32 - 2**31),
    "both": (lambda k, n, m: (n > m) & (n < 100), lambda n, m: m < n < 100),
    "a quotient": (lambda k, n, m: n // -3 < m, lambda n, m: n // -3 < m),
    "the greater": (lambda k, n, m: k.math.max(n, m) > 40, lambda n, m: max(n, m) > 40),
    "wider": (lambda k, n, m: n.to(i64) * 3 > m.to(i64), lambda n, m: n * 3 > m),
    "unsigned": (lambda k, n, m: n.to(u32) < 65, lambda n, m: n % 2**32 < 65),
    "narrow": (lambda k, n, m: n.to(nvb.i8) < 60, lambda n, m: (n + 128) % 256 - 128 < 60),
    "shifted": (lambda k, n, m: (n >> 5) + (m << 2) != 3, lambda n, m: (n // 32 + 4 * m) % 2**32 != 3),
}


def loaded(kernel: nvb.KernelDefinition) -> nvb.runtime.LoadedKernel:
    compiled = kernel.build(check=False).compile(assemble=False)
    return nvb.runtime.load(compiled, device="simulator")


def broken(launched: nvb.runtime.LoadedKernel, *numbers: int) -> list[str]:
    problems = runtime.broken(lambda: launched.launch(1, np.zeros(32, np.float32), *numbers))
    assert {one.rule_id for one in problems} <= {"launch.assumed"}
    return [one.message.partition(" with ")[2] for one in problems]


@pytest.mark.parametrize("name", PROMISES)
def test_arguments_are_compared_with_the_condition(name: str) -> None:
    promise, holds = PROMISES[name]

    @nvb.kernel("sm_80", threads=32)
    def kernel(k, x: nvb.Pointer[f32], n: i32, m: i32):
        k.assume(promise(k, n, m))

    launched = loaded(kernel)
    for n, m in itertools.product(NUMBERS, (-64, 0, 3, 31)):
        assert bool(broken(launched, n, m)) == (not holds(n, m)), (n, m)


@nvb.kernel("sm_80", threads=32)
def several(k, x: nvb.Pointer[f32], n: i32, m: u32, scale: f32):
    k.assume(n > 3)
    k.assume((m < 5) | (n == 7))
    k.assume(k.thread_id() < n + 1000)  # of threads, too
    k.assume(x[0] == 0.0)
    with k.if_(n > 10):
        k.assume(m == 2)  # of those that come here


def test_each_promise_names_its_arguments_and_its_line() -> None:
    launched = loaded(several)
    assert broken(launched, 4, 4, 0.0) == broken(launched, 7, 9, 0.0) == broken(launched, 20, 3, 0.0) == []
    assert broken(launched, -2, 2**32 - 1, 0.0) == ["n = -2", "n = -2, m = 4294967295"]
    with pytest.raises(nvb.DiagnosticError) as caught:
        launched.launch(1, np.zeros(32, np.float32), 3, 0, 0.0)
    (found,) = caught.value.diagnostics
    ((_, place),) = found.notes
    assert place is not None
    assert (place.file, place.source) == (__file__, "k.assume(n > 3)")


def test_what_fails_whatever_is_not_known_is_broken() -> None:
    @nvb.kernel("sm_80", threads=32)
    def kernel(k, x: nvb.Pointer[f32], n: i32, m: i32):
        k.assume((n > m) & (x[0] == 0.0))
        k.assume(k.select(n > 3, n, k.thread_id()) != 5)

    launched = loaded(kernel)
    assert broken(launched, 4, 3) == broken(launched, 1, 0) == []
    assert broken(launched, 3, 3) == ["n = 3, m = 3"]
    assert broken(launched, 5, 3) == ["n = 5"]
