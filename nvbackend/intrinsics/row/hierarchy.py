"""How threads come together: warps, warpgroups and larger groups. PTX ISA 2.2, 9.7.15 (warpgroups)."""

from __future__ import annotations

import enum

WARP_SIZE = 32
"""Threads of a warp."""
WARPGROUP_SIZE = 4 * WARP_SIZE
"""Threads of a warpgroup: four warps, of which the first has a rank that is a multiple of four."""


class Scope(enum.IntEnum):
    """A group of threads that agree on something, from the smallest to the largest."""

    THREAD = 0
    WARP = 1
    WARPGROUP = 2
    CTA = 3
    CLUSTER = 4
    GRID = 5


SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GRID, "gl": Scope.GRID, "sys": Scope.GRID}
"""The scopes of memory orders, by how PTX spells them; other grids count as this one."""
