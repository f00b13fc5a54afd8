"""The diagnostics of accesses that must not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from nvbackend.diagnostics import Diagnostic, DiagnosticError, raise_all
from nvbackend.simulator.events import Addresses, By, Mask, Site
from nvbackend.simulator.memory.allocations import Misfit
from nvbackend.simulator.rules import BOUNDS, MISALIGNED, READ_ONLY, UNSET, UNWRITTEN


class UnwrittenRead(NamedTuple):
    """A read of memory, at the addresses that are `wrong` of what nothing wrote."""

    by: By
    space: str
    addresses: Addresses
    size: int
    wrong: Mask


class UnsetRegister(NamedTuple):
    """A register that nothing set."""

    name: str


class Failures:
    """Says which thread did what wrong."""

    def __init__(self) -> None:
        self.named: Callable[[int], str] = str
        """The name of a thread of the wave."""
        self.held: Diagnostic | None = None
        """The first use of what nothing wrote or set."""
        self.watches: Callable[[UnwrittenRead], bool] = lambda _read: False
        """Whether somebody watches for a use of what was read; else the read is one."""

    def raise_held(self, after: DiagnosticError | None = None) -> None:
        """Raise what is held, with what ended the run."""
        raise_all([*([self.held] if self.held is not None else []), *(after.diagnostics if after is not None else [])])

    def access(self, by: By, does: str, space: str, addresses: Addresses, size: int, misfit: Misfit) -> NoReturn:
        """An address outside of every allocation or window, or misaligned."""
        values = self._values(by, space, addresses, size, misfit.wrong)
        if misfit.problem == Misfit.MISALIGNED:
            MISALIGNED.fail(at=by.site.location, does=does, **values)
        BOUNDS.fail(at=by.site.location, does=does, problem=misfit.problem, **values)

    def unwritten(self, read: UnwrittenRead) -> None:
        """A read of unwritten memory: it gives zeros."""
        if self.held is None and not self.watches(read):
            self.hold(read)

    def hold(self, read: UnwrittenRead, used: Site | None = None) -> None:
        """What was read is used, at an instruction. The run's end reports it unless another mistake explains it."""
        if self.held is None:
            notes = ((f"its value is used here (PTX {used})", used.origin),) if used is not None else ()
            self.held = UNWRITTEN.diagnose(at=read.by.site.location, notes=notes, **self._values(*read))

    def hold_unset(self, register: UnsetRegister, thread: int, others: int, used: Site) -> None:
        """A register that nothing set is used, at an instruction. The run's end reports it like what is held."""
        if self.held is None:
            who = self.named(thread) + (f" (and {others} more)" if others else "")
            self.held = UNSET.diagnose(
                at=used.location, thread=who, register=register.name, line=used.line, text=used.text
            )

    def read_only(self, by: By, space: str, addresses: Addresses, size: int, name: str) -> NoReturn:
        """A write to what is constant."""
        values = self._values(by, space, addresses, size, np.ones(len(addresses), bool))
        READ_ONLY.fail(at=by.site.location, problem=f"{name} is read-only", **values)

    def _values(self, by: By, space: str, addresses: Addresses, size: int, wrong: Mask) -> dict[str, Any]:
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
