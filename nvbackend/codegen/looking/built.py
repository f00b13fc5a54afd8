"""What is looked at of a compiled kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from nvbackend.codegen.saved.parts import LaunchedKernel
from nvbackend.diagnostics import Diagnostic

if TYPE_CHECKING:
    from nvbackend.isel.machine.function import MachineFunction


class BuiltKernel(LaunchedKernel, Protocol):
    """A kernel with the forms that it had on its way."""

    @property
    def machine(self) -> MachineFunction:
        """The machine form."""

    @property
    def ir(self) -> str:
        """The IR before optimisation."""

    @property
    def optimized_ir(self) -> str:
        """The IR that the PTX was printed from."""

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Its warnings."""


class TimedKernel(BuiltKernel, Protocol):
    """A kernel with the times of its stages, and its figures."""

    @property
    def timings(self) -> Mapping[str, float]:
        """Seconds by stage."""

    @property
    def cached(self) -> tuple[str, ...]:
        """The stages whose result came from the cache."""

    def figures(self) -> dict[str, Any]:
        """The numbers of its report."""
