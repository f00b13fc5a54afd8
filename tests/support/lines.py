"""LLVM IR without the user's lines, for kernels that are the same and are written in two places."""

from __future__ import annotations

import re

_DBG = re.compile(r",? !dbg !\d+")
_METADATA = re.compile(r"^!(?:llvm\.|nvbackend\.|\d+ = (?:distinct )?!DI).*\n?", re.MULTILINE)


def without_lines(text: str) -> str:
    """The IR as it would be if no instruction said where it comes from."""
    return _METADATA.sub("", _DBG.sub("", text))
