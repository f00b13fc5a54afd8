"""The effects that rows declare, against the attributes that LLVM itself gives their intrinsics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from nvbackend.intrinsics.copy import matrix_move
from nvbackend.intrinsics.row.row import Effect, Intrinsic, Row
from nvbackend.intrinsics.sync import mbarrier
from tests.support.process import python_output
from tests.support.row_families import FAMILIES
from tests.support.rows import kernel_text

_ASK_LLVM = """
import json, re, sys
import llvmlite.binding as llvm
answers = []
for text in json.load(open(sys.argv[1], encoding="utf-8")):
    printed = str(llvm.parse_assembly(text))
    number = re.search(r"declare .* @llvm\\.nvvm.*#(\\d+)", printed).group(1)
    answers.append(re.search(r"attributes #" + number + r" = \\{(.*)\\}", printed).group(1))
print(json.dumps(answers))
"""


def _intrinsic_rows() -> Iterator[Row]:
    for module in FAMILIES:
        yield from (row for row in module.rows() if isinstance(row.lowering, Intrinsic))


@pytest.fixture(scope="module")
def attributes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Row, str]]:
    """Each row that lowers through an intrinsic, with LLVM's attributes of that intrinsic."""
    rows = list(_intrinsic_rows())
    kernels = tmp_path_factory.mktemp("kernels") / "kernels.json"
    kernels.write_text(json.dumps([kernel_text(row) for row in rows]), encoding="utf-8")
    answers = json.loads(python_output(_ASK_LLVM, str(kernels)))
    return list(zip(rows, answers, strict=True))


def _memory(attribute: str) -> str:
    """What LLVM thinks the intrinsic may access; "any" where it says nothing."""
    found = re.search(r"memory\((.*?)\)", attribute)
    return found.group(1) if found else "any"


def test_what_a_warp_executes_together_is_convergent_for_llvm(attributes: list[tuple[Row, str]]) -> None:
    declared = [(row, attribute) for row, attribute in attributes if Effect.CONVERGENT in row.effects]
    assert len(declared) > 20
    assert [row.ptx for row, attribute in declared if "convergent" not in attribute.split()] == []


def test_llvm_moves_no_memory_access_across_what_orders(attributes: list[tuple[Row, str]]) -> None:
    declared = [(row, attribute) for row, attribute in attributes if Effect.ORDERS in row.effects]
    assert len(declared) > 20
    assert [row.ptx for row, attribute in declared if _memory(attribute) != "any"] == []


def test_llvm_may_drop_exactly_the_rows_without_effects(attributes: list[tuple[Row, str]]) -> None:
    pure = {row.ptx for row, attribute in attributes if _memory(attribute) == "none"}
    assert pure == {row.ptx for row, _ in attributes if row.is_pure}


def test_an_asm_row_clobbers_memory_and_converges_as_its_effects_say() -> None:
    ordered = kernel_text(mbarrier.arrive())
    assert 'asm sideeffect "mbarrier.arrive.shared::cta.b64 _, [$0];", "r,~{memory}"' in ordered
    together = kernel_text(matrix_move.movmatrix())
    assert re.search(r"asm sideeffect \"movmatrix.* convergent", together)
    assert 'asm  "cvt.rn.f16x2.f32 $0, $1, $2;", "=r,f,f"' in kernel_text(matrix_move.pack("f16x2"))
