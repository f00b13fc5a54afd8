"""What a wgmma call is given, against its request: each of these would compile, launch and read the wrong bytes."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, bf16, f16, f32, f64, i32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.ops.matrix.wgmma import check_threads
from nvbackend.signature import Parameter, Scalar
from tests.support.said import said
from tests.support.wgmma_kernel import wgmma_kernel

REQUEST = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)


def builder(threads: int = 128) -> KernelBuilder:
    return KernelBuilder("operands", "sm_90a", threads=threads, parameters=[Parameter("a", Scalar(i32))])


def tile(k, rows=64, major=Major.K, element=f16):
    return k.shared_tile(SmemLayout(major, SwizzleMode.B128, element, rows, 64))


def multiply(k, acc=None, a=None, b=None, request=REQUEST, **places):
    with k.wgmma.group():
        acc = acc or k.wgmma.accumulator(request.n, request.d)
        k.wgmma.mma_async(acc, a or tile(k), b or tile(k), request, **places)


def fragment(k, element=f16, registers=4):
    return k.wgmma.fragment([k.arguments[0].bitcast(u32)] * registers, element)


REGISTERS = dataclasses.replace(REQUEST, a_in_registers=True)
MISUSES = {
    "n of another accumulator": (lambda k: multiply(k, k.wgmma.accumulator(128)), "wgmma.accumulator", "nvb.f32"),
    "type of another accumulator": (
        lambda k: multiply(k, k.wgmma.accumulator(64, f16)),
        "wgmma.accumulator",
        "m64n64 f16",
    ),
    "as many registers, another type": (
        lambda k: multiply(
            k, k.wgmma.accumulator(64, i32), request=nvb.wgmma.mma_async("m64n128k16", f16, f16, f16), b=tile(k, 128)
        ),
        "wgmma.accumulator",
        "k.wgmma.accumulator(128, nvb.f16)",
    ),
    "no such n": (lambda k: k.wgmma.accumulator(12), "wgmma.accumulator", "multiple of 8"),
    "n of 0": (lambda k: k.wgmma.accumulator(0), "wgmma.accumulator", "from 8 to 256"),
    "n as a float": (lambda k: k.wgmma.accumulator(64.0), "wgmma.accumulator", "m64n64.0"),
    "no such accumulator type": (lambda k: k.wgmma.accumulator(64, f64), "wgmma.accumulator", "f16, f32, s32"),
    "tile of another type": (lambda k: multiply(k, a=tile(k, element=bf16)), "wgmma.operand-element", "holds bf16"),
    "b of another type": (lambda k: multiply(k, b=tile(k, element=bf16)), "wgmma.operand-element", "B of"),
    "fragment of another type": (
        lambda k: multiply(k, a=fragment(k, bf16), request=REGISTERS),
        "wgmma.operand-element",
        "A of",
    ),
    "tile of the other major": (lambda k: multiply(k, a=tile(k, major=Major.MN)), "wgmma.operand-major", "trans_a=1"),
    "transposed without need": (
        lambda k: multiply(k, request=dataclasses.replace(REQUEST, trans_b=1)),
        "wgmma.operand-major",
        "trans_b=0",
    ),
    "fragment for a tile": (lambda k: multiply(k, a=fragment(k)), "wgmma.residency", "a_in_registers=True"),
    "tile for a fragment": (lambda k: multiply(k, request=REGISTERS), "wgmma.residency", "a_in_registers=False"),
    "short fragment": (lambda k: fragment(k, registers=3), "wgmma.fragment", "not 3"),
    "rows behind the last": (lambda k: multiply(k, a=tile(k, 128).rows_from(2, 64)), "layout.bounds", "(128, 0)"),
    "rows behind a part": (
        lambda k: multiply(k, a=tile(k, 128).rows_from(1, 64), a_at=(64, 0)),
        "layout.bounds",
        "tile of 64 x 64",
    ),
    "rows before the first": (lambda k: tile(k, 128).rows_from(-1, 64), "layout.bounds", "(-64, 0)"),
    "a row block of another size": (lambda k: tile(k, 128).rows_from(0, 48), "layout.step", "48"),
    "stage behind the last": (lambda k: k.shared_tiles(tile(k).layout, 4).at(4), "shared.tile", "0 to 3"),
    "stage before the first": (lambda k: k.shared_tiles(tile(k).layout, 4).at(-1), "shared.tile", "0 to 3"),
    "k step over the end": (lambda k: multiply(k, a_at=(0, 56)), "layout.bounds", "(63, 71)"),
}


@pytest.mark.parametrize(("broken", "rule", "says"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_a_diagnostic_at_the_line(broken, rule, says):
    with pytest.raises(nvb.DiagnosticError) as caught:
        broken(builder())
    (found,) = caught.value.diagnostics
    assert found.rule_id == rule
    assert says in said(found)
    assert found.location is not None and found.location.file == __file__


@pytest.mark.parametrize("threads", [32, 64, 160])
def test_wgmma_needs_whole_warpgroups(threads):
    with pytest.raises(nvb.DiagnosticError, match=f"the kernel has {threads}") as caught:
        multiply(builder(threads))
    assert caught.value.diagnostics[0].rule_id == "wgmma.threads"
    multiply(builder(caught.value.diagnostics[0].values["wanted"]))


@pytest.mark.parametrize("threads", [32, 96, 128, 160, 256, 416])
def test_threads_that_may_come_are_of_whole_warpgroups(threads):
    """Where nobody knows who comes, as in code that is attached late, all of the kernel's may."""
    everyone = (1 << threads) - 1
    for among in (None, 0, 1, everyone, everyone >> 1, 1 << threads - 1, (1 << 128) - 1 & everyone):
        comers = range(threads) if among is None else [one for one in range(threads) if among >> one & 1]
        is_refused = any(one // 128 * 128 + 128 > threads for one in comers)
        with pytest.raises(nvb.DiagnosticError) if is_refused else contextlib.nullcontext() as caught:
            check_threads(threads, among)
        if is_refused:
            assert [each.rule_id for each in caught.value.diagnostics] == ["wgmma.threads"]


@pytest.mark.parametrize("leave", [False, True])
def test_a_warp_behind_the_last_warpgroup_may_do_other_things(leave):
    """What is known of who comes to the block is enough, also where some CTAs leave before."""
    k = builder(160)
    if leave:
        k.return_if(k.block_id() > k.arguments[0])
    with k.if_(k.warp_id() == 4):
        k.elect()
    with k.else_(), k.range(4):
        multiply(k)
    with k.if_(k.warp_id() > 3), pytest.raises(nvb.DiagnosticError) as caught:
        multiply(k)
    assert caught.value.diagnostics[0].rule_id == "wgmma.threads"


CONDITIONS = {
    "thread < 128": lambda thread, n: thread < 128,
    "thread >= 128": lambda thread, n: thread >= 128,
    "thread < 96": lambda thread, n: thread < 96,
    "even": lambda thread, n: thread % 2 == 0,
    "n": lambda thread, n: n > 3,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("outer", CONDITIONS)
@pytest.mark.parametrize("inner", CONDITIONS)
@pytest.mark.parametrize("side", ["if", "else"])
@pytest.mark.parametrize("is_looped", [False, True])
def test_who_comes_to_a_nested_block(outer, inner, side, is_looped):
    """Refused where some thread after the last warpgroup may come, for some number n, by both of the conditions."""
    conditions = [CONDITIONS[outer], CONDITIONS[inner]]
    may_come = any(
        conditions[0](thread, n) and bool(conditions[1](thread, same_n)) is (side == "if")
        for thread in range(128, 160)
        for n in (0, 9)
        for same_n in (0, 9)  # what two conditions have in common is not looked at
    )
    k = builder(160)
    of_outer, of_inner = (condition(k.thread_id(), k.arguments[0]) for condition in conditions)
    found = []
    with k.if_(of_outer), k.range(2) if is_looped else contextlib.nullcontext():
        with k.if_(of_inner):
            (k.elect, lambda: found.extend(refused(k)))[side == "if"]()
        with k.else_():
            (k.elect, lambda: found.extend(refused(k)))[side == "else"]()
    assert found == ["wgmma.threads"] * may_come


def refused(k):
    try:
        multiply(k)
    except nvb.DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics]
    return []


def test_what_is_wrong_is_told_together():
    k = builder()
    with pytest.raises(nvb.DiagnosticError) as caught:
        multiply(k, k.wgmma.accumulator(128), tile(k, element=bf16), tile(k, major=Major.MN))
    found = [one.rule_id for one in caught.value.diagnostics]
    assert found == ["wgmma.accumulator", "wgmma.operand-element", "wgmma.operand-major"]


@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize("major", list(Major))
def test_the_fix_of_each_is_taken(major, in_registers):
    """The kernel that the numbers are tested with, which makes its request as the fixes say."""
    layouts = [SmemLayout(major, SwizzleMode.B128, f16, 64, 64) for _ in "ab"]
    request = dataclasses.replace(REQUEST, a_in_registers=in_registers)
    finished = wgmma_kernel(request, None if in_registers else layouts[0], layouts[1])
    assert "wgmma.mma_async" in str(finished.machine)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("major", "rows", "columns"), [("K", 0, 0), ("K", 64, 16), ("MN", 0, 0), ("MN", 64, 32)])
def test_what_one_instruction_reads_of_its_tiles(sparse, major, rows, columns, monkeypatch):
    """16 k of f16, or 32 of which a sparse A stores 16."""
    k = builder()
    a, b = (k.shared_tile(SmemLayout(Major(major), SwizzleMode.B128, f16, count, 64)) for count in (192, 128))
    request = nvb.wgmma.mma_async(f"m64n64k{32 if sparse else 16}", f16, f16, f32, sparse=sparse)
    is_mn = int(major == "MN")
    request = dataclasses.replace(request, trans_a=is_mn, trans_b=is_mn)
    seen = []
    emit = k.core.emit
    monkeypatch.setattr(k.core, "emit", lambda *row, **how: (seen.append(how.get("extents")), emit(*row, **how))[1])
    metadata = k.arguments[0].bitcast(u32) if sparse else None
    multiply(k, a=a, b=b, request=request, a_at=(rows, columns), b_at=(rows, columns), metadata=metadata)
    assert [each for each in seen if each] == [
        {
            "a_desc": a.layout.reach(rows, columns, 64, 16),
            "b_desc": b.layout.reach(rows, columns, 64, 32 if sparse else 16),
        }
    ]


@pytest.mark.parametrize("statement", ["fence", "wait_group"])
def test_what_is_read_behind_a_fence_or_a_wait_comes_out_of_it(statement):
    """Each register of every accumulator: else LLVM may read it before the wait."""
    k = builder()
    accumulators = [k.wgmma.accumulator(8), k.wgmma.accumulator(16, f16), k.wgmma.accumulator(24)]
    for number, each in enumerate(accumulators):
        each.fill(float(number))
    getattr(k.wgmma, statement)()
    registers = [value.ir for each in accumulators for value in each.values()]
    assert len(registers) == 4 + 4 + 12
    (call,) = {register.operands[0] for register in registers}
    assert statement.partition("_")[0] in str(call.callee)
    assert [[*register.indices] for register in registers] == [[place] for place in range(len(registers))]
