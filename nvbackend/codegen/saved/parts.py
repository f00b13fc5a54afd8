"""What is taken of a compiled kernel: to launch it elsewhere, and to keep it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from nvbackend.codegen.cubin import Cubin
from nvbackend.isel.target.target import Target
from nvbackend.signature import Signature

if TYPE_CHECKING:
    from nvbackend.isel.machine.assertions import Assertion


class LaunchedKernel(Protocol):
    """What a launcher needs."""

    @property
    def signature(self) -> Signature:
        """What it takes, and its launch bounds."""

    @property
    def target(self) -> Target:
        """The target it was compiled for."""

    @property
    def ptx(self) -> str:
        """The PTX text."""

    @property
    def cubin(self) -> Cubin | None:
        """The cubin, None where it was not assembled."""


class WholeKernel(LaunchedKernel, Protocol):
    """What is kept in a file."""

    @property
    def assertions(self) -> Sequence[Assertion]:
        """The places where it ends its launch itself."""

    @property
    def machine(self) -> object:
        """The machine form, or its text."""
