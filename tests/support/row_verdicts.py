"""What LLVM and ptxas say about rows, as lists of faults: empty where rows and outside witnesses agree."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from nvbackend.intrinsics.row.row import PtxVersion, Row
from nvbackend.isel.operands.sync import is_available
from nvbackend.isel.target.target import Target, dotted, lowest_ptx_version
from tests.support.ptxas import OLD_CHIPS, TAKEN_BEFORE_13, assemble, witnessed
from tests.support.rows import (
    FIRST_PTXAS_CHIP,
    compile_rows,
    joined,
    lowest_target,
    newest_target,
    newest_without,
    retargeted,
    spelled_in,
    version_before,
)

_ERROR_LINE = re.compile(r"line (\d+); error\s*: .*(?:requires|not supported|Unknown|Unexpected|Illegal|range)")

Case = tuple[Row, str, PtxVersion]
"""A row, and the chip and PTX version to try it on."""


def spelling_faults(rows: Iterable[Row]) -> list[str]:
    """Rows that LLVM cannot compile for their lowest or newest target, or whose PTX does not hold their spelling."""
    cases = [(row, target) for row in rows for target in (lowest_target(row), newest_target(row))]
    faults = []
    for (row, target), compiled in zip(cases, compile_rows(cases), strict=True):
        if compiled.error:
            faults.append(f"{row.ptx} on {target}: {compiled.error}")
        elif not spelled_in(row.ptx, compiled.ptx):
            faults.append(f"{row.ptx} on {target}: not in the PTX\n{compiled.ptx}")
    return faults


def acceptance_faults(rows: Sequence[Row]) -> list[str]:
    """Rows that ptxas refuses on a target where the gate lets them through: the lowest and the newest one."""
    faults = []
    for place in (lambda row: lowest_target(row, FIRST_PTXAS_CHIP), newest_target):
        cases = [(row, place(row)) for row in rows]
        groups: dict[Target, list[str]] = defaultdict(list)
        for (row, target), compiled in zip(cases, compile_rows(cases), strict=True):
            if compiled.error:
                faults.append(f"{row.ptx} on {target}: {compiled.error}")
            else:
                groups[target].append(compiled.ptx)
        for target, texts in groups.items():
            fine, said = assemble(joined(texts), target.name)
            if not fine:
                faults.append(f"{target} at PTX {dotted(target.ptx_version)}: {said}")
    return faults


def feature_faults(rows: Sequence[Row]) -> list[str]:
    """Rows that ptxas takes on the newest target that lacks their features."""
    cases = []
    for row in rows:
        target = newest_without(row)
        if target is not None:
            cases.append((row, target.name, target.ptx_version))
    return _accepted(cases)


def version_faults(rows: Sequence[Row]) -> list[str]:
    """Rows that ptxas takes one PTX version before theirs, wherever the chip itself is old enough to tell."""
    cases = []
    for row in rows:
        target = lowest_target(row, FIRST_PTXAS_CHIP)
        before = version_before(row.ptx_version)
        if before is not None and before >= lowest_ptx_version(target.number, target.suffix):
            cases.append((row, target.name, before))
    return _accepted(cases)


def old_chip_faults(rows: Sequence[Row]) -> list[str]:
    """Rows of which the ptxas that alone knows the oldest chips and sm_101 says something else than their gates."""
    faults = []
    compiled = compile_rows([(row, lowest_target(row)) for row in rows])
    for target in (one for one in witnessed() if one.number in OLD_CHIPS):
        texts = [
            retargeted(result.ptx, target.name, target.ptx_version)
            for row, result in zip(rows, compiled, strict=True)
            if is_available(row, target)
        ]
        fine, said = assemble(joined(texts), target.name) if texts else (True, "")
        faults += [] if fine else [f"{target} at PTX {dotted(target.ptx_version)}: {said}"]
        missing = [row for row in rows if not is_available(row, target) and not row.ptx.startswith(TAKEN_BEFORE_13)]
        faults += _accepted([(row, target.name, target.ptx_version) for row in missing])
    return faults


def _accepted(cases: Sequence[Case]) -> list[str]:
    """Those of `cases` that ptxas does not refuse, each kernel compiled for the row's lowest target and retargeted."""
    compiled = compile_rows([(row, lowest_target(row, FIRST_PTXAS_CHIP)) for row, _, _ in cases])
    groups: dict[tuple[str, PtxVersion], list[tuple[Row, str]]] = defaultdict(list)
    faults = []
    for (row, name, version), result in zip(cases, compiled, strict=True):
        if result.error:
            faults.append(f"{row.ptx}: {result.error}")
        else:
            groups[name, version].append((row, retargeted(result.ptx, name, version)))
    for (name, version), members in groups.items():
        for place in _without_error(name, [text for _, text in members]):
            row, text = members[place]
            # An error hides others in the same file, so a kernel that drew none is asked about alone.
            if assemble(text, name)[0]:
                faults.append(f"{row.ptx}: ptxas takes it on {name} at PTX {dotted(version)}")
    return faults


def _without_error(target_name: str, texts: Sequence[str]) -> list[int]:
    """The places of the kernels on whose lines ptxas reports no error, all assembled as one file."""
    whole = joined(texts)
    _, said = assemble(whole, target_name)
    wrong = {int(number) for number in _ERROR_LINE.findall(said)}
    clean, line = [], 1 + texts[0][: texts[0].index(".visible")].count("\n")
    for place, text in enumerate(texts):
        lines = text[text.index(".visible") :].count("\n") + 1
        if not wrong & set(range(line, line + lines)):
            clean.append(place)
        line += lines
    return clean
