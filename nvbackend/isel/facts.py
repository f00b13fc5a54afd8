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
CTAS = "ctas"
"""CTAs that a copy or an arrival reaches, each CTA of the cluster issuing the same one."""
REMOTE = "remote"
"""1 where the barrier is that of another CTA of the cluster."""
ALIGNMENT = "alignment"
"""Bytes that the shared-memory address of a copy is promised to be a multiple of."""
