"""The stages of a ring: what lies in each, and where a role is among them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar

from nvbackend.builder.core.memory import SHARED_BASE_ALIGNMENT, Address
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.scopes.rules import SHARED_ALIGNMENT
from nvbackend.builder.tiles import ring_rules
from nvbackend.builder.tiles.tensor import Tensor, make_tensor
from nvbackend.builder.values.attributes import ATTRIBUTE
from nvbackend.builder.values.values import Operand, Value, as_index
from nvbackend.diagnostics import MissingAttribute, Uncopied, record
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy import tma
from nvbackend.intrinsics.row.types import ElementType, s32, u8
from nvbackend.layout import AnyLayout, ComposedLayout, cosize, size
from nvbackend.layout.descriptors.smem_layout import SmemLayout

_UNIT_BITS = 8 * tma.BULK_ALIGNMENT
"""What each stage of a tile begins at a multiple of, at least."""
Tile = TypeVar("Tile", bound="SharedTile | Tensor | Address")
TileLayout: TypeAlias = "SmemLayout | tuple[ElementType, AnyLayout | int] | int"
"""A tile of a stage: the layout of a SharedTile, the element type and the layout of a Tensor, the element type and the
number of elements at an Address, or a number of bytes."""
OPTIONS = ("stages", "consumers", "copies", "multicast", "pingpong", "released_by", "apart")
"""The arguments of `k.pipeline` beside its tiles."""


@record
class Stage(Uncopied, Generic[Tile]):
    """A stage of a ring: its tiles by name, and `full`, the mbarrier that its copies complete on, where it has one."""

    __slots__ = ("full", "tiles")
    full: Address

    def __init__(self, tiles: dict[str, Tile], full: Address | None) -> None:
        self.tiles = tiles
        if full is not None:
            self.full = full

    def __getattr__(self, name: str) -> Tile:
        if name in self.tiles:
            return self.tiles[name]
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        advice = f"use one of its tiles: {', '.join(self.tiles)}"
        raise MissingAttribute([ATTRIBUTE.diagnose(owner="a stage of this ring", name=name, advice=advice)])

    def __repr__(self) -> str:
        return f"<stage of {', '.join(self.tiles)}>"


@dataclass(frozen=True, slots=True)
class StageTiles:
    """The tiles of one name, one per stage: where they begin, the bytes that are copied to each, and each of them."""

    first: Address
    bytes: int
    at: Callable[[Value], Any]


def lay_out(k: FunctionBuilder, name: str, tile: TileLayout, stages: int, unit: int) -> StageTiles:
    """The memory of a tile in all stages; `unit` divides the bytes of elements (pipeline.bytes)."""
    if isinstance(tile, SmemLayout):
        shared = k.shared_tiles(tile, stages, name=name)
        return StageTiles(shared.first, tile.bytes, shared.at)
    element, layout = (u8, tile) if isinstance(tile, int) else tile
    if isinstance(layout, int):
        return _elements(k, name, element, layout, stages, unit, *_meant(name, tile))
    if not isinstance(layout, AnyLayout):
        raise TypeError(layout)  # the boundary names the argument of `pipeline`, not that of `cosize`
    if isinstance(layout, ComposedLayout):
        count, period = layout.reach(), layout.in_elements().swizzle.period
    else:
        count, period = cosize(layout), 1
    align = max(tma.TENSOR_ALIGNMENT, element.bytes_for(period))
    if align > SHARED_BASE_ALIGNMENT:
        _fail_period(name, element, period)
    count = _up(count, _UNIT_BITS // math.gcd(_UNIT_BITS, element.bits))
    memory, step = k.shared(element, stages * count, align=align, name=name), element.bytes_for(count)
    return StageTiles(
        memory, element.bytes_for(size(layout)), lambda index: make_tensor(k, memory.steps(index, step), layout)
    )


def _fail_period(name: str, element: ElementType, period: int) -> NoReturn:
    align = element.bytes_for(period)
    cause = f". The pattern of its swizzle is {period} elements long, and {period} {element} are {align} bytes"
    SHARED_ALIGNMENT.fail(name=name, align=align, base=SHARED_BASE_ALIGNMENT, cause=cause)


def _meant(name: str, tile: TileLayout) -> tuple[str, str]:
    """How the fix begins and ends where a number by this name may be meant as an option."""
    if not isinstance(tile, int):
        return "", ""
    import difflib

    near = difflib.get_close_matches(name, OPTIONS, 1)
    return (f"did you mean {near[0]}={tile}? As a tile, ", "") if near else ("", f"; options are {', '.join(OPTIONS)}")


def _elements(
    k: FunctionBuilder,
    name: str,
    element: ElementType,
    count: int,
    stages: int,
    unit: int,
    meant: str = "",
    options: str = "",
) -> StageTiles:
    """Elements one after another; each stage begins where a box of TMA may. The fix has `meant` and `options`."""
    if isinstance(count, bool) or count < 1 or element.bits * count % (8 * unit):
        least = _up(max(1, count), math.lcm(8 * unit, element.bits) // element.bits)
        ring_rules.RING_BYTES.fail(
            name=name,
            given=f"{count} of {element}",
            problem=f"they are not a positive multiple of {unit} bytes",
            advice=f"{meant}give {least}, and announce what comes: ring.fill(bytes={{...}}){options}",
        )
    bytes = element.bytes_for(count)
    step = _up(bytes, tma.TENSOR_ALIGNMENT)
    memory = k.shared(u8, stages * step, align=tma.TENSOR_ALIGNMENT, name=name)
    return StageTiles(memory, bytes, lambda index: memory.steps(index, step, align=tma.TENSOR_ALIGNMENT).cast(element))


def announced(k: FunctionBuilder, tiles: Mapping[str, StageTiles], coming: Mapping[str, Operand]) -> Operand:
    """The bytes that come to a stage: those given for a tile by its name, else all of it. Raises pipeline.bytes."""
    total: Operand = sum(tile.bytes for name, tile in tiles.items() if name not in coming)
    for name, count in coming.items():
        value = as_index(k.core, count)
        _check_announced(name, value.constant, tiles)
        total = value.to(s32) + total
    return total


def _check_announced(name: str, count: object, tiles: Mapping[str, StageTiles]) -> None:
    def fail(problem: str, advice: str) -> NoReturn:
        ring_rules.RING_BYTES.fail(name=name, given=f"bytes={count}", problem=problem, advice=advice)

    if name not in tiles:
        fail("it has no such tile", f"name one of {', '.join(tiles)}")
    if isinstance(count, int) and not 0 <= count <= tiles[name].bytes:
        fail(f"it has {tiles[name].bytes} bytes", f"announce at most {tiles[name].bytes}")
    if isinstance(count, int) and count % tma.BULK_ALIGNMENT:
        fail("copies move multiples of 16 bytes", f"announce {_up(count, tma.BULK_ALIGNMENT)}, and copy as many")


def _up(count: int, unit: int) -> int:
    """`count` rounded up to a multiple of `unit`."""
    return -(-count // unit) * unit


class Walk:
    """Where a role is in the ring, and the mbarriers of its stages."""

    def __init__(self, k: FunctionBuilder, stages: int, full: Address, arrivals: int) -> None:
        self._k = k
        self._stages = stages
        self.full = full
        self.empty = k.mbarrier.array(stages, arrivals, name="empty")
        self.index = k.var(0, s32, name="stage")
        self.phase = k.var(0, s32, name="phase")
        self.unreleased = k.var(0, s32, name="unreleased")

    def before(self, index: Value) -> Value:
        """The stage before this one."""
        return self._k.select(index == 0, self._stages - 1, index - 1)

    def advance(self) -> None:
        """Go on to the next stage."""
        following = self.index + 1
        wrapped = following == self._stages
        self.phase.set(self._k.select(wrapped, self.phase ^ 1, self.phase.value))
        self.index.set(self._k.select(wrapped, 0, following))
