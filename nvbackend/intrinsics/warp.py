"""Warp rows: registers exchanged between the lanes of a warp. PTX ISA 9.7.9 (shfl.sync)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from nvbackend.intrinsics.axes import chosen
from nvbackend.intrinsics.hierarchy import WARP_SIZE
from nvbackend.intrinsics.row import Effect, Intrinsic, RegisterClass, Row, operand, output

SHUFFLE_MODES = ("idx", "up", "down", "bfly")
ALL_LANES = (1 << WARP_SIZE) - 1
WHOLE_WARP = WARP_SIZE - 1
"""The `clamp` operand that makes the whole warp one segment (0 for mode up)."""


@cache
def shuffle(mode: str) -> Row:
    """shfl.sync: lane's `value` of another lane; `lane` is its number (idx), a distance (up, down) or a mask (bfly)."""
    chosen("mode", mode, SHUFFLE_MODES)
    return Row(
        family="warp",
        opcode=f"shfl.sync.{mode}",
        ptx=f"shfl.sync.{mode}.b32",
        operands=(
            output("result", RegisterClass.B32),
            operand("members", RegisterClass.B32, meaning="one bit a lane that takes part"),
            operand("value", RegisterClass.B32),
            operand("lane", RegisterClass.B32),
            operand("clamp", RegisterClass.B32, meaning="segment mask and clamp"),
        ),
        lowering=Intrinsic(f"llvm.nvvm.shfl.sync.{mode}.i32", ("members", "value", "lane", "clamp")),
        effects=Effect.CONVERGENT,
        section="9.7.9 (shfl.sync)",
        summary="Reads a register of another lane of the warp.",
        axes={"mode": mode},
    )


def rows() -> Iterator[Row]:
    """A row for each mode."""
    return (shuffle(mode) for mode in SHUFFLE_MODES)
