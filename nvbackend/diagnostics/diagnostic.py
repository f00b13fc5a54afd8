"""Rules, the diagnostics of broken rules, and the exception that carries them."""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from string import Formatter
from typing import Any, NoReturn

from nvbackend.diagnostics.classes.brief import cut
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.location import Location, caller_location, is_plumbing

_MOST_CALLERS = 8
"""How many calls are shown for one place."""


class Severity(enum.Enum):
    """An error stops the build, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


def is_of(value: object, kind: type | tuple[type, ...]) -> bool:
    """`isinstance` by the type alone, which does not ask the object for its `__class__`: that may be its own method."""
    return issubclass(type(value), kind)


@dataclass(frozen=True)
class Rule:
    """A condition that must hold.

    `message` and `fix` are format strings over the values of the diagnostic; `why` says what happens on
    the hardware without the check; `reference` names the source (PTX ISA section, LLVM file, measured fact).
    A rule of a user's own has an `analysis`: of the `nvb.rules.Flow` of a finished kernel it gives each
    `nvb.rules.Finding`; its id is of its author's, with a dot, as in `house.atomic-in-loop`.
    Raises rule.form for a text or a severity of another type.
    """

    id: str
    message: str
    fix: str
    why: str = ""
    reference: str = ""
    severity: Severity = Severity.ERROR
    analysis: Callable[[Any], Iterable[Any]] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        name_of_rule = self.id if is_of(self.id, str) else printed(self.id)
        for name in ("message", "fix", "why", "reference"):
            text: object = getattr(self, name)
            if not is_of(text, str):
                problem = f"rule {name_of_rule} has {name}={printed(text)}, which is not a text"
                FORM.fail(problem=problem, advice=f'write {name}="...", with the names of values in braces')
        if not is_of(self.severity, Severity):
            problem = f"rule {name_of_rule} has severity={printed(self.severity)}, which is not a severity"
            FORM.fail(problem=problem, advice="write severity=nvb.Severity.WARNING or nvb.Severity.ERROR")

    def __repr__(self) -> str:
        return f"<rule {self.id}>"

    def diagnose(
        self,
        *,
        at: Location | None = None,
        notes: tuple[tuple[str, Location | None], ...] = (),
        **values: object,
    ) -> Diagnostic:
        """The diagnostic of this rule with `values` filled in, at `at` or else at the caller's line.

        Each of `notes` is a text and the place that it is about. Raises rule.form for others, for what is not a place,
        and where the texts need a value that is not given.
        """
        _check_places(self, at, notes)
        location = at if at is not None else caller_location()
        try:
            message, fix = _filled(self.message, values), _filled(self.fix, values)
        except LookupError:
            _check_values(self, values)
            raise
        except ValueError as error:
            problem = f"the texts of rule {self.id} cannot be filled in: {error}"
            FORM.fail(problem=problem, advice="write values as {name}, and other braces twice: {{ and }}")
        return Diagnostic(rule=self, message=message, location=location, fix=fix, values=values, notes=tuple(notes))

    def fail(
        self,
        *,
        at: Location | None = None,
        notes: tuple[tuple[str, Location | None], ...] = (),
        **values: object,
    ) -> NoReturn:
        """Raise this rule's diagnostic on its own."""
        raise DiagnosticError([self.diagnose(at=at, notes=notes, **values)])


FORM = Rule(
    id="rule.form",
    message="{problem}",
    fix="{advice}",
    why=("A rule that never runs would report nothing, and a rule that shares its id would be taken for another one."),
    reference="docs/guide.md, Rules of your own",
)


def _check_places(rule: Rule, at: object, notes: Any) -> None:
    if at is not None and not is_of(at, Location):
        advice = "pass nvb.user_line(), or nvb.Location(file, line, function)"
        FORM.fail(problem=f"rule {rule.id} is reported at {printed(at)}, which is not a place", advice=advice)
    for note in notes if is_of(notes, (tuple, list)) else (notes,):
        is_pair = is_of(note, (tuple, list)) and len(note) == 2
        if not (is_pair and is_of(note[0], str) and (note[1] is None or is_of(note[1], Location))):
            problem = f"rule {rule.id} has the note {printed(note)}, which is not a text and a place"
            FORM.fail(problem=problem, advice='pass pairs: notes=[("it begins here", nvb.Location(file, 3, "main"))]')


def _check_values(rule: Rule, values: Mapping[str, object]) -> None:
    """Raises rule.form where a user's call leaves out a value that the texts need; one of ours is a bug."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals is globals():
        frame = frame.f_back
    parts = [part for text in (rule.message, rule.fix) for part in Formatter().parse(text)]
    fields = (name for _, name, _, _ in parts if name is not None)
    missing = [name for name in dict.fromkeys(re.split(r"[.[]", field)[0] for field in fields) if name not in values]
    if missing and not is_plumbing(frame):
        needed = ", ".join(name or "{}" for name in missing)
        advice = f"pass {', '.join(f'{name}=...' for name in missing)}" if all(missing) else "name the values: {name}"
        FORM.fail(problem=f"the texts of rule {rule.id} need {needed}, and the call gives no such value", advice=advice)


@dataclass(frozen=True)
class Diagnostic:
    """One broken rule: its id, the message with actual values, the place in the user's Python, and a fix.

    `values` fill in the rule's texts; `notes` are other places that matter, each with what
    happened there.
    """

    rule: Rule
    message: str
    location: Location | None = None
    fix: str = ""
    values: Mapping[str, object] = field(default_factory=dict, hash=False)
    notes: tuple[tuple[str, Location | None], ...] = ()

    def __getstate__(self) -> dict[str, object]:
        """The state of a copy in another process: values that cannot be pickled become their text."""
        return self.__dict__ | {"values": {name: _sent(value) for name, value in self.values.items()}}

    @property
    def rule_id(self) -> str:
        """The broken rule's id, such as `wgmma.n-step`."""
        return self.rule.id

    @property
    def severity(self) -> Severity:
        """Whether it stops the build."""
        return self.rule.severity

    def __repr__(self) -> str:
        return cut(f"<{self.severity.value}[{self.rule_id}]: {self.message}>")

    def __str__(self) -> str:
        return self._text(with_callers=True)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def _text(self, *, with_callers: bool) -> str:
        lines = [f"{self.severity.value}[{self.rule_id}]: {self.message}"]
        lines += _place("at ", self.location, with_callers)
        callers = self.location.callers if self.location else ()
        for text, location in self.notes:
            lines.append(f"  note: {text}")
            lines += _place("  at ", location, with_callers and location is not None and location.callers != callers)
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        if self.rule.reference:
            lines.append(f"  see: {self.rule.reference}")
        return "\n".join(lines)


AT_RUN_TIME = ("Value", "Variable")
"""The classes of run-time values, which have no text of their own in a format."""


_COUNTED = r"(?<![\w.])(\d+) ((?!of )(?:[a-z]+ )?[a-z]{3,}|CTA)\((s|es)\)"
"""A number, what it counts, and the ending of more than one of them."""
_LONG_NUMBER = r"(?<![0-9A-Za-z.])[0-9]{41,}(?![0-9A-Za-z_.])"
"""Of more digits than any number has that is meant."""


def _filled(text: str, values: Mapping[str, object]) -> str:
    """`text` with `values` filled in: "{size} byte(s)" is "1 byte" or "4 bytes". Of a long number, how long it is."""
    filled = re.sub(_LONG_NUMBER, lambda at: f"{at[0][:8]}... ({len(at[0])} digits)", _with(text, values))
    return re.sub(_COUNTED, lambda at: f"{at[1]} {at[2]}{'' if at[1] == '1' else at[3]}", filled)


def _with(text: str, values: Mapping[str, object]) -> str:
    """`text` with `values` filled in; what Python does not print, such as very long integers, by its kind."""
    values = {name: _Shown(value) if type(value).__name__ in AT_RUN_TIME else value for name, value in values.items()}
    try:
        return text.format(**values)
    except Exception:  # noqa: BLE001, an argument prints itself by code of its own
        return text.format(**{name: value if _prints(value) else _Shown(value) for name, value in values.items()})


def _prints(value: object) -> bool:
    try:
        return str(value) is not None and repr(value) is not None
    except Exception:  # noqa: BLE001
        return False


def printed(value: object) -> str:
    """`value` as Python prints it; an integer of thousands of digits, which Python does not print, by its size."""
    if _prints(value):
        return repr(value)
    return f"an integer of {value.bit_length()} bits" if isinstance(value, int) else with_article(type(value).__name__)


def with_article(noun: str) -> str:
    """`noun` with a or an, by its sound: an int, an f16, an MN-major tile, a u32."""
    return f"{'an' if re.match(_VOWEL, noun) else 'a'} {noun}"


_VOWEL = r"[aeioAEIO]|[fs]\d|MN\b|ndarray|nvb|llvm"


class _Shown:
    """A value whose text is `printed`, also where `!r` is asked for."""

    def __init__(self, value: object) -> None:
        self.text = printed(value)

    def __repr__(self) -> str:
        return self.text


def _sent(value: object) -> object:
    import pickle

    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 (objects refuse with whatever they like)
        return str(value)
    return value


def _place(prefix: str, location: Location | None, with_callers: bool) -> Iterator[str]:
    """A line of the user's and its callers; of a deep recursion, both ends."""
    if location is None:
        return
    yield f"  {prefix}{_quoted(location)}"
    callers = [*_other_lines(location)] if with_callers else []
    indent = " " * (len(prefix) - 1)
    for caller in callers if len(callers) <= _MOST_CALLERS else callers[: _MOST_CALLERS - 2]:
        yield f"{indent}called from {_quoted(caller)}"
    if len(callers) > _MOST_CALLERS:
        yield f"{indent}called through {len(callers) - _MOST_CALLERS + 1} more lines"
        yield f"{indent}called from {_quoted(callers[-1])}"


def _other_lines(location: Location) -> Iterator[Location]:
    """The callers, without the caller's own line a second time: that of a comprehension, a lambda, or a kept line."""
    inner = location
    for caller in location.callers:
        has_name = inner.function and not inner.function.startswith("<")
        if has_name or (inner.file, inner.line) != (caller.file, caller.line):
            yield caller
        inner = caller


def _quoted(location: Location) -> str:
    return f"{location}    {location.source}" if location.source else str(location)


def told_once(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """`diagnostics` without repetition: a mistake of one line appears once, with the calls that lead to it."""
    alike: dict[str, list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        alike.setdefault(diagnostic._text(with_callers=False), []).append(diagnostic)
    return [_merged(each) for each in alike.values()]


def _merged(alike: list[Diagnostic]) -> Diagnostic:
    first = alike[0]
    calls = dict.fromkeys(each.location.callers for each in alike if each.location is not None)
    others = [callers[0] for callers in calls if callers][1 : 1 + _MOST_CALLERS]
    notes = tuple(("it is so in this call too", caller) for caller in dict.fromkeys(others))
    return replace(first, notes=(*first.notes, *notes)) if notes else first


class DiagnosticError(Exception):
    """Raised with every error found together; `diagnostics` holds them in the order of the program."""

    __module__ = __name__.partition(".")[0]  # where users catch it, and what a traceback calls it

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __repr__(self) -> str:
        return cut(f"DiagnosticError({', '.join(diagnostic.rule_id for diagnostic in self.diagnostics)})")

    def __str__(self) -> str:
        text = "\n".join(str(diagnostic) for diagnostic in self.diagnostics)
        return text if len(self.diagnostics) == 1 else f"{len(self.diagnostics)} diagnostics\n{text}"


class MissingAttribute(DiagnosticError, AttributeError):
    """For a name that an object lacks: to `hasattr` and `getattr` it is Python's own error.

    A traceback calls it by the public name, which a copy in another process has as its class too.
    """

    __module__ = DiagnosticError.__module__
    __qualname__ = DiagnosticError.__qualname__

    def __reduce__(self) -> tuple[type[DiagnosticError], tuple[tuple[Diagnostic, ...]]]:
        return DiagnosticError, (self.diagnostics,)


class MissingName(DiagnosticError, KeyError):
    """For a name that is looked up and that an object lacks: to `except KeyError` it is Python's own error."""

    __module__ = DiagnosticError.__module__
    __qualname__ = DiagnosticError.__qualname__
    __reduce__ = MissingAttribute.__reduce__


class MissingEntry(DiagnosticError, IndexError, ValueError):
    """For an entry that a sequence lacks: to `except IndexError`, or `except ValueError`, it is Python's own error."""

    __module__ = DiagnosticError.__module__
    __qualname__ = DiagnosticError.__qualname__
    __reduce__ = MissingAttribute.__reduce__


def gather(*checks: Callable[[], object]) -> list[Diagnostic]:
    """What the checks raise, in order: each is called, even after another has raised."""
    diagnostics: list[Diagnostic] = []
    for check in checks:
        try:
            check()
        except DiagnosticError as error:
            diagnostics += error.diagnostics
    return diagnostics


def raise_all(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Raise DiagnosticError if any of `diagnostics` is an error, else return them (all warnings)."""
    reported = tuple(diagnostics)
    if any(diagnostic.severity is Severity.ERROR for diagnostic in reported):
        raise DiagnosticError(reported)
    return reported
