"""Where each state space is among the generic addresses.

Shared memory of the CTAs of a cluster is one window: the rank in bits 24 and up, the offset below. Constants and kernel
parameters are below 2**32, so that a 32-bit address of theirs is one too.
"""

from __future__ import annotations

CODE = 0x0000_1000
"""Addresses of functions."""
CONSTANTS = 0x0100_0000
PARAMETERS = 0x2000_0000
GLOBALS = 0x7A00_0000_0000
LOCAL = 0x7E00_0000_0000
SHARED = 0x7F00_0000_0000
LOCAL_BYTES = 1 << 32
RANK_SHIFT = 24
SHARED_BYTES = 16 << RANK_SHIFT
"""How many addresses the local and the shared window have."""
SHARED_START = 0x400
"""Where a kernel's shared memory begins: the driver keeps 1 KiB below it."""
GAP = 256
"""Addresses between small allocations that belong to none."""
WIDE_GAP = 1 << 30
"""The same between arrays: an index that runs out of one does not come to another one."""
