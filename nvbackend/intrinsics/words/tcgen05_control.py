"""The two words that carry the modifiers of a tcgen05.mma through the machine form, from selector to verifier.

No instruction has them: what the selector meant is checked once more from their bits. Their format is tileiras's
("Control-Word Bit Layout"), so that words of its dumps can be read and written. docs/divergences.md has what they can
say and the hardware cannot do (a group of four CTAs, a collector that fills and uses at once); what they cannot say
(`a::lastuse` with `a::use`, the buffers of a weight-stationary B) is left out.
"""

from __future__ import annotations

import enum
from typing import Any

from nvbackend.diagnostics import Rule, raise_all, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.words.bitfield import Field, PackedWord
from nvbackend.intrinsics.words.tcgen05_descriptor import FORMS

_REFERENCE = "tileiras documents: tcgen05 / WGMMA / mbarrier / Cluster Emission, Control-Word Bit Layout"

CONTROL_WORD = PackedWord(
    "tileiras's tcgen05 control word",
    32,
    (
        Field("cta_group", 0, 2, "1, 2, or 3 for four CTAs; 0 is reserved", values=(1, 2, 3)),
        Field("scale_vec_size", 2, 2, "0 1X, 1 2X, 2 4X; 3 is reserved", values=(0, 1, 2)),
        Field("scale_input_acc", 4, 1, "scale-input accumulator"),
        Field("block_scale", 5, 1, "block-scale variant"),
        Field("mma_kind", 6, 3, "f16, tf32, i8, f8f6f4, mxf8f6f4, mxf4, mxf4nvf4", values=tuple(range(7))),
    ),
    _REFERENCE,
)
COLLECTOR_WORD = PackedWord(
    "tileiras's tcgen05 collector word",
    32,
    (
        Field("valid", 0, 1, "an explicit collector"),
        Field("collector_a", 1, 2, "0 fill, 1 use, 2 fill and use, whose bit 2 is ashift's as well", values=(0, 1, 2)),
    ),
    _REFERENCE,
)
SEED_KINDS = ("f16", "tf32", "i8", "f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4")
"""Kinds in the order in which the seed lists the values of `mma_kind`."""

SHARED_BIT = Rule(
    id="tcgen05.seed-collector",
    message="ashift and collector_a = {collector} are one bit of tileiras's collector word",
    fix="set ashift with FILL and no explicit collector, or leave it out",
    why="Tileiras's verifier refuses words that set both: read back, the two look alike.",
    reference=_REFERENCE,
)


@user_facing
class SeedCollector(enum.Enum):
    """The seed's modes of A's collector; the value is the word's code."""

    FILL = 0
    USE = 1
    FILL_USE = 2


@user_facing
@dataclass(frozen=True, slots=True)
class Tcgen05Ctrl:
    """The seed's control word by the seed's names. `mma_kind` is an index into SEED_KINDS.

    Raises descriptor.range, for all fields together. Bits 9-31 are written as zero and refused on decoding.
    """

    cta_group: int
    mma_kind: int
    scale_vec_size: int = 0
    scale_input_acc: bool = False
    block_scale: bool = False

    def __post_init__(self) -> None:
        raise_all(CONTROL_WORD.check(self._values()))

    def _values(self) -> dict[str, int]:
        return {
            "cta_group": self.cta_group,
            "scale_vec_size": self.scale_vec_size,
            "scale_input_acc": int(self.scale_input_acc),
            "block_scale": int(self.block_scale),
            "mma_kind": self.mma_kind,
        }

    @property
    def kind(self) -> str:
        """The kind's PTX name."""
        return SEED_KINDS[self.mma_kind]

    def encode(self, *, into: int = 0) -> int:
        """The seed's 32-bit word; no bit of what `into` held is kept, in particular no reserved bit."""
        return CONTROL_WORD.encode(self._values(), into=into)

    @classmethod
    def decode(cls, word: int) -> Tcgen05Ctrl:
        """The control word's fields. Raises descriptor.reserved-bits, and descriptor.range for reserved codes."""
        values = CONTROL_WORD.decode(word)
        return cls(
            values["cta_group"],
            values["mma_kind"],
            values["scale_vec_size"],
            scale_input_acc=bool(values["scale_input_acc"]),
            block_scale=bool(values["block_scale"]),
        )


@user_facing
@dataclass(frozen=True, slots=True)
class Tcgen05Collector:
    """The seed's collector word. `ashift` has the upper bit of `collector_a`, so that only one of them can use it.

    Raises tcgen05.seed-collector for ashift with an explicit collector or a mode other than FILL.
    """

    valid: bool = False
    collector_a: SeedCollector = SeedCollector.FILL
    ashift: bool = False

    def __post_init__(self) -> None:
        if self.ashift and (self.valid or self.collector_a is not SeedCollector.FILL):
            SHARED_BIT.fail(collector=self.collector_a.name)
        if not self.valid and self.collector_a is SeedCollector.FILL_USE:
            SHARED_BIT.fail(collector=self.collector_a.name)

    def encode(self, *, into: int = 0) -> int:
        """The seed's 32-bit word; no bit of what `into` held is kept, in particular no reserved bit."""
        mode = SeedCollector.FILL_USE if self.ashift else self.collector_a
        return COLLECTOR_WORD.encode({"valid": int(self.valid), "collector_a": mode.value}, into=into)

    @classmethod
    def decode(cls, word: int) -> Tcgen05Collector:
        """The fields; without an explicit collector the shared bit is ashift.

        Raises descriptor.reserved-bits, and descriptor.range for both of bits 1 and 2.
        """
        values = COLLECTOR_WORD.decode(word)
        valid, mode = bool(values["valid"]), SeedCollector(values["collector_a"])
        if not valid and mode is SeedCollector.FILL_USE:
            return cls(ashift=True)
        return cls(valid, mode)


CONTROL = "control"
"""The name of the primary word among the words of a machine instruction."""
COLLECTOR = "collector"
_BLOCKS = {"block16": 16, "block32": 32}
_DEFAULT_BLOCK = 32
_USES = {"a::fill": SeedCollector.FILL, "a::use": SeedCollector.USE, "a::lastuse": SeedCollector.USE}


def scale_factors(kind: str, scale_vector: str | None) -> int:
    """How many scale factors a row of A has for one dense instruction: 1, 2 or 4; 1 for a kind without block scale.

    PTX ISA 9.7.16.10.7 (block scaling): `block16` and `block32` name the elements of a factor, `scale_vec::NX` the
    factors.
    """
    if not tcgen05.KINDS[kind].block_scale:
        return 1
    if tcgen05.is_explicit(scale_vector):
        return int(str(scale_vector).partition("::")[2].rstrip("X"))
    return FORMS[kind].k // _BLOCKS.get(str(scale_vector), _DEFAULT_BLOCK)


def control_of(row: Row) -> Tcgen05Ctrl:
    """What the control word of a `tcgen05.mma` row says."""
    axes: dict[str, Any] = dict(row.axes)
    kind = axes["kind"]
    return Tcgen05Ctrl(
        cta_group=axes["cta_group"],
        mma_kind=SEED_KINDS.index(kind),
        scale_vec_size=scale_factors(kind, axes.get("scale_vector")).bit_length() - 1,
        scale_input_acc=axes.get("scale_input_d", False),
        block_scale=tcgen05.KINDS[kind].block_scale,
    )


def collector_of(row: Row) -> Tcgen05Collector:
    """What the collector word of a `tcgen05.mma` row says; for an A that is not kept, no explicit collector."""
    if row.axes.get("ashift"):
        return Tcgen05Collector(ashift=True)
    mode = _USES.get(str(row.axes["collector"]))
    return Tcgen05Collector() if mode is None else Tcgen05Collector(valid=True, collector_a=mode)


def control_words(row: Row, *, scratch: int = 0) -> dict[str, int]:
    """Both words of a `tcgen05.mma` row, by name. Whatever bits the words held before (`scratch`) are masked."""
    return {
        CONTROL: control_of(row).encode(into=scratch),
        COLLECTOR: collector_of(row).encode(into=scratch),
    }
