"""Which legal mma instructions a chip does not have: ptxas makes something else of them, and says nothing.

Measured from the SASS of ptxas 13.5 for every compute capability that it knows (`benchmarks/emulation.py` measures it
again); 7.0 and 7.2 from the PTX ISA. Keyed on the spelling, so it holds for every row of `mma.sync` and `wmma.mma`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.classes.late_pattern import late_pattern
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, NumberKind, b1, f16, f64

Shape = tuple[int, int, int]

_SHAPE = late_pattern(r"m(\d+)n(\d+)k(\d+)")
_TYPES_OF_MMA = 4
"""D, A, B, C; `wmma.mma` of f16 names only D and C."""
_ORDERED = "::ordered_metadata"


@dataclass(frozen=True, slots=True)
class Spelling:
    """What a spelling of `mma.sync`, `mma.sp` or `wmma.mma` says: shape (M, N, K), type of A, and its qualifiers."""

    shape: Shape
    a: ElementType
    qualifiers: tuple[str, ...]

    @property
    def is_wmma(self) -> bool:
        """Whether it is `wmma.mma`."""
        return self.qualifiers[0] == "wmma"

    @property
    def is_sparse(self) -> bool:
        """Whether A is sparse."""
        return any(qualifier.startswith("sp") for qualifier in self.qualifiers[:2])

    @property
    def has_ordered_metadata(self) -> bool:
        """Whether a sparse A promises indices in order."""
        return any(qualifier.endswith(_ORDERED) for qualifier in self.qualifiers[:2])


@cache
def spelling_of(ptx: str) -> Spelling | None:
    """What `ptx` says; None if it is not an mma of one warp."""
    head, *qualifiers = ptx.split(".")
    shape = next((match for qualifier in qualifiers if (match := _SHAPE.fullmatch(qualifier))), None)
    if shape is None or not (head == "mma" or (head == "wmma" and qualifiers[0] == "mma")):
        return None
    types = [BY_NAME[qualifier] for qualifier in qualifiers if qualifier in BY_NAME]
    m, n, k = (int(extent) for extent in shape.groups())
    return Spelling((m, n, k), types[1] if len(types) >= _TYPES_OF_MMA else f16, (head, *qualifiers))


@dataclass(frozen=True, slots=True)
class Emulation:
    """What ptxas makes of an instruction that the chip does not have, and what to use there."""

    expansion: str
    instead: str


@dataclass(frozen=True, slots=True)
class _Lack:
    """Instructions that some chips lack: `native` are the compute capabilities (times ten) that have them.

    `instead` are texts, each from a compute capability on.
    """

    of: Callable[[Spelling], bool]
    native: tuple[range, ...]
    expansion: str
    instead: tuple[tuple[int, str], ...]


_TURING, _AMPERE, _HOPPER, _BLACKWELL, _CONSUMER_BLACKWELL, _ANY_LATER = 75, 80, 90, 100, 120, 1000
_ADA = 89
_TCGEN05 = "use tcgen05.mma over tensor memory, compiled for a target of this chip with a or f"


def _is_small_float(element: ElementType) -> bool:
    return element.kind is NumberKind.FLOAT and element.bits <= 8


_LACKS: tuple[_Lack, ...] = (
    _Lack(
        of=lambda mma: not mma.is_wmma and mma.a is f16 and mma.shape == (8, 8, 4),
        native=(range(_AMPERE),),
        expansion="a function call that shuffles the fragments between the quads of the warp",
        instead=((_AMPERE, "use mma.sync m16n8k8 or m16n8k16"),),
    ),
    _Lack(
        of=lambda mma: mma.a.is_integer and mma.a.bits == 4 and not mma.is_sparse,
        native=(range(_TURING, _HOPPER),),
        expansion="a function call that unpacks to 8 bits, and two IMMA",
        instead=((_HOPPER, "unpack to s8 or u8 once, and use mma of 8-bit integers"),),
    ),
    _Lack(
        of=lambda mma: mma.a.is_integer and mma.a.bits == 4 and mma.is_sparse,
        native=(range(_AMPERE, _HOPPER),),
        expansion="function calls that unpack to 8 bits, and two IMMA",
        instead=((_HOPPER, "unpack to s8 or u8 once, and use mma.sp::ordered_metadata of 8-bit integers"),),
    ),
    _Lack(
        of=lambda mma: mma.a is b1 and "xor" in mma.qualifiers,
        native=(range(_TURING, _HOPPER),),
        expansion="function calls around BMMA of .and.popc (before 10.0), or IMMA of the unpacked bits",
        instead=(
            (_HOPPER, "use .and.popc: popc(a ^ b) = popc(a) + popc(b) - 2 popc(a & b)"),
            (_BLACKWELL, "no 1-bit mma is left on this chip: use mma of 8-bit integers"),
        ),
    ),
    _Lack(
        of=lambda mma: mma.a is b1 and "and" in mma.qualifiers,
        native=(range(_AMPERE, _BLACKWELL),),
        expansion="a function call that unpacks the bits, and four or eight IMMA",
        instead=((_BLACKWELL, "no 1-bit mma is left on this chip: use mma of 8-bit integers"),),
    ),
    _Lack(
        of=lambda mma: mma.a is f64 and mma.shape[0] == 16,
        native=(range(_HOPPER, _BLACKWELL),),
        expansion="one DMMA of m8n8k4 for each of its parts",
        instead=((_BLACKWELL, "use mma.sync m8n8k4, whose parts ptxas can then schedule one by one"),),
    ),
    _Lack(
        of=lambda mma: _is_small_float(mma.a),
        native=(range(_ADA, _HOPPER), range(_CONSUMER_BLACKWELL, _ANY_LATER)),
        expansion="conversions to f16, and two HMMA",
        instead=((_HOPPER, "use wgmma, compiled for sm_90a"), (_BLACKWELL, _TCGEN05)),
    ),
    _Lack(
        of=lambda mma: mma.is_sparse and not mma.has_ordered_metadata and (mma.a is f16 or mma.a.is_integer),
        native=(range(_AMPERE, _BLACKWELL),),
        expansion="a function call that puts the metadata in order, and one MMA",
        instead=((_BLACKWELL, f"use mma.sp{_ORDERED}, with each pair of indices in increasing order"),),
    ),
)


def emulation(row: Row, compute_capability: int) -> Emulation | None:
    """What ptxas makes of `row` on a chip of this compute capability, times ten (90 for 9.0); None where it has it.

    Says nothing of legality: where the row is illegal there, the answer has no meaning.
    """
    return emulation_of(row.ptx, compute_capability)


@cache
def emulation_of(ptx: str, compute_capability: int) -> Emulation | None:
    """The same by the spelling with all qualifiers."""
    mma = spelling_of(ptx)
    if mma is None:
        return None
    for lack in _LACKS:
        if lack.of(mma) and not any(compute_capability in chips for chips in lack.native):
            fitting = [text for first, text in lack.instead if first <= compute_capability]
            return Emulation(lack.expansion, fitting[-1]) if fitting else None
    return None
