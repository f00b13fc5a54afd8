"""Multiplications by tiled mma.sync, written for any atom: the kernel, its matrices in NumPy, and their product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from nvbackend.atoms import MmaAtom, known_atoms
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row.types import ElementType, f32, tf32, u16, u32
from nvbackend.isel.select.mma.request import request_of
from nvbackend.isel.select.mma.select import select_mma
from nvbackend.isel.target.target import Target
from nvbackend.layout import ComposedLayout, Layout, Swizzle
from nvbackend.signature import Parameter, Pointer
from nvbackend.tiled import TiledMMA, make_tiled_mma

STORED = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f32": np.float32,
    "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
    "s32": np.int32,
}
"""NumPy's types of elements that take a byte or more."""


def legal_atoms(target: str) -> list[MmaAtom]:
    """Atoms of mma.sync on a target whose sums can be added to again, one for each shape, types and kind."""
    found: dict[tuple[object, ...], MmaAtom] = {}
    for one in known_atoms():
        if one.row.family != "mma" or one.c is not one.d or one.block_scale is not None or "SATURATE" in one.name:
            continue
        try:
            select_mma(request_of(one.row), Target.parse(target))
        except DiagnosticError:
            continue
        if one.sparsity != "sp":  # its alternative orders nothing differently
            found[one.shape, one.a, one.b, one.d, one.a_major, one.b_major, one.sparsity, one.row.ptx] = one
    return list(found.values())


@dataclass(frozen=True)
class Case:
    """C = A B^T of one CTA: `mma` over (M, N, K), operands straight from global memory or through shared memory."""

    mma: TiledMMA
    tile: tuple[int, int, int]
    shared: bool = False
    target: str = "sm_90a"

    @property
    def atom(self) -> MmaAtom:
        """What multiplies."""
        return self.mma.atom

    @property
    def threads(self) -> int:
        """Those of the CTA."""
        return self.mma.size

    @property
    def stored_k(self) -> int:
        """Columns of A in memory."""
        return self.tile[2] * self.atom.stored_k // self.atom.shape[2]

    def memory(self, element: ElementType) -> ElementType:
        """The type of a tensor of such elements."""
        if element is tf32:
            return f32
        return element if element.bits >= 8 else u32

    def kernel(self, builder: type[KernelBuilder] = KernelBuilder) -> Any:
        """The kernel (a, b, c), of a sparse A (a, b, c, metadata), of that class."""
        a, b, c = (self.memory(one) for one in (self.atom.a, self.atom.b, self.atom.d))
        pointers = {"a": a, "b": b, "c": c, **({"e": u16} if self.atom.sparsity else {})}
        parameters = [Parameter(name, Pointer(one, 16)) for name, one in pointers.items()]
        k = builder("multiply", self.target, threads=self.threads, parameters=parameters)
        self.body(k)
        return k

    def body(self, k: KernelBuilder) -> None:
        """Load, multiply, add the parts along K, store."""
        a, b, c, *e = k.arguments
        m, n, depth = self.tile
        mma = k.tiled_mma(self.mma, tile=(m, n))
        acc = mma.accumulator()
        tiles = [self._tile(k, *one) for one in ((a, m, self.stored_k, self.atom.a), (b, n, depth, self.atom.b))]
        given = {"metadata": mma.load_metadata(self._metadata(k, e[0]))} if e else {}
        if self.shared:
            mma.accumulate(acc, *tiles, **given)
        else:
            mma.gemm(acc, mma.load_a(tiles[0]), mma.load_b(tiles[1]), **given)
        mma.reduce(acc)
        mma.store(acc, k.tensor(c, Layout((m, n), (n, 1))))

    def _tile(self, k: KernelBuilder, source: Any, rows: int, columns: int, element: ElementType) -> Any:
        """A row-major matrix; a copy of it in shared memory, swizzled where a row has eight chunks."""
        words = columns * element.bits // 32 if element.bits < 8 else columns
        matrix = k.tensor(source, Layout((rows, words), (words, 1)))
        if not self.shared:
            return matrix
        kind = source.element
        layout: Any = Layout((rows, words), (words, 1))
        if words * kind.bits == 128 * 8 and element.bits >= 8:
            layout = ComposedLayout(Swizzle(3, (128 // kind.bits).bit_length() - 1, 3), 0, layout)
        tile = k.tensor(k.shared(kind, rows * words, align=1024), layout)
        with k.range(k.thread_id(), rows * words, self.threads) as place:
            tile[place // words, place % words] = matrix[place // words, place % words]
        k.barrier.sync()
        return tile

    def _metadata(self, k: KernelBuilder, source: Any) -> Any:
        words = self.tile[2] // (4 * group(self.atom))
        return k.tensor(source, Layout((self.tile[0], words), (words, 1)))

    def matrices(self, seed: int) -> tuple[np.ndarray, ...]:
        """A and B as they are in memory, of a sparse A its metadata too, and the product."""
        random = np.random.default_rng(seed)
        m, n, depth = self.tile
        a, b = (numbers(random, rows, depth, one) for rows, one in ((m, self.atom.a), (n, self.atom.b)))
        extra: tuple[np.ndarray, ...] = ()
        kept = a
        if self.atom.sparsity:
            a, kept, metadata = sparse(random, a, self.atom)
            extra = (metadata,)
        operation = getattr(self.atom.row, "axes", {}).get("operation")
        product = np.array([[(x ^ y).sum() for y in b] for x in a]) if operation == "xor" else a @ b.T
        return (encode(kept, self.atom.a), encode(b, self.atom.b), *extra, product)


def group(atom: MmaAtom) -> int:
    """Columns of A that four bits of metadata speak of. PTX ISA 9.7.14.6.1."""
    return {32: 2, 16: 4, 8: 4, 4: 8}[atom.bits]


def numbers(random: np.random.Generator, rows: int, columns: int, element: ElementType) -> np.ndarray:
    """Small integers that the type has."""
    low, high = {"b1": (0, 2), "u8": (0, 5), "u4": (0, 5)}.get(element.name, (-2, 3))
    return random.integers(low, high, (rows, columns))


def sparse(random: np.random.Generator, a: np.ndarray, atom: MmaAtom) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A with half of its elements zero, those that are stored, and the metadata. PTX ISA 9.7.14.6.1."""
    wide, unit = group(atom), 2 if atom.bits == 4 else 1
    whole, kept = np.zeros_like(a), np.zeros((a.shape[0], a.shape[1] // 2), a.dtype)
    nibbles = np.zeros((a.shape[0], a.shape[1] // wide), np.uint16)
    for row in range(a.shape[0]):
        for place in range(a.shape[1] // wide):
            chosen = sorted(random.choice(wide // unit, wide // unit // 2, replace=False))
            for index, one in enumerate(chosen):
                source = slice(place * wide + one * unit, place * wide + (one + 1) * unit)
                target = place * wide // 2 + index * unit
                kept[row, target : target + unit] = whole[row, source] = a[row, source]
            code = (0b0100, 0b1110)[chosen[0]] if atom.bits == 32 else int(chosen[0]) | int(chosen[1]) << 2
            nibbles[row, place] = code
    parts = nibbles.reshape(a.shape[0], -1, 4)
    return whole, kept, sum(parts[:, :, at] << np.uint16(4 * at) for at in range(4)).astype(np.uint16)


def encode(values: np.ndarray, element: ElementType) -> np.ndarray:
    """A matrix as it is in memory: of less than a byte in words, the first in the lowest bits."""
    if element.name in STORED:
        return values.astype(STORED[element.name]).view(element.storage)
    each = 32 // element.bits
    bits = (values.astype(np.int64) & (1 << element.bits) - 1).reshape(values.shape[0], -1, each)
    return sum(bits[:, :, at] << at * element.bits for at in range(each)).astype(np.uint32)


def cases(seed: int, count: int, target: str = "sm_90a") -> list[Case]:
    """Random atoms in random atom layouts and permutations, over random tiles."""
    random = np.random.default_rng(seed)
    atoms = legal_atoms(target)
    found = []
    for number in range(count):
        atom = atoms[number] if count >= len(atoms) and number < len(atoms) else atoms[random.integers(len(atoms))]
        found.append(case(random, atom, target))
    return found


def case(random: np.random.Generator, atom: MmaAtom, target: str) -> Case:
    """One random case of an atom."""
    counts = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (1, 1, 2), (2, 1, 2), (1, 1, 4)][random.integers(7)]
    if atom.threads < 32:
        counts = (2, 2, counts[2])
    plain = make_tiled_mma(atom, counts)
    permutation = tuple(
        extent * int(random.choice([1, 2])) if random.integers(2) else None for extent in plain.tile_size_mnk
    )
    mma = make_tiled_mma(atom, counts, permutation)
    tile = tuple(extent * int(random.choice([1, 2])) for extent in mma.tile_size_mnk)
    return Case(mma, tile, bool(random.integers(2)), target)  # type: ignore[arg-type]
