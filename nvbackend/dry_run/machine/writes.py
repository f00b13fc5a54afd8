"""What instructions write to shared memory, as far as control may depend on it."""

from __future__ import annotations

from collections.abc import Mapping

from nvbackend.dry_run.machine.fiber import Fiber
from nvbackend.dry_run.machine.memory import SharedNumbers
from nvbackend.dry_run.machine.operands import bytes_written, operand_of
from nvbackend.dry_run.machine.taking import Taking, is_taking
from nvbackend.dry_run.program.code import Recorded
from nvbackend.dry_run.program.needed import SENT, is_sent
from nvbackend.dry_run.seam import Outcome
from nvbackend.dry_run.values.lanes import among
from nvbackend.dry_run.values.unknown import UNKNOWN, Unknown
from nvbackend.intrinsics.row.semantics import TensorMemory


class Writes:
    """What was there is not known any more, but for columns of tensor memory, clusters that were asked for, and what a
    thread sends to another CTA."""

    def __init__(self, numbers: SharedNumbers, taking: Taking) -> None:
        self._numbers = numbers
        self._taking = taking
        self._columns: dict[int, int] = {}

    def note(self, fiber: Fiber, recorded: Recorded, outcome: Outcome) -> None:
        """What an instruction with this outcome writes."""
        said, row = recorded.instr.semantics, recorded.instr.row
        for operand in said.memory if self._numbers.has_known else ():
            if operand.writes and operand.name in recorded.inputs and row is not None:
                address = fiber.registers[recorded.inputs[operand.name][0]]
                size = bytes_written(fiber, recorded, operand)
                self._numbers.forget(among(address, fiber.mask), size, fiber.warp.cta, all_ctas=said.multicast)
        if said.tensor_memory is TensorMemory.ALLOCATE:
            self._allocate(fiber, recorded, outcome)
        if is_sent(row) and recorded.guard is None:
            self._send(fiber, recorded)
        if is_taking(row):
            address = operand_of(fiber, recorded, "destination")
            self._taking.ask(fiber.warp.cta, address, fiber.mask, multicast=said.multicast)

    def _send(self, fiber: Fiber, recorded: Recorded) -> None:
        """The numbers that threads send, as if they had come."""
        assert recorded.instr.row is not None
        address = operand_of(fiber, recorded, "destination")
        bits = recorded.instr.row.operand(SENT).register.element.bits
        for index in range(len(recorded.inputs.get(SENT, ()))):
            if not isinstance(address, Unknown):
                value, place = operand_of(fiber, recorded, SENT, index), address + index * bits // 8
                self._numbers.store(place, value, bits // 8, fiber.warp.cta, fiber.mask)

    def _allocate(self, fiber: Fiber, recorded: Recorded, outcome: Outcome) -> None:
        given = outcome.get("columns") if isinstance(outcome, Mapping) else None
        cta = fiber.warp.cta
        column = self._columns.get(cta, 0) if given is None else given
        count = operand_of(fiber, recorded, "columns")
        self._columns[cta] = self._columns.get(cta, 0) + (count if type(count) is int else 0)
        address = next(
            (operand_of(fiber, recorded, name) for name in ("destination", "address") if name in recorded.inputs),
            UNKNOWN,
        )
        self._numbers.store(address, column, 4, cta, fiber.mask)
