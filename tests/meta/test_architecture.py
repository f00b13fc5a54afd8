"""The page on the architecture: its instruction takes the way that it says, through files that exist."""

from __future__ import annotations

import re

from tests.meta.test_guide import BLOCK
from tests.support.process import ROOT, python_output

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
STEP = re.compile(r"^\| [^|]+ \| `(\w+)` \| `(nvbackend/[\w/]+\.py)` \|$", re.MULTILINE)
FIRST_OF_THE_CALL = ("nvbackend/requests/mma.py", "sync")


TRACER = """
import sys

root, code = sys.argv[1:]

def note(frame, event, _):
    if event == "call" and frame.f_code.co_filename.startswith(root):
        print("called", frame.f_code.co_filename[len(root) + 1:], frame.f_code.co_name)

program = compile(code, "page.py", "exec")
sys.setprofile(note)
exec(program, {"__name__": "page"})
"""
"""In a process of its own: what is cached is not called a second time."""


def _calls(code: str) -> tuple[list[tuple[str, str]], str]:
    """The functions of the package that the code calls, each time, by file and name; and what it prints besides."""
    printed = python_output(TRACER, str(ROOT), code)
    called = re.findall(r"^called (nvbackend/\S+) (\S+)$", printed, re.MULTILINE)
    return called, re.sub(r"^called .*\n", "", printed, flags=re.MULTILINE)


def test_the_instruction_takes_the_way_of_the_page() -> None:
    (code,) = BLOCK.findall(PAGE)
    steps = [(file, function) for function, file in STEP.findall(PAGE)]
    assert len(steps) == len(re.findall(r"`nvbackend/[\w/]+\.py` \|$", PAGE, re.MULTILINE)) > 12
    called, printed = _calls(code)
    place = called.index(FIRST_OF_THE_CALL)
    for step in steps:
        assert step in called[place:], f"{step} is not called after the steps before it"
        place = called.index(step, place)
    (shown,) = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)
    assert shown in printed.splitlines()


def test_the_check_of_the_way_sees_a_wrong_step() -> None:
    called, _ = _calls("import nvbackend as nvb\nnvb.mma.sync('m16n8k16', nvb.f16, nvb.f16, nvb.f32)")
    assert FIRST_OF_THE_CALL in called
    assert ("nvbackend/isel/verify/verify.py", "verify") not in called


def test_folders_that_the_page_names_exist() -> None:
    named = re.findall(r"`((?:nvbackend|tests|samples)/[\w/]*)`", PAGE)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
