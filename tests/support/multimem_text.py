"""multimem as PTX, axes crossed, from the PTX ISA's syntax; each variant with how its row is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from nvbackend.intrinsics.copy import multimem
from nvbackend.intrinsics.row.row import NoSuchRow, Row
from tests.support.async_text import Variant, register_list

OPERATIONS = ("add", "min", "max", "and", "or", "xor", "inc")
TYPES = (
    *("b32", "b64", "u32", "u64", "s32", "s64", "f16", "f16x2", "bf16", "bf16x2", "f32", "f64", "b16"),
    *("e5m2", "e5m2x2", "e5m2x4", "e4m3", "e4m3x2", "e4m3x4"),
)
VECTORS = (1, 2, 4, 8, 16)
ACCUMULATORS = (None, "f16", "f32", "f64")
SEMANTICS = (None, "weak", "relaxed", "acquire", "release", "acq_rel")
SCOPES = (None, "cta", "cluster", "gpu", "sys")
FORMS = (("add", "u32", 1), ("add", "f32", 4), ("add", "bf16", 8), ("add", "e4m3", 4), ("max", "s64", 1))
"""What the orders and spaces are crossed with: operation, type and vector of one kind of register each."""


def _statement(opcode: str, qualifiers: tuple[str | None, ...], element: str, vector: int) -> str:
    name = ".".join((opcode, *(one for one in qualifiers if one), *([f"v{vector}"] if vector > 1 else []), element))
    values = register_list(element, vector)
    return f"{name} {values}, [%rd1];" if opcode == "multimem.ld_reduce" else f"{name} [%rd1], {values};"


def forms() -> Iterator[Variant]:
    """Every operation, type, vector and accumulator, in the plainest order."""
    for element, vector in product(TYPES, VECTORS):
        yield Variant(
            _statement("multimem.st", ("global",), element, vector),
            lambda e=element, v=vector: multimem.store(e, v),
        )
        for operation in OPERATIONS:
            yield Variant(
                _statement("multimem.red", ("global", operation), element, vector),
                lambda o=operation, e=element, v=vector: multimem.reduce(o, e, v),
            )
            for wide in ACCUMULATORS:
                yield Variant(
                    _statement("multimem.ld_reduce", ("global", operation, wide and f"acc::{wide}"), element, vector),
                    lambda o=operation, e=element, v=vector, w=wide: multimem.load_reduce(o, e, v, accumulator=w),
                )


def orders() -> Iterator[Variant]:
    """Every order and state space, of a few forms."""
    for semantics, scope, space in product(SEMANTICS, SCOPES, (None, "global", "shared")):
        order = tuple(one for one in (semantics, scope) if one)
        axes = {"order": order, "space": space}
        for operation, element, vector in FORMS:
            yield Variant(
                _statement("multimem.st", (*order, space), element, vector),
                lambda e=element, v=vector, a=axes: multimem.store(e, v, **a),
            )
            yield Variant(
                _statement("multimem.red", (*order, space, operation), element, vector),
                lambda o=operation, e=element, v=vector, a=axes: multimem.reduce(o, e, v, **a),
            )
            yield Variant(
                _statement("multimem.ld_reduce", (*order, space, operation), element, vector),
                lambda o=operation, e=element, v=vector, a=axes: multimem.load_reduce(o, e, v, **a),
            )


NEWER_PTX = {
    f"multimem.cp.{name} [%rd1], [%r1], %r2{mask};": "multimem.cp.* needs PTX 9.1, and LLVM prints 9.0"
    for name, mask in (
        ("async.bulk.global.shared::cta.bulk_group", ""),
        ("async.bulk.global.shared::cta.bulk_group.cp_mask", ", %rs1"),
        *(
            (f"reduce.async.bulk.global.shared::cta.bulk_group.{operation}", "")
            for operation in ("add.u32", "add.noftz.f16", "add.noftz.bf16", "add.f32", "min.s64", "and.b32")
        ),
    )
}
"""What ptxas takes in a later PTX version than LLVM prints, for which there is no row, and why."""


def copies() -> Iterator[Variant]:
    """The bulk copies that have no row, and so are illegal."""
    for text in NEWER_PTX:
        yield Variant(text, lambda t=text: _without_row(t))


def _without_row(text: str) -> Row:
    raise NoSuchRow(NEWER_PTX[text])


UNDOCUMENTED = {
    _statement("multimem.red", ("global", operation), element, vector): "floats have addition alone (.redop)"
    for operation in ("min", "max")
    for element, vectors in (("f16", (2, 4, 8)), ("bf16", (2, 4, 8)), ("f16x2", (2, 4)), ("bf16x2", (2, 4)))
    for vector in vectors
}
"""What ptxas takes and no row stands for, and why."""
