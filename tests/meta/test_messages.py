"""What tests catch is held to the golden of their file."""

from __future__ import annotations

from pathlib import Path

import pytest

from nvbackend import DiagnosticError, Rule
from nvbackend.diagnostics import Location
from tests.support.messages import Messages

RULE = Rule(id="house.wrong", message="{count} is wrong", fix="give {nearest}")


def caught(messages: Messages, file: Path, **values: object) -> None:
    with messages.held(file), pytest.raises(DiagnosticError):
        RULE.fail(**values)


def test_what_is_not_in_the_golden_fails(tmp_path: Path) -> None:
    golden = tmp_path / "goldens" / "messages" / "test_one.txt"
    golden.parent.mkdir(parents=True)
    golden.touch()
    file = tmp_path / "test_one.py"
    blessing = Messages(update=True, whole=False)
    caught(blessing, file, count=3, nearest=4)
    blessing.write()
    assert golden.read_text() == "house.wrong: 3 is wrong | fix: give 4\n"
    caught(Messages(update=False, whole=True), file, count=3, nearest=4)
    with pytest.raises(AssertionError, match=r"house\.wrong: 4 is wrong \| fix: give 3"):
        caught(Messages(update=False, whole=True), file, count=4, nearest=3)
    caught(Messages(update=False, whole=True), tmp_path / "test_without_golden.py", count=4, nearest=3)


@pytest.mark.parametrize("whole", [True, False])
def test_what_is_not_said_any_more_goes_where_the_whole_file_ran(tmp_path: Path, whole: bool) -> None:
    golden = tmp_path / "goldens" / "messages" / "test_one.txt"
    golden.parent.mkdir(parents=True)
    golden.write_text("old\n")
    messages = Messages(update=True, whole=whole)
    caught(messages, tmp_path / "test_one.py", count=3, nearest=4)
    messages.write()
    assert golden.read_text().splitlines() == ["house.wrong: 3 is wrong | fix: give 4", *(["old"] if not whole else [])]


def test_places_are_not_part_of_it(tmp_path: Path) -> None:
    golden = tmp_path / "goldens" / "messages" / "test_one.txt"
    golden.parent.mkdir(parents=True)
    golden.write_text("house.wrong: <it at 0x...> is wrong | fix: give line N of a.py:N\n")
    for place, line in (("0x7f00aa11bb22", 3), ("0x7f0000000001", 40)):
        values = {"count": f"<it at {place}>", "nearest": f"line {line} of a.py:{line}"}
        caught(Messages(update=False, whole=True), tmp_path / "test_one.py", **values)
    with pytest.raises(AssertionError, match="3 is wrong"):
        caught(Messages(update=False, whole=True), tmp_path / "test_one.py", count=3, nearest=4)


def made(messages: Messages, file: Path, first: int, second: int) -> None:
    """Make a diagnostic that names two lines."""
    places = [Location("k.py", line, "kernel") for line in (first, second)]
    with messages.held(file):
        RULE.diagnose(at=places[0], count=f"line {first}", nearest=second, notes=(("here", places[1]),))


def test_what_is_made_is_held_with_the_order_of_its_lines(tmp_path: Path) -> None:
    golden = tmp_path / "goldens" / "diagnosed" / "test_one.txt"
    golden.parent.mkdir(parents=True)
    golden.touch()
    file = tmp_path / "test_one.py"
    blessing = Messages(update=True, whole=False)
    made(blessing, file, 3, 7)
    blessing.write()
    assert golden.read_text() == "house.wrong: line <1> is wrong | fix: give 7 | note: here | at <1> <2>\n"
    made(Messages(update=False, whole=True), file, 3, 7)
    with pytest.raises(AssertionError, match="give 8"):
        made(Messages(update=False, whole=True), file, 3, 8)
    with pytest.raises(AssertionError, match="at <2> <1>"):
        made(Messages(update=False, whole=True), file, 7, 3)
