"""`nvbackend build`: each form with the lines of Python, differences, JSON, and what is wrong said in a sentence."""

from __future__ import annotations

import dataclasses
import json
import re
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

import nvbackend as nvb
from nvbackend.cli import main, rules
from nvbackend.cli.files.commits import in_repository, is_commit
from nvbackend.cli.files.source_file import ProgramError, users_program
from nvbackend.codegen import count_instructions, find_disassembler
from nvbackend.codegen.looking.listings import FORMS, ListedLine, instructions_in
from nvbackend.diagnostics import Location

TEXT = """\
import nvbackend as nvb
from nvbackend import f32, i32


def doubled(x):
    return x + x


@nvb.kernel("sm_80", threads=64)
def twice(k, x: nvb.Pointer[f32], y: nvb.Pointer[f32], *, copies: int = 1, kind=f32):
    thread = k.thread_id()
    y[thread] = doubled(x[thread])
    k.barrier.sync()
    for copy in range(copies):
        y[thread + 64 * (copy + 1)] = x[thread]
"""
Printed = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "twice.py"
    path.write_text(TEXT)
    return path


def output(capsys: Printed, *arguments: object) -> str:
    assert main(["build", *map(str, arguments)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def fault(capsys: Printed, *arguments: object, status: int = 2) -> list[str]:
    assert main(["build", *map(str, arguments)]) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err.splitlines()


def test_the_machine_form_has_the_lines(file: Path, capsys: Printed) -> None:
    assert output(capsys, f"{file}:twice", "--color", "never") == (
        "   kernel twice\n"
        "     target sm_80\n"
        "     ptx 9.0\n"
        "     cluster 1\n"
        "     threads 64\n"
        "   entry\n"
        "   # twice.py:11  thread = k.thread_id()\n"
        "11   %tid.x value=%tid.x\n"
        "   # twice.py:13  k.barrier.sync()\n"
        "13   bar.sync id=0\n"
        "   # twice.py:15  y[thread + 64 * (copy + 1)] = x[thread]\n"
        "15   ret\n"
    )


def test_colours_are_for_terminals(file: Path, capsys: Printed) -> None:
    plain = output(capsys, file)
    coloured = output(capsys, file, "--color", "always")
    assert "\033" not in plain
    assert re.sub(r"\033\[\d*m", "", coloured) == plain
    assert "\033[2m   # twice.py:13  k.barrier.sync()\033[0m\n\033[2m13\033[0m   bar.sync id=0\n" in coloured


@pytest.mark.parametrize(
    ("form", "headings"),
    [("machine", ["kernel twice", "entry"]), ("ptx", [".visible .entry twice(", "{", "}"])],
)
def test_headings_are_what_has_no_place_and_begins_its_line(
    file: Path, capsys: Printed, form: str, headings: list[str]
) -> None:
    """LLVM prints what `k.ptx` has as it is: those lines begin theirs too, and are the user's."""
    inline = 'k.ptx("// mine {x}", inputs={"x": thread})'
    file.write_text(TEXT.replace("k.barrier.sync()", f"k.barrier.sync()\n    {inline}"))
    coloured = output(capsys, f"{file}:twice", "--show", form, "--color", "always")
    bold = re.findall(r"\033\[1m(.*)\033\[0m", coloured)
    assert [text for text in bold if text in headings] == headings
    lines = json.loads(output(capsys, f"{file}:twice", "--show", form, "--json"))["lines"]
    begun = [each for each in lines if re.match(r"\S", each["text"])]
    assert bold == [each["text"] for each in begun if "line" not in each]
    assert [each["line"] for each in begun if each["text"].startswith("// mine")] == [14] * (form == "ptx")
    assert any("line" not in each and re.match(r"\s", each["text"]) for each in lines)


@pytest.mark.parametrize("form", list(FORMS))
def test_every_form_has_the_stores_at_their_lines(file: Path, capsys: Printed, form: str) -> None:
    """Each store is an instruction of its own in every form but the machine's, which has no ordinary stores."""
    data = json.loads(output(capsys, file, "--show", form, "--json"))
    assert (data["kernel"], data["target"], data["show"]) == ("twice", "sm_80", form)
    store = {"ir": "store ", "ir-opt": "store ", "ptx": "st.global", "sass": "STG"}.get(form, "bar.sync")
    places = [(Path(line["file"]).name, line["line"]) for line in data["lines"] if store in line["text"]]
    assert places == [("twice.py", 13)] if form == "machine" else sorted(places) == [("twice.py", 12), ("twice.py", 15)]
    add = {"ir": "fadd", "ir-opt": "fadd", "ptx": "add.rn.f32", "sass": "FADD"}.get(form)
    assert add is None or [line["line"] for line in data["lines"] if add in line["text"]] == [6]


@pytest.mark.parametrize("form", list(FORMS))
def test_plain_text_is_the_form_itself(file: Path, capsys: Printed, form: str) -> None:
    plain = output(capsys, file, "--show", form, "--plain")
    begins = {
        "machine": "kernel twice\n",
        "ir": "; ModuleID",
        "ir-opt": "; ModuleID",
        "ptx": "//\n",
        "sass": "\t.target",
    }
    assert plain.startswith(begins[form])
    assert ("!DILocation" in plain) is form.startswith("ir")


def test_nothing_is_lost_beside_the_lines(file: Path, capsys: Printed) -> None:
    """The instructions of the SASS, counted by opcode in the text of the disassembler and in the lines."""
    assert find_disassembler().path.name == "nvdisasm"
    plain = count_instructions(output(capsys, file, "--show", "sass", "--plain"))
    lines = json.loads(output(capsys, file, "--show", "sass", "--json"))["lines"]
    assert count_instructions("\n".join(line["text"] for line in lines)) == plain


def test_the_source_has_counts(file: Path, capsys: Printed) -> None:
    """By a count of the lines of each form, made here a second time."""
    printed = output(capsys, file, "--show", "source").splitlines()
    assert printed[0].split() == ["PLACE", "MACHINE", "PTX", "SASS", "LINE"]
    rows = {row.split()[0]: row.split(None, 4)[1:] for row in printed[1:-1]}
    for at, form in enumerate(("machine", "ptx", "sass")):
        lines = json.loads(output(capsys, file, "--show", form, "--json"))["lines"]
        listed = [ListedLine(line["text"], ("twice.py", line["line"])) for line in lines if "line" in line]
        counted: Counter[int] = Counter()
        for line in listed:
            counted[line.place[1] if line.place else 0] += instructions_in(line, form)
        assert {f"twice.py:{line}": str(count) for line, count in counted.items() if count} == {
            place: row[at] for place, row in rows.items() if row[at] != "0"
        }
    assert rows["twice.py:6"][3] == "return x + x"
    data = json.loads(output(capsys, file, "--show", "source", "--json"))
    assert [f"{Path(line['file']).name}:{line['line']}" for line in data["lines"]] == list(rows)


def test_resources_have_no_times(file: Path, capsys: Printed) -> None:
    text = output(capsys, file, "--show", "resources")
    assert re.search(r"\n    registers      \d+ a thread, of 255\n", text)
    assert re.search(
        r"\n    occupancy      32 CTAs an SM, 2048 of 2048 threads; threads and .*slots for CTAs allow no more\n", text
    )
    assert " ms" not in text
    data = json.loads(output(capsys, file, "--show", "resources", "--json"))
    assert (data["threads"], data["occupancy"]["ctas"], data["register_limit"]) == (64, 32, 255)
    assert f"    registers      {data['registers']} a thread, of 255\n" in text
    assert data["selected"] == {"mov.u32": 1, "bar.sync": 1}


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def test_differences_of_commits(tmp_path: Path, capsys: Printed) -> None:
    """The file, and what it imports, as each commit has it."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    path = folder / "twice.py"
    for step, factor in (("one", 1), ("two", 2), ("three", 3)):
        (folder / "helper_of_twice.py").write_text(f"def doubled(x):\n    return x * {float(factor)}\n")
        path.write_text(TEXT.replace("def doubled(x):\n    return x + x\n", "from helper_of_twice import doubled\n"))
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", step)
        git(folder, "tag", step)
    (folder / "helper_of_twice.py").write_text("def doubled(x):\n    return x * 5.0\n")

    def changes(*commits: str) -> list[str]:
        options = [each for commit in commits for each in ("--diff", commit)]
        lines = output(capsys, path, "--show", "ir", *options).splitlines()
        assert lines[0] == f"--- twice sm_80 at {commits[0]}"
        assert lines[1].strip() == ("+++ twice sm_80" if len(commits) < 2 else f"+++ twice sm_80 at {commits[1]}")
        return re.findall(r"^[-+].*fmul.*, *(0x\w+|[\d.e+]+)", "\n".join(lines), re.MULTILINE)

    now, one, two, three = (ir_float(value) for value in (5.0, 1.0, 2.0, 3.0))
    assert changes("three") == [three, now]
    assert changes("one", "two") == [one, two]
    assert changes("HEAD~1") == [two, now]
    assert "twice.py is not in commit" in fault(capsys, other(folder), "--diff", "one")[0].replace("other", "twice")


def test_a_text_is_no_commit_where_there_is_no_repository(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert not is_commit("HEAD", tmp_path / "kernel.py")
    assert not in_repository(tmp_path / "kernel.py")
    git(tmp_path, "init", "-q")
    assert in_repository(tmp_path / "kernel.py")
    assert not is_commit("HEAD", tmp_path / "kernel.py")
    assert capfd.readouterr() == ("", "")


def test_a_commit_where_there_is_no_repository(file: Path, capsys: Printed) -> None:
    problem = f"'HEAD~1' is not a target, and git knows no repository that {file} is in"
    assert fault(capsys, file, "--diff", "HEAD~1")[0] == f"error[cli.build]: {problem}"


@pytest.mark.parametrize("text", ["deadbeef", "HEAD~9", "", "--all", "smooth"])
def test_a_commit_that_the_repository_does_not_have(text: str, file: Path, capsys: Printed) -> None:
    git(file.parent, "init", "-q")
    problem = f"{text!r} is not a target, and the repository of {file} has no commit that git finds by it"
    assert fault(capsys, file, f"--diff={text}")[0] == f"error[cli.build]: {problem}"


@pytest.mark.parametrize("text", ["sm_91", "sm90a"])
def test_an_unknown_target_is_not_taken_for_a_commit(text: str, file: Path, capsys: Printed) -> None:
    git(file.parent, "init", "-q")
    assert fault(capsys, file, "--diff", text)[0].startswith(f"error[target.unknown]: {text!r} is not a target")


def test_the_program_of_the_command_line_is_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -c` has no file."""
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    fault = rules.BUILD.diagnose(problem="", fix="")
    for name, is_kept in (("<string>", False), ("kernels.py", True)):
        with pytest.raises(ProgramError) as caught, users_program(Path("kernels.py"), "k"):
            raise nvb.DiagnosticError([dataclasses.replace(fault, location=Location(name, 1, ""))])
        assert (caught.value.diagnostics[0].location is not None) is is_kept


def ir_float(value: float) -> str:
    """A number of f32 as LLVM IR writes it."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016x}"


def other(folder: Path) -> Path:
    """A kernel that no commit has."""
    path = folder / "other.py"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        (("copies=3", "copies=4"), "--constant copies=3 --diff copies=4"),
        (("sm_90", "sm_80"), "--target sm_90 --diff sm_80"),
    ],
)
def test_two_values_of_one_thing_are_not_both_compared(
    changes: tuple[str, str], fix: str, file: Path, capsys: Printed
) -> None:
    options = [each for change in changes for each in ("--diff", change)]
    said = fault(capsys, file, *options)
    assert said[0] == f"error[cli.build]: {' '.join(options)} names 2 builds that differ in one thing"
    assert f"  fix: give one of them by its own option: {fix}" in said


def test_differences(file: Path, capsys: Printed) -> None:
    assert output(capsys, file, "--diff", "sm_90") == (
        "--- twice sm_80\n+++ twice sm_90\n@@ -1,5 +1,5 @@\n"
        " kernel twice\n-  target sm_80\n+  target sm_90\n   ptx 9.0\n"
        "   cluster 1\n   threads 64\n"
    )
    more = output(capsys, file, "--show", "ptx", "--diff", "copies=3", "--constant", "copies=2")
    assert more.startswith("--- twice sm_80 copies=2\n+++ twice sm_80 copies=3\n")
    assert len(re.findall(r"^\+\s+st\.global", more, re.M)) - len(re.findall(r"^-\s+st\.global", more, re.M)) == 1
    same = output(capsys, file, "--diff", "kind=f16")
    assert same == "twice sm_80 and twice sm_80 kind=f16 have the same machine\n"
    data = json.loads(output(capsys, file, "--diff", "sm_90", "--json"))
    assert (data["from"], data["to"], len(data["difference"])) == ("twice sm_80", "twice sm_90", 9)


def test_a_page_is_written(file: Path, capsys: Printed) -> None:
    page = file.with_suffix(".html")
    assert output(capsys, file, "--html", page) == f"{page}\n"
    assert page.read_text().startswith("<!DOCTYPE html>\n")
    page.unlink()
    assert json.loads(output(capsys, file, "--html", page, "--json"))["show"] == "machine"
    assert page.read_text().startswith("<!DOCTYPE html>\n")
    (first, *_) = fault(capsys, file, "--html", page, "--diff", "sm_90a")
    assert first == "error[cli.build]: --html writes a page of one build, and --diff compares two"
    nowhere = file.parent / "none" / "page.html"
    (first, *_) = fault(capsys, file, "--html", nowhere)
    assert first == f"error[cli.output]: {nowhere} cannot be written: No such file or directory"
    (first, *_) = fault(capsys, file, "--html", "")
    assert first == "error[cli.output]: '' cannot be written: Is a directory"


def test_errors_are_json_where_json_is_asked_for(file: Path, capsys: Printed) -> None:
    """Of the command line, of the program that is built, and of the parser that never saw --json."""
    file.write_text(TEXT.replace("    k.barrier.sync()\n", "    k.wgmma.fence()\n"))
    for arguments, rule, line in (
        ([file, "--json"], "target.feature", 13),
        ([f"{file}:twic", "--json"], "cli.build", None),
        ([file, "--json", "--colour"], "cli.usage", None),
    ):
        assert main(["build", *map(str, arguments)]) == 2
        printed = capsys.readouterr()
        (error,) = json.loads(printed.out)["errors"]
        assert printed.err == ""
        assert (error["rule"], error["severity"], error.get("line")) == (rule, "error", line)
        assert error["message"] and error["fix"]


def test_the_command_line_is_wrong(file: Path, capsys: Printed) -> None:
    see = "  see: nvbackend build --help; docs/looking.md"
    for arguments, problem, fix in (
        (["none.py"], "none.py is not a file", "name a Python file that is there"),
        (["kernel"], "'kernel' does not name a Python file and a kernel", "write FILE.py:kernel"),
        ([f"{file}:twic"], f"'twic' is not a name in {file}", "use twice"),
        ([f"{file}:doubled"], f"'doubled' is not a kernel in {file}", "use twice"),
        ([file, "--constant", "copies"], "'copies' is not a constant of the build", "write NAME=VALUE"),
        (
            [file, "--constant", "copies=two"],
            "'two' is neither a literal of Python nor a name of the kernel's file",
            "write 128, True, f16 or, with its quotes, 'text'",
        ),
    ):
        assert fault(capsys, *arguments) == [f"error[cli.build]: {problem}", f"  fix: {fix}", see]
    assert fault(capsys, file, "--target", "sm_91")[0].startswith("error[target.unknown]: 'sm_91'")
    assert fault(capsys, file, "--show", "asm")[0].startswith(
        "error[cli.usage]: argument --show: invalid choice: 'asm'"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1\n", "{file} has no kernel"),
        ("import none_such\n", "{file} ends with ModuleNotFoundError: No module named 'none_such' (line 1)"),
        ("\ndef f():\n    return 1 / 0\nf()\n", "{file} ends with ZeroDivisionError: division by zero (line 3)"),
        ("def f(:\n", "{file} ends with SyntaxError: invalid syntax (twice.py, line 1)"),
        ("import sys\nsys.exit(3)\n", "{file} ends with SystemExit: 3 (line 2)"),
        (TEXT + TEXT[TEXT.index("@nvb") :].replace("def twice", "def more"), "{file} has 2 kernels"),
    ],
)
def test_the_file_is_wrong(file: Path, capsys: Printed, text: str, problem: str) -> None:
    file.write_text(text)
    raises = "ends with" in problem
    lines = fault(capsys, file, status=1 if raises else 2)
    assert lines[0] == f"error[cli.build]: {problem.format(file=file)}"
    assert [line for line in lines if "nvbackend" in line and "see: " not in line] == []


def test_a_mistake_of_the_kernel_has_its_place(file: Path, capsys: Printed) -> None:
    file.write_text(TEXT.replace("    k.barrier.sync()\n", "    k.wgmma.fence()\n"))
    first, at, *_ = fault(capsys, file)
    assert first == "error[target.feature]: wgmma.fence.sync.aligned needs SM_90 and WGMMA, which sm_80 does not have"
    assert at == f"  at {file}:13    k.wgmma.fence()"


def test_it_leaves_the_search_path_as_it_was(file: Path, capsys: Printed) -> None:
    before = list(sys.path)
    output(capsys, file)
    assert sys.path == before


def test_a_line_of_python_comes_once_above_all_that_it_becomes(file: Path, capsys: Printed) -> None:
    """A load and a store each: three copies are six instructions of one line."""
    said = output(capsys, f"{file}:twice", "--constant", "copies=3", "--show", "ptx", "--color", "never")
    number = TEXT.splitlines().index("        y[thread + 64 * (copy + 1)] = x[thread]") + 1
    assert said.count(f"# twice.py:{number}  ") == 1
    assert len(re.findall(rf"^ *{number} +st\.global", said, re.M)) == 3
