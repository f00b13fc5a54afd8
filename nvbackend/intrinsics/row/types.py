"""Element types: what tensor cores multiply and memories hold.

One row a type: PTX name, width, LLVM type, NumPy storage. Sources: PTX ISA 5.2 (fundamental and alternate floating
point types), 9.7.15.3 (matrix types).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from nvbackend.diagnostics import Rule, record, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass

if TYPE_CHECKING:
    import numpy


SCALAR_VALUES = Rule(
    id="kernel.scalar-values",
    message="{given}: {problem}",
    fix="{advice}",
    why="Each launch compares its argument with what is asserted, and the build chooses its examples within it.",
    reference="docs/guide.md, Sizes",
)


REGISTER_BITS = 32
"""Those of an ordinary register, in which several smaller elements are packed."""


class NumberKind(enum.Enum):
    """The arithmetic of a type."""

    FLOAT = "float"
    SIGNED = "signed integer"
    UNSIGNED = "unsigned integer"
    BITS = "bits"
    SCALE = "scale factor"
    PAIR = "pair"


def _named(name: str) -> ElementType:
    return BY_NAME[name]


@record
@dataclass(frozen=True)
class ElementType:
    """An element type, made by nvbackend: `nvb.f16`, `nvb.i32` and the others.

    `bits` is what an element takes in memory as the tensor core reads it (tf32: 32, of which 19 count); `llvm` is the
    type of an SSA value of it, sub-byte and alternate types riding in integers; `storage` is the NumPy dtype whose
    buffers hold it (two to a byte for 4-bit types, one to a byte for 6-bit ones, eight to a byte for b1).
    """

    name: str
    bits: int
    kind: NumberKind
    llvm: str
    storage: str

    def __hash__(self) -> int:
        return hash(self.name)  # quick, since much is looked up by types

    @property
    def ptx(self) -> str:
        """The type's PTX qualifier without its dot."""
        return self.name

    @property
    def is_float(self) -> bool:
        """Whether it has an exponent and is for data, not for scale factors."""
        return self.kind is NumberKind.FLOAT

    @property
    def is_integer(self) -> bool:
        """Whether its arithmetic is that of integers."""
        return self.kind in (NumberKind.SIGNED, NumberKind.UNSIGNED)

    @property
    def is_signed(self) -> bool:
        """Whether it is an integer with a sign."""
        return self.kind is NumberKind.SIGNED

    @property
    def is_pair(self) -> bool:
        """Whether it is two floats in one register."""
        return self.kind is NumberKind.PAIR

    @property
    def integers(self) -> range:
        """The values of an integer type."""
        return range(-(1 << self.bits - 1), 1 << self.bits - 1) if self.is_signed else range(1 << self.bits)

    __of_a_value__ = "convert a value: value.to({0})"
    """The fix of a call with a value, as C converts one."""

    @user_facing
    def __call__(self, *, minimum: int | None = None, maximum: int | None = None, multiple_of: int = 1) -> Scalar:
        """A kernel parameter of this type whose arguments are in these bounds: see Scalar."""
        return Scalar(self, minimum, maximum, multiple_of)

    def numpy_dtype(self) -> numpy.dtype[numpy.generic]:
        """The NumPy dtype that stores this type (raw bits where NumPy has no such type)."""
        import numpy

        return numpy.dtype(self.storage)

    def bytes_for(self, count: int) -> int:
        """The bytes that `count` consecutive elements take in memory, rounded up to a whole byte."""
        return -(-count * self.bits // 8)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        """A copy is the type itself: types are compared by identity."""
        if BY_NAME.get(self.name) is self:
            return _named, (self.name,)
        return ElementType, (self.name, self.bits, self.kind, self.llvm, self.storage)


@record
@dataclass(frozen=True)
class Scalar:
    """A kernel parameter passed by value.

    An integer's arguments may be asserted to be at least `minimum`, at most `maximum` and multiples of `multiple_of`:
    each launch compares them (launch.asserted), LLVM assumes it, and the dry run of a build chooses its values among
    them. `nvb.i32(minimum=1)` is `Scalar(i32, minimum=1)`. Raises kernel.scalar-values.
    """

    element: ElementType
    minimum: int | None = None
    maximum: int | None = None
    multiple_of: int = 1

    def __post_init__(self) -> None:
        if not self.asserts:
            return
        if not self.element.is_integer:
            problem = "only integers have a minimum, a maximum and multiples"
            SCALAR_VALUES.fail(given=self, problem=problem, advice="leave the assertion out, or take an integer type")
        if self.multiple_of < 1:
            problem = f"multiple_of is {self.multiple_of}"
            SCALAR_VALUES.fail(given=self, problem=problem, advice="give a positive integer, such as multiple_of=8")
        if not self.values:
            problem = f"no {self.element} is in these bounds"
            SCALAR_VALUES.fail(given=self, problem=problem, advice="give bounds with a multiple between them")

    def __repr__(self) -> str:
        more = "" if self.minimum is None else f", minimum={self.minimum}"
        more += "" if self.maximum is None else f", maximum={self.maximum}"
        more += "" if self.multiple_of == 1 else f", multiple_of={self.multiple_of}"
        return f"Scalar(element={self.element}{more})"

    @property
    def asserts(self) -> bool:
        """Whether anything is asserted."""
        return self.minimum is not None or self.maximum is not None or self.multiple_of != 1

    @property
    def values(self) -> range:
        """The values that an integer's arguments may have."""
        every = self.element.integers
        least = every[0] if self.minimum is None else max(self.minimum, every[0])
        most = every[-1] if self.maximum is None else min(self.maximum, every[-1])
        return range(-(-least // self.multiple_of) * self.multiple_of, most + 1, self.multiple_of)

    @property
    def asserted(self) -> str:
        """What is asserted, as text."""
        said = [] if self.minimum is None else [f"at least {self.minimum}"]
        said += [] if self.maximum is None else [f"at most {self.maximum}"]
        said += [] if self.multiple_of == 1 else [f"a multiple of {self.multiple_of}"]
        return ", ".join(said)


def _float(name: str, bits: int, llvm: str, storage: str) -> ElementType:
    return ElementType(name, bits, NumberKind.FLOAT, llvm, storage)


f16 = _float("f16", 16, "half", "float16")
bf16 = _float("bf16", 16, "bfloat", "uint16")
tf32 = _float("tf32", 32, "float", "float32")
f32 = _float("f32", 32, "float", "float32")
f64 = _float("f64", 64, "double", "float64")
e4m3 = _float("e4m3", 8, "i8", "uint8")
e5m2 = _float("e5m2", 8, "i8", "uint8")
e2m3 = _float("e2m3", 6, "i8", "uint8")
e3m2 = _float("e3m2", 6, "i8", "uint8")
e2m1 = _float("e2m1", 4, "i8", "uint8")
ue8m0 = ElementType("ue8m0", 8, NumberKind.SCALE, "i8", "uint8")
ue4m3 = ElementType("ue4m3", 8, NumberKind.SCALE, "i8", "uint8")
b1 = ElementType("b1", 1, NumberKind.BITS, "i32", "uint8")
s4 = ElementType("s4", 4, NumberKind.SIGNED, "i8", "uint8")
u4 = ElementType("u4", 4, NumberKind.UNSIGNED, "i8", "uint8")
s8 = ElementType("s8", 8, NumberKind.SIGNED, "i8", "int8")
u8 = ElementType("u8", 8, NumberKind.UNSIGNED, "i8", "uint8")
s16 = ElementType("s16", 16, NumberKind.SIGNED, "i16", "int16")
u16 = ElementType("u16", 16, NumberKind.UNSIGNED, "i16", "uint16")
s32 = ElementType("s32", 32, NumberKind.SIGNED, "i32", "int32")
u32 = ElementType("u32", 32, NumberKind.UNSIGNED, "i32", "uint32")
s64 = ElementType("s64", 64, NumberKind.SIGNED, "i64", "int64")
u64 = ElementType("u64", 64, NumberKind.UNSIGNED, "i64", "uint64")
i8 = s8
i16 = s16
i32 = s32
i64 = s64
pred = ElementType("pred", 1, NumberKind.BITS, "i1", "bool")

f16x2 = ElementType("f16x2", 32, NumberKind.PAIR, "i32", "uint32")
bf16x2 = ElementType("bf16x2", 32, NumberKind.PAIR, "i32", "uint32")
f32x2 = ElementType("f32x2", 64, NumberKind.PAIR, "i64", "uint64")

ELEMENT_TYPES: tuple[ElementType, ...] = (
    *(f16, bf16, tf32, f32, f64),
    *(e4m3, e5m2, e2m3, e3m2, e2m1, ue8m0, ue4m3),
    *(b1, s4, u4, s8, u8, s16, u16, s32, u32, s64, u64, pred),
)
PAIR_TYPES: tuple[ElementType, ...] = (f16x2, bf16x2, f32x2)
"""Two numbers in one register, the first in its lower half (PTX ISA 5.2.5, packed data types)."""
BY_NAME: dict[str, ElementType] = {element.name: element for element in (*ELEMENT_TYPES, *PAIR_TYPES)}
