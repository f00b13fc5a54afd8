"""What each breaking program prints, word for word, so that a change of a text is read before it is committed."""

from __future__ import annotations

import re
from itertools import groupby

import pytest

from tests.rules.example import Example, Side
from tests.rules.registry import examples, family_of
from tests.support.golden import Golden
from tests.support.process import ROOT

BY_FAMILY = {
    family: list(shown)
    for family, shown in groupby(sorted(examples(), key=lambda one: one.rule), lambda one: family_of(one.rule))
}


@pytest.mark.parametrize("family", BY_FAMILY)
def test_diagnostics(family: str, golden: Golden) -> None:
    golden.check(f"{family}.txt", "\n".join(map(printed, BY_FAMILY[family])))


def printed(example: Example) -> str:
    """The diagnostics of the breaking program; line numbers count from the example's first line."""
    first = example.lines.start
    file = re.escape(example.file)
    text = "\n".join(map(str, example.diagnostics(Side.BREAKS)))
    text = re.sub(r"\n *called from \S*/tests/rules/(example|test_diagnostics)[.]py[^\n]*", "", text)  # this test's own
    text = re.sub(rf"{file}:(\d+)", lambda found: f"{example.rule}:{int(found[1]) - first}", text)
    text = re.sub(
        r"\bline (\d+)\b",
        lambda found: f"line {int(found[1]) - first}" if int(found[1]) in example.lines else found[0],
        text,
    )
    text = re.sub(r" at 0x[0-9a-f]+>", ">", text)
    return f"{text.replace(str(ROOT), '.')}\n"
