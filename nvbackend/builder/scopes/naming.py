"""Default names: what a call makes is named after the Python variable that it is assigned to.

Names are for people who read a diagnostic or the machine form: "mbarrier full" says more than "mbarrier mbarrier".
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator

from nvbackend.diagnostics import caller_location


def name_or(name: str | None, call: str, default: str) -> str:
    """`name`, or that of the variable which the user's line assigns what `call` returns, or else `default`."""
    if name is not None:
        return name
    location = caller_location()
    return (_assigned(location.source, call) if location else None) or default


@functools.lru_cache(maxsize=1024)
def _assigned(line: str, call: str) -> str | None:
    """The one variable that `line` assigns a call of the method `call` to; None where that is not certain."""
    if f".{call}(" not in line:
        return None
    try:
        statements = ast.parse(f"{line} pass" if line.startswith("with ") else line).body
    except (SyntaxError, ValueError):
        return None
    named = [target.id for target, value in _assignments(statements) if _calls(value, call)]
    return named[0] if len(named) == 1 and line.count(f".{call}(") == 1 and named[0].isascii() else None


def _assignments(statements: Iterable[ast.stmt]) -> Iterator[tuple[ast.Name, ast.expr]]:
    """What is assigned to one name each, by `=` or by `with ... as`."""
    for statement in statements:
        pairs: list[tuple[ast.expr | None, ast.expr | None]] = []
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            pairs = [(statement.targets[0], statement.value)]
        elif isinstance(statement, ast.AnnAssign):
            pairs = [(statement.target, statement.value)]
        elif isinstance(statement, ast.With):
            pairs = [(item.optional_vars, item.context_expr) for item in statement.items]
        yield from ((target, value) for target, value in pairs if isinstance(target, ast.Name) and value is not None)


def _calls(value: ast.expr, call: str) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == call
