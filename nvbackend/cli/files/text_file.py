"""Files that a command reads: what is in them, or why that cannot be read."""

from __future__ import annotations

from pathlib import Path

from nvbackend.diagnostics import Rule


def content_of(file: str, rule: Rule, fix: str) -> bytes:
    """What is in a file. Raises `rule`, which has a problem and a fix."""
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as error:  # a name with a zero byte
        rule.fail(problem=f"{_shown(file)} cannot be read: {getattr(error, 'strerror', error)}", fix=fix)


def text_of(file: str, rule: Rule, fix: str) -> str:
    """The text of a file. Raises `rule`, which has a problem and a fix."""
    try:
        return content_of(file, rule, fix).decode("utf-8")
    except UnicodeDecodeError:
        rule.fail(problem=f"{_shown(file)} is not text", fix=fix)


def _shown(file: str) -> str:
    return file if file.isprintable() and file else repr(file)
