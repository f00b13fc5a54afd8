"""The conditions on a use of an atom before anything is lowered. Seed on the MMA atoms, Common Atom Contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from nvbackend.atoms.atom import BlockScale, MmaAtom, Residency
from nvbackend.atoms.rules import LAYOUT, METADATA, RESIDENCY, SCALE_FACTORS, SHAPE, TARGET, TYPES
from nvbackend.diagnostics import Diagnostic, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.isel.target.target import Target, dotted, targets_with
from nvbackend.layout import Dynamic, Layout, size
from nvbackend.layout.algebra.inttuple import leaves


@user_facing
@dataclass(frozen=True, slots=True)
class MmaUse:
    """A multiplication: a tile of `shape` (M, N, K), which atoms fill, and what and where its operands are.

    `scale_a`, `scale_b` are the scale factors it has, `metadata` says whether A comes with the places of its elements.
    `layouts` are thread-value layouts that it declares, by the names of `MmaAtom.operand_layouts`.
    """

    shape: tuple[int, int, int]
    a: ElementType
    b: ElementType
    d: ElementType
    a_residency: Residency
    b_residency: Residency
    d_residency: Residency
    metadata: bool = False
    scale_a: BlockScale | None = None
    scale_b: BlockScale | None = None
    layouts: Mapping[str, Layout] = field(default_factory=dict, hash=False)


@user_facing
def use_of(atom: MmaAtom) -> MmaUse:
    """A use of one atom."""
    return MmaUse(
        atom.shape,
        atom.a,
        atom.b,
        atom.d,
        atom.a_residency,
        atom.b_residency,
        atom.d_residency,
        atom.sparsity is not None,
        atom.block_scale,
        atom.block_scale,
    )


@user_facing
def check_atom(atom: MmaAtom, target: Target | str, use: MmaUse) -> tuple[Diagnostic, ...]:
    """Everything that is wrong with this use of `atom` on `target`; only target.unknown is raised.

    The rules: atom.target, atom.shape, atom.types, atom.residency, atom.metadata, atom.scale-factors, atom.layout.
    """
    return (
        *_target_faults(atom, Target.parse(target)),
        *_shape_faults(atom, use),
        *_operand_faults(atom, use),
        *_extra_faults(atom, use),
        *_layout_faults(atom, use),
    )


def _target_faults(atom: MmaAtom, target: Target) -> Iterator[Diagnostic]:
    row = atom.row
    if target.has(atom.requires) and target.ptx_version >= row.ptx_version:
        return
    version, first = dotted(target.ptx_version), dotted(row.ptx_version)
    yield TARGET.diagnose(atom=atom, target=target, version=version, instead=targets_with(atom.requires), first=first)


def _shape_faults(atom: MmaAtom, use: MmaUse) -> Iterator[Diagnostic]:
    if len(use.shape) == 3 and all(
        whole > 0 and whole % extent == 0 for whole, extent in zip(use.shape, atom.shape, strict=True)
    ):
        return
    nearest = tuple(max(1, -(-whole // extent)) * extent for whole, extent in zip(use.shape, atom.shape, strict=False))
    extents, shape, legal = ("x".join(map(str, extents_of)) for extents_of in (use.shape, atom.shape, nearest))
    yield SHAPE.diagnose(atom=atom, given=extents, shape=shape, nearest=legal)


def _operand_faults(atom: MmaAtom, use: MmaUse) -> Iterator[Diagnostic]:
    for operand, type_, expected in (("A", use.a, atom.a), ("B", use.b, atom.b), ("D", use.d, atom.d)):
        if type_ is not expected:
            yield TYPES.diagnose(operand=operand, atom=atom, expected=expected, given=type_)
    for operand, place, wanted in (
        ("A", use.a_residency, atom.a_residency),
        ("B", use.b_residency, atom.b_residency),
        ("D", use.d_residency, atom.d_residency),
    ):
        if place is not wanted:
            yield RESIDENCY.diagnose(operand=operand, atom=atom, expected=wanted, given=place)


def _extra_faults(atom: MmaAtom, use: MmaUse) -> Iterator[Diagnostic]:
    sparse = atom.sparsity is not None
    if use.metadata is not sparse:
        instead = "give the metadata of the sparse A" if sparse else "take a sparse atom, or leave the metadata out"
        said = {True: "some", False: "none"}
        yield METADATA.diagnose(atom=atom, wanted="some" if sparse else "no", given=said[use.metadata], instead=instead)
    for operand, scale in (("A", use.scale_a), ("B", use.scale_b)):
        if scale != atom.block_scale:
            yield SCALE_FACTORS.diagnose(
                operand=operand, atom=atom, expected=_words(atom.block_scale), given=_words(scale)
            )


def _layout_faults(atom: MmaAtom, use: MmaUse) -> Iterator[Diagnostic]:
    """Checks that a declared layout is the same function as the atom's, however its modes are nested."""
    has = atom.operand_layouts()
    for operand, layout in use.layouts.items():
        problem = f"it only has layouts of {', '.join(has)}"
        if operand in has:
            expected, (rows, _) = has[operand]
            problem = _other_function(layout, expected, rows)
        if problem:
            instead = f"use {has[operand][0]}" if operand in has else "leave it out"
            yield LAYOUT.diagnose(operand=operand, atom=atom, given=layout, problem=problem, instead=instead)


def _other_function(actual: Layout, expected: Layout, rows: int) -> str:
    """The first difference of two layouts in words; empty if they are equal."""
    numbers = (*leaves(actual.shape), *leaves(actual.stride))
    if any(isinstance(number, Dynamic) or not isinstance(number, int) for number in numbers):
        return "it is not static"
    counts = [tuple(map(size, layout.modes)) for layout in (actual, expected)]
    if counts[0] != counts[1]:
        return f"it is of {' x '.join(map(str, counts[0]))}, not of {' x '.join(map(str, counts[1]))} (threads, values)"
    for place, (offset, wanted) in enumerate(zip(actual.offsets(), expected.offsets(), strict=True)):
        if offset != wanted:
            value, thread = divmod(place, counts[0][0])
            where = [divmod(index, rows)[::-1] for index in (offset, wanted)]
            return f"thread {thread} has as value {value} the element {where[0]} instead of {where[1]}"
    return ""


def _words(scale: BlockScale | None) -> str:
    return "none" if scale is None else f"{scale.scale}, one for {scale.vec_size} elements"
