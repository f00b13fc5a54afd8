"""Names of values in the text of LLVM IR."""

from __future__ import annotations

NAME = r'%(?:"[^"]*"|[\w.$-]+)'
"""The pattern of a value's name."""


def unused_prefix(ir: str, stem: str) -> str:
    """`stem`, or a longer word, that no name of a value in `ir` begins with."""
    while f"%{stem}." in ir or f'%"{stem}.' in ir:
        stem += "_"
    return stem
