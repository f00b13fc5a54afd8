"""What writes a random kernel: its random choices, the values it may use, and every call it makes of nvbackend."""

from __future__ import annotations

import operator
import random
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.variables import Variable
from nvbackend.builder.values.values import Arithmetic, Value
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row.types import BY_NAME, ELEMENT_TYPES, ElementType, pred, s32
from nvbackend.isel.target.target import Target

KEPT = 24
"""Values and addresses that later calls can choose from, in each block."""
MOST_CALLS = 400
"""A kernel's; a statement that would go on after that stops."""
NUMBERS = (0, 1, 2, 3, 7, 8, 31, 32, 100, 127, 128, 255, 256, 1023, 65535, 65536, 2**31 - 1, -1, -2, -128)
HOSTILE_NUMBERS: tuple[Any, ...] = (
    *(2**31, 2**32, 2**63, 2**64, -(2**31) - 1, -(2**63), 2**80, 10**400, 10**5000, -(10**30)),
    *(float("nan"), float("inf"), float("-inf"), -0.0, 0.5, 1e-320, 1e39, 1e300, True, None, "1", 1j, (), [1], b"x"),
)
FRACTIONS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 1e-3, 65504.0, 1e-8)
WIDE_FRACTIONS = (1e10, 3.0e38, 1e-40, float("inf"), float("nan"))


class Failed(Exception):
    """nvbackend did something other than answer or refuse."""


class Stop(Exception):
    """The kernel is long enough."""


class Writer:
    """One kernel in the making, `k` a KernelBuilder or an AttachedBuilder.

    `hostile` is the share of calls whose arguments are of any kind. `refused` counts the calls that a Diagnostic
    answered, by rule; `trace` is the program so far.
    """

    def __init__(self, rng: random.Random, target: Target, hostile: float) -> None:
        self.rng = rng
        self.target = target
        self.hostile = hostile
        self.k: Any = None
        self.threads = 0
        self.cluster = 1
        self.calls = 0
        self.refused: dict[str, int] = {}
        self.trace: list[str] = []
        self.depth = 0
        self.loops = 0
        self.divergent = 0
        self.values: list[list[Value | Variable]] = [[]]
        self.addresses: list[list[Address]] = [[]]
        self.dead: list[Any] = []
        self.maps: list[Any] = []
        self.barriers: list[Address] = []

    # -- choices ------------------------------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        """Whether something happens that does in this share of cases."""
        return self.rng.random() < share

    def one(self, *choices: Any) -> Any:
        """One of these."""
        return self.rng.choice(choices)

    def odd(self) -> bool:
        """Whether this argument is to be of any kind."""
        return self.rng.random() < self.hostile

    # -- calls --------------------------------------------------------------------------------------------------------

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a call gives, None where it was refused. Raises Failed where it did anything else."""
        if function.__module__ == "_operator" and not _is_ours(function, args):
            return None
        self.calls += 1
        if self.calls > MOST_CALLS:
            raise Stop
        self.trace.append("  " * self.depth + _shown(function, args, kwargs))
        try:
            return function(*args, **kwargs)
        except DiagnosticError as error:
            self.refuse(error)
            return None
        except (Failed, Stop):
            raise
        except Exception as error:
            raise Failed(f"{type(error).__name__}: {error} ({_place(error)})") from error

    def refuse(self, error: DiagnosticError) -> None:
        """Note what was refused, and why."""
        check_refusal(error)
        for found in error.diagnostics:
            self.refused[found.rule_id] = self.refused.get(found.rule_id, 0) + 1
        self.trace[-1] += f"  # {error.diagnostics[0].rule_id}"

    def inside(self, body: Callable[[Any], object], function: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """Run `body`, given what the with-block yields, in a with-block of nvbackend; whether it was entered."""
        block = self.call(function, *args, **kwargs)
        if block is None or not hasattr(block, "__enter__"):
            return False
        refused = sum(self.refused.values())
        yielded = self.call(block.__enter__)
        if sum(self.refused.values()) > refused:
            return False
        self.depth += 1
        self.values.append([])
        self.addresses.append([])
        error: Exception | None = None
        try:
            body(yielded)
        except Exception as raised:
            error = raised
            raise
        finally:
            self.depth -= 1
            self.dead += self.rng.sample(self.values[-1], min(2, len(self.values[-1])))
            self.values.pop()
            self.addresses.pop()
            self._leave(block, error)
        return True

    def _leave(self, block: Any, error: Exception | None) -> None:
        """Ends the block, also where the kernel is long enough, so that it can be finished."""
        if isinstance(error, DiagnosticError):
            block.__exit__(type(error), error, error.__traceback__)
            return
        self.calls = min(self.calls, MOST_CALLS - 1)
        self.call(block.__exit__, None, None, None)

    # -- values -------------------------------------------------------------------------------------------------------

    def keep(self, made: Any) -> None:
        """Let later calls use what a call gave."""
        for each in made if isinstance(made, (list, tuple)) else (made,):
            pool: list[Any]
            if isinstance(each, (Value, Variable)):
                pool = self.values[-1]
            elif isinstance(each, Address):
                pool = self.addresses[-1]
            else:
                continue
            pool.append(each)
            if len(pool) > KEPT:
                pool.pop(self.rng.randrange(len(pool)))

    def known(self, element: ElementType | None = None) -> Value | Variable | None:
        """A value that can be used here, of this type."""
        found = [one for pool in self.values for one in pool if element is None or one.type is element]
        return self.rng.choice(found) if found else None

    def value(self, element: ElementType | None = None) -> Any:
        """A run-time value of this type, or now and then something else."""
        if self.odd():
            return self.anything()
        if element is None:
            found = self.known()
            return found if found is not None else self.call(self.k.thread_id)
        found = self.known(element) if self.chance(0.85) else None
        return found if found is not None else self.made(element)

    def made(self, element: ElementType) -> Any:
        """A new value of this type."""
        if element is pred:
            left = self.known(s32)
            return self.call(operator.lt, left if left is not None else self.call(self.k.thread_id), self.number(s32))
        other = self.known()
        if other is not None and other.type is not pred and self.chance(0.3):
            made = self.call(other.to, element)
            if made is not None:
                self.keep(made)
                return made
        return self.call(self.k.const, self.number(element), element)

    def operand(self, element: ElementType | None = None) -> Any:
        """A value of this type or a number for it."""
        if self.chance(0.35):
            return self.number(element or s32)
        return self.value(element)

    def number(self, element: ElementType = s32) -> Any:
        """A number that `element` can have, or now and then one that it cannot."""
        if self.odd():
            return self.rng.choice(HOSTILE_NUMBERS)
        if element is pred:
            return self.chance(0.5)
        if element.is_integer:
            limit = (1 << element.bits - element.is_signed) - 1
            least = -limit - 1 if element.is_signed else 0
            fitting = [one for one in (*NUMBERS, limit, least) if least <= one <= limit]
            return self.rng.choice(fitting)
        wide = element.is_float and element.bits >= 16 and self.chance(0.1)
        return self.rng.choice(WIDE_FRACTIONS if wide else FRACTIONS)

    def count(self, *usual: int) -> Any:
        """One of the usual numbers, or now and then any."""
        return self.rng.choice(HOSTILE_NUMBERS) if self.odd() else self.rng.choice(usual)

    def anything(self) -> Any:
        """Something of no kind in particular: of another type, of a block that ended, or of Python's own."""
        draw = self.rng.random()
        if draw < 0.3 and self.dead:
            return self.rng.choice(self.dead)
        if draw < 0.6:
            found: list[Any] = [one for pool in (*self.values, *self.addresses) for one in pool]
            found += [*self.maps, *self.barriers]
            if found:
                return self.rng.choice(found)
        if draw < 0.7:
            return self.rng.choice(ELEMENT_TYPES)
        return self.rng.choice(HOSTILE_NUMBERS)

    def element(self, *names: str) -> Any:
        """One of these types, or now and then any."""
        if self.odd():
            return self.rng.choice(ELEMENT_TYPES)
        return BY_NAME[self.rng.choice(names)]

    def address(self, space: int | None = None) -> Any:
        """An address that can be used here."""
        if self.odd():
            return self.anything()
        found = [one for pool in self.addresses for one in pool if space is None or one.space == space]
        return self.rng.choice(found) if found else None

    def put(self, address: Any, index: Any, value: Any) -> None:
        """Store a value, if there is one."""
        if value is not None:
            self.call(operator.setitem, address, index, value)

    # -- statements ---------------------------------------------------------------------------------------------------

    def some(self, statements: Sequence[tuple[float, Callable[[Writer], object]]], count: int) -> None:
        """So many statements, drawn by their weights."""
        weights = [weight for weight, _ in statements]
        for _ in range(count):
            self.rng.choices(statements, weights)[0][1](self)


def _is_ours(function: Callable[..., Any], operands: Sequence[Any]) -> bool:
    """Whether an operator is nvbackend's: the left side has it, or a value is on the right. Else it is Python's."""
    left, right = type(operands[0]), operands[-1]
    method = f"__{function.__name__.strip('_')}__"
    own = any(method in vars(one) for one in left.__mro__[:-1])
    if issubclass(left, (str, bytes)) and own:
        return False  # a format of Python's
    return isinstance(right, Arithmetic) or (left.__module__.startswith("nvbackend.builder") and own)


def check_refusal(error: DiagnosticError) -> None:
    """Raises Failed unless each diagnostic says what, why and where: the place is outside of nvbackend."""
    if not error.diagnostics:
        raise Failed("a DiagnosticError without a diagnostic")
    for found in error.diagnostics:
        text = str(found)
        if not found.message.strip() or found.rule_id not in text:
            raise Failed(f"a diagnostic without a text: {text}")
        if found.location is None or "/nvbackend/nvbackend/" in found.location.file:
            raise Failed(f"a diagnostic without a place of the user's: {text}")


def _place(error: Exception) -> str:
    """Where it was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{'/'.join(Path(frame.filename).parts[-3:])}:{frame.lineno}"


def _shown(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", str(function))
    given = [_short(one) for one in args] + [f"{key}={_short(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(given)})"


def _short(one: object) -> str:
    try:
        text = repr(one)
    except ValueError:  # Python prints no number of thousands of digits, also inside of other values
        text = f"<{type(one).__name__} with a huge number>"
    return text if len(text) <= 80 else text[:77] + "..."
