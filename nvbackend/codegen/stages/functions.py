"""The functions of an LLVM IR text."""

from __future__ import annotations


def split_functions(ir: str, head: str) -> list[str]:
    """The text before the first function that begins with these words, that function, the text after it, and so on."""
    text, parts, done = f"\n{ir}\n", list[str](), 1
    begin = text.find(f"\n{head}")
    while begin >= 0 and (end := text.find("\n}\n", begin + len(head))) >= 0:
        after = text[begin + 1 + len(head)]
        if after.isalnum() or after == "_":  # another word
            begin = text.find(f"\n{head}", begin + 1)
            continue
        parts += [text[done : begin + 1], text[begin + 1 : end + 2]]
        done = end + 2
        begin = text.find(f"\n{head}", done)
    return [*parts, text[done:-1]]
