"""Rules on what the instructions of caches, of clearing and of sleeping are given, with their checks."""

from __future__ import annotations

from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.cache_control import LINE_BYTES

CLEARED_UNIT = 8
"""st.bulk clears a multiple of so many bytes, from an address that is a multiple of it."""
LONGEST_SLEEP = 1_000_000
"""Nanoseconds."""

LINE = Rule(
    id="cache.line",
    message="{instruction} works on lines of {bytes} bytes; the address is a multiple of {align} only",
    fix="give the address of a whole line: allocate at a multiple of {bytes} bytes",
    why="An address inside of a line is undefined behaviour: a neighbour's bytes would be forgotten with one's own.",
    reference="PTX ISA 9.7.9 (applypriority, discard)",
)
POLICY_RANGE = Rule(
    id="cache.policy-range",
    message="a policy for the first {primary} of {total} bytes: the first part is more than the whole",
    fix="give the whole range as total_bytes, and at most as much as primary_bytes",
    why="The behaviour is undefined: the policy can be any.",
    reference="PTX ISA 9.7.9 (createpolicy), primary_size and total_size",
)
CLEARED = Rule(
    id="cache.cleared",
    message="st.bulk clears a multiple of {unit} bytes at a multiple of {unit}, not {given} bytes at one of {align}",
    fix="round the size down and clear the rest with stores, from an address that is a multiple of {unit}",
    why="The behaviour is undefined: bytes beside the range are cleared too, or none is.",
    reference="PTX ISA 9.7.9 (st.bulk)",
)
SLEEP = Rule(
    id="nanosleep.range",
    message="nanosleep takes 0 to {longest} nanoseconds, not {given}",
    fix="sleep several times, and look in between whether there is work",
    why="The hardware sleeps no longer than that, so a longer wait ends too early.",
    reference="PTX ISA 9.7.19 (nanosleep)",
)


def check_line(instruction: str, align: int) -> None:
    """Raises cache.line unless an address that is a multiple of `align` bytes is one of a line's start."""
    if align % LINE_BYTES:
        LINE.fail(instruction=instruction, bytes=LINE_BYTES, align=align)


def check_policy_range(primary_bytes: int, total_bytes: int) -> None:
    """Raises cache.policy-range where the first part is longer than the whole."""
    if primary_bytes > total_bytes:
        POLICY_RANGE.fail(primary=primary_bytes, total=total_bytes)


def check_cleared(size: int, align: int) -> None:
    """Raises cache.cleared unless st.bulk clears `size` bytes at a multiple of `align` bytes."""
    if size < 0 or size % CLEARED_UNIT or align % CLEARED_UNIT:
        CLEARED.fail(unit=CLEARED_UNIT, given=size, align=align)


def check_sleep(nanoseconds: int) -> None:
    """Raises nanosleep.range unless a thread can sleep so long."""
    if not 0 <= nanoseconds <= LONGEST_SLEEP:
        SLEEP.fail(longest=LONGEST_SLEEP, given=nanoseconds)
