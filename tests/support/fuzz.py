"""Random calls of whatever users can call: arguments of the annotated kind most of the time, and of any other.

What a call gives back goes into the pool that later arguments are taken from, so calls meet tiles, barriers and values
that are real, of this kernel or of another.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import random
import re
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import nvbackend as nvb
import nvbackend.isel
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row.types import ELEMENT_TYPES
from nvbackend.isel.target.target import target_names
from tests.support.inside import is_inside

LONGEST_S = 20
"""No single call may take longer; the slowest legal one takes milliseconds."""
JUNK: tuple[object, ...] = (
    *(None, True, False, 0, 1, -1, 3, 7, 2**31, 2**64, -(2**70), 10**30, 0.5, float("nan"), float("inf"), 1e300),
    *("", "x", "sm_90a", "m64n256k16", "tid.x", "\x00", b"", (), (1,), (1, 2), (None, "x"), [], [1, 2, 3], {}, {1: 2}),
    *(object, object(), Ellipsis, 1j, nvb.f16, nvb.SwizzleMode.B128, nvb.Major.K, nvb.Severity.ERROR, print),
)
COUNTS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 24, 32, 40, 48, 64, 65, 96, 128, 255, 256, 257, 512, 1024, 4096)
TEXTS = ("x", "y", "z", "tid.x", "laneid", "shared::cta", "global", "acc", "inc", "relaxed", "m64n64k16", "kernel")


class Hang(BaseException):
    """A call took longer than LONGEST_S."""


@contextmanager
def deadline() -> Iterator[None]:
    """Raises Hang in the block where it takes too long."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise Hang(f"a call took more than {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Attempts:
    """Requests that end in an answer or in a Diagnostic; `failures` are the others, by kind and place."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.requests = 0
        self.answered = 0
        self.failures: dict[str, str] = {}

    def attempt(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The result of one request, None where it was refused."""
        self.requests += 1
        try:
            with deadline():
                result = function(*args, **kwargs)
        except DiagnosticError as error:
            if not (error.diagnostics and str(error)):
                self.failed(error, function, args, kwargs)
            return None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001
            self.failed(error, function, args, kwargs)
            return None
        self.answered += 1
        return result

    def failed(
        self, error: BaseException, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Note what a request ended with, once for each place."""
        frames = traceback.extract_tb(error.__traceback__)
        frame = next((frame for frame in reversed(frames) if is_inside(frame.filename)), frames[-1])
        place = f"{type(error).__name__} at {frame.filename.rpartition('nvbackend/')[2]}:{frame.lineno}"
        name = getattr(function, "__qualname__", function)
        self.failures.setdefault(place, f"{_cut(error)}; {name}(*{_cut(args)}, **{_cut(kwargs)})")


def _cut(shown: object) -> str:
    """The beginning of its text; long integers and deep nests have none."""
    try:
        return f"{shown!r:.300}"
    except ValueError:
        return f"a {type(shown).__name__} with an integer of thousands of digits"
    except RecursionError:
        return f"a {type(shown).__name__} of thousands of levels"
    except RuntimeError:
        return f"a {type(shown).__name__} that does not print itself"


@dataclass
class Arguments:
    """Makes arguments from annotations. `junk` is the share of those of any kind."""

    rng: random.Random
    junk: float = 0.1
    pool: dict[str, list[object]] = field(default_factory=dict)

    def keep(self, value: object) -> None:
        """Let later calls have what a call gave."""
        for one in value if isinstance(value, (list, tuple)) else (value,):
            name = type(one).__name__
            kept = self.pool.setdefault(name, [])
            kept.append(one)
            if len(kept) > 12:
                kept.pop(self.rng.randrange(len(kept)))

    def anything(self) -> object:
        """Something of no kind in particular."""
        pools = [values for values in self.pool.values() if values]
        if pools and self.rng.random() < 0.4:
            return self.rng.choice(self.rng.choice(pools))
        return self.rng.choice(JUNK)

    def of(self, annotation: object) -> object:
        """An argument for a parameter of this annotation, or now and then one that does not fit."""
        if self.rng.random() < self.junk:
            return self.anything()
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "object")
        name = self.rng.choice(_alternatives(text))
        bare = re.sub(r"\[.*\]", "", name, flags=re.DOTALL).rpartition(".")[2]
        if bare in ("Sequence", "list", "Iterable", "Collection"):
            inner = name[name.index("[") + 1 : -1] if "[" in name else "object"
            return [self.of(inner) for _ in range(self.rng.choice((0, 1, 2, 4, 4, 8)))]
        if bare == "tuple":
            inner = name[name.index("[") + 1 : -1] if "[" in name else "object"
            return tuple(self.of(part) for part in _parts(inner) if part != "...")
        return self._plain(bare)

    def _plain(self, name: str) -> object:
        rng = self.rng
        made: dict[str, Callable[[], object]] = {
            "None": lambda: None,
            "bool": lambda: rng.random() < 0.5,
            "int": lambda: rng.choice(COUNTS),
            "float": lambda: rng.choice((0.0, 1.0, -2.5)),
            "str": lambda: rng.choice(TEXTS),
            "ElementType": lambda: rng.choice(ELEMENT_TYPES),
            "Operand": lambda: self._pooled("Value") if rng.random() < 0.6 else rng.choice(COUNTS),
            "Target": lambda: nvb.Target.parse(rng.choice(target_names())),
            "PtxVersion": lambda: (rng.choice((6, 7, 8, 9)), rng.randrange(10)),
            "Swizzle": lambda: rng.choice(list(nvb.SwizzleMode)),
            "Major": lambda: rng.choice(list(nvb.Major)),
        }
        return made[name]() if name in made else self._pooled(name)

    def _pooled(self, name: str) -> object:
        kept = self.pool.get(name)
        return self.rng.choice(kept) if kept else self.anything()

    def call(self, function: Callable[..., Any]) -> tuple[list[object], dict[str, object]]:
        """Arguments for a call of `function`, now and then one too few or too many."""
        positional: list[object] = []
        named: dict[str, object] = {}
        for parameter in _parameters(function):
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                positional += [self.of(parameter.annotation) for _ in range(self.rng.randrange(3))]
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                named |= {f"extra{index}": self.of(parameter.annotation) for index in range(self.rng.randrange(2))}
            elif parameter.default is inspect.Parameter.empty or self.rng.random() < 0.5:
                value = self.of(parameter.annotation)
                if parameter.kind is inspect.Parameter.KEYWORD_ONLY or (
                    parameter.default is not inspect.Parameter.empty
                ):
                    named[parameter.name] = value
                else:
                    positional.append(value)
        if positional and self.rng.random() < self.junk / 10:
            positional.pop()
        if self.rng.random() < self.junk / 10:
            named["no_such_argument"] = None
        return positional, named


@functools.cache
def _parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    return tuple(one for one in inspect.signature(function).parameters.values() if one.name != "self")


@functools.cache
def _alternatives(annotation: str) -> list[str]:
    return _parts(annotation, "|")


def _parts(text: str, separator: str = ",") -> list[str]:
    """The parts of an annotation at the top level of its brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip().strip("'\"") for part in parts if part.strip()]


@functools.cache
def selectors() -> tuple[Callable[..., Any], ...]:
    """Every `select_*` of nvbackend.isel, whichever family it is of."""
    found: dict[str, Callable[..., Any]] = {}
    for module in pkgutil.walk_packages(nvbackend.isel.__path__, "nvbackend.isel."):
        names = vars(importlib.import_module(module.name))
        found |= {name: made for name, made in names.items() if name.startswith("select_") and callable(made)}
    return tuple(found[name] for name in sorted(found))


@functools.cache
def request_class(selector: Callable[..., Any]) -> type | None:
    """The dataclass that a selector takes first, None where it takes none."""
    first = _parameters(selector)[0]
    scope = getattr(inspect.unwrap(selector), "__globals__", {})
    kind = scope.get(first.annotation) if isinstance(first.annotation, str) else first.annotation
    return kind if isinstance(kind, type) and dataclasses.is_dataclass(kind) else None


def methods(owner: object) -> list[str]:
    """The public methods of an object, by name, in order."""
    cls = type(owner)
    return sorted(name for name in dir(cls) if not name.startswith("_") and callable(getattr(cls, name)))
