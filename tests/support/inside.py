"""Which files are the package's own, wherever its checkout is."""

from __future__ import annotations

import os
from pathlib import Path

import nvbackend

_PACKAGE = str(Path(nvbackend.__file__).parent) + os.sep


def is_inside(file: str) -> bool:
    """Whether it is a file of the package."""
    return file.startswith(_PACKAGE)
