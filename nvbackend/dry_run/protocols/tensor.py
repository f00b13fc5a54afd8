"""Tensor memory: its allocations, and accesses of its lanes and columns that nothing orders.

Its shadow has a byte for each of 512 columns of each of eight parts of 16 lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import ORDER, UNWRITTEN
from nvbackend.dry_run.objects.mbarriers import Arrival, Mbarrier, Wait
from nvbackend.dry_run.order.events import Known
from nvbackend.dry_run.order.footprints import number
from nvbackend.dry_run.order.granules import single_bytes
from nvbackend.dry_run.order.naming import after_rounds, crew, in_rounds, instruction, line
from nvbackend.dry_run.order.record import Part, Record
from nvbackend.dry_run.order.shadow import Shadow
from nvbackend.dry_run.protocols.explain import returns_early
from nvbackend.dry_run.protocols.hand_overs import HandOvers
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import DONE, Outcome, Step
from nvbackend.dry_run.sums import FACTORS, MATRICES, check_apart, check_lost
from nvbackend.intrinsics.row.row import RegisterClass
from nvbackend.intrinsics.row.semantics import Completion, FenceOf, MemoryOperand, TensorMemory
from nvbackend.isel.machine.function import INSTRUCTION_DESCRIPTOR, TMEM, MachineInstr, instruction_descriptor
from nvbackend.isel.machine.tensor_memory_uses import COLUMNS_OF_A, LANE_SHIFT, cells_of_result
from nvbackend.isel.protocols.tmem.rules import MISSING_DEALLOC

COLUMNS = 512
_COLUMN_BITS = 32
_BEFORE, _AFTER = "k.tcgen05.fence_before_thread_sync()", "k.tcgen05.fence_after_thread_sync()"
_APART = "; if both are accumulators of their own, give them columns of their own"
_PARTS, _LANES = 8, 16
_DEALLOC = "tcgen05.dealloc"
Signal = tuple[Mbarrier, int, Arrival]
"""An arrival on an mbarrier, and its phase."""
_OF_ALL_LANES = ("32x32b", "16x32bx2")
_WHOLE = {1: 128, 2: 256}
_COPY = "tcgen05.cp"
"""It fills all lanes, also by a shape of fewer, which goes to each group of warps; but for that of 4 lanes."""


class Tensors:
    """The tensor memory of all CTAs."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._shadows = [Shadow(_PARTS * COLUMNS, state.memory.records, shift=0) for _ in range(state.launch.ctas)]
        self._are_any = False
        self._are_stored = False
        self._complete = True
        """Whether all writes were seen."""
        self._reads_all = True
        """Whether all reads were seen."""
        self._has_halves = False
        """Whether some product has 16 of each 32 lanes alone."""
        self._has_upper = False
        """Whether that of some product are the upper ones: beside those of another one, mostly."""
        self._allocated: dict[int, dict[int, int]] = {cta: {} for cta in range(state.launch.ctas)}
        self._by: dict[tuple[int, int], MachineInstr] = {}
        self._handed = HandOvers(state)
        self.is_stuck = False
        """Whether no warp can go on any more."""

    def allocate(self, step: Step) -> Outcome:
        """tcgen05.alloc gives the lowest columns that are free; these come as `columns`."""
        said = step.instr.semantics
        columns = number(step.value("columns"), step.lanes)
        if said.tensor_memory is TensorMemory.ALLOCATE:
            if columns is None:
                self._state.findings.lost = True
                return DONE
            mine = self._allocated[step.cta]
            base = 0
            while base + columns <= COLUMNS and any(
                base < other + count and other < base + columns for other, count in mine.items()
            ):
                base += 32
            mine[base] = columns
            self._by[step.cta, base] = step.instr
            self._are_any = True
            return {"columns": base}
        if said.tensor_memory is TensorMemory.FREE:
            base_value = number(step.value("tmem"), step.lanes)
            if base_value is not None and columns is not None:
                self._allocated[step.cta].pop(base_value & (1 << LANE_SHIFT) - 1, None)
                self._free(step, base_value & (1 << LANE_SHIFT) - 1, columns)
            else:
                self._allocated[step.cta].clear()
        return DONE

    def finish(self) -> None:
        """Every allocation was given back."""
        for cta, mine in self._allocated.items():
            for base, count in mine.items():
                instr = self._by[cta, base]
                self._state.findings.add(
                    *(UNWRITTEN, TMEM, MISSING_DEALLOC, instr, ()), columns=count, name=line(instr),
                    reason=f"no warp of CTA {cta} gives them back",
                )  # fmt: skip

    def _free(self, step: Step, base: int, columns: int) -> None:
        warp = self._state.warp(step)
        known, _ = warp.tell()
        parts = [range(part * COLUMNS + base, part * COLUMNS + base + columns) for part in range(_PARTS)]
        record = Record(self._state.events.new(), step.cta, warp.index, True, step.rounds(), _DEALLOC)
        record.parts.append(Part(step.instr, 0, _PARTS * COLUMNS, "tmem"))
        self._look(step, record, parts, known)

    def fence(self, step: Step, of: FenceOf) -> None:
        """A tcgen05.fence."""
        self._handed.fence(step, of)

    def access(self, step: Step, event: int, known: Known) -> None:
        """What an operation does to tensor memory."""
        row = step.instr.row
        assert row is not None
        if not self._are_any:
            return  # a part of a kernel, whose columns others allocate
        self._handed.note(step, event)
        check_apart(self._state, step)
        for said in step.instr.semantics.memory:
            if row.operand(said.name).register is not RegisterClass.TMEM:
                continue
            self._are_stored |= said.writes and step.instr.semantics.issues is Completion.STORE_WAIT
            places = self._places(step, said)
            if places is None:
                self._complete &= not said.writes
                self._reads_all &= said.writes
                self._begins(step, said)
                continue
            record = Record(
                event, step.cta, step.warps[0], said.writes, step.rounds(), instruction(step.instr), proxy=True
            )
            adds = number(step.value("enable_d"), step.lanes) if step.instr.semantics.multiplies else None
            for cta, parts in places:
                for part in parts if adds else ():
                    address = self._shadows[cta].unwritten(single_bytes(part))
                    if address is not None:
                        self._unwritten(record, step, address)
                if said.writes and adds == 0 and self._reads_all and self._state.memory.complete:
                    check_lost(self._state, self._shadows[cta], step, parts)
                record.parts = [Part(step.instr, tuple(chain(*parts)), 1, said.name)]
                self._look(step, record, parts, known[0], cta)

    def _places(self, step: Step, said: MemoryOperand) -> list[tuple[int, list[range]]] | None:
        """The CTAs and their cells; None where that is not known for certain."""
        address, row = number(step.value(said.name), step.lanes), step.instr.row
        if address is None or row is None:
            return None
        lane, column = address >> LANE_SHIFT, address & (1 << LANE_SHIFT) - 1
        if isinstance(said.extent, int):
            lanes = 32 if row.axes.get("shape") in _OF_ALL_LANES else _LANES
            lane = self._lane(step, lane, lanes)
            self._is_allocated(step, [step.cta], column, said.extent)
            return [(step.cta, list(_cells(range(lane, lane + lanes), column, said.extent)))]
        if (filled := self._parts(step, said, column)) is not None:
            return filled
        packed = step.instr.words.get(INSTRUCTION_DESCRIPTOR)
        axes, group = row.axes, step.instr.semantics.cta_group or 1
        if said.name not in MATRICES or packed is None:
            return None
        asked, is_stationary = instruction_descriptor(packed, kind=str(axes["kind"])), bool(axes["weight_stationary"])
        if said.name == "d":
            cells = cells_of_result(
                asked.m, asked.n, group, is_sparse=bool(axes["sparse"]), is_stationary=is_stationary
            )
        else:
            cells = None if is_stationary or asked.m != _WHOLE[group] else (True, COLUMNS_OF_A)
        if cells is None or (lane and (cells[0] or lane != _LANES)):
            return None
        in_all, columns = cells
        self._has_halves |= not in_all
        self._has_upper |= lane > 0
        ctas = [step.cta] if group == 1 else [step.cta & ~1, step.cta | 1]
        self._is_allocated(step, ctas, column, columns)
        parts = list(_cells(range(128), column, columns))
        return [(cta, parts if in_all else parts[lane // _LANES :: 2]) for cta in ctas]

    def _begins(self, step: Step, said: MemoryOperand) -> None:
        """Check the first column of an access of which it is not known which cells it has."""
        address = number(step.value(said.name), step.lanes)
        if address is not None:
            self._is_allocated(step, [step.cta], address & (1 << LANE_SHIFT) - 1, 1)

    def _parts(self, step: Step, said: MemoryOperand, column: int) -> list[tuple[int, list[range]]] | None:
        """What a copy fills, or the first of the factors that a product reads; None of another operand."""
        assert step.instr.row is not None
        if said.name in FACTORS:
            self._is_allocated(step, [step.cta], column, 1)
            return [(step.cta, list(_cells(range(_LANES), column, 1)))]
        lanes, _, bits = str(step.instr.row.axes.get("shape", "")).removesuffix("b").partition("x")
        if step.instr.row.opcode != _COPY or int(lanes) < _LANES:
            return None
        columns = int(bits) // _COLUMN_BITS
        ctas = [step.cta] if step.instr.semantics.cta_group == 1 else [step.cta & ~1, step.cta | 1]
        self._is_allocated(step, ctas, column, columns)
        return [(cta, list(_cells(range(128), column, columns))) for cta in ctas]

    def _lane(self, step: Step, lane: int, lanes: int) -> int:
        """The lane that a warp's access begins at. Parts of kernels, which fill nothing, may leave it out."""
        quarter = step.warps[0] % 4 * 32
        if lane == 0 and not self._state.memory.writes:
            return quarter
        if not quarter <= lane <= quarter + 32 - lanes:
            self._state.findings.add(
                *(ORDER, "tensor memory", rules.TENSOR_LANES, step.instr, ()),
                now=in_rounds(step.rounds()), instruction=instruction(step.instr), warp=step.warps[0], lane=lane,
                low=quarter, high=quarter + 31,
            )  # fmt: skip
        return lane

    def _is_allocated(self, step: Step, ctas: list[int], column: int, columns: int) -> None:
        """The columns of an access are those of allocations."""
        for cta in ctas:
            mine = self._allocated[cta]
            there = {one for base, count in mine.items() for one in range(base, base + count)}
            if mine and not there.issuperset(range(column, column + columns)):
                ranges = " and ".join(f"{base} to {base + count - 1}" for base, count in sorted(mine.items()))
                self._state.findings.add(
                    *(ORDER, "tensor memory", rules.TENSOR_BOUNDS, step.instr, ()),
                    now=in_rounds(step.rounds()), instruction=instruction(step.instr), warp=step.warps[0], cta=cta,
                    first=column, last=column + columns - 1, ranges=ranges,
                )  # fmt: skip

    def _look(self, step: Step, record: Record, parts: list[range], known: int, cta: int | None = None) -> None:
        shadow = self._shadows[step.cta if cta is None else cta]
        number_ = self._state.memory.records.add(record)
        mine = (known | 1 << record.event) & ~self._handed.of_others(record, step)
        for part in parts:
            if part.stop > _PARTS * COLUMNS:
                return
            places = single_bytes(part)
            found = shadow.write(places, number_, mine) if record.writes else shadow.read(places, number_, mine)
            for one, address in [*found]:
                earlier = self._state.memory.records.records[one]
                if earlier is None and not record.writes and record.engine != _DEALLOC:
                    if not (self._has_halves and shadow.is_written(_of_other_lanes(address))):
                        self._unwritten(record, step, address)
                elif earlier is not None and known >> earlier.event & 1:
                    self._handed.judge(earlier, record, step, known, address % COLUMNS)
                elif earlier is not None and not self._is_ordered(earlier, record, step):
                    self._conflict(earlier, record, step, address % COLUMNS)

    def _is_ordered(self, earlier: Record, record: Record, step: Step) -> bool:
        """A warp's own loads are done before its stores, whatever it waits for.

        Loads of all lanes may use those of one product alone, beside which another one is in flight.
        """
        if self._has_upper and step.instr.semantics.issues is Completion.LOAD_WAIT:
            return True
        own = (earlier.cta, earlier.warp) == (record.cta, record.warp)
        return own and not earlier.writes and step.instr.semantics.issues is Completion.STORE_WAIT

    def _unwritten(self, record: Record, step: Step, address: int) -> None:
        if self._complete and (self._are_stored or self._state.memory.writes):
            guard = self._state.guards.get((record.cta, record.warp))
            if guard is not None and not guard.learnt:
                brought = partial(self._is_brought, guard, record.cta, address)
                returns_early(self._state, guard.barrier, guard, brought, step.instr)
            self._state.findings.add(
                *(UNWRITTEN, TMEM, rules.TENSOR_UNWRITTEN, step.instr, ()),
                now=in_rounds(record.rounds), second=f"{instruction(step.instr)} of {crew(step.instr, record.warp)}",
                column=address % COLUMNS, lane=address // COLUMNS * _LANES, line=line(step.instr),
            )  # fmt: skip

    def _is_brought(self, guard: Wait, cta: int, address: int) -> int | None:
        """The phase that a wait should have met: the last writer of these columns arrives in it, or no warp can."""
        if self.is_stuck:
            return guard.guaranteed
        barrier, shadow = guard.barrier, self._shadows[cta]
        phases = [*barrier.ended, barrier.arrivals]
        came = {(one.cta, one.warp) for one in phases[guard.guaranteed]} if guard.guaranteed < len(phases) else set()
        for writer, _ in shadow.writers(single_bytes(range(address, address + 1))):
            one = self._state.memory.records.records[writer]
            if one is not None and (one.cta, one.warp) in came:
                return guard.guaranteed
        return None

    def _conflict(self, earlier: Record, record: Record, step: Step, column: int) -> None:
        """Two accesses without an order. A product that adds to what is read comes first: it is read too early.

        So does one that a warp should wait for which has read what was there before already, and the first that writes
        there; and what is read in an earlier round than it is written should be read first, whatever this run did.
        """
        now, then = (record, step.instr), (earlier, earlier.parts[0].instr)
        adds = step.instr.semantics.multiplies and number(step.value("enable_d"), step.lanes)
        if earlier.engine == _DEALLOC:
            reversed_ = True
        elif not record.writes:
            reversed_ = earlier.writes and record.rounds.is_earlier(earlier.rounds)
        else:
            first_ = self._complete and record.engine != _DEALLOC and record.replaced < 0
            again = step.instr.semantics.multiplies and self._reads_again(earlier, record)
            reversed_ = not earlier.writes and bool(adds or again or first_)
        if reversed_:
            now, then = then, now
        record, instr = now
        earlier, first = then
        rule = rules.TENSOR_WRITE if record.writes else rules.TENSOR_READ
        values: dict[str, Any] = {"access": "write" if earlier.writes else "read", "column": column}
        if record.engine == _DEALLOC:
            rule = rules.TENSOR_FREED
        guard = self._state.guards.get((record.cta, record.warp))
        if guard is not None and not guard.learnt and first.semantics.issues is Completion.COMMIT:
            returns_early(self._state, guard.barrier, guard, partial(self._needs, earlier, record, guard), instr)
        who = f"{instruction(first)} of {crew(first, earlier.warp)}{after_rounds(earlier.rounds)}"
        self._state.findings.add(
            *(ORDER, TMEM, rule, instr, ((who, first.location),)),
            since=min(record.event, earlier.event), now=in_rounds(record.rounds), first=who,
            second=f"{instruction(instr)} of {crew(instr, record.warp)}",
            reason=f"nothing that {crew(instr, record.warp)} waited for comes after the end of {line(first)}",
            fix=partial(self._advice, earlier, first, record, instr, guard), **values,
        )  # fmt: skip

    def _needs(self, earlier: Record, record: Record, guard: Wait) -> int | None:
        """The phase in which a commit says that an access is over, where a wait for that barrier was too early."""
        signal = self._signal(earlier, record, by_commit=True)
        if signal is None or signal[0] is not guard.barrier or signal[1] < guard.guaranteed:
            return None
        return signal[1]

    def _reads_again(self, read: Record, write: Record) -> bool:
        """Whether a warp has read the same columns before, since the last write, and not in an earlier round."""
        if write.replaced < 0 or write.rounds.is_later(read.rounds):
            return False
        return any(
            one.parts[0].instr is read.parts[0].instr and not _numbers(one).isdisjoint(_numbers(read))
            for one in self._state.memory.records.reads_before(read, write)
        )

    def _advice(
        self, earlier: Record, first: MachineInstr, record: Record, instr: MachineInstr, guard: Wait | None
    ) -> str:
        """How the second access comes to wait for the first; `guard` is what its warp waited for last."""
        by_commit = first.semantics.issues is Completion.COMMIT
        signal = self._signal(earlier, record, by_commit=by_commit)
        apart = "" if _first_column(earlier) == _first_column(record) else _APART
        waits = ""
        if signal is not None:
            barrier, phase, _ = signal
            waits = (
                f"let {crew(instr, record.warp)} wait for phase {phase} of {barrier.name}, parity {phase & 1}, before "
                f"{line(instr)}: k.mbarrier.wait, and then {_AFTER}"
            )
        if by_commit:
            return (_commit(earlier, first, signal, guard) or waits or _committed(first, record, instr)) + apart
        return self._own_wait(earlier, first, record, instr, signal) or waits + apart

    def _own_wait(
        self, earlier: Record, first: MachineInstr, record: Record, instr: MachineInstr, signal: Signal | None
    ) -> str:
        """The wait of the first access's own warp, where that is missing, with what has to follow it."""
        kind, here = first.semantics.issues, line(instr)
        wait = "k.tcgen05.wait_st()" if kind is Completion.STORE_WAIT else "k.tcgen05.wait_ld(...)"
        if (earlier.cta, earlier.warp) == (record.cta, record.warp):
            return f"put {wait} between {line(first)} and {here}"
        put = f"put {wait} after {line(first)} in warp {earlier.warp}"
        if signal is None:
            begin = f"{put}, and " if self._is_open(earlier, kind) else "put "
            return f"{begin}{_BEFORE}, k.barrier.sync() and {_AFTER} between {line(first)} and {here}"
        return "" if signal[2].seen >> earlier.event & 1 else f"{put}, before it arrives on {signal[0].name}"

    def _is_open(self, earlier: Record, kind: Completion | None) -> bool:
        """Whether the warp itself has not waited for its access."""
        if kind not in (Completion.LOAD_WAIT, Completion.STORE_WAIT):
            return False
        groups = self._state.groups_of(self._state.warps[earlier.cta, earlier.warp], kind)
        return any(one.bit >> earlier.event & 1 for one in groups.operations)

    def _signal(self, earlier: Record, record: Record, *, by_commit: bool) -> Signal | None:
        """The first arrival of a warp after its access: mbarrier, phase and arrival; where the other waits, if it does.

        A commit says that to those only who wait there at all.
        """
        who, waits = (earlier.cta, earlier.warp), self._state.waits[record.cta, record.warp]
        found = [
            (barrier.place not in waits, one.at, barrier, phase, one)
            for barrier in self._state.mbarriers.values()
            if barrier.place in waits or not by_commit
            for phase, several in enumerate([*barrier.ended, barrier.arrivals])
            for one in several
            if one.arrivals and (one.cta, one.warp) == who and one.at > earlier.event
        ]
        first = min(found, key=lambda one: one[:2], default=None)
        return None if first is None else first[2:]


def _commit(earlier: Record, first: MachineInstr, signal: Signal | None, guard: Wait | None) -> str:
    """What is wrong with the commit, or the arrival, that the other warp waits for; "" where it should wait itself."""
    who, barrier = (earlier.cta, earlier.warp), None if guard is None else guard.barrier
    if barrier is not None and who in barrier.by and (signal is None or signal[0] is not barrier):
        return f"put the k.tcgen05.commit on {barrier.name} after {line(first)}"
    if signal is None or signal[2].instr.semantics.tracks is Completion.COMMIT:
        return ""
    return f"arrive on {signal[0].name} by k.tcgen05.commit in {line(signal[2].instr)}"


def _committed(first: MachineInstr, record: Record, instr: MachineInstr) -> str:
    return (
        f"let a k.tcgen05.commit after {line(first)} arrive on an mbarrier, and let {crew(instr, record.warp)} wait "
        f"for that before {line(instr)}: k.mbarrier.wait, and then {_AFTER}"
    )


def _first_column(record: Record) -> int:
    return record.parts[0].first % COLUMNS


def _cells(lanes: range, column: int, columns: int) -> Iterator[range]:
    for part in range(lanes.start // _LANES, -(-lanes.stop // _LANES)):
        if part < _PARTS and column + columns <= COLUMNS:
            yield range(part * COLUMNS + column, part * COLUMNS + column + columns)


def _of_other_lanes(address: int) -> int:
    """The cell of the same column in the other half of 32 lanes: loads of all may use one half of what they get."""
    part, column = divmod(address, COLUMNS)
    return (part ^ 1) * COLUMNS + column


def _numbers(record: Record) -> set[int]:
    """The cells of an access."""
    addresses = record.parts[0].addresses
    return {addresses} if isinstance(addresses, int) else set(addresses)
