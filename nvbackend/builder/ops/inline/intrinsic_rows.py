"""Rows of a user's own that lower through an intrinsic: what they say is compared with the catalogue and with LLVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from llvmlite import binding, ir

from nvbackend.builder.lower.lowering import SCALARS, lower
from nvbackend.builder.ops.inline.claims import unfounded
from nvbackend.intrinsics.catalogue import rows
from nvbackend.intrinsics.copy.async_store import CLUSTER_COPY
from nvbackend.intrinsics.row.row import Effect, Intrinsic, Role, Row, RowOperand

_TOUCHES = Effect.READS_MEMORY | Effect.WRITES_MEMORY | Effect.ORDERS
EARLIER = {
    "llvm.nvvm.barrier0": "sync.aligned.all",
    "llvm.nvvm.barrier.n": "sync.aligned.all",
    "llvm.nvvm.bar.sync": "sync.aligned.all",
    "llvm.nvvm.barrier.sync": "sync.all",
    "llvm.nvvm.barrier": "sync.aligned.count",
    "llvm.nvvm.barrier.sync.cnt": "sync.count",
    "llvm.nvvm.barrier0.popc": "red.popc.aligned.all",
    "llvm.nvvm.barrier0.and": "red.and.aligned.all",
    "llvm.nvvm.barrier0.or": "red.or.aligned.all",
}
"""Names that LLVM replaces, and what follows `llvm.nvvm.barrier.cta.` in the present ones (LLVM AutoUpgrade.cpp)."""

Fault = tuple[str, str]
"""What is wrong with a row, and what to do."""


def unsaid(row: Row, lowering: Intrinsic) -> Fault | None:
    """What an intrinsic does and the row does not say, or says otherwise; the call itself compiles."""
    name = lowering.name
    later = f"llvm.nvvm.barrier.cta.{EARLIER[name]}" if name in EARLIER else name
    alike = rows_by_intrinsic().get(later)
    return _unlike(row, alike) if alike else _unsaid(row, lowering)


@cache
def rows_by_intrinsic() -> Mapping[str, Sequence[Row]]:
    """The rows of the catalogue that lower by an intrinsic, by its name."""
    by_name: dict[str, list[Row]] = {}
    for row in rows():
        if isinstance(row.lowering, Intrinsic):
            by_name.setdefault(row.lowering.name, []).append(row)
    return by_name


def _unlike(row: Row, alike: Sequence[Row]) -> Fault | None:
    """What the row says otherwise than nvbackend's own rows of the intrinsic."""
    if any(each.effects in row.effects and _parts(each) == _parts(row) for each in alike):
        return None
    right = alike[0]
    problem = f"{right.ptx} has effects={right.effects} and semantics={right.semantics!r}, and the row says otherwise"
    return (problem, "write these, or use nvbackend's own call")


def _parts(row: Row) -> dict[str, object]:
    """What the semantics say: of memory and fragments, whose operands have names of the row's own, which there are."""
    return {name: bool(value) if name in ("memory", "fragments") else value for name, value in row.semantics.said()}


def _unsaid(row: Row, lowering: Intrinsic) -> Fault | None:
    """What LLVM says of an intrinsic that no row of nvbackend's has, and this row does not."""
    said = _attributes(_declaration(row, lowering))
    if said is None:
        said = "convergent"
    if "convergent" in said and Effect.CONVERGENT not in row.effects:
        return (f"LLVM has {lowering.name} as convergent", "add Effect.CONVERGENT to effects=")
    if "memory(none)" not in said and not row.effects & _TOUCHES:
        problem = f"{lowering.name} does more than compute its results, and its effects do not say so"
        return (problem, "add Effect.READS_MEMORY, WRITES_MEMORY or ORDERS to effects=")
    lacks = unfounded(row, []) if "memory(none)" in said else None
    if lacks is not None:
        return (f"its semantics say {lacks[0]}=, and {lowering.name} only computes", f"leave {lacks[0]}= out")
    if lowering.name == "llvm.nvvm.exit" and not row.semantics.exits:
        return ("llvm.nvvm.exit ends the thread", "use k.return_")
    if lowering.name == CLUSTER_COPY and not row.semantics.in_cluster:
        return (f"{lowering.name} stops a kernel without a cluster", "write semantics=Semantics(..., in_cluster=True)")
    return None


def _declaration(row: Row, lowering: Intrinsic) -> str:
    """The intrinsic as the row calls it, in LLVM's words."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "f")
    operands = {each.name: _any(each) for each in row.operands if each.role is not Role.OUTPUT}
    lower(ir.IRBuilder(function.append_basic_block()), row, operands)
    return str(module.globals[lowering.name])


def _any(operand: RowOperand) -> int | list[ir.Value]:
    if operand.values:
        return operand.values[0]
    return [ir.Constant(SCALARS[operand.register.llvm], ir.Undefined)] * operand.count


def _attributes(declaration: str) -> str | None:
    """LLVM's attributes of what is declared, which compiles: None if it has replaced the name."""
    functions = list(binding.parse_assembly(declaration).functions)
    return " ".join(each.decode() for each in functions[0].attributes) if functions else None
