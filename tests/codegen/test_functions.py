"""Functions of an IR text: those that a pattern finds, line by line."""

from __future__ import annotations

import random
import re

import pytest

from nvbackend.codegen.stages.functions import split_functions

LINES = [
    "define void @a() {",
    "define ptx_kernel void @k()",
    "define",
    "define_1",
    "defined",
    " define x",
    "}",
    "} ",
    " }",
    "",
    "{",
]
SEEDS = range(300)


@pytest.mark.parametrize("head", ["define", "define ptx_kernel"])
def test_they_are_those_of_the_pattern(head: str) -> None:
    found = 0
    for seed in SEEDS:
        drawn = random.Random(seed)
        text = "\n".join(drawn.choices(LINES, k=drawn.randrange(12)))
        parts = re.split(rf"^({head}\b.*?^\}})$", text, flags=re.MULTILINE | re.DOTALL)
        assert split_functions(text, head) == parts
        found += len(parts) // 2
    assert found > len(SEEDS) // 16
