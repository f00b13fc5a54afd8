"""Branches, calls and guards of another form are refused before their operands are read. ptxas refuses them too."""

from __future__ import annotations

import subprocess

import pytest

from nvbackend import DiagnosticError
from nvbackend.lint import lint
from nvbackend.ptx import parse, resolve
from nvbackend.simulator import Simulator
from tests.support.ptxas import ptxas

TEXT = """.version 8.0
.target sm_90
.address_size 64
.func f(.reg .b32 a) {{ ret; }}
.func (.reg .b32 r) g() {{ ret; }}
.entry other() {{ ret; }}
.entry k()
{{
.reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .pred %p<3>;
TABLE: .branchtargets L;
LIKE: .callprototype _ (.reg .b32 a);
{body}
L: ret;
}}
"""
REFUSED = (
    *("call;", "call (%r1);", "call.uni;", "call (%r1), (%r1), g;", "call 5;", "call [%rd1];", "call L;", "call _;"),
    *("call other;", "call %tid.x;", "call WARP_SZ;", "call %rd1, (%r1), 2;", "call %rd1, (%r1), {1};"),
    *("call %rd1, (%r1), f;", "call f, (%r1), f, f;", "call (_), g, ([%rd1]);", "call f, ({%r1, %r2});"),
    *("call f, (%r1|%p1);", "call f, (L);", "call f, (g);", "call f, (%laneid);", "bra;", "bra 5;", "bra %rd1;"),
    *("bra %tid.x;", "bra L, L;", "brx.idx;", "brx.idx %r1;", "brx.idx %r1, L;", "brx.idx %r1, %tid.x;", "ret 5;"),
    *("exit 5;", "@L bra L;", "@%r1 bra L;", "@%tid.x exit;"),
)
TAKEN = (
    *("call f, (%r1);", "call (%r1), g;", "call (_), g;", "call f, (5);", "call f, (WARP_SZ);", "@!%p1 bra L;"),
    *("call %rd1, (%r1), LIKE;", "bra.uni L;", "brx.idx %r1, TABLE;", "@%p1 ret;"),
)


def refused_by_ptxas(text, folder):
    """Whether ptxas refuses a text."""
    source = folder / "k.ptx"
    source.write_text(text)
    command = [ptxas("sm_90"), "-arch", "sm_90", str(source), "-o", str(folder / "k.cubin")]
    return subprocess.run(command, capture_output=True, check=False).returncode != 0


@pytest.mark.parametrize("body", REFUSED)
def test_another_form_is_refused(body, tmp_path):
    text = TEXT.format(body=body)
    assert refused_by_ptxas(text, tmp_path)
    for use in (lambda: resolve(parse(text)), lambda: Simulator().load(text), lambda: lint(text)):
        with pytest.raises(DiagnosticError) as caught:
            use()
        assert [one.rule_id for one in caught.value.diagnostics] == ["ptx.form"]


@pytest.mark.parametrize("body", TAKEN)
def test_forms_of_the_isa_are_taken(body, tmp_path):
    text = TEXT.format(body=body)
    assert not refused_by_ptxas(text, tmp_path)
    resolve(parse(text))
    Simulator().load(text)
