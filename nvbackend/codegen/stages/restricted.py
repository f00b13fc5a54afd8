"""Pointers that promise to share no memory: which of them a kernel certainly writes through, as its IR shows."""

from __future__ import annotations

import re
from itertools import combinations

from nvbackend.signature import Pointer, Signature

_NAME = r'%(?:"[^"]*"|[\w.$-]+)'
_STEP = re.compile(rf"^\s*({_NAME}) = getelementptr (?:\w+ )*[^,]+, ptr addrspace\(1\) ({_NAME}),", re.MULTILINE)
_STORE = re.compile(rf"^\s*store [^\n]*, ptr addrspace\(1\) ({_NAME}),", re.MULTILINE)
_UNUSED = "readnone"

Pair = tuple[int, int]


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
