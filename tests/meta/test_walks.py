"""How many files a reader opens to follow one thing through a call: no more than today."""

from __future__ import annotations

import re

import pytest

from tests.support.process import python_output

MOST = {
    "an operand of accumulate to the asm text": 11,
    "the row of an mma through emit": 6,
    "the row of a TMA load through emit": 6,
    "a request through select": 2,
    "the source of a TMA load": 6,
}
CROSSED = {
    "an operand of accumulate to the asm text": {"builder/core/memory.py", "builder/lower/lowering.py"},
    "the row of an mma through emit": {"isel/select/rows.py", "builder/lower/lowering.py"},
    "the row of a TMA load through emit": {"isel/select/rows.py", "builder/lower/lowering.py"},
    "a request through select": {"isel/target/target.py"},
    "the source of a TMA load": {"builder/core/core.py", "builder/lower/lowering.py"},
}
"""Files without which a walk was not followed to its end."""


@pytest.fixture(scope="module")
def walks() -> dict[str, set[str]]:
    """In a process of its own: what is cached is not called a second time."""
    printed = python_output("from tests.support.walks import main; main()")
    found = re.findall(r"^(\S.*): \d+ files\n((?: +\S+\n?)+)", printed, re.MULTILINE)
    return {title: set(files.split()) for title, files in found}


@pytest.mark.parametrize("title", MOST)
def test_a_walk_crosses_few_files(walks: dict[str, set[str]], title: str) -> None:
    assert walks[title] >= CROSSED[title]
    assert len(walks[title]) <= MOST[title], sorted(walks[title])
