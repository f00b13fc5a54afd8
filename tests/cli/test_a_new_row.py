"""Adding a row is one edit of one file: done as CONTRIBUTING says, in a copy of the package."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.process import ROOT

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EDIT = re.search(r"^```diff\n--- a/(\S+)\n\+\+\+ b/\S+\n(.*?)^```$", CONTRIBUTING, re.MULTILINE | re.DOTALL)


def _catalogue(copy: Path, family: str, target: str) -> dict[str, dict[str, Any]]:
    arguments = [sys.executable, "-m", "nvbackend", "catalogue", "--json", "--family", family, "--target", target]
    done = subprocess.run(arguments, cwd=copy, capture_output=True, text=True, check=True)
    return {one["ptx"]: one for one in json.loads(done.stdout)}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package by itself."""
    shutil.copytree(ROOT / "nvbackend", tmp_path / "nvbackend", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_edit_that_contributing_shows_is_all_it_takes(copy: Path) -> None:
    """Undone in a copy and done again: the row goes and comes, with its gate, and no other row changes."""
    assert EDIT is not None
    file, lines = copy / EDIT[1], EDIT[2].splitlines()
    without = "\n".join(line[1:] for line in lines if line.startswith(("-", " ")))
    done = "\n".join(line[1:] for line in lines if line.startswith(("+", " ")))
    text = file.read_text(encoding="utf-8")
    assert text.count(done) == 1
    file.write_text(text.replace(done, without), encoding="utf-8")
    before = _catalogue(copy, file.stem, "sm_90a")
    file.write_text(text, encoding="utf-8")
    after = _catalogue(copy, file.stem, "sm_90a")
    assert after.keys() - before.keys() == {"%aggr_smem_size"}
    row = after.pop("%aggr_smem_size")
    assert after == before
    assert (row["legal"], row["constraints"], row["ptx_version"]) == (True, "=r", "8.1")
    assert _catalogue(copy, file.stem, "sm_80")["%aggr_smem_size"]["legal"] is False
