"""Every kind of wmma on a GPU, against NumPy: shapes, types, layouts, strides, state spaces, saturation, rounding.

Where an element of a matrix lies in memory is written down here a second time, from PTX ISA 9.7.14.4.2.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from nvbackend.intrinsics.row.types import b1, bf16, f16, f32, f64, s4, s8, s32, tf32, u4, u8
from nvbackend.isel.select.wmma.request import WmmaRequest
from tests.support.devices import ON_DEVICES
from tests.support.wmma_kernel import Placement, wmma_kernel

pytestmark = ON_DEVICES

DEEP = ((16, 16, 16), (8, 32, 16), (32, 8, 16))
KINDS = [
    *(WmmaRequest(shape, f16, f16, c, d) for shape in DEEP for c in (f16, f32) for d in (f16, f32)),
    *(WmmaRequest(shape, bf16, bf16, f32, f32) for shape in DEEP),
    WmmaRequest((16, 16, 8), tf32, tf32, f32, f32),
    WmmaRequest((8, 8, 4), f64, f64, f64, f64),
    *(WmmaRequest(shape, element, element, s32, s32) for shape in DEEP for element in (s8, u8)),
    *(WmmaRequest((8, 8, 32), element, element, s32, s32) for element in (s4, u4)),
    *(WmmaRequest((8, 8, 128), b1, b1, s32, s32, popc=popc) for popc in ("xor", "and")),
]
LAYOUTS = tuple(itertools.product(("row", "col"), repeat=2))
PAD_BITS = 256
"""Between the end of one line (row or column) of a matrix and the start of the next."""
STORAGE = {f16: np.float16, bf16: np.uint16, tf32: np.float32, f32: np.float32, f64: np.float64, s32: np.int32}
RANGES = {s8: (-128, 128), u8: (0, 256), s4: (-8, 8), u4: (0, 16), b1: (0, 2), s32: (-1000, 1000)}


def extents(shape):
    m, n, k = shape
    return {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}


def random_matrix(element, extent, seed):
    """Values that multiply and add exactly."""
    random = np.random.default_rng(seed)
    if element in RANGES:
        return random.integers(*RANGES[element], extent)
    return random.integers(-4, 5, extent) / 2


def line_length(extent, layout):
    return extent[1] if layout == "row" else extent[0]


def image(matrix, element, layout, stride):
    """The bytes of a matrix: its rows (columns), `stride` elements from one to the next, filled up with ones."""
    lines = matrix if layout == "row" else matrix.T
    padded = np.ones((lines.shape[0], stride), lines.dtype)
    padded[:, : lines.shape[1]] = lines
    if element is b1:
        return np.packbits(padded.astype(np.uint8), bitorder="little")
    if element in (s4, u4):
        nibbles = (padded & 15).astype(np.uint8).reshape(-1, 2)
        return nibbles[:, 0] | nibbles[:, 1] << 4
    if element is bf16:
        import ml_dtypes

        return padded.astype(ml_dtypes.bfloat16).view(np.uint8).reshape(-1)
    kind = STORAGE.get(element, np.int8 if element is s8 else np.uint8)
    return padded.astype(kind).view(np.uint8).reshape(-1)


def matrix_of(data, element, extent, layout, stride):
    """The matrix that lies in `data` (D: elements of whole bytes), and whether the padding was left alone."""
    lines = extent[0] if layout == "row" else extent[1]
    stored = data.view(STORAGE[element])[: lines * stride].reshape(lines, stride)
    length = line_length(extent, layout)
    found = stored[:, :length]
    untouched = np.all(stored[:, length:].view(np.uint8) == FILL)
    return (found if layout == "row" else found.T), untouched


FILL = 0x5A
"""The bytes of D before the kernel runs."""


def product(request, a, b, c, turns=1):
    if request.a is b1:
        bits = a[:, :, None] ^ b[None, :, :] if request.popc == "xor" else a[:, :, None] & b[None, :, :]
        return turns * bits.sum(axis=1) + c
    return turns * (a @ b) + c


def run(request, a, b, c, *, padded=True, space="global", turns=1, c_layout="row", d_layout="col"):
    """D on the GPU. `padded`: with strides longer than the lines; else without strides."""
    from numba import cuda

    from nvbackend import runtime

    elements = {"a": request.a, "b": request.b, "c": request.c, "d": request.d}
    layouts = {"a": request.a_layout, "b": request.b_layout, "c": c_layout, "d": d_layout}
    lines = {name: line_length(extent, layouts[name]) for name, extent in extents(request.shape).items()}
    strides = {name: length + PAD_BITS // elements[name].bits if padded else length for name, length in lines.items()}
    images = [
        image(matrix, elements[name], layouts[name], strides[name]) for name, matrix in (("a", a), ("b", b), ("c", c))
    ]
    m, n, _ = request.shape
    images.append(np.full((m if d_layout == "row" else n) * strides["d"] * request.d.bits // 8, FILL, np.uint8))
    size = -(-max(len(one) for one in images) // 128) * 128
    buffers = [np.concatenate([one, np.full(size - len(one), FILL, np.uint8)]).view(np.uint32) for one in images]
    given = strides if padded else dict.fromkeys(strides)
    placement = Placement(given, c_layout, d_layout, space, size if space == "shared" else 0)
    kernel = runtime.load(wmma_kernel(request, placement, turns=turns).compile())
    on_device = [cuda.to_device(buffer) for buffer in buffers]
    kernel.launch(1, *on_device)
    kernel.synchronize()
    data = on_device[3].copy_to_host().view(np.uint8)
    found, untouched = matrix_of(data, request.d, (m, n), d_layout, strides["d"])
    assert untouched
    return found


def operands(request, seed=0):
    elements = {"a": request.a, "b": request.b, "c": request.c}
    return [random_matrix(one, extents(request.shape)[name], seed + ord(name)) for name, one in elements.items()]


def with_layouts(request, layouts):
    return replace(request, a_layout=layouts[0], b_layout=layouts[1])


CASES = [
    with_layouts(kind, layouts) for kind in KINDS for layouts in (LAYOUTS if kind.a.bits >= 8 else (("row", "col"),))
]


def identifier(request):
    types = f"{request.a}-{request.c}-{request.d}"
    shape = "m{}n{}k{}".format(*request.shape)
    return f"{shape}-{types}-{request.a_layout}-{request.b_layout}{request.popc or ''}"


@pytest.mark.parametrize("request_", CASES, ids=identifier)
def test_every_kind_and_layout(request_):
    """C by rows and D by columns: their layouts need not agree."""
    a, b, c = operands(request_)
    assert np.array_equal(run(request_, a, b, c), product(request_, a, b, c))


@pytest.mark.parametrize(("c_layout", "d_layout"), LAYOUTS)
@pytest.mark.parametrize("request_", [kind for kind in KINDS if kind.c is kind.d], ids=identifier)
def test_layouts_of_accumulators(request_, c_layout, d_layout):
    a, b, c = operands(request_, 1)
    found = run(request_, a, b, c, c_layout=c_layout, d_layout=d_layout)
    assert np.array_equal(found, product(request_, a, b, c))


@pytest.mark.parametrize("padded", [True, False], ids=["strides", "none"])
@pytest.mark.parametrize("space", ["global", "shared", None], ids=["global", "shared", "generic"])
@pytest.mark.parametrize("request_", KINDS[3::4], ids=identifier)
def test_address_spaces_and_strides(request_, space, padded):
    a, b, c = operands(request_, 2)
    found = run(request_, a, b, c, space=space, padded=padded)
    assert np.array_equal(found, product(request_, a, b, c))


@pytest.mark.exhaustive
@pytest.mark.parametrize("padded", [True, False], ids=["strides", "none"])
@pytest.mark.parametrize("space", ["global", "shared", None], ids=["global", "shared", "generic"])
@pytest.mark.parametrize("c_layout", ["row", "col"])
def test_every_row(c_layout, space, padded):
    """Every load, store and mma: each kind and layout in each state space, with strides and without."""
    saturating = (replace(one, satfinite=True) for one in CASES if one.a in (s8, u8, s4, u4))
    d_layout = "col" if c_layout == "row" else "row"
    wrong = []
    rounding = (replace(one, rounding=mode) for one in CASES if one.a is f64 for mode in ("rn", "rz", "rm", "rp"))
    for request in (*CASES, *saturating, *rounding):
        a, b, c = operands(request, 6)
        found = run(request, a, b, c, space=space, padded=padded, c_layout=c_layout, d_layout=d_layout)
        if not np.array_equal(found, product(request, a, b, c)):
            wrong.append(identifier(request))
    assert wrong == []


@pytest.mark.parametrize("request_", [kind for kind in KINDS if kind.c is kind.d], ids=identifier)
def test_a_result_is_the_next_accumulator(request_):
    a, b, c = operands(request_, 3)
    assert np.array_equal(run(request_, a, b, c, turns=3), product(request_, a, b, c, turns=3))


@pytest.mark.parametrize("satfinite", [False, True])
@pytest.mark.parametrize(
    ("shape", "element"), [((16, 16, 16), s8), ((32, 8, 16), u8), ((8, 8, 32), s4), ((8, 8, 32), u4)]
)
def test_saturation_of_integers(shape, element, satfinite):
    """Without it the sum wraps around, as two's complement does."""
    request = WmmaRequest(shape, element, element, s32, s32, satfinite=satfinite)
    a, b, _ = operands(request, 4)
    c = np.where(np.arange(shape[0] * shape[1]).reshape(shape[:2]) % 2, 2**31 - 5, -(2**31) + 5)
    exact = product(request, a.astype(np.int64), b.astype(np.int64), c)
    assert np.any(exact > 2**31 - 1)
    expected = np.clip(exact, -(2**31), 2**31 - 1) if satfinite else exact.astype(np.int32)
    assert np.array_equal(run(request, a, b, c), expected)


def rounded(exact, mode):
    """A Fraction as the f64 that rounding mode `mode` gives."""
    nearest = float(exact)
    error = exact - Fraction(nearest)
    if mode in (None, "rn") or error == 0:
        return nearest
    towards = {"rm": -math.inf, "rp": math.inf, "rz": 0.0}[mode]
    wanted_up = towards == math.inf or (towards == 0.0 and exact < 0)
    if (error > 0) == wanted_up:
        return math.nextafter(nearest, math.inf if wanted_up else -math.inf)
    return nearest


@pytest.mark.parametrize("mode", [None, "rn", "rz", "rm", "rp"])
def test_rounding_of_f64(mode):
    """Each row of A has one element that is not zero, so each element of D is one product, added and rounded once."""
    request = WmmaRequest((8, 8, 4), f64, f64, f64, f64, rounding=mode)
    random = np.random.default_rng(5)
    a = np.zeros((8, 4))
    a[np.arange(8), np.arange(8) % 4] = random.standard_normal(8)
    b, c = random.standard_normal((4, 8)), random.standard_normal((8, 8))
    expected = np.empty((8, 8))
    for row, column in np.ndindex(8, 8):
        exact = Fraction(a[row, row % 4]) * Fraction(b[row % 4, column]) + Fraction(c[row, column])
        expected[row, column] = rounded(exact, mode)
    assert np.array_equal(run(request, a, b, c), expected)


def test_the_modes_of_rounding_differ_on_these_numbers():
    third = Fraction(1, 3)
    assert rounded(third, "rm") == rounded(third, "rz") < third < rounded(third, "rp")
    assert rounded(-third, "rm") < -third < rounded(-third, "rz") == rounded(-third, "rp")
    assert rounded(third, "rn") == 1 / 3
