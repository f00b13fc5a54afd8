"""Columns of tensor memory, said three times: to allocate by either kind of address, and to free them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from nvbackend import DiagnosticError, u32
from nvbackend.builder.kernel.kernel import KernelBuilder

LEGAL = (32, 64, 128, 256, 512)
"""PTX ISA 9.7.16.7.1: a power of two from 32 on, at most all 512."""
WRONG = (-64, -32, 0, 1, 16, 31, 33, 48, 63, 96, 384, 511, 513, 1024, 48.0, 1 << 33)
CALLS = ("alloc", "alloc by a generic address", "dealloc")


def use(call: str, columns: int) -> None:
    k = KernelBuilder("columns", "sm_100a", threads=128)
    cell = k.shared(u32, 1)
    if call == "dealloc":
        k.tcgen05.dealloc(k.const(0, u32), columns)
    else:
        k.tcgen05.alloc(cell if call == "alloc" else k.generic_address(cell), columns)


@pytest.mark.parametrize("call", CALLS)
def test_each_call_takes_the_same_columns(call: str) -> None:
    for columns in LEGAL:
        use(call, columns)
    for columns in WRONG:
        with pytest.raises(DiagnosticError) as caught:
            use(call, columns)  # type: ignore[arg-type]
        (found,) = caught.value.diagnostics
        assert (found.rule_id, f"not {columns}" in found.message) == ("tcgen05.columns", True)


def test_the_cell_of_the_address_has_the_name_of_the_block() -> None:
    """So reports and messages about shared memory say whose it is."""
    k: Any = KernelBuilder("named", "sm_100a", threads=128)
    with k.tcgen05.tmem(32, relinquish=False, name="scores"), k.tcgen05.tmem(64):
        pass
    read = re.findall(r"read (\w+)\.\d+\[0, 4 bytes\]", str(k.finish(check=False).machine))
    assert read == ["scores_address", "tmem_address"]
