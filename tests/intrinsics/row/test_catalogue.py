"""All rows are those that the exhaustive tests gave LLVM and ptxas: any that changes is seen here, in a second.

Who changes rows on purpose runs `pytest -m exhaustive tests/intrinsics`, then blesses the golden.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
from collections import defaultdict
from collections.abc import Mapping

from nvbackend.intrinsics.catalogue import FAMILIES
from nvbackend.intrinsics.row.row import Row
from tests.support.golden import Golden


@functools.cache
def written(part: object) -> str:
    """All that a part of a row says, the same in every process."""
    if isinstance(part, enum.Enum):
        return f"{type(part).__name__}.{part.name}"
    if dataclasses.is_dataclass(part):
        fields = (f"{field.name}={written_any(getattr(part, field.name))}" for field in dataclasses.fields(part))
        return f"{type(part).__name__}({', '.join(fields)})"
    return repr(part)


def written_any(part: object) -> str:
    if isinstance(part, (tuple, list)):
        return f"({', '.join(map(written_any, part))})"
    if isinstance(part, (set, frozenset)):
        return f"{{{', '.join(sorted(map(written_any, part)))}}}"
    if isinstance(part, Mapping):
        return f"{{{', '.join(f'{key!r}: {written_any(value)}' for key, value in part.items())}}}"
    return written(part) if part.__hash__ else repr(part)


def told(opcode: str, rows: list[Row]) -> str:
    """An opcode in a line: how many rows, their gates and sections, and a digest of all they say."""
    gates = sorted({f"{row.requires.name or 'ANY'}/{row.ptx_version[0]}.{row.ptx_version[1]}" for row in rows})
    sections = sorted({row.section for row in rows})
    digest = hashlib.sha256("\n".join(written_any(row) for row in rows).encode()).hexdigest()[:16]
    return f"{opcode}: {len(rows)} rows, {' '.join(gates)}; {'; '.join(sections)}; {digest}"


def test_the_rows_are_those_that_were_tried(golden: Golden) -> None:
    by_opcode: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for family, rows in FAMILIES.items():
        for row in rows():
            by_opcode[family, row.opcode].append(row)
    golden.check(
        "rows.txt", "\n".join(f"{family} {told(opcode, rows)}" for (family, opcode), rows in by_opcode.items())
    )
