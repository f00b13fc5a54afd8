"""The shapes and types that the seed on the MMA atoms gives each tier, claim by claim, as it has them.

The rows that exist are in the tables of `intrinsics`; `unfounded` lists the claims that no atom keeps, which
docs/divergences.md explains. The seed's own gate reads the lattice first, so `in_seed_lattice` is that gate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from nvbackend.atoms.names import known_atoms
from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.fragments.mma import Shape
from nvbackend.intrinsics.mma.dense import F8F6F4, FP8
from nvbackend.intrinsics.row.types import ElementType, b1, bf16, e2m1, e2m3, e3m2, f16, f32, s4, s8, s32, tf32, u4, u8

_EVERY_N = range(8, 257, 8)
_WGMMA_BITS = 256
_UMMA_BITS = (512, 256)
"""Bits of K of a K-major and of an MN-major operand, by the notes to the lattice."""


@dataclass(frozen=True, slots=True)
class SeedClaim:
    """A cell of the lattice, or a part of one: `tier` multiplies `a` in these shapes.

    `accumulators` is empty where the seed does not say; `sparse` that it has a sparse form as well; `block_scaled` that
    scale factors of ue8m0 belong to it.
    """

    tier: int
    m: tuple[int, ...]
    n: Collection[int]
    k: tuple[int, ...]
    types: tuple[ElementType, ...]
    accumulators: tuple[ElementType, ...] = ()
    sparse: bool = False
    block_scaled: bool = False

    def has(self, shape: Shape) -> bool:
        """Whether the claim is about this shape."""
        return shape[0] in self.m and shape[1] in self.n and shape[2] in self.k


def _warp(tier: int, k: int, types: tuple[ElementType, ...], *accumulators: ElementType, **more: bool) -> SeedClaim:
    return SeedClaim(tier, (16,), (8,), (k,), types, accumulators, **more)


def _wgmma(*types: ElementType, accumulators: tuple[ElementType, ...]) -> SeedClaim:
    return SeedClaim(90, (64,), _EVERY_N, (_WGMMA_BITS // types[0].bits,), types, accumulators)


def _umma(*types: ElementType) -> SeedClaim:
    """K is not a whole number for 6-bit elements."""
    every_k = tuple(bits // types[0].bits for bits in _UMMA_BITS if bits % types[0].bits == 0)
    return SeedClaim(100, (64, 128), _EVERY_N, every_k, types)


CLAIMS: tuple[SeedClaim, ...] = (
    SeedClaim(70, (8,), (8,), (4,), (f16,), (f16, f32)),
    _warp(75, 8, (f16, bf16)),
    _warp(80, 8, (f16, bf16, tf32)),
    _warp(80, 16, (f16, bf16), sparse=True),
    _warp(80, 32, (s8, u8), sparse=True),
    _warp(89, 32, FP8, f32),
    _warp(120, 32, F8F6F4, f32, block_scaled=True),
    _warp(80, 64, (s4, u4)),
    _warp(120, 64, (e2m1,), f32, block_scaled=True),
    _wgmma(f16, accumulators=(f16, f32)),
    _wgmma(bf16, accumulators=(f32,)),
    _wgmma(tf32, accumulators=(f32,)),
    _wgmma(*FP8, accumulators=(f32,)),
    _wgmma(s8, u8, accumulators=(s32,)),
    _wgmma(s4, u4, accumulators=(s32,)),
    _wgmma(b1, accumulators=(s32,)),
    _umma(f16),
    _umma(tf32),
    _umma(*FP8),
    _umma(e2m3, e3m2),
    _umma(e2m1),
)
"""Row by row of the seed's table, and of its table of K by type for wgmma."""


@user_facing
def in_seed_lattice(tier: int, shape: Shape, a: ElementType, b: ElementType, accumulator: ElementType) -> bool:
    """Whether the seed's gate lets these through: tier 70, 75, 80, 89, 90, 100 or 120, shape (M, N, K) in elements."""
    return any(
        claim.tier == tier
        and claim.has(shape)
        and {a, b} <= set(claim.types)
        and (not claim.accumulators or accumulator in claim.accumulators)
        for claim in CLAIMS
    )


def unfounded() -> Iterator[tuple[int, Shape, ElementType]]:
    """The claims (tier, shape, type of A) that no atom of mma.sync or wgmma keeps, in the order of the seed.

    An atom keeps a claim that a chip of the tier has it, with scale factors and with a sparse form where it says so.
    """
    dense = {
        (known_atom.tier, known_atom.shape, known_atom.a, known_atom.block_scale is not None)
        for known_atom in known_atoms()
        if known_atom.sparsity is None
    }
    sparse = {(known_atom.shape, known_atom.a) for known_atom in known_atoms() if known_atom.sparsity is not None}
    tiers = sorted({known_atom.tier for known_atom in known_atoms()})
    for claim in CLAIMS:
        older = [tier for tier in tiers if tier <= claim.tier]
        for shape in ((m, n, k) for m in claim.m for n in claim.n for k in claim.k if claim.tier != 100):
            for a in claim.types:
                kept = any((tier, shape, a, claim.block_scaled) in dense for tier in older)
                if not kept or (claim.sparse and (shape, a) not in sparse):
                    yield claim.tier, shape, a
