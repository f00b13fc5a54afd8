"""What instructions of memory are given: cp.async, multimem, caches, clearing, sleeping, and tensor memory.

It is visible at the call, and neither LLVM nor ptxas tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from nvbackend.diagnostics import Rule
from nvbackend.diagnostics.diagnostic import with_article
from nvbackend.intrinsics.copy.cache_control import LINE_BYTES
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.intrinsics.row.types import ElementType, u64
from nvbackend.intrinsics.sync.warp import ALL_LANES

CLEARED_UNIT = 8
"""st.bulk clears a multiple of this many bytes, from an address that is also a multiple."""
LONGEST_SLEEP = 1_000_000
"""Nanoseconds."""

LINE = Rule(
    id="cache.line",
    message="{instruction} works on lines of {bytes} bytes; the address is a multiple of {align} only",
    fix="give the address of a whole line: {advice}",
    why="An address inside a line is undefined behaviour: a neighbour's bytes would be discarded too.",
    reference="PTX ISA 9.7.9 (applypriority, discard)",
)
POLICY_RANGE = Rule(
    id="cache.policy-range",
    message="a policy for the first {primary} of {total} bytes: the first part is more than the whole",
    fix="give the whole range as total_bytes, and at most as much as primary_bytes",
    why="The behaviour is undefined: the policy can be any.",
    reference="PTX ISA 9.7.9 (createpolicy), primary_size and total_size",
)
POLICY = Rule(
    id="cache.policy",
    message="{given} is not a cache policy: {problem}",
    fix="pass what k.cache.policy(...) returns, or leave cache_policy out",
    why="Only the chip knows what its bits mean; where ptxas sees a 0 it ends with an internal error (C7907).",
    reference="PTX ISA 9.7.9 (createpolicy; ld, cache-policy); ptxas 12.9 and 13.5",
)
POLICY_FRACTION = Rule(
    id="cache.policy-fraction",
    message="a policy for a fraction of {given} of the accesses: it must be more than 0 and at most 1",
    fix="count in parts of 1: 0.5 is every second access, and without fraction= all have the policy",
    why="ptxas refuses the number if it is a constant; in a register it silently becomes another policy.",
    reference="PTX ISA 9.7.9 (createpolicy), fraction; ptxas 13.5",
)
_POLICY, _POLICY_AT = 1, 60
"""What is in the highest bits of a policy (the constants of CUTLASS, cute::TMA::CacheHintSm90)."""
CLEARED = Rule(
    id="cache.cleared",
    message="st.bulk clears a multiple of {unit} bytes at a multiple of {unit}, not {given} bytes at one of {align}",
    fix="round the size down and clear the rest with stores, from an address that is a multiple of {unit}",
    why="The behaviour is undefined: bytes outside the range are cleared too, or nothing is.",
    reference="PTX ISA 9.7.9 (st.bulk)",
)
SPACE = Rule(
    id="memory.space",
    message="{operand} of {instruction} is an address of {wanted} memory, not {given}",
    fix="{advice}",
    why="The bits of an address mean another place in another state space.",
    reference="PTX ISA 5.1 (state spaces), 6.4.1 (addresses as operands)",
)
SLEEP = Rule(
    id="nanosleep.range",
    message="nanosleep takes 0 to {longest} nanoseconds, not {given}",
    fix="{advice}",
    why="The hardware sleeps no longer than that, so a longer wait ends too early.",
    reference="PTX ISA 9.7.19 (nanosleep)",
)
READ_BYTES = Rule(
    id="async-copy.read-bytes",
    message="a copy of {size} bytes reads 0 to {size} of them, not {given}",
    fix="count in bytes, and at most as many as are copied: k.math.min(left, {size})",
    why="It is undefined behaviour to read more than the copy has.",
    reference="PTX ISA 9.7.9 (cp.async), src-size",
)
PENDING_COPIES = Rule(
    id="async-copy.pending",
    message="{instruction} {given}: the number of groups that may stay in flight is {legal}",
    fix="use 0 to wait for every group, n for all but the n newest",
    why="ptxas silently takes a negative number for a large one, so the wait waits for nothing.",
    reference="PTX ISA 9.7.9 (cp.async.wait_group)",
)
PENDING_STORES = Rule(
    id="tma.pending",
    message="{instruction} {given}: the number of bulk groups that may stay in flight is {legal}",
    fix="use 0 to wait for every group, n for all but the n newest",
    why="ptxas silently takes a negative number for a large one, so the wait waits for nothing.",
    reference="PTX ISA 9.7.9.27.2.2 (cp.async.bulk.wait_group)",
)
EXCHANGE = Rule(
    id="shuffle.lanes",
    message="shfl.sync.{mode}: {what}",
    fix="give {advice}",
    why="The result would be the value of another lane, or undefined.",
    reference="PTX ISA 9.7.9 (shfl.sync)",
)
_MULTIMEM = "PTX ISA 9.7.9 (multimem.ld_reduce, multimem.st, multimem.red)"
MULTIMEM_VALUES = Rule(
    id="multimem.values",
    message="{instruction} takes {wanted} register(s) of {kind}, and {given} were given",
    fix="give as many registers as the vector has; four 8-bit elements are one",
    why="The vector's length is part of the instruction's spelling.",
    reference=_MULTIMEM,
)
MULTIMEM_ADDRESS = Rule(
    id="multimem.address",
    message="{instruction} has an address in shared memory",
    fix="use an address of a multicast object, which lies in global memory",
    why="What it does at any other address is not defined.",
    reference=_MULTIMEM,
)


MEMBERS = Rule(
    id="warp.members",
    message="{instruction}: lane {lane} {problem} the members {members}",
    fix="give a bit for every lane that comes here, and for no other; read only what those send",
    why=(
        "The warp waits for every lane that the mask names. The result of a lane that it does not name, "
        "or of a read from such a lane, is undefined."
    ),
    reference="PTX ISA 9.7.9 (shfl.sync), 9.7.13 (bar.warp.sync, vote.sync, match.sync, redux.sync): membermask",
)


def check_read_bytes(read: int, size: int) -> None:
    """Raises async-copy.read-bytes where a copy of `size` bytes is to read another number of them."""
    if not 0 <= read <= size:
        READ_BYTES.fail(size=size, given=read)


def check_policy(number: int) -> None:
    """Raises cache.policy for a number that no createpolicy gives."""
    if number >> _POLICY_AT != _POLICY:
        POLICY.fail(given=hex(number) if number > 0 else number, problem="no createpolicy gives it")


def check_policy_fraction(fraction: float) -> None:
    """Raises cache.policy-fraction unless a policy can be for this `fraction` of the accesses."""
    if not 0 < fraction <= 1:
        POLICY_FRACTION.fail(given=fraction)


def check_policy_type(element: ElementType) -> None:
    """Raises cache.policy for a value of another type than u64."""
    if element is not u64:
        POLICY.fail(given=with_article(element.name), problem="a policy is a u64")


def check_exchange(mode: str, lane: int | None, width: int) -> None:
    """Raises shuffle.lanes for a segment or a lane that does not exist; `lane` is None if unknown."""
    if type(width) is not int or not 1 <= width <= WARP_SIZE or width & (width - 1):
        advice = f"a power of two up to {WARP_SIZE}"
        EXCHANGE.fail(mode=mode, what=f"segments of {width} lanes", advice=advice)
    if lane is not None and not 0 <= lane < WARP_SIZE:
        EXCHANGE.fail(mode=mode, what=f"lane {lane} of a warp", advice=f"0 to {WARP_SIZE - 1}")


def check_members(instruction: str, masks: Mapping[int, int]) -> None:
    """Raises warp.members where the lanes of a warp that execute it are not the members, by the mask of each thread.

    Where all lanes are named, convergence.warp reports those that do not come.
    """
    for thread, mask in masks.items():
        if not mask >> thread % WARP_SIZE & 1:
            _not_members(instruction, thread, "executes it, and is not among", mask)
    for thread, mask in masks.items():
        first = thread - thread % WARP_SIZE
        for other in (first + lane for lane in range(WARP_SIZE) if mask >> lane & 1):
            if other not in masks and mask & ALL_LANES != ALL_LANES:
                _not_members(instruction, other, "never comes here, and is among", mask)
            if (masks.get(other, mask) ^ mask) & ALL_LANES:
                problem = f"names the members {masks[other] & ALL_LANES:#x}, and is among"
                _not_members(instruction, other, problem, mask)


def _not_members(instruction: str, thread: int, problem: str, members: int) -> NoReturn:
    MEMBERS.fail(instruction=instruction, lane=thread % WARP_SIZE, problem=problem, members=f"{members & ALL_LANES:#x}")


def check_sender(instruction: str, mode: str, lane: int, width: int, members: int) -> None:
    """Raises warp.members if all of the `members` read lanes that are not members."""
    senders = [_sender(mode, own, lane, width) for own in range(WARP_SIZE) if members >> own & 1]
    if senders and not any(members >> sender & 1 for sender in senders):
        problem = "is read from, and is not among"
        MEMBERS.fail(instruction=instruction, lane=senders[0], problem=problem, members=f"{members:#x}")


def _sender(mode: str, own: int, lane: int, width: int) -> int:
    """The lane that lane `own` reads: PTX ISA 9.7.9 (shfl.sync)."""
    first = own - own % width
    source = {"idx": first + lane % width, "up": own - lane, "down": own + lane, "bfly": own ^ lane}[mode]
    is_inside = source >= first if mode == "up" else source < first + width  # of bfly too, whose lower lanes all send
    return source if is_inside else own


def check_line(instruction: str, align: int, advice: str) -> None:
    """Raises cache.line unless `align` makes the address the start of a cache line."""
    if align % LINE_BYTES:
        LINE.fail(instruction=instruction, bytes=LINE_BYTES, align=align, advice=advice)


def check_policy_range(primary_bytes: int, total_bytes: int) -> None:
    """Raises cache.policy-range where the first part is longer than the whole."""
    if primary_bytes > total_bytes:
        POLICY_RANGE.fail(primary=primary_bytes, total=total_bytes)


def check_cleared(size: int, align: int) -> None:
    """Raises cache.cleared unless st.bulk clears `size` bytes at a multiple of `align` bytes."""
    if size % CLEARED_UNIT or align % CLEARED_UNIT:
        CLEARED.fail(unit=CLEARED_UNIT, given=size, align=align)


def check_sleep(nanoseconds: int) -> None:
    """Raises nanosleep.range unless a thread can sleep so long."""
    advice = ""
    if nanoseconds > LONGEST_SLEEP:
        advice = "sleep several times, and look in between whether there is work"
    elif nanoseconds < 0:
        advice = "count from 0 on: a time that has passed already is 0"
    if advice:
        SLEEP.fail(longest=LONGEST_SLEEP, given=nanoseconds, advice=advice)


def check_multimem_values(row: Row, registers: int, kind: object) -> None:
    """Raises multimem.values unless `registers` registers are the vector that `row` writes."""
    wanted = row.operand("values").count
    if registers != wanted:
        MULTIMEM_VALUES.fail(instruction=row.ptx, wanted=wanted, kind=kind, given=registers)


def check_multimem_address(instruction: str, *, in_shared: bool) -> None:
    """Raises multimem.address for an address in shared memory."""
    if in_shared:
        MULTIMEM_ADDRESS.fail(instruction=instruction)


COLUMNS = Rule(
    id="tcgen05.columns",
    message="tensor memory is allocated in {legal} columns, not {given}",
    fix="allocate {nearest}, and use those that you do not need for something else",
    why="ptxas refuses another constant; in a register it stops the kernel.",
    reference="PTX ISA 9.7.16.7.1 (tcgen05.alloc)",
)
READ_BEFORE_WAIT = Rule(
    id="tcgen05.read-before-wait",
    message="registers of a tcgen05.ld are read before the wait for it",
    fix="call k.tcgen05.wait_ld(...) with this load first; one wait can take several loads",
    why="The load is asynchronous: until wait::ld the registers may still hold what was there before.",
    reference="PTX ISA 9.7.16.8.5 (tcgen05.wait)",
)
OPERANDS = Rule(
    id="tcgen05.operands",
    message="{instruction} takes {wanted}, and was given {given}",
    fix="give exactly what the request asks for: {wanted}",
    why="An operand too many is lost, and one that is missing is taken from another register.",
    reference="PTX ISA 9.7.16.10.9 (operands of tcgen05.mma)",
)
LANES = Rule(
    id="tcgen05.lane-words",
    message="disable-output-lane of cta_group::{group} is {wanted} words, not {given}",
    fix="give {wanted} u32 values: one bit for each of the 128 lanes of each CTA",
    why="ptxas refuses another length.",
    reference="PTX ISA 9.7.16.10.9.1 (disable-output-lane)",
)
BOUNDS = Rule(
    id="tcgen05.bounds",
    message="{what} leave {name}, which has {columns} columns",
    fix="stay within the {columns} columns, or allocate more",
    why="What follows belongs to another allocation, of another CTA as well: its accumulators are overwritten.",
    reference="PTX ISA 9.7.16.1 (tensor memory), 9.7.16.7.1 (tcgen05.alloc)",
)


def check_columns(columns: int) -> None:
    """Raises tcgen05.columns unless one allocation can have this many columns."""
    from nvbackend.intrinsics.copy.tcgen05_memory import ALLOCATIONS

    if columns not in ALLOCATIONS or isinstance(columns, bool):
        nearest = next((candidate for candidate in ALLOCATIONS if candidate >= columns), max(ALLOCATIONS))
        COLUMNS.fail(
            legal=f"{', '.join(map(str, ALLOCATIONS[:-1]))} or {ALLOCATIONS[-1]}", given=columns, nearest=nearest
        )
