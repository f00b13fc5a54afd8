"""Tensor memory along the control flow: every mistake in a real kernel, and none told of kernels without one."""

from __future__ import annotations

import pytest

from nvbackend.isel.tmem_protocol import check_tmem_protocol
from tests.support.tmem_kernel import multiply

MISTAKES = [
    ("no dealloc", "tcgen05.missing-dealloc"),
    ("dealloc on one path", "tcgen05.missing-dealloc"),
    ("return early", "tcgen05.missing-dealloc"),
    ("free twice", "tcgen05.double-dealloc"),
    ("other columns", "tcgen05.dealloc-columns"),
    ("too many columns", "tcgen05.total-columns"),
    ("relinquish first", "tcgen05.alloc-after-relinquish"),
    ("read after dealloc", "tcgen05.not-allocated"),
    ("store without wait", "tcgen05.missing-wait-st"),
    ("no commit", "tcgen05.missing-commit"),
    ("no wait", "tcgen05.missing-wait"),
    ("no fence after", "tcgen05.missing-fence-after"),
    ("no fence before", "tcgen05.missing-fence-before"),
    ("accumulate at first", "tcgen05.undefined-accumulator"),
    ("outside", "tcgen05.bounds"),
]


def rules(*changes: str, **more: int) -> list[str]:
    k = multiply(*changes, **more)
    k.return_()
    k._link()
    return [one.rule_id for one in check_tmem_protocol(k.machine)]


@pytest.mark.parametrize(("issuer", "threads"), [(0, 128), (2, 128), (4, 160), (4, 256)])
@pytest.mark.parametrize("changes", [(), ("no relinquish",), ("store",)])
def test_a_kernel_without_a_mistake_is_left_alone(issuer: int, threads: int, changes: tuple[str, ...]) -> None:
    assert rules(*changes, issuer=issuer, threads=threads) == []


@pytest.mark.parametrize(("issuer", "threads"), [(0, 128), (4, 192)])
@pytest.mark.parametrize(("change", "rule"), MISTAKES, ids=[change for change, _ in MISTAKES])
def test_each_mistake_is_told_once(change: str, rule: str, issuer: int, threads: int) -> None:
    assert rules(change, issuer=issuer, threads=threads) == [rule]
