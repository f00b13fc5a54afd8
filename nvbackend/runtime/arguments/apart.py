"""Arrays that must not overlap: those of restrict pointers, where the kernel writes one of a pair."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from nvbackend.diagnostics import Diagnostic
from nvbackend.runtime.rules import OVERLAP
from nvbackend.signature import Pointer, Signature

MOST_ADDRESSES = 1024
"""So many addresses are remembered."""
Pair = tuple[int, int]
"""The places of two parameters."""

_NAME = r'%(?:"[^"]*"|[\w.$-]+)'
_STEP = re.compile(rf"^\s*({_NAME}) = getelementptr (?:\w+ )*[^,]+, ptr addrspace\(1\) ({_NAME}),", re.MULTILINE)
_STORE = re.compile(rf"^\s*store [^\n]*, ptr addrspace\(1\) ({_NAME}),", re.MULTILINE)
_UNUSED = "readnone"


class Apart:
    """The pairs of parameters, by their places, whose arrays are compared at each launch of one kernel."""

    __slots__ = ("_extents", "_pairs", "_signature", "places")

    def __init__(self, signature: Signature, pairs: Sequence[Pair]) -> None:
        self._signature = signature
        self._pairs = pairs
        self.places = tuple(dict.fromkeys(place for pair in pairs for place in pair))
        self._extents: dict[int, int] = {}
        """The most bytes of an array that was seen at an address."""

    def note(self, ranges: Mapping[int, range]) -> bool:
        """Remember the arrays of these addresses; False where others were forgotten to make room."""
        has_room = len(self._extents) < MOST_ADDRESSES
        if not has_room:
            self._extents.clear()
        for each in ranges.values():
            self._extents[each.start] = max(len(each), self._extents.get(each.start, 0))
        return has_room

    def holds(self, values: Sequence[Any]) -> bool:
        """Whether arrays at these addresses certainly share nothing, each taken for the longest one seen there."""
        extents = self._extents
        for pair in self._pairs:
            low, high = sorted([values[place] for place in pair])
            if low not in extents or low + extents[low] > high:
                return False
        return True

    def overlaps(self, ranges: Mapping[int, range]) -> Iterator[Diagnostic]:
        """launch.overlap for each pair of parameters whose arrays, of these addresses, share memory."""
        for pair in self._pairs:
            first, second = (ranges[place] for place in pair)
            shared = range(max(first.start, second.start), min(first.stop, second.stop))
            if shared:
                parameters = [self._signature.parameters[place] for place in pair]
                names = [each.name for each in parameters]
                promised = [each.name for each in parameters if isinstance(each.type, Pointer) and each.type.restrict]
                yield OVERLAP.diagnose(
                    first=names[0],
                    second=names[1],
                    count=len(shared),
                    of_first=shared.start - first.start,
                    of_second=shared.start - second.start,
                    promised=" and ".join(promised),
                )


def pairs_apart(signature: Signature, compiled: object) -> tuple[Pair, ...]:
    """The parameters, by their places, whose arrays must not overlap: one is restrict, and one is certainly written.

    Only stores of the `compiled` kernel's IR count: what other instructions write is not known here.
    """
    pointers = [(place, each) for place, each in enumerate(signature.parameters) if isinstance(each.type, Pointer)]
    restricted = {place for place, each in pointers if isinstance(each.type, Pointer) and each.type.restrict}
    kernel = rf'^define [^\n]*@"?{re.escape(signature.name)}"?\(([^\n]*)\) [^\n]*\{{$(.*?)^\}}'
    ir = str(getattr(compiled, "optimized_ir", "")) if restricted else ""  # it may be packed, and takes time to unpack
    text = re.search(kernel, ir, re.MULTILINE | re.DOTALL)
    if text is None:
        return ()
    written = {place for place, each in pointers if each.name in _written(text[2])}
    used = [place for place, each in pointers if not re.search(rf'{_UNUSED} [^,]*%"?{re.escape(each.name)}\b', text[1])]
    return tuple(pair for pair in combinations(used, 2) if written & {*pair} and restricted & {*pair})


def _written(body: str) -> set[str]:
    """The names of what stores go to, by constant and run-time steps from it."""
    steps = dict(_STEP.findall(body))
    roots = set()
    for place in _STORE.findall(body):
        root = place
        while root in steps:
            root = steps[root]
        roots.add(root.strip('%"'))
    return roots
