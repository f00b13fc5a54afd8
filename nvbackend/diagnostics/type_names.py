"""What other languages and libraries call the element types."""

from __future__ import annotations

import re

_NAMES = {"half": "f16", "float": "f32", "double": "f64", "int": "s32", "bool": "pred"}
_OTHER_SPELLING = re.compile(r"(float|bfloat|int|uint|f|bf|s|i|u)(8|16|32|64)$")
_LETTER = {"float": "f", "bfloat": "bf", "int": "s", "uint": "u", "i": "s"}
_FLOATS = ("f16", "f32", "f64", "bf16")


def element_name(other: str) -> str | None:
    """The element type that NumPy, PyTorch, C or Python calls `other`, as `nvb.f32`; None where nothing is meant."""
    if other in _NAMES:
        return f"nvb.{_NAMES[other]}"
    match = _OTHER_SPELLING.match(other)
    if match is None:
        return None
    name = f"{_LETTER.get(match[1], match[1])}{match[2]}"
    return f"nvb.{name}" if name[0] in "su" or name in _FLOATS else None
