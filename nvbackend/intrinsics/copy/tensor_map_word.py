"""The 128 bytes of a tensor map in tile mode, field by field.

The driver's encoding is not documented, but ptxas knows it: it expands tensormap.replace into loads, stores and bit
operations, and the fields here are the bits that this code changes, on each chip that has the instruction.
`tests/intrinsics/copy/test_tensor_map_word.py` reads them off again. What tensormap.replace cannot change has no public
description. The L2 promotion and the bit of im2col maps were measured: benchmarks/tensor_map_bits.py prints the bits
that each argument of the driver's encoders decides. All other bits are kept in `other`, unnamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nvbackend.diagnostics import Diagnostic, Rule, raise_all, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy.map_elements import ELEMENT_TYPES
from nvbackend.intrinsics.copy.tensormap import ORDINALS, TENSOR_MAP_BYTES
from nvbackend.intrinsics.words.bitfield import Field, PackedWord, bit_ranges

_REFERENCE = "the code that ptxas makes of tensormap.replace (PTX ISA 9.7.9)"

WORD_FIELD = Rule(
    id="tensor-map.word",
    message="tensor map word: {problem}",
    fix="{fix}",
    why="The bits would land in other fields, or mean nothing: copies by such a map read other memory, or fault.",
    reference=_REFERENCE,
)

INTERLEAVES = (0, 16, 32)
"""Bytes of an interleaved layout, 0 for none, each at its code."""
SWIZZLES = (0, 32, 64, 128, 96)
"""Bytes of a swizzled row, 0 for none, each at its code."""
ATOMICITIES = ("16B", "32B", "32B_FLIP_8B", "64B")
"""The pieces that a swizzle keeps whole, each at its code. PTX ISA 9.7.9 (tensormap.replace: swizzle_atomicity)."""
FILLS = ("zero", "nan")
"""What reads outside of the tensor give, each at its code."""
PROMOTIONS = (0, 64, 128, 256)
"""Bytes that L2 fetches at least, 0 for what is asked for alone, each at its code. As measured."""

_UNROUNDED = {"tf32": "f32", "tf32.ftz": "f32.ftz"}
"""Element types that are another one with a bit that rounds; the packed types after them move up."""
_CODES = {name: index for index, name in enumerate(name for name in ELEMENT_TYPES if name not in _UNROUNDED)}
_CODES |= {name: _CODES[plain] for name, plain in _UNROUNDED.items()}
_SWIZZLE_BITS = 2
_LOW_STRIDE_BITS = 32
_IM2COL = 1 << 64
"""What the driver sets in maps for im2col copies, whose corners and pixels lie where tiles have their box."""

_STRIDE = Field("global_stride", 0, 36, "bytes between neighbours in the next dimension", 16)

WORD = PackedWord(
    "tensor map word",
    8 * TENSOR_MAP_BYTES,
    (
        Field("global_address", 4, 60, "byte address of the tensor", 16),
        Field("rank", 68, 3, "dimensions", values=tuple(number + 1 for number in ORDINALS), least=1),
        Field("element", 71, 4, "element type"),
        Field("interleave", 75, 2, "bytes of the interleaved layout, 0 none"),
        Field("swizzle", 77, _SWIZZLE_BITS, "bytes of a swizzled row, 0 none"),
        Field("fill", 79, 1, "what lies outside of the tensor reads as"),
        Field("rounds_to_tf32", 80, 1, "with f32: the type is tf32"),
        Field("l2_promotion", 81, 2, "bytes that L2 fetches at least, 0 for those asked for"),
        Field("swizzle_atomicity", 83, 2, "bytes that the swizzle keeps together"),
        Field("swizzle_96", 86, 1, "a third bit of the swizzle"),
        *(
            Field(f"global_stride[{n}]", 96 + 32 * n, _LOW_STRIDE_BITS, "bytes to the next dimension's neighbour", 16)
            for n in ORDINALS[:-1]
        ),
        *(Field(f"global_stride[{n}].high", 224 + 4 * n, 4, "its bits from 36 on") for n in ORDINALS[:-1]),
        *(Field(f"global_dim[{n}]", 256 + 32 * n, 32, "elements of the tensor", least=1) for n in ORDINALS),
        *(Field(f"element_stride[{n}]", 416 + 3 * n, 3, "step of the box in elements", least=1) for n in ORDINALS),
        *(Field(f"box_dim[{n}]", 440 + 8 * n, 8, "elements of the box", least=1) for n in ORDINALS),
    ),
    reference=_REFERENCE,
)


@user_facing
@dataclass(frozen=True, slots=True)
class TensorMapWord:
    """The fields of a tensor map in tile mode, as its 128 bytes hold them and tensormap.replace changes them.

    Tuples have the innermost dimension first. `global_dim` and `box_dim` are in elements of type `element` (as
    tensormap.replace calls it, such as "f16"), `global_stride` in bytes, one fewer than dimensions; `element_stride`
    is 1 throughout where it is empty. `interleave`, `swizzle` and `l2_promotion` are in bytes, 0 for none. `other` has
    all bits that no field of a map of this rank has; with 0 it is a map as device code makes it from zeros. (The driver
    also writes the bytes of a box without steps at bit 512, and the alignment of a tile in shared memory at bit 576.)

    `int.from_bytes(the_map, "little")` is the word of 128 bytes. Raises, for all fields together, tensor-map.word,
    descriptor.range and descriptor.alignment.
    """

    global_address: int
    element: str
    global_dim: tuple[int, ...]
    box_dim: tuple[int, ...]
    global_stride: tuple[int, ...] = ()
    element_stride: tuple[int, ...] = ()
    interleave: int = 0
    swizzle: int = 0
    swizzle_atomicity: str = ATOMICITIES[0]
    fill: str = FILLS[0]
    l2_promotion: int = PROMOTIONS[0]
    other: int = 0

    def __post_init__(self) -> None:
        raise_all(self._names_and_counts())
        raise_all(self._faults())

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.global_dim)

    @property
    def rounds_to_tf32(self) -> int:
        """1 for the types that are another type, rounded."""
        return int(self.element in _UNROUNDED)

    def _names_and_counts(self) -> list[Diagnostic]:
        """What keeps the fields from having bits at all."""
        names: tuple[tuple[str, object, Sequence[object]], ...] = (
            ("element", self.element, ELEMENT_TYPES),
            ("interleave", self.interleave, INTERLEAVES),
            ("swizzle", self.swizzle, SWIZZLES),
            ("swizzle_atomicity", self.swizzle_atomicity, ATOMICITIES),
            ("fill", self.fill, FILLS),
            ("l2_promotion", self.l2_promotion, PROMOTIONS),
        )
        faults = [
            WORD_FIELD.diagnose(problem=f"{name} = {value!r}", fix=f"use one of {', '.join(map(str, known))}")
            for name, value, known in names
            if value not in known
        ]
        if self.rank - 1 not in ORDINALS:
            fix = f"give {len(ORDINALS)} at most, and at least one"
            faults.append(WORD_FIELD.diagnose(problem=f"global_dim has {self.rank} dimensions", fix=fix))
        counts = {"global_stride": self.rank - 1, "box_dim": self.rank}
        counts |= {"element_stride": self.rank} if self.element_stride else {}
        for name, count in counts.items():
            if len(held := getattr(self, name)) != count:
                problem = f"{name} = {held} of a map with {self.rank} dimensions"
                which = "dimension" if count == self.rank else "dimension but the innermost"
                faults.append(WORD_FIELD.diagnose(problem=problem, fix=f"give {count} value(s), one for each {which}"))
        return faults

    def _faults(self) -> list[Diagnostic]:
        """Values that do not fit their bits, and bits of `other` that belong to a field."""
        values = self._values()
        taken = sum(WORD.field(name).mask for name in values)
        faults = WORD.check({name: value for name, value in values.items() if not name.startswith(_STRIDE.name)})
        faults += [fault for stride in self.global_stride for fault in _STRIDE.check(WORD, stride)]
        if self.other < 0 or self.other >> WORD.bits or self.other & taken:
            bits = bit_ranges(self.other & taken) or "out of range"
            fix = "leave out the bits that fields have"
            faults.append(WORD_FIELD.diagnose(problem=f"other = {self.other:#x}: {bits}", fix=fix))
        return faults

    def _values(self) -> dict[str, int]:
        """The values of the fields that a map of this rank has."""
        swizzle = SWIZZLES.index(self.swizzle)
        values = {
            "global_address": self.global_address,
            "rank": self.rank,
            "element": _CODES[self.element],
            "interleave": INTERLEAVES.index(self.interleave),
            "swizzle": swizzle % (1 << _SWIZZLE_BITS),
            "fill": FILLS.index(self.fill),
            "rounds_to_tf32": self.rounds_to_tf32,
            "l2_promotion": PROMOTIONS.index(self.l2_promotion),
            "swizzle_atomicity": ATOMICITIES.index(self.swizzle_atomicity),
            "swizzle_96": swizzle >> _SWIZZLE_BITS,
        }
        low = (1 << _LOW_STRIDE_BITS) * _STRIDE.unit
        for n, stride in enumerate(self.global_stride):
            values |= {f"global_stride[{n}]": stride % low, f"global_stride[{n}].high": stride // low}
        for name in ("global_dim", "box_dim", "element_stride"):
            values |= {f"{name}[{n}]": value for n, value in enumerate(getattr(self, name))}
        return values

    def encode(self) -> int:
        """The 1024-bit word; `word.to_bytes(128, "little")` is the map in memory."""
        return sum(WORD.field(name).place(value) for name, value in self._values().items()) | self.other

    @classmethod
    def decode(cls, word: int) -> TensorMapWord:
        """The map in tile mode that a word holds.

        Raises tensor-map.word where its bits name no type, swizzle, interleave or rank, for maps of im2col copies, and
        for more than 1024 bits.
        """
        if not 0 <= word < 1 << WORD.bits:
            WORD_FIELD.fail(problem=f"{word:#x} does not fit 128 bytes", fix=f"give {WORD.bits} bits")
        if word & _IM2COL:
            problem = f"bit {_IM2COL.bit_length() - 1} is set, as the driver sets it for im2col copies"
            WORD_FIELD.fail(problem=problem, fix="decode a map in tile mode")
        held = {field.name: field.extract(word) for field in WORD.fields}
        rank, swizzle = held["rank"], held["swizzle"] | held["swizzle_96"] << _SWIZZLE_BITS
        named = {(code, name in _UNROUNDED): name for name, code in _CODES.items()}
        element = named.get((held["element"], bool(held["rounds_to_tf32"])))
        faults = {
            f"{rank} dimensions": rank - 1 not in ORDINALS,
            f"element type {held['element']}, rounds_to_tf32 = {held['rounds_to_tf32']}": element is None,
            f"interleave {held['interleave']}": held["interleave"] >= len(INTERLEAVES),
            f"swizzle {swizzle}": swizzle >= len(SWIZZLES),
        }
        fix = "check that these are the 128 bytes of a map, the first byte in the lowest bits"
        wrong = (what for what, is_wrong in faults.items() if is_wrong)
        raise_all(WORD_FIELD.diagnose(problem=f"there is no {what}", fix=fix) for what in wrong)
        high = (1 << _LOW_STRIDE_BITS) * _STRIDE.unit
        strides = (held[f"global_stride[{n}]"] + held[f"global_stride[{n}].high"] * high for n in range(rank - 1))
        steps = tuple(held[f"element_stride[{n}]"] for n in range(rank))
        plain = cls(
            held["global_address"],
            str(element),
            tuple(held[f"global_dim[{n}]"] for n in range(rank)),
            tuple(held[f"box_dim[{n}]"] for n in range(rank)),
            tuple(strides),
            () if set(steps) == {1} else steps,
            INTERLEAVES[held["interleave"]],
            SWIZZLES[swizzle],
            ATOMICITIES[held["swizzle_atomicity"]],
            FILLS[held["fill"]],
            PROMOTIONS[held["l2_promotion"]],
        )
        return replace(plain, other=word ^ plain.encode())
