"""How many names are proposed in place of an unknown one, and words of fields that are numbers."""

from __future__ import annotations

from collections import Counter

import pytest

from nvbackend import DiagnosticError
from nvbackend.cli import main
from nvbackend.cli.explain import rows_spelled
from nvbackend.intrinsics.catalogue import rows

Printed = pytest.CaptureFixture[str]
MOST = 5
SPELLINGS = sorted({row.ptx for row in rows()})
BEGINNINGS = Counter(
    ".".join(spelling.split(".")[:count]) for spelling in SPELLINGS for count in range(1, spelling.count(".") + 1)
)


def beginning(count: int) -> str:
    """What so many spellings begin with, and which is no instruction itself."""
    return min(text for text, number in BEGINNINGS.items() if number == count and text not in SPELLINGS)


def refusal(capsys: Printed, *arguments: str) -> str:
    assert main(arguments) == 2
    return capsys.readouterr().err


def proposed(said: str) -> list[str]:
    (line,) = [line for line in said.splitlines() if line.startswith("  fix: use one of ")]
    return line.removeprefix("  fix: use one of ").partition(";")[0].split(", ")


@pytest.mark.parametrize("given", ["bar.synk", "shfl_sync", "error[control.nothing]: text", "error[zzz]: text"])
def test_the_nearest_are_five(given: str, capsys: Printed) -> None:
    names = proposed(refusal(capsys, "explain", given))
    assert len(names) == len({*names}) == MOST


@pytest.mark.parametrize(
    ("given", "listed"),
    [("__syncthreads", ""), ("atomicAdd", ""), ("nothing.like.it", ""), ("tma", " --family tma")],
)
def test_what_is_like_none_is_not_given_the_first_of_the_alphabet(given: str, listed: str, capsys: Printed) -> None:
    (told,) = proposed(refusal(capsys, "explain", given))
    assert told == f"those that nvbackend catalogue{listed} lists"
    assert not listed or main(told.split()[3:-1]) == 0


@pytest.mark.parametrize(
    ("given", "begins"),
    [
        ("ld.global.f32", "ld.global."),
        ("mma.sinc", "mma.sync."),
        ("atomc.add", "atom."),
        ("shfl.bfly", "shfl.sync."),
        ("wgma.mma_async", "wgmma.mma_async."),
        ("mma.async.m64", "mma."),
    ],
)
def test_the_nearest_are_forms_of_the_instruction(given: str, begins: str, capsys: Printed) -> None:
    assert [one for one in proposed(refusal(capsys, "explain", given)) if not one.startswith(begins)] == []


def test_words_are_parted_by_dots_and_lines() -> None:
    """As CUDA C++ and the builder write them."""
    names = fix_for("shfl_sync_down").removeprefix("use one of ").split(", ")
    assert names[0].startswith("shfl.sync.down.")
    assert sum(name.startswith("shfl.sync.") for name in names) == 4


def fix_for(spelling: str) -> str:
    with pytest.raises(DiagnosticError, match=r"cli\.spelling") as caught:
        rows_spelled(spelling)
    return str(caught.value.diagnostics[0].fix)


def test_what_begins_so_is_listed_up_to_five() -> None:
    few, many = beginning(MOST), beginning(MOST + 1)
    assert {*fix_for(few).removeprefix("use one of ").split(", ")} == {
        text for text in SPELLINGS if text.startswith(f"{few}.")
    }
    assert f"the {MOST + 1} that begin so, such as " in fix_for(many)


@pytest.mark.parametrize("kind", range(7))
def test_a_kind_is_its_number_or_its_name(kind: int, capsys: Printed) -> None:
    """Bits 6 to 9 of the control word."""
    names = ("f16", "tf32", "i8", "f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4")
    for given in (str(kind), hex(kind), names[kind]):
        assert main(["encode", "tcgen05-control", "cta_group=1", f"mma_kind={given}"]) == 0
        assert int(capsys.readouterr().out, 16) == 1 | kind << 6
