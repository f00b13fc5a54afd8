"""Numbers for the unknown values of a run, with which every choice comes out as it was made.

`i < n - 1`, `i < n // 2` and `i < n + m` are choices about the same numbers: where one warp makes two rounds of a loop,
another makes the rounds that follow from that. So there is a kernel's launch in which all the choices are made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice, product
from operator import and_, or_, xor
from typing import Any, TypeAlias

from nvbackend.dry_run.values import floats
from nvbackend.dry_run.values.arithmetic import signed
from nvbackend.dry_run.values.lanes import numbers_of, tidy
from nvbackend.dry_run.values.meaning import Code, Leaf, code_around, code_of
from nvbackend.dry_run.values.unknown import Expression, Unknown, combine
from nvbackend.dry_run.values.vectors import Lanes

Goals: TypeAlias = "tuple[tuple[Expression, bool], ...]"
"""Conditions, and whether each shall hold."""
Place: TypeAlias = "tuple[str, Any]"
"""A number in global memory, by its address; or an unknown value that is none, by its name."""
_NEAR = 8
_FARTHEST = 20
"""Numbers so near are tried one by one, and then the powers of two up to this one."""
_WAYS = 8
"""Ways to make a condition of several parts hold that are tried."""
ENOUGH = 1_000_000
"""Numbers are looked for until so many steps of expressions have been computed; after that they stay as they are."""
_STEPS_OF_A_FLOAT = 12
"""Each step packs and unpacks the floats of each lane: one float takes as long as so many steps of integers."""
_MULTIPLES = (64, 16, 4)
_WIDE, _MOST_BITS = 16, 64
"""Integers of fewer bits are no counts; and the bits of a comparison of any two."""
_APART = 40
"""Parameters that are no integers are addresses: so many bits apart."""
_PARTING: dict[str, Callable[[Any, Any], Any]] = {"and": and_, "or": or_, "xor": xor}
"""What makes one condition of two."""


class Model:
    """Each number is 0 until a choice asks for another one; of those in memory that are integers, one that `begins`.

    Those in the arrays of which there are `multiples` are such ones.
    Where it `settles`, a number about which one choice was made keeps its value for all others.
    """

    def __init__(self, *, settles: bool, begins: int = 0, multiples: Mapping[str, int] | None = None) -> None:
        self._settles = settles
        self._begins = begins
        self._multiples = multiples or {}
        self._arrays: dict[int, str] = {}
        """The parameters that are addresses, by these."""
        self._numbers: dict[Place, int] = {}
        self._bits: dict[Place, int] = {}
        self._formats: dict[Place, str] = {}
        self._decided: dict[Expression, bool] = {}
        self._by_root: dict[Hashable, dict[Expression, bool]] = {}
        self._roots_of: dict[Place, Hashable] = {}
        self._codes: dict[Expression, Code] = {}
        self._settled: set[Place] = set()
        self._computed = 0
        self._known: dict[Expression, tuple[Any, list[Place], int]] = {}
        """The values of expressions with the numbers of now, what these are at, and the steps that it took."""

    def decide(self, condition: Expression, wish: bool) -> bool | None:
        """Whether a condition holds: as wished, where numbers are found for that. None where lanes differ, or nothing
        is known of it."""
        found = self._decided.get(condition)
        if found is not None:
            return found
        found = self.now(condition)
        if self._settles and found is not None and not self._settled.isdisjoint(self._places(condition)):
            wish = found
        for wanted in (wish,) if found is not None else (wish, not wish):
            if found is not wish and self._reach(condition, wanted):
                found = wanted
                break
        if found is not None:
            self._decided[condition] = found
            self._settled.update(self._places(condition))
            for root in self._code(condition).roots:
                self._by_root.setdefault(root, {})[condition] = found
        return found

    def has_decided(self, condition: Expression) -> bool:
        """Whether it was asked whether a condition holds."""
        return condition in self._decided

    def lanes(self, condition: Any, wish: bool) -> Any:
        """In which lanes a condition holds, where its parts are about data and about lanes: `a[0] > 0 and lane == 0`.

        One number where it holds in all lanes, or in none; None where that is not known.
        """
        if not isinstance(condition, Expression) or not _is_parted(condition):
            return self.decide(condition, wish) if isinstance(condition, Expression) else condition
        operation, *given = condition.key
        left, right = (self.lanes(one, wish) for one in given)
        if left is None or right is None:
            return None
        found = _PARTING[operation](left, right)
        return tidy(found) if isinstance(found, Lanes) else int(found)

    def padded(self, condition: Expression) -> bool | None:
        """Whether it holds where numbers about which nothing was chosen are as those before them in their arrays.

        None where that is not known.
        """
        for place in self._places(condition):
            array = self._array(place)
            if array is not None and place not in self._settled:
                chosen = (one for one in self._settled if self._array(one) == array and one[1] < place[1])
                before = max(chosen, default=None)
                self._set(place, 0 if before is None else self._numbers[before])
        return self.now(condition)

    def is_of_memory(self, condition: Expression) -> bool:
        """Whether it depends on numbers of global memory, which are the caller's: they may be multiples of others."""
        return any(isinstance(root, str) for root in self._code(condition).roots)

    def of_memory(self) -> dict[str, float]:
        """The numbers of global memory about which something was chosen, by their places: `lengths[0]`."""
        numbers: dict[str, float] = {}
        for place in (one for one in self._numbers if one in self._settled and one[0] == "load"):
            array = self._array(place)
            if array is not None:
                bits = self._bits[place]
                index = (place[1][0] & (1 << _APART) - 1) * 8 // bits
                number = self._numbers[place]
                name = self._formats.get(place)
                numbers[f"{array}[{index}]"] = floats.number(number, name) if name else int(signed(number, bits))
        return numbers

    def _array(self, place: Place) -> str | None:
        """The parameter of whose array a number of global memory is."""
        address = place[1][0] if place[0] == "load" else None
        return self._arrays.get(address >> _APART << _APART) if type(address) is int else None

    def _places(self, condition: Expression) -> list[Place]:
        """The places of the numbers that it depends on now."""
        asked: list[Place] = []
        self._evaluate(condition, asked)
        return asked

    def now(self, condition: Expression) -> bool | None:
        """Whether it holds with the numbers of now."""
        value = self._evaluate(condition, [])
        return bool(value & 1) if type(value) is int else None

    def _evaluate(self, expression: Expression, asked: list[Place]) -> Any:
        """The value of an expression; `asked` gets the places of the numbers that it depends on."""
        found = self._known.get(expression)
        if found is None:
            places: list[Place] = []
            value, count = self._computed_from(expression, places)
            found = self._known[expression] = value, places, count
        value, places, count = found
        self._computed += count
        asked += places
        return value

    def _computed_from(self, expression: Expression, asked: list[Place]) -> tuple[Any, int]:
        """The value of an expression, and in how many steps it was computed."""
        code, count = self._code(expression), 0
        registers = list(code.registers)
        if code.inner is not None:
            registers[0] = self._evaluate(code.inner, asked)
            count = self._known[code.inner][2]
            self._computed -= count
        for step in code.steps:
            if not isinstance(step, Leaf):
                step(registers)
                continue
            place = step.operation, tuple(registers[one] for one in step.operands)
            if place not in self._numbers:
                self._numbers[place] = self._first(step, place)
                self._bits[place], self._roots_of[place] = step.bits, step.root
            if step.format:
                self._formats[place] = step.format
            self._bits[place] = max(self._bits[place], step.bits)
            asked.append(place)
            registers[step.to] = self._numbers[place] & (1 << step.bits) - 1
        if code.has_floats:
            lanes = sum([len(one) if isinstance(one, Lanes) else 1 for one in registers])
            count += _STEPS_OF_A_FLOAT * lanes
        return registers[-1], count + len(code.steps)

    def _first(self, step: Leaf, place: Place) -> int:
        """The number at a place before any choice."""
        if step.operation == "parameter":
            address = len(self._numbers) + 1 << _APART
            self._arrays[address] = place[1][0]
            return address
        begins = self._begins if place[0] == "load" and not step.format and step.bits >= _WIDE else 0
        return begins - begins % self._unit(place)

    def _unit(self, place: Place) -> int:
        """What the number at a place is a multiple of."""
        return self._multiples.get(self._array(place) or "", 1)

    def number(self, expression: Expression) -> int | None:
        """The value of an expression, which it keeps from now on; None where that is not known, or lanes differ."""
        asked: list[Place] = []
        value = self._evaluate(expression, asked)
        if type(value) is not int:
            return None
        self._settled.update(asked)
        equal = combine(f"icmp eq i{_MOST_BITS}", expression, value)
        if isinstance(equal, Expression) and self.now(equal) is True:
            self._decided[equal] = True
            for root in self._code(equal).roots:
                self._by_root.setdefault(root, {})[equal] = True
        return value

    def _code(self, expression: Expression) -> Code:
        found = self._codes.get(expression)
        if found is None:
            if expression.key[0].startswith("icmp "):
                inner = [one for one in expression.key[1:] if isinstance(one, Unknown)]
                if len(inner) == 1 and isinstance(inner[0], Expression):
                    found = code_around(expression, inner[0], self._code(inner[0]))
            self._codes[expression] = found = found or code_of(expression)
        return found

    def _set(self, place: Place, number: int) -> None:
        """Another number at a place: what was computed of it is computed anew."""
        if self._numbers.get(place) != number:
            self._numbers[place] = number
            self._known.clear()

    # -- other numbers ------------------------------------------------------------------------------------------------

    def _reach(self, condition: Expression, wish: bool) -> bool:
        """Whether there are numbers for which the condition is as wished; they are the model's from now on."""
        if self._computed > ENOUGH:
            return False
        before = dict(self._numbers)
        for goals in islice(_ways(condition, wish), _WAYS):
            if all(
                self.now(one) is wanted or self._move(one, wanted, goals[:number])
                for number, (one, wanted) in enumerate(goals)
            ):
                return True
            self._numbers = dict(before)
            self._known.clear()
        return False

    def _move(self, condition: Expression, wish: bool, kept: Goals) -> bool:
        """Whether another number at one place makes the condition as wished, and leaves all others as they are."""
        places = dict.fromkeys(self._places(condition))
        arrays = {*map(self._array, places)}
        for place in places:
            if place[0] == "parameter" and place[1][0] in arrays:
                continue  # an array stays where it is
            at = self._numbers[place]
            for number in self._candidates(condition, place, wish):
                if self._computed > ENOUGH:
                    break
                self._set(place, number)
                if self._fits(place, kept):
                    return True
            self._set(place, at)
        return False

    def _fits(self, place: Place, kept: Goals) -> bool:
        """Whether all that may depend on the number at a place is as it was chosen; what was chosen last binds most."""
        decided = self._by_root.get(self._roots_of[place], {})
        return all(self.now(one) is found for one, found in (*kept, *reversed(decided.items())))

    def _candidates(self, condition: Expression, place: Place, wish: bool) -> Iterator[int]:
        """Numbers for a place with which the condition is as wished: near ones first."""
        bits = self._bits[place]
        at = int(signed(self._numbers[place], bits))
        fails, seen, unit = {1: 0, -1: 0}, {0}, self._unit(place)

        def holds(by: int) -> bool:
            if by in seen or not -1 << bits - 1 <= at + by < 1 << bits - 1:
                return False
            seen.add(by)
            self._set(place, at + by & (1 << bits) - 1)
            return self.now(condition) is wish

        code = self._code(condition)
        for number in floats.tried(code.constants, bits) if code.has_floats else ():
            self._set(place, number)
            if self.now(condition) is wish:
                yield number
        for by in (*self._roots(condition, place, at, bits), *_distances()):
            if not holds(by):
                continue
            side = 1 if by > 0 else -1
            near, far = fails[side], by
            while abs(far - near) > 1:
                middle = (near + far) // 2
                near, far = (near, middle) if holds(middle) else (middle, far)
            for one in dict.fromkeys((*self._round(at + far, unit), at + far, at + by)):
                self._set(place, one & (1 << bits) - 1)
                if not one % unit and self.now(condition) is wish:
                    yield one & (1 << bits) - 1

    def _round(self, number: int, unit: int) -> Iterator[int]:
        """Multiples below a number, where numbers are looked for from above: kernels may be for these alone.

        Where they have to be multiples of a `unit`, those on either side.
        """
        yield from (number - number % (of * unit) for of in _MULTIPLES if self._begins)
        yield from (number - number % unit, number + -number % unit) if unit > 1 else ()

    def _roots(self, condition: Expression, place: Place, at: int, bits: int) -> list[int]:
        """How far the number is from one for which both sides of a comparison are equal, if they are sums of it."""
        operation, *sides = condition.key
        if not operation.startswith("icmp "):
            return []
        width = int(operation.rpartition("i")[2])
        differences = []
        for by in (0, 1):
            self._set(place, at + by & (1 << bits) - 1)
            left, right = (self._evaluate(one, []) if isinstance(one, Expression) else one for one in sides)
            if type(left) is not int or type(right) is not int:
                return []
            differences.append(int(signed(left - right & (1 << width) - 1, width)))
        slope = differences[1] - differences[0]
        root = -differences[0] // slope if slope else 0
        return sorted({root, root + 1, root - 1}, key=abs) if slope else []


def _distances() -> Sequence[int]:
    apart = [*range(1, _NEAR), *(1 << power for power in range(3, _FARTHEST))]
    return [by * side for by in apart for side in (1, -1)]


def _is_parted(condition: Any) -> bool:
    """Whether it is made of conditions, some of which are known and differ by lane."""
    if not isinstance(condition, Expression):
        return isinstance(condition, Lanes)
    operation, *given = condition.key
    return operation in _PARTING and any(_is_parted(one) for one in given)


def _ways(condition: Any, wish: bool) -> Iterator[Goals]:
    """Parts of a condition of several: what each of them shall be, for the whole to be as wished."""
    if not isinstance(condition, Expression):
        if all(bool(number) == wish for number in numbers_of(condition)):
            yield ()
        return
    operation, *given = condition.key
    if operation == "select":
        choice, *values = given
        for taken, value in zip((True, False), values, strict=True):
            yield from _together(_ways(choice, taken), _ways(value, wish))
    elif operation in ("and", "or"):
        left, right = ([*_ways(one, wish)] for one in given)
        yield from _together(left, right) if (operation == "and") is wish else (*left, *right)
    elif operation == "xor" and any(type(one) is int for one in given):
        number = next(one for one in given if type(one) is int)
        yield from _ways(next(one for one in given if one is not number), wish ^ bool(number))
    else:
        yield ((condition, wish),)


def _together(left: Iterator[Goals] | Sequence[Goals], right: Iterator[Goals] | Sequence[Goals]) -> Iterator[Goals]:
    return ((*one, *other) for one, other in product(islice(left, _WAYS), islice(right, _WAYS)))
