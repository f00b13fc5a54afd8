"""What an example of a rule is: one function that is two programs.

A line that ends in `# breaks` is in the first program only, one that ends in `# keeps` in the second only, all others
are in both. The two are compiled from the function's own text at its own lines, so that a diagnostic is located in the
example, and the documentation shows exactly what the tests run.
"""

from __future__ import annotations

import ast
import enum
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import nvbackend as nvb
from nvbackend import Diagnostic, DiagnosticError


class Side(enum.Enum):
    """One of the two programs; its value is the mark at the end of the lines that it alone has."""

    BREAKS = "# breaks"
    KEEPS = "# keeps"

    @property
    def other(self) -> Side:
        """The other program."""
        return Side.KEEPS if self is Side.BREAKS else Side.BREAKS


@dataclass(frozen=True)
class Example:
    """The two programs of a rule.

    `target` and `bounds` are those of `nvb.kernel` where the function builds a kernel, None and nothing where it is a
    program of the host; `also` are rules that the breaking program cannot help breaking as well; `located` is False
    where there is no line of Python to point at (a message of ptxas, a launch that the driver refuses).
    """

    rule: str
    function: Callable[..., Any]
    target: str | None = None
    bounds: Mapping[str, int] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    located: bool = True

    @property
    def file(self) -> str:
        """The file that the example stands in."""
        return self.function.__code__.co_filename

    @property
    def lines(self) -> range:
        """The lines of the function in its file."""
        text, first = inspect.getsourcelines(self.function)
        return range(first, first + len(text))

    def diagnostics(self, side: Side) -> tuple[Diagnostic, ...]:
        """Everything that is said about one of the programs, errors and warnings."""
        try:
            result: Any = self._compiled(side)() if self.target is None else self.build(side)
        except DiagnosticError as error:
            return error.diagnostics
        return _said_by(result)

    def build(self, side: Side, **options: Any) -> nvb.FinishedKernel:
        """One of the two kernels; `options` are those of its `build`."""
        assert self.target is not None
        bounds: dict[str, Any] = {"threads": 128, **self.bounds}
        return nvb.kernel(self.target, **bounds)(self._compiled(side)).build(**options)

    def _compiled(self, side: Side) -> Callable[..., Any]:
        """The function with the other program's lines left blank, compiled at the lines of the file."""
        text, first = inspect.getsourcelines(self.function)
        kept = ["\n" if line.rstrip().endswith(side.other.value) else line for line in text]
        tree = ast.parse(textwrap.dedent("".join(kept)))
        definition = tree.body[0]
        assert isinstance(definition, ast.FunctionDef)
        definition.decorator_list.clear()
        ast.increment_lineno(tree, first - 1)
        names: dict[str, Any] = {}
        exec(compile(tree, self.file, "exec", dont_inherit=True), self.function.__globals__, names)
        program: Callable[..., Any] = names[definition.name]
        return program

    def text(self) -> str:
        """Both programs in one, as a difference: `-` before what breaks the rule, `+` before what keeps it."""
        lines = [_as_difference(line) for line in self._shown()]
        if self.target is not None:
            bounds = "".join(f", {name}={value}" for name, value in {"threads": 128, **self.bounds}.items())
            lines.insert(0, f' @nvb.kernel("{self.target}"{bounds})')
        return "\n".join(line.rstrip() for line in lines)

    def _shown(self) -> list[str]:
        """The function's lines without decorator and docstring; of a program of the host, the body alone."""
        text = inspect.getsource(self.function).splitlines()
        definition = ast.parse("\n".join(text)).body[0]
        assert isinstance(definition, ast.FunctionDef)
        start = definition.body[1 if ast.get_docstring(definition) else 0].lineno - 1
        body = text[start:] if not ast.get_docstring(definition) else text[definition.body[0].end_lineno :]
        if self.target is None:
            return textwrap.dedent("\n".join(body)).splitlines()
        return [*text[definition.lineno - 1 : definition.body[0].lineno - 1], *body]

    @property
    def caption(self) -> str:
        """What the function's docstring says of it; empty where the program needs no words."""
        return inspect.getdoc(self.function) or ""


def _as_difference(line: str) -> str:
    for side, sign in ((Side.BREAKS, "-"), (Side.KEEPS, "+")):
        if line.rstrip().endswith(side.value):
            return sign + line.rstrip().removesuffix(side.value).rstrip()
    return f" {line}"


def _said_by(result: Any) -> tuple[Diagnostic, ...]:
    """The diagnostics of what a program returns: a kernel, or the diagnostics themselves, or nothing."""
    found: Iterable[Any] = getattr(result, "diagnostics", result) or ()
    return tuple(one for one in found if isinstance(one, Diagnostic)) if isinstance(found, list | tuple) else ()


def program(rule: str, *, also: tuple[str, ...] = (), located: bool = True) -> Callable[[Callable[..., Any]], Example]:
    """Decorator of a function without parameters: the two programs are what its body does on the host."""
    return lambda function: Example(rule, function, also=also, located=located)


def kernel(
    rule: str, target: str = "sm_90a", *, also: tuple[str, ...] = (), located: bool = True, **bounds: int
) -> Callable[[Callable[..., Any]], Example]:
    """Decorator of a function as `nvb.kernel` takes it: the two programs are the kernels that it builds."""
    return lambda function: Example(rule, function, target, bounds, also, located)
