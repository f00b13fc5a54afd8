"""PTX of Triton and nvcc, right and with one instruction removed.

The texts in `texts` were compiled from programs written for these tests, by Triton 3.6 and NVRTC 13.5, and shortened:
comments and debug information are out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FILES = sorted(
    [*(Path(__file__).parent / "texts").glob("*.ptx"), *(Path(__file__).parents[1] / "ptx" / "foreign").glob("*.ptx")]
)
_ORDERING = re.compile(
    r"\s*(@!?%p\d+\s+)?(wgmma\.(wait_group|commit_group|fence)|fence\.proxy\.async|tcgen05\.wait::ld"
    r"|cp\.async\.(?:bulk\.)?(commit_group|wait_group)|tcgen05\.commit|mbarrier\.init)"
)
HARMLESS = {
    ("nvrtc_gemm_tma.ptx", "fence.proxy.async", 1): "fence.mbarrier_init orders the mbarriers for the async proxy",
    ("nvrtc_gemm_tma.ptx", "wgmma.fence", 2): "only wgmma use the accumulators since the first fence",
    ("nvrtc_tiles.ptx", "wgmma.fence", 2): "only wgmma use the accumulators since the first fence",
    ("nvrtc_tiles.ptx", "wgmma.wait_group", 1): "the other buffer is written next, and then all groups are waited for",
    ("nvrtc_tiles.ptx", "wgmma.wait_group", 2): "the other buffer is written next, and then all groups are waited for",
    ("nvrtc_tiles.ptx", "fence.proxy.async", 4): "cp.async alone writes the tiles: Triton has no fence there",
}
"""What may be removed, by file, instruction and its number there, and why nothing is said."""
_LATER = "a commit later on closes its group too: a wait counts one group less"
_UNFOLLOWED = "the waits take one of several mbarriers, by a number that is not followed"
_SECOND = "a wait before it lets the copies of the first round through"
_UNREAD = "another wait comes before what is read, or ordinary stores fill the same memory"
NOT_SEEN = {
    **{
        ("nvrtc_tiles.ptx", "cp.async.bulk.wait_group", number): "a bulk store that may still read what is loaded anew"
        for number in (1, 2, 3, 4)
    },
    **{("nvrtc_tiles.ptx", "cp.async.commit_group", number): _LATER for number in (1, 2)},
    **{("triton_attention.ptx", "cp.async.commit_group", number): _LATER for number in range(1, 7)},
    **{("triton_blackwell.ptx", "cp.async.commit_group", number): _LATER for number in range(1, 9)},
    **{("triton_gemm_cp_async.ptx", "cp.async.commit_group", number): _LATER for number in range(1, 7)},
    ("triton_attention.ptx", "cp.async.wait_group", 2): _SECOND,
    ("triton_gemm_cp_async.ptx", "cp.async.wait_group", 2): _SECOND,
    **{("triton_blackwell.ptx", "cp.async.wait_group", number): _UNREAD for number in (1, 2, 3)},
    ("triton_blackwell.ptx", "tcgen05.commit", 1): "a commit of a later mma is reached from there",
    **{("triton_blackwell.ptx", "mbarrier.init", number): _UNFOLLOWED for number in (1, 2)},
    **{("triton_tma_store.ptx", "mbarrier.init", number): _UNFOLLOWED for number in (1, 2, 3)},
    **{("triton_gemm_tma.ptx", "mbarrier.init", number): _UNFOLLOWED for number in (1, 2, 3)},
}
"""Mistakes that are not found: what each stage holds, and how many groups there are, is not followed through loops."""


@dataclass(frozen=True)
class Planted:
    """A text without one instruction: its file, the instruction, its number among those alike, the line it was on."""

    file: Path
    instruction: str
    number: int
    line: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What tables know it by."""
        return self.file.name, self.instruction, self.number

    def __str__(self) -> str:
        return f"{self.file.stem}-{self.instruction}-{self.number}"

    @property
    def text(self) -> str:
        """The text, with an empty line in its place."""
        lines = self.file.read_text(encoding="utf-8").split("\n")
        lines[self.line - 1] = ""
        return "\n".join(lines)


def planted() -> list[Planted]:
    """Every text with each one of the instructions that order asynchronous operations removed."""
    every: list[Planted] = []
    for file in FILES:
        count: dict[str, int] = {}
        for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), start=1):
            match = _ORDERING.match(line)
            if match is not None:
                instruction = match[2]
                count[instruction] = count.get(instruction, 0) + 1
                every.append(Planted(file, instruction, count[instruction], number))
    return every
