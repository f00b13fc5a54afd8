"""Names of the facts of a machine instruction: numbers known at build time that are not operands.

A fact that is not known is not there, and analyses say nothing where they would need it.
"""

from __future__ import annotations

THREADS = "threads"
"""How many threads of the CTA execute the instruction each time its block runs, its guard included."""
THREAD = "thread"
"""The index of the only thread that executes it."""
WARPS = "warps"
"""How many warps those threads belong to."""
COUNT = "count"
"""Arrivals: of mbarrier.init in a phase, of an arrive by each thread."""
BYTES = "bytes"
"""Bytes that an expect_tx announces, or that a copy brings to each CTA that it reaches."""
PARITY = "parity"
"""The parity that a wait is for, where it is a constant."""
TURN = "turn"
"""1 where a ping-pong consumer waits for its turn."""
FLIPPED = "flipped"
"""Of a parity that one variable decides: 0 where it is what the variable is at the entry of the block, 1 the other."""
ARRIVALS = "arrivals"
"""Arrivals on each barrier that it reaches, of all threads and CTAs that execute it in one phase of that barrier."""
MASK = "multicast_mask"
"""The CTAs of the cluster that a copy goes to, a bit each."""
START = "start"
"""Bytes by which the innermost start of a box certainly exceeds a multiple that TMA can start at; 0 for none."""
BEFORE = "before"
"""The first dimension, innermost first, along which a box certainly starts at a negative coordinate."""
WRAPS = "wraps"
"""1 where the index of the barrier is cut off: a remainder, a mask, or a choice."""
PEERS = "peers"
"""The CTA of the cluster whose memory it accesses, for each CTA that executes it: `peers_of` takes it apart."""
MOST_CTAS = 16
"""CTAs of a cluster (CUDA C++ Programming Guide, thread block clusters: 8, or 16 where that is asked for)."""
ALIGNMENT = "alignment"
"""Bytes that the shared-memory address of a copy, or the address of a matrix, is promised to be a multiple of."""
BOX_ROW = "box_row"
"""Bytes of the innermost dimension of a tensor map's box."""
SWIZZLE = "swizzle"
"""The swizzle of a tensor map, or that of a shared address's computation, in bytes."""
ELEMENT = "element"
"""The element type of the tensor map of a reduction, by its code."""
SAME = "same"
"""1 where all threads that execute a copy certainly ask for the same box at the same place."""
STRIDE = "stride"
"""Elements from one row (column) of a matrix to the next, where that is a constant."""
SCALE_D = "scale_d"
"""What an mma does with its accumulator, where that is a constant: 1 to add to it, 0 to overwrite it."""
MAP = "map"
"""Which tensor map in memory it works on: equal numbers are equal addresses in one CTA, each time."""
RELEASES = "releases"
"""Which stage of a ring an arrival gives back, where that is not the one that was drained last but a kept one."""
STAGE_BEFORE, LAST_STAGE = 0, 1
"""The stage before, by ring.drain(in_flight=1), or the last one, by ring.release()."""
UNUSED = "unused"
"""1 where the kernel uses none of the values that were read from registers."""


def peers_of(known: int, rank: int) -> list[int]:
    """The ranks of the CTAs, other than its own, that the CTA of this `rank` accesses, by the fact PEERS."""
    return [peer for peer in range(MOST_CTAS) if known >> rank * MOST_CTAS + peer & 1 and peer != rank]
