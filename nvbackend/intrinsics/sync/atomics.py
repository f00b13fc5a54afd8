"""atom and red: read, change and write memory in one step. PTX ISA 9.7.13 (atom, red).

`atom` gives what was there before, `red` nothing. By asm, so that semantics, scope and state space are exactly those of
the row: LLVM has some of them, and puts fences around others. Operand names: `address`; `values`, the operands of the
change, one register an element; `expected`, what cas compares with; `old`, what was there. 128 bits are two registers,
the lower half first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from nvbackend.diagnostics.classes.dataclass import dataclass
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
from nvbackend.intrinsics.row.semantics import SCOPES, Scope, Semantics, reads, writes
from nvbackend.intrinsics.row.types import ElementType, s32, s64

FAMILY = "atomics"
ATOM, RED = "atom", "red"
ADDRESS = "address"
EXCHANGE, CAS = "exch", "cas"
ORDERS = ("relaxed", "acquire", "release", "acq_rel")
"""Semantics of atom."""
RED_ORDERS = ("relaxed", "release")
"""Semantics of red, which reads nothing that a thread could go on by."""
SPACES: dict[str, RegisterClass] = {
    "global": RegisterClass.GLOBAL,
    "shared": RegisterClass.SHARED,
    "shared::cluster": RegisterClass.SHARED_CLUSTER,
}


@dataclass(frozen=True, slots=True)
class AtomicElement:
    """A type: the registers of one value, its bits, the type of a value in a register, the vectors there are of it."""

    register: RegisterClass
    bits: int
    held: ElementType | None = None
    registers: int = 1
    vectors: tuple[int, ...] = ()


ELEMENTS: dict[str, AtomicElement] = {
    "b16": AtomicElement(RegisterClass.B16, 16),
    "b32": AtomicElement(RegisterClass.B32, 32),
    "b64": AtomicElement(RegisterClass.B64, 64),
    "b128": AtomicElement(RegisterClass.B64, 128, registers=2),
    "u32": AtomicElement(RegisterClass.B32, 32),
    "s32": AtomicElement(RegisterClass.B32, 32, s32),
    "u64": AtomicElement(RegisterClass.B64, 64),
    "s64": AtomicElement(RegisterClass.B64, 64, s64),
    "f32": AtomicElement(RegisterClass.F32, 32, vectors=(2, 4)),
    "f64": AtomicElement(RegisterClass.F64, 64),
    "f16": AtomicElement(RegisterClass.B16, 16, vectors=(2, 4, 8)),
    "bf16": AtomicElement(RegisterClass.B16, 16, vectors=(2, 4, 8)),
    "f16x2": AtomicElement(RegisterClass.B32, 32, vectors=(2, 4)),
    "bf16x2": AtomicElement(RegisterClass.B32, 32, vectors=(2, 4)),
}
_HALVES = ("f16", "bf16", "f16x2", "bf16x2")
_INTEGERS = ("u32", "s32", "u64", "s64")
OPERATIONS: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f32", "f64", *_HALVES),
    **dict.fromkeys(("min", "max"), _INTEGERS),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")),
    EXCHANGE: ("b32", "b64", "b128"),
    CAS: ("b16", "b32", "b64", "b128"),
}
"""The types of single values, by operation."""
_VECTOR_OPERATIONS: dict[str, tuple[str, ...]] = {
    "add": ("f32", *_HALVES),
    **dict.fromkeys(("min", "max"), _HALVES),
}
"""The types whose vectors an operation takes, in global memory."""
_PTX: dict[str, PtxVersion] = {
    "f16x2": (6, 2),
    "f16": (6, 3),
    "b16": (6, 3),
    **dict.fromkeys(("bf16", "bf16x2"), (7, 8)),
    "b128": (8, 3),
}
"""The first PTX version, where it is not the first that this package knows (ptxas 12.9 and 13.5)."""
_CLUSTER_PTX: PtxVersion = (7, 8)
_VECTOR_PTX: PtxVersion = (8, 1)
_WIDE_SYSTEM_PTX: PtxVersion = (8, 4)
"""Of b128 at the scope of the system: ptxas 13.5 refuses it at 8.3."""
_OF_SM_90 = ("bf16", "bf16x2", "b128")


def elements_of(operation: str, vector: int = 1) -> tuple[str, ...]:
    """The types that `operation` takes, of single values or in vectors of `vector`."""
    if vector == 1:
        return OPERATIONS.get(operation, ())
    return tuple(name for name in _VECTOR_OPERATIONS.get(operation, ()) if vector in ELEMENTS[name].vectors)


@cache
def atomic(
    operation: str,
    element: str,
    vector: int = 1,
    *,
    order: str = "relaxed",
    scope: str = "gpu",
    space: str = "global",
    returns: bool = True,
) -> Row:
    """atom, or red where it does not return: change `vector` values at `address` by `operation`.

    Vectors are of global memory, each element changed by itself. Raises NoSuchRow for what no instruction has.
    """
    instruction = ATOM if returns else RED
    chosen("operation", operation, tuple(name for name in OPERATIONS if returns or name not in (EXCHANGE, CAS)))
    chosen("order", order, ORDERS if returns else RED_ORDERS)
    chosen("scope", scope, tuple(name for name in SCOPES if name != "gl"))
    chosen("space", space, SPACES)
    chosen("element", element, ELEMENTS)
    legal = [count for count in (1, *ELEMENTS[element].vectors) if element in elements_of(operation, count)]
    if not legal:
        several = elements_of(operation) + tuple(f"vectors of {name}" for name in _VECTOR_OPERATIONS.get(operation, ()))
        raise NoSuchRow(f"{operation} takes no {element}, only {', '.join(several)}")
    chosen("vector", vector, legal)
    if vector > 1:
        chosen("space of a vector", space, ("global",))
    rounded = "noftz" if element in _HALVES else None
    wide = f"v{vector}" if vector > 1 else None
    requires, ptx_version = _gate(element, vector, scope, space)
    return Row(
        family=FAMILY,
        opcode=f"{instruction}.{operation}",
        ptx=spelled(instruction, order, scope, space, operation, rounded, wide, element),
        operands=_operands(operation, element, vector, space, returns=returns),
        lowering=_asm(operation, element, vector, returns=returns),
        requires=requires,
        ptx_version=ptx_version,
        effects=Effect.READS_MEMORY | Effect.WRITES_MEMORY | (Effect.NONE if order == "relaxed" else Effect.ORDERS),
        semantics=_semantics(element, vector, order, scope, space),
        section=f"9.7.13 ({instruction})",
        summary=f"Changes memory in one step, and {'gives what was there' if returns else 'returns nothing'}.",
        axes={
            "operation": operation,
            "element": element,
            "vector": vector,
            "order": order,
            "scope": scope,
            "space": space,
            "returns": returns,
        },
    )


def _gate(element: str, vector: int, scope: str, space: str) -> tuple[Feature, PtxVersion]:
    clustered = scope == "cluster" or space == "shared::cluster"
    versions = [_PTX.get(element, (6, 0))]
    versions += [_CLUSTER_PTX] if clustered else []
    versions += [_VECTOR_PTX] if vector > 1 else []
    versions += [_WIDE_SYSTEM_PTX] if element == "b128" and scope == "sys" else []
    newer = clustered or vector > 1 or element in _OF_SM_90
    return (Feature.SM_90 if newer else Feature.NONE), max(versions)


def _operands(operation: str, element: str, vector: int, space: str, *, returns: bool) -> tuple[RowOperand, ...]:
    form = ELEMENTS[element]
    count = vector * form.registers
    size = vector * form.bits // 8
    address = operand(ADDRESS, SPACES[space], meaning=f"aligned to {size} bytes", align=size)
    read = ("expected", "values") if operation == CAS else ("values",)
    inputs = tuple(operand(name, form.register, count, element=form.held) for name in read)
    old = (output("old", form.register, count, element=form.held),) if returns else ()
    return (*old, address, *inputs)


def _asm(operation: str, element: str, vector: int, *, returns: bool) -> Asm:
    names = ("expected", "values") if operation == CAS else ("values",)
    if element == "b128":
        moves = " ".join(f"mov.b128 wide_{name}, {{{{{{{name}}}}}}};" for name in names)
        wide = ", ".join(f"wide_{name}" for name in names)
        declared = f".reg .b128 wide_old, {wide};"
        return Asm(
            f"{{{{ {declared} {moves} {{ptx}} wide_old, [{{address}}], {wide}; mov.b128 {{{{{{old}}}}}}, wide_old; }}}}"
        )
    old, values = ("{{{old}}}", "{{{values}}}") if vector > 1 else ("{old}", "{values}")
    expected = "{expected}, " if operation == CAS else ""
    return Asm("{ptx} " + (f"{old}, " if returns else "") + f"[{{address}}], {expected}{values};")


def _semantics(element: str, vector: int, order: str, scope: str, space: str) -> Semantics:
    size = vector * ELEMENTS[element].bits // 8
    return Semantics(
        acquires=SCOPES[scope] if order in ("acquire", "acq_rel") else Scope.THREAD,
        releases=SCOPES[scope] if order in ("release", "acq_rel") else Scope.THREAD,
        memory=(writes(ADDRESS, size), reads(ADDRESS, size)),
        atomic=True,
        in_peer=space == "shared::cluster",
    )


def rows() -> Iterator[Row]:
    """Every row of atom and red."""
    for operation in OPERATIONS:
        for element, form in ELEMENTS.items():
            for vector in (1, *form.vectors):
                if element in elements_of(operation, vector):
                    yield from _orders(operation, element, vector)


def _orders(operation: str, element: str, vector: int) -> Iterator[Row]:
    for returns in (True, False) if operation not in (EXCHANGE, CAS) else (True,):
        for space in SPACES if vector == 1 else ("global",):
            for order in ORDERS if returns else RED_ORDERS:
                for scope in ("cta", "cluster", "gpu", "sys"):
                    yield atomic(operation, element, vector, order=order, scope=scope, space=space, returns=returns)
