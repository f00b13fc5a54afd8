"""`nvbackend catalogue`: what it lists, and that its verdicts are those of LLVM and ptxas."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from nvbackend.cli import catalogue, main
from nvbackend.cli.program import parser
from nvbackend.cli.targets import every_target, in_short
from nvbackend.intrinsics.catalogue import FAMILIES, rows
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.target.target import Target, target_names
from tests.support.json_schema import faults
from tests.support.rows import compile_rows, spelled_in

Printed = pytest.CaptureFixture[str]
KEYS = {
    *("ptx", "family", "target", "legal", "rule", "message", "lowering", "intrinsic", "constraints", "operands"),
    "ptx_version",
}


@functools.cache
def _every(target: str) -> list[dict[str, Any]]:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(["catalogue", "--json", "--target", target]) == 0
    found: list[dict[str, Any]] = json.loads(printed.getvalue())
    return found


def test_json_has_every_row_with_all_that_is_promised() -> None:
    found = _every("sm_90a")
    assert [one["ptx"] for one in found] == [row.ptx for row in rows()]
    assert [one for one in found if not one.keys() >= KEYS] == []
    assert {one["target"] for one in found} == {"sm_90a"}
    assert {one["lowering"] for one in found} == {"intrinsic", "asm"}
    assert [one for one in found if (one["intrinsic"] is None) != (one["lowering"] == "asm")] == []
    assert [one for one in found if one["legal"] != (one["rule"] is None and one["message"] is None)] == []


def _schema(*options: str) -> dict[str, Any]:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(["catalogue", "--schema", *options]) == 0
    schema: dict[str, Any] = json.loads(printed.getvalue())
    return schema


@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
def test_json_is_what_its_schema_says(target: str) -> None:
    every = _every(target)
    # Each of a fifth of the rows, and of every family one.
    some = [*every[::5], *{one["family"]: one for one in every}.values()]
    assert list(faults(some, _schema())) == []


def test_the_schema_refuses_what_it_does_not_say() -> None:
    one = _every("sm_90a")[0]
    for wrong in (one | {"more": 1}, one | {"legal": "yes"}, one | {"target": "sm_1"}, one | {"emulated": {}}):
        assert list(faults([wrong], _schema()))
    assert list(faults([{key: value for key, value in one.items() if key != "fix"}], _schema())) == ["$[0] lacks fix"]


def test_json_of_rules_is_what_its_schema_says(capsys: Printed) -> None:
    assert main(["catalogue", "--all-rules", "--json"]) == 0
    assert list(faults(json.loads(capsys.readouterr().out), _schema("--all-rules"))) == []


def _is_kind(one: dict[str, Any]) -> bool:
    """The keys of the issue, with values of the kinds that readers of the list rely on."""
    told = (None, None) if one["legal"] else (str, str)
    return (
        all(isinstance(one[key], str) for key in ("ptx", "family", "target", "constraints"))
        and isinstance(one["legal"], bool)
        and all(
            value is None if kind is None else isinstance(value, kind) and bool(value)
            for value, kind in zip((one["rule"], one["message"]), told, strict=True)
        )
        and one["lowering"] in ("intrinsic", "asm")
        and (one["intrinsic"] or "llvm.nvvm.").startswith("llvm.nvvm.")
        and isinstance(one["operands"], list)
        and re.fullmatch(r"[6-9]\.\d", one["ptx_version"]) is not None
        and not set(one["ptx"]) & set(" ,;[")
    )


@pytest.mark.parametrize("target", ["sm_90a", "sm_80", "sm_100a"])
def test_json_has_values_of_the_promised_kinds(target: str) -> None:
    assert [one for one in _every(target) if not _is_kind(one)] == []


def test_the_list_is_written_as_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counting() -> Iterator[Row]:
        for row in FAMILIES["mbarrier"]():
            made.append(row)
            yield row

    monkeypatch.setattr(catalogue, "FAMILIES", {"mbarrier": counting})
    parts = catalogue.run(parser().parse_args(["catalogue", "--json"]))
    next(parts)
    assert len(made) == 1


def test_json_without_a_target_has_every_target(capsys: Printed) -> None:
    assert main(["catalogue", "--json", "--family", "register_budget"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["ptx"].split(".")[1], one["target"]) for one in found] == [
        (action, target) for action in ("inc", "dec") for target in target_names()
    ]
    legal = {one["target"] for one in found if one["legal"]}
    assert legal == {name for name in target_names() if name[-1] in "af"}


def test_json_of_one_row_is_what_the_issue_describes() -> None:
    (found,) = [one for one in _every("sm_80") if one["ptx"] == "wgmma.commit_group.sync.aligned"]
    assert found["family"] == "wgmma"
    assert (found["legal"], found["rule"]) == (False, "target.feature")
    assert found["message"].startswith("wgmma.commit_group.sync.aligned needs ")
    assert (found["lowering"], found["intrinsic"]) == ("intrinsic", "llvm.nvvm.wgmma.commit_group.sync.aligned")
    assert (found["operands"], found["ptx_version"]) == ([], "8.0")


def _operand(name: str, role: str, register: str, meaning: str, count: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "role": role, "register": register, "count": count, "meaning": meaning} | (
        {"tied": False, "values": None} | more
    )


WHOLE = [
    {
        "ptx": "setmaxnreg.inc.sync.aligned.u32",
        "family": "register_budget",
        "opcode": "setmaxnreg.inc",
        "lowering": "intrinsic",
        "intrinsic": "llvm.nvvm.setmaxnreg.inc.sync.aligned.u32",
        "constraints": "n,~{memory}",
        "operands": [_operand("registers", "immediate", "B32", "registers a thread", values=[*range(24, 257, 8)])],
        "ptx_version": "8.0",
        "requires": ["SETMAXNREG"],
        "section": "9.7.19 (setmaxnreg)",
        "summary": "Takes registers from the CTA's pool, or gives them back.",
        "target": "sm_80",
        "legal": False,
        "rule": "target.feature",
        "message": "setmaxnreg.inc.sync.aligned.u32 needs SETMAXNREG, which sm_80 does not have",
        "emulated": None,
    },
    {
        "ptx": "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
        "family": "mma",
        "opcode": "mma",
        "lowering": "intrinsic",
        "intrinsic": "llvm.nvvm.mma.m16n8k8.row.col.f32.f32",
        "constraints": "=f,=f,=f,=f,r,r,r,f,f,f,f",
        "operands": [
            _operand("d", "output", "F32", "fragment of D", 4),
            _operand("a", "input", "F16X2", "fragment of A", 2),
            _operand("b", "input", "F16X2", "fragment of B", 1),
            _operand("c", "input", "F32", "fragment of C", 4),
        ],
        "ptx_version": "6.5",
        "requires": ["SM_75"],
        "section": "9.7.14.5.14",
        "summary": "One warp multiplies A and B, and adds C.",
        "target": "sm_80",
        "legal": True,
        "rule": None,
        "message": None,
        "fix": None,
        "emulated": None,
    },
    {
        "ptx": "mbarrier.arrive.expect_tx.shared::cta.b64",
        "family": "mbarrier",
        "opcode": "mbarrier.arrive.expect_tx",
        "lowering": "asm",
        "intrinsic": None,
        "constraints": "r,r,~{memory}",
        "operands": [
            _operand("barrier", "input", "SHARED", "address of the mbarrier, 8-byte aligned"),
            _operand("bytes", "input", "B32", "bytes that will complete on the barrier in this phase"),
        ],
        "ptx_version": "8.0",
        "requires": ["SM_90"],
        "section": "9.7.13.15",
        "summary": "Arrives on an mbarrier of this CTA.",
        "target": "sm_80",
        "legal": False,
        "rule": "target.feature",
        "message": "mbarrier.arrive.expect_tx.shared::cta.b64 needs SM_90, which sm_80 does not have",
        "fix": "compile for sm_90 or later, or use an instruction that sm_80 has",
        "emulated": None,
    },
]


@pytest.mark.parametrize("wanted", WHOLE, ids=[one["ptx"] for one in WHOLE])
def test_json_of_a_row_is_all_that_it_says(wanted: dict[str, Any]) -> None:
    found = next(one for one in _every("sm_80") if one["ptx"] == wanted["ptx"])
    assert found.keys() - wanted.keys() <= {"fix"}
    assert {key: found[key] for key in wanted} == wanted
    assert found["fix"] is None or str(found["fix"]).startswith("compile for ")


def test_json_names_what_is_read_and_written() -> None:
    row = next(one for one in _every("sm_90a") if one["ptx"] == "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16")
    assert {one["name"] for one in row["operands"] if one["tied"]} == {"d"}


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_what_is_called_legal_compiles_to_that_spelling(target: str) -> None:
    """LLVM is the witness: it ends its process on what the target does not have."""
    legal = [row for row, one in zip(rows(), _every(target), strict=True) if one["legal"]]
    sample = random.Random(4).sample(legal, 25)
    compiled = compile_rows([(row, Target.parse(target)) for row in sample])
    assert [row.ptx for row, made in zip(sample, compiled, strict=True) if not spelled_in(row.ptx, made.ptx)] == []


def test_text_is_aligned_and_counts(capsys: Printed) -> None:
    assert main(["catalogue", "--family", "special_registers"]) == 0
    title, *lines, empty, last = capsys.readouterr().out.splitlines()
    places = [title.index(word) for word in ("FAMILY", "LOWERING", "SINCE PTX", "TARGETS")]
    assert lines
    assert [line for line in lines if any(line[place - 1] != " " or line[place] == " " for place in places)] == []
    assert (empty, last) == ("", f"{len(lines)} rows")


def test_text_of_a_target_says_why_not(capsys: Printed) -> None:
    assert main(["catalogue", "--family", "wgmma", "--target", "sm_100a"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].endswith("  sm_100a")
    assert all(line.endswith(("no: wgmma.target", "no: target.feature")) for line in printed[1:-2])
    assert printed[-1].endswith(" 0 legal on sm_100a (PTX 9.0)")


@pytest.mark.parametrize(("target", "answer"), [("sm_89", "yes"), ("sm_90a", "emulated"), ("sm_75", "no: ")])
def test_text_of_a_target_says_what_is_emulated(target: str, answer: str, capsys: Printed) -> None:
    """fp8 mma of one warp: of the chip on 89, conversions on 90, and not legal before."""
    assert main(["catalogue", "--family", "mma", "--target", target]) == 0
    spelling = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(spelling)]
    assert len(lines) == 1
    assert lines[0].split("  ")[-1].startswith(answer)


def test_json_says_what_ptxas_makes_of_a_row() -> None:
    """fp8 mma of one warp: conversions to f16 where the chip has only HMMA, nothing where it has it or refuses it."""
    fp8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
    found = {}
    for target in ("sm_89", "sm_90a", "sm_80"):
        (row,) = [one for one in _every(target) if one["ptx"] == fp8]
        found[target] = (row["legal"], row["emulated"] and "HMMA" in row["emulated"]["expansion"])
    assert found == {"sm_89": (True, None), "sm_90a": (True, True), "sm_80": (False, None)}


def test_a_family_may_be_named_by_its_rows(capsys: Printed) -> None:
    assert main(["catalogue", "--family", "stmatrix"]) == 0
    assert "stmatrix.sync.aligned" in capsys.readouterr().out
    assert "stmatrix" not in FAMILIES


@pytest.mark.parametrize(
    "families",
    [("wgmma", "register_budget", "cluster"), pytest.param((), marks=pytest.mark.exhaustive(seconds=8))],
    ids=["three families", "all"],
)
def test_targets_in_short(families: tuple[str, ...], capsys: Printed) -> None:
    for arguments in [["--family", family] for family in families] or [[]]:
        assert main(["catalogue", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    expected = {
        "wgmma.fence.sync.aligned": "sm_90a",
        "setmaxnreg.inc.sync.aligned.u32": "sm_90a sm_100a/f sm_101a/f sm_103a/f sm_110a/f sm_120a/f sm_121a/f",
        "barrier.cluster.arrive.aligned": "sm_90+",
    }
    found = {ptx: [line.rpartition("  ")[2] for line in lines if line.startswith(f"{ptx} ")] for ptx in expected}
    assert found == {ptx: [where] for ptx, where in expected.items()}


@pytest.mark.parametrize(
    ("legal", "where"),
    [
        ("", "none"),
        ("sm_121a sm_121f", "sm_121a/f"),
        ("sm_121f", "sm_121f"),
        ("sm_121 sm_121a sm_121f", "sm_121+"),
        ("sm_120f sm_121 sm_121a sm_121f", "sm_120f sm_121/a/f"),
        ("sm_121", "sm_121"),
    ],
)
def test_only_all_names_of_a_chip_and_of_later_ones_are_written_with_a_plus(legal: str, where: str) -> None:
    assert in_short(map(Target.parse, legal.split()), every_target()) == where


def test_the_output_is_the_same_each_time(capsys: Printed) -> None:
    printed = set()
    for _ in range(2):
        assert main(["catalogue", "--json", "--family", "mbarrier", "--target", "sm_90"]) == 0
        printed.add(capsys.readouterr().out)
    assert len(printed) == 1
