"""Names of source files in plain ASCII, as the `.file` of a PTX text needs them."""

from __future__ import annotations

import re

_ENCODED = re.compile(rb'[^ -~]|["\\%]|(?<=/)/')
_BYTE = re.compile(r"%([0-9A-F]{2})")
_NAMELESS = "<nameless>"


def ascii_path(path: str) -> str:
    """`path` with `%` and two hex digits for each byte of UTF-8 that an assembler or LLVM does not leave as it is.

    ptxas refuses bytes that are not ASCII and ends a name at any `"`; LLVM takes `//` for `/`, and no empty name.
    """
    encoded = _ENCODED.sub(lambda match: b"%%%02X" % match[0][0], path.encode("utf-8", "surrogatepass"))
    return encoded.decode("ascii") or _NAMELESS


def plain_path(name: str) -> str:
    """The path that `ascii_path` gave `name` for; a name from elsewhere as it is, unless it has such digits too."""
    encoded = _BYTE.sub(lambda match: chr(int(match[1], 16)), name)
    try:
        return encoded.encode("latin-1").decode("utf-8", "surrogatepass")
    except UnicodeError:
        return name
