"""ld, ld.global.nc and st as PTX, axes crossed, from the PTX ISA's syntax; each variant with how its row is asked for.

Left out is what says the same as another: `.weak`, generic addresses, and types of numbers in place of bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from nvbackend.intrinsics.copy import load_store
from nvbackend.intrinsics.copy.load_store import Caching
from tests.support.async_text import SCOPES, Variant, register_list

OPERATORS = (None, "ca", "cg", "cs", "lu", "cv", "wb", "wt")
PRIORITIES = ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
ORDERS = (
    ("weak", None),
    ("volatile", None),
    *product(("relaxed", "acquire", "release"), SCOPES),
)
FORMS = (*product(("b8", "b16", "b32", "b64"), (1, 2, 4)), ("b32", 8), ("b64", 8))
BITS = {"b8": 8, "b16": 16, "b32": 32, "b64": 64}


def _variant(opcode: str, order: tuple[str, str | None], space: str, form: tuple[str, int], **rest: object) -> Variant:
    caching = Caching(*(rest.get(name) for name in ("operator", "l1", "l2", "prefetch")), bool(rest.get("policy")))  # type: ignore[arg-type]
    constant = bool(rest.get("constant"))
    type, count = form
    words = [
        *(opcode, None if order[0] == "weak" else order[0], order[1], space, caching.operator),
        "nc" if constant else None,
        *(f"{level}::{one}" if one else None for level, one in (("L1", caching.l1), ("L2", caching.l2))),
        "L2::cache_hint" if caching.policy else None,
        f"L2::{caching.prefetch}B" if caching.prefetch else None,
        f"v{count}" if count > 1 else None,
        type,
    ]
    at = "[%rd1]" if space == "global" else "[%r1]"
    values = register_list("b16" if type == "b8" else type, count)
    operands = [values, at] if opcode == "ld" else [at, values]
    statement = ".".join(one for one in words if one) + " " + ", ".join([*operands, *["%rd20"] * caching.policy]) + ";"
    return Variant(
        statement,
        lambda: load_store.access(
            *(opcode, type, count), order=order[0], scope=order[1], space=space, caching=caching, constant=constant
        ),
    )


def orders() -> Iterator[Variant]:
    """Every order, scope, state space and form, without a hint."""
    for opcode, order, space, form in product(("ld", "st"), ORDERS, ("global", "shared", "shared::cluster"), FORMS):
        if _is_whole(form):
            yield _variant(opcode, order, space, form)
    yield from (
        _variant("ld", order, "global", form, constant=True)
        for order, form in product(ORDERS, FORMS)
        if _is_whole(form)
    )


def _is_whole(form: tuple[str, int]) -> bool:
    """ptxas takes vectors of bytes and of 16 bits too, for which registers of 32 bits are used."""
    return form[1] == 1 or BITS[form[0]] > 16


def hints() -> Iterator[Variant]:
    """Every hint with every other, of some orders, of a word and of 32 bytes."""
    some = (("weak", None), ("volatile", None), ("acquire", "cluster"), ("release", "sys"))
    firsts = [(operator, None) for operator in OPERATORS] + [(None, l1) for l1 in PRIORITIES] + [("cs", "evict_last")]
    for order, (operator, l1), l2 in product(some, firsts, (None, *PRIORITIES[:3])):
        for prefetch, policy, form in product((None, 64, 256), (False, True), (("b32", 1), ("b32", 8))):
            told = {"operator": operator, "l1": l1, "l2": l2, "prefetch": prefetch, "policy": policy}
            yield _variant("st", order, "global", form, **told)
            for constant in (False, True):
                yield _variant("ld", order, "global", form, constant=constant, **told)


def of_shared_memory() -> Iterator[Variant]:
    """Every hint alone, of shared memory."""
    for opcode, space in product(("ld", "st"), ("shared", "shared::cluster")):
        for told in (
            *({"operator": one} for one in OPERATORS[1:]),
            *({level: one} for level in ("l1", "l2") for one in PRIORITIES),
            *({"prefetch": one} for one in (64, 128, 256)),
            {"policy": True},
        ):
            yield _variant(opcode, ("weak", None), space, ("b32", 1), **told)


FAMILIES = {"load_store_orders": orders, "load_store_hints": hints, "load_store_shared": of_shared_memory}
_VOLATILE = "the PTX ISA gives volatile accesses no eviction priority"
_SHARED = "shared memory is not behind a cache, so that a cache operator says nothing"
UNDOCUMENTED = {
    **{each.text: _VOLATILE for each in hints() if ".volatile." in each.text and ".L2::evict" in each.text},
    **{each.text: _SHARED for each in of_shared_memory()},
}
"""What ptxas takes and no row stands for, and why."""
