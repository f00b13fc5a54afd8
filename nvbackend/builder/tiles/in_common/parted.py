"""Whether numbers and addresses that all CTAs of a grid share are the same in each of them."""

from __future__ import annotations

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
from nvbackend.builder.values.values import Value
from nvbackend.intrinsics.row.semantics import Scope


def parted(k: Core, value: Value | Address) -> str | None:
    """Between whom a value certainly differs, in words; None where nothing shows that it does.

    Of an address only what CTAs have counts: one thread of each may access it.
    """
    known = k.execution.known
    if isinstance(value, Value):
        scope = known(value.ir).apparent
    else:
        offset = [] if value._offset is None else [value._offset.ir]
        scope = min(known(each).apparent for each in (value._base, *offset))
        if scope < Scope.CTA:
            return None
    return _PARTED.get(scope, _THREADS)


_THREADS = "threads of a CTA"
_PARTED = {Scope.GRID: None, Scope.CLUSTER: "clusters", Scope.CTA: "CTAs"}
