"""How each instruction uses its registers: what it needs, what it computes of what, and what it overwrites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.syntax import Address, Guard, Instruction, Integer, Name, Operand, Pair, Vector
from nvbackend.simulator.events import Site
from nvbackend.simulator.machine.deciding import COMPUTES
from nvbackend.simulator.machine.in_flight import slots_of
from nvbackend.simulator.machine.symbols import CARRY_FLAG, Symbols

_BY_WARP = ("shfl", "vote", "match", "redux", "elect", "activemask")
_SPREADS = ("ldmatrix", "wmma")
"""Loads whose words come to all lanes of the warp."""
_IN_PLACE = ("wgmma",)
_CARRIES = ("addc", "subc", "madc")
_DENSE_SCALE, _SPARSE_SCALE = 3, 5
"""Where the scale-d of a wgmma is among its operands."""


@dataclass(frozen=True, slots=True)
class Adds:
    """Of wgmma: the registers that it adds to or overwrites, and the predicate or the number that says which."""

    slots: frozenset[int]
    predicate: int | None
    always: bool


@dataclass(frozen=True, slots=True)
class Use:
    """The slots of one instruction: those whose values it needs, its results, and what these are computed from."""

    needed: frozenset[int] = frozenset()
    results: frozenset[int] = frozenset()
    sources: frozenset[int] = frozenset()
    chosen: tuple[int | None, int | None, int] | None = None
    """Of selp: what it chooses from, and the predicate."""
    guard: tuple[int, bool] | None = None
    is_load: bool = False
    by_warp: bool = False
    """Whether results come of other lanes of the warp, too."""
    packs: bool = False
    """Whether it puts several registers into one."""
    keeps: bool = False
    """Whether it stores what it needs where others of the CTA may leave it unread."""
    adds: Adds | None = None

    def read(self) -> frozenset[int]:
        """All slots whose values count for something."""
        chosen = {slot for slot in self.chosen or () if slot is not None}
        guard = () if self.guard is None else self.guard[:1]
        return self.needed | self.sources | chosen | frozenset(guard) | self.overwritten()

    def overwritten(self) -> frozenset[int]:
        """The registers that it adds to or overwrites."""
        return frozenset() if self.adds is None else self.adds.slots


Uses = Callable[[], Mapping[Site, Use]]


def is_product(line: Instruction) -> bool:
    """Whether it is a wgmma.mma_async."""
    return line.parts[:2] == ("wgmma", "mma_async")


def scale_d(line: Instruction) -> Operand:
    """What says whether a wgmma adds to its accumulator."""
    return line.operands[_SPARSE_SCALE if "sp" in line.parts else _DENSE_SCALE]


def uses(
    symbols: Symbols, lines: Iterable[tuple[Instruction, Site]], computes: Callable[[Instruction], bool]
) -> dict[Site, Use]:
    """How each instruction uses its registers; `computes` says whether it does nothing but compute registers."""
    return {site: _use(symbols, line, computes=computes(line)) for line, site in lines}


def _use(symbols: Symbols, line: Instruction, *, computes: bool) -> Use:
    opcode, operands = line.parts[0], line.operands
    guard = _guard(symbols, line.guard)
    is_result = bool(operands) and isinstance(operands[0], Name | Vector | Pair) and opcode not in _IN_PLACE
    first = operands[:1] if is_result else ()
    results, rest = _slots(symbols, first), _slots(symbols, operands[len(first) :])
    if opcode == "selp":
        ends = [next(iter(_slots(symbols, [one])), None) for one in operands[1:4]]
        if ends[2] is not None:
            return Use(results=results, chosen=(ends[0], ends[1], ends[2]), guard=guard)
    if computes or opcode in COMPUTES:
        has_carry = opcode in _CARRIES or "cc" in line.parts
        carry = _slots(symbols, [CARRY_FLAG]) if has_carry else frozenset()
        packs = any(isinstance(one, Vector) for one in operands[1:])
        return Use(results=results | carry, sources=rest | carry, guard=guard, by_warp=opcode in _BY_WARP, packs=packs)
    if is_product(line):
        chooses = scale_d(line)
        predicate = next(iter(_slots(symbols, [chooses])), None)
        always = isinstance(chooses, Integer) and bool(chooses.value)
        target = _slots(symbols, operands[:1])
        return Use(_slots(symbols, operands[1:]), guard=guard, adds=Adds(target, predicate, always))
    if opcode in ("ld", "ldu", *_SPREADS) and any(isinstance(one, Address) for one in operands[1:]):
        return Use(rest, results, guard=guard, is_load=True, by_warp=opcode in _SPREADS)
    keeps = opcode == "st" and "global" not in line.parts
    return Use(rest, results, guard=guard, keeps=keeps)


def _guard(symbols: Symbols, guard: Guard | None) -> tuple[int, bool] | None:
    slot = next(iter(_slots(symbols, [guard.register])), None) if guard is not None else None
    return None if slot is None or guard is None else (slot, guard.negated)


def _slots(symbols: Symbols, operands: Iterable[Operand]) -> frozenset[int]:
    return frozenset(slots_of(symbols, operands))
