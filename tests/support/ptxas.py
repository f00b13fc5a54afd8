"""ptxas as a witness: whether it takes a PTX file, and which of many instructions it takes.

A process costs ten times what an instruction does, so many stand in one file. Three things make a file say less than
its instructions would alone: a syntax error hides what follows it, an instruction that fails in ptxas's own expansion
(`<builtin>`) or behind the parser is told without a line of the file, and a complaint could be the consequence of an
earlier one. So an instruction counts as taken only where ptxas takes a whole file with it, and a complaint about one
only as far as questions about instructions alone, of each kind of complaint and of a sample, get that complaint again.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from nvbackend.codegen.toolchain import Tool, find_ptxas, wheel_directories
from nvbackend.isel.target.target import Target, target_names

BATCH = 256
"""Instructions in a file."""
SAMPLED = 499
"""One of so many complaints of a kind is asked about alone, and the last one, which has most errors before it."""
OLD_CHIPS = (70, 72, 101)
"""Chips that ptxas 13 does not know and ptxas 12.9 does; it knows 101 as 110."""
TAKEN_BEFORE_13 = ("fence.acquire.", "fence.release.", "st.async.mmio.release.gpu.")
"""What ptxas 12.9 lets through and ptxas 13 has learned to refuse: one-way fences before sm_90, mmio below `.sys`."""
ORDINARY = ("sm_70", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_101f", "sm_120")
"""The targets that samples are held to in the ordinary run: each generation, and each kind of suffix."""
OLD_RELEASE = (12, 9)
OLD_PTX_VERSION = (8, 8)
"""What ptxas 12.9 reads."""
_HEADER_LINES = 3
_COMPLAINT = re.compile(r"^ptxas (?P<file>\S+), line (?P<line>\d+); (?P<gravity>error|fatal)\s*: (?P<text>.*)$", re.M)
_QUOTED = re.compile(r"'[^']*'")
_HEADER_END = re.compile(r"^\.address_size 64$", re.M)
_FILE = re.compile(r"(^\s*\.(?:file|loc)\s+|\binlined_at )(\d+)", re.M)
_NAMES = re.compile(r"^\s*\.section\s+\.debug_str\s*\{(.*?)\}", re.M | re.S)
_NAME = re.compile(r"\$L__inlined(?=\d)")
_MACROS = re.compile(r"^\s*\.section\s+\.debug_macinfo\s*\{\s*\}\s*$", re.M)
_HELPER = re.compile(r"\b__nvb_")
_FILES = 1000
"""Source files of a kernel, at most."""


@functools.cache
def ptxas(target_name: str) -> str:
    """The ptxas that knows this chip: of old chips 12.9 from its package, else the newest; skips without 12.9."""
    if Target.parse(target_name).number not in OLD_CHIPS:
        return str(find_ptxas().path)
    for folder in wheel_directories():
        if (folder / "ptxas").is_file() and Tool.at(folder / "ptxas").version[:2] == OLD_RELEASE:
            return str(folder / "ptxas")
    pytest.skip(f"no package with ptxas 12.9 is installed; newer ones do not know {target_name}")


def old_ptxas() -> list[Tool]:
    """The programs in the installed packages of CUDA 12."""
    places = [directory / "ptxas" for directory in wheel_directories() if directory.parent.name == "cuda_nvcc"]
    return [Tool.at(place) for place in places if place.exists()]


@functools.cache
def witnessed() -> tuple[Target, ...]:
    """Every architecture nvbackend knows, at the newest PTX version that both LLVM and the ptxas that knows it have."""
    newest = [Target.parse(name) for name in target_names()]
    return tuple(
        Target.parse(each.name, min(each.ptx_version, OLD_PTX_VERSION)) if each.number in OLD_CHIPS else each
        for each in newest
    )


def on_a_sample() -> list[Any]:
    """Every architecture as a parameter of a test over a sample; those that are not in ORDINARY are exhaustive."""
    return [
        pytest.param(each, marks=() if each.name in ORDINARY else pytest.mark.exhaustive(seconds=3))
        for each in witnessed()
    ]


def assemble(ptx: str, target_name: str) -> tuple[bool, str]:
    """Whether ptxas takes the text for this chip, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx, encoding="utf-8")
        done = subprocess.run(
            [ptxas(target_name), f"-arch={target_name}", "-O0", str(source), "-o", str(source.with_suffix(".cubin"))],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    return done.returncode == 0, done.stdout + done.stderr


def together(texts: Sequence[str]) -> str:
    """Several PTX files of one target and version as one; their kernels differ in name.

    What each numbers or names from the start, source files and helpers, gets another number or name in each.
    """
    first = texts[0]
    apart = [_apart(text, place) for place, text in enumerate(texts)]
    names = "".join(found[1] for text in apart for found in _NAMES.finditer(text))  # ptxas takes one such section
    section = f"\t.section\t.debug_str\n\t{{{names}\t}}\n" if names else ""
    return "\n".join([first[: _end_of_header(first)], *(_NAMES.sub("", text) for text in apart), section])


def _end_of_header(text: str) -> int:
    found = _HEADER_END.search(text)
    assert found, text
    return found.end()


def _apart(text: str, place: int) -> str:
    body = _MACROS.sub("", text[_end_of_header(text) :])
    body = _FILE.sub(lambda found: f"{found[1]}{int(found[2]) + _FILES * place}", body)
    body = _NAME.sub(f"$L__inlined{place}_", body)
    return _HELPER.sub(f"__nvb{place}_", body)


def refusals(instructions: Sequence[str], declarations: str, target_name: str, version: str) -> list[str]:
    """What ptxas says against each instruction, in order; empty for one that it takes.

    Each stands in a kernel of its own, behind `declarations` (registers); neither holds a line break. `version` is the
    PTX version, such as 9.0.
    """
    question = _Question(instructions, declarations, target_name, version)
    said: dict[int, str] = {}
    for start in range(0, len(instructions), BATCH):
        said |= question.complaints(range(start, min(start + BATCH, len(instructions))))
    said |= dict(question.confirmed(said))
    return [said.get(place, "") for place in range(len(instructions))]


def refusals_alone(instructions: Sequence[str], declarations: str, target_name: str, version: str) -> list[str]:
    """The same, asked in a file for each instruction."""
    question = _Question(instructions, declarations, target_name, version)
    return [question.alone(place) for place in range(len(instructions))]


class _Question:
    def __init__(self, instructions: Sequence[str], declarations: str, target_name: str, version: str) -> None:
        self.instructions = instructions
        self.declarations = declarations
        self.header = f".version {version}\n.target {target_name}\n.address_size 64\n"
        self.target_name = target_name

    def complaints(self, places: Sequence[int]) -> dict[int, str]:
        """Those of `places` that ptxas complains of in common files, until it takes a file of the rest."""
        found: dict[int, str] = {}
        left = list(places)
        while left:
            fine, message = self._ask(left)
            if fine:
                break
            complaints = _by_place(message, left)
            if complaints:
                found |= complaints
                left = [place for place in left if place not in complaints]
            elif len(left) == 1:
                return found | {left[0]: _told(message)}
            else:
                middle = len(left) // 2
                return found | self.complaints(left[:middle]) | self.complaints(left[middle:])
        return found

    def confirmed(self, said: Mapping[int, str]) -> Iterator[tuple[int, str]]:
        """What is said of an instruction alone: of some of each kind, and of all where that once was something else."""
        kinds: dict[str, list[int]] = defaultdict(list)
        for place, text in said.items():
            kinds[_QUOTED.sub("''", text)].append(place)
        for places in kinds.values():
            some = dict.fromkeys((*places[::SAMPLED], places[-1]))
            alone = {place: self.alone(place) for place in some}
            yield from alone.items()
            if any(text != said[place] for place, text in alone.items()):
                yield from ((place, self.alone(place)) for place in places if place not in alone)

    def alone(self, place: int) -> str:
        """What ptxas says of a file with this instruction only."""
        fine, message = self._ask([place])
        return "" if fine else _by_place(message, [place]).get(place) or _told(message)

    def _ask(self, places: Sequence[int]) -> tuple[bool, str]:
        kernels = (
            f".visible .entry k{place}() {{ {self.declarations} {self.instructions[place]} ret; }}\n"
            for place in places
        )
        return assemble(self.header + "".join(kernels), self.target_name)


def _by_place(message: str, places: Sequence[int]) -> dict[int, str]:
    """The complaints about lines of the file itself; lines of ptxas's own texts have numbers of their own."""
    found: dict[int, list[str]] = defaultdict(list)
    for each in _COMPLAINT.finditer(message):
        index = int(each["line"]) - _HEADER_LINES - 1
        if not each["file"].startswith("<"):
            assert 0 <= index < len(places), message
            found[places[index]].append(each["text"])
    return {place: "; ".join(texts) for place, texts in found.items()}


def _told(message: str) -> str:
    """A message without the name of the file, which is another one each time."""
    return re.sub(r"^ptxas /\S+", "ptxas", message.strip(), flags=re.M) or "ptxas ended without a word"
