"""Memory of several GPUs at one address."""

from __future__ import annotations

from collections.abc import Sequence

from nvbackend.builder.core.instructions import issue
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.values.values import GLOBAL_SPACE, Operand, Value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.copy import multimem
from nvbackend.intrinsics.copy.multimem import Order
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.operands.memory import check_multimem_address, check_multimem_values
from nvbackend.isel.target.target import variant


@user_facing
class Multimem(Noun):
    """Memory of several GPUs at one address (PTX ISA 9.7.9, multimem)."""

    __noun__ = "multimem"
    __usual__ = "load_reduce"

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
        """multimem.ld_reduce: combine what the GPUs hold at `address` by `operation`; returns the vector's registers.

        `accumulator` is the type of the sum: "f32" for 16-bit types, "f16" for 8-bit ones.
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
        return [
            self._k.wrap(register, row.operand("values").type)
            for register in issue(self._k, row, address=address)["values"]
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

    def _multimem_write(self, row: Row, address: Address | Value, values: Sequence[Operand]) -> None:
        check_multimem_values(row, len(values), row.operand("values").type)
        issue(self._k, row, address=address, values=values)


def _space(instruction: str, address: Address | Value) -> str | None:
    """The state space of an address (None: generic). Raises multimem.address for shared memory."""
    if not isinstance(address, Address):
        return None
    check_multimem_address(instruction, in_shared=address.space != GLOBAL_SPACE)
    return "global"
