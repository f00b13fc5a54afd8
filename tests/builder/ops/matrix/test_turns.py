"""Registers of A in turns: what ptxas makes of it, and what would write them while they are read."""

from __future__ import annotations

import re

import pytest

import nvbackend as nvb
from tests.support.refilled import weights_of_bytes


def test_ptxas_keeps_the_mma_asynchronous():
    """No C7510 to C7519; the loop leaves a group in flight, and the two halves multiply other registers."""
    compiled = weights_of_bytes.compile(assemble=True)
    assert compiled.cubin.diagnostics == ()
    sass = compiled.sass()
    multiplies = re.findall(r"HGMMA\S* R\d+, (R\d+),", sass)
    assert len(multiplies) == 8
    assert not set(multiplies[:4]) & set(multiplies[4:])
    assert sass.count("WARPGROUP.DEPBAR.LE gsb0, 0x1") == 2
    assert re.search(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x1.*LDG.*HGMMA", sass, re.DOTALL)


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [("one set", "wgmma.write-in-flight"), ("continue", "pipeline.left"), ("break", "control.torn")],
)
def test_what_would_write_registers_in_flight_is_refused(mistake, rule):
    with pytest.raises(nvb.DiagnosticError) as caught:
        weights_of_bytes.build(mistake=mistake)
    assert {one.rule.id for one in caught.value.diagnostics} == {rule}
