"""Every public call of k.math, k.integer, k.packed and k.convert, every operator, and every conversion of `.to`.

On a GPU of special values and a million random ones each, in the simulator of a few hundred; each result is equal to
the reference in `cases`, or within the error that the call's docstring states. f32x2, fp6, fp4, ue8m0 and stochastic
rounding, which an H200 does not have, are in tests/gpu/test_named_conversions.py and tests/builder/ops/math.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nvbackend import runtime
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.ops.conversion import Convert
from nvbackend.builder.ops.math.functions import Math
from nvbackend.builder.ops.math.integer import IntegerOperations
from nvbackend.builder.ops.math.packed import PackedOperations
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, pred, s64, u32, u64
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.gpu.differential.case import Case
from tests.gpu.differential.cases import cases
from tests.scalar import numbers
from tests.scalar.specials import every_special, random_bits

THREADS = 256
AT_ONCE = 24
"""Cases of one kernel."""
CODES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
NOUNS = {"math": Math, "integer": IntegerOperations, "packed": PackedOperations, "convert": Convert}
CASES = cases()
Array = Any


def test_every_public_call_has_a_reference() -> None:
    """A new call of one of these nouns fails here until `cases` has what it gives."""
    tried = {case.name for case in CASES}
    public = {
        f"{noun}.{name}"
        for noun, cls in NOUNS.items()
        for name in dir(cls)
        if not name.startswith("_") and callable(getattr(cls, name))
    }
    assert public - tried == set()
    for sign in (
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "<<",
        ">>",
        "&",
        "|",
        "^",
        "~",
        "neg",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
    ):
        assert f"operator {sign}" in tried


def groups(chosen: Sequence[Case]) -> Iterator[tuple[tuple[ElementType, ...], list[Case]]]:
    """Cases of the same arguments, a kernel's worth at a time."""
    by_sources: dict[tuple[ElementType, ...], list[Case]] = {}
    for case in chosen:
        by_sources.setdefault(case.sources, []).append(case)
    for sources, alike in by_sources.items():
        for start in range(0, len(alike), AT_ONCE):
            yield sources, alike[start : start + AT_ONCE]


def register(element: ElementType) -> ElementType:
    """The integer that holds its bits in memory."""
    return BY_NAME[f"u{max(8, numbers.dtype(element).itemsize * 8)}"]


@functools.cache
def column(element: ElementType, place: int, arity: int, count: int) -> Array:
    """Bits: every combination of some special values, all of them in turn, and random ones."""
    rng = np.random.default_rng([place, arity, element.bits])
    if element.name in CODES:
        special = np.arange(256, dtype=np.uint64)
    else:
        special = numbers.bits_of(every_special(element)).astype(np.uint64)
    few = special[:: max(1, len(special) // (12 if arity < 3 else 6))]
    combined = np.array([row[place] for row in itertools.product(few, repeat=arity)], np.uint64)
    rolled = np.roll(np.resize(special, 2 * len(special)), place * 7)
    drawn = random_bits(rng, element, count // 20 if element.is_integer else count)
    bits = register(element).bits
    others = rng.integers(0, (1 << bits) - 1, count, np.uint64, endpoint=True)
    if element.is_integer:  # of every size
        others >>= rng.integers(0, bits, count, np.uint64)
    return np.concatenate([combined, rolled, drawn, others])[:count].astype(numbers.dtype(register(element)))


def as_numbers(element: ElementType, words: Array) -> Array:
    """Bits as float64, integers or predicates."""
    if element.name in CODES:
        return words.astype(np.uint8).view(CODES[element.name]).astype(np.float64)
    values = numbers.from_bits(element, words.astype(np.uint64))
    return values if not element.is_float else values.astype(np.float64)


def kernel_of(sources: tuple[ElementType, ...], chosen: Sequence[Case]) -> Any:
    """A kernel that stores what each case gives of each row of arguments, as 64 bits."""
    parameters = [Parameter(f"x{place}", Pointer(register(each))) for place, each in enumerate(sources)]
    parameters += [Parameter("out", Pointer(u64)), Parameter("n", Scalar(s64))]
    k = KernelBuilder("differential", "sm_90a", threads=THREADS, parameters=parameters)
    *columns, out, n = k.arguments
    at = (k.block_id() * THREADS + k.thread_id()).to(s64)
    with k.if_(at < n):
        given = [array[at] for array in columns]
        values = [v if v.type is each else v.bitcast(each) for v, each in zip(given, sources, strict=True)]
        for place, case in enumerate(chosen):
            made = case.emit(k, *values)
            assert made.type is case.result, (case, made.type)
            bits = k.select(made, 1, 0).to(u32) if case.result is pred else made.bitcast(register(case.result))
            out[at + n * place] = bits.to(u64)
    return k.compile(check=False)


def mistakes(chosen: Sequence[Case], count: int, device: str | None) -> list[str]:
    """The first wrong results of each case."""
    wrong: list[str] = []
    every = list(groups(chosen))
    with ThreadPoolExecutor() as pool:  # compilers and NumPy's loops run beside one another
        kernels = pool.map(lambda group: kernel_of(*group), every)
        for (sources, alike), compiled in zip(every, kernels, strict=True):
            columns = [column(each, place, len(sources), count) for place, each in enumerate(sources)]
            results = launched(compiled, len(alike), columns, device)
            values = [as_numbers(each, words) for each, words in zip(sources, columns, strict=True)]
            for found in pool.map(functools.partial(_compared, values), alike, results):
                wrong += found
    return wrong


def _compared(values: list[Array], case: Case, words: Array) -> list[str]:
    got = words.astype(bool) if case.result is pred else as_numbers(case.result, words)
    with np.errstate(all="ignore"):
        wanted = case.wanted(*values)
        wanted = wanted if got.dtype.kind != "f" else np.asarray(wanted, np.float64)
        bad = np.flatnonzero(case.wrong(got, wanted, *values))
    more = [f"{case}: {len(bad)} in all"] if len(bad) > 3 else []
    return [f"{case}: {[v[at] for v in values]} gave {got[at]}, not {wanted[at]}" for at in bad[:3]] + more


def launched(compiled: Any, count: int, columns: list[Array], device: str | None) -> Array:
    """What the kernel stores, a row for each case."""
    rows = len(columns[0])
    out = np.zeros(rows * count, np.uint64)
    loaded = runtime.load(compiled, **({} if device is None else {"device": device}))
    if device is not None:
        loaded.launch(-(-rows // THREADS), *columns, out, rows)
        return out.reshape(count, rows)
    from numba import cuda

    held = cuda.to_device(out)
    loaded.launch(-(-rows // THREADS), *(cuda.to_device(each) for each in columns), held, rows)
    loaded.synchronize()
    return held.copy_to_host().reshape(count, rows)


def test_a_few_cases_in_the_simulator() -> None:
    assert mistakes(CASES[::29], 300, "simulator") == []


@pytest.mark.exhaustive(seconds=120)
@pytest.mark.parametrize("part", range(4))
def test_every_case_in_the_simulator(part: int) -> None:
    assert mistakes(CASES[part::4], 2000, "simulator") == []


@pytest.mark.gpu((9, 0))
@pytest.mark.exhaustive
def test_a_million_of_each_on_a_gpu() -> None:
    assert mistakes(CASES, 1_000_000, None) == []
