"""Bulk stores of words that ordinary code wrote with no fence of the proxies between, by the address of each thread.

A swizzle, or a part for each warpgroup, makes an address that is not a symbol and a number. The threads that may come
to an instruction are known from branches on their numbers. All that a bulk store may read first must have been written
so: which of the threads issues it may not be known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import Completion, FenceOf
from nvbackend.isel.flow.dataflow import Site, solve, union
from nvbackend.lint.lifted.lift import Lifted
from nvbackend.lint.numbers.by_thread import CtaValues
from nvbackend.lint.numbers.touched import Touched, said
from nvbackend.lint.one_thread import executing

_FILLS = (Completion.BYTES, Completion.COPY_GROUP)


@dataclass(frozen=True, slots=True)
class _State:
    """Stores that may have been executed, and whether a fence came after them, on some path."""

    pending: Mapping[int, frozenset[bool]] = field(default_factory=dict)


class WrittenWords:
    """The question of one function, for the solver."""

    def __init__(self, lifted: Lifted) -> None:
        self._lifted = lifted
        self._values = CtaValues(lifted)
        self._touched = Touched(lifted.lines, self._values)
        self._threads = executing(lifted, self._values)

    def find(self) -> Iterator[tuple[Site, int]]:
        """The first such bulk store, with the last store that it reads."""
        for site, state in solve(self._values.function, self, self._matters).visit():
            if said(self._lifted.lines[site.position]).issues is not Completion.BULK_GROUP:
                continue
            read = self._touched.sources_of(self._threads[site.position], site.position)
            written = {place: self._written(place) for place in state.pending}
            same = [place for place, words in written.items() if words & read]
            unwritten = read
            for place in same:
                unwritten &= ~written[place]
            if read and not unwritten and all(state.pending[place] == {False} for place in same):
                yield site, max(same)
                return

    def _written(self, place: int) -> int:
        return self._touched.written_by(self._threads[place], place)

    def _matters(self, site: Site) -> bool:
        what = site.instr.semantics
        is_fence = what.fence is not None and what.fence.of is FenceOf.ASYNC_PROXY
        return is_fence or what.issues in (*_FILLS, Completion.BULK_GROUP) or self._is_call(site) or self._stores(site)

    def _is_call(self, site: Site) -> bool:
        return site.instr.opcode.startswith("call")

    def _stores(self, site: Site) -> bool:
        parts = self._lifted.lines[site.position].instruction.parts
        is_plain = parts[0] in ("st", "stmatrix") and "async" not in parts
        return is_plain and any(part in ("shared", "shared::cta") for part in parts)

    def entry(self) -> _State:
        """Nothing is written."""
        return _State()

    def join(self, left: _State, right: _State, /) -> _State:
        """What may be written on either way."""
        return _State(union(left.pending, right.pending))

    def transfer(self, state: _State, site: Site, /) -> _State:
        """What may be written after the instruction; a copy may bring other bytes to any of it."""
        if self._stores(site):
            return _State({**state.pending, site.position: frozenset((False,))})
        if site.instr.semantics.issues in _FILLS:
            return _State()
        if site.instr.semantics.issues is Completion.BULK_GROUP:
            return state
        return _State(dict.fromkeys(state.pending, frozenset((True,))))
