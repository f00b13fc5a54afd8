"""Every number that a public call takes, replaced by others: a Diagnostic at the user's line, or a kernel for ptxas."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support import number_sweep
from tests.support.number_sweep import run, sites_of, verdict

SHARE = 0.006
LONG_SHARE = 0.1
LONG_RUNS = 10


def assert_swept(seed: int, share: float, least: int) -> None:
    """Nothing failed, and enough was refused and built for that to mean something."""
    found = run(seed, share)
    failures = {case: said for case, (verdict, said) in found.items() if verdict == "failed"}
    assert failures == {}, "\n".join(f"{case}: {said}" for case, said in failures.items())
    counts = Counter(verdict for verdict, _ in found.values())
    assert min(counts["refused"], counts["built"]) > least


def test_some_numbers_of_all_calls() -> None:
    assert_swept(0, SHARE, 10)


def test_an_error_of_the_kernels_own_line_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One value instead of four ends the `zip(..., strict=True)` of the kernel; what fails anywhere else is ours."""
    found = sites_of("copies.sums_of_a_pair")
    site = next(one for one in found if (one.name, one.parameter) == ("Address.load", "count"))
    assert verdict(site, 1)[0] == "own"
    assert verdict(site, 4)[0] == "ptx"
    monkeypatch.setattr(number_sweep, "compile_ir", lambda *_: int("no number"))
    assert verdict(site, 4)[0] == "failed"


@pytest.mark.exhaustive(seconds=120)
@pytest.mark.parametrize("seed", range(1, 1 + LONG_RUNS))
def test_a_tenth_of_the_numbers_of_all_calls(seed: int) -> None:
    assert_swept(seed, LONG_SHARE, 200)
