"""An instruction of PTX that gives what it takes, and that ptxas 12.9, 13.0 and 13.5 do not see through."""

from __future__ import annotations


def same_word(result: str, word: str) -> str:
    """The text that copies a word: every byte stays at its place."""
    return f"prmt.b32 {result}, {word}, 0, 0x3210;"


def same_half(result: str, half: str) -> str:
    """The text that copies 16 bits, in a scope that declares %word."""
    return f"cvt.u32.u16 %word, {half}; {same_word('%word', '%word')} cvt.u16.u32 {result}, %word;"
