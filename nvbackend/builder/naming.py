"""What a thing of the kernel is called where the call gives it no name: as the variable that it is assigned to.

Names are for people who read a diagnostic or the machine form: "mbarrier full" says more than "mbarrier mbarrier".
"""

from __future__ import annotations

import ast
import functools

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
        statement = ast.parse(f"{line} pass" if line.startswith("with ") else line).body[0]
    except (SyntaxError, ValueError, IndexError):
        return None
    target: ast.expr | None = None
    value: ast.expr | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign):
        target, value = statement.target, statement.value
    elif isinstance(statement, ast.With) and len(statement.items) == 1:
        target, value = statement.items[0].optional_vars, statement.items[0].context_expr
    calls = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == call
    return target.id if calls and isinstance(target, ast.Name) and target.id.isascii() else None
