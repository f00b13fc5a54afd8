"""D = alpha * accumulator + beta * C, run thread by thread on this machine and compared with NumPy.

Which element a register of wgmma holds is written down here again, from the figures of PTX ISA 9.7.15.5.1.1.
"""

from __future__ import annotations

import dataclasses
import itertools

import ml_dtypes
import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import bf16, f16, f32, s8, s32, u32
from nvbackend.layout import Layout
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.support.axpby import product, warpgroup_kernel
from tests.support.cta_interpreter import Recorded, run
from tests.support.host import run_on_host

N = 24
TID = "llvm.nvvm.read.ptx.sreg.tid.x"
DTYPES = {f32: np.float32, f16: np.float16, bf16: ml_dtypes.bfloat16, s32: np.int32}
THREADS = (0, 5, 38, 127)


def place(thread: int, index: int) -> tuple[int, int]:
    """Row and column of element `index` of a thread."""
    row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (index // 2 % 2)
    return row, 8 * (index // 4) + 2 * (thread % 4) + index % 2


def number(thread: int, index: int) -> int:
    """What the accumulator holds there: another number everywhere, exact in f16."""
    return (thread * 12 + index) % 61 - 30


def accumulated(acc: nvb.Accumulator, thread: nvb.Accumulator, *, packed: bool = True) -> None:
    """Fill an accumulator with `number`; one of f16 by `packed` registers, or by its elements."""
    values = [(thread * 12 + index) % 61 - 30 for index in range(N // 2)]
    if acc.element is f16 and not packed:
        acc.set([value.to(f32).to(f16) for value in values])
    elif acc.element is f16:
        halves = [value.to(f32).to(f16).bitcast(nvb.u16).to(u32) for value in values]
        acc.set([low | high << 16 for low, high in zip(halves[::2], halves[1::2], strict=True)])
    else:
        acc.set([value.to(acc.element) for value in values])


def image(element: nvb.ElementType, columns: int, seed: int) -> np.ndarray:
    """A matrix of small whole numbers."""
    return np.random.default_rng(seed).integers(-9, 10, (64, columns)).astype(DTYPES[element])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("d", "c", "out", "alpha", "beta", "known"),
    [
        (f32, f32, f32, 2.0, 3.0, True),
        (f32, f32, f32, 2.0, 3.0, False),
        (f32, f16, f16, -0.5, 1.0, True),
        (f32, f32, f32, 1.0, 3.0, True),
        (s32, s32, s32, 1, -5, True),
        (f32, bf16, f16, 1.0, -2.0, False),
        (f16, f16, f16, 4.0, 0.5, True),
        (f16, f16, f16, 0.3, 0.11, True),
        (f16, f32, f32, 4.0, 0.5, False),
        (s32, s32, s32, 3, -5, True),
        (s32, s32, s32, 3, -5, False),
        (s32, f32, bf16, 2.0, 1.0, True),
        (f32, f32, f32, 0.0, 3.0, True),
        (f32, f32, f32, 2.0, 0.0, True),
        (f32, f32, f32, 1.0, 0.0, True),
        (s32, s32, s32, 0, 0, True),
    ],
    ids=str,
)
@pytest.mark.parametrize("own_c", [False, True])
def test_every_element_of_wgmma(d, c, out, alpha, beta, known, own_c) -> None:
    if own_c is False and c is not out:
        c = out
    scalar = s32 if (d, c, out) == (s32, s32, s32) else f32
    factor = Scalar(scalar)
    k = warpgroup_kernel(out=Pointer(out), c=Pointer(c), alpha=factor, beta=factor, thread=Scalar(s32))
    to, of, a, b, thread = k.arguments
    mma, acc = product(k, N, d)
    accumulated(acc, thread, packed=own_c)
    factors = (alpha, beta) if known else (a, b)
    more = {"c": of, "c_stride": N + 2} if own_c else {}
    mma.axpby(factors[0], acc, factors[1], to, N + 6, **more)
    finished = k.finish()
    text = finished.ir.replace(f'call i32 @"{TID}"()', 'add i32 0, %"thread"')
    before, addend = image(out, N + 6, 1), image(c, N + 2, 2)
    result = before.copy()
    for one in THREADS:
        run_on_host(dataclasses.replace(finished, ir=text), result, addend, alpha, beta, one)
    expected = before.copy()
    for one, index in itertools.product(THREADS, range(N // 2)):
        at = place(one, index)
        source = addend if own_c else before
        expected[at] = np.array(alpha * number(one, index) + beta * source[at].astype(np.float64)).astype(DTYPES[out])
    assert np.array_equal(result.view(np.uint8), expected.view(np.uint8))
    assert not np.array_equal(result, before)


@pytest.mark.parametrize("known", [True, False])
def test_c_counts_for_nothing_where_beta_is_zero(known: bool) -> None:
    k = warpgroup_kernel(out=Pointer(f32), beta=Scalar(f32), thread=Scalar(s32))
    out, beta, thread = k.arguments
    mma, acc = product(k, N)
    accumulated(acc, thread)
    mma.axpby(2.0, acc, 0 if known else beta, out, N)
    finished = k.finish()
    assert ("load <2 x float>, <2 x float> addrspace(1)*" in finished.ir or "load <2 x float>" in finished.ir) is (
        not known
    )
    text = finished.ir.replace(f'call i32 @"{TID}"()', 'add i32 0, %"thread"')
    result = np.full((64, N), np.nan, np.float32)
    run_on_host(dataclasses.replace(finished, ir=text), result, 0.0, 77)
    assert [result[place(77, index)] for index in range(N // 2)] == [2 * number(77, index) for index in range(N // 2)]


def of_warps(element: nvb.ElementType, call: str) -> tuple[np.ndarray, np.ndarray]:
    """A product of two warps with an epilogue, by the interpreter, and what NumPy makes of it."""
    random = np.random.default_rng(7)
    a, b = (random.integers(-3, 4, (rows, 16)).astype(np.float16) for rows in (32, 24))
    c = random.integers(-5, 6, (32, 24)).astype(DTYPES[element])
    names = {"a": f16, "b": f16, "c": element, "d": element}
    k = Recorded(
        "axpby", "sm_80", threads=64, parameters=[Parameter(name, Pointer(one)) for name, one in names.items()]
    )
    shapes = {"a": (32, 16), "b": (24, 16), "c": (32, 24), "d": (32, 24)}
    tiles = {
        name: k.tensor(one, Layout(shapes[name], (shapes[name][1], 1)))
        for name, one in zip(names, k.arguments, strict=True)
    }
    mma = k.tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 1), tile=(32, 24))
    acc = mma.accumulator()
    mma.gemm(acc, mma.load_a(tiles["a"]), mma.load_b(tiles["b"]))
    if call == "mma":
        inside = k.identity_tensor((32, 24)).below(30, 24)
        mma.axpby(0.5, acc, -3.0, tiles["d"], c=tiles["c"], where=inside)
    else:
        parts = [tiles[name].partition(mma.thread.partition_C) for name in "dc"]
        k.axpby(0.5, acc, -3.0, parts[0], c=parts[1])
    k.finish()
    d = np.full((32, 24), 99, DTYPES[element])
    run(k, 64, {"a": a, "b": b, "c": c, "d": d})
    expected = (0.5 * (a.astype(float) @ b.astype(float).T) - 3 * c.astype(float)).astype(DTYPES[element])
    if call == "mma":
        expected[30:] = 99
    return d, expected


@pytest.mark.parametrize("element", [f32, f16])
@pytest.mark.parametrize("call", ["mma", "k"])
def test_every_element_of_warps(element: nvb.ElementType, call: str) -> None:
    found, expected = of_warps(element, call)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(("d", "c", "out"), [(f32, s32, s32), (s32, s32, f32), (f32, f32, s8)], ids=str)
def test_types_that_do_not_go_together(d, c, out) -> None:
    k = warpgroup_kernel(out=Pointer(out), c=Pointer(c))
    mma, acc = product(k, N, d)
    with pytest.raises(nvb.DiagnosticError) as caught:
        mma.axpby(1, acc, 1, k.arguments[0], N, c=k.arguments[1])
    assert [one.rule_id for one in caught.value.diagnostics] == ["epilogue.axpby-types"]
