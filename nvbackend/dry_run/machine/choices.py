"""Which way branches on data go: as they would with some numbers for what is unknown, the same for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.values.divisors import LoopEnds
from nvbackend.dry_run.values.unknown import Expression, Unknown, combine

if TYPE_CHECKING:
    from nvbackend.dry_run.machine.model import Model


@dataclass(frozen=True, slots=True)
class Policy:
    """How a run settles what the program leaves open: which warp runs next, and numbers that nothing says."""

    latest_first: bool = False
    """Whether the warp that became ready last runs next; else the one that has waited longest."""
    first_way: bool = True
    """The value of conditions about which nothing is known."""
    whole: bool = False
    """Whether loops whose rounds are numbers of memory make a number of them that many others divide, and such numbers
    say how many bytes are copied: the least ones for that."""
    above: bool = False
    """Whether these numbers are looked for from above, so that they are the greatest."""
    mixed: bool = False
    """Whether of branches on numbers of memory each third one goes the other way."""
    padded: bool = False
    """Whether branches on numbers of memory go as these are, each at first as the one before it in its array: after
    the end of a list there is nothing else."""
    multiples: Mapping[str, int] | None = None
    """What the numbers of arrays of global memory are multiples of, where that is not 1."""


USUAL = Policy()
MANY_OF_MEMORY = 3 << 9
"""Numbers of global memory in a run that comes to the right ones from above: more than loops make rounds."""
_LISTED = 2
"""So many entries are in a list, if nothing else says where it ends."""


class Guessed(Exception):
    """The run needs a choice that another thread may make differently: nothing after it is judged."""


class Choices:
    """The choices of one run."""

    def __init__(self, policy: Policy) -> None:
        self._first = policy.first_way
        self._begins = MANY_OF_MEMORY if policy.above else 0
        self._multiples = policy.multiples
        self._mixed, self._padded = policy.mixed, policy.padded
        self.of_places = 0
        """How many conditions of branches were about numbers of global memory; where it is `mixed`, each third one of
        them does not hold."""
        self.loop_ends = LoopEnds()
        """What numbers of global memory decide."""
        self._of_branches: set[Expression] = set()

    @cached_property
    def _model(self) -> Model:
        """The numbers that are chosen, of which few kernels need any."""
        from nvbackend.dry_run.machine.model import Model

        return Model(settles=not self._first, begins=self._begins, multiples=self._multiples)

    def holds(self, condition: Unknown, wish: bool | None = None) -> bool:
        """Whether a condition holds in all lanes alike; as wished where either is possible. Raises Guessed."""
        wanted = self._first if wish is None else wish
        decided = self._model.decide(condition, wanted) if isinstance(condition, Expression) else None
        if decided is None:
            raise Guessed
        return decided

    def lanes(self, condition: Unknown) -> Any:
        """In which lanes a condition holds: 1 for all, 0 for none, or an array. Raises Guessed."""
        decided = self._model.lanes(condition, self._wish(condition)) if isinstance(condition, Expression) else None
        if decided is None:
            raise Guessed
        return int(decided) if isinstance(decided, bool) else decided

    def _wish(self, condition: Expression) -> bool:
        if not self._model.is_of_memory(condition) or self._model.has_decided(condition):
            return self._first
        self.of_places += 1
        self._of_branches.add(condition)
        if self._padded and (is_so := self._model.padded(condition)) is not None:
            return is_so is not (self.of_places == _LISTED + 1)
        return self.of_places % 3 != 0 if self._mixed else self._first

    @property
    def is_of_lists(self) -> bool:
        """Whether branches and the ends of loops ask about numbers of one array.

        Then a role may leave a list where another one skips what is left of it.
        """
        return not _arrays(self._of_branches).isdisjoint(_arrays(self.loop_ends.conditions))

    def settle_far(self, condition: Unknown, holds: bool, rounds: int) -> None:
        """Where numbers keep what one choice makes of them, let a comparison with a counter hold so many rounds on."""
        operation, *sides = condition.key or ("",)
        counters = [side for side in sides if type(side) is int]
        if self._first or not operation.startswith("icmp ") or len(counters) != 1:
            return
        bits = int(operation.rpartition("i")[2])
        later = [side + rounds & (1 << bits) - 1 if type(side) is int else side for side in sides]
        self.holds(combine(operation, *later), holds)

    def number(self, value: Unknown) -> int | None:
        """The number that a value is, from now on in all choices; None where nothing is known of it."""
        return self._model.number(value) if isinstance(value, Expression) else None

    def of_memory(self) -> dict[str, float]:
        """The numbers of global memory about which something was chosen, by their places."""
        return self._model.of_memory()

    def is_of_memory(self, condition: Unknown) -> bool:
        """Whether a condition is about numbers of global memory."""
        return isinstance(condition, Expression) and self._model.is_of_memory(condition)

    def assume(self, condition: Unknown) -> None:
        """It holds, where it is known what it is about. Raises Guessed where it cannot hold with the other choices."""
        if isinstance(condition, Expression) and not self._model.decide(condition, wish=True):
            raise Guessed


def _arrays(conditions: Iterable[Expression]) -> set[Expression]:
    """The arrays of whose numbers conditions are."""
    seen = set[Expression](conditions)
    waiting = [*seen]
    while waiting:
        several = {one for one in waiting.pop().key[1:] if isinstance(one, Expression)} - seen
        seen |= several
        waiting += several
    return {one for one in seen if one.key[0] == "parameter"}
