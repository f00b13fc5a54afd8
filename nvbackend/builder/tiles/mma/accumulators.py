"""What a tiled wgmma keeps in registers: all accumulators of a warpgroup's part of a tile, CuTe's tCrC, and A."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from nvbackend.builder.scopes.rules import ACCUMULATOR_REGISTERS
from nvbackend.builder.tiles.mma.rules import PARTS
from nvbackend.builder.values.accumulator import Accumulator, WgmmaFragment, elements_of, halves, pack_halves
from nvbackend.builder.values.entries import Entries
from nvbackend.builder.values.placed import Placed, TilePlaces
from nvbackend.builder.values.values import Operand, Value
from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType, f16
from nvbackend.layout import Layout, size
from nvbackend.tiled import Fragment as TiledFragment
from nvbackend.tiled.split_k import halving


@user_facing
class Accumulators(Placed, Entries[Accumulator]):
    """The accumulators of the atoms along M, along N, and of the parts of a split K: `acc[m, n]`, `acc[m, n, part]`.

    `shape` says how many there are along M and N, and for each of these places.
    As a sequence they come in the order of the coordinate as one integer, so that `drains=acc` names them all.
    """

    def __init__(
        self, made: Sequence[Accumulator], shape: tuple[int, int, int], places: TilePlaces | None = None
    ) -> None:
        self._entries = tuple(made)
        self._layout = Layout(shape)
        self._own_places = places
        self.shape = shape

    @overload
    def __getitem__(self, index: int | tuple[int, ...]) -> Accumulator: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Accumulator]: ...

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, tuple):
            return super().__getitem__(index)
        return self._entries[self._layout((*index, 0) if len(index) == 2 else index)]

    def clear(self) -> None:
        """Let the next mma overwrite each of them."""
        for accumulator in self._entries:
            accumulator.clear()

    def fill(self, number: Operand) -> None:
        """Set all elements to `number`; with several parts, those of part 0, and clear the others."""
        first = self.shape[0] * self.shape[1]
        for place, accumulator in enumerate(self._entries):
            if place < first:
                accumulator.fill(number)
            else:
                accumulator.clear()

    def set(self, values: Sequence[Operand]) -> None:
        """Write all elements, or registers, of a thread, in the order of the accumulators.

        With several parts, they are those of part 0, and the others are cleared. Raises wgmma.registers for another
        number of them.
        """
        first = self.shape[0] * self.shape[1]
        each, rest = divmod(len(values), first)
        if rest:
            ACCUMULATOR_REGISTERS.fail(
                accumulator=self, registers=first * self._entries[0].registers, given=len(values)
            )
        for place, accumulator in enumerate(self._entries):
            if place < first:
                accumulator.set(values[place * each : (place + 1) * each])
            else:
                accumulator.clear()

    def _places(self) -> TilePlaces | None:
        return self._own_places

    def _elements(self) -> Sequence[Value]:
        first = self._entries[: self.shape[0] * self.shape[1]]
        return [value for accumulator in first for value in elements_of(accumulator)]

    def add_parts(self) -> None:
        """Add the parts of a split K to part 0. All parts must be drained, and have been multiplied into or filled.

        Raises mma.tile-parts if there is only one.
        """
        along_m, along_n, parts = self.shape
        if parts == 1:
            PARTS.fail(
                mma=self, parts=parts, instead="make them with mma.accumulators(parts=2), or read them as they are"
            )
        for pairs in halving(parts):
            for source, target in pairs:
                for n in range(along_n):
                    for m in range(along_m):
                        add_registers(self[m, n, target], self[m, n, source].values())

    def __repr__(self) -> str:
        m, n, parts = self.shape
        return f"<{m} x {n} accumulators{f' in {parts} parts' if parts > 1 else ''}: {self._entries[0]!r}, ...>"


def add_registers(target: Accumulator, addends: Sequence[Value]) -> None:
    """Add a thread's registers to those of `target`, which has the same element type."""
    target.set([_sum(target.element, *pair) for pair in zip(target.values(), addends, strict=True)])


def _sum(element: ElementType, left: Value, right: Value) -> Value:
    if element is not f16:
        return left + right
    return pack_halves(*(a + b for a, b in zip(halves(left), halves(right), strict=True)))


@user_facing
@dataclass(frozen=True)
class RegisterFragment:
    """A in registers: (V, MMA_M, MMA_K), what each instruction takes of it in the order of the coordinates."""

    fragment: TiledFragment
    parts: tuple[WgmmaFragment, ...]

    @property
    def layout(self) -> Layout:
        """(V, MMA_M, MMA_K) to the elements of a thread."""
        return self.fragment.layout

    def __call__(self, *coordinate: int) -> WgmmaFragment:
        """What the instruction at (0, m, k) takes."""
        _, m, k = coordinate
        return self.parts[m + size(self.layout, 1) * k]
