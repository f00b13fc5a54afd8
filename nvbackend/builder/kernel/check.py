"""The option `check` of a build: whether the finished kernel is tried in a dry run, and with which sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, NoReturn

from nvbackend.builder.scopes.rules import CHECK
from nvbackend.diagnostics.classes.brief import MOST_OF_A_FIELD, cut
from nvbackend.signature import Parameter, Scalar

Check = bool | Sequence[Mapping[str, int]]
"""Whether a kernel is executed on its control values when it is finished, or with which sizes."""


def sizes_of(check: Check, kernel: str, parameters: Sequence[Parameter]) -> Sequence[Mapping[str, int]] | None:
    """The sizes to run the kernel with, none where it chooses its own; None where it is not run (kernel.check)."""
    if isinstance(check, bool):
        return () if check else None
    integers = {
        parameter.name: parameter.type
        for parameter in parameters
        if isinstance(parameter.type, Scalar) and parameter.type.element.is_integer
    }
    others = {parameter.name: parameter.type for parameter in parameters if parameter.name not in integers}

    def fail(problem: str, advice: str) -> NoReturn:
        CHECK.fail(kernel=kernel, given=cut(repr(check), MOST_OF_A_FIELD), problem=problem, advice=advice)

    def size(name: Any, value: Any) -> int:
        names = ", ".join(integers) or "it has none"
        if name in others:
            fail(f"{name} is not an integer: its type is {others[name]!r}", f"give sizes of integers only: {names}")
        if name not in integers:
            fail(f"{name!r} is not a parameter of it", f"name a parameter that is an integer: {names}")
        scalar, element = integers[name], integers[name].element
        every = element.integers
        if not isinstance(value, Integral) or isinstance(value, bool):
            fail(f"{name}={cut(repr(value), MOST_OF_A_FIELD)} is not an integer", f"give {name} an integer")
        if int(value) not in every:
            fail(f"{name}={value} is not a number of {element}", f"give {name} a number from {every[0]} to {every[-1]}")
        if int(value) not in scalar.values:
            fail(f"{name}={value} is not {scalar.asserted}, which its annotation asserts", f"give {name} such a number")
        return int(value) & (1 << element.bits) - 1

    form = f"[{{{next(iter(integers), 'n')!r}: 256}}]"
    if not isinstance(check, list | tuple):
        fail(f"it is of type {type(check).__name__}", f"pass True, False, or a list of sizes by name: check={form}")
    if not check:
        fail("a list without sizes asks for no run", f"pass False for no run, or sizes by name: check={form}")
    for sizes in check:
        if not isinstance(sizes, Mapping):
            fail(f"{sizes!r} is not a dictionary of sizes", f"name the parameter of each size: check={form}")
    return [{name: size(name, value) for name, value in numbers.items()} for numbers in check]
