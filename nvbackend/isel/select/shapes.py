"""The shape of an instruction by its name, as requests take it: "m64n256k16"."""

from __future__ import annotations

import re

from nvbackend.diagnostics import Rule
from nvbackend.diagnostics.classes.late_pattern import late_pattern

SHAPE_TEXT = Rule(
    id="mma.shape",
    message="{given!r} is not the name of an instruction shape",
    fix='write it as PTX does: "{like}"',
    why="Nothing can be selected for it.",
    reference="PTX ISA 9.7.14.1 (mma shapes), 9.7.15.2 (wgmma shapes)",
)
_SHAPE = late_pattern(r"m([0-9]{1,9})n([0-9]{1,9})k([0-9]{1,9})")


def shape_extents(shape: str) -> tuple[int, int, int]:
    """M, N and K of a shape by its name, "m64n256k16" (mma.shape for another text)."""
    match = _SHAPE.fullmatch(shape) if isinstance(shape, str) else None
    if match is None:
        extents = re.findall("[0-9]{1,9}", str(shape))
        m, n, k = extents if len(extents) == 3 else (64, 256, 16)
        SHAPE_TEXT.fail(given=shape, like=f"m{m}n{n}k{k}")
    m, n, k = (int(extent) for extent in match.groups())
    return m, n, k
