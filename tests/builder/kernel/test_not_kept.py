"""Why the next compile() of a definition builds its kernel again, where it does."""

from __future__ import annotations

import pytest

import nvbackend as nvb
from tests.support.compiled_again import BODY, Runs, compiled, in_module


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


NOT_KEPT = {
    "time.time": "import time\n" + BODY + "time.time()",
    "Random.random": "import random\n" + BODY + "random.random()",
    "what it changes": "N = [0]\ndef h():\n    N[0] += 1\n    return 1.0\n" + BODY + "h()",
    "h, which keeps its results": "import functools\n@functools.cache\ndef h(): return 1.0\n" + BODY + "h()",
    "the attribute __dict__": "class C: x = 1.0\n" + BODY + "C.__dict__['x']",
    "": BODY + "1.0",
}
"""What a kernel's function reads that cannot be compared."""


@pytest.mark.parametrize("read", NOT_KEPT)
def test_what_makes_the_next_compile_build_again_is_said(read: str, runs: Runs) -> None:
    definition = in_module(NOT_KEPT[read]).kernel
    first, second = compiled(definition), compiled(definition)
    assert (first.not_kept, second.not_kept) == (read, read)
    assert runs.count == (2 if read else 1)
    last = second.report().splitlines()[-1]
    assert last.endswith(f"the next compile() builds it again, as its function reads {read}" if read else "0.0 ms")
    assert compiled(definition, cache=nvb.Cache.disabled()).not_kept == "", "that was asked for"
