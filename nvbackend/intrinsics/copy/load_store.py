"""Rows of ld and st that say more than LLVM's own loads and stores: a memory order, or what the caches do.

PTX ISA 9.7.9 (ld, ld.global.nc, st). By asm: LLVM has no way to say the hints, and splits vectors that have an order.
Values are bits, of 8 to 64 each: 8-bit ones lie in the lower half of a register of 16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.diagnostic import printed
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import (
    Asm,
    Effect,
    NoSuchRow,
    PtxVersion,
    RegisterClass,
    Row,
    RowOperand,
    chosen,
    operand,
    output,
    spelled,
)
from nvbackend.intrinsics.row.semantics import SCOPES as GROUPS
from nvbackend.intrinsics.row.semantics import Scope, Semantics, reads, writes

FAMILY = "load_store"
SCOPES = ("cta", "cluster", "gpu", "sys")
ACCESS_BYTES = (1, 2, 4, 8, 16)
"""Bytes that one thread can read or write with one instruction (PTX ISA 9.7.9.8, ld)."""
LOAD, STORE = "ld", "st"
ORDERS = {LOAD: ("relaxed", "acquire"), STORE: ("relaxed", "release")}
"""Memory orders that have a scope."""
WEAK, VOLATILE = "weak", "volatile"
"""Those without: weak accesses are ordered with nothing; volatile ones are relaxed at system scope, and all happen."""
SPACES: dict[str, RegisterClass] = {
    "global": RegisterClass.GLOBAL,
    "shared": RegisterClass.SHARED,
    "shared::cluster": RegisterClass.SHARED_CLUSTER,
}
OPERATORS = {LOAD: ("ca", "cg", "cs", "lu", "cv"), STORE: ("wb", "cg", "cs", "wt")}
"""Cache operators. Of non-coherent loads ca, cg and cs."""
_COHERENT_ONLY = ("lu", "cv")
L1_PRIORITIES = ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
L2_PRIORITIES = ("evict_normal", "evict_first", "evict_last")
"""Eviction priorities; those of L2 are of 32-byte accesses alone."""
PREFETCHES = (64, 128, 256)
"""Bytes around what is loaded that L2 may fetch as well."""
FORMS: dict[int, tuple[tuple[str, int], ...]] = {
    1: (("b8", 1),),
    2: (("b16", 1),),
    4: (("b32", 1),),
    8: (("b32", 2), ("b64", 1)),
    16: (("b32", 4), ("b64", 2)),
    32: (("b32", 8), ("b64", 4)),
}
"""By bytes of an access: the types and counts of its registers."""
WIDE_BYTES = 32
"""The bytes of an access that sm_100 has first, in global memory."""
WIDE_FEATURE, WIDE_PTX = Feature.SM_100, (8, 8)
_REGISTERS = {
    "b8": RegisterClass.B16,
    "b16": RegisterClass.B16,
    "b32": RegisterClass.B32,
    "b64": RegisterClass.B64,
}
_HINTS_PTX: PtxVersion = (7, 4)
_CLUSTER_PTX: PtxVersion = (7, 8)


@dataclass(frozen=True, slots=True)
class Caching:
    """What an access asks of the caches: a cache operator, or eviction priorities; for L2 a prefetch, and a policy."""

    operator: str | None = None
    l1: str | None = None
    l2: str | None = None
    prefetch: int | None = None
    policy: bool = False

    @property
    def spelled(self) -> tuple[str | None, ...]:
        """The qualifiers after the state space, in PTX's order."""
        return (
            f"L1::{self.l1}" if self.l1 else None,
            f"L2::{self.l2}" if self.l2 else None,
            "L2::cache_hint" if self.policy else None,
            f"L2::{self.prefetch}B" if self.prefetch else None,
        )


PLAIN = Caching()


def fault(opcode: str, order: str, space: str, bytes: int, caching: Caching, *, constant: bool = False) -> str | None:
    """Why no access is like this, for a diagnostic; None if there is one. The words themselves are legal."""
    kind = {LOAD: "load", STORE: "store"}[opcode]
    hints = " and ".join(hint for hint in (caching.operator and f".{caching.operator}", *caching.spelled) if hint)
    problems = (
        *_of_size(space, bytes, caching, hints),
        (caching.operator and caching.l1, f"it cannot have both .{caching.operator} and L1::{caching.l1}"),
        (
            order != WEAK and caching.operator,
            f"a {kind} with order {order!r} cannot have the cache operator .{caching.operator}",
        ),
        (order == VOLATILE and (caching.l1 or caching.l2 or caching.policy), f"a volatile {kind} cannot have {hints}"),
        (opcode == STORE and caching.prefetch, "a store prefetches nothing"),
        (constant and order != WEAK, f"memory that nothing writes is not read with order {order!r}"),
        (
            constant and caching.operator in _COHERENT_ONLY,
            f"a non-coherent load cannot have the cache operator .{caching.operator}",
        ),
    )
    return next((problem for holds, problem in problems if holds), None)


def _of_size(space: str, bytes: int, caching: Caching, hints: str) -> Iterator[tuple[object, str]]:
    shared = space != "global"
    yield hints and shared, f"{hints} is for global memory; this is shared memory, which has no cache"
    yield bytes == WIDE_BYTES and shared, f"{WIDE_BYTES} bytes go at once to global memory only"
    yield (
        caching.l2 and bytes != WIDE_BYTES,
        f"L2::{caching.l2} is for accesses of {WIDE_BYTES} bytes, and this one is of {bytes}",
    )


def _gate(space: str, scope: str | None, bytes: int, caching: Caching) -> tuple[Feature, PtxVersion]:
    features, version = Feature.NONE, (6, 0)
    if caching.l1:
        version = _HINTS_PTX
    if caching.prefetch:
        features, version = features | (Feature.SM_80 if caching.prefetch == 256 else Feature.SM_75), _HINTS_PTX
    if caching.policy:
        features, version = features | Feature.SM_80, _HINTS_PTX
    if scope == "cluster" or space == "shared::cluster":
        features, version = features | Feature.SM_90, _CLUSTER_PTX
    if bytes == WIDE_BYTES:
        features, version = features | WIDE_FEATURE, WIDE_PTX
    return features, version


def _semantics(opcode: str, order: str, scope: str | None, space: str, bytes: int) -> Semantics:
    memory = reads("address", bytes) if opcode == LOAD else writes("address", bytes)
    group = Scope.THREAD if order == WEAK else GROUPS[scope or "sys"]
    return Semantics(
        acquires=group if opcode == LOAD else Scope.THREAD,
        releases=group if opcode == STORE else Scope.THREAD,
        memory=(memory,),
        in_peer=space == "shared::cluster",
        atomic=order != WEAK,
    )


@cache
def access(
    opcode: str,
    type: str,
    count: int = 1,
    *,
    order: str = WEAK,
    scope: str | None = None,
    space: str = "global",
    caching: Caching = PLAIN,
    constant: bool = False,
) -> Row:
    """ld or st of `count` values at `address`; `constant` is ld.global.nc, of memory that nothing writes meanwhile.

    Raises NoSuchRow for axes that no instruction has.
    """
    _check(opcode, order, scope, caching)
    bytes = int(chosen("type", type, _REGISTERS)[1:]) // 8 * count
    chosen("registers", (type, count), FORMS.get(bytes, ()))
    chosen("constant", constant, (False, True) if opcode == LOAD and space == "global" else (False,))
    problem = fault(opcode, order, chosen("space", space, SPACES), bytes, caching, constant=constant)
    if problem is not None:
        raise NoSuchRow(problem)
    features, version = _gate(space, scope, bytes, caching)
    return Row(
        family=FAMILY,
        opcode=opcode,
        ptx=spelled(*_words(opcode, order, scope, space, caching, constant), f"v{count}" if count > 1 else None, type),
        operands=_operands(opcode, type, count, space, caching),
        lowering=_asm(opcode, count, caching),
        requires=features,
        ptx_version=version,
        effects=_effects(opcode, order),
        semantics=_semantics(opcode, order, scope, space, bytes),
        section=f"9.7.9 ({opcode}.global.nc)" if constant else f"9.7.9 ({opcode})",
        summary=_SUMMARIES[opcode],
        axes={
            "type": type,
            "count": count,
            "order": order,
            "scope": scope,
            "space": space,
            "cache_operator": caching.operator,
            "l1": caching.l1,
            "l2": caching.l2,
            "prefetch": caching.prefetch,
            "cache_hint": caching.policy,
            "constant": constant,
        },
    )


def _check(opcode: str, order: str, scope: str | None, caching: Caching) -> None:
    """Raises NoSuchRow for words that there are not."""
    if not isinstance(caching, Caching):
        raise NoSuchRow(f"caching cannot be {printed(caching)}, only a Caching")
    chosen("opcode", opcode, ORDERS)
    chosen("order", order, (WEAK, VOLATILE, *ORDERS[opcode]))
    chosen("scope", scope, SCOPES if order in ORDERS[opcode] else (None,))
    chosen("cache operator", caching.operator, (None, *OPERATORS[opcode]))
    chosen("L1 priority", caching.l1, (None, *L1_PRIORITIES))
    chosen("L2 priority", caching.l2, (None, *L2_PRIORITIES))
    chosen("prefetch", caching.prefetch, (None, *PREFETCHES))


def _words(
    opcode: str, order: str, scope: str | None, space: str, caching: Caching, constant: bool
) -> Iterator[str | None]:
    yield from (opcode, None if order == WEAK else order, scope, space, caching.operator)
    yield "nc" if constant else None
    yield from caching.spelled


def _effects(opcode: str, order: str) -> Effect:
    touched = Effect.READS_MEMORY if opcode == LOAD else Effect.WRITES_MEMORY
    return touched if order in (WEAK, "relaxed") else touched | Effect.ORDERS


_SUMMARIES = {
    LOAD: "Loads from memory with a memory order, or with hints to the caches.",
    STORE: "Stores to memory with a memory order, or with hints to the caches.",
}


def _operands(opcode: str, type: str, count: int, space: str, caching: Caching) -> tuple[RowOperand, ...]:
    address = operand("address", SPACES[space], meaning=f"in {space} memory, aligned to all of the access")
    policy = (
        (operand("cache_policy", RegisterClass.B64, meaning="L2 eviction policy", rule="cache.policy"),)
        if caching.policy
        else ()
    )
    if opcode == LOAD:
        return (output("values", _REGISTERS[type], count), address, *policy)
    return (address, operand("values", _REGISTERS[type], count), *policy)


def _asm(opcode: str, count: int, caching: Caching) -> Asm:
    values = "{{{values}}}" if count > 1 else "{values}"
    policy = ", {cache_policy}" if caching.policy else ""
    return Asm("{ptx} " + (f"{values}, [{{address}}]" if opcode == LOAD else f"[{{address}}], {values}") + f"{policy};")


def orders(opcode: str) -> Iterator[tuple[str, str | None]]:
    """Every memory order with its scope, None where it has none."""
    yield from ((WEAK, None), (VOLATILE, None))
    yield from ((order, scope) for order in ORDERS[opcode] for scope in SCOPES)


def cachings(opcode: str) -> Iterator[Caching]:
    """Everything that an access can ask of the caches, whatever its order."""
    priorities = [(operator, None) for operator in (None, *OPERATORS[opcode])] + [(None, l1) for l1 in L1_PRIORITIES]
    for operator, l1 in priorities:
        for l2 in (None, *L2_PRIORITIES):
            for prefetch in (None, *PREFETCHES):
                yield from (Caching(operator, l1, l2, prefetch, policy) for policy in (False, True))


def _made(wanted: Callable[[str, str, Caching, tuple[str, int]], bool]) -> Iterator[Row]:
    """Every row that is `wanted`, by its order, scope, caching and form."""
    for opcode, (order, scope), space, caching in _choices():
        for constant in (False, True) if opcode == LOAD and space == "global" else (False,):
            for bytes, forms in FORMS.items():
                kept = [form for form in forms if wanted("nc" if constant else order, scope or "", caching, form)]
                if kept and fault(opcode, order, space, bytes, caching, constant=constant) is None:
                    for form in kept:
                        yield access(
                            *(opcode, *form),
                            order=order,
                            scope=scope,
                            space=space,
                            caching=caching,
                            constant=constant,
                        )


def _choices() -> Iterator[tuple[str, tuple[str, str | None], str, Caching]]:
    for opcode in ORDERS:
        for order in orders(opcode):
            for space in SPACES:
                yield from ((opcode, order, space, caching) for caching in cachings(opcode))


def combinations() -> Iterator[Row]:
    """Every row there is: ten thousand."""
    return _made(lambda order, _scope, caching, _form: order != WEAK or caching != PLAIN)


def rows() -> Iterator[Row]:
    """Rows of which the others are combinations: every size in each order and space, every hint with every other."""
    return iter(_basic())


@cache
def _basic() -> tuple[Row, ...]:
    """As `rows`: to find them, ten times as many are looked at."""
    return tuple(_made(_is_basic))


def _is_basic(order: str, scope: str, caching: Caching, form: tuple[str, int]) -> bool:
    if caching == PLAIN:
        return order != WEAK
    return form == ("b32", 8 if caching.l2 else 1) and scope in ("", "gpu")
