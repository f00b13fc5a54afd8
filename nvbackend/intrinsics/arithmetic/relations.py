"""How two numbers compare, by the names that PTX and LLVM share."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

RELATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
