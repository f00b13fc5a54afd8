"""How threads come together: warps and warpgroups. PTX ISA 2.2 (thread hierarchy), 9.7.15 (warpgroups)."""

WARP_SIZE = 32
"""Threads of a warp."""
WARPGROUP_SIZE = 4 * WARP_SIZE
"""Threads of a warpgroup: four warps, of which the first has a rank that is a multiple of four."""
