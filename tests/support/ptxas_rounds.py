"""ptxas on many instructions in few runs: whatever it complains of is taken out until it takes the rest.

For families in which one wrong instruction brings no complaint about others: what is taken is taken for certain, and
samples that ask about each instruction alone (`ptxas.refusals`) guard the other half.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from nvbackend.isel.target import Target, target_names
from tests.support.ptxas import assemble
from tests.support.rows import FIRST_PTXAS_CHIP

Judge = Callable[[Sequence[str], str, str, str], list[str]]
"""What ptxas says against each instruction: of `refusals` and `quick_refusals`."""
BATCH = 32
_COMPLAINT = re.compile(r"line (\d+); (?:error|fatal)\s*: (.*)")
_HEADER_LINES = 3


def known_to_ptxas() -> list[Target]:
    """The targets that ptxas 13 knows, at the newest PTX version LLVM prints; sm_101 ended before that one."""
    found = [Target.parse(name) for name in target_names()]
    return [target for target in found if target.number >= FIRST_PTXAS_CHIP and target.number != 101]


def quick_refusals(instructions: Sequence[str], declarations: str, target_name: str, version: str) -> list[str]:
    """What ptxas says against each instruction, empty for one that it takes; arguments as of `ptxas.refusals`."""
    header = f".version {version}\n.target {target_name}\n.address_size 64\n"
    said = [""] * len(instructions)
    for start in range(0, len(instructions), BATCH):
        left = list(range(start, min(start + BATCH, len(instructions))))
        while left:
            kernels = (
                f".visible .entry k{place}() {{ {declarations} {instructions[place]} ret; }}\n" for place in left
            )
            fine, message = assemble(header + "".join(kernels), target_name)
            if fine:
                break
            found = {int(number) - _HEADER_LINES - 1: text for number, text in _COMPLAINT.findall(message)}
            bad = {left[line]: text for line, text in found.items() if 0 <= line < len(left)}
            assert bad, message
            for place, text in bad.items():
                said[place] = text
            left = [place for place in left if place not in bad]
    return said
