"""atom and red as PTX, axes crossed, from the PTX ISA's syntax; each variant with how its row is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.sync import atomics
from tests.support.async_text import Variant, register_list

OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")
TYPES = ("b16", "b32", "b64", "u16", "u32", "u64", "s32", "s64", "f16", "bf16", "f16x2", "bf16x2", "f32", "f64")
VECTORS = (1, 2, 4, 8)
SPACES = ("global", "shared", "shared::cluster")
ORDERS = ("weak", "relaxed", "acquire", "release", "acq_rel", "volatile")
SCOPES = ("cta", "cluster", "gpu", "sys")
FORMS = (
    ("add", "u32", 1),
    ("min", "s64", 1),
    ("add", "f16x2", 1),
    ("exch", "b64", 1),
    ("cas", "b16", 1),
    ("add", "f32", 4),
)
"""What orders, scopes and spaces are crossed with."""


def _variant(operation: str, element: str, vector: int, **axes: object) -> Variant:
    returns, order, scope, space = (axes[name] for name in ("returns", "order", "scope", "space"))
    rounded = (".noftz",) if element.lstrip("b").startswith("f16") else ()
    instruction = "atom" if returns else "red"
    name = f"{instruction}.{order}.{scope}.{space}.{operation}{''.join(rounded)}{f'.v{vector}' if vector > 1 else ''}"
    values = register_list(element, vector)
    given = ", ".join([values] * (2 if operation == "cas" else 1))
    old = f"{values}, " if returns else ""
    address = "%rd1" if space == "global" else "%r1"

    def row() -> Row:
        return atomics.atomic(operation, element, vector, **axes)  # type: ignore[arg-type]

    return Variant(f"{name}.{element} {old}[{address}], {given};", row)


def forms() -> Iterator[Variant]:
    """Every operation, type and vector, relaxed."""
    for operation, element, vector, returns, space in product(OPERATIONS, TYPES, VECTORS, (True, False), SPACES):
        if vector == 1 or operation in ("add", "min", "max"):
            yield _variant(operation, element, vector, order="relaxed", scope="gpu", space=space, returns=returns)


def orders() -> Iterator[Variant]:
    """Every order, scope and state space, of a few forms."""
    for order, scope, space, returns in product(ORDERS, SCOPES, SPACES, (True, False)):
        for form in FORMS:
            yield _variant(*form, order=order, scope=scope, space=space, returns=returns)
