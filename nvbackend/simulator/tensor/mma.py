"""mma.sync of every shape and type: dense, sparse, block-scaled. PTX ISA 9.7.14.3, 9.7.14.5.14, 9.7.14.6.3."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.tensor import elements
from nvbackend.simulator.tensor.fragments import (
    Fragment,
    a_fragment,
    b_fragment,
    d_fragment,
    quad_a_fragment,
    quad_b_fragment,
    quad_d_fragment,
)
from nvbackend.simulator.tensor.models import warp_model
from nvbackend.simulator.tensor.products import Product, Scales
from nvbackend.simulator.tensor.sparse import chunk_elements, expanded, metadata_codes

Array = NDArray[Any]
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_IN_BYTES = frozenset({"kind::f8f6f4", "kind::mxf8f6f4"})
_FACTORS = {"kind::mxf8f6f4": 1, "kind::mxf4": 2}
_PLAIN = frozenset({"sync", "aligned", "block_scale", "popc"})


@dataclass(frozen=True, slots=True)
class Spelling:
    """The pieces of an opcode of mma."""

    shape: tuple[int, int, int]
    types: tuple[str, ...]
    layouts: tuple[str, ...] = ()
    kind: str = ""
    factors: int = 0
    sparse: bool = False
    saturate: bool = False
    operation: str = ""


def spelling(parts: tuple[str, ...]) -> Spelling | None:
    """The pieces of `mma...`, None where one of them is unknown."""
    shape: tuple[int, int, int] | None = None
    types, layouts, kind, factors, sparse, saturate, operation = [], [], "", 0, False, False, ""
    for part in parts[1:]:
        if found := _SHAPE.fullmatch(part):
            shape = (int(found[1]), int(found[2]), int(found[3]))
        elif part in ("sp", "sp::ordered_metadata"):
            sparse = True
        elif part in ("row", "col"):
            layouts.append(part)
        elif part.startswith("kind::"):
            kind = part
        elif part in ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X"):
            factors = int(part[-2])
        elif part == "satfinite":
            saturate = True
        elif part in ("xor", "and"):
            operation = part
        elif elements.is_type(part):
            types.append(part)
        elif part not in _PLAIN:
            return None
    if shape is None or not 4 <= len(types) <= 5:
        return None
    if len(types) == 5:
        factors = factors or _FACTORS.get(kind, 0)
    return Spelling(shape, tuple(types), tuple(layouts), kind, factors, sparse, saturate, operation)


@dataclass(frozen=True, slots=True)
class Mma:
    """One mma.sync. `a`, `b`, `c`, `d` are the fragments; registers are (registers, n), n / 32 warps.

    `call(a, b, c, metadata, selector, scales)` gives D's registers: `metadata` is a word of each thread, and `scales`
    (word, byte-id, thread-id) of A and then of B, or None; the ids are arrays with an element a thread.
    """

    a: Fragment
    b: Fragment
    c: Fragment
    d: Fragment
    product: Product
    sparse: bool
    factors: int
    call: Callable[..., Array]
    codes: Callable[[Array, int], Array] | None = None
    """Of a sparse one: the code of each chunk of A, by the words of the threads and the selector."""


Selected = tuple[Array, Array, Array]


def find(parts: tuple[str, ...], sm: int) -> Mma | None:
    """The mma of an opcode on sm_`sm`, None where a piece of it is unknown."""
    found = spelling(parts)
    if found is None or (product := _product(found, sm)) is None:
        return None
    if found.shape == (8, 8, 4) and product.a == "f16":
        return _four(found, product)
    (m, n, k), in_bytes = found.shape, found.kind in _IN_BYTES
    width = 8 if in_bytes else elements.width(product.a)
    a = a_fragment(m, k // 2 if found.sparse else k, width)
    b = b_fragment(k, n, width)
    c, d = (d_fragment(m, n, elements.width(one)) for one in (product.c, product.d))

    def codes(metadata: Array, selector: int) -> Array:
        return metadata_codes(metadata, selector, width, k // chunk_elements(width))

    def call(
        left: Array,
        right: Array,
        addend: Array,
        metadata: Array | None = None,
        selector: int = 0,
        scales: tuple[Selected, Selected] | None = None,
    ) -> Array:
        first, second, present = a.matrix(left), b.matrix(right), None
        if in_bytes:
            first, second = elements.from_bytes(product.a, first), elements.from_bytes(product.b, second)
        if metadata is not None:
            first, present = expanded(first, codes(metadata, selector), width)
        given = None if scales is None else _scales(found.types[4], found.factors, *scales)
        return d.fill(product(first, second, c.matrix(addend), present=present, scales=given))

    return Mma(a, b, c, d, product, found.sparse, found.factors, call, codes if found.sparse else None)


def _product(found: Spelling, sm: int) -> Product | None:
    d, a, b, c = found.types[:4]
    if elements.is_integer(a) or a == "f64":
        if a == "b1" and not found.operation:
            return None
        return Product(a, b, c, d, saturate=found.saturate, operation=found.operation)
    return Product(a, b, c, d, warp_model(sm, a, b, found.shape[2], sparse=found.sparse))


def _four(found: Spelling, product: Product) -> Mma:
    """m8n8k4 of f16: four multiplications, each of eight lanes."""
    a, b = quad_a_fragment(found.layouts[0]), quad_b_fragment(found.layouts[1])
    c, d = (quad_d_fragment(elements.width(one)) for one in (product.c, product.d))

    def call(left: Array, right: Array, addend: Array, *_: object) -> Array:
        first, second = a.matrix(left).reshape(-1, 8, 4), b.matrix(right).reshape(-1, 4, 8)
        return d.fill(product(first, second, c.matrix(addend).reshape(-1, 8, 8)).reshape(-1, 32, 8))

    return Mma(a, b, c, d, product, False, 0, call)


def _scales(kind: str, factors: int, of_a: Selected, of_b: Selected) -> Scales:
    """The factors that the threads hold: A's are in a pair of threads of each group, B's in one. PTX ISA 9.7.14.3."""
    words, threads = (one[0].reshape(-1, 8, 4) for one in (of_a, of_b)), (of_a[2], of_b[2])
    (word_a, word_b), (thread_a, thread_b) = words, (int(one.ravel()[0]) for one in threads)
    rows = np.concatenate([word_a[:, :, 2 * thread_a], word_a[:, :, 2 * thread_a + 1]], axis=1)
    columns = word_b[:, :, thread_b]
    first = [_byte(rows, of_a[1], factor) for factor in range(factors)]
    second = [_byte(columns, of_b[1], factor) for factor in range(factors)]
    return Scales(kind, np.stack(first, axis=-1), np.stack(second, axis=-2))


def _byte(words: Array, byte: Array, factor: int) -> Array:
    shift = np.uint32(8 * (int(byte.ravel()[0]) + factor))
    return (words >> shift).astype(np.uint8)
