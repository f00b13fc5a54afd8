"""ptxas as a witness: whether it takes a PTX file, and which of many instructions it takes.

After one error in a file ptxas reports errors of later lines that are none, and a syntax error hides those that follow.
So an instruction counts as refused only where it is refused in a file of its own, and as taken only where the whole
file is.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from nvbackend.codegen.toolchain import find_ptxas

BATCH = 64
"""Instructions in a file."""
_ERROR_LINE = re.compile(r"line (\d+); error")
_HEADER_LINES = 3


@functools.cache
def ptxas() -> str:
    """The ptxas of the newest wheel, or the one on PATH."""
    return str(find_ptxas().path)


def assemble(ptx: str, target_name: str) -> tuple[bool, str]:
    """Whether ptxas takes the text for this chip, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx, encoding="utf-8")
        done = subprocess.run(
            [ptxas(), f"-arch={target_name}", "-O0", str(source), "-o", str(source.with_suffix(".cubin"))],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    return done.returncode == 0, done.stdout + done.stderr


def refusals(instructions: Sequence[str], declarations: str, target_name: str, version: str) -> list[str]:
    """What ptxas says against each instruction, in order; empty for one that it takes.

    Each stands in a kernel of its own, behind `declarations` (registers); neither holds a line break. `version` is the
    PTX version, such as 9.0.
    """
    batch = _Batch(declarations, f".version {version}\n.target {target_name}\n.address_size 64\n", target_name)
    said = [""] * len(instructions)
    for start in range(0, len(instructions), BATCH):
        places = range(start, min(start + BATCH, len(instructions)))
        for place, message in batch.refused(places, instructions):
            said[place] = message
    return said


class _Batch:
    def __init__(self, declarations: str, header: str, target_name: str) -> None:
        self.declarations = declarations
        self.header = header
        self.target_name = target_name

    def refused(self, places: Sequence[int], instructions: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Those of `places` that ptxas refuses, with what it says."""
        if not places:
            return
        kernels = (
            f".visible .entry k{place}() {{ {self.declarations} {instructions[place]} ret; }}\n" for place in places
        )
        fine, message = assemble(self.header + "".join(kernels), self.target_name)
        if fine:
            return
        if len(places) == 1:
            yield places[0], message
            return
        lines = {int(number) - _HEADER_LINES - 1 for number in _ERROR_LINE.findall(message)}
        suspects = [place for index, place in enumerate(places) if index in lines] or list(places)
        for place in suspects:
            yield from self.refused([place], instructions)
        yield from self.refused([place for place in places if place not in suspects], instructions)
