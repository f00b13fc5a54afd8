"""tcgen05.mma: the instruction descriptor read bit by bit, and what the instruction computes.

PTX ISA 9.7.16.4.2 (instruction descriptor), 9.7.16.4.3 (zero-column mask), 9.7.16.10.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.tensor import elements
from nvbackend.simulator.tensor.models import tcgen05_model
from nvbackend.simulator.tensor.products import Product

Array = NDArray[Any]

_NARROW = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
_TYPES = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": _NARROW,
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": _NARROW,
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
"""The types of A and B by their codes, of each kind."""
_ACCUMULATORS = {0: "f16", 1: "f32", 2: "s32"}
_K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
_FACTORS = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 2}
_BLOCKS = {"block32": 32, "block16": 16}


@dataclass(frozen=True, slots=True)
class Spelling:
    """The pieces of an opcode of tcgen05.mma: `factors` are the scale factors of a row, 0 where there are none."""

    kind: str
    ctas: int
    sparse: bool
    stationary: bool
    shifted: bool
    factors: int


def spelling(parts: tuple[str, ...]) -> Spelling | None:
    """The pieces of `tcgen05.mma...`, None where one of them is unknown."""
    kind, ctas, sparse, stationary, shifted, factors = "", 0, False, False, False, 0
    for part in parts[2:]:
        if part.startswith("kind::"):
            kind = part[6:]
        elif part.startswith("cta_group::"):
            ctas = int(part[-1])
        elif part == "sp":
            sparse = True
        elif part == "ws":
            stationary = True
        elif part == "ashift":
            shifted = True
        elif part in ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X"):
            factors = int(part[-2])
        elif part in _BLOCKS:
            factors = _K.get(kind, 0) // _BLOCKS[part]
        elif part != "block_scale" and not part.startswith("collector::"):
            return None
    if kind not in _K or ctas not in (1, 2):
        return None
    return Spelling(kind, ctas, sparse, stationary, shifted, factors or _FACTORS.get(kind, 0))


@dataclass(frozen=True, slots=True)
class Instruction:
    """What an instruction descriptor says. `negate` and `transpose` are of A and of B; `scale` the type of the scale
    factors, whose first bytes are `scale_ids`; `k` counts the elements of a full row."""

    kind: str
    m: int
    n: int
    k: int
    product: Product
    sparse: bool
    negate: tuple[bool, bool]
    transpose: tuple[bool, bool]
    selector: int = 0
    scale: str = ""
    scale_ids: tuple[int, int] = (0, 0)

    @property
    def in_bytes(self) -> bool:
        """Whether every element has a byte, also where it has fewer bits."""
        return self.kind in ("f8f6f4", "mxf8f6f4")

    @property
    def width(self) -> int:
        """Bits that an element of A or B takes."""
        return 8 if self.in_bytes else elements.width(self.product.a)


def decode(word: int, form: Spelling) -> Instruction | str:
    """The instruction of a descriptor, or what is wrong with it."""
    kind = form.kind
    a, b = _TYPES[kind].get(word >> 7 & 7), _TYPES[kind].get(word >> 10 & (3 if kind.startswith("mxf4") else 7))
    scaled = kind.startswith("mx")
    d = "f32" if scaled else _ACCUMULATORS.get(word >> 4 & 3)
    sparse = bool(word >> 2 & 1)
    if a is None or b is None or d is None:
        return f"the types {word >> 7 & 7} and {word >> 10 & 7} with D of {word >> 4 & 3}"
    if sparse != form.sparse:
        return f"a sparsity bit of {int(sparse)} in {'a sparse' if form.sparse else 'a dense'} instruction"
    if kind.startswith("mxf4") and word >> 31:
        return "a K of 96"
    model = None if kind == "i8" else tcgen05_model(a, b, sparse=sparse)
    return Instruction(
        kind=kind,
        m=(word >> 27 & 3) << 7 if scaled else (word >> 24 & 31) << 4,
        n=(word >> 17 & 63) << 3,
        k=_K[kind] * (2 if sparse else 1),
        product=Product(a, b, d, d, model, saturate=bool(word >> 3 & 1)),
        sparse=sparse,
        negate=(bool(word >> 13 & 1), bool(word >> 14 & 1)),
        transpose=(bool(word >> 15 & 1), bool(word >> 16 & 1)),
        selector=0 if scaled else word & 3,
        scale=("ue8m0" if word >> 23 & 1 else "ue4m3") if scaled else "",
        scale_ids=(word >> 29 & 3, word >> 4 & 3) if scaled else (0, 0),
    )


def zero_columns(word: int, m: int, n: int) -> Array | str:
    """Which columns of B count as zero, by a zero-column mask descriptor, or what is wrong with it."""
    found = np.zeros(n, bool)
    if not word >> 39 & 1:
        return found
    if word >> 56 & 63:
        return f"a column shift of {word >> 56 & 63}"
    # The PTX ISA's table names the spans the other way round than its examples use them.
    zeros, used = (word >> 40 & 255) + 1, (word >> 48 & 255) + 1
    parts = {128: 1, 64: 2, 32: 4}.get(m, 1)
    for part in range(parts):
        skipped, first = word >> 8 * part & 255, word >> (32 + part) & 1
        place = np.arange(n // parts) + skipped + (0 if not first else used)
        found[part * (n // parts) : (part + 1) * (n // parts)] = place % (used + zeros) >= used
    return found
