"""Chooses the parameters: the least ones for which every loop makes as many rounds as are wanted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llvmlite import ir

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.machine.threads import along
from nvbackend.dry_run.program.code import MOST_BUFFERS, LoopOf, Program, buffers_of
from nvbackend.dry_run.scenario.relations import Relations
from nvbackend.dry_run.scenario.rounds import Rounds
from nvbackend.dry_run.seam import Launch
from nvbackend.intrinsics.row.semantics import WARP_SIZE, MbarrierUse
from nvbackend.intrinsics.row.types import Scalar
from nvbackend.isel.machine.function import MachineFunction, MachineInstr

START = 4096
"""The values from which the search begins, and those of parameters on which no loop depends."""
_STARTS = (START, 256, 32)
"""It begins at less where a product of several is more than a register holds."""
_ODD = (1, 3, 5, 7, 9, 11, 13, 15, 17)
_CANDIDATES = sorted({odd << shift for odd in _ODD for shift in range(13) if odd << shift <= START})
_CASTS = ("zext", "sext", "trunc")
_NEXT = 17
"""How many of the least values that a parameter may have are candidates, where it has a minimum or is a multiple."""


def choose(
    rounds: Rounds,
    scalars: Mapping[str, Scalar],
    wanted: Mapping[str, int],
    fixed: Mapping[str, int] | None = None,
    wished: Mapping[str, int] | None = None,
    places: Collection[str] = (),
    *,
    dealing: Collection[str] = (),
    even: bool = False,
) -> dict[str, int] | None:
    """The parameters for which each loop makes as many rounds as `wanted` by header; None if there are none.

    `fixed` parameters keep their values, and those that are `wished` too, or have the next greater ones that are
    assumed. The others keep to what the kernel asserts and assumes; those that decide about no loop and are `places`
    name the first thread or CTA. The least ones that leave no loop a part of a step are best, and of those with the
    same number of rounds the one that the largest power of two divides: kernels ask for whole tiles. Those that
    are `dealing` rounds to warps give all as many where `even`, else some more than others.
    """
    deals = dict.fromkeys(dealing, even)
    given, first = {**(fixed or {}), **(wished or {})}, set(places) - rounds.parameters
    relations = Relations(rounds, scalars, _candidates)
    chosen, least = None, {}
    for begins in _starts(scalars, first, rounds.parameters):
        start = {**begins, **given}
        values = relations.nearest(start, wished) if wished else relations.completed(start, set(given))
        if values is None:
            continue
        made = {header: min(number, wanted.get(header, 1)) for header, number in rounds.of(values).rounds.items()}
        if chosen is None or sum(made.values()) > sum(least.values()):
            chosen, least = values, made
        if all(number >= wanted.get(header, 1) for header, number in made.items()):
            break
    if chosen is None:
        return None
    known = set(given)
    names = [name for name in reversed(chosen) if name not in given]
    decide = [name for name in names if name in rounds.parameters]
    for name in [*decide, *(name for name in names if name in rounds.assumed and name not in decide)]:
        known.add(name)
        several = [one for one in relations.candidates[name] if one < chosen[name]]
        which, among = (name, frozenset(known)), [*several, chosen[name]]
        chosen = _least(rounds, relations, chosen, which, among, least, deals)
    return chosen


def _starts(
    scalars: Mapping[str, Scalar], first: Collection[str], parameters: Collection[str]
) -> Iterator[dict[str, int]]:
    """Where the search begins: with large numbers, and with those but for one parameter, which may divide others."""
    for most in _STARTS:
        yield {name: _start(scalar, 0 if name in first else most) for name, scalar in scalars.items()}
    for least in (name for name in scalars if name in parameters):
        yield {
            name: _start(scalar, 0 if name in first else 1 if name == least else START)
            for name, scalar in scalars.items()
        }


def _start(scalar: Scalar, most: int) -> int:
    """What a parameter is that decides about no loop."""
    values = scalar.values
    if values[0] > most:
        return values[0]
    return values[-1] if values[-1] < most else most - (most - values[0]) % scalar.multiple_of


def _candidates(scalar: Scalar) -> list[int]:
    values = scalar.values
    found = {one for one in _CANDIDATES if one in values}
    if scalar.asserts:
        found |= {one * scalar.multiple_of for one in _CANDIDATES if one * scalar.multiple_of in values}
        found |= {one for one in values[:_NEXT] if one >= 0}
    return sorted(found)


def halved(
    rounds: Rounds, scalars: Mapping[str, Scalar], values: Mapping[str, int], names: Collection[str]
) -> dict[str, int] | None:
    """`values` with those called `names` about halved; None where all have the least value that is asserted.

    Where no smaller values keep to what is assumed, the result breaks an assumption.
    """
    less = {name: number for name in names if (number := _half(scalars[name], values[name])) != values[name]}
    if not less:
        return None
    found = Relations(rounds, scalars, _candidates).nearest(values, less)
    is_less = found is not None and any(found[name] < values[name] for name in less)
    return found if is_less else {**values, **less}


def _half(scalar: Scalar, value: int) -> int:
    """The greatest value of a parameter that is at most half of `value`, or its least one from 1 on."""
    values = scalar.values
    least = max(values[0], 1 + -1 % scalar.multiple_of)
    half = (value >> 1) - ((value >> 1) - values[0]) % scalar.multiple_of
    return min(value, max(least, half))


def special_of(launch: Launch, cta: int = 0, thread: int = 0) -> dict[str, int]:
    """The special registers of a thread of a CTA that runs."""
    known = ("ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
    special = {
        f"{name}.{letter}": along(name, axis, launch, cta) for name in known for axis, letter in enumerate("xyz")
    }
    before = 1
    for letter, extent in zip("xyz", launch.shape, strict=True):
        special[f"tid.{letter}"] = thread // before % extent
        before *= extent
    warp, lane = divmod(thread, WARP_SIZE)
    return special | {"cluster_ctarank": cta, "laneid": lane, "warpid": warp, "cluster_nctarank": launch.cluster}


@dataclass(frozen=True, slots=True)
class Scale:
    """How many rounds a run makes: `outer` of loops around others, and `more` than rings need of those inside.

    `few` is how many steps there are in place of what rings need, less than 1 for so many less than there are
    buffers, and then `most` limits the rounds of loops around others. Loops that deal their rounds give all warps as
    many where `even`. The cluster at `place`, in each dimension
    of the grid, runs, or at `row` in the others than x; so many come `after` it.
    """

    outer: int
    more: int
    place: int = 0
    few: int | None = None
    after: int = 0
    row: int | None = None
    even: bool = False
    most: int | None = None

    def launch(self, base: Launch) -> Launch:
        """The launch of a run."""
        base = replace(base, first=self.place, row=self.place if self.row is None else self.row, after=self.after)
        return replace(base, grid=self.place + 1 + self.after, taken=self.outer - 1)


MAIN, EVEN = Scale(2, 0), Scale(2, 0, even=True)
LARGER = Scale(2, 24)
"""More steps than numbers of memory make."""
FEW = (Scale(2, 0, few=1), Scale(2, 0, few=-1), Scale(2, 0, few=0))
"""A single step, one less than there are buffers, and as many."""
MORE = (Scale(4, 1, place=1, even=True), Scale(2, 0, place=1, even=True))
"""In another place of the grid: more than one tile for each of two consumers that take turns; or two."""
FIRST_OF_TWO = Scale(2, 0, after=1)
"""Where another place of the grid comes after it."""
FURTHER_ON = tuple(Scale(2, 0, place=place) for place in (1, 3, 7, 15, 31))
"""Further on in the grid, where loops may be longer."""


class Wanted:
    """How many rounds to make of each loop: enough that rings of buffers are used more than once."""

    def __init__(
        self, function: ir.Function, machine: MachineFunction, program: Program, scalars: Mapping[str, Scalar]
    ) -> None:
        self._program = program
        most = {name: scalar.maximum for name, scalar in scalars.items() if scalar.maximum is not None}
        constants = [_restarts(block, most) for block in function.blocks]
        barriers = [buffers_of(machine.blocks[block.name].instructions) for block in function.blocks]
        self._depths = [
            max(barriers[number] for number in loop.blocks) or max(constants[number] for number in loop.blocks) or 1
            for loop in program.loops
        ]
        blocks = [machine.blocks[block.name].instructions for block in function.blocks]
        self._loops = [loop for loop in program.loops if not _only_asks(blocks[number] for number in loop.blocks)]

    def of(self, scale: Scale, rounds: Rounds) -> dict[str, int]:
        """By the loops' headers. Loops around others make few rounds; others fill their ring once and more.

        One that deals its rounds to warps makes two or more in one of them, and as many in all of them together.
        """
        found = {}
        for loop, depth in zip(self._program.loops, self._depths, strict=True):
            nested = any(one is not loop and loop.header in one.blocks for one in self._program.loops)
            name, is_around = self._name(loop), self._is_around(loop)
            number = _rounds(scale, depth, is_around=is_around, nested=nested)
            if is_around and name in rounds.dealt:
                number = max(2, -(-number // rounds.dealt[name])) + scale.more
            found[name] = number
        return found

    def dealing(self, rounds: Rounds) -> frozenset[str]:
        """The headers of loops around others that deal their rounds to warps."""
        return frozenset(
            name for loop in self._program.loops if self._is_around(loop) and (name := self._name(loop)) in rounds.dealt
        )

    def few(self, scale: Scale, rounds: Rounds, chosen: Mapping[str, int]) -> dict[str, int]:
        """The parameters that decide how many steps there are, for `few` of them; `chosen` are those for many."""
        around = {self._name(loop) for loop in self._program.loops if self._is_around(loop)}
        depths = dict(zip(map(self._name, self._program.loops), self._depths, strict=True))
        found = {}
        for name in rounds.parameters:
            headers = [header for header, names in rounds.used.items() if name in names]
            depth = max(depths[header] for header in headers)
            if depth > 1 and around.isdisjoint(headers):
                found[name] = _few(scale, depth) * _step(rounds, chosen, name, headers)
        return found

    @property
    def has_tiles(self) -> bool:
        """Whether a loop is around others: only a larger run shows what goes on from one tile to the next."""
        return any(self._is_around(loop) for loop in self._program.loops)

    def _is_around(self, loop: LoopOf) -> bool:
        return any(one is not loop and one.header in loop.blocks for one in self._loops)

    def _name(self, loop: LoopOf) -> str:
        return self._program.blocks[loop.header].name


def _few(scale: Scale, depth: int) -> int:
    assert scale.few is not None
    return max(1, scale.few if scale.few > 0 else depth + scale.few)


def _step(rounds: Rounds, chosen: Mapping[str, int], name: str, headers: Sequence[str]) -> int:
    """By how much a parameter differs where loops make a round more, and where they make one less."""
    number = chosen[name]
    many = rounds.of(chosen).rounds
    for step in _CANDIDATES:
        more = rounds.of({**chosen, name: number + step}).rounds
        fewer = rounds.of({**chosen, name: max(0, number - step)}).rounds
        if any(fewer.get(one, 0) < many.get(one, 0) < more.get(one, 0) for one in headers):
            return step
    return number


def _rounds(scale: Scale, depth: int, *, is_around: bool, nested: bool) -> int:
    if scale.few is None:
        return scale.outer if is_around else depth + 1 + scale.more if nested else 2 * depth + 1 + scale.more
    if not is_around:
        return 0
    wanted = -(-(2 * depth + 1) // _few(scale, depth))
    return max(scale.outer, wanted if scale.most is None else min(wanted, scale.most))


def _only_asks(blocks: Iterable[Sequence[MachineInstr]]) -> bool:
    """Whether a loop does nothing but ask for a phase until it is over."""
    said = [instr.semantics for block in blocks for instr in block if next(instr.semantics.said(), None)]
    return bool(said) and all(one.mbarrier is MbarrierUse.POLL for one in said)


def _restarts(block: ir.Block, most: Mapping[str, int]) -> int:
    """The largest number at which a counter of `block` starts again: the buffers of a ring, if it is one's.

    Or the largest that it may be, where a parameter decides it of which `most` says how large it is.
    """
    depth = 0
    for one in block.instructions:
        if one.opname not in ("icmp", "urem", "srem", "udiv", "sdiv", "and"):
            continue
        number = _number(one.operands[1], most)
        if number is None or not 1 < number <= MOST_BUFFERS:
            continue
        if one.opname == "and":
            depth = max(depth, number + 1 if _is_counter(one.operands[0]) else 0)
        elif one.opname != "icmp" or str(one.op) == "eq":
            depth = max(depth, number)
    return depth


def _number(value: Any, most: Mapping[str, int]) -> int | None:
    """A constant, or the most that a parameter may be, or a parameter and a number; of a choice the greater one."""
    opname = getattr(value, "opname", "")
    if opname == "select":
        return max((one for each in value.operands[1:] if (one := _number(each, most)) is not None), default=None)
    if opname in _CASTS:
        return _number(value.operands[0], most)
    if opname in ("add", "sub"):
        left, right = (_number(one, most) for one in value.operands)
        return None if left is None or right is None else left + right if opname == "add" else left - right
    number = most.get(str(value.name)) if isinstance(value, ir.Argument) else getattr(value, "constant", None)
    return number if isinstance(number, int) else None


def _is_counter(value: ir.Value) -> bool:
    """Whether it is a variable, or a variable and a number."""
    if getattr(value, "opname", "") == "add":
        value = value.operands[0]
    return getattr(value, "opname", "") == "load" and isinstance(value.operands[0], ir.AllocaInstr)


def _least(
    rounds: Rounds,
    relations: Relations,
    chosen: dict[str, int],
    which: tuple[str, frozenset[str]],
    candidates: Sequence[int],
    least: Mapping[str, int],
    deals: Mapping[str, bool],
) -> dict[str, int]:
    """`chosen` with the best value of a parameter for which loops make as many rounds as `least`.

    `which` is its name, and those of the parameters that keep their values; `deals` are the loops that deal rounds, and
    whether all shall get as many.
    """
    name, known = which
    decided = {header for header, names in rounds.used.items() if name in names}
    first, best, made_by = None, None, None
    for number in candidates:
        values = relations.completed({**chosen, name: number}, known)
        if values is None:
            continue
        made = rounds.of(values)
        if any(made.rounds.get(header, 0) < rest for header, rest in least.items()):
            continue
        first = values if first is None else first
        as_wished = {one for one, even in deals.items() if (one in made.even) is even}
        if not decided <= made.whole - deals.keys() | as_wished:
            continue
        if best is not None and made.rounds != made_by:
            break
        if best is None or number & -number > best[name] & -best[name]:
            best, made_by = values, made.rounds
    if best is None and not decided.isdisjoint(deals):
        return _least(rounds, relations, chosen, which, candidates, least, {})
    return best or first or chosen
