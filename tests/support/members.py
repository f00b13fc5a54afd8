"""What classes have, as it is written there."""

from __future__ import annotations

import inspect
from typing import Any


def member_of(cls: type, name: str) -> Any:
    """The member with this name, without asking a property; a method that is made at its first use is made now."""
    getattr(cls, name, None)
    return inspect.getattr_static(cls, name)
