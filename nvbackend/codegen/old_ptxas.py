"""Mistakes of older releases of ptxas that give wrong code in silence, each looked for in the code that it made."""

from __future__ import annotations

import re
from collections.abc import Callable

from nvbackend.codegen.toolchain import Tool, ToolVersion
from nvbackend.diagnostics import DiagnosticError, Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.classes.late_pattern import late_pattern
from nvbackend.isel.target.target import Target

RS_WGMMA_FIXED: ToolVersion = (13, 3, 0)
"""The first ptxas that keeps the A registers of a wgmma alive until the instruction has read them."""
HINTED_COPY_FIXED: ToolVersion = (13, 4, 0)
"""The first ptxas that encodes the uniform register of a cp.async with a cache policy."""

OLD_RS_WGMMA = Rule(
    id="ptxas.old-rs-wgmma",
    message="ptxas {release} may give wrong code for a wgmma that takes A from registers (PTX line {line}): {problem}",
    fix="{advice}take ptxas 13.3 or later (pip install --upgrade nvbackend[ptxas]), or put A in shared memory",
    why=(
        "Before 13.3 ptxas may reuse the registers of A while the instruction still reads them, so the "
        "numbers are sometimes wrong. Its machine code is read to see whether it did."
    ),
    reference="CUDA 13.3 release notes (ptxas); the SASS of ptxas before and from 13.3",
)
OLD_HINTED_COPY = Rule(
    id="ptxas.old-hinted-cp-async",
    message="ptxas {release} may give wrong code for a cp.async with a cache policy (PTX line {line}): {problem}",
    fix="{advice}take ptxas 13.4 or later (pip install --upgrade nvbackend[ptxas]), or drop `cache_policy=`",
    why="From sm_90 on, a ptxas before 13.4 leaves out the number of the uniform register that such a copy adds to its "
    "shared address and takes its policy from: the copy goes elsewhere, or ends in an illegal instruction.",
    reference="the SASS of ptxas 12.4 to 13.3 and from 13.4; CUDA_ERROR_ILLEGAL_INSTRUCTION on an H200 (13.0)",
)

_REGISTER_A = late_pattern(r"wgmma\.mma_async(?:\.sp)?\.[\w.:]+\s*\{[^}]*\}\s*,\s*\{")
_HINTED_COPY = late_pattern(r"cp\.async\.c[ag]\.shared\S*\.L2::cache_hint")
_NO_UNIFORM_REGISTER = late_pattern(r"LDGSTS\S* \[(?:R\d+\+)?UR0(?:\+0x[0-9a-f]+)?\], desc\[UR1\]\[[^]]*\]")
_UNIFORM_REGISTERS_SINCE = 90
"""The first chip on which such a copy adds a uniform register (ptxas 13.5)."""


@dataclass(frozen=True, slots=True)
class _Mistake:
    """What a ptxas before `fixed` may do to PTX with `pattern`, and how its SASS shows that."""

    rule: Rule
    fixed: ToolVersion
    pattern: re.Pattern[str]
    first_chip: int
    problem_of: Callable[[str], str | None]


def _overwritten_a(sass: str) -> str | None:
    """The first register of A that is written too early. Raises UnreadableSass."""
    from nvbackend.codegen.register_hazards import hazards

    first = next(iter(hazards(sass)), None)
    return f"{first.writer} writes R{first.register}, which {first.reader} may still read" if first else None


def _lost_register(sass: str) -> str | None:
    """The first copy whose uniform register is UR0, as it is where the number is left out."""
    match = _NO_UNIFORM_REGISTER.search(sass)
    return f"{match[0]} takes UR0 and UR1, which nothing sets" if match else None


_MISTAKES = (
    _Mistake(OLD_RS_WGMMA, RS_WGMMA_FIXED, _REGISTER_A, 90, _overwritten_a),
    _Mistake(OLD_HINTED_COPY, HINTED_COPY_FIXED, _HINTED_COPY, _UNIFORM_REGISTERS_SINCE, _lost_register),
)


def check_code(ptx: str, cubin: bytes, target: Target, tool: Tool) -> None:
    """Raise ptxas.old-rs-wgmma or ptxas.old-hinted-cp-async unless the code is seen to be free of that mistake."""
    for mistake in _MISTAKES:
        if tool.version < mistake.fixed and target.number >= mistake.first_chip:
            match = mistake.pattern.search(ptx)
            if match is not None:
                _check(mistake, ptx.count("\n", 0, match.start()) + 1, cubin, tool)


def _check(mistake: _Mistake, line: int, cubin: bytes, tool: Tool) -> None:
    from nvbackend.codegen.register_hazards import UnreadableSass
    from nvbackend.codegen.sass import disassemble

    advice = ""
    try:
        problem = mistake.problem_of(disassemble(cubin))
    except UnreadableSass as error:
        problem = f"its code cannot be followed, {error}"
    except DiagnosticError:
        problem = "no disassembler was found that reads its code"
        advice = "pip install nvbackend[sass], "
    if problem is not None:
        mistake.rule.fail(release=tool.release, line=line, problem=problem, advice=advice)
