"""The slices of the exhaustive tests: disjoint, complete, bounded, and the same for the same commit."""

from __future__ import annotations

import hashlib
import itertools
import random
import re
import subprocess
import sys

import pytest

from tests.support.process import ROOT
from tests.support.sampling import FEWEST, places_of, sample
from tests.support.slices import SLICE_S, chosen, cut, slices_of

COSTS = {
    f"tests/test_{number % 7}.py::test[{number}]": random.Random(number).choice((1.0, 6.0, 40.0))
    for number in range(400)
}
COMMITS = [hashlib.sha1(str(number).encode()).hexdigest() for number in range(1200)]
OPTIONS = ["-q", "-p", "no:cacheprovider", "-m", "exhaustive", "tests/fuzz/test_texts.py", "--collect-only"]


@pytest.mark.parametrize("count", [1, 2, 13, 1000])
def test_every_test_is_in_one_slice(count: int) -> None:
    found = [test for each in cut(COSTS, count) for test in each]
    assert len(cut(COSTS, count)) == count
    assert sorted(found) == sorted(COSTS)


def test_no_slice_takes_much_longer_than_another() -> None:
    seconds = [sum(COSTS[test] for test in each) for each in cut(COSTS, slices_of(COSTS))]
    assert max(seconds) - min(seconds) <= max(COSTS.values())
    assert max(seconds) <= SLICE_S + max(COSTS.values())


def test_a_commit_has_the_same_slice_in_whatever_order_the_tests_come() -> None:
    turned = dict(reversed(COSTS.items()))
    commits = COMMITS[:40]
    assert [chosen(COSTS, commit) for commit in commits] == [chosen(turned, commit) for commit in commits]


def test_commits_come_to_every_slice() -> None:
    costs = dict(list(COSTS.items())[:100])
    count = slices_of(costs)
    assert count > 10
    assert {chosen(costs, commit).index for commit in COMMITS[:500]} == set(range(1, count + 1))


def test_the_slices_of_a_number_are_those_of_the_cut() -> None:
    found = [chosen(COSTS, f"{index}/5") for index in range(1, 6)]
    assert [list(each.tests) for each in found] == cut(COSTS, 5)
    assert sum(each.seconds for each in found) == pytest.approx(sum(COSTS.values()))


@pytest.mark.parametrize("extents", [(3, 4), (2, 3, 5), (20, 2), (6, 6)])
def test_a_sample_has_every_value_of_each_axis(extents: tuple[int, ...]) -> None:
    places = [dict(enumerate(each)) for each in itertools.product(*map(range, extents))]
    kept = sample("test", places, 4)
    assert kept == sample("test", places, 4)
    assert [{places[number][axis] for number in kept} for axis, _ in enumerate(extents)] == [
        set(range(extent)) for extent in extents
    ]
    assert len(kept) == max(-(-len(places) // 4), *extents)


@pytest.mark.parametrize("row", ["low", "high"])
@pytest.mark.parametrize(("column", "answer"), [(1, 2), (3, 2)])
def test_a_variant_has_a_place_on_each_axis(request: pytest.FixtureRequest, row: str, column: int, answer: int) -> None:
    assert places_of(request.node) == {0: f"{column}-{answer}", 1: row}


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_a_sample_of_one_axis_is_a_part_of_it(count: int) -> None:
    kept = sample("test", [{0: number, 1: number} for number in range(count)], 4)
    assert len(kept) == max(min(FEWEST, count), -(-count // 4))
    assert kept <= set(range(count))


@pytest.mark.parametrize("text", ["", "0/3", "4/3", "3", "x" * 40, "HEAD", "1/0", "-1/3"])
def test_what_is_no_slice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="slice"):
        chosen(COSTS, text)


def collected(*options: str) -> tuple[set[str], str]:
    """The tests that pytest would run, and all it says."""
    command = [sys.executable, "-m", "pytest", *OPTIONS, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 5), done.stdout + done.stderr
    return {line for line in done.stdout.splitlines() if "::" in line}, done.stdout


def test_pytest_runs_the_slice_and_says_which() -> None:
    whole, _ = collected()
    slices = [collected("--exhaustive-slice", f"{index}/2") for index in (1, 2)]
    assert len(whole) > 3
    assert sorted(test for tests, _ in slices for test in tests) == sorted(whole)
    assert all(
        re.search(rf"slice {index} of 2: {len(tests)} tests", said) for index, (tests, said) in enumerate(slices, 1)
    )


def test_ci_passes_the_hash_on() -> None:
    """.ci/run tests a copy without a history: the hash is read beside the checkout, and given to pytest."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert script.index("rev-parse --verify HEAD") < script.index('cd "$copy"')
    assert script.rstrip().endswith('-m exhaustive --exhaustive-slice "$commit"')
