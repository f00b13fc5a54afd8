"""Diagnostics as texts and values."""

from __future__ import annotations

import pickle
import string
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvbackend.diagnostics import Diagnostic, DiagnosticError, Location, Rule, Severity, raise_all, with_article
from nvbackend.diagnostics.diagnostic import printed, told_once

STEP = Rule(
    id="wgmma.n-step",
    message="N is {n}, which is not a multiple of {step}",
    fix="round N up to {up}",
    why="the hardware has no such instruction",
    reference="PTX ISA 9.7.15",
)
CAUTION = Rule("made-up.caution", "look at {what}", "do not", "it may be slow", severity=Severity.WARNING)
NOWHERE = Location("<no such file>", 7, "main")


def test_text_holds_severity_id_values_place_notes_fix_and_reference() -> None:
    diagnostic = STEP.diagnose(
        at=NOWHERE, notes=(("N came from here", NOWHERE), ("and so on", None)), n=9, step=8, up=16
    )
    assert str(diagnostic).splitlines() == [
        "error[wgmma.n-step]: N is 9, which is not a multiple of 8",
        "  at <no such file>:7",
        "  note: N came from here",
        "    at <no such file>:7",
        "  note: and so on",
        "  fix: round N up to 16",
        "  see: PTX ISA 9.7.15",
    ]


class Silent:
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


def test_values_without_a_text_are_shown_by_their_size_or_kind() -> None:
    """Python does not print integers of more than 4300 digits; 10**5000 has 16610 bits."""
    assert printed(10**5000) == "an integer of 16610 bits"
    assert printed(Silent()) == "a Silent"
    assert printed("text") == "'text'"
    assert STEP.diagnose(n=10**5000, step=8, up=Silent()).fix == "round N up to a Silent"


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


def test_what_fails_to_print_itself_is_shown_by_its_kind() -> None:
    """Code of a user's own may raise anything; a tuple of 5,000 levels is beyond Python's recursion."""
    deep: object = 1
    for _ in range(5000):
        deep = (deep,)
    assert printed(Broken()) == "a Broken"
    assert STEP.diagnose(n=deep, step=8, up=Broken()).fix == "round N up to a Broken"
    assert printed(deep) == "a tuple"


class OnlyRepr:
    def __str__(self) -> str:
        raise ValueError("no text")

    def __repr__(self) -> str:
        return "a value"


def test_a_value_without_str_is_shown_by_its_kind_where_others_print() -> None:
    diagnostic = STEP.diagnose(n=OnlyRepr(), step=8, up=16)
    assert "OnlyRepr" in diagnostic.message
    assert diagnostic.fix == "round N up to 16"


def chain(count: int, name: str = "caller") -> tuple[Location, ...]:
    return tuple(Location(f"<{name}>", line, "f") for line in range(1, count + 1))


@pytest.mark.parametrize("count", range(13))
def test_of_many_callers_both_ends_are_shown(count: int) -> None:
    """All of up to eight; of more the first six, how many are left out, and the last."""
    shown = str(STEP.diagnose(at=replace(NOWHERE, callers=chain(count)), n=9, step=8, up=16)).splitlines()[2:-2]
    first = range(1, count + 1) if count <= 8 else range(1, 7)
    expected = [f"  called from <caller>:{line}" for line in first]
    if count > 8:
        expected += [f"  called through {count - 7} more lines", f"  called from <caller>:{count}"]
    assert shown == expected


@pytest.mark.parametrize(("callers", "shown"), [(chain(2), 0), (chain(3), 3), (chain(2, "other"), 2), ((), 0)])
def test_a_note_shows_its_callers_where_they_are_others(callers: tuple[Location, ...], shown: int) -> None:
    at, note = replace(NOWHERE, callers=chain(2)), replace(NOWHERE, callers=callers)
    lines = str(STEP.diagnose(at=at, notes=(("here", note),), n=9, step=8, up=16)).splitlines()
    assert lines[4:6] == ["  note: here", "    at <no such file>:7"]
    assert lines[6:-2] == [f"    called from {one}" for one in callers[:shown]]


def test_text_leaves_out_what_there_is_not() -> None:
    bare = Rule("made-up.bare", "something", "", "", severity=Severity.WARNING)
    assert str(Diagnostic(bare, "something")) == "warning[made-up.bare]: something"


def test_text_shows_the_line_of_source(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("user") / "gemm.py"
    file.write_text("first\n    k.wait_group(1)   \n", encoding="utf-8")
    shown = str(STEP.diagnose(at=Location(str(file), 2, "gemm"), n=9, step=8, up=16)).splitlines()
    assert shown[1] == f"  at {file}:2    k.wait_group(1)"


@pytest.mark.parametrize(
    "noun",
    [
        "int",
        "object",
        "f16",
        "s32",
        "e4m3",
        "MN-major",
        "ndarray",
        "array",
        "llvmlite",
        "u32",
        "str",
        "float",
        "K-major",
        "bf16",
    ],
)
def test_the_article_is_the_one_people_say(noun: str) -> None:
    assert (
        with_article(noun)
        == f"{'an' if noun in 'int object f16 s32 e4m3 MN-major ndarray array llvmlite' else 'a'} {noun}"
    )


def test_values_stay_values() -> None:
    diagnostic = STEP.diagnose(n=9, step=8, up=16)
    assert dict(diagnostic.values) == {"n": 9, "step": 8, "up": 16}
    assert diagnostic.rule is STEP
    assert (diagnostic.rule_id, diagnostic.severity) == ("wgmma.n-step", Severity.ERROR)


@given(st.text(alphabet=string.printable), st.integers())
def test_values_are_never_taken_for_formats(text: str, number: int) -> None:
    """A user's value may hold braces."""
    diagnostic = STEP.diagnose(n=text, step="{n}", up=number)
    assert diagnostic.message == "N is " + text + ", which is not a multiple of {n}"
    assert diagnostic.fix == f"round N up to {number}"


def test_a_value_that_the_text_needs_is_demanded() -> None:
    with pytest.raises(DiagnosticError, match=r"rule\.form.*wgmma\.n-step need step, up, and the call") as raised:
        STEP.diagnose(n=9)
    assert raised.value.diagnostics[0].fix == "pass step=..., up=..."
    ours: dict[str, object] = {"__name__": "nvbackend.made_up", "STEP": STEP}
    with pytest.raises(KeyError, match="step"):  # a bug of the package keeps its traceback
        exec("STEP.diagnose(n=9)", ours)


@pytest.mark.parametrize(
    ("places", "problem"),
    [
        ({"at": "gemm.dsl:4"}, "rule made-up.caution is reported at 'gemm.dsl:4', which is not a place"),
        ({"notes": [("it begins", "gemm.dsl:4")]}, "has the note ('it begins', 'gemm.dsl:4'), which is not a text and"),
        ({"notes": "it begins"}, "has the note 'it begins'"),
        ({"notes": [(NOWHERE, "it begins")]}, "which is not a text and a place"),
    ],
)
def test_a_place_is_a_location(places: dict[str, Any], problem: str) -> None:
    with pytest.raises(DiagnosticError, match=r"rule\.form") as raised:
        CAUTION.diagnose(what="this", **places)
    assert problem in str(raised.value)
    assert len(CAUTION.diagnose(what="this", at=NOWHERE, notes=(("a", NOWHERE), ("b", None))).notes) == 2


def test_fail_raises_its_own_diagnostic_alone() -> None:
    with pytest.raises(DiagnosticError) as raised:
        STEP.fail(n=9, step=8, up=16)
    assert [diagnostic.message for diagnostic in raised.value.diagnostics] == ["N is 9, which is not a multiple of 8"]
    assert str(raised.value) == str(raised.value.diagnostics[0])


def test_errors_are_raised_together_in_their_order_with_the_warnings() -> None:
    found = [STEP.diagnose(n=9, step=8, up=16), CAUTION.diagnose(what="this"), STEP.diagnose(n=1, step=8, up=8)]
    with pytest.raises(DiagnosticError) as raised:
        raise_all(iter(found))
    assert list(raised.value.diagnostics) == found
    assert str(raised.value) == "3 diagnostics\n" + "\n".join(map(str, found))


def test_warnings_alone_come_back() -> None:
    found = [CAUTION.diagnose(what="this"), CAUTION.diagnose(what="that")]
    assert raise_all(found) == tuple(found)
    assert raise_all([]) == ()


def test_an_error_survives_the_way_between_processes() -> None:
    error = DiagnosticError([STEP.diagnose(n=9, step=8, up=16), CAUTION.diagnose(what="this")])
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is DiagnosticError
    assert back.diagnostics == error.diagnostics
    assert (str(back), back.args) == (str(error), error.args)


def test_diagnostics_of_one_rule_and_place_are_equal_and_hash_alike() -> None:
    one, other = (STEP.diagnose(at=NOWHERE, n=9, step=8, up=16) for _ in range(2))
    assert one == other
    assert len({one, other}) == 1
    assert one != STEP.diagnose(at=NOWHERE, n=10, step=8, up=16)


def test_a_line_that_is_reached_by_two_calls_is_told_once_with_both() -> None:
    """Its notes may be reached by calls of their own; another line, or a note at another one, is another mistake."""
    rule = Rule("made-up.line", "bad", "do it right")
    calls = [Location("calls.py", line, "main") for line in (2, 3)]

    def made(call: int, line: int = 7, note: int = 9) -> Diagnostic:
        place, other = (Location("helper.py", each, "helper", callers=(calls[call],)) for each in (line, note))
        far = replace(other, callers=(calls[call], calls[call]))
        return rule.diagnose(at=place, notes=(("written", far),))

    (once,) = told_once([made(0), made(1)])
    assert once.location == Location("helper.py", 7, "helper")
    assert once.location is not None
    assert once.location.callers == (calls[0],)
    assert once.notes[1:] == (("it is so in this call too", calls[1]),)
    assert told_once([made(0), made(0)]) == [made(0)]
    for another in (made(1, line=8), made(1, note=10)):
        assert told_once([made(0), another]) == [made(0), another]


@pytest.mark.parametrize(
    ("template", "count", "text"),
    [
        ("{n} byte(s) of it", 1, "1 byte of it"),
        ("{n} byte(s) of it", 4, "4 bytes of it"),
        ("{n} byte(s) of it", 0, "0 bytes of it"),
        ("{n} byte(s) of it", 11, "11 bytes of it"),
        ("read by {n} index(es)", 1, "read by 1 index"),
        ("read by {n} index(es)", 2, "read by 2 indexes"),
        ("{n} consumer warpgroup(s), of 1 CTA(s)", 2, "2 consumer warpgroups, of 1 CTA"),
        ("{n} of f(s)", 2, "2 of f(s)"),
        ("{n} byte(s)", "some", "some byte(s)"),
    ],
)
def test_what_is_counted_is_one_or_several(template: str, count: object, text: str) -> None:
    assert Rule("house.count", template, template).diagnose(n=count).message == text
    assert Rule("house.count", template, template).diagnose(n=count).fix == text


@pytest.mark.parametrize(
    ("number", "shown"),
    [(10**39, "1" + "0" * 39), (10**41, "10000000... (42 digits)"), (-(10**400), "-10000000... (401 digits)")],
)
def test_a_number_that_nobody_means_is_not_printed_whole(number: int, shown: str) -> None:
    """Nor in a text that names it so, as CuTe does; digits that are a part of a word stay."""
    made = Rule("made-up.number", "{given} and _{given}", "use a smaller one than {given}")
    found = made.diagnose(given=number)
    assert found.message == f"{shown} and _{shown}"
    assert found.fix == f"use a smaller one than {shown}"
    name = "x" + "1" * 50
    assert made.diagnose(given=name).message == f"{name} and _{name}"


@pytest.mark.parametrize("text", ["an open {n", "a closed n}", "{n!q}", "{n:zz}"])
def test_texts_of_a_rule_that_cannot_be_filled_in(text: str) -> None:
    for own in (Rule("house.text", text, "do not"), Rule("house.text", "look", text)):
        with pytest.raises(DiagnosticError, match=r"the texts of rule house\.text cannot be filled in: ") as caught:
            own.fail(n=1)
        (found,) = caught.value.diagnostics
        assert found.rule_id == "rule.form" and found.fix.endswith("other braces twice: {{ and }}")
