"""Dynamic tiles: the producer draws their numbers from a counter in memory, and mails them to the consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from nvbackend.builder.core.control import holding
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.scopes.blocks import LOOPS, with_block
from nvbackend.builder.tiles.dynamic import rules
from nvbackend.builder.tiles.dynamic.mail import WORD_BITS, Mail
from nvbackend.builder.tiles.in_common.parted import parted
from nvbackend.builder.tiles.in_common.zeros import note_zeros
from nvbackend.builder.tiles.roles import Roles
from nvbackend.builder.values.attributes import KnownAttributes
from nvbackend.builder.values.carried import DRAWN, over_tiles
from nvbackend.builder.values.values import GLOBAL_SPACE, Operand, Value, as_value
from nvbackend.diagnostics import Diagnostic, caller_location, printed, run_callback, user_facing
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import ElementType, s32, u32
from nvbackend.isel.machine.zeros import COUNTER

_MOST = 2**31 - 1

_MAILED = (
    "use what `with tiles.take() as tile:` yields; give place= to k.dynamic_tiles if the consumers need more of a tile "
    "than its number"
)
Tile = TypeVar("Tile")
Place: TypeAlias = "Callable[[Value], Tile]"
"""The place of a tile, a tuple of integers, by its number."""


@user_facing
class DynamicTiles(KnownAttributes, Generic[Tile]):
    """Tiles 0 to `count` - 1, each computed by the CTA that draws its number; made by `k.dynamic_tiles`.

    The producer's thread draws numbers, `with tiles.draw() as tile`, and all threads of the consumers take what it has
    drawn in the same order, `with tiles.take() as tile`. Both blocks run once for each tile of the CTA. The first is
    the CTA's own number in the grid; each further one comes from the counter, and is drawn when the producer begins
    with the tile before it. The CTA that draws the last number sets the counter back to 0.
    """

    def __init__(
        self,
        k: FunctionBuilder,
        roles: Roles,
        counter: Address,
        count: Operand,
        consumers: int,
        place: Place[Tile] | None,
        mailboxes: int,
        others: Iterable[DynamicTiles[Any]],
    ) -> None:
        if k.cluster_size > 1:
            rules.CLUSTER.fail(cluster=k.cluster_size)
        _check_counter(counter, [other._counter for other in others])
        self._count = as_value(k.core, count, s32)
        if isinstance(self._count.constant, int) and not 1 <= self._count.constant <= _MOST:
            rules.COUNT.fail(count=self._count.constant, most=_MOST)
        _check_same(k.core, counter, self._count)
        note_zeros(k.core, counter, COUNTER, words=1)
        _check_consumers(consumers, (k.threads - 1) // WARPGROUP_SIZE)
        _check_mailboxes(mailboxes)
        self._k, self._roles, self._place = k, roles, place
        self._counter: Address = counter
        self._consumers, self._mailboxes = consumers, mailboxes
        self._location = caller_location()
        self._mail = Mail(k, mailboxes, 1) if place is None else None
        self._posted = k.mbarrier.array(mailboxes, arrivals=1, name="posted")
        self._taken = k.mbarrier.array(mailboxes, arrivals=WARPGROUP_SIZE * consumers, name="taken")
        self._before = k.var(0, s32, name="before")
        self._shape: tuple[type[Any], list[ElementType]] | None = None
        """What `place` gave: a tuple or a NamedTuple, and the types of its parts."""
        self._used: list[str] = []

    def __repr__(self) -> str:
        return f"<dynamic tiles: {self._mailboxes} mailboxes, {self._consumers} consumer warpgroup(s)>"

    @property
    def before(self) -> Value:
        """How many tiles (i32) this side, the producer or the consumers, has had before the present one."""
        return self._before.value

    @with_block
    def draw(self) -> Iterator[Tile]:
        """For the producer's thread: run the block for each tile that this CTA draws, with its number or place.

        Before the block the number or place is in the mail to the consumers, and the next number is asked for. Raises
        dynamic-tiles.role, dynamic-tiles.once, dynamic-tiles.place, pipeline.not-ready; dynamic-tiles.left where a
        thread leaves the block.
        """
        several = self._roles.several_here()
        self._check("draw", "one producer thread", wrong=several is not None or self._roles.consuming is not None)
        k, count = self._k, self._count
        own, ctas = self._in_grid()
        tile = k.var(own, s32)
        with k.loop():
            k.core.regions[-1].advice = _MAILED
            mailbox = self._before % self._mailboxes
            place = None if self._place is None else self._placed(self._place, k.math.min(tile, count - 1))
            k.mbarrier.wait(self._taken + mailbox, self._before // self._mailboxes % 2 ^ 1)
            self._post(mailbox, tile.value, place)
            k.mbarrier.arrive(self._posted + mailbox)
            k.break_if(tile >= count)
            drawn = k.atomic.add(self._counter, 1).to(s32)
            with holding(k.core, "tiles.draw", rules.LEFT):
                yield self._given(tile.value if place is None else place)
            with k.if_(drawn == count - 1):
                self._counter.store(0, order="relaxed", scope="gpu")
            tile.set(drawn + ctas)
            self._before += 1

    @with_block
    def take(self) -> Iterator[Tile]:
        """For all threads of the consumers: run the block for each tile that the producer has drawn, as `draw` does.

        Raises dynamic-tiles.role, dynamic-tiles.consumers, dynamic-tiles.once, dynamic-tiles.place,
        pipeline.not-ready; dynamic-tiles.left where a thread leaves the block.
        """
        self._check("take", "all threads of the consumers", wrong=self._k.core.alone() is not None)
        self._check_takers()
        if self._mail is None:
            rules.PLACE.fail(
                problem="is not known yet: tiles.take() comes before tiles.draw(), which computes it",
                advice="build the block that draws first, as k.producer comes before k.consumers",
            )
        k = self._k
        with k.loop():
            over_tiles(k.core.regions, DRAWN)
            mailbox = self._before % self._mailboxes
            k.mbarrier.wait(self._posted + mailbox, self._before // self._mailboxes % 2)
            first, *parts = self._mail.read(mailbox)
            k.mbarrier.arrive(self._taken + mailbox)
            k.break_if(first >= self._count if self._shape is None else first != 0)
            with holding(k.core, "tiles.take", rules.LEFT):
                yield self._given(first if self._shape is None else parts)
            self._before += 1

    # -- the mail ---------------------------------------------------------------------------------------------------

    def _in_grid(self) -> tuple[Value, Value]:
        """The number of this CTA among all of the grid, and how many there are."""
        k = self._k
        own, ctas = k.block_id("z"), k.block_count("z")
        for axis in ("y", "x"):
            extent = k.block_count(axis)
            own, ctas = own * extent + k.block_id(axis), ctas * extent
        return own.to(s32), ctas.to(s32)

    def _placed(self, place: Place[Tile], number: Value) -> list[Value]:
        """The parts of a tile's place; the first time also memory for them. Raises dynamic-tiles.place."""
        with holding(self._k.core, "place", rules.LEFT):
            made: Any = run_callback("k.dynamic_tiles", place, number)
        if not isinstance(made, tuple) or not made:
            kind = "an empty tuple" if isinstance(made, tuple) else f"of type {type(made).__name__}"
            problem = f"is {kind}, not a tuple of values"
            rules.PLACE.fail(problem=problem, advice="let the function return a tuple, such as (row, column) or (row,)")
        parts = [as_value(self._k.core, part) for part in made]
        for part in parts:
            if part.type not in (s32, u32):
                problem = f"has a part of {part.type}: a word of the mail is an i32 or a u32"
                how = "mail its bits, .bitcast(nvb.u32)" if part.type.bits == WORD_BITS else "convert it, .to(nvb.i32)"
                advice = f"{how}, or compute it on both sides, from the other parts"
                rules.PLACE.fail(problem=problem, advice=advice)
        self._shape = type(made), [part.type for part in parts]
        self._mail = Mail(self._k, self._mailboxes, 1 + len(parts))
        return parts

    def _post(self, mailbox: Value, tile: Value, place: Sequence[Value] | None) -> None:
        """The number; or whether it is past the last, 1 or 0, and the parts of the place, then those of the last."""
        assert self._mail is not None
        words = [tile] if place is None else [self._k.select(tile >= self._count, 1, 0), *place]
        self._mail.write(mailbox, words)

    def _given(self, tile: Value | Sequence[Value]) -> Any:
        """What the blocks yield: the number, or a place of the type that the function returned."""
        if self._shape is None or isinstance(tile, Value):
            return tile
        made, types = self._shape
        parts = [part.to(element) for part, element in zip(tile, types, strict=True)]
        return made(*parts) if hasattr(made, "_fields") else tuple(parts)

    # -- what is checked --------------------------------------------------------------------------------------------

    def _check(self, call: str, who: str, *, wrong: bool) -> None:
        """Raises dynamic-tiles.role, dynamic-tiles.once, and pipeline.not-ready."""
        regions = self._k.core.regions
        if wrong:
            several = self._roles.several_here()
            running = "" if several is None else f", which {several} threads run"
            rules.ROLE.fail(call=call, who=who, block=f"{regions[-1].describe()}{running}")
        if call in self._used:
            advice = "do all that a tile needs in one block, or make other dynamic tiles, with their own counter"
            rules.ONCE.fail(call=call, problem="is called a second time", advice=advice)
        loop = next((region for region in regions if region.kind in LOOPS), None)
        if loop is not None:
            advice = "take it out of the loop: it is one itself"
            rules.ONCE.fail(call=call, problem=f"is in {loop.describe()}", advice=advice)
        self._roles.check_ready(f"tiles.{call}", "k.dynamic_tiles", "tiles are drawn or taken")
        self._used.append(call)

    def _check_takers(self) -> None:
        """Raises dynamic-tiles.consumers unless as many threads come here as the mailboxes wait for."""
        consuming, several = self._roles.consuming, self._roles.several_here()
        wanted = WARPGROUP_SIZE * self._consumers
        if consuming not in (None, self._consumers):
            there = f"{consuming} come here"
            advice = f"make them with k.dynamic_tiles(counter, count, {consuming})"
        elif several not in (None, wanted):
            there = f"{several} threads come here"
            advice = "let all consumers take each tile, and choose inside: `with k.if_(tiles.before % 2 == warpgroup):`"
            if several is not None and several > wanted:
                advice = "take them in `with k.consumers(...)`"
        else:
            return
        rules.CONSUMERS.fail(wanted=_counted(self._consumers), there=there, advice=advice)


def _check_counter(counter: Address, others: Iterable[Address]) -> None:
    """Raises dynamic-tiles.counter."""
    if not isinstance(counter, Address):
        raise TypeError("counters are addresses")  # the boundary names the argument
    advice = "declare it as a parameter, counter: nvb.Pointer[nvb.i32], and give an array of one 0 at the launch"
    if counter.space != GLOBAL_SPACE:
        rules.COUNTER.fail(counter=counter, problem="it is not in global memory, which all CTAs see", advice=advice)
    if counter.element not in (s32, u32):
        rules.COUNTER.fail(counter=counter, problem=f"it is of {counter.element}, not i32 or u32", advice=advice)
    if counter.const:
        advice = "declare the pointer without const=True"
        rules.COUNTER.fail(counter=counter, problem="its pointer is declared const", advice=advice)
    if any(_is_same(counter, other) for other in others):
        problem = "other dynamic tiles of the kernel count there"
        rules.COUNTER.fail(counter=counter, problem=problem, advice="give each a counter of its own: counter + 1")


def _check_same(k: Core, counter: Address, count: Value) -> None:
    """Raises dynamic-tiles.parted."""
    if (whom := parted(k, count)) is not None:
        advice = "give the number of all tiles, computed of parameters and k.block_count()"
        rules.PARTED.fail(what="number", whom=whom, advice=advice)
    if (whom := parted(k, counter)) is not None:
        rules.PARTED.fail(what="counter", whom=whom, advice="give one place for all CTAs of the grid")


def _is_same(a: Address, b: Address) -> bool:
    """Whether both are certainly one address."""
    offsets = [0 if address._offset is None else address._offset.constant for address in (a, b)]
    return a._base is b._base and offsets[0] is not None and offsets[0] == offsets[1]


def _counted(consumers: int) -> str:
    return f"{consumers} consumer warpgroup(s)"


def _check_consumers(consumers: int, warpgroups: int) -> None:
    """Raises dynamic-tiles.consumers for more of them than the kernel has, beside the thread that draws."""
    if type(consumers) is not int:
        raise TypeError("consumers are counted")  # the boundary names the argument
    if not 1 <= consumers <= warpgroups:
        there, advice = f"{warpgroups} can take them", f"make them with k.dynamic_tiles(counter, count, {warpgroups})"
        if not warpgroups:
            advice = f"build the kernel with {WARPGROUP_SIZE} threads for each, and a warpgroup that draws"
        rules.CONSUMERS.fail(wanted=_counted(consumers), there=there, advice=advice)


def _check_mailboxes(mailboxes: int) -> None:
    """Raises dynamic-tiles.mailboxes."""
    if type(mailboxes) is not int:
        rules.MAILBOXES.fail(mailboxes=printed(mailboxes), problem="give a Python integer")
    if mailboxes < 1:
        rules.MAILBOXES.fail(mailboxes=mailboxes, problem="there is none to write to")


def unused_tiles(made: Iterable[DynamicTiles[Any]]) -> Iterator[Diagnostic]:
    """dynamic-tiles.unused for those of a whole kernel that are not both drawn and taken."""
    for tiles in made:
        used = tiles._used
        if len(used) == 2:
            continue
        missing = {"draw": "take them in `with k.consumers(...)`: `with tiles.take() as tile:`"}
        missing["take"] = "draw them in `with k.producer(...)`: `with tiles.draw() as tile:`"
        if used:
            said, other = ("drawn", "taken") if used == ["draw"] else ("taken", "drawn")
            yield rules.UNUSED.diagnose(at=tiles._location, used=f"{said}, and never {other}", advice=missing[used[0]])
        else:
            advice = "leave them out, or draw them in the producer and take them in the consumers"
            yield rules.UNUSED.diagnose(at=tiles._location, used="neither drawn nor taken", advice=advice)
