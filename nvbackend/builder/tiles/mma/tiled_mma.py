"""An instruction tiled over the threads of a CTA: one call for every instruction that multiplies tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from nvbackend.atoms import MmaAtom, Residency, atom_of, check_atom, use_of
from nvbackend.atoms import atom as atom_named
from nvbackend.atoms.warpgroup import atom_of_request, request_of_atom
from nvbackend.builder.core.memory import Address
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.tiles.coordinates import Inside
from nvbackend.builder.tiles.elements.places import LayoutPlaces
from nvbackend.builder.tiles.mma.accumulator_store import of_one_atom, store_accumulators
from nvbackend.builder.tiles.mma.rules import INSTRUCTION, THREADS, WARPGROUPS
from nvbackend.builder.tiles.mma.wgmma import TiledWgmma
from nvbackend.builder.tiles.roles import Roles
from nvbackend.builder.tiles.tensor import Tensor
from nvbackend.builder.values.accumulator import Accumulator
from nvbackend.builder.values.placed import TilePlaces
from nvbackend.builder.values.values import Operand
from nvbackend.diagnostics import raise_all
from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.intrinsics.mma.wgmma import M as ROWS
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE
from nvbackend.intrinsics.sync.barriers import MAX_CTA_THREADS
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from nvbackend.isel.select.wgmma.select import select_wgmma
from nvbackend.isel.target.target import Target
from nvbackend.layout import AnyLayout, Layout, size
from nvbackend.layout.algebra.inttuple import leaves
from nvbackend.tiled import Partition, TiledMMA, make_tiled_mma
from nvbackend.tiled.ownership import ownership_of_atom
from nvbackend.tiled.permutation import Permutation
from nvbackend.tiled.tiled_mma import AtomLayout

if TYPE_CHECKING:
    from nvbackend.builder.tiles.mma.tcgen05 import TiledTcgen05
    from nvbackend.builder.tiles.register_tensor import RegisterTensor
    from nvbackend.isel.select.mma.request import MmaRequest
    from nvbackend.isel.select.tcgen05.request import Tcgen05Request

Instruction: TypeAlias = "WgmmaRequest | Tcgen05Request | MmaRequest | TiledMMA | MmaAtom | str"
"""What a tiled MMA is made of."""


def make_tiled(
    k: FunctionBuilder,
    roles: Roles,
    instruction: Instruction,
    warpgroups: tuple[int, int],
    *,
    atom_layout: AtomLayout | None,
    permutation: Sequence[Permutation] | None,
    tile: tuple[int, int] | None,
    descriptor: InstructionDescriptor | None,
) -> Any:
    """What multiplies tiles by `instruction`, and the layouts by which: see `k.tiled_mma`."""
    named = atom_named(instruction) if isinstance(instruction, str) else instruction
    atom = _atom(named, descriptor, k.target)
    if isinstance(named, TiledMMA):
        layouts = _as_it_is(named, warpgroups, atom_layout, permutation)
    else:
        atoms = _atoms_along(warpgroups) if atom_layout is None else _only(atom_layout, warpgroups)
        _check_count(atoms, atom)
        layouts = make_tiled_mma(atom, atoms, permutation)
    extents = layouts.tile_size_mnk[:2] if tile is None else _two(tile)
    raise_all(check_atom(atom, k.target, use_of(atom)))  # tiles of another shape are the layouts' own rule
    if atom.d_residency is Residency.TENSOR_MEMORY:
        return _tiled_tcgen05(k, named, descriptor, layouts, extents)
    if atom.threads == WARPGROUP_SIZE:
        request = named if isinstance(named, WgmmaRequest) else request_of_atom(atom)
        return TiledWgmma(k, roles, request, layouts, extents, any_major=named is request)
    from nvbackend.builder.tiles.mma.warp_mma import TiledWarpMma

    return TiledWarpMma(k, layouts, extents)


def _two(tile: tuple[int, int]) -> tuple[int, int]:
    """Raises call.argument for a tile with an extent along K, as CuTe's tiles have: it would mean nothing here."""
    if isinstance(tile, (tuple, list)) and len(tile) > 2:
        advice = (
            f"give the extents along M and N, tile={tuple(tile[:2])}; along K a tile is as wide as what is multiplied"
        )
        ARGUMENT.fail(call="k.tiled_mma", problem=f"tile={tile!r} has {len(tile)} extents", advice=advice)
    return tile


def store_whole(k: FunctionBuilder, accumulator: Accumulator, target: Address, stride: Operand) -> None:
    """Write an accumulator of one atom straight to global memory: see `k.store_accumulator`."""
    cut = of_one_atom(k.thread_id("linear") % WARPGROUP_SIZE, accumulator.n)
    store_accumulators(k, [accumulator], target, stride, (ROWS, accumulator.n), cut)


def places_of_atom(k: FunctionBuilder, n: int) -> TilePlaces:
    """Where the registers of the accumulator of one wgmma have their elements, 64 x `n`."""
    ownership = ownership_of_atom(n)
    return LayoutPlaces(
        k,
        ownership,
        of_one_atom(0, n)(Layout((ROWS, n))).shape,
        lambda: k.thread_id("linear") % WARPGROUP_SIZE,
        lambda thread: of_one_atom(thread, n),
    )


def axpby_part(
    k: FunctionBuilder,
    alpha: Operand,
    x: RegisterTensor,
    beta: Operand,
    y: Tensor,
    *,
    c: Tensor | None,
    where: Inside | None,
) -> None:
    """alpha * x + beta * y to `y`, or to it from `c`, element by element: see `k.axpby`."""
    from nvbackend.builder.tiles.axpby import Axpby
    from nvbackend.builder.tiles.mma.axpby_fragments import axpby_fitting

    source = y if c is None else c
    form = Axpby(k, alpha, beta, x.element, y.element, source.element)
    axpby_fitting(k, form, x, y, source, _as_it_lies, where)


def _atom(instruction: object, descriptor: InstructionDescriptor | None, target: Target) -> MmaAtom:
    """The atom, which the target must have."""
    if isinstance(instruction, WgmmaRequest):
        return atom_of_request(instruction, target)
    from nvbackend.isel.select.mma.request import MmaRequest
    from nvbackend.isel.select.tcgen05.request import Tcgen05Request

    if isinstance(instruction, MmaRequest):
        from nvbackend.isel.select.mma.select import select_mma

        return atom_of(select_mma(instruction, target))
    if isinstance(instruction, Tcgen05Request):
        from nvbackend.atoms import umma

        return umma.atom_of_request(instruction, descriptor or instruction.descriptor, target)
    atom = instruction.atom if isinstance(instruction, TiledMMA) else instruction
    if not isinstance(atom, MmaAtom):
        INSTRUCTION.fail(
            given=repr(instruction),
            problem="it is not an instruction",
            instead="give a request such as nvb.wgmma.mma_async(...), an atom, CuTe's name of one, or a TiledMMA",
        )
    if atom.d_residency is Residency.TENSOR_MEMORY:
        from nvbackend.atoms import umma
        from nvbackend.isel.select.tcgen05.select import select_tcgen05

        select_tcgen05(umma.request_of_atom(atom)[0], target)
    elif atom.threads == WARPGROUP_SIZE:
        select_wgmma(request_of_atom(atom), target)
    return atom


def _tiled_tcgen05(
    k: FunctionBuilder,
    instruction: object,
    descriptor: InstructionDescriptor | None,
    layouts: TiledMMA,
    tile: tuple[int, int],
) -> TiledTcgen05:
    from nvbackend.atoms import umma
    from nvbackend.builder.tiles.mma.tcgen05 import TiledTcgen05
    from nvbackend.isel.select.tcgen05.request import Tcgen05Request
    from nvbackend.isel.select.tcgen05.shapes import descriptor_of

    if size(layouts.atom_layout_mnk) > 1:
        problem = "the threads of a CTA do not multiply: one issues all instructions"
        INSTRUCTION.fail(given=layouts, problem=problem, instead="make the tile larger: tile=(256, 256)")
    if isinstance(instruction, Tcgen05Request):
        descriptor = descriptor_of(instruction, descriptor)
        return TiledTcgen05(k, instruction, descriptor, layouts, tile, any_major=True)
    request, described = umma.request_of_atom(layouts.atom)
    return TiledTcgen05(k, request, described, layouts, tile, any_major=False)


def _as_it_lies(layout: AnyLayout) -> Partition:
    """A thread's part, which needs no further cut."""
    return Partition(layout, 0)


def _check_count(atoms: AtomLayout, atom: MmaAtom) -> None:
    """Raises mma.threads where so many atoms want more threads than a CTA can have."""
    shape = atoms.shape if isinstance(atoms, Layout) else atoms
    count = math.prod(max(extent, 0) for extent in leaves(shape) if type(extent) is int)
    if count * atom.threads > MAX_CTA_THREADS:
        THREADS.fail(count=count, atom=atom.name, threads=count * atom.threads, most=MAX_CTA_THREADS)


def _atoms_along(warpgroups: tuple[int, int]) -> AtomLayout:
    """The atom layout of `warpgroups` along M and N. Raises mma.warpgroups."""
    match warpgroups:
        case (int(along_m), int(along_n)) if along_m > 0 and along_n > 0:
            return along_m, along_n, 1
    WARPGROUPS.fail(given=warpgroups)


def _only(atom_layout: AtomLayout, warpgroups: tuple[int, int]) -> AtomLayout:
    """Raises mma.tiled where it is said twice how atoms are laid out."""
    if warpgroups != (1, 1):
        problem = f"both warpgroups={warpgroups} and an atom layout say how many there are"
        INSTRUCTION.fail(given=f"atoms laid out as {atom_layout}", problem=problem, instead="give one of the two")
    return atom_layout


def _as_it_is(
    tiled: TiledMMA, warpgroups: tuple[int, int], atom_layout: object | None, permutation: object | None
) -> TiledMMA:
    """Raises mma.tiled where it is said twice how atoms are laid out."""
    if (warpgroups, atom_layout, permutation) != ((1, 1), None, None):
        problem = "it says already how many atoms there are, and where"
        INSTRUCTION.fail(given=tiled, problem=problem, instead="give its atom in its place, or leave the rest out")
    return tiled
