"""D = A * B + C for matrices of codes of every type: integers and bits exactly, floats as tensor cores add them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.formats import FORMATS
from nvbackend.simulator.formats.exact import fused_exactly
from nvbackend.simulator.formats.fused import fused_f64
from nvbackend.simulator.tensor.elements import floats, integers, is_integer
from nvbackend.simulator.tensor.models import FOUR_BIT_FRACTION
from nvbackend.simulator.tensor.numerics import NONE, Model, Numbers, add_terms, multiply_add

Array = NDArray[Any]
_QUIET = np.uint64(1 << 51)
_NO_NUMBER = np.uint64(0xFFF8 << 48)
"""The NaN of an invalid operation."""
_BLOCK = 16
"""Products of e2m1 that are summed before they are scaled."""


@dataclass(frozen=True, slots=True)
class Scales:
    """Scale factors: codes of type `kind`, (.., rows, factors) of A and (.., factors, columns) of B."""

    kind: str
    a: Array
    b: Array


@dataclass(frozen=True, slots=True)
class Product:
    """What one instruction computes: the types of its matrices, and how it adds.

    `model` is None of integers and f64. `operation` is xor or and, of single bits; `saturate` is satfinite of integers,
    `rounding` that of f64.
    """

    a: str
    b: str
    c: str
    d: str
    model: Model | None = None
    saturate: bool = False
    operation: str = ""
    rounding: str = "rn"

    def __call__(
        self,
        a: Array,
        b: Array,
        c: Array,
        *,
        present: Array | None = None,
        signs: tuple[bool, bool] = (False, False),
        scales: Scales | None = None,
    ) -> Array:
        """The bits of D. `present` says which elements of a sparse A are there, `signs` whether A and B are negated.

        A is (.., M, K), B (.., K, N), C (.., M, N), codes in the lowest bits of unsigned integers.
        """
        if is_integer(self.a):
            return self._integers(a, b, c)
        with np.errstate(all="ignore"):
            if self.a == "f64":
                return _float64(a.view(np.float64), b.view(np.float64), c.view(np.float64), self.rounding)
            return self._floats(a, b, c, present, signs, scales)

    def _floats(
        self, a: Array, b: Array, c: Array, present: Array | None, signs: tuple[bool, bool], scales: Scales | None
    ) -> Array:
        assert self.model is not None
        model, within = self.model, "f16" if self.model.apart else ""
        left, right = (
            _negated(floats(kind, codes, within=within), sign)
            for kind, codes, sign in ((self.a, a, signs[0]), (self.b, b, signs[1]))
        )
        addend = FORMATS[self.c].decode(np.ascontiguousarray(c.astype(FORMATS[self.c].dtype)))
        if present is not None:
            left = replace(left, present=present)
            model = replace(model, group=2 * model.group, apart=2 * model.apart)
        if scales is None:
            return multiply_add(model, left, right, addend, self.d)
        factors = floats(scales.kind, scales.a), floats(scales.kind, scales.b)
        if scales.a.shape[-1] == 1:
            return multiply_add(model, _scaled(left, factors[0]), _scaled(right, factors[1]), addend, self.d)
        return add_terms(FOUR_BIT_FRACTION, _blocks(left.values, right.values, *factors), addend, self.d)

    def _integers(self, a: Array, b: Array, c: Array) -> Array:
        left, right = integers(self.a, a), integers(self.b, b)
        found = np.matmul(left, right)
        if self.operation == "xor":
            found = left.sum(axis=-1, keepdims=True) + right.sum(axis=-2, keepdims=True) - 2 * found
        total: Array = found.astype(np.int64) + c.astype(np.uint32).view(np.int32)
        if self.saturate:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        return total.astype(np.uint32)


def _negated(matrix: Numbers, negative: bool) -> Numbers:
    return replace(matrix, values=-matrix.values) if negative else matrix


def _scaled(matrix: Numbers, factors: Numbers) -> Numbers:
    """Each row or column times its power of two; the exponents of its products grow by as much."""
    zero = matrix.exponents == NONE
    exponents = np.where(zero, NONE, matrix.exponents + factors.exponents).astype(np.int16)
    return Numbers(matrix.values * factors.values, exponents)


def _blocks(a: Array, b: Array, scale_a: Numbers, scale_b: Numbers) -> list[tuple[Array, Array]]:
    """The sum of each 16 products, times the significands of its scale factors, with the sum of their exponents."""
    terms = []
    depth, factors = a.shape[-1], scale_a.values.shape[-1]
    significands = [one.values / np.exp2(np.where(one.values == 0, 0, one.exponents)) for one in (scale_a, scale_b)]
    for start in range(0, depth, _BLOCK):
        part, factor = slice(start, start + _BLOCK), start * factors // depth
        total = np.matmul(a[..., :, part], b[..., part, :])
        total *= significands[0][..., :, factor, None] * significands[1][..., factor, None, :]
        exponents = scale_a.exponents[..., :, factor, None] + scale_b.exponents[..., factor, None, :]
        terms.append((total, exponents))
    return terms


def _float64(a: Array, b: Array, c: Array, rounding: str) -> Array:
    """Fused multiply-adds one after the other, in the order of K."""
    found = c
    for k in range(a.shape[-1]):
        column, row = np.broadcast_arrays(a[..., :, k, None], b[..., None, k, :])
        found = _fused(column.ravel(), row.ravel(), found.ravel(), rounding).reshape(c.shape)
    return np.ascontiguousarray(found).view(np.uint64)


def _fused(a: Array, b: Array, c: Array, rounding: str) -> Array:
    """a * b + c; of several NaN that of b, then of c, made quiet, as an H100 does."""
    found = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, fused_f64(a, b, c))
    if rounding != "rn":
        for place in np.flatnonzero(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)):
            found[place] = fused_exactly(float(a[place]), float(b[place]), float(c[place]), rounding)
    if not np.isnan(found).any():
        return found
    bits = found.view(np.uint64)
    bits = np.where(np.isnan(found), _NO_NUMBER, bits)
    for one in (a, c, b):
        bits = np.where(np.isnan(one), np.ascontiguousarray(one).view(np.uint64) | _QUIET, bits)
    return bits.view(np.float64)
