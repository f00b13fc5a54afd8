"""Arrays so large that an index of 32 bits wraps: some threads of the launch are followed before it."""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32, i64, s8, u32
from nvbackend.runtime.arguments.exact import computed, converted, of_constant
from nvbackend.runtime.arguments.wide_indices import WideIndices
from nvbackend.simulator import scalar
from tests.support.runtime import FakeArray, FakeDevice, broken

F32 = nvb.Pointer[f32]


def array(elements: int, size: int = 4) -> Any:
    """What is known of an array that is bound."""
    return SimpleNamespace(extent=elements * size, plan=None)


def found(body: Any, grid: Any, *values: Any, **options: Any) -> list[str]:
    kernel = nvb.kernel("sm_90a", threads=128)(body).compile(assemble=False, check=False, **options)
    bound = [np.int32(value) if isinstance(value, int) else value for value in values]
    return [one.message for one in WideIndices(kernel.signature, kernel).wrapped(grid, bound)]


def rows(k, x: F32, m: i32, stride: i32, *, wide: bool = False, guarded: bool = True, unsigned: bool = False):
    row = k.block_id() * 128 + k.thread_id()
    if unsigned:
        row, stride = row.to(u32), stride.to(u32)
    if wide:
        row = row.to(i64)
        stride = stride.to(i64)
    if guarded:
        with k.if_(row < m.to(row.type)):
            x[row * stride] = 1.0
    else:
        x[row * stride] = 1.0


M, STRIDE = 70000, 50000
GRID = (-(-M // 128), 1, 1)


@pytest.mark.parametrize("guarded", [True, False])
def test_a_product_of_a_row_and_its_stride_wraps(guarded):
    (message,) = found(rows, GRID, array(M * STRIDE), M, STRIDE, guarded=guarded)
    assert "its index wraps" in message
    assert found(rows, GRID, array(M * STRIDE), M, STRIDE, guarded=guarded, wide=True) == []


def test_launches_of_the_same_magnitude_are_followed_once(monkeypatch):
    kernel = nvb.kernel("sm_90a", threads=128)(rows).compile(assemble=False, check=False)
    indices, followed = WideIndices(kernel.signature, kernel), list[Any]()
    first = indices._first
    monkeypatch.setattr(indices, "_first", lambda *arguments: followed.append(arguments) or first(*arguments))
    sizes = [1000, 1001, 1023, 2000, M]
    said = [indices.wrapped((-(-m // 128), 1, 1), [array(M * STRIDE), np.int32(m), np.int32(STRIDE)]) for m in sizes]
    assert [len(each) for each in said] == [0, 0, 0, 0, 1]
    assert len(followed) == 3
    for bits in range(40):
        indices.wrapped((1, 1, 1), [array(1 << 31 + bits % 4), np.int32(1), np.int32(1 << bits % 20)])
    assert len(followed) <= 18


def test_an_unsigned_product_wraps_later():
    assert found(rows, GRID, array(M * STRIDE), M, STRIDE, unsigned=True) == []
    assert found(rows, GRID, array(M * STRIDE * 4), M, STRIDE * 4, unsigned=True) == []  # to another place inside


def test_rows_that_no_thread_comes_to_do_not_count():
    most = (1 << 31) // STRIDE
    assert found(rows, GRID, array(M * STRIDE), most, STRIDE) == []
    assert found(rows, (most // 128, 1, 1), array(M * STRIDE), M, STRIDE) == []


def test_an_index_outside_of_the_array_is_none_that_wraps():
    assert found(rows, GRID, array(1 << 31), M, STRIDE, guarded=False) == []


def read_in_a_loop(k, x: F32, out: F32, n: i32, stride: i32):
    total = k.var(0.0, f32)
    base = k.block_id("y") * stride
    with k.range(n) as i:
        total += x[base * 16 + i * 128 + k.thread_id()]
    out[k.thread_id()] = total


def test_a_read_in_a_loop_of_a_grid_along_y():
    assert len(found(read_in_a_loop, (1, 4000, 1), array(16 * 4000 * 40000), array(128), 3, 40000)) == 1
    assert found(read_in_a_loop, (1, 3000, 1), array(16 * 4000 * 40000), array(128), 3, 40000) == []


def where_memory_says(k, x: F32, rows_: nvb.Pointer[i32], stride: i32):
    row = rows_[k.block_id()]
    with k.if_(row > 0):
        x[row * stride] = 1.0
        x[k.block_id() * stride] = 1.0


def test_nothing_is_said_where_memory_decides():
    assert found(where_memory_says, (M, 1, 1), array(M * STRIDE), array(M), STRIDE) == []


def after_a_shuffle(k, x: F32, stride: i32):
    x[k.warp.shuffle(k.thread_id(), "idx", 0)] = 1.0
    x[k.block_id() * stride] = 1.0


def test_an_instruction_that_is_not_known_ends_no_way():
    (message,) = found(after_a_shuffle, (M, 1, 1), array(M * STRIDE), STRIDE)
    assert "its index wraps" in message


def hashed(k, x: F32, n: u32):
    t = (k.block_id() * 128 + k.thread_id()).to(u32)
    x[t * 2654435761 % n] = 1.0


def test_a_hash_that_is_to_wrap_is_right():
    assert found(hashed, (1000, 1, 1), array(3 << 30), 3 << 29) == []


@pytest.mark.parametrize(("condition", "said"), [("1, 1", 1), ("1, 2", 0), ("%other, 2", 0)])
def test_an_access_that_a_predicate_leaves_out_is_none(condition, said):
    kernel = nvb.kernel("sm_90a", threads=128)(rows).compile(assemble=False, check=False, guarded=False)
    store = re.search(r"st\.global[^;]*;", kernel.ptx)[0]
    guarded = f"{{ .reg .pred %q; .reg .b32 %other; setp.eq.s32 %q, {condition}; @%q {store} }}"
    text = kernel.ptx.replace(store, guarded)
    values = [array(M * STRIDE), np.int32(M), np.int32(STRIDE)]
    assert len(WideIndices(kernel.signature, SimpleNamespace(ptx=text)).wrapped(GRID, values)) == said


def test_small_arrays_are_not_looked_at():
    kernel = nvb.kernel("sm_90a", threads=128)(rows).compile(assemble=False)
    loaded = nvb.runtime.load(kernel, device="simulator")
    loaded.launch(1, np.zeros(1 << 10, np.float32), 128, 8)
    assert "_indices" not in vars(loaded)


@nvb.kernel("sm_90a", threads=128)
def bytes_of_rows(k, x: nvb.Pointer[s8], stride: i32):
    x[k.block_id() * stride + k.thread_id()] = 1


def test_the_launch_is_refused_with_the_line():
    loaded = nvb.runtime.load(bytes_of_rows.compile(assemble=False), device=FakeDevice())
    x = FakeArray((2200, 1 << 20), "|i1")
    for _ in range(2):
        (diagnostic,) = broken(lambda: loaded.launch(2200, x, 1 << 20))
        assert diagnostic.rule_id == "launch.wrapped-index"
        assert (
            "of CTA 2199 is to access element 2305818624 of x, and computes element -1989148672" in diagnostic.message
        )
        assert diagnostic.notes[0][1].source.strip().startswith("x[k.block_id() * stride")
    loaded.launch(2000, x, 1 << 20)
    assert broken(lambda: loaded.launch(2200, x, 1 << 20)) != []


INSTRUCTIONS = [
    *(
        f"{name}.{kind}"
        for name in ("add", "sub", "mul.lo", "min", "max", "div", "rem")
        for kind in ("s32", "u32", "s64")
    ),
    *(f"mul.wide.{kind}" for kind in ("s32", "u32")),
    *(f"mad.{form}.{kind}" for form in ("lo", "wide") for kind in ("s32", "u32")),
    *(f"{name}.{kind}" for name in ("and", "or", "xor", "shl") for kind in ("b32", "b64")),
    *("shr.s32", "shr.u32", "shr.u64", "not.b32", "neg.s32"),
    *(f"setp.{name}.{kind}" for name in ("lt", "ge", "eq") for kind in ("s32", "u32")),
    *("cvt.u64.u32", "cvt.s64.s32", "cvt.u32.u64", "cvt.s32.s16"),
]
WORDS = (0, 1, 2, 7, 31, 40, 127, 50000, 2**31 - 1, 2**31, 2**32 - 3, 2**32 - 1)


@pytest.mark.parametrize("opcode", INSTRUCTIONS)
def test_the_bits_are_those_that_the_simulator_computes(opcode):
    parts = tuple(opcode.split("."))
    pure = scalar.find(parts)
    count, known = len(pure.operands) - pure.optional, 0
    for words in itertools.product(WORDS, repeat=count):
        if parts[0] in ("div", "rem") and words[1] == 0:
            continue
        numbers = [of_constant(word) for word in words]
        found = converted(parts, numbers[0]) if parts[0] == "cvt" else computed(parts, numbers)
        arrays = [np.array([word]).astype(bits_of(kind)) for word, kind in zip(words, pure.operands, strict=False)]
        result = pure.call(*arrays)[0]
        (wanted,), width = result.tolist(), 8 * result.dtype.itemsize
        if found is not None:
            assert found.bits & (1 << width) - 1 == int(wanted), (opcode, words)
            known += 1
    assert known


def bits_of(kind: str) -> str:
    return f"u{int(kind[1:]) // 8}"
