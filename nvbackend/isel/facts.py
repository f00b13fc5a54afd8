"""Names of the facts of a machine instruction: numbers known at build time that are no operand of it.

A fact that is not known is not there, and analyses say nothing where they would need it.
"""

from __future__ import annotations

THREADS = "threads"
"""How many threads of the CTA execute the instruction each time its block runs, its guard included."""
THREAD = "thread"
"""The index of the one thread that executes it."""
WARPS = "warps"
"""How many warps those threads belong to."""
COUNT = "count"
"""Arrivals: of mbarrier.init in a phase, of an arrive by each thread."""
BYTES = "bytes"
"""Bytes that an expect_tx announces, or that one copy brings to each CTA that gets it."""
PARITY = "parity"
"""The parity that a wait is for, where it is a constant."""
ARRIVALS = "arrivals"
"""Arrivals on each barrier that it reaches, of all threads and CTAs that execute it in one phase of that barrier."""
MASK = "multicast_mask"
"""The CTAs of the cluster that a copy goes to, a bit each."""
WRAPS = "wraps"
"""1 where the index of the barrier is cut off: a remainder, a mask, or a choice."""
REMOTE = "remote"
"""1 where the barrier is that of another CTA of the cluster."""
ALIGNMENT = "alignment"
"""Bytes that the shared-memory address of a copy is promised to be a multiple of."""
