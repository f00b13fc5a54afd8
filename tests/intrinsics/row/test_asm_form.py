"""Rows that lower by an intrinsic have a form in inline asm too, of which ptxas makes the same machine code."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from nvbackend.codegen.ptxas import run_ptxas
from nvbackend.codegen.sass import disassemble
from nvbackend.codegen.toolchain import find_ptxas
from nvbackend.intrinsics.catalogue import rows
from nvbackend.intrinsics.row.asm_form import asm_form
from nvbackend.intrinsics.row.row import Asm, Intrinsic, Row
from nvbackend.isel.target.target import Target
from tests.support.rows import FIRST_PTXAS_CHIP, compile_rows, joined, lowest_target

BY_INTRINSIC = [row for row in rows() if isinstance(row.lowering, Intrinsic)]
PREFERRED = [Target.parse(name) for name in ("sm_90a", "sm_100a", "sm_120a")]
SLICES = 8
EACH = 3
"""One of so many opcodes is compiled in the ordinary run, and of so many rows looked at."""
_FUNCTION = re.compile(r"^\s*\.section\s+\.text\.(kernel\d+),.*?(?=^\s*\.section\s|\Z)", re.MULTILINE | re.DOTALL)


_LOADS = re.compile(r"(?:^\s*ld\.global\S* .*\n)+", re.MULTILINE)


def _one_of_each_opcode() -> list[Row]:
    """A row of each opcode: the one with most operands, since the others have some of them."""
    by_opcode: dict[str, Row] = {}
    for row in BY_INTRINSIC:
        known = by_opcode.get(row.opcode)
        if known is None or len(row.operands) > len(known.operands):
            by_opcode[row.opcode] = row
    return list(by_opcode.values())


def _in_order(ptx: str) -> str:
    """The text with each run of loads in the order of their addresses, which LLVM chooses in one form as it likes."""
    return _LOADS.sub(lambda loads: "\n".join(sorted(loads[0].splitlines(), key=_address)) + "\n", ptx)


def _address(load: str) -> int:
    offset = re.search(r"\+(\d+)\]", load)
    return int(offset[1]) if offset else 0


def _code(ptx: str, target: Target) -> dict[str, str]:
    """The SASS of each kernel."""
    cubin = run_ptxas(ptx, target, find_ptxas(), opt_level=1, register_limit=None).data
    return {match[1]: match[0] for match in _FUNCTION.finditer(disassemble(cubin))}


def _target(row: Row) -> Target:
    """One of few targets, which are compiled for together."""
    preferred = [target for target in PREFERRED if target.has(row.requires) and target.ptx_version >= row.ptx_version]
    return preferred[0] if preferred else lowest_target(row, FIRST_PTXAS_CHIP)


def _differences(pairs: Iterable[tuple[Row, Row]]) -> list[str]:
    """The pairs that LLVM or ptxas refuses, or whose machine codes differ."""
    groups: dict[Target, list[tuple[Row, Row]]] = defaultdict(list)
    for first, second in pairs:
        groups[_target(first)].append((first, second))
    return [said for target, alike in groups.items() for said in _differences_on(target, alike)]


def _differences_on(target: Target, pairs: Sequence[tuple[Row, Row]]) -> list[str]:
    forms = [compile_rows([(row, target) for row in side]) for side in zip(*pairs, strict=True)]
    refused = [each.error for side in forms for each in side if each.error]
    if refused:
        return refused
    first, second = (_code(joined([_in_order(each.ptx) for each in side]), target) for side in forms)
    assert len(first) == len(second) == len(pairs)
    return [
        f"{row.ptx} for {target}\n{first[name]}\n{second[name]}"
        for place, (row, _) in enumerate(pairs)
        if first[name := f"kernel{place}"] != second[name]
    ]


def test_every_row_has_a_form_in_asm() -> None:
    for row in BY_INTRINSIC[::EACH]:
        form = asm_form(row)
        assert isinstance(form.lowering, Asm)
        assert replace(form, lowering=row.lowering) == row
        assert all(f"{{{each.name}}}" in form.lowering.template for each in row.operands)


def test_a_row_of_asm_is_its_own_form() -> None:
    row = next(row for row in rows() if isinstance(row.lowering, Asm))
    assert asm_form(row) is row


def test_both_forms_are_the_same_machine_code_of_a_sample() -> None:
    assert _differences([(row, asm_form(row)) for row in _one_of_each_opcode()[::EACH]]) == []


@pytest.mark.exhaustive(seconds=40)
@pytest.mark.parametrize("first", range(SLICES))
def test_both_forms_are_the_same_machine_code(first: int) -> None:
    assert _differences([(row, asm_form(row)) for row in BY_INTRINSIC[first::SLICES]]) == []


def test_another_instruction_is_other_machine_code() -> None:
    """The comparison tells two barriers apart, and an operand in another place."""
    sync, arrive = (next(row for row in BY_INTRINSIC if row.ptx == ptx) for ptx in ("bar.sync", "bar.arrive"))
    minimum = next(row for row in BY_INTRINSIC if row.ptx == "redux.sync.min.u32")
    swapped = replace(minimum, lowering=Asm("{ptx} {result}, {members}, {value};"))
    assert len(_differences([(sync, arrive), (minimum, swapped)])) == 2
