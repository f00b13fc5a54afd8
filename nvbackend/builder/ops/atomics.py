"""Atomics: atom and red."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast, overload

from llvmlite import ir

from nvbackend.builder.core.instructions import issue
from nvbackend.builder.core.memory import Address, own
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.lower.conversions import llvm_type
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import CLUSTER_SPACE, SHARED_SPACE, Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.sync import atomics
from nvbackend.isel.operands.atomics import check_atomic
from nvbackend.isel.target.target import VARIANT, variant

_SPACES = {SHARED_SPACE: "shared", CLUSTER_SPACE: "shared::cluster"}


class UpdateCall(Protocol):
    """The call of an operation that takes one value, or a vector."""

    @overload
    def __call__(
        self,
        address: Address,
        value: Operand,
        *,
        order: str = "relaxed",
        scope: str = "gpu",
        element: str | None = None,
    ) -> Value: ...

    @overload
    def __call__(
        self,
        address: Address,
        value: Sequence[Operand],
        *,
        order: str = "relaxed",
        scope: str = "gpu",
        element: str | None = None,
    ) -> list[Value]: ...


def _update(operation: str, text: str) -> UpdateCall:
    """The method of an operation, which `text` describes."""

    def update(
        self: Atomic,
        address: Address,
        value: Operand | Sequence[Operand],
        *,
        order: str = "relaxed",
        scope: str = "gpu",
        element: str | None = None,
    ) -> Value | list[Value]:
        return self._atom(operation, address, value, order, scope, element)

    update.__name__, update.__qualname__, update.__doc__ = operation, f"Atomic.{operation}", f"atom.{operation}: {text}"
    return cast("UpdateCall", update)


@user_facing
class Atomic(Noun):
    """Atomics: read, change and write memory in one step, atom and red (PTX ISA 9.7.13).

    An address is one of global memory, of this CTA's shared memory, or of a peer's (`k.cluster.map_shared_rank`). All
    calls but `reduce` return what was there before. `order` is relaxed, acquire, release or acq_rel, among the threads
    of `scope`: cta, cluster (sm_90), gpu or sys. A list of values is a vector in global memory, each element changed by
    itself: 2 or 4 of f32, 2, 4 or 8 of f16 and bf16 (sm_90). `element` names PTX's type where the address has another
    of the same bits: "f16x2" and "bf16x2" are pairs in 32 bits. Halves are rounded to nearest and keep their subnormal
    numbers, and so do f64 and, in shared memory, f32; in global memory f32 flushes its own to zero.

    Every call raises memory.atomic for a type that the operation does not have, memory.alignment where the address is
    not known to be aligned to the whole vector, instruction.variant for other forms that do not exist, and
    target.feature.
    """

    __noun__ = "atomic"
    __usual__ = "add"

    add = _update("add", "integers of 32 and 64 bits, which wrap; f16, bf16 (sm_90), f32, f64, pairs and vectors.")
    min = _update("min", "the lesser of two integers of 32 or 64 bits, or of each two in vectors of f16 and bf16.")
    max = _update("max", "the greater of two integers of 32 or 64 bits, or of each two in vectors of f16 and bf16.")

    def inc(self, address: Address, limit: Operand, *, order: str = "relaxed", scope: str = "gpu") -> Value:
        """atom.inc: add one, or write 0 if the old value (u32) is `limit` or above."""
        return self._one("inc", address, limit, order, scope)

    def dec(self, address: Address, limit: Operand, *, order: str = "relaxed", scope: str = "gpu") -> Value:
        """atom.dec: subtract one, or write `limit` if the old value (u32) is 0 or above `limit`."""
        return self._one("dec", address, limit, order, scope)

    def and_(self, address: Address, value: Operand, *, order: str = "relaxed", scope: str = "gpu") -> Value:
        """atom.and of integers of 32 or 64 bits."""
        return self._one("and", address, value, order, scope)

    def or_(self, address: Address, value: Operand, *, order: str = "relaxed", scope: str = "gpu") -> Value:
        """atom.or of integers of 32 or 64 bits."""
        return self._one("or", address, value, order, scope)

    def xor(self, address: Address, value: Operand, *, order: str = "relaxed", scope: str = "gpu") -> Value:
        """atom.xor of integers of 32 or 64 bits."""
        return self._one("xor", address, value, order, scope)

    @overload
    def exchange(self, address: Address, value: Operand, *, order: str = "relaxed", scope: str = "gpu") -> Value: ...

    @overload
    def exchange(
        self, address: Address, value: Sequence[Operand], *, order: str = "relaxed", scope: str = "gpu"
    ) -> list[Value]: ...

    def exchange(
        self, address: Address, value: Operand | Sequence[Operand], *, order: str = "relaxed", scope: str = "gpu"
    ) -> Value | list[Value]:
        """atom.exch: write `value`, of any type of 32 or 64 bits, or two of 64 bits as one of 128 (sm_90)."""
        return self._atom(atomics.EXCHANGE, address, value, order, scope, None)

    @overload
    def cas(
        self, address: Address, expected: Operand, value: Operand, *, order: str = "relaxed", scope: str = "gpu"
    ) -> Value: ...

    @overload
    def cas(
        self,
        address: Address,
        expected: Sequence[Operand],
        value: Sequence[Operand],
        *,
        order: str = "relaxed",
        scope: str = "gpu",
    ) -> list[Value]: ...

    def cas(
        self,
        address: Address,
        expected: Operand | Sequence[Operand],
        value: Operand | Sequence[Operand],
        *,
        order: str = "relaxed",
        scope: str = "gpu",
    ) -> Value | list[Value]:
        """atom.cas: write `value` if the bits in memory equal those of `expected`; returns the old value in any case.

        Any type of 16, 32 or 64 bits, or two of 64 bits as one of 128 (sm_90). It compares bits: of floats, 0.0 and
        -0.0 differ, and NaN equals itself.
        """
        return self._atom(atomics.CAS, address, value, order, scope, None, expected)

    def reduce(
        self,
        address: Address,
        operation: str,
        value: Operand | Sequence[Operand],
        *,
        order: str = "relaxed",
        scope: str = "gpu",
        element: str | None = None,
    ) -> None:
        """red: the same change, with nothing returned; `order` is relaxed or release.

        `operation` is add, min, max, inc, dec, and, or, xor. ptxas makes red of an atom whose result is not used, too.
        """
        parts, row = self._row(operation, address, value, order, scope, element, returns=False)
        self._emit(row, address, parts, None)

    def _one(self, operation: str, address: Address, value: Operand, order: str, scope: str) -> Value:
        parts, row = self._row(operation, address, [value], order, scope, None)
        return self._emit(row, address, parts, None)[0]

    def _atom(
        self,
        operation: str,
        address: Address,
        value: Operand | Sequence[Operand],
        order: str,
        scope: str,
        element: str | None,
        expected: Operand | Sequence[Operand] | None = None,
    ) -> Value | list[Value]:
        parts, row = self._row(operation, address, value, order, scope, element)
        compared = None
        if expected is not None:
            compared = list(expected) if isinstance(expected, Sequence) else [expected]
            if len(compared) != len(parts):
                reason = f"it compares as many values as it writes, and {len(compared)} and {len(parts)} were given"
                VARIANT.fail(instruction=row.opcode, reason=reason)
        old = self._emit(row, address, parts, compared)
        return old if isinstance(value, Sequence) else old[0]

    def _row(
        self,
        operation: str,
        address: Address,
        value: Operand | Sequence[Operand],
        order: str,
        scope: str,
        element: str | None,
        *,
        returns: bool = True,
    ) -> tuple[list[Operand], Row]:
        """The values, and the row for them."""
        address = own(self._k, address)
        parts = list(value) if isinstance(value, Sequence) else [value]
        named = check_atomic(operation, address.element, element, len(parts))
        wide = named == "b128"
        row = variant(
            f"{'atom' if returns else 'red'}.{operation}",
            atomics.atomic,
            operation,
            named,
            1 if wide else len(parts),
            order=order,
            scope=scope,
            space=_SPACES.get(address.space, "global"),
            returns=returns,
        )
        size = row.operand(atomics.ADDRESS).align
        if address.align % size:
            rules.VECTOR_ALIGNMENT.fail(bytes=size, align=address.align, advice=address._how_to_align(size))
        return parts, row

    def _emit(
        self, row: Row, address: Address, values: Sequence[Operand], expected: Sequence[Operand] | None
    ) -> list[Value]:
        kind = address.element
        operands = {"values": [self._register(row, value, address) for value in values]}
        if expected is not None:
            operands["expected"] = [self._register(row, value, address) for value in expected]
        old = issue(self._k, row, address=address, **operands).get("old", [])
        return [self._k.wrap(_as(self._k.llvm, register, llvm_type(kind)), kind) for register in old]

    def _register(self, row: Row, value: Operand, address: Address) -> ir.Value:
        held = llvm_type(row.operand("values").register.element)
        return _as(self._k.llvm, as_value(self._k, value, address.element).ir, held)


def _as(builder: ir.IRBuilder, value: ir.Value, kind: ir.Type) -> ir.Value:
    return value if value.type == kind else builder.bitcast(value, kind)
