"""What `nvbackend explain` says, as JSON has it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from nvbackend.cli.explaining import line as of_line
from nvbackend.cli.explaining.row import words
from nvbackend.cli.targets import row_data, target_data
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.target.target import Target
from nvbackend.ptx.printer import print_instruction


def as_json(data: dict[str, Any]) -> str:
    """The text of an object."""
    return json.dumps(data, indent=1) + "\n"


def rows_data(rows: Sequence[Row], target: Target | None) -> list[dict[str, Any]]:
    """Each row as `catalogue --json` has it, with its axes, and what it is to the analyses."""
    return [
        row_data(row)
        | ({} if target is None else target_data(row, target))
        | {"axes": {name: None if value is None else words(value) for name, value in row.axes.items()}}
        | {"analyses": {name: words(value) for name, value in row.semantics.said()}}
        for row in rows
    ]


def line_data(file: str, number: int, target: Target | None, others: Iterable[Row] = ()) -> list[dict[str, Any]]:
    """The instructions at a line of PTX with their operands and the rows that fit. Raises as `explained_line`."""
    own, matches = of_line.matches_at(file, number, target)
    every = list(others)
    told = []
    for match in matches:
        rows, names = of_line.fitting(match, every)
        titles = ("name", "operand", "value")
        operands = [dict(zip(titles, map(str.strip, cells), strict=True)) for cells in of_line.cells(match, names)]
        source = match.line.source
        told.append(
            {
                "file": file,
                "line": number,
                "function": match.lifted.function.name,
                "instruction": print_instruction(match.line.instruction),
                "source": None if source is None else {"file": source.file, "line": source.line or None},
                "operands": operands,
                "rows": rows_data(rows, own),
            }
        )
    return told
