"""Tables of the evaluator made of NumPy's arrays, and the other way: by elected lane, rank and thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from nvbackend.builder.thread_tables.table import Table


def table(numbers: Any) -> Table:
    """The table of an array: one of bits where that has truth values."""
    array = np.asarray(numbers)
    leaders, ranks, threads = array.shape
    rows = array.reshape(leaders * ranks, threads).tolist()
    if array.dtype == bool:
        bits = [sum(1 << thread for thread, one in enumerate(row) if one) for row in rows]
        return Table((leaders, ranks, threads), bits=bits)
    return Table((leaders, ranks, threads), rows)


def array(numbers: Table) -> Any:
    """The array of a table, of Python's numbers."""
    return np.array([[*row] for row in numbers.rows], dtype=object).reshape(numbers.shape)
