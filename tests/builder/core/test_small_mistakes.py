"""Mistakes at a call that once ended in another message, or in none: each with its rule and what its text must say."""

from __future__ import annotations

import math
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, s32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter, Pointer, Scalar


def _builder() -> Any:
    parameters = [Parameter("p", Pointer(u32)), Parameter("n", Scalar(s32)), Parameter("x", Pointer(f32))]
    return KernelBuilder("mistakes", "sm_90a", threads=128, parameters=parameters)


def _text(call: Any) -> tuple[str, str]:
    k = _builder()
    with pytest.raises(nvb.DiagnosticError) as error:
        call(k, *k.arguments)
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.location is not None
    assert diagnostic.location.file == __file__
    return diagnostic.rule_id, str(diagnostic)


def _tile(k: Any) -> Any:
    mma = k.tiled_mma(nvb.mma.sync("m16n8k16", f16, f16, f32), (4, 1), tile=(64, 64))
    return mma.accumulator()


def _sum_of_half(k: Any) -> None:
    with k.if_(k.thread_id() < 64):
        k.cluster.reduce("add", 1)


MISTAKES: dict[str, tuple[str, str, Any]] = {
    "two results stored": (
        "call.argument",
        "store one of them",
        lambda k, p, n, x: x.__setitem__(0, k.warp.argmax(x[0], n)),
    ),
    "a list of one value stored": ("call.argument", "store one of them", lambda k, p, n, x: x.__setitem__(0, x.load())),
    "a type before the number": ("value.kind", "k.var(0, nvb.s32)", lambda k, p, n, x: k.var(s32, 0)),
    "an item of an address": ("value.attribute", "address[index]", lambda k, p, n, x: x.item()),
    "the bits of a value": ("value.attribute", ".bitcast(type)", lambda k, p, n, x: x[0].view(u32)),
    "a sum of a value": ("value.attribute", 'k.cta.reduce("add", value)', lambda k, p, n, x: x[0].sum()),
    "a run-time number of registers": ("call.argument", "dec(count: int)", lambda k, p, n, x: k.setmaxnreg.dec(n)),
    "an address chosen": ("call.argument", "x + k.select(condition, i, j)", lambda k, p, n, x: k.select(n > 0, x, 0)),
    "a type called": ("call.argument", "convert a value: value.to(f32)", lambda k, p, n, x: f32(n)),
    "elements as a value": ("call.argument", ".map(lambda", lambda k, p, n, x: k.math.max(_tile(k).elements(), 0.0)),
    "a value for llvmlite": ("value.kind", "pass value.ir", lambda k, p, n, x: k.llvm.fneg(x[0])),
    "two values for llvmlite": ("value.kind", "pass value.ir", lambda k, p, n, x: k.llvm.add(n, n)),
    "a value in a list": ("value.kind", "pass value.ir", lambda k, p, n, x: k.llvm.gep(p.pointer(), [n])),
    "a variable for llvmlite": ("value.kind", "variable.value.ir", lambda k, p, n, x: k.llvm.neg(k.var(n))),
    "an address for llvmlite": ("value.kind", "address.pointer()", lambda k, p, n, x: k.llvm.load(p)),
    "a number as a policy": ("cache.policy", "0x5 is not", lambda k, p, n, x: p.load(cache_policy=5)),
    "an s32 as a policy": ("cache.policy", "an s32 is not", lambda k, p, n, x: p.load(cache_policy=n)),
    "an s32 of a store": ("cache.policy", "an s32 is not", lambda k, p, n, x: p.store(n.to(u32), cache_policy=n)),
    "a bulk copy": ("cache.policy", "0x7 is not", lambda k, p, n, x: k.bulk.prefetch(x, 16, cache_policy=7)),
    "a policy's name": (
        "value.kind",
        """'evict_first' cannot be used as a value of u64""",
        lambda k, p, n, x: p.load(cache_policy="evict_first"),
    ),
    "a policy's name of a bulk copy": (
        "value.kind",
        'k.cache.policy("L2::evict_last")',
        lambda k, p, n, x: k.bulk.prefetch(x, 16, cache_policy="L2::evict_last"),
    ),
    "a policy of no access": (
        "cache.policy-fraction",
        "a fraction of 0.0 of",
        lambda k, p, n, x: k.cache.policy("L2::evict_first", fraction=0.0),
    ),
    "a policy in percent": (
        "cache.policy-fraction",
        "count in parts of 1",
        lambda k, p, n, x: k.cache.policy("L2::evict_first", fraction=50),
    ),
    "a table of 9 bits": ("value.constant", "0xAA", lambda k, p, n, x: k.integer.lop3(1, 2, 3, 0x1EA)),
    "rounded to itself": (
        "value.operation",
        "rounding= and saturate=",
        lambda k, p, n, x: n.to(s32, rounding="rn", saturate=True),
    ),
    "saturated to itself": ("value.operation", "leave saturate=", lambda k, p, n, x: x[0].to(f32, saturate=True)),
    "argmax of a float": ("value.operation", "an index", lambda k, p, n, x: k.cta.argmax(x[0], x[1])),
    "argmin of a float": ("value.operation", "an index", lambda k, p, n, x: k.warp.argmin(x[0], x[1])),
    "value assigned": ("value.attribute", "variable.set(...)", lambda k, p, n, x: setattr(k.var(n), "value", 3)),
    "rows assigned": ("value.attribute", ".set(", lambda k, p, n, x: setattr(k.var(_tile(k).rows(1.0)), "value", 3)),
    "the value of rows": ("value.attribute", "k.var(...)", lambda k, p, n, x: _tile(k).rows(1.0).value),
    "rows set": ("value.attribute", "k.var(...)", lambda k, p, n, x: _tile(k).rows(1.0).set(2.0)),
    "a cluster's name": ("reduce.operation", "k.cluster.reduce by", lambda k, p, n, x: k.cluster.reduce("sum", n)),
    "half of a cluster": ("cta.threads", "k.cluster.reduce is", lambda k, p, n, x: _sum_of_half(k)),
    "a float in inline PTX": (
        "ptx.operand",
        "k.const",
        lambda k, p, n, x: k.ptx("neg.f32 {d}, {a};", outputs={"d": f32}, inputs={"a": 1.0}),
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(name: str) -> None:
    rule, said, call = MISTAKES[name]
    found, text = _text(call)
    assert found == rule
    assert said in text


def test_a_statement_that_ptxas_refuses_is_compared_with_its_operands() -> None:
    rule, text = _text(lambda k, p, n, x: k.ptx("neg.f32 {d}, {a};", outputs={"d": u32}, inputs={"a": x[0]}))
    assert rule == "ptxas.error"
    assert "{d} is u32, {a} is f32" in text


def test_a_variable_of_rows_is_what_its_values_are() -> None:
    k = _builder()
    acc = _tile(k)
    scale = k.var(acc.rows(2.0))
    for made in (acc.elements() / scale, scale * acc.elements(), acc.elements().map(lambda a, b: a + b, scale)):
        assert made.element is f32
    for rows in (scale + 1, 2 * scale, scale - scale, acc.rows(1.0) / scale):
        scale.set(rows)
    scale.set(scale)
    k.finish(check=False)


@pytest.mark.parametrize("part", ["return", "warps", "lanes"])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("k.cta.reduce", lambda k, v: k.cta.reduce("add", v)),
        ("k.cta.scan", lambda k, v: k.cta.scan("max", v)),
        ("k.cta.argmax", lambda k, v: k.cta.argmax(v)[0]),
        ("k.cluster.reduce", lambda k, v: k.cluster.reduce("add", v)),
    ],
)
def test_a_call_of_the_whole_cta_that_some_threads_skip(part: str, name: str, call: Any) -> None:
    """However they are parted, by data that the build does not know."""

    def body(k: Any, p: Any, n: Any, x: Any) -> None:
        value = x[k.thread_id()]
        if part == "return":
            k.return_if(value < 0.0)
            x[0] = call(k, value)
        else:
            with k.if_(value < 0.0 if part == "lanes" else k.warp_id() < n):
                x[0] = call(k, value)
        k.finish()

    rule, text = _text(body)
    assert rule == "cta.threads"
    assert f"{name} is executed by only some of the CTA's 128 threads" in text
    assert "before any of them returns" in text


def test_elements_compare_one_by_one() -> None:
    k = _builder()
    elements = _tile(k).elements()
    for mask in (elements > 0.0, elements >= 0.0, elements < elements + 1.0, elements <= 0.0):
        assert len(mask) == len(elements)
        assert mask.element is nvb.pred


@pytest.mark.parametrize(("step", "align"), [(4, 16), (2, 8), (1, 4)])
def test_a_tile_knows_the_alignment_that_an_index_shows(step: int, align: int) -> None:
    k = _builder()
    tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f32, 32, 32))
    assert tile.at(k.thread_id() // 8, k.thread_id() % 8 * step).align == align


@pytest.mark.parametrize(("row", "column", "align"), [(0, 0, 1024), (8, 0, 1024), (4, 0, 64), (0, 8, 32), (5, 2, 8)])
def test_a_tile_knows_the_alignment_of_constants(row: int, column: int, align: int) -> None:
    """Eight rows of 128 bytes are a period of the swizzle, in which chunk c of row r lies at chunk c ^ r."""
    tile = _builder().shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f32, 32, 32))
    offset = row * 128 + (column // 4 ^ row % 8) * 16 + column % 4 * 4
    assert tile.at(row, column).align == align == math.gcd(1024, offset)


@pytest.mark.parametrize("role", ["producer", "consumers"])
def test_a_block_compares_a_run_time_number_of_registers(role: str) -> None:
    """It is an argument of the block, which is entered after its call."""
    k = KernelBuilder("roles", "sm_90a", threads=256, parameters=[Parameter("n", Scalar(s32))])
    if role == "consumers":
        with k.producer(registers=40):
            pass
    with pytest.raises(nvb.DiagnosticError) as error, getattr(k, role)(registers=k.arguments[0]):
        pass
    (diagnostic,) = error.value.diagnostics
    assert (diagnostic.rule_id, diagnostic.fix) == ("call.argument", f"call it as k.{role}(registers: int)")
