"""Random texts: legal ones with a few letters changed, numbers of any size, brackets of any depth."""

from __future__ import annotations

import random
from collections.abc import Sequence

PIECES = (
    *(
        "(",
        ")",
        ",",
        ":",
        "_",
        "-",
        "<",
        ">",
        "[",
        "]",
        "{",
        "}",
        ".",
        "::",
        " ",
        "\n",
        "\t",
        "\x00",
        "%",
        "$",
        "@",
        "#",
    ),
    *("0", "1", "7", "64", "-1", "9" * 30, "9" * 5000, "1e9", "0x1F", "e", "x", "é", "٣", "²", "inf", "nan", '"', "\\"),
    *("_(", "((((", "))))", "Sw<", "smem_ptr", " o ", "m64", "n8", "k16", "sm_", "a", "f16", "row", "col", "//", "/*"),
)


def changed(rng: random.Random, text: str) -> str:
    """`text` with some of it dropped, doubled, turned round, or replaced by pieces of any kind."""
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 1, 1, 2, 5, 40)))
        part = text[start:end]
        replaced = rng.choice(
            ("", part * 2, part[::-1], rng.choice(PIECES), rng.choice(PIECES) + part, part.swapcase())
        )
        text = text[:start] + replaced + text[end:]
    return text


def nested(rng: random.Random) -> str:
    """Brackets in brackets."""
    depth = rng.choice((3, 30, 300, 3000, 30000))
    return "(" * depth + rng.choice(("", "1", "_2")) + ")" * (depth + rng.choice((0, 0, -1, 1)))


def text_like(rng: random.Random, legal: Sequence[str]) -> str:
    """One of the legal texts, changed or not, or a text of nothing but pieces."""
    draw = rng.random()
    if draw < 0.1:
        return rng.choice(legal)
    if draw < 0.85:
        return changed(rng, rng.choice(legal))
    if draw < 0.9:
        return nested(rng)
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(12)))
