"""Shows what a seed writes and what becomes of it: `python -m tests.support.random_kernels 17 [--ptx] [--ir]`."""

from __future__ import annotations

import sys

from tests.support.random_kernels.program import write
from tests.support.random_kernels.worker import refused_by_ptxas, watched

if __name__ == "__main__":
    for text in [one for one in sys.argv[1:] if one.isdecimal()]:
        outcome = write(int(text)) if "--unwatched" in sys.argv else watched(int(text))
        lines = [f"seed {text}: {outcome.kind} on {outcome.target}", *outcome.trace]
        if "--ptx" in sys.argv:
            lines.append(outcome.ptx)
        said = refused_by_ptxas([outcome])[0] if outcome.ptx else {}
        verdict = f"failed: {said}" if said else f"{outcome.verdict}: {outcome.failure or ', '.join(outcome.rules)}"
        sys.stdout.write("\n".join([*lines, verdict]) + "\n")
