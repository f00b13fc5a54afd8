"""The reference layouts of one compiler for mma.sync on sm_80 and sm_89, as the seed on the MMA atoms describes them.

Seven arms by (K, M, sparse, fp8, trans_a), slots of 152 bytes, and stride triples of one compiler's own: no instruction
has them. What the hardware uses stands beside each arm as the atom with its layouts (docs/divergences.md, mma.sync).
"""

from __future__ import annotations

from dataclasses import dataclass

from nvbackend.atoms.atom import MmaAtom
from nvbackend.atoms.names import atom
from nvbackend.diagnostics import Rule, user_facing

SLOT_BYTES = 152
"""Bytes of a slot of the result."""
DENSE_A_STRIDES = (128, 256, 1024)
"""The seed's triple dense.A."""
DENSE_B_STRIDES = (2048,)
"""What the seed tells of dense.B: the first of its strides."""
METADATA_STRIDES = (0x200000, 0x4000000, 0x8000000)
"""The seed's triple sparse.metadata."""
_SPARSE_SHARE = 2
"""A sparse A has the dense count divided by this."""

SEED_ARM = Rule(
    id="atom.seed-arm",
    message="no arm has K = {k}, M = {m}, sparse = {sparse}, fp8 = {fp8}, trans_a = {trans_a}",
    fix="use the key of one of the seven arms: {legal}",
    why="The reference layouts are matched by their key exactly, without falling through.",
    reference="seed on the MMA atoms, Seven-Arm Dispatch",
)


@dataclass(frozen=True, slots=True)
class SeedArm:
    """An arm: its key, the PTX form that the seed writes to it, and the elements of A a thread that it counts.

    `hardware_name` is the atom that the hardware has for the form, None where it has none.
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
class SeedSlot:
    """A slot of the result: whose layout, at which byte, and the strides where the seed gives any."""

    operand: str
    offset: int
    strides: tuple[int, ...]


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


@user_facing
def seed_reference_layout(
    k: int, m: int, *, sparse: bool = False, fp8: bool = False, trans_a: bool = False
) -> SeedReferenceLayout:
    """The reference layouts of a key. Raises atom.seed-arm where no arm has it."""
    arm = next((arm for arm in ARMS if arm.key == (k, m, sparse, fp8, trans_a)), None)
    if arm is None:
        legal = ", ".join(str(arm.key) for arm in ARMS)
        SEED_ARM.fail(k=k, m=m, sparse=sparse, fp8=fp8, trans_a=trans_a, legal=legal)
    operands = [("A", DENSE_A_STRIDES), ("B", DENSE_B_STRIDES), ("C", ())]
    if arm.sparse:
        operands = [("A", ()), ("B", ()), ("C", ()), ("metadata", METADATA_STRIDES)]
    slots = (SeedSlot(name, place * SLOT_BYTES, strides) for place, (name, strides) in enumerate(operands))
    return SeedReferenceLayout(arm, tuple(slots))
