"""The page on the architecture: its instruction takes the way that it says, through files that exist."""

from __future__ import annotations

import re
import sys
from types import FrameType

from tests.meta.test_guide import BLOCK
from tests.support.process import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
STEP = re.compile(r"^\| [^|]+ \| `(\w+)` \| `(nvbackend/[\w/]+\.py)` \|$", re.MULTILINE)
FIRST_OF_THE_CALL = ("nvbackend/requests/mma.py", "sync")


def _calls(code: str) -> list[tuple[str, str]]:
    """The functions of the package that the code calls, each time: file and name."""
    called: list[tuple[str, str]] = []
    package = str(ROOT / "nvbackend")

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            file = frame.f_code.co_filename.removeprefix(str(ROOT)).lstrip("/")
            called.append((file, frame.f_code.co_name))

    compiled = compile(code, "architecture.md", "exec")
    sys.setprofile(note)
    try:
        exec(compiled, {"__name__": "page"})
    finally:
        sys.setprofile(None)
    return called


def test_the_instruction_takes_the_way_of_the_page(capsys) -> None:
    (code,) = BLOCK.findall(PAGE)
    steps = [(file, function) for function, file in STEP.findall(PAGE)]
    assert len(steps) == len(re.findall(r"`nvbackend/[\w/]+\.py` \|$", PAGE, re.MULTILINE)) > 12
    called = _calls(code)
    place = called.index(FIRST_OF_THE_CALL)
    for step in steps:
        assert step in called[place:], f"{step} is not called after the steps before it"
        place = called.index(step, place)
    (shown,) = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)
    assert shown in capsys.readouterr().out.splitlines()


def test_the_check_of_the_way_sees_a_wrong_step() -> None:
    called = _calls("import nvbackend as nvb\nnvb.mma.sync('m16n8k16', nvb.f16, nvb.f16, nvb.f32)")
    assert FIRST_OF_THE_CALL in called
    assert ("nvbackend/isel/verify/verify.py", "verify") not in called


def test_folders_that_the_page_names_exist() -> None:
    named = re.findall(r"`((?:nvbackend|tests|samples)/[\w/]*)`", PAGE)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
