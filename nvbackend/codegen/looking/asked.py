"""What a program's environment asks to see of each kernel that it compiles."""

from __future__ import annotations

import os

DUMP = "NVBACKEND_DUMP"
"""Every form of it, in folders of this one."""
LOG = "NVBACKEND_LOG"
"""A line, on stderr or in a file."""


def asked(variable: str) -> str:
    """The value of the variable, empty where it is not set: what answers it need not be imported then."""
    return os.environ.get(variable, "")
