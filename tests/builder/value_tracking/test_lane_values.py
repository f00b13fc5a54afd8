"""Numbers in each thread: they wrap around at their bits, as NumPy's integers do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

import nvbackend as nvb
from nvbackend import DiagnosticError, i32, s4, u4, u8, u16, u32
from nvbackend.builder.value_tracking.lane_values import LaneValues

THREADS = 160
INDEX = "llvm.nvvm.read.ptx.sreg.tid.x"
WIDTHS = (8, 16, 32, 64)
RINGS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "and_": np.bitwise_and, "or_": np.bitwise_or}
RINGS["xor"] = np.bitwise_xor
SHIFTS = {"shl": (np.left_shift, "u"), "lshr": (np.right_shift, "u"), "ashr": (np.right_shift, "i")}
DIVISIONS = ("udiv", "urem", "sdiv", "srem")
CASTS = ("zext", "sext", "trunc")
COMPARISONS = {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal, ">": np.greater}
Known = tuple[ir.Value, np.ndarray | None]
"""A value, and what NumPy has for it in each thread: unsigned numbers; None for what is not defined."""


def read(numbers: np.ndarray, sign: str) -> np.ndarray:
    return numbers.view(f"{sign}{numbers.itemsize}")


def divided(name: str, left: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    sign = "i" if name[0] == "s" else "u"
    left, right = read(left, sign), read(right, sign)
    least = np.iinfo(left.dtype).min
    if (right == 0).any() or (sign == "i" and ((left == least) & (right == -1)).any()):
        return None
    rest = np.fmod(left, right)
    return read(rest if name.endswith("rem") else (left - rest) // right, "u")


def binary(b: ir.IRBuilder, name: str, left: Known, right: Known) -> Known:
    made = getattr(b, name)(left[0], right[0])
    if left[1] is None or right[1] is None:
        return made, None
    with np.errstate(all="ignore"):
        if name in RINGS:
            return made, RINGS[name](left[1], right[1])
        if name in DIVISIONS:
            return made, divided(name, left[1], right[1])
        if (right[1] >= 8 * right[1].itemsize).any():
            return made, None
        function, sign = SHIFTS[name]
        return made, read(function(read(left[1], sign), read(right[1], sign)), "u")


def cast(b: ir.IRBuilder, name: str, value: Known, width: int) -> Known:
    made = getattr(b, name)(value[0], ir.IntType(width))
    if value[1] is None:
        return made, None
    sign = "i" if name == "sext" else "u"
    return made, read(read(value[1], sign).astype(f"{sign}{width // 8}"), "u")


def selected(b: ir.IRBuilder, index: Known, limit: int, yes: Known, no: Known) -> Known:
    """`yes` below a limit of the index, and `no` from it on."""
    made = b.select(b.icmp_unsigned("<", index[0], ir.Constant(index[0].type, limit)), yes[0], no[0])
    if index[1] is None or yes[1] is None or no[1] is None:
        return made, None
    return made, np.where(index[1] < limit, yes[1], no[1])


@st.composite
def programs(draw: st.DrawFn) -> list[Known]:
    """Ten operations on the thread's index, on constants and on one another, then two comparisons."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "f")
    register = ir.Function(module, ir.FunctionType(ir.IntType(32), []), INDEX)
    b = ir.IRBuilder(function.append_basic_block())
    values: list[Known] = [(b.call(register, []), np.arange(THREADS, dtype=np.uint32))]

    def other(width: int) -> Known:
        same = [one for one in values if one[0].type.width == width]
        if same and draw(st.booleans()):
            return draw(st.sampled_from(same))
        small, any_number = st.integers(-9, 9), st.integers(-(1 << width - 1), (1 << width) - 1)
        number = draw(small | any_number)
        bits = np.full(THREADS, number % (1 << width), f"u{width // 8}")
        return ir.Constant(ir.IntType(width), number), bits

    for _ in range(10):
        one = draw(st.sampled_from(values))
        width = one[0].type.width
        if draw(st.integers(0, 2)) == 0:
            to = draw(st.sampled_from([each for each in WIDTHS if each != width]))
            values.append(cast(b, "trunc" if to < width else draw(st.sampled_from(CASTS[:2])), one, to))
        else:
            name = draw(st.sampled_from([*RINGS, *SHIFTS, *DIVISIONS]))
            values.append(binary(b, name, *draw(st.permutations([one, other(width)]))))
    yes = draw(st.sampled_from(values))
    values.append(selected(b, values[0], draw(st.integers(0, THREADS)), yes, other(yes[0].type.width)))
    for sign, left in zip("iu", draw(st.permutations(values)), strict=False):
        right, sort = other(left[0].type.width), draw(st.sampled_from(list(COMPARISONS)))
        made = (b.icmp_signed if sign == "i" else b.icmp_unsigned)(sort, left[0], right[0])
        known = left[1] is not None and right[1] is not None
        values.append((made, COMPARISONS[sort](read(left[1], sign), read(right[1], sign)) if known else None))
    return values


@settings(max_examples=150, deadline=None)
@given(programs())
def test_numbers_are_those_of_numpy(values: list[Known]) -> None:
    lanes = LaneValues(INDEX, THREADS)
    for value, numbers in values:
        found = lanes.lanes(value)
        if numbers is None:
            assert found is None, value
        else:
            assert found is not None, value
            bits = [number % (1 << value.type.width) for number in found]
            assert bits == numbers.tolist(), value


def arrivals(condition, count: int) -> None:
    """A kernel in which those of 128 threads arrive for which `condition` holds; the mbarrier expects `count`."""

    def kernel(k, out: nvb.Pointer(u32)):
        full = k.mbarrier.array(1, arrivals=count)
        k.mbarrier.ready()
        with k.if_(condition(k.thread_id())):
            k.mbarrier.arrive(full)
        k.mbarrier.wait(full, 0)

    nvb.kernel("sm_90a", threads=128)(kernel).build()


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        (lambda t: t.to(u8) * 4 == 0, 2),
        (lambda t: (t.to(u16) * 1024).to(u32) == 0, 2),
        (lambda t: t.to(u8) << 2 == 0, 2),
        (lambda t: t.to(u4) == 0, 8),
        (lambda t: t.to(u32) * (1 << 28) == 0, 8),
        (lambda t: (t < 8) & (((t % 8).to(s4) + 1).to(i32) < 0), 1),
    ],
)
def test_arrivals_are_counted_with_numbers_that_wrap(condition, count: int) -> None:
    arrivals(condition, count)
    with pytest.raises(DiagnosticError, match=f"the kernel's arrivals are {count}"):
        arrivals(condition, count + 1)


@pytest.mark.parametrize(
    ("index", "most"),
    [
        (lambda t: (t.to(u8) * 4).to(u32), 253),
        (lambda t: t.to(u8) * 37, 256),
        (lambda t: (t.to(u16) * 40503) >> 6, 1024),
        (lambda t: (t.to(u32) * 2654435769) >> 22, 1024),
    ],
)
def test_indices_that_wrap_are_in_bounds(index, most: int) -> None:
    def load(elements: int) -> None:
        def kernel(k, out: nvb.Pointer(u32)):
            s = k.shared(u32, elements)
            out[k.thread_id()] = s[index(k.thread_id())]

        nvb.kernel("sm_90a", threads=128)(kernel).build()

    load(most)
    with pytest.raises(DiagnosticError, match="shared memory s from byte"):
        load(most // 2)


def test_an_unsigned_step_back_is_in_bounds() -> None:
    def kernel(k, out: nvb.Pointer(u32)):
        s = k.shared(u32, 128)
        out[k.thread_id()] = (s + 5)[k.thread_id().to(u32) - 5]

    assert nvb.kernel("sm_90a", threads=128)(kernel).build().diagnostics == ()
