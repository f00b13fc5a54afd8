"""The neighbourhoods of `async_text` and `tma_text` in the other spellings that PTX has for an instruction.

Each variant is one of theirs with its state spaces or its mode crossed; its row is found by the spelling among those
that its row is spelled otherwise. What has none is illegal.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import product

from nvbackend.intrinsics import spellings
from nvbackend.intrinsics.row.row import NoSuchRow, Row
from tests.support import async_text, tma_text
from tests.support.async_text import Variant

SPACES = ("", ".shared", ".shared::cta", ".shared::cluster", ".global")
_WIDE = {f"[%r{index}]": f"[%rd{20 + index}]" for index in (1, 2)}
"""Generic addresses, and those of global memory, have 64 bits."""


def _spelled(usual: Callable[[], Row], ptx: str) -> Row:
    row = usual()
    for one in (row, *spellings.other_spellings(row)):
        if one.ptx == ptx:
            return one
    raise NoSuchRow(ptx)


def _otherwise(variant: Variant, old: str, space: str, *, widened: tuple[str, ...]) -> Variant:
    """`variant` with `space` for the space `old`, and its addresses as wide as those of the space are."""
    name, _, operands = variant.text.partition(" ")
    ptx = name.replace(f"{old}.", f"{space}.", 1)
    if not space.startswith(".shared"):
        for narrow in widened:
            operands = operands.replace(narrow, _WIDE[narrow])
    return Variant(f"{ptx} {operands}", lambda: _spelled(variant.row, ptx))


def matrices() -> Iterator[Variant]:
    """ldmatrix and stmatrix in every state space."""
    for variant, space in product(async_text.matrices(), SPACES):
        yield _otherwise(variant, ".shared", space, widened=("[%r1]",))


def copies() -> Iterator[Variant]:
    """cp.async to every state space."""
    for variant, space in product(async_text.copies(), SPACES):
        yield _otherwise(variant, ".shared", space, widened=("[%r1]",))


def tensor_maps() -> Iterator[Variant]:
    """tensormap.replace in every state space, and without its mode."""
    for variant in async_text.tensor_maps():
        if ".global." in variant.text and variant.text.startswith("tensormap.replace"):
            for space in ("", ".shared", ".shared::cluster", ".const"):
                yield _otherwise(variant, ".global", space, widened=())
            yield _otherwise(variant, ".tile", "", widened=())


def launch_control() -> Iterator[Variant]:
    """clusterlaunchcontrol.try_cancel in every state space."""
    for variant in async_text.fences_and_caches():
        if variant.text.startswith("clusterlaunchcontrol"):
            for space in SPACES:
                yield _otherwise(variant, ".shared::cta", space, widened=("[%r1]", "[%r2]"))


@functools.cache
def _without_mode() -> dict[str, Row]:
    return {row.ptx: row for row in spellings.rows() if row.axes.get("mode") == "tile"}


def boxes() -> Iterator[Variant]:
    """Copies in tile mode that name no mode; the spelling says which operands there are."""
    for request in tma_text.neighbourhood():
        if request.mode == "tile":
            text = tma_text.instruction(request).replace(".tile", "", 1)
            yield Variant(text, functools.partial(_box, text.partition(" ")[0]))


def _box(ptx: str) -> Row:
    if ptx not in _without_mode():
        raise NoSuchRow(ptx)
    return _without_mode()[ptx]


FAMILIES = {
    "matrix_spellings": matrices,
    "copy_spellings": copies,
    "tensor_map_spellings": tensor_maps,
    "launch_control_spellings": launch_control,
    "box_spellings": boxes,
}
