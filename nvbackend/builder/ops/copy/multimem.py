"""Memory of several GPUs at one address."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.values.scaling import GLOBAL_SPACE
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.copy import multimem
from nvbackend.intrinsics.copy.multimem import Order
from nvbackend.intrinsics.row.row import RegisterClass, Row
from nvbackend.intrinsics.row.types import ElementType, f32, f64, s32, s64, u16, u32, u64
from nvbackend.isel.select import multimem_rules
from nvbackend.isel.target.variants import variant

_HELD: dict[RegisterClass, ElementType] = {
    RegisterClass.B16: u16,
    RegisterClass.B32: u32,
    RegisterClass.B64: u64,
    RegisterClass.F32: f32,
    RegisterClass.F64: f64,
}

_SIGNED: dict[str, ElementType] = {"s32": s32, "s64": s64}


@user_facing
class Multimem(Noun):
    """Memory of several GPUs at one address (PTX ISA 9.7.9, multimem)."""

    __noun__ = "multimem"

    def __init__(self, k: Core) -> None:
        self._k = k

    def load_reduce(
        self,
        address: Address | Value,
        operation: str,
        element: str,
        vector: int = 1,
        *,
        accumulator: str | None = None,
        order: Order = (),
    ) -> list[Value]:
        """multimem.ld_reduce: what every GPU holds at `address`, combined by `operation`; the registers of the vector.

        An addition of a 16-bit type can be done in an `accumulator` "f32", that of an 8-bit one in "f16".
        """
        row = variant(
            "multimem.ld_reduce",
            multimem.load_reduce,
            operation,
            element,
            vector,
            accumulator=accumulator,
            order=order,
            space=_space("multimem.ld_reduce", address),
        )
        kind = _type_of(row)
        return [
            self._k.wrap(one, kind) for one in self._k.emit(row, {"address": self._multimem_address(address)})["values"]
        ]

    def store(
        self, address: Address | Value, values: Sequence[Operand], element: str, vector: int = 1, *, order: Order = ()
    ) -> None:
        """multimem.st: write the vector in the registers `values` to `address` in the memory of every GPU."""
        space = _space("multimem.st", address)
        row = variant("multimem.st", multimem.store, element, vector, order=order, space=space)
        self._multimem_write(row, address, values)

    def reduce(
        self,
        address: Address | Value,
        operation: str,
        values: Sequence[Operand],
        element: str,
        vector: int = 1,
        *,
        order: Order = (),
    ) -> None:
        """multimem.red: combine the vector in the registers `values` into `address` in the memory of every GPU."""
        space = _space("multimem.red", address)
        row = variant("multimem.red", multimem.reduce, operation, element, vector, order=order, space=space)
        self._multimem_write(row, address, values)

    def _multimem_address(self, address: Address | Value) -> ir.Value:
        return address.bytes.ir if isinstance(address, Address) else as_value(self._k, address, u64).ir

    def _multimem_write(self, row: Row, address: Address | Value, values: Sequence[Operand]) -> None:
        kind = _type_of(row)
        multimem_rules.check_values(row, len(values), kind)
        self._k.emit(
            row,
            {"address": self._multimem_address(address), "values": [as_value(self._k, one, kind).ir for one in values]},
        )


def _type_of(row: Row) -> ElementType:
    return _SIGNED.get(str(row.axes["element"])) or _HELD[row.operand("values").register]


def _space(instruction: str, address: Address | Value) -> str | None:
    """The state space that an address says it is in (None: generic). Raises multimem.address for shared memory."""
    if not isinstance(address, Address):
        return None
    multimem_rules.check_address(instruction, in_shared=address.space != GLOBAL_SPACE)
    return "global"
