"""Addresses of random indices, against Python's integers: the same IR, run on this machine's processor.

An index is a number of its own type, which wraps as that type does; what is made of it to reach an element is exact.
"""

from __future__ import annotations

import mmap
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32, i64, u8, u32
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.tile import SharedTile, SharedTiles
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.values.values import Value, as_value
from nvbackend.intrinsics.row.types import BY_NAME, ElementType
from nvbackend.layout import Layout, make_layout
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.support.host import run_on_host

INTEGERS = [BY_NAME[f"{sign}{bits}"] for sign in "su" for bits in (8, 16, 32, 64)]
ELEMENTS = [BY_NAME[name] for name in ("u8", "f16", "f32", "f64")]
ADDRESSES = 40
"""Addresses in a kernel."""
ROUNDS = 8
"""Runs of a kernel, each on other numbers."""
WINDOW = 1 << 32
MAP_NORESERVE = 0x4000
"""Linux's, which the module mmap of Python 3.11 lacks."""


@dataclass(frozen=True)
class Number:
    """A value of the kernel, and what it is where the arguments have these values."""

    value: Any
    at: Callable[[dict[str, int]], int]


def wrapped(number: int, element: ElementType) -> int:
    number &= (1 << element.bits) - 1
    return number - (1 << element.bits) if element.is_signed and number >> element.bits - 1 else number


def limits(element: ElementType) -> tuple[int, int]:
    low = -(1 << element.bits - 1) if element.is_signed else 0
    return low, low + (1 << element.bits) - 1


def near_a_limit(source: random.Random, element: ElementType) -> int:
    """A number of that type, often one whose product with the size of an element passes 31 or 32 bits."""
    low, high = limits(element)
    center = source.choice([0, low, high, *(sign << bit for bit in (7, 8, 28, 29, 30, 31, 32, 33) for sign in (1, -1))])
    number = center + source.randint(-3, 3) if source.random() < 0.8 else source.randint(low, high)
    return min(max(number, low), high)


OPERATIONS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "&": lambda a, b: a & b}


def expression(source: random.Random, leaves: dict[str, Value], element: ElementType, depth: int) -> Number:
    """A random index of that type."""
    if depth and source.random() < 0.5:
        operation = OPERATIONS[source.choice(list(OPERATIONS))]
        a, b = (expression(source, leaves, element, depth - 1) for _ in range(2))
        value = operation(a.value, b.value)
        return Number(value, lambda known: wrapped(operation(a.at(known), b.at(known)), element))
    if depth and source.random() < 0.2:
        other = source.choice(INTEGERS)
        inner = expression(source, leaves, other, depth - 1)
        return Number(inner.value.to(element), lambda known: wrapped(inner.at(known), element))
    if source.random() < 0.15:
        constant = near_a_limit(source, element)
        value = as_value(leaves[element.name]._k, constant, element)
        return Number(value, lambda known: constant)
    return Number(leaves[element.name], lambda known: known[element.name])


def strided(source: random.Random, k: KernelBuilder, base: Address, leaves: dict[str, Value]) -> Number:
    """An element of a tensor of large strides, at coordinates that are in its shape."""
    extents = [source.choice([7, 100, 1 << 10, 1 << 20]) for _ in range(2)]
    strides: list[Any] = [source.choice([1, 3, 4096, 1 << 16, (1 << 22) + 1]) for _ in range(2)]
    kinds = [source.choice(INTEGERS)] * 2
    if source.random() < 0.5:
        kinds = [source.choice([kind for kind in INTEGERS if kind.name not in ("u32", "u64")]) for _ in range(2)]
    run_time = source.choice([None, None, "s32", "s64"])
    places, numbers = [], []
    for extent, kind in zip(extents, kinds, strict=True):
        least = min(extent, limits(kind)[1] + 1)
        value = leaves[kind.name] & (1 << least.bit_length() - 1) - 1
        places.append(value)
        numbers.append(lambda known, name=kind.name, least=least: known[name] & (1 << least.bit_length() - 1) - 1)
    steps = [lambda known, stride=stride: stride for stride in strides]
    if run_time:
        strides[0], steps[0] = leaves[run_time], lambda known: known[run_time]
    address = k.tensor(base, Layout(tuple(extents), tuple(strides))).at(*places)
    size = base.element.bits // 8
    return Number(
        address.bytes - base.bytes,
        lambda known: size * sum(place(known) * step(known) for place, step in zip(numbers, steps, strict=True)),
    )


def moved(source: random.Random, base: Address, leaves: dict[str, Value]) -> Number:
    """An element at a random distance, in one or two steps."""
    address, size, parts = base, base.element.bits // 8, []
    for _ in range(source.choice([1, 1, 2])):
        unit = source.choice([size, size, 1, 24])
        number = expression(source, leaves, source.choice(INTEGERS), 2)
        if unit == size:
            address = address + number.value
        elif unit == 1:
            address = address.byte_offset(number.value)
        else:
            address = address.steps(number.value, unit)
        parts.append((number, unit))
    return Number(address.bytes - base.bytes, lambda known: sum(one.at(known) * unit for one, unit in parts))


def kernel_of(source: random.Random) -> tuple[nvb.builder.kernel.FinishedKernel, list[Callable[[Any], int]]]:
    """A kernel that writes how far random addresses are from their pointers, and what they should be, modulo 2^64."""
    element = source.choice(ELEMENTS)
    parameters = [Parameter("out", Pointer(i64)), Parameter("x", Pointer(element)), Parameter("shared", Scalar(u32))]
    parameters += [Parameter(f"in_{kind}", Pointer(kind)) for kind in INTEGERS]
    k = KernelBuilder("addresses", "sm_90a", threads=32, parameters=parameters)
    out, x, shared, *inputs = k.arguments
    leaves = {kind.name: given[0] for kind, given in zip(INTEGERS, inputs, strict=True)}
    in_shared = k.shared_address(shared, element, 16)
    wanted: list[Callable[[Any], int]] = []
    for place in range(ADDRESSES):
        base = source.choice([x, x, in_shared])
        made = strided(source, k, base, leaves) if source.random() < 0.4 else moved(source, base, leaves)
        out[place] = made.value.to(i64)
        narrow = base is in_shared
        wanted.append(
            lambda known, at=made.at, narrow=narrow: at(known) % WINDOW if narrow else wrapped(at(known), i64)
        )
    return k.finish(), wanted


def assert_addresses(seed: int) -> None:
    source = random.Random(seed)
    finished, wanted = kernel_of(source)
    for _ in range(ROUNDS):
        known = {kind.name: near_a_limit(source, kind) for kind in INTEGERS}
        out = np.zeros(ADDRESSES, np.int64)
        given = [np.array([known[kind.name]], kind.storage) for kind in INTEGERS]
        run_on_host(finished, out, np.zeros(2), 0x8000_0010, *given)
        assert [int(one) for one in out] == [at(known) for at in wanted], known


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(16))
def test_random_addresses(seed):
    """16 kernels of 40 addresses, on 8 sets of numbers each: 5,120 addresses."""
    assert_addresses(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(100, 700))
def test_more_random_addresses(seed):
    assert_addresses(seed)


FAR = [
    (u8, 100),
    (u8, 255),
    (i32, 1 << 29),
    (i32, 600_000_000),
    (i32, -(1 << 29) - 5),
    (u32, (1 << 29) + 7),
    (u32, 3 << 28),
]


@pytest.fixture(scope="module")
def reserved():
    """Four GiB of addresses on either side of a place, of which nothing is memory until it is touched."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    return np.frombuffer(mmap.mmap(-1, 1 << 33, flags=flags), np.float32)


@pytest.mark.parametrize("known", [False, True], ids=["run-time", "constant"])
@pytest.mark.parametrize(("element", "index"), FAR, ids=str)
def test_what_is_stored_and_loaded_lies_at_the_index(reserved, element, index, known):
    parameters = [Parameter("out", Pointer(f32)), Parameter("at", Pointer(element))]
    k = KernelBuilder("far", "sm_90a", threads=32, parameters=parameters)
    out, at = k.arguments
    place = k.const(index, element) if known else at[0]
    out[place] = out[place] + 1.5
    middle = len(reserved) // 2
    reserved[middle + index] = 2.0
    run_on_host(k.finish(), reserved[middle:], np.array([index], element.storage))
    assert reserved[middle + index] == 3.5


def shared_numbers(make: Callable[[KernelBuilder, Value, Address], Address], *, given: int) -> int:
    """The address that `make` gives of a u8 of this value and of shared memory that begins at 0x2000."""
    parameters = [Parameter("out", Pointer(u32)), Parameter("base", Scalar(u32)), Parameter("at", Pointer(u8))]
    k = KernelBuilder("tiles", "sm_90a", threads=32, parameters=parameters)
    out, base, at = k.arguments
    out[0] = make(k, at[0], k.shared_address(base, f16, 1024)).bytes
    result = np.zeros(1, np.uint32)
    run_on_host(k.finish(), result, 0x2000, np.array([given], np.uint8))
    return int(result[0]) - 0x2000


LAYOUT = SmemLayout(Major.K, SwizzleMode.NONE, f16, 128, 64)


def test_rows_and_tiles_are_found_by_narrow_indices():
    assert shared_numbers(lambda k, i, base: SharedTiles(base, LAYOUT, 9).at(i).address, given=5) == 5 * LAYOUT.bytes
    step = LAYOUT.row_step_bytes(64)
    assert shared_numbers(lambda k, i, base: SharedTile(base, LAYOUT).rows_from(i, 64).address, given=1) == step
    for row in (3, 100, 127):
        at = shared_numbers(lambda k, i, base: SharedTile(base, LAYOUT).at(i, 17), given=row)
        assert at == LAYOUT.offset(row, 17)


def test_a_narrow_coordinate_of_a_whole_shape():
    layout = make_layout(Layout((16, 40), (100, 3)))
    at = shared_numbers(lambda k, i, base: k.tensor(base, layout).at(i), given=239)
    assert at == 2 * (239 % 16 * 100 + 239 // 16 * 3)


def test_steps_back_in_shared_memory():
    assert shared_numbers(lambda k, i, base: base + i + -3, given=9) == 12
    assert shared_numbers(lambda k, i, base: base.byte_offset(i).byte_offset(-8), given=8) == 0


def test_a_strided_loop_of_a_known_range_multiplies_nothing():
    k = KernelBuilder("strided", "sm_90a", threads=128, parameters=[Parameter("x", Pointer(f32))])
    (x,) = k.arguments
    with k.range(k.thread_id(), 1 << 20, 128) as i:
        x[i] = x[i] * 2.0
    ptx = k.finish().compile(assemble=False).ptx
    loop = ptx[ptx.index("$L__BB0_1:") : ptx.index("bra", ptx.index("$L__BB0_1:"))]
    assert "ld.global" in loop
    assert "mul." not in loop.replace("mul.f32", "").replace("mul.rn.f32", "")
    assert "mad" not in loop
