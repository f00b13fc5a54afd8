"""Constant memory and static assertions: what they compile to, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f32, i32, u8


def built(body, **options):
    @nvb.kernel("sm_80", threads=64)
    def kernel(k, out: nvb.Pointer[f32], n: i32):
        body(k, out, n)

    return kernel.build(**options)


def refused(body):
    with pytest.raises(DiagnosticError) as raised:
        built(body)
    return raised.value.diagnostics[0]


def test_ptxas_takes_all_of_constant_memory_and_no_more() -> None:
    """The limit is that of ptxas: a byte more is refused by both."""

    def table(count):
        return lambda k, out, n: out.__setitem__(0, k.constant.array([1] * count, u8)[n].to(f32))

    compiled = built(table(65536)).compile(cache=nvb.Cache.disabled())
    assert compiled.cubin is not None
    assert re.search(r"\.const \.align 1 \.b8 \w+\[65536\]", compiled.ptx)
    assert "ld.const" in compiled.ptx
    assert refused(table(65537)).rule.id == "constant.size"
    larger = compiled.ptx.replace("[65536]", "[65537]")
    with pytest.raises(DiagnosticError) as raised:
        nvb.codegen.assemble(larger, nvb.Target.parse("sm_80"))
    assert raised.value.diagnostics[0].rule.id.startswith("ptxas.")


def test_equal_tables_are_one() -> None:
    def body(k, out, n):
        for _ in range(3):
            out[0] = k.constant.array([1.0, 2.0], f32)[n]
        out[1] = k.constant.array([1.0, 3.0], f32)[n]

    assert built(body).compile(assemble=False).ptx.count(".const .align 4") == 2


REFUSED = {
    "constant.index": [
        lambda k, out, n: k.constant.array([1, 2], i32)[2],
        lambda k, out, n: k.constant.array([1, 2], i32)[-1],
        lambda k, out, n: k.constant.array([1, 2], i32)[k.thread_id()],
        lambda k, out, n: k.constant.array([[1, 2]], i32)[0, 2],
    ],
    "constant.data": [
        lambda k, out, n: k.constant.array([1, "2"], i32),
        lambda k, out, n: k.constant.array([1, n], i32),
        lambda k, out, n: k.constant.array([[1, 2], [3]], i32),
        lambda k, out, n: k.constant.array([[1, 2], 3], i32),
        lambda k, out, n: k.constant.array(1, i32),
        lambda k, out, n: k.constant.array(np.zeros(2, [("a", "i4"), ("b", "i4")]), i32),
        lambda k, out, n: k.constant.array([1, 2], i32)[0, 0],
    ],
    "constant.size": [lambda k, out, n: k.constant.array([0.0] * 16385, f32)],
    "constant.write": [lambda k, out, n: k.constant.array([1, 2], i32).__setitem__(0, 1)],
    "value.constant": [
        lambda k, out, n: k.constant.array([1, 300], u8),
        lambda k, out, n: k.constant.array([1.5], i32),
    ],
    "memory.element": [lambda k, out, n: k.constant.array([1], nvb.pred)],
    "call.argument": [
        lambda k, out, n: k.constant.array([1], "f32"),
        lambda k, out, n: k.atomic.add(k.constant.array([1], i32), 1),
    ],
    "static-assert.failed": [
        lambda k, out, n: k.static_assert(False, "one is {}", 2),
        lambda k, out, n: k.static_assert(k.thread_id() < 63),
        lambda k, out, n: k.static_assert(np.bool_(0)),
    ],
    "static-assert.unknown": [
        lambda k, out, n: k.static_assert(n > 0),
        lambda k, out, n: k.static_assert(out[0] > 0),
    ],
    "debug.format": [
        lambda k, out, n: k.static_assert(True, "{} {}", 1),
        lambda k, out, n: k.static_assert(True, "{:c}", -1),
        lambda k, out, n: k.static_assert(True, "{:d}", 1.5),
        lambda k, out, n: k.static_assert(True, "{:d}", None),
        lambda k, out, n: k.static_assert(True, "{rows}", 1),
        lambda k, out, n: k.static_assert(True, "{0.rows}", 1),
    ],
    "value.kind": [lambda k, out, n: k.static_assert("n % 8"), lambda k, out, n: k.static_assert(out)],
    "control.assume": [
        lambda k, out, n: k.assume(False),
        lambda k, out, n: k.assume(k.thread_id() > 63),
        lambda k, out, n: k.assume(k.thread_id() > 5),
    ],
}


@pytest.mark.parametrize(("rule", "body"), [(rule, body) for rule, bodies in REFUSED.items() for body in bodies])
def test_wrong_uses(rule, body) -> None:
    fault = refused(body)
    assert fault.rule.id == rule
    assert fault.location.file == __file__


def test_an_index_of_a_loop_is_compared_with_the_bounds() -> None:
    def body(count):
        def loops(k, out, n):
            table = k.constant.array([1.0, 2.0, 3.0], f32)
            with k.range(count) as i:
                out[i] = table[i]

        return loops

    assert refused(body(4)).rule.id == "constant.index"
    built(body(3))


def test_a_static_assertion_that_holds_leaves_nothing() -> None:
    def body(k, out, n):
        k.static_assert(8 % 4 == 0, "text {:>{}}", 1, 4)
        k.static_assert(k.thread_id() < 64)
        with k.if_(k.thread_id() < 5):
            k.static_assert(k.thread_id() <= 4)
            k.assume(k.thread_id() < 5)
        with k.if_(n > 3):
            k.assume(k.thread_id() < n)
        out[0] = 1.0

    assert "assert" not in built(body).compile(assemble=False).ptx


def test_the_text_of_a_static_assertion_is_the_message() -> None:
    fault = refused(lambda k, out, n: k.static_assert(7 % 2 == 0, "{} rows are odd", 7))  # here
    assert fault.message == "7 rows are odd"
    assert fault.location.source.endswith("# here")


@pytest.mark.parametrize("rule", ["constant.index", "local.index"])
@pytest.mark.parametrize(
    ("before", "inside"),
    [
        (None, lambda k, n: k.thread_id() < 64),
        (None, lambda k, n: k.thread_id() == 63),
        (None, lambda k, n: n > 3),
        (lambda k, n: k.thread_id() < n, lambda k, n: k.thread_id() < 32),
        (lambda k, n: k.thread_id() < 16, lambda k, n: n > 3),
        (None, lambda k, n: k.thread_id() > 63),
    ],
    ids=["all", "one thread", "some or none", "what others left", "what a few left", "nobody"],
)
def test_a_wrong_index_is_told_where_a_thread_may_come(rule, before, inside, request) -> None:
    """In 64 threads; where it is unknown who comes, the place is as wrong as elsewhere."""

    def body(k, out, n):
        table = k.constant.array([1.0] * 8, f32) if rule == "constant.index" else k.local.array(f32, 8, fill=1.0)
        if before is not None:
            k.return_if(before(k, n))
        with k.if_(inside(k, n)):
            out[0] = table[8]

    if "nobody" in request.node.name:
        built(body)
    else:
        assert refused(body).rule.id == rule


def test_a_static_assertion_shows_constants_as_numbers() -> None:
    """In every form that Python has for a number; a value of the run by its name."""

    def body(k, out, n):
        names.append(repr(n))
        k.static_assert(False, "{:>4d}|{:.2f}|{}|{!r}", k.const(7, i32), k.const(1.5, f32), n, "rows")

    names: list[str] = []
    assert refused(body).message == f"   7|1.50|{names[0]}|'rows'"
