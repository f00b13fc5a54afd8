"""PTX of Triton and nvcc, right and with one instruction removed.

The texts in `texts` were compiled from programs written for these tests, by Triton 3.6 and 3.9 and NVRTC 13.5, and
shortened: comments and debug information are out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FILES = sorted(
    [*(Path(__file__).parent / "texts").glob("*.ptx"), *(Path(__file__).parents[1] / "ptx" / "foreign").glob("*.ptx")]
)
_ORDERING = re.compile(
    r"\s*(@!?%p\d+\s+)?(wgmma\.(wait_group|commit_group|fence)|fence\.proxy\.async|tcgen05\.wait::(?:ld|st)"
    r"|cp\.async\.(?:bulk\.)?(commit_group|wait_group)|tcgen05\.commit|mbarrier\.init)"
)
_ONLY_WGMMA = "only wgmma use the accumulators since the first fence"
_NO_STORE = "no bulk store comes before it: tensormap.cp_fenceproxy belongs to no group"
_INITIALISED = "it orders mbarrier.init for copies, where Triton's persistent kernel has a barrier alone"
_LOADED = "a later wait comes before the next barrier, and ptxas has each use of a register wait for its load"
_NOTHING_LEFT = "rounds that are left over from groups of four fill no stage: the copies for them are three ahead"
_STORED_AGAIN = "the wait for the next stores comes before the barrier of the mma"
HARMLESS = {
    ("nvrtc_gemm_tma.ptx", "fence.proxy.async", 1): "fence.mbarrier_init orders the mbarriers for the async proxy",
    ("nvrtc_gemm_tma.ptx", "wgmma.fence", 2): _ONLY_WGMMA,
    ("nvrtc_tiles.ptx", "wgmma.fence", 2): _ONLY_WGMMA,
    ("nvrtc_through_registers.ptx", "wgmma.fence", 2): _ONLY_WGMMA,
    **{("nvrtc_overlapped.ptx", "wgmma.fence", number): _ONLY_WGMMA for number in (2, 3, 4)},
    **{("nvrtc_specialised.ptx", "wgmma.fence", number): _ONLY_WGMMA for number in (2, 3, 4, 6, 7)},
    **{("nvrtc_blackwell.ptx", "tcgen05.wait::ld", number): _LOADED for number in range(1, 8)},
    **{("triton_blackwell_attention.ptx", "tcgen05.wait::ld", number): _LOADED for number in range(1, 5)},
    **{("triton_blackwell_attention.ptx", "tcgen05.wait::st", number): _STORED_AGAIN for number in (1, 2, 4)},
    **{
        (f"triton_{name}.ptx", "fence.proxy.async", 1): _INITIALISED
        for name in ("attention_tma", "blackwell_attention", "map_in_memory")
    },
    **{
        ("triton_map_in_memory.ptx", f"cp.async.bulk.{kind}_group", number): _NO_STORE
        for kind in ("commit", "wait")
        for number in (1, 2, 3)
    },
    ("nvrtc_overlapped.ptx", "wgmma.wait_group", 5): _NOTHING_LEFT,
    (
        "nvrtc_blackwell.ptx",
        "tcgen05.commit",
        5,
    ): "nothing waits for the rounds that are left over: they are three at most",
    ("nvrtc_tiles.ptx", "wgmma.wait_group", 1): "the other buffer is written next, and then all groups are waited for",
    ("nvrtc_tiles.ptx", "fence.proxy.async", 4): "cp.async alone writes the tiles: Triton has no fence there",
    ("nvrtc_tiles.ptx", "cp.async.bulk.wait_group", 1): "no store comes before it",
    **{
        (
            f"triton_{name}.ptx",
            "cp.async.commit_group",
            1,
        ): "its copies join the next group, for which each wait waits too"
        for name in ("attention", "blackwell", "gemm_cp_async")
    },
}
"""What may be removed, by file, instruction and its number there, and why nothing is said."""


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
