"""mma.sync: one warp's matrix product, from registers into registers."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from nvbackend.builder.threads import Threads
from nvbackend.builder.values import Arithmetic, Operand, Value, as_value
from nvbackend.diagnostics import raise_all
from nvbackend.intrinsics.row import Row
from nvbackend.intrinsics.types import ElementType, f32, s32, tf32, u32
from nvbackend.isel.families import mma_operand_rules
from nvbackend.isel.families.mma_request import MmaRequest
from nvbackend.isel.families.mma_rules import IMMEDIATES
from nvbackend.isel.families.mma_select import select_mma


class Mmas(Threads):
    """The mma call of the builder (PTX ISA 9.7.14.5, 9.7.14.6). All threads of the warp execute it together."""

    def mma_sync(
        self,
        request: MmaRequest,
        a: Sequence[Operand],
        b: Sequence[Operand],
        c: Sequence[Operand],
        *,
        metadata: Operand | None = None,
        scale_a: Operand | None = None,
        scale_b: Operand | None = None,
    ) -> list[Value]:
        """D = A * B + C: the thread's registers of D, from those of A (M x K), B (K x N) and C (M x N elements).

        `request` is the instruction (`nvb.mma`). Registers of f32 and f64 hold an element each, as do those of tf32 and
        s32; elements of fewer bits are packed into u32, the first in the lowest bits. `intrinsics.fragments_mma` says
        which thread holds what. `metadata` (u32) belongs to a sparse A, `scale_a` and `scale_b` (u32, a factor a byte)
        to a product scaled by block. Raises every broken rule (mma.*), at this line.
        """
        row = select_mma(request, self.target)
        fragments = {"a": list(a), "b": list(b), "c": list(c)}
        optional = {"metadata": metadata, "scale_a": scale_a, "scale_b": scale_b}
        raise_all(
            [
                *mma_operand_rules.fragment_violations(row, {name: len(one) for name, one in fragments.items()}),
                *mma_operand_rules.optional_violations(row, {name: one is not None for name, one in optional.items()}),
            ]
        )
        one = request.instruction
        elements = {"a": one.a, "b": one.b, "c": one.c}
        operands: dict[str, object] = {
            name: [self._register(row, name, elements[name], given) for given in registers]
            for name, registers in fragments.items()
        }
        operands.update({name: as_value(self, given, u32).ir for name, given in optional.items() if given is not None})
        legal = {operand.name for operand in row.immediates}
        operands.update({name: getattr(request, name) for name in IMMEDIATES if name in legal})
        results = self.emit(row, operands)
        kind = s32 if one.d is s32 else mma_operand_rules.register_type(row, "d")
        return [self._wrap(register, kind) for register in results["d"]]

    def _register(self, row: Row, operand: str, element: ElementType, given: Operand) -> ir.Value:
        """A register of a fragment: tf32 may come as the f32 that it is cut from, s32 as itself."""
        kind = mma_operand_rules.register_type(row, operand)
        own = {tf32: f32, s32: s32}.get(element)
        if kind is u32 and own is not None and (not isinstance(given, Arithmetic) or given.type is own):
            return as_value(self, given, own).bitcast(u32).ir
        return as_value(self, given, kind).ir
