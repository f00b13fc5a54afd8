"""Errors of Python and NumPy about an index that is a run-time value: their texts do not say that it is one."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from nvbackend.builder.core.core import Core
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.values.values import Arithmetic

_TEXTS = ("only integers, slices", "slice indices must be integers")
"""Parts of the errors of NumPy about an index, and of Python about the end of a slice."""


def problem_of(error: BaseException) -> str | None:
    """What is wrong, if the error is about an index that is certainly a run-time value."""
    if isinstance(error, KeyError) and len(error.args) == 1 and isinstance(error.args[0], Arithmetic):
        return "a dict has no key that is known only when the kernel runs"
    if any(part in str(error) for part in _TEXTS) and any(map(_is_run_time, _indices(error.__traceback__))):
        return str(error)
    return None


def _is_run_time(index: object) -> bool:
    return isinstance(index, (Arithmetic, FunctionBuilder, Core))


def _indices(trace: TracebackType | None) -> Iterator[Any]:
    """What the names are in the index of the subscript that raised, of the innermost frame."""
    if trace is None:
        return
    while trace.tb_next is not None:
        trace = trace.tb_next
    frame = trace.tb_frame
    names = {**frame.f_globals, **frame.f_locals}
    for name in _names(trace):
        if name in names:
            yield names[name]


def _names(trace: TracebackType) -> set[str]:
    """The names in the indices of the expression that raised; none where its text is not known."""
    code = trace.tb_frame.f_code
    first, last, start, end = [*code.co_positions()][trace.tb_lasti // 2]
    if first is None or last is None or start is None or end is None:
        return set()
    lines = [linecache.getline(code.co_filename, number, trace.tb_frame.f_globals) for number in range(first, last + 1)]
    text = "".join(lines).encode()
    cut = text[start : len(text) - len(lines[-1].encode()) + end].decode()
    try:
        tree = ast.parse(f"({cut})")
    except SyntaxError:
        return set()
    subscripts = (node for node in ast.walk(tree) if isinstance(node, ast.Subscript))
    inside = (part for node in subscripts for part in ast.walk(node.slice))
    return {part.id for part in inside if isinstance(part, ast.Name)}
