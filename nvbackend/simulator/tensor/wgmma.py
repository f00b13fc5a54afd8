"""wgmma.mma_async: shapes, operands, and D from A and B. PTX ISA 9.7.15.5.2, 9.7.15.6.3."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.tensor import elements
from nvbackend.simulator.tensor.fragments import Fragment, a_fragment, d_fragment
from nvbackend.simulator.tensor.models import wgmma_model
from nvbackend.simulator.tensor.products import Product
from nvbackend.simulator.tensor.sparse import chunk_elements, expanded, metadata_codes, of_warpgroup

Array = NDArray[Any]

M = 64
THREADS = 128
_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_PLAIN = frozenset({"mma_async", "sync", "aligned", "popc"})


@dataclass(frozen=True, slots=True)
class Wgmma:
    """One wgmma.mma_async: D, 64 x n, of one warpgroup. Bits of an element of A and B: `bits`, both alike."""

    n: int
    k: int
    product: Product
    sparse: bool
    bits: int
    a: Fragment
    d: Fragment

    @property
    def scales(self) -> bool:
        """Whether it has immediates for the signs of A and B."""
        return self.product.model is not None

    @property
    def transposes(self) -> bool:
        """Whether it has immediates for MN-major operands in shared memory."""
        return self.product.a in ("f16", "bf16")

    @property
    def stored_k(self) -> int:
        """Elements of a row of A that are stored."""
        return self.k // 2 if self.sparse else self.k

    def row_bytes(self, operand: str) -> int:
        """Bytes of a row of A ("a") or B ("b"), K-major."""
        return (self.stored_k if operand == "a" else self.k) * self.bits // 8

    def codes(self, metadata: Array, selector: int) -> Array:
        """The code of each chunk of a sparse A, (.., 64, chunks), by the words of the threads."""
        return of_warpgroup(metadata_codes(metadata, selector, self.bits, self.k // chunk_elements(self.bits)))

    def call(
        self,
        a: Array,
        b: Array,
        d: Array | None,
        *,
        metadata: Array | None = None,
        selector: int = 0,
        signs: tuple[bool, bool] = (False, False),
    ) -> Array:
        """The registers of D (registers, n) of n / 128 warpgroups, from codes of A (.., 64, stored K) and B (.., n, K).

        `d` are the registers before it, None where they do not count (scale-D of 0). `metadata` is a word of each
        thread, `signs` whether A and B are negated.
        """
        before = np.zeros((len(a), M, self.n), np.uint32) if d is None else self.d.matrix(d)
        present = None
        if metadata is not None:
            a, present = expanded(a, self.codes(metadata, selector), self.bits)
        return self.d.fill(self.product(a, np.swapaxes(b, -1, -2), before, present=present, signs=signs))


def find(parts: tuple[str, ...]) -> Wgmma | None:
    """The instruction of an opcode, None where a piece of it is unknown."""
    shape, types, sparse, saturate, operation = None, [], False, False, ""
    for part in parts[1:]:
        if found := _SHAPE.fullmatch(part):
            shape = int(found[1]), int(found[2])
        elif part == "sp":
            sparse = True
        elif part == "satfinite":
            saturate = True
        elif part == "and":
            operation = part
        elif elements.is_type(part):
            types.append(part)
        elif part not in _PLAIN:
            return None
    if shape is None or len(types) != 3:
        return None
    d, a, b = types
    model = None if elements.is_integer(a) else wgmma_model(a)
    product = Product(a, b, d, d, model, saturate, operation)
    n, k = shape
    bits = elements.width(a)
    stored = k // 2 if sparse else k
    return Wgmma(n, k, product, sparse, bits, a_fragment(M, stored, bits), d_fragment(M, n, elements.width(d)))
