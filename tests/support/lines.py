"""LLVM IR without the user's lines, for kernels that are the same and are written in two places."""

from __future__ import annotations

import re

_DBG = re.compile(r",? !dbg !\d+")
_CALLER = r"\{ ?(?:i32 -?\d+, ){4}!\""  # a line in the table of those that call others
_METADATA = re.compile(rf"^!(?:llvm\.|nvbackend\.|\d+ = (?:(?:distinct )?!DI|!{_CALLER})).*\n?", re.MULTILINE)
_PLACES = re.compile(r"^\t\.loc\t[^\n]*\n|^\t\.section\t\.debug_str\n\t\{.*?\}\n", re.MULTILINE | re.DOTALL)


def without_lines(text: str) -> str:
    """The IR as it would be if no instruction said where it comes from."""
    return _METADATA.sub("", _DBG.sub("", text))


def without_places(ptx: str) -> str:
    """The PTX without its `.loc` and the names of functions in them."""
    return _PLACES.sub("", ptx)
