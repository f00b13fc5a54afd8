"""Where the rules on operands of memory instructions draw their limits, and what they advise beyond them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nvbackend import u32, u64
from nvbackend.diagnostics import Diagnostic, DiagnosticError
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.isel.operands import memory


def fault(check: Callable[..., object], *given: object) -> Diagnostic | None:
    try:
        check(*given)
    except DiagnosticError as error:
        [found] = error.diagnostics
        return found
    return None


LIMITS: dict[str, tuple[Callable[[int], object], tuple[int, ...], tuple[int, ...]]] = {
    "bytes read": (lambda read: memory.check_read_bytes(read, 8), (0, 1, 8), (-1, 9)),
    "policy": (memory.check_policy, (1 << 60, (2 << 60) - 1), (0, -1, (1 << 60) - 1, 2 << 60)),
    "line": (lambda align: memory.check_line("discard", align, ""), (128, 256), (1, 64, 192)),
    "first part": (lambda first: memory.check_policy_range(first, 100), (0, 99, 100), (101,)),
    "cleared": (lambda size: memory.check_cleared(size, 8), (0, 8, 24), (4, 12, 1)),
    "cleared from": (lambda align: memory.check_cleared(16, align), (8, 16), (4, 1)),
    "sleep": (memory.check_sleep, (0, 1, 1_000_000), (-1, 1_000_001)),
    "columns": (memory.check_columns, (32, 64, 128, 256, 512), (0, 1, 16, 31, 33, 96, 384, 1024, True)),
    "segments": (lambda width: memory.check_exchange("idx", 0, width), (1, 2, 4, 8, 16, 32), (0, -1, 3, 24, 64, True)),
    "lane": (lambda lane: memory.check_exchange("idx", lane, 32), (0, 31), (-1, 32)),
}


@pytest.mark.parametrize("what", LIMITS)
def test_a_limit_is_between_what_is_taken_and_what_is_not(what: str) -> None:
    check, kept, broken = LIMITS[what]
    assert [number for number in kept if fault(check, number)] == []
    assert [number for number in broken if not fault(check, number)] == []


@pytest.mark.parametrize(("given", "nearest"), [(0, 32), (31, 32), (33, 64), (129, 256), (511, 512), (1000, 512)])
def test_the_next_count_of_columns_is_advised(given: int, nearest: int) -> None:
    found = fault(memory.check_columns, given)
    assert found is not None
    assert found.fix.startswith(f"allocate {nearest},")
    assert "32, 64, 128, 256 or 512 columns" in found.message


def test_the_advice_on_a_sleep_says_which_way() -> None:
    late, early = fault(memory.check_sleep, 1_000_001), fault(memory.check_sleep, -1)
    assert late is not None
    assert early is not None
    assert "several times" in late.fix
    assert "from 0 on" in early.fix


def test_a_policy_is_a_u64() -> None:
    assert fault(memory.check_policy_type, u64) is None
    assert fault(memory.check_policy_type, u32) is not None


@pytest.mark.parametrize(
    ("members", "executing", "said"),
    [
        (0xF, range(4), None),
        (0xF, [*range(4), *range(64, 68)], None),
        (0xF, [*range(4), *range(64, 67)], "lane 3 never comes here, and is among"),
        (0x7, range(32, 36), "lane 3 executes it, and is not among"),
        (0xF0, range(5, 8), "lane 4 never comes here, and is among"),
        (memory.ALL_LANES, range(5, 8), None),
    ],
)
def test_the_lanes_that_execute_are_the_members(members: int, executing: range, said: str | None) -> None:
    found = fault(memory.check_members, "vote", dict.fromkeys(executing, members))
    assert (found is None) is (said is None)
    assert found is None or said in found.message


def test_lanes_of_one_warp_name_each_other() -> None:
    halves = {lane: 0xFFFF << lane // 16 * 16 for lane in range(WARP_SIZE)}
    assert fault(memory.check_members, "vote", halves) is None
    assert fault(memory.check_members, "vote", {lane: mask for lane, mask in halves.items() if lane < 16}) is None
    found = fault(memory.check_members, "vote", {**halves, 3: 0xFFFFF})
    assert found is not None
    assert "lane 3 names the members 0xfffff, and is among the members 0xffff" in found.message
    assert fault(memory.check_members, "vote", {3: 0x8, 40: 0x100, 72: 0x100}) is None


def source(mode: str, own: int, lane: int, width: int) -> int:
    """The lane that lane `own` reads: of a segment, or itself."""
    segment = [each for each in range(WARP_SIZE) if each // width == own // width]
    wanted = {"idx": segment[0] + lane % width, "up": own - lane, "down": own + lane, "bfly": own ^ lane}[mode]
    below_a_segment = mode == "bfly" and wanted < segment[0]  # the lanes before one's own all send
    return wanted if wanted in segment or below_a_segment else own


@pytest.mark.parametrize("mode", ["idx", "up", "down", "bfly"])
def test_a_shuffle_of_members_that_read_none_of_them_is_refused(mode: str) -> None:
    refused = set()
    for width in (8, 32):
        for lane in (0, 1, 3, 8, 20, 31):
            for members in (0, 0b1, 0b10, 0b1001, 0xF0, 0xFF00, memory.ALL_LANES):
                lanes = [each for each in range(WARP_SIZE) if members >> each & 1]
                wrong = bool(lanes) and not any(source(mode, each, lane, width) in lanes for each in lanes)
                found = fault(memory.check_sender, "shfl", mode, lane, width, members)
                assert (found is not None) is wrong, (lane, width, hex(members))
                if found is not None:
                    refused.add(members)
                    assert f"lane {source(mode, lanes[0], lane, width)} is read from" in found.message
    assert refused or mode == "bfly"
