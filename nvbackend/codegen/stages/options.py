"""The options of a kernel's `compile`, without what they are for: a kernel from the cache needs none of it."""

from __future__ import annotations

from collections.abc import Iterable

from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.diagnostics.spelling import unknown_argument

COMPILE_OPTIONS = ("cache", "optimize", "assemble", "tool", "ptxas_level", "register_limit", "isolated")
"""What compile_kernel takes by name."""


def check_options(names: Iterable[str], *, of_definitions: bool = False) -> None:
    """Raises call.argument for an option that a kernel's `compile` does not have; definitions have constants too."""
    for name in names:
        if name not in COMPILE_OPTIONS:
            constants = f"; constants of the build come before: definition.with_({name}=...)" if of_definitions else ""
            shown = ", ".join(f"{option}=..." for option in COMPILE_OPTIONS)
            ARGUMENT.fail(
                call="compile",
                problem=unknown_argument(name, COMPILE_OPTIONS),
                advice=f"call it as compile({shown}), with those that are wanted{constants}",
            )
