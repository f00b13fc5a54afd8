"""What the program shows of an instruction as it is emitted: its operands' numbers and places, its threads and CTAs.

LLVM writes what it knows to be a number as an immediate, and ptxas refuses some that it takes in a register. So a
number that is certainly wrong is refused here, and one that may be is given in a register that LLVM cannot see into.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from llvmlite import ir

from nvbackend.builder.lower.lowering import Operands, values_of
from nvbackend.builder.value_tracking.addresses.peers import Peers
from nvbackend.builder.value_tracking.addresses.places import Places, word_of
from nvbackend.builder.value_tracking.addresses.tensor_maps import TensorMapPlaces
from nvbackend.builder.value_tracking.cluster_execution import ClusterExecution, Numbers
from nvbackend.builder.value_tracking.execution import Execution
from nvbackend.builder.value_tracking.expressions.bits import Bits
from nvbackend.builder.value_tracking.expressions.provenance import parity_facts, swizzle_fact, variables, wraps
from nvbackend.builder.values.values import GLOBAL_SPACE
from nvbackend.diagnostics import Diagnostic, DiagnosticError, Rule, raise_all
from nvbackend.intrinsics.row.row import GUARD, Intrinsic, RegisterClass, Row, RowOperand
from nvbackend.intrinsics.row.semantics import BARRIER, NOTHING, Completion, Scope, Semantics, TensorMapUse
from nvbackend.isel.flow.memory_uses import STRIDE, address_use, descriptor_use, known_extent
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import INSTRUCTION_DESCRIPTOR, MemoryTouch, MemoryUse, Reach
from nvbackend.isel.machine.pseudo import ADDRESS
from nvbackend.isel.protocols.cluster.rules import RANK
from nvbackend.isel.select.rows import check_number, checked_operands

BARRIER_CTA = Rule(
    id="tma.barrier-cta",
    message="{instruction}, issued by the CTA of rank {rank}, writes to the CTA of rank {destination} and completes on "
    "a barrier of the CTA of rank {barrier}",
    fix="{advice}",
    why="The bytes are counted in the CTA that they are written to: another CTA's barrier does not get them.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor, .cta_group)",
)
_IN_PAIR = "give the barrier of the CTA that the bytes go to, or of the other CTA of its pair"
_IN_CTA = "give the barrier of the CTA that the bytes go to"
_WITH_GROUP = f"{_IN_CTA}; or, on targets with tcgen05, cta_group=2, with which it may be the other CTA's of a pair"
_ADDRESSES = (RegisterClass.SHARED, RegisterClass.SHARED_CLUSTER, RegisterClass.GLOBAL, RegisterClass.GENERIC)
"""Registers that hold an address."""
_DESTINATION = "destination"
_MAP_ADDRESSES = ("tensor_map", _DESTINATION)
"""The operands that are the address of a tensor map, the first of them that a row has."""
_UNADDRESSED = (None, TensorMapUse.RELEASE)
_GROUP = "cta_group"
_PAIR = 2
_EVERY_CTA = 0xFFFF

_MOST_CANDIDATES = 64
"""Numbers that a value may be, beyond which it may be any."""
_COPY = "mov.b32 $0, $1;"
_TRACED = (BARRIER, "parity")
"""Operands whose variables the analyses need."""
_DESCRIBED = (Completion.MMA_GROUP, Completion.COMMIT)
"""The completions of instructions that take descriptors."""
_COUNTED = (Completion.BULK_GROUP, Completion.BYTES, Completion.COMMIT)
_CONSTANTS = (facts.COUNT, facts.BYTES, facts.PARITY, facts.MASK, facts.STRIDE)


@cache
def is_checked(row: Row) -> bool:
    """Whether `row` has an operand that is checked or copied here: a number with a rule, or a shared address."""
    return bool(checked_operands(row)) or any(
        operand.legal is not None
        or operand.name == BARRIER
        or operand.register in (RegisterClass.SHARED, RegisterClass.SHARED_CLUSTER)
        for operand in row.operands
    )


@cache
def _is_arithmetic(row: Row) -> bool:
    """Whether `row` only computes: no analysis needs to know its operands."""
    return row.semantics == NOTHING and not any(
        operand.name in (ADDRESS, _DESTINATION, *_TRACED) or operand.register in _ADDRESSES for operand in row.operands
    )


@cache
def _used(row: Row) -> tuple[tuple[RowOperand, MemoryUse, bool], ...]:
    """The operands by which `row` accesses shared memory, what it does there, and whether they are descriptors."""
    used = []
    for operand in row.operands:
        if (use := address_use(row.semantics, operand)) is not None:
            used.append((operand, use, False))
        elif (use := descriptor_use(row.semantics, operand)) is not None:
            used.append((operand, use, True))
    return tuple(used)


@cache
def _accessed(row: Row) -> tuple[str, ...]:
    """The operands with the addresses of shared memory that `row` reads or writes in the generic proxy."""
    uses = (MemoryUse.READ, MemoryUse.WRITE)
    return tuple(operand.name for operand in row.operands if address_use(row.semantics, operand) in uses)


class Tracked(NamedTuple):
    """What is recorded of an instruction besides its row and the names of its registers."""

    semantics: Semantics
    words: dict[str, int]
    memory: tuple[MemoryTouch, ...]
    facts: dict[str, int]
    sources: dict[str, frozenset[str]]


class OperandTracking:
    """The instructions of one function, by what is known of its threads, places and peers' addresses."""

    def __init__(self, execution: Execution, places: Places, peers: Peers, *, in_cluster: bool) -> None:
        self._in_cluster = in_cluster
        self._execution = execution
        self._places = places
        self._peers = peers
        self._numbers = OperandNumbers(execution, places.bits)
        self.maps = TensorMapPlaces(execution)

    # -- before it is emitted -----------------------------------------------------------------------------------------

    def check(self, row: Row, operands: Operands) -> Reach | None:
        """The CTAs whose mbarriers `row` reaches; None without one, or where the cluster is unknown.

        Raises cluster.peer-address, cluster.rank and tma.barrier-cta, and the rules of the operands' numbers.
        """
        if self._in_cluster:
            self._check_own(row, operands)
        self._numbers.check(row, operands)
        cluster = self._execution.of_cluster
        return None if cluster is None else self._reach(cluster, row, operands)

    def in_registers(self, builder: ir.IRBuilder, row: Row, operands: Operands) -> Operands:
        """`operands` as they are lowered: see `OperandNumbers`."""
        return self._numbers.in_registers(builder, row, operands)

    def _check_own(self, row: Row, operands: Operands) -> None:
        """Raises cluster.peer-address if `row` needs an address of the CTA's own memory and has a peer's."""
        for operand in row.operands:
            goes_to_peers = operand.name == BARRIER and row.semantics.peers  # only LLVM has it in the own window
            if operand.register is RegisterClass.SHARED and not goes_to_peers:
                for value in values_of({operand.name: operands.get(operand.name)}):
                    self._peers.check(value, row.ptx, operand.name)

    def _reach(self, cluster: ClusterExecution, row: Row, operands: Operands) -> Reach | None:
        guard = operands.get(GUARD)
        for operand in row.operands:
            if operand.register is RegisterClass.SHARED_CLUSTER or operand.name == BARRIER:
                address = operands.get(operand.name)
                if isinstance(address, ir.Value):
                    self.check_rank(address, guard)
        barrier = operands.get(BARRIER)
        if not isinstance(barrier, ir.Value):
            return None
        destination = operands.get(_DESTINATION)
        if isinstance(destination, ir.Value):
            self._check_same_cta(cluster, row, destination, barrier, guard)
        said, mask = row.semantics, operands.get(facts.MASK)
        if said.multicast and not row.has_operand(facts.MASK):
            mask = _EVERY_CTA
        return cluster.reach(said, mask, self._owner(cluster, barrier), guard, paired=row.axes.get(_GROUP) == _PAIR)

    def check_rank(self, address: ir.Value, guard: object = None) -> None:
        """Raises cluster.rank if a thread here certainly maps `address` to a rank outside the cluster."""
        cluster, rank = self._execution.of_cluster, self._peers.rank_of(address)
        numbers = None if cluster is None or rank is None else cluster.numbers(rank)
        if cluster is None or numbers is None:
            return
        size = cluster.cluster
        place = cluster.first(guard, lambda *place: not 0 <= numbers.at(*place) < size)
        if place is not None:
            shown = f"{numbers.at(*place)}, in thread {place[1]} of the CTA of rank {place[0]}"
            RANK.fail(rank=shown, cluster=size, legal=f"0 to {size - 1}")

    def _check_same_cta(
        self, cluster: ClusterExecution, row: Row, destination: ir.Value, barrier: ir.Value, guard: object
    ) -> None:
        """Raises tma.barrier-cta if destination and barrier are certainly in CTAs that one copy cannot combine."""
        if not self._peers.has(destination) and not self._peers.has(barrier):
            return
        target, owner = self._owner(cluster, destination), self._owner(cluster, barrier)
        if target is None or owner is None:
            return
        paired = row.axes.get(_GROUP) == _PAIR
        place = cluster.first(guard, lambda *place: target.at(*place) >> paired != owner.at(*place) >> paired)
        if place is not None:
            to, counted = target.at(*place), owner.at(*place)
            advice = _IN_PAIR if paired else _WITH_GROUP if _GROUP in row.axes and to >> 1 == counted >> 1 else _IN_CTA
            BARRIER_CTA.fail(instruction=row.ptx, rank=place[0], destination=to, barrier=counted, advice=advice)

    def _owner(self, cluster: ClusterExecution, address: ir.Value) -> Numbers | None:
        """The rank of the CTA of a shared address; None if unknown."""
        if not self._peers.has(address):
            return cluster.own
        rank = self._peers.rank_of(address)
        return None if rank is None else cluster.numbers(rank)

    # -- once it is emitted -------------------------------------------------------------------------------------------

    def tracked(
        self, row: Row, operands: Operands, block: ir.Block, words: Mapping[str, int], extents: Mapping[str, int]
    ) -> Tracked:
        """What the program shows of `row`, emitted in `block`; `words` and `extents` are those that the caller knows.

        The extents are the bytes at an operand's address.
        """
        if _is_arithmetic(row):
            return Tracked(row.semantics, dict(words), (), {}, {})
        said = self._said(row, operands)
        written = operands.get(ADDRESS if said.in_peer else _DESTINATION)
        return Tracked(
            said,
            self._words(row, operands, words),
            tuple(self._touches(row, said, operands, extents)),
            {
                **self.facts(row, operands),
                **parity_facts(operands.get("parity"), block),
                **self._swizzle(row, operands),
                **self._map(row, operands),
                **(self._peers.facts(written) if isinstance(written, ir.Value) else {}),
            },
            sources(operands),
        )

    def tracked_anywhere(self, row: Row, operands: Operands) -> Tracked:
        """What the program shows of `row` wherever it is: nothing of the threads that execute it."""
        said = self._said(row, operands)
        touches = tuple(self._touches(row, said, operands, {}))
        return Tracked(said, self._words(row, operands, {}), touches, constants_of(row, operands), sources(operands))

    def _said(self, row: Row, operands: Operands) -> Semantics:
        """What `row` does with these operands: an access by the cluster's window may be one of the own memory."""
        place = operands.get(ADDRESS) if row.semantics.in_peer else None
        is_own = isinstance(place, ir.Value) and self._peers.is_own(place)
        return replace(row.semantics, in_peer=False) if is_own else row.semantics

    def _words(self, row: Row, operands: Operands, known: Mapping[str, int]) -> dict[str, int]:
        """The words of `row`, by name: the `known` ones, and what else the program shows of them.

        A descriptor with an unknown constant part has none; neither has a constant without strides, a placeholder.
        """
        words = dict(known)
        if row.semantics.issues not in _DESCRIBED:
            return words
        if row.semantics.issues is Completion.COMMIT and row.semantics.multiplies:
            from nvbackend.intrinsics.words.tcgen05_control import control_words

            words = {**control_words(row), **words}
        for name, value in _descriptors(row, operands):
            word = words.pop(name, None)  # those of operands follow in the row's order
            if word is None:
                word = word_of(value, self._places.bits, whole=name == INSTRUCTION_DESCRIPTOR)
            if word is not None:
                words[name] = word
        return words

    def _touches(
        self, row: Row, said: Semantics, operands: Operands, extents: Mapping[str, int]
    ) -> Iterator[MemoryTouch]:
        """The accesses of `row`, which does what is `said`, as far as the places are known."""
        constants = {name: operand.constant for name, operand in operands.items() if isinstance(operand, ir.Constant)}
        for operand, use, is_described in _used(row):
            find = self._places.of_descriptor if is_described else self._places.of_address
            value = operands.get(operand.name)
            if not isinstance(value, ir.Value):
                continue
            place = self._places.of_peer(find(value)) if said.in_peer else find(value)
            if place is not None:
                extent = extents.get(operand.name)
                if extent is None:
                    extent = known_extent(row.semantics, operand, constants, strided=row.has_operand(STRIDE))
                does = {touch.writes for touch in said.memory if touch.name == operand.name}
                uses = (MemoryUse.READ, MemoryUse.WRITE) if said.atomic and len(does) > 1 else (use,)
                yield from (place.touch(each, operand.name, extent) for each in uses)

    def _map(self, row: Row, operands: Operands) -> dict[str, int]:
        """Which tensor map `row` works on, if on one, where nothing but the CTA's index decides which."""
        if row.semantics.tensor_map in _UNADDRESSED:
            return {}
        address = operands.get(next(name for name in _MAP_ADDRESSES if row.has_operand(name)))
        return self.maps.facts(address) if isinstance(address, ir.Value) and not _is_parameter(address) else {}

    def _swizzle(self, row: Row, operands: Operands) -> dict[str, int]:
        """The swizzle of the shared address that `row` reads or writes at in the generic proxy, where it shows one."""
        accessed = values_of({name: operands[name] for name in _accessed(row)})
        return next((swizzle_fact(value, self._places.bits) for value in accessed), {})

    def facts(self, row: Row, operands: Operands) -> dict[str, int]:
        """What is known of how the threads here execute `row`, where it concerns mbarriers, bulk copies or tcgen05.

        Threads that a guard takes out are not counted. Of wmma, constant operands alone.
        """
        if not _is_counted(row.semantics):
            return constants_of(row, operands) if row.semantics.fragments else {}
        known = constants_of(row, operands)
        barrier = operands.get(BARRIER)
        if isinstance(barrier, ir.Value) and wraps(barrier):
            known[facts.WRAPS] = 1
        executing = self._execution.executing(operands.get(GUARD))
        here = None if executing is None else executing.of_cta
        if here is not None and here.count is not None:
            known[facts.THREADS] = here.count
            known[facts.WARPS] = here.warps
            if here.count == 1 and here.is_exact:
                known[facts.THREAD] = here.exact[0]
        return known


def _is_counted(said: Semantics) -> bool:
    of_cluster = said.barrier is not None and said.barrier.scope is Scope.CLUSTER
    return of_cluster or said.mbarrier is not None or said.completion in _COUNTED


def constants_of(row: Row, operands: Operands) -> dict[str, int]:
    """The facts about `row` that are constant operands."""
    known = {}
    for operand in row.operands:
        register = operands.get(operand.name)
        number = register.constant if isinstance(register, ir.Constant) else register
        if operand.name in _CONSTANTS and isinstance(number, int):
            known[operand.name] = number
    return known


def sources(operands: Operands) -> dict[str, frozenset[str]]:
    """The variables that the traced operands are computed from, for those where all are known."""
    traced = {name: value for name in _TRACED if isinstance(value := operands.get(name), ir.Value)}
    return {name: names for name, value in traced.items() if (names := variables(value)) is not None}


def _descriptors(row: Row, operands: Operands) -> Iterator[tuple[str, ir.Value]]:
    for operand in row.inputs:
        if operand.name == INSTRUCTION_DESCRIPTOR or descriptor_use(row.semantics, operand) is not None:
            value = operands.get(operand.name)
            if isinstance(value, ir.Value):
                yield operand.name, value


class OperandNumbers:
    """The numbers of the run-time operands of one function's instructions."""

    def __init__(self, execution: Execution, bits: Bits) -> None:
        self._execution = execution
        self._bits = bits

    def check(self, row: Row, operands: Operands) -> None:
        """Raises the rule of an operand whose run-time value certainly breaks it, in some thread that is here."""
        if self._execution.is_unreached():
            return
        checked = checked_operands(row)
        constants = {name: operand.constant for name, operand in operands.items() if isinstance(operand, ir.Constant)}
        others = {name: number for name, number in constants.items() if type(number) is int}
        for name in checked:
            value = operands.get(name)
            if not isinstance(value, ir.Instruction):
                continue
            certain = self._certain(value)
            for number in certain:
                raise_all(_faults(row, name, number, value, others))
            if not certain and (candidates := self._candidates(value)):
                every = [_faults(row, name, number, value, others) for number in candidates]
                raise_all(every[0] if all(every) else ())
            if not certain and not self._may_be_legal(value, row.operand(name).legal):
                raise_all(_faults(row, name, self._bits.known(value)[1], value, others))

    def in_registers(self, builder: ir.IRBuilder, row: Row, operands: Operands) -> Operands:
        """`operands`, those that LLVM could fold to a number that ptxas refuses copied by an asm that it keeps.

        Asm takes registers alone, so what is lowered to it needs no copy.
        """
        if not isinstance(row.lowering, Intrinsic):
            return operands
        registers = dict(operands)
        for operand in row.inputs:
            value = operands.get(operand.name)
            if operand.legal is not None and isinstance(value, ir.Value) and not isinstance(value, ir.Constant):
                numbers = self._certain(value) or self._candidates(value)
                if not numbers or any(number not in operand.legal for number in numbers):
                    registers[operand.name] = _copied(builder, value)
        return registers

    def _certain(self, value: ir.Value) -> tuple[int, ...]:
        """The distinct numbers of an integer in the threads here; empty if unknown."""
        return self._execution.values_here(value)

    def _candidates(self, value: ir.Value) -> tuple[int, ...]:
        """All numbers that an integer may be, lowest first; empty if there are too many."""
        counted = self._execution.counted(value)
        if counted is not None:
            first, last = counted
            return tuple(range(first, last + 1)) if last - first < _MOST_CANDIDATES else ()
        mask, number = self._bits.known(value)
        unknown = [1 << bit for bit in range(value.type.width) if not mask >> bit & 1]
        if 1 << len(unknown) > _MOST_CANDIDATES:
            return ()
        subsets = itertools.chain.from_iterable(
            itertools.combinations(unknown, count) for count in range(len(unknown) + 1)
        )
        return tuple(sorted(number + sum(some) for some in subsets))

    def _may_be_legal(self, value: ir.Value, legal: Iterable[int] | None) -> bool:
        mask, number = self._bits.known(value)
        return legal is None or any(allowed & mask == number for allowed in legal)


def _faults(row: Row, name: str, number: int, value: ir.Value, others: dict[str, int]) -> tuple[Diagnostic, ...]:
    """What is wrong with a number of the bits of `value`, read with a sign and without: nothing where one is right."""
    whole = 1 << value.type.width
    faults: tuple[Diagnostic, ...] = ()
    for reading in dict.fromkeys((number % whole, (number + whole // 2) % whole - whole // 2)):
        try:
            check_number(row, name, reading, others)
        except DiagnosticError as error:
            faults = error.diagnostics
        else:
            return ()
    return faults


def _is_parameter(address: ir.Value) -> bool:
    """Whether it is that of a kernel's parameter, which nothing on the device changes."""
    kind = address.type
    return isinstance(address, ir.Argument) and isinstance(kind, ir.PointerType) and kind.addrspace != GLOBAL_SPACE


def _copied(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """The same number in another register: LLVM does not look into asm."""
    kind = ir.FunctionType(value.type, [value.type])
    return builder.call(ir.InlineAsm(kind, _COPY, "=r,r"), [value])


def is_copy(instr: ir.Instruction) -> bool:
    """Whether it is such a copy: what is known of the number decides whether there is one, not what the code does."""
    return isinstance(instr, ir.CallInstr) and isinstance(instr.callee, ir.InlineAsm) and instr.callee.asm == _COPY
