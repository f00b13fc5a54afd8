"""What is known of a value in all threads of a CTA: its number in each of them, or over which threads it is the same.

Knowledge only falls: from a number for each thread to a scope, and from a scope to a smaller one. So the analysis that
starts with nothing known to differ reaches a fixed point.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from llvmlite import ir

from nvbackend.intrinsics.row.hierarchy import WARP_SIZE, WARPGROUP_SIZE
from nvbackend.intrinsics.row.row import Asm, Row
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import cluster, special_registers, warp
from nvbackend.isel.machine.function import Scope

Numbers = tuple[int, ...]
"""A number for each thread of the CTA, as the unsigned value of its bits."""
Known = Numbers | Scope

_GROUPS = ((Scope.WARPGROUP, WARPGROUP_SIZE), (Scope.WARP, WARP_SIZE))
_REGISTERS: dict[str, Scope] = {
    **dict.fromkeys(
        ("laneid", "lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt"), Scope.THREAD
    ),
    "tid.x": Scope.THREAD,
    "warpid": Scope.WARP,
    **dict.fromkeys(("ctaid.x", "ctaid.y", "ctaid.z", "cluster_ctarank", "smid"), Scope.CTA),
    **dict.fromkeys(("cluster_ctaid.x", "cluster_ctaid.y", "cluster_ctaid.z"), Scope.CTA),
    **dict.fromkeys(("clusterid.x", "clusterid.y", "clusterid.z"), Scope.CLUSTER),
}
"""Special registers that differ between threads; the others are the same in all, or nothing is known of them."""
THREAD_INDEX = "tid.x"


def scope_of(known: Known) -> Scope:
    """The largest scope over which the value is the same."""
    if isinstance(known, Scope):
        return known
    if known.count(known[0]) == len(known):
        return Scope.GRID
    for scope, size in _GROUPS:
        if all(len(set(known[start : start + size])) == 1 for start in range(0, len(known), size)):
            return scope
    return Scope.THREAD


def meet(found: Iterable[Known]) -> Known | None:
    """What is known of a value that is one of these; None where there is none."""
    joined: Known | None = None
    for known in found:
        joined = known if joined is None or joined == known else min(scope_of(joined), scope_of(known))
    return joined


def constant_of(value: ir.Value, threads: int) -> Known:
    """What is known of a value that no instruction makes: constants, addresses, parameters."""
    if isinstance(value, ir.Constant) and isinstance(value.constant, int) and isinstance(value.type, ir.IntType):
        return (_bits(value.constant, value.type.width),) * threads
    return Scope.GRID


def result_of(instruction: ir.Instruction, operands: Sequence[Known], threads: int, *, exact: bool) -> Known:
    """What is known of an instruction's result, given that of its operands (calls: of their arguments)."""
    if isinstance(instruction, ir.CallInstr):
        return _called(instruction, operands, threads, exact=exact)
    tables = [known for known in operands if isinstance(known, tuple)]
    if tables and len(tables) == len(operands) and (numbers := _numbers(instruction, tables)) is not None:
        return numbers
    scope = min((scope_of(known) for known in operands), default=Scope.GRID)
    if instruction.opname == "load" and getattr(instruction.operands[0].type, "addrspace", 0) == _SHARED:
        return min(scope, Scope.CTA)
    return scope


_SHARED = 3
"""The address space of a CTA's own shared memory."""


def _called(call: ir.CallInstr, operands: Sequence[Known], threads: int, *, exact: bool) -> Known:
    name = _name(call)
    register = _registers_by_name().get(name)
    if register is not None:
        return tuple(range(threads)) if register == THREAD_INDEX and exact else _REGISTERS[register]
    scope = min((scope_of(known) for known in operands), default=Scope.GRID)
    if name in _same_in_a_warp():
        value, lane = operands[1], operands[2] if len(operands) > 2 else None
        broadcast = name == _name_of(warp.shuffle("idx"))
        if broadcast and isinstance(value, tuple) and isinstance(lane, tuple) and scope_of(lane) is Scope.GRID:
            source = lane[0] % WARP_SIZE
            return tuple(
                [value[first + source] for first in range(0, threads, WARP_SIZE) for _ in range(WARP_SIZE)][:threads]
            )
        return max(scope, Scope.WARP) if not broadcast or lane is None or scope_of(lane) >= Scope.WARP else scope
    if name == _name_of(sync.elect()):
        return Scope.THREAD
    if name.startswith("llvm.nvvm.") and not name.startswith(_OF_THE_LANE):
        return Scope.GRID
    return scope if name.startswith("llvm.") or name == _name_of(cluster.mapa()) else Scope.GRID


_OF_THE_LANE = ("llvm.nvvm.shfl.sync.",)
"""What gives a lane another value than the next where its operands differ."""


@cache
def _same_in_a_warp() -> frozenset[str]:
    """What gives every lane of the warp one result, with all lanes as members."""
    reductions = (warp.reduce("add", "s32"), warp.reduce("min", "s32"), warp.reduce("max", "s32"))
    rows = (warp.shuffle("idx"), *(warp.vote(mode) for mode in warp.VOTES), warp.match("all"), *reductions)
    return frozenset(_name_of(row) for row in rows)


@cache
def _registers_by_name() -> dict[str, str]:
    """The special registers that differ between threads, by the name of what reads them in LLVM."""
    return {_name_of(special_registers.special_register(name)): name for name in _REGISTERS}


def _name(call: ir.CallInstr) -> str:
    callee = call.callee
    return str(callee.asm) if isinstance(callee, ir.InlineAsm) else str(callee.name)


def _name_of(row: Row) -> str:
    return row.asm if isinstance(row.lowering, Asm) else row.lowering.name


def _bits(number: int, width: int) -> int:
    return number & (1 << width) - 1


def signed(number: int, width: int) -> int:
    """The number that `width` bits are in two's complement."""
    return number - (1 << width) if number >> width - 1 else number


_UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": operator.lshift,
    "lshr": operator.rshift,
    "udiv": operator.floordiv,
    "urem": operator.mod,
    "eq": operator.eq,
    "ne": operator.ne,
    "ult": operator.lt,
    "ule": operator.le,
    "ugt": operator.gt,
    "uge": operator.ge,
}
_SIGNED: dict[str, Callable[[int, int], int]] = {
    "ashr": operator.rshift,
    "sdiv": lambda a, b: -(-a // b) if (a < 0) != (b < 0) else a // b,
    "srem": lambda a, b: -(-a % abs(b)) if a < 0 else a % abs(b),
    "slt": operator.lt,
    "sle": operator.le,
    "sgt": operator.gt,
    "sge": operator.ge,
}
_DIVISIONS = ("udiv", "urem", "sdiv", "srem")
_SHIFTS = ("shl", "lshr", "ashr")


def _numbers(instruction: ir.Instruction, tables: Sequence[Numbers]) -> Numbers | None:
    """The result in each thread, None for what is not evaluated."""
    operation = instruction.op if instruction.opname == "icmp" else instruction.opname
    if operation == "select":
        return tuple(yes if condition else no for condition, yes, no in zip(*tables, strict=True))
    kind = instruction.operands[0].type
    if not isinstance(kind, ir.IntType) or not isinstance(instruction.type, ir.IntType):
        return None
    source, width = kind.width, instruction.type.width
    mask = (1 << width) - 1
    if operation in ("zext", "trunc", "sext"):
        extended = _all_signed(tables[0], source) if operation == "sext" else tables[0]
        return tuple([number & mask for number in extended])
    compute = _UNSIGNED.get(operation)
    if compute is None and operation in _SIGNED:
        compute = _SIGNED[operation]
        tables = [_all_signed(table, source) for table in tables]
    undefined = (operation in _DIVISIONS and 0 in tables[1]) or (
        operation in _SHIFTS and not (min(tables[1]) >= 0 and max(tables[1]) < source)
    )
    if compute is None or undefined:
        return None
    return tuple([number & mask for number in map(compute, *tables)])


def _all_signed(table: Numbers, width: int) -> Numbers:
    """The numbers that these bits are in two's complement."""
    return table if max(table) < 1 << width - 1 else tuple([signed(number, width) for number in table])
