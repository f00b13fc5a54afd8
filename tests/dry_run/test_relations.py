"""With which numbers a kernel is run that assumes something of several parameters, or of one."""

from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from tests.dry_run.test_sizes import OUT, WIDTH, ring, tried
from tests.support.runtime import rules

Promise = Callable[[Any, Any], Any]


def related(promise: Promise, counts: str = "n", *, right: bool = True):
    """A ring of three stages that makes n or m steps; without `right` it waits for phases that are over."""

    @nvb.kernel("sm_90a", threads=WIDTH)
    def related(k, x: OUT, out: OUT, n: i32, m: i32):
        k.assume(promise(n, m))
        steps = n if counts == "n" else m
        ring(k, x, out, steps, guarded=True)
        turns = k.mbarrier.array(3, arrivals=WIDTH)
        k.mbarrier.ready()
        with k.range(steps) as step:
            k.mbarrier.arrive(turns + step % 3)
            k.mbarrier.wait(turns + step % 3, step // 3 & 1 ^ (not right))

    return related


PROMISES: dict[str, tuple[Promise, str]] = {
    "a multiple": (lambda n, m: n == 2 * m, "n"),
    "a multiple, of the steps": (lambda n, m: n == 2 * m, "m"),
    "the same": (lambda n, m: n == m, "n"),
    "a remainder": (lambda n, m: n % m == 0, "n"),
    "a divisor": (lambda n, m: m % n == 0, "n"),
    "less": (lambda n, m: n < m, "n"),
    "more": (lambda n, m: n > m, "n"),
    "a sum": (lambda n, m: n + m == 4096, "n"),
    "a quotient": (lambda n, m: n // 64 == m, "m"),
    "rounded up": (lambda n, m: (n + 63) // 64 == m, "m"),
    "a product": (lambda n, m: n * m == 4096, "n"),
    "several": (lambda n, m: (n == 64 * m) & (m > 0), "m"),
    "an unusual number": (lambda n, m: n % 100 == 0, "n"),
    "odd": (lambda n, m: n % 5 == 2, "n"),
}


def assumed(promise: Promise, values: dict[str, int]) -> bool:
    return bool(promise(values["n"], values["m"]))


@pytest.mark.parametrize("name", PROMISES)
def test_numbers_keep_to_what_is_assumed(name: str) -> None:
    """Python's own numbers say whether each does. The first make seven steps or a few more, others one or two."""
    promise, counts = PROMISES[name]
    seen = tried(related(promise, counts).build)
    assert all(assumed(promise, values) for values in seen)
    assert 7 <= seen[0][counts] <= 100
    assert len(seen) > 1 or seen[0][counts] == 100  # a hundred steps leave no room for a second run


def test_one_that_is_given_decides_about_the_other() -> None:
    kernel = related(lambda n, m: n == 2 * m)
    assert tried(lambda: kernel.check(n=6)) == [{"n": 6, "m": 3}]
    assert tried(lambda: kernel.check(m=6)) == [{"n": 12, "m": 6}]


def test_a_mistake_is_found_whatever_is_assumed() -> None:
    for promise, counts in list(PROMISES.values())[::4]:
        assert rules(related(promise, counts, right=False).build) == ["mbarrier.parity-counter"]


UNJUDGED = {
    "contradicting": (lambda n, m: (n == 2 * m) & (n % 2 == 1), "no parameters that were tried keep to"),
    "no number": (lambda n, m: (n > 4) & (n < 4), "no parameters that were tried keep to"),
}


@pytest.mark.parametrize("name", UNJUDGED)
def test_what_is_not_judged_is_said(name: str) -> None:
    promise, said = UNJUDGED[name]
    [found] = related(promise, right=False).build().diagnostics
    assert (found.rule_id, found.severity) == ("dry-run.no-sizes", nvb.Severity.WARNING)
    assert said in found.message and "k.assume" in found.location.source
    assert "{'n': ..., 'm': ...}" in found.fix


def test_sizes_that_contradict_are_said() -> None:
    [found] = related(lambda n, m: n == 2 * m).check(n=7).diagnostics
    assert "does not hold with n = 7" in found.message
    [found] = related(lambda n, m: n == 2 * m).check(n=6, m=4).diagnostics
    assert "does not hold with n = 6, m = 4" in found.message


def test_an_assumption_inside_of_a_branch_is_kept_or_said() -> None:
    @nvb.kernel("sm_90a", threads=WIDTH)
    def inside(k, x: OUT, out: OUT, n: i32):
        with k.if_(k.thread_id() < 32):
            k.assume(n == 100)
        ring(k, x, out, n, guarded=True)

    [found] = inside.build().diagnostics
    assert found.rule_id == "dry-run.no-sizes" and "with n = " in found.message
    assert inside.check(n=100).diagnostics == ()


@pytest.mark.parametrize("of", [2, 3, 5, 7])
def test_what_is_assumed_after_branches_have_met(of: int) -> None:
    """The mbarriers are made by one thread before."""

    @nvb.kernel("sm_90a", threads=WIDTH)
    def later(k, x: OUT, out: OUT, n: i32):
        with k.if_(k.thread_id() == 0):
            out[0] = 1.0
        k.assume((n % of == 0) & (n > 0))
        ring(k, x, out, n // of, guarded=True)

    assert later.build().diagnostics == ()
    seen = [one["n"] for one in tried(later.build)]
    assert seen and all(n % of == 0 for n in seen)


FEW = {
    "multiples of two": (lambda steps: steps % 2 == 0, []),
    "not too many": (lambda steps: steps <= 4096, []),
    "at least one": (lambda steps: steps >= 1, ["mbarrier.deadlock"]),
    "not none": (lambda steps: steps != 0, ["mbarrier.deadlock"]),
}


@pytest.mark.parametrize("name", FEW)
def test_what_says_that_there_may_be_few_steps(name: str) -> None:
    """A wait that three steps open: only a least number says that there may be fewer."""
    promise, expected = FEW[name]

    @nvb.kernel("sm_90a", threads=WIDTH)
    def few(k, x: OUT, out: OUT, steps: i32):
        k.assume(promise(steps))
        ring(k, x, out, steps, 4, guarded=False)
        opened = k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        with k.range(steps) as step:
            k.mbarrier.arrive(opened, when=(step == 2) & (k.thread_id() == 0))
        k.mbarrier.wait(opened, 0)

    assert rules(few.build) == expected


ROWS = {
    "no more": (i32, None),
    "multiples": (i32(multiple_of=96), None),
    "at least": (i32(minimum=100, multiple_of=4), None),
    "assumed": (i32, lambda n: (n % 96 == 0) & (n > 0)),
    "at least, assumed": (i32, lambda n: n >= 100),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_promised_size_is_lowered_to_what_is_asserted(name: str) -> None:
    """A row of 256: the numbers that are tried in turn keep to the annotation until one is small enough."""
    scalar, promise = ROWS[name]

    @nvb.kernel("sm_80", threads=128)
    def cached(k, x: OUT, out: OUT, n: scalar):
        if promise is not None:
            k.assume(promise(n))
        row, thread = k.shared(f32, 256), k.thread_id()
        with k.range(thread, n, 128) as i:
            row[i] = x[i]
        k.barrier.sync()
        out[thread] = row[0]

    seen = [one["n"] for one in tried(cached.build)]
    assert all(number in scalar.values for number in seen) if scalar is not i32 else seen
    assert promise is None or all(promise(number) for number in seen)
    assert min(seen) <= 256 and cached.build().diagnostics == ()


def test_a_size_that_is_always_too_large_is_refused() -> None:
    @nvb.kernel("sm_80", threads=128)
    def cached(k, x: OUT, out: OUT, n: i32(minimum=300)):
        row, thread = k.shared(f32, 256), k.thread_id()
        with k.range(thread, n, 128) as i:
            row[i] = x[i]
        k.barrier.sync()
        out[thread] = row[0]

    assert rules(cached.build) == ["shared.bounds"]


@pytest.mark.parametrize(
    ("least", "at", "bytes_", "index", "said"),
    [
        (1, 0, 16, 0, ""),  # at most 32 pieces, which whoever launches it knows
        (1, 0, 0, 16, ""),
        (32, 0, 16, 0, ""),
        (31, 4, 16, 0, ""),
        (33, 0, 16, 0, "cp.async.bulk of warp 0 accesses bytes 0 to 527 of shared memory row, which has 512 bytes"),
        (32, 4, 16, 0, "cp.async.bulk of warp 0 accesses bytes 16 to 527 of shared memory row, which has 512 bytes"),
        (33, 0, 0, 4, "ld.shared of warp 0 accesses byte 528 of shared memory row, which has 512 bytes"),
    ],
)
def test_the_size_of_a_copy_is_promised_as_an_index_is(least, at, bytes_, index, said) -> None:
    @nvb.kernel("sm_90a", threads=128)
    def copied(k, x: nvb.Pointer(f32, align=16), out: OUT, n: i32(minimum=least)):
        row, full = k.shared(f32, 128, align=16, name="row"), k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        size = n * bytes_ if bytes_ else 512
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=size)
            k.bulk.load(row.byte_offset(4 * at), x, size, full)
        k.mbarrier.wait(full, 0)
        out[k.thread_id()] = row[at + n * index]

    if said:
        with pytest.raises(nvb.DiagnosticError) as caught:
            copied.build()
        assert [(one.rule_id, one.message) for one in caught.value.diagnostics] == [("shared.bounds", said)]
    else:
        assert copied.build().diagnostics == ()


def test_the_search_ends() -> None:
    """Of six numbers with one assumption that none of those that are tried keeps."""

    @nvb.kernel("sm_90a", threads=WIDTH)
    def searched(k, x: OUT, out: OUT, a: i32, b: i32, c: i32, d: i32, e: i32, f: i32):
        k.assume((a * b * c * d * e * f) % 1000003 == 17)
        ring(k, x, out, a + b + c + d + e + f, guarded=True)

    [found] = searched.build().diagnostics
    assert found.rule_id == "dry-run.no-sizes"
