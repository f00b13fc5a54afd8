"""The reference layouts of one compiler for mma.sync on sm_80 and sm_89, as the seed on the MMA atoms describes them.

Seven arms by (K, M, sparse, fp8, trans_a), slots of 152 bytes, and stride triples of one compiler's own: no instruction
has them. What the hardware uses is given with each arm: the atom with its layouts (docs/divergences.md, mma.sync).
"""

from __future__ import annotations

from nvbackend.atoms.atom import MmaAtom
from nvbackend.atoms.names import atom
from nvbackend.diagnostics import Rule, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.mma.dense import FP8
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, u32
from nvbackend.layout import rank, size
from nvbackend.tileiras.footprints import FOOTPRINTS

SLOT_BYTES = 152
"""Bytes of a slot of the result: a shape vector, a stride vector, and the decoration."""
DECORATION_BYTES = 24
"""Bytes of a slot's decoration. The seed says what is in it, and not at which byte."""
REGISTER_BITS = 32
DENSE_A_STRIDES = (128, 256, 1024)
"""The seed's triple dense.A."""
DENSE_B_STRIDES = (2048,)
"""What the seed gives of dense.B: the first of its strides."""
METADATA_STRIDES = (0x200000, 0x4000000, 0x8000000)
"""The seed's triple sparse.metadata."""
_DENSE_SLOTS = 3
_SPARSE_SHARE = 2
"""A sparse A has the dense count divided by this."""

SEED_ARM = Rule(
    id="atom.seed-arm",
    message="no arm has K = {k}, M = {m}, sparse = {sparse}, fp8 = {fp8}, trans_a = {trans_a}",
    fix="use the key of one of the seven arms: {legal}",
    why="The reference layouts are matched by their key exactly, without falling through.",
    reference="tileiras documents: MMA atoms, Seven-Arm Dispatch",
)


@dataclass(frozen=True, slots=True)
class SeedArm:
    """An arm: its key, the PTX form that the seed writes to it, and the elements of A a thread that it counts.

    `hardware_name` is the hardware's atom for the form, or None.
    """

    number: int
    k: int
    m: int
    sparse: bool
    fp8: bool
    trans_a: bool
    form: str
    elements: int
    hardware_name: str | None

    @property
    def key(self) -> tuple[int, int, bool, bool, bool]:
        """(K, M, sparse, fp8, trans_a)."""
        return self.k, self.m, self.sparse, self.fp8, self.trans_a

    @property
    def hardware(self) -> MmaAtom | None:
        """The atom with the layouts that the hardware uses."""
        return None if self.hardware_name is None else atom(self.hardware_name)


@dataclass(frozen=True, slots=True)
class SeedDecoration:
    """What the seed's verifier compares besides shape and strides: the element type, and how elements are padded.

    Metadata is of u32. `alignment` is that of the i32 registers into which the elements are packed, in bytes.
    """

    element: ElementType
    padding: int
    alignment: int = REGISTER_BITS // 8

    @property
    def elements_a_register(self) -> int:
        """How many elements a register has: "8 (f16, packed as 4 x i32)" are two."""
        return REGISTER_BITS // (self.element.bits + self.padding)


@dataclass(frozen=True, slots=True)
class SeedSlot:
    """A slot of the result: whose layout, at which byte, its shape, its strides, and its decoration.

    `shape` is that of the footprint in the seed's Per-Atom Operand-Layout Contracts, `strides` one of its triples;
    each is empty where the seed gives none.
    """

    operand: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    decoration: SeedDecoration


_F16, _S8 = 8, 16
"""The seed's elements a thread of a dense A of f16, and of s8 or fp8."""
_MMA, _MMA_SP = "mma.sync.aligned.", "mma.sp.sync.aligned."
ARMS: tuple[SeedArm, ...] = (
    SeedArm(
        *(0, 16, 16, False, False, False),
        f"{_MMA}m16n8k16.row.col.f16.f16.f16.f16",
        _F16,
        "SM80_16x8x16_F16F16F16F16_TN",
    ),
    SeedArm(*(1, 16, 16, False, False, True), f"{_MMA}m16n8k16.row.row.f16", _F16, None),
    SeedArm(
        *(2, 16, 16, True, False, False),
        f"{_MMA_SP}m16n8k16.row.col.f16.f16.f16.f16",
        _F16 // _SPARSE_SHARE,
        "SM80_SPARSE_16x8x16_F16F16F16F16_TN",
    ),
    SeedArm(*(3, 32, 16, False, False, False), f"{_MMA}m16n8k32.row.col.s8.s8.s32", _S8, "SM80_16x8x32_S32S8S8S32_TN"),
    SeedArm(
        *(4, 32, 16, False, True, False),
        f"{_MMA}m16n8k32.row.col.e4m3.e4m3.f32",
        _S8,
        "SM89_16x8x32_F32E4M3E4M3F32_TN",
    ),
    SeedArm(
        *(5, 32, 16, True, False, False),
        f"{_MMA_SP}m16n8k32.row.col.s8.s8.s32",
        _S8 // _SPARSE_SHARE,
        "SM80_SPARSE_16x8x32_S32S8S8S32_TN",
    ),
    SeedArm(
        *(6, 8, 16, False, False, False),
        f"{_MMA}m16n8k8.row.col.f16.f16.f16.f16",
        _F16,
        "SM75_16x8x8_F16F16F16F16_TN",
    ),
)
"""In the order of the seed."""


@dataclass(frozen=True, slots=True)
class SeedReferenceLayout:
    """What an arm gives back: the slots of A, B, C, and of the metadata on the sparse arms 2 and 5."""

    arm: SeedArm
    slots: tuple[SeedSlot, ...]

    @property
    def slot_count(self) -> int:
        """3, or 4 with metadata."""
        return len(self.slots)

    @property
    def sparse(self) -> bool:
        """Whether slot 3 is valid, which holds the layout of the metadata."""
        return self.slot_count > _DENSE_SLOTS


@user_facing
def seed_reference_layout(
    k: int, m: int, *, sparse: bool = False, fp8: bool = False, trans_a: bool = False, metadata_stride: int = 0
) -> SeedReferenceLayout:
    """The reference layouts of a key. A `metadata_stride` other than 0 takes the sparse path, as `sparse` does.

    Raises atom.seed-arm where no arm has the key.
    """
    sparse = sparse or metadata_stride != 0
    arm = next((arm for arm in ARMS if arm.key == (k, m, sparse, fp8, trans_a)), None)
    if arm is None:
        legal = ", ".join(str(arm.key) for arm in ARMS)
        SEED_ARM.fail(k=k, m=m, sparse=sparse, fp8=fp8, trans_a=trans_a, legal=legal)
    a, b, c = _types(arm)
    operands = [("A", a, DENSE_A_STRIDES), ("B", b, DENSE_B_STRIDES), ("C", c, ())]
    if arm.sparse:
        operands = [("A", a, ()), ("B", b, ()), ("C", c, ()), ("metadata", u32, METADATA_STRIDES)]
    shapes = _shapes(arm)
    return SeedReferenceLayout(
        arm,
        tuple(
            SeedSlot(name, place * SLOT_BYTES, shapes.get(name, ()), strides, SeedDecoration(element, 0))
            for place, (name, element, strides) in enumerate(operands)
        ),
    )


def _types(arm: SeedArm) -> tuple[ElementType, ElementType, ElementType]:
    """The types of A, B and C, as the seed's PTX form names them: of all four operands D first, of fewer D left out."""
    names = arm.form.split(".row.")[1].split(".")[1:]
    a, b, c = (BY_NAME[name] for name in (names[1:] if len(names) == 4 else names * 3 if len(names) == 1 else names))
    return a, b, c


def _shapes(arm: SeedArm) -> dict[str, tuple[int, ...]]:
    """The shapes of the footprints that the seed has for the arm's instruction, by operand."""
    form = (arm.k, arm.m, arm.sparse, _types(arm)[0].bits)
    shapes: dict[str, tuple[int, ...]] = {}
    for line in FOOTPRINTS:
        named = atom(line.hardware_name)
        if line.layout is None or (named.shape[2], named.shape[0], named.sparsity is not None, named.a.bits) != form:
            continue
        if (named.a in FP8) is arm.fp8:
            shapes["metadata" if line.operand == "E" else line.operand] = tuple(
                size(line.layout, mode) for mode in range(rank(line.layout))
            )
    return shapes
