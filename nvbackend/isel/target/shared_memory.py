"""How much shared memory a CTA can have."""

from __future__ import annotations

from nvbackend.isel.target.target import LAST_IN_PTXAS_12, Target

_STATIC_LIMIT = 48 * 1024
SHARED_LIMIT: dict[int, int] = {
    number: kilobytes * 1024
    for number, kilobytes in {
        **dict.fromkeys((75,), 64),
        **dict.fromkeys((70, 72), 96),
        **dict.fromkeys((86, 88, 89, 120, 121), 99),
        **dict.fromkeys((80, 87), 163),
        **dict.fromkeys((90, 100, 101, 103, 110), 227),
    }.items()
}
"""Shared memory a CTA can have, in bytes, by compute capability (CUDA C++ Programming Guide, compute capabilities)."""


def static_limit(target: Target) -> int:
    """Static shared memory that a CTA can have, in bytes: what the newest ptxas that knows the chip takes.

    It is 48 KB; from ptxas 13 on, it is all of the shared memory on targets with the suffix `a`.
    """
    whole = target.has_arch_conditional and target.number not in LAST_IN_PTXAS_12
    return SHARED_LIMIT[target.number] if whole else _STATIC_LIMIT
