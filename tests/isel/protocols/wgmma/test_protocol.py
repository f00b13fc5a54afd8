"""The WGMMA protocol on programs written by hand: each mistake where it stands, and no false alarm on legal code."""

from __future__ import annotations

import pytest

from nvbackend.diagnostics import Severity
from nvbackend.intrinsics.catalogue import rows
from nvbackend.isel.flow.dataflow import solve
from nvbackend.isel.machine.function import MachineInstr
from nvbackend.isel.protocols.wgmma.protocol import WgmmaAnalysis, check_wgmma_protocol
from tests.rules.registry import texts
from tests.support.machine import Program, lines_and_rules
from tests.support.rule_catalogue import rules_of
from tests.support.semantics import semantics_of

BROKEN, LEGAL = texts("wgmma", "wrong"), texts("wgmma", "right")
IDS = (
    "wgmma.read-in-flight",
    "wgmma.write-in-flight",
    "wgmma.missing-fence",
    "wgmma.shape-change",
    "wgmma.needless-fence",
    "wgmma.missing-commit",
    "wgmma.wait-leaves-group",
    "wgmma.missing-wait",
    "wgmma.wait-range",
)


@pytest.mark.parametrize("text", LEGAL.values(), ids=LEGAL)
def test_legal_programs_raise_no_alarm(text: str) -> None:
    assert check_wgmma_protocol(Program(text).function) == []


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_each_mistake_is_found_at_its_line_and_nothing_else(text: str) -> None:
    program = Program(text)
    diagnostics = check_wgmma_protocol(program.function)
    assert lines_and_rules(diagnostics) == program.expected
    assert len(diagnostics) == len(program.expected)


def test_every_rule_has_a_program_that_breaks_it() -> None:
    broken = {rule for text in BROKEN.values() for _, rule in Program(text).expected}
    assert broken == set(IDS)
    assert {rule.id for rule in rules_of("isel.protocols.wgmma.rules")} == set(IDS) - {"wgmma.wait-range"}  # a number's


def test_only_the_needless_fence_is_a_warning() -> None:
    assert [rule.id for rule in rules_of("isel.protocols.wgmma.rules") if rule.severity is Severity.WARNING] == [
        "wgmma.needless-fence"
    ]


def only(text: str) -> tuple[str, str, list[tuple[str, int]]]:
    """Message, fix and notes (text, line) of a program's one diagnostic."""
    (found,) = check_wgmma_protocol(Program(text).function)
    return found.message, found.fix, [(note, place.line if place else 0) for note, place in found.notes]


def test_the_group_arithmetic_of_a_read() -> None:
    message, fix, notes = only(
        """
        entry
          fence
          mma one
          commit
          mma two
          commit
          mma acc
          commit
          wait 1
          read acc
          ret
        """
    )
    assert "accumulator acc is read while the wgmma.mma_async of line 8 may still be writing it" in message
    assert "wait_group 1 leaves group 3, which wrote acc, in flight" in message
    assert fix == (
        "put k.wgmma.wait_group(0, drains=[acc]) before this line, or let the wait of line 10 leave 0 in flight: "
        "k.wgmma.wait_group(0, ...), or in_flight=0 of k.wgmma.group"
    )
    assert notes == [
        ("the mma is issued here", 8),
        ("group 3 is closed here", 9),
        ("wait_group 1 leaves it in flight here", 10),
    ]


def test_the_fix_is_the_largest_number_that_drains_enough() -> None:
    text = """
        entry
          fence
          mma old
          commit
          mma new
          commit
          mma newest
          commit
          wait {pending} old
          wait 0
          ret
        """
    message, fix, _ = only(text.format(pending=3))
    assert "leaves group 1, which wrote old, in flight: it lets the newest 3 groups run on" in message
    assert "group 1 is number 3 counted from the newest" in message
    assert fix == "use k.wgmma.wait_group(2, ...) here, or in_flight=2 of k.wgmma.group"
    assert check_wgmma_protocol(Program(text.format(pending=2)).function) == []


@pytest.mark.parametrize(
    ("steps", "registers", "uses"),
    [
        ("mma old, commit, mma new, commit, wait 1 old new", "accumulator new", "group 2, which wrote new"),
        ("mma new, commit, mma old, commit, wait 1 old new", "accumulator old", "group 2, which wrote old"),
        ("mma one a=x, commit, wait 1 x", "A fragment x", "group 1, which reads x"),
        ("mma one a=x, commit, mma two, commit, wait 2 x two", "accumulator two", "group 2, which wrote two"),
        (
            "mma one, mma two a=x, commit, wait 1 one x",
            "accumulator one and A fragment x",
            "group 1, which wrote one and reads x",
        ),
        ("mma old, commit, mma new, commit, wait 3 new old", "accumulator new", "group 2, which wrote new"),
        ("mma one, commit, wait 1 one other", "accumulator one", "group 1, which wrote one"),
    ],
)
def test_a_wait_is_to_hand_back_what_it_names_and_is_in_flight(steps: str, registers: str, uses: str) -> None:
    message, _, _ = only("\n  ".join(["entry", "fence", *steps.split(", "), "wait 0", "ret"]))
    assert f"is to hand back {registers}, but it leaves {uses}, in flight" in message


def test_an_open_group_is_told_as_such() -> None:
    message, fix, notes = only("entry\n  fence\n  mma acc\n  read acc\n  ret")
    assert "no wgmma.commit_group has closed the group of that mma" in message
    assert fix.startswith("put k.wgmma.commit_group() after the wgmma.mma_async of line 3, and k.wgmma.wait_group(0, ")
    assert notes == [("the mma is issued here", 3)]


def test_a_fragment_is_told_as_read_by_the_mma() -> None:
    message, _, _ = only("entry\n  fence\n  mma acc a=frag\n  commit\n  write frag\n  wait 0\n  ret")
    assert "A fragment frag is written while the wgmma.mma_async of line 3 may still be reading it" in message


@pytest.mark.parametrize(
    ("mma", "written", "registers", "doing", "uses"),
    [
        (("one a=x", "two"), ("x", "two"), "accumulator two and A fragment x", "using", "wrote two and reads x"),
        (("one", "two a=x"), ("x", "one"), "accumulator one and A fragment x", "using", "wrote one and reads x"),
        (("one a=x", "two a=y"), ("x", "y"), "A fragments x, y", "reading", "reads x, y"),
        (("one", "two"), ("one", "two"), "accumulators one, two", "writing", "wrote one, two"),
    ],
)
def test_registers_are_told_by_what_any_mma_of_the_group_does(mma, written, registers, doing, uses) -> None:
    lines = ["fence", *(f"mma {one}" for one in mma), "commit", *(f"write {one}" for one in written), "wait 0", "ret"]
    message, _, _ = only("\n  ".join(["entry", *lines]))
    assert message.startswith(f"{registers} are written while the wgmma.mma_async of line ")
    assert f" may still be {doing} them: no wait_group is between the commit of group 1, which {uses} and " in message


def test_a_fragment_that_wants_a_fence_is_called_a_fragment() -> None:
    message, _, _ = only("entry\n  fence\n  write frag\n  mma acc a=frag\n  commit\n  wait 0\n  ret")
    assert message.startswith("wgmma.mma_async uses A fragment frag with no wgmma.fence before it")


def test_a_missing_fence_names_the_accesses() -> None:
    message, fix, notes = only("entry\n  fence\n  write acc\n  mma acc\n  commit\n  wait 0\n  ret")
    assert "ordinary code accesses acc at line 3" in message
    assert fix == "put k.wgmma.fence() before this line, after every ordinary access to acc"
    assert notes == [("acc is written here", 3)]


@pytest.mark.parametrize(
    ("commits", "end", "rule"),
    [
        (False, "  read acc\n  commit\n  wait 0\n  ret", "wgmma.read-in-flight"),
        (True, "  write acc\n  wait 0\n  ret", "wgmma.write-in-flight"),
        (False, "  wait 0 acc\n  ret", "wgmma.missing-commit"),
        (False, "  ret", "wgmma.missing-commit"),
        (True, "  wait 1 acc\n  wait 0\n  ret", "wgmma.wait-leaves-group"),
        (True, "  ret", "wgmma.missing-wait"),
        (True, "  mma acc n=128\n  commit\n  wait 0\n  ret", "wgmma.shape-change"),
    ],
)
def test_of_the_mma_on_two_ways_the_later_one_is_named(commits: bool, end: str, rule: str) -> None:
    """What the message says and what the notes point to is one history: that of the last in the text."""
    way = ["  mma acc", "  commit"] if commits else ["  mma acc"]
    lines = ["entry -> one two", "  fence", "one -> last", *way, "two -> last", *way, "last", end]
    (found,) = check_wgmma_protocol(Program("\n".join(lines)).function)
    later = 1 + max(number for number, line in enumerate(lines) if line == "  mma acc")
    commit = [later + 1] if commits else []
    assert found.rule_id == rule
    notes = [place.line for _, place in found.notes if place is not None]
    if rule == "wgmma.shape-change":
        assert notes == [4, later]
    else:
        assert notes[: 1 + len(commit)] == [later, *commit]
    assert f"line {later}" in found.message or (commits and "group 2" in found.message)


def test_one_cause_is_told_once_for_all_registers() -> None:
    message, _, _ = only(
        """
        entry
          fence
          mma one
          mma two
          commit
          wait 1
          read one
          read two
          read one
          ret
        """
    )
    assert message.startswith("accumulators one, two are read while ")


def test_the_fix_of_several_reads_drains_the_newest_group() -> None:
    message, fix, _ = only(
        """
        entry
          fence
          mma old
          commit
          mma new
          commit
          read old
          read new
          wait 0
          ret
        """
    )
    assert message.startswith("accumulators old, new are read while ")
    assert fix == "put k.wgmma.wait_group(0, drains=[old, new]) before this line"


def test_zeroing_several_accumulators_without_a_fence_is_one_mistake() -> None:
    message, _, _ = only("entry\n  write one\n  write two\n  mma one\n  mma two\n  commit\n  wait 0\n  ret")
    assert "accumulators one, two with no wgmma.fence" in message


def test_mistakes_with_causes_of_their_own_stay_apart() -> None:
    program = Program(
        """
        entry
          fence
          mma one
          commit
          read one  ! wgmma.read-in-flight
          fence
          mma one
          commit
          read one  ! wgmma.read-in-flight
          ret
        """
    )
    assert lines_and_rules(check_wgmma_protocol(program.function)) == program.expected


def test_a_line_that_runs_often_is_told_once() -> None:
    unrolled = Program("entry\n" + "  fence\n  mma acc\n  commit\n  read acc\n" * 5 + "  ret").function
    instructions = unrolled.entry.instructions
    place = instructions[3].location
    for read in instructions[3::4]:
        object.__setattr__(read, "location", place)
    assert len(check_wgmma_protocol(unrolled)) == 1


def test_places_are_kept_where_the_program_has_none() -> None:
    program = Program("entry\n  fence\n  mma acc\n  commit\n  ret")
    object.__setattr__(program.function.entry.instructions[-1], "location", None)
    (found,) = check_wgmma_protocol(program.function)
    assert found.location is not None
    assert found.location.line == 3


def nest(depth: int, length: int) -> str:
    """`depth` loops inside each other, each with `length` regions in front of the inner loop and behind it."""
    region = "  fence\n  mma acc\n  mma acc\n  commit\n  wait 1\n" * length
    text = "entry -> head0\n  write acc\n"
    for level in range(depth):
        inner = f"head{level + 1}" if level + 1 < depth else f"tail{level}"
        text += f"head{level} -> {inner}\n{region}"
    for level in reversed(range(depth)):
        outer = f"tail{level - 1}" if level else "exit"
        text += f"tail{level} -> head{level} {outer}\n{region}"
    return text + "exit\n  wait 0 acc\n  read acc\n  ret"


@pytest.mark.parametrize("depth", [1, 3])
def test_work_grows_with_the_text(depth: int) -> None:
    work = []
    for length in (1, 4, 16):
        function = Program(nest(depth, length)).function
        assert check_wgmma_protocol(function) == []
        size = sum(1 for _ in function.instructions())
        work.append(solve(function, WgmmaAnalysis()).transfers / size)
    assert max(work) <= 2 + depth
    assert max(work) / min(work) < 1.5


def test_what_may_be_in_flight_stays_small_in_long_straight_code() -> None:
    text = "entry\n  write acc\n  fence\n" + "  mma acc\n" * 200 + "  commit\n" * 20 + "  ret  ! wgmma.missing-wait"
    states = [state for _, state in solve(Program(text).function, WgmmaAnalysis()).visit()]
    assert max(len(state.flight) for state in states) == 1
    assert max(len(trails) for state in states for trails in state.flight.values()) == 1


@pytest.mark.parametrize("left_out", ["wgmma.fence", "wgmma.commit_group", "wgmma.wait_group"])
def test_an_mma_whose_registers_have_no_name_is_told_in_whole_sentences(left_out: str) -> None:
    function = Program("entry ->\n  ret").function
    steps = ["wgmma.fence", "wgmma.mma_async", "wgmma.commit_group", "wgmma.wait_group"]
    for opcode in steps:
        if opcode != left_out:
            immediates = {"pending": 0} if opcode == "wgmma.wait_group" else {}
            instr = MachineInstr(opcode, immediates=immediates, semantics=semantics_of(opcode))
            function.entry.instructions.insert(-1, instr)
    (found,) = check_wgmma_protocol(function)
    assert "its registers" in found.message
    assert not {"  ", " ,"} & {found.message[at : at + 2] for at in range(len(found.message))}


def test_one_fence_for_two_mma_names_all_that_was_accessed() -> None:
    message, _, notes = only(
        """
        entry
          fence
          write p
          write q
          mma p
          mma q
          commit
          wait 0 p q
          ret
        """
    )
    assert "p, q at line 4, line 5" in message
    assert [line for _, line in notes] == [4, 5]


def test_a_wait_for_all_names_what_was_never_committed() -> None:
    """One that hands nothing back is for every accumulator."""
    message, _, _ = only(
        """
        entry
          fence
          mma p
          wait 0
          ret
        """
    )
    assert "accumulator p" in message


def test_only_the_fence_of_registers_orders_what_was_written_to_them() -> None:
    """Every row that is a fence of some kind, between a write and an mma."""
    right = {}
    for row in rows():
        if row.semantics.fence is not None:
            program = Program("entry\n  write acc\n  fence\n  mma acc\n  commit\n  wait 0 acc\n  ret")
            program.function.blocks["entry"].instructions[1] = MachineInstr(row.opcode, row)
            found = [one.rule_id for one in check_wgmma_protocol(program.function)]
            right[row.ptx] = found == []
            assert found in ([], ["wgmma.missing-fence"])
    assert [name for name, is_right in right.items() if is_right] == ["wgmma.fence.sync.aligned"]
    assert len(right) > 5
