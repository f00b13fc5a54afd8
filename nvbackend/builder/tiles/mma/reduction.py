"""Partial sums of threads that multiply different parts of K, added through shared memory."""

from __future__ import annotations

from typing import Any

from nvbackend.builder.core.memory import Address
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.tiles.mma.accumulators import Accumulators, add_registers
from nvbackend.builder.tiles.register_tensor import RegisterTensor
from nvbackend.builder.tiles.tensor import make_tensor
from nvbackend.builder.values.accumulator import Accumulator
from nvbackend.builder.values.values import Operand
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE
from nvbackend.layout import Layout, size
from nvbackend.tiled import TiledMMA, reduction
from nvbackend.tiled.split_k import halving


def buffer_of(k: FunctionBuilder, tiled_mma: TiledMMA, accumulators: Accumulators, name: str) -> Address:
    """Shared memory for the registers that warpgroups give away in the first round, register by register."""
    owners, parts = _owners(tiled_mma), size(tiled_mma.atom_layout_mnk, 2)
    count = (parts // 2) * owners * _registers(accumulators) * WARPGROUP_SIZE
    return k.shared(accumulators[0].register_type, count, name=name)


def reduce_accumulators(
    k: FunctionBuilder,
    tiled_mma: TiledMMA,
    accumulators: Accumulators,
    buffer: Address,
    warpgroup: Operand,
    barrier: int,
) -> None:
    """Add the accumulators of the parts along K, in rounds that halve their number; part 0 has the sum."""
    _, m, n, part = tiled_mma.get_atom(warpgroup).vmnk
    owners, registers = _owners(tiled_mma), _registers(accumulators)
    owner = m + n * size(tiled_mma.atom_layout_mnk, 0)
    thread = k.thread_id("linear") % WARPGROUP_SIZE
    rounds = list(halving(size(tiled_mma.atom_layout_mnk, 2)))
    for number, pairs in enumerate(rounds):
        first, count = pairs[0][0], len(pairs)
        if number:
            k.barrier.sync(barrier, tiled_mma.size)  # the round before has read what this one overwrites
        with k.if_((part >= first) & (part < first + count)):
            _each(accumulators, buffer + _start(part - first, owner, owners, registers) + thread, _give)
        k.barrier.sync(barrier, tiled_mma.size)
        with k.if_(part < count):
            _each(accumulators, buffer + _start(part, owner, owners, registers) + thread, _take)


def reduce_registers(k: FunctionBuilder, tiled_mma: TiledMMA, vmnk: tuple[Any, ...], acc: RegisterTensor) -> None:
    """Add the partial sums of a thread's atoms along K, of mma.sync; those at 0 along K have the sum."""
    plan = reduction(tiled_mma)
    if plan.parts == 1:
        return
    owners = len(plan.owners)
    registers = size(acc.layout)
    sums = k.shared(acc.element, (plan.parts - 1) * registers * owners, align=16, name="partial_sums")
    v, m, n, part = vmnk
    threads = tiled_mma.thr_layout_vmnk
    mine = v + size(threads, 0) * (m + size(threads, 1) * n)
    places = make_tensor(k, sums, Layout((owners, registers, plan.parts - 1)))
    with k.if_(part > 0):
        for value in range(registers):
            places[mine, value, part - 1] = acc[value]
    k.barrier.sync()
    with k.if_(part == 0):
        for value in range(registers):
            total = acc[value]
            for other in range(plan.parts - 1):
                total = total + places[mine, value, other]
            acc[value] = total
    k.barrier.sync()


def _start(slot: Any, owner: Any, owners: int, registers: int) -> Any:
    return (slot * owners + owner) * (registers * WARPGROUP_SIZE)


def _each(accumulators: Accumulators, at: Address, move: Any) -> None:
    for accumulator in accumulators:
        move(accumulator, at)
        at = at + accumulator.registers * WARPGROUP_SIZE


def _give(accumulator: Accumulator, at: Address) -> None:
    for index, register in enumerate(accumulator.values()):
        at[index * WARPGROUP_SIZE] = register


def _take(accumulator: Accumulator, at: Address) -> None:
    add_registers(accumulator, [at[index * WARPGROUP_SIZE] for index in range(accumulator.registers)])


def _owners(tiled_mma: TiledMMA) -> int:
    """How many warpgroups have C in the end."""
    atoms = tiled_mma.atom_layout_mnk
    return size(atoms, 0) * size(atoms, 1)


def _registers(accumulators: Accumulators) -> int:
    return sum(accumulator.registers for accumulator in accumulators)
