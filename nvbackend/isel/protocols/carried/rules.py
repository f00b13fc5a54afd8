"""Rules on sums of earlier tiles.

A running sum is right where a loop says what comes before a round. Here that is not the program's to say.
"""

from __future__ import annotations

from nvbackend.diagnostics import Rule, Severity

_SCALE_D = "PTX ISA 9.7.14.5 (mma), 9.7.15.5.2 (wgmma.mma_async: scale-d)"
_FIX = "call acc.clear() in that block, before the first mma of the tile; or read {accumulator} after the block"

CARRIED = Rule(
    id="accumulator.carried",
    message="{accumulator} is read here with the sums of earlier tiles in it: nothing clears it in {block}",
    fix=_FIX,
    why="Which tiles a CTA has had before depends on timing, and so do the sums.",
    reference=_SCALE_D,
)
CARRIED_BY_GRID = Rule(
    id="accumulator.carried-by-grid",
    message="{accumulator} is read here with the sums of earlier tiles in it: nothing clears it in {block}",
    fix=_FIX,
    why="The loop steps by the number of CTAs, so which tiles a CTA has had before depends on the size of the grid.",
    reference=_SCALE_D,
    severity=Severity.WARNING,
)
