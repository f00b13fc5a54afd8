"""The body of a device function at the place of its call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nvbackend.builder.core.core import Core
from nvbackend.builder.functions.parameters import Declared, check_results
from nvbackend.builder.kernel.python_function import last_line
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.scopes.blocks import Body
from nvbackend.builder.scopes.in_functions import Entered
from nvbackend.builder.values.values import Value
from nvbackend.diagnostics.classes.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """A function with what it takes, and the constants of one call."""

    function: Callable[..., Any]
    entered: Entered
    wanted: Declared
    constants: Mapping[str, Any]


@contextmanager
def _open(core: Core, source: Source) -> Iterator[None]:
    before = core.functions.open
    core.functions.open = (*before, source.entered)
    try:
        yield
    finally:
        core.functions.open = before


def expand(k: FunctionBuilder, source: Source, arguments: Mapping[str, Any], *, apart: bool = False) -> list[Value]:
    """Run the function with the builder `k`; its results, as values of the region around the call.

    `apart` puts the body into blocks of its own.
    """
    core, wanted = k.core, source.wanted
    body = Body(wanted.function, wanted.returned)
    with _open(core, source), k.control.function(body, apart=apart):
        result = source.function(k, *arguments.values(), **source.constants)
        registers = [
            (value.ir, value.type) for value in check_results(core, wanted, result, last_line(source.function))
        ]
    return [core.wrap(register, element) for register, element in registers]
