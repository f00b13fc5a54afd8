"""Atoms of wgmma: a warpgroup, B in shared memory, A there or in registers, D in registers. sm_90a."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

from nvbackend.atoms.atom import MmaAtom, Residency
from nvbackend.atoms.rules import ROW
from nvbackend.atoms.spellings import blas_letters, upper
from nvbackend.intrinsics.mma import wgmma
from nvbackend.intrinsics.mma.form import SP
from nvbackend.intrinsics.mma.wgmma import Multiplicands
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.words.smem_descriptor import Major
from nvbackend.isel.select.wgmma.request import WgmmaRequest, reading, request_of
from nvbackend.isel.select.wgmma.select import select_wgmma
from nvbackend.isel.target.target import Target

_TIER = 90
_SPARSE_NAMES = "SM90::GMMA::SPARSE::GMMA_"
"""What names of a sparse A begin with in CuTe; the dense ones have the short names of all."""


def warpgroup_atoms() -> Iterator[MmaAtom]:
    """Every atom of wgmma, in every majorness that the instruction has."""
    for kind in wgmma.MULTIPLICANDS:
        flags = itertools.product(
            kind.pairs,
            kind.d,
            (False, True) if kind.selectors else (False,),
            (False, True),
            (False, True) if kind.saturates else (False,),
            Major,
            Major,
            kind.n,
        )
        for (a, b), d, sparse, a_in_registers, satfinite, a_major, b_major, n in flags:
            if _has_majors(kind, a_in_registers, a_major, b_major):
                yield warpgroup_atom(
                    n,
                    d,
                    a,
                    b,
                    a_in_registers=a_in_registers,
                    sparse=sparse,
                    satfinite=satfinite,
                    a_major=a_major,
                    b_major=b_major,
                )


def has_majors(a: ElementType, a_in_registers: bool, a_major: Major, b_major: Major) -> bool:
    """Whether wgmma of A's type reads operands so: only 16-bit types are read MN-major, and that from memory."""
    kind = wgmma.multiplicands_of(a)
    return kind is not None and _has_majors(kind, a_in_registers, a_major, b_major)


def _has_majors(kind: Multiplicands, a_in_registers: bool, a_major: Major, b_major: Major) -> bool:
    return (a_major is Major.K or (kind.transposes and not a_in_registers)) and (b_major is Major.K or kind.transposes)


def warpgroup_atom(
    n: int,
    d: ElementType,
    a: ElementType,
    b: ElementType,
    *,
    a_in_registers: bool,
    sparse: bool,
    satfinite: bool,
    a_major: Major,
    b_major: Major,
) -> MmaAtom:
    """The atom of `wgmma.mma_async` with these axes, its operands read in this majorness."""
    kind = wgmma.multiplicands_of(a)
    assert kind is not None
    shape = (wgmma.M, n, kind.k(sparse))
    residency = Residency.REGISTERS if a_in_registers else Residency.SHARED_DESCRIPTOR
    name = "x".join(map(str, shape)) + f"_{''.join(map(upper, (d, a, b)))}_{'RS' if a_in_registers else 'SS'}"
    if kind.transposes:
        name += f"<Major::{a_major.value}, Major::{b_major.value}>"
    else:
        name += f"_{blas_letters(a_major, b_major)}{'_SATURATE' if satfinite else ''}"
    return MmaAtom(
        name=(_SPARSE_NAMES if sparse else f"SM{_TIER}_") + name,
        tier=_TIER,
        shape=shape,
        d=d,
        a=a,
        b=b,
        c=d,
        a_residency=residency,
        b_residency=Residency.SHARED_DESCRIPTOR,
        d_residency=Residency.REGISTERS,
        threads=WARPGROUP_SIZE,
        bits=a.bits,
        a_major=a_major,
        b_major=b_major,
        make_row=partial(
            wgmma.mma_async, n, d, a, b, a_in_registers=a_in_registers, sparse=sparse, satfinite=satfinite
        ),
        sparsity=SP if sparse else None,
    )


def atom_of_row(row: Row, a_major: Major, b_major: Major) -> MmaAtom:
    """The atom of a wgmma's row whose operands are read so. Raises atom.row where it does not read them so."""
    axes: dict[str, Any] = dict(row.axes)
    a, b, d, shape = axes["a"], axes["b"], axes["d"], axes["shape"]
    in_registers = axes["a_in_registers"]
    if not has_majors(a, in_registers, a_major, b_major):
        problem = f"it does not read A {a_major} and B {b_major}"
        ROW.fail(row=row.ptx, problem=problem, instead="leave K-major what is in registers or not of 16 bits")
    return warpgroup_atom(
        shape[1],
        d,
        a,
        b,
        a_in_registers=in_registers,
        sparse=axes["sparse"],
        satfinite=axes["satfinite"],
        a_major=a_major,
        b_major=b_major,
    )


def atom_of_request(request: WgmmaRequest, target: Target) -> MmaAtom:
    """The atom of a request, its operands read as it says. Raises every broken rule of the request."""
    return atom_of_row(select_wgmma(request, target), _major(request.trans_a), _major(request.trans_b))


def _major(transposed: int) -> Major:
    return Major.MN if transposed else Major.K


def request_of_atom(atom: MmaAtom) -> WgmmaRequest:
    """The request that `atom` is."""
    return reading(request_of(atom.row), atom.a_major, atom.b_major)
