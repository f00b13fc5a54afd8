"""NVBACKEND_LOG: a line for each kernel that a program compiles: what took how long, what came from the cache.

It is stderr, or a file that lines are added to: of JSON where its name ends in .jsonl. Results do not change.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from nvbackend.codegen.looking.asked import LOG, asked
from nvbackend.diagnostics import Rule

if TYPE_CHECKING:
    from nvbackend.codegen.looking.built import TimedKernel

_STDERR = ("1", "stderr", "-")
_OF_JSON = ".jsonl"
_WHOLE = "kernel"
"""In place of the stages, where none ran: the kernel was not even built."""

WRITE = Rule(
    id="log.write",
    message=f"{LOG}={{file}}: {{problem}}",
    fix="name a file that can be written to, or stderr, or unset the variable",
    why="The lines that were asked for would be missing.",
    reference="docs/looking.md, Every kernel of a program",
)


def log_compiled(kernel: TimedKernel, *, kept: bool = False) -> None:
    """Add the kernel's line, where the variable is set; `kept`: it came whole from the cache. Raises log.write."""
    chosen = asked(LOG)
    if not chosen:
        return
    line = _line_of_json(kernel, kept=kept) if chosen.endswith(_OF_JSON) else _text(kernel, kept=kept)
    if chosen in _STDERR:
        sys.stderr.write(f"{line}\n")
        return
    try:
        with open(chosen, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    except (OSError, ValueError) as error:
        WRITE.fail(file=chosen, problem=getattr(error, "strerror", None) or error)


def _line_of_json(kernel: TimedKernel, *, kept: bool) -> str:
    import json

    data = {
        "kernel": kernel.signature.name,
        "target": kernel.target.name,
        "seconds": {} if kept else dict(kernel.timings),
        "cached": [_WHOLE] if kept else list(kernel.cached),
        **kernel.figures(),
    }
    return json.dumps(data)


def _text(kernel: TimedKernel, *, kept: bool) -> str:
    timed = (
        f"{stage} {'cached' if stage in kernel.cached else f'{seconds * 1e3:.1f} ms'}"
        for stage, seconds in kernel.timings.items()
    )
    stages = f"whole {_WHOLE} cached" if kept else ", ".join(timed)
    parts = [f"nvbackend: {kernel.signature.name} for {kernel.target.name}: {stages}"]
    if kernel.cubin is not None:
        used = kernel.cubin.kernel(kernel.signature.name)
        spilled = used.spill_stores_bytes + used.spill_loads_bytes
        parts.append(f"{used.registers} registers" + (f", {spilled} bytes spilled" if spilled else ""))
    if kernel.diagnostics:
        parts.append("warnings: " + ", ".join(each.rule_id for each in kernel.diagnostics))
    return "; ".join(parts)
