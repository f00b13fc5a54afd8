"""What can be wrong with LTO-IR: no library that makes it, code that it cannot hold, bytes that are something else."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_LINKING = "docs/linking.md, Device functions for others"

MISSING = Rule(
    id="lto.missing",
    message="no {library}: looked in {places}",
    fix="pip install nvbackend[lto]",
    why="libNVVM makes LTO-IR and nvJitLink links it; neither comes with ptxas.",
    reference="libNVVM API; nvJitLink API",
)
DIALECT = Rule(
    id="lto.dialect",
    message="libNVVM cannot make LTO-IR of {name} for {target}: {problem}",
    fix="{advice}",
    why="Before sm_100 libNVVM reads the LLVM IR of LLVM 7, which lacks many instructions and types of today's.",
    reference=_LINKING + "; NVVM IR Specification",
)
INPUT = Rule(
    id="lto.input",
    message="nvJitLink cannot make PTX of the LTO-IR for {target}: {problem}",
    fix="{advice}",
    why="LTO-IR is for one range of chips, and for linkers that are not older than the compiler that wrote it.",
    reference="docs/linking.md, Functions of other compilers; nvJitLink API",
)
