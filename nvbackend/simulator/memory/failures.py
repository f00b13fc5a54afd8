"""The diagnostics of accesses that must not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics import Diagnostic, DiagnosticError, raise_all
from nvbackend.simulator.events import Addresses, By
from nvbackend.simulator.memory.allocations import Misfit
from nvbackend.simulator.rules import BOUNDS, MISALIGNED, READ_ONLY, UNWRITTEN


class Failures:
    """Says which thread did what wrong."""

    def __init__(self) -> None:
        self.named: Callable[[int], str] = str
        """The name of a thread of the wave."""
        self.held: Diagnostic | None = None
        """The first read of what nothing wrote."""

    def raise_held(self, after: DiagnosticError | None = None) -> None:
        """Raise what is held, with what ended the run."""
        raise_all([*([self.held] if self.held is not None else []), *(after.diagnostics if after is not None else [])])

    def access(self, by: By, does: str, space: str, addresses: Addresses, size: int, misfit: Misfit) -> NoReturn:
        """An address outside of every allocation or window, or misaligned."""
        values = self._values(by, space, addresses, size, misfit.wrong)
        if misfit.problem == Misfit.MISALIGNED:
            MISALIGNED.fail(at=by.site.location, does=does, **values)
        BOUNDS.fail(at=by.site.location, does=does, problem=misfit.problem, **values)

    def unwritten(self, by: By, space: str, addresses: Addresses, size: int, wrong: NDArray[np.bool_]) -> None:
        """A read of unwritten memory: it gives zeros. The run's end reports it unless another mistake explains it."""
        if self.held is None:
            self.held = UNWRITTEN.diagnose(at=by.site.location, **self._values(by, space, addresses, size, wrong))

    def read_only(self, by: By, space: str, addresses: Addresses, size: int, name: str) -> NoReturn:
        """A write to what is constant."""
        values = self._values(by, space, addresses, size, np.ones(len(addresses), bool))
        READ_ONLY.fail(at=by.site.location, problem=f"{name} is read-only", **values)

    def _values(self, by: By, space: str, addresses: Addresses, size: int, wrong: NDArray[np.bool_]) -> dict[str, Any]:
        first = int(np.flatnonzero(wrong)[0]) if wrong.any() else 0
        thread = int(by.threads[first] if len(by.threads) > first else by.threads[0])
        who = self.named(thread)
        if by.operation is not None:
            who = f"the {by.operation.engine} operation of {who}"
        address = f"{int(addresses[first]):#x}" if len(addresses) else "none"
        others = int(wrong.sum()) - 1
        return {
            "thread": who + (f" (and {others} more)" if others > 0 else ""),
            "space": space or "generic",
            "address": address,
            "size": size,
            "line": by.site.line,
            "text": by.site.text,
        }
