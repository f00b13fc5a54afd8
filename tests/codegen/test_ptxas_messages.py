"""Every remark of ptxas that has a rule, provoked by a program where that can be done."""

from __future__ import annotations

import pytest

from nvbackend.codegen import ptxas_messages
from nvbackend.codegen.ptxas import assemble
from nvbackend.diagnostics import Diagnostic, DiagnosticError, Severity
from nvbackend.isel.target.target import Target
from tests.support.wgmma_ptx import (
    COMMIT,
    FENCE,
    INDIRECT_CALL,
    NOT_INLINED,
    WAIT,
    kernel,
    loop,
    mma,
    mma_register_a,
)

HOPPER = Target.parse("sm_90a")
CLEAN = kernel(FENCE + mma() + COMMIT + WAIT)

PROVOKED = {
    # rule id: (code of ptxas, kernel)
    "ptxas.setmaxnreg-ignored": (
        "C7508",
        kernel("setmaxnreg.dec.sync.aligned.u32 40;\n" + FENCE + mma() + COMMIT + WAIT, attributes=""),
    ),
    "ptxas.wgmma-across-call": (
        "C7510",
        kernel(FENCE + mma() + COMMIT + INDIRECT_CALL + WAIT, before=NOT_INLINED),
    ),
    "ptxas.wgmma-registers": ("C7511", kernel(FENCE + mma() + "mov.f32 %f0, 0f3F800000;\n" + mma() + COMMIT + WAIT)),
    "ptxas.wgmma-input-defined": (
        "C7513",
        kernel(FENCE + mma_register_a() + "mov.u32 %r0, %clock;\n" + mma_register_a() + COMMIT + WAIT),
    ),
    "ptxas.wgmma-accumulator-read": (
        "C7514",
        kernel(FENCE + mma() + "st.global.f32 [%out+256], %f0;\n" + mma() + COMMIT + WAIT),
    ),
    "ptxas.wgmma-accumulator-defined": (
        "C7515",
        kernel(loop(FENCE + mma() + COMMIT + "ld.global.f32 %f0, [%out+2048];\n") + WAIT),
    ),
    "ptxas.wgmma-wait-injected": ("C7517", kernel(FENCE + mma() + COMMIT)),
    "ptxas.wgmma-wait-divergent": (
        "C7518",
        kernel(loop(FENCE + mma() + COMMIT + "add.f32 %f0, %f0, %f1;\n") + WAIT),
    ),
    "ptxas.wgmma-arrive-divergent": (
        "C7519",
        kernel("setp.lt.u32 q, %r0, 64;\n@q bra skip;\n" + mma() + COMMIT + WAIT + "skip:\n"),
    ),
    "ptxas.warning": ("", CLEAN.replace(".maxntid 128, 1, 1", ".maxntid 128, 1, 1 .maxnreg 300")),
}

REFUSED = {
    # rule id: (code of ptxas, kernel, what the message must say)
    "ptxas.registers-insufficient": (
        "C7602",
        kernel(FENCE + mma(256) + COMMIT + WAIT, n=256, attributes=".maxnreg 64"),
        "154",
    ),
    "ptxas.unresolved": (
        "",
        kernel(
            INDIRECT_CALL.replace("mov.u64 pointer, callee; ld.global.u64 pointer, [%out+1024];", "").replace(
                "call (r0), pointer, (p0), prototype;", "call (r0), callee, (p0);"
            ),
            before=".extern .func (.param .b32 r) callee(.param .b32 x);\n",
        ),
        "callee",
    ),
    "ptxas.error": ("", kernel("bogus.f32 %f1;\n"), "bogus.f32 %f1;"),
}

SERIALISED = "Potential Performance Loss: wgmma.mma_async instructions are serialized due to"

SEEN_IN_THE_PROGRAM_ONLY = {
    # Texts that ptxas 13.5 holds, for situations that whole-program compilation of small kernels does not reach.
    "C7509": (f"{SERIALISED} the presence of Extern calls in the function 'k' in line 12", "ptxas.wgmma-extern-call"),
    "C7512": (f"{SERIALISED} insufficient register resources for the function 'k'", "ptxas.wgmma-registers"),
    "C7516": (f"{SERIALISED} ill formed pipeline stage in the function 'k'", "ptxas.wgmma-ill-formed"),
    "C7600": ("Register allocation failed with register count of '168'.", "ptxas.register-allocation"),
}


def warnings_of(ptx: str) -> dict[str, Diagnostic]:
    return {found.rule_id: found for found in assemble(ptx, HOPPER).diagnostics}


def test_a_kernel_that_keeps_the_protocol_draws_no_remark() -> None:
    assert warnings_of(CLEAN) == {}


@pytest.mark.parametrize("rule", PROVOKED)
def test_ptxas_remark_becomes_its_rule(rule: str) -> None:
    code, ptx = PROVOKED[rule]
    found = warnings_of(ptx)
    assert rule in found
    diagnostic = found[rule]
    assert diagnostic.values["code"] == code
    assert diagnostic.severity is Severity.WARNING
    assert diagnostic.fix
    assert "Potential Performance Loss" not in diagnostic.message


@pytest.mark.parametrize("rule", REFUSED)
def test_ptxas_error_becomes_its_rule(rule: str) -> None:
    code, ptx, said = REFUSED[rule]
    with pytest.raises(DiagnosticError) as caught:
        assemble(ptx, HOPPER)
    found = {diagnostic.rule_id: diagnostic for diagnostic in caught.value.diagnostics}
    assert list(found) == [rule]
    assert found[rule].values["code"] == code
    assert said in found[rule].message


def test_the_ptx_line_is_quoted() -> None:
    line = "st.global.f32 [%out+256], %f0;"
    ptx = kernel(FENCE + mma() + COMMIT + line + "\n" + WAIT)
    found = warnings_of(ptx)["ptxas.wgmma-wait-injected"]
    assert f"(PTX line {ptx.splitlines().index(line) + 1}: {line})" in found.message


def test_every_error_is_reported_at_once() -> None:
    with pytest.raises(DiagnosticError) as caught:
        assemble(kernel("add.u32 %r99, %r0, 1;\nadd.u32 %r98, %r0, 1;\n"), HOPPER)
    text = str(caught.value)
    assert "%r99" in text
    assert "%r98" in text
    assert "aborted" not in text


@pytest.mark.parametrize("code", SEEN_IN_THE_PROGRAM_ONLY)
def test_remarks_that_need_a_larger_program(code: str) -> None:
    text, rule = SEEN_IN_THE_PROGRAM_ONLY[code]
    level = "fatal  " if rule == "ptxas.register-allocation" else "info   "
    found = ptxas_messages.diagnose(f"ptxas {level} : ({code}) {text}\n", "")
    assert [diagnostic.rule_id for diagnostic in found] == [rule]


def test_an_unknown_performance_remark_is_not_lost() -> None:
    log = "ptxas info    : (C7999) Potential Performance Loss: something new in the function 'k' in line 2\n"
    (found,) = ptxas_messages.diagnose(log, "first\nsecond\n")
    assert found.rule_id == "ptxas.warning"
    assert found.message == "something new in the function 'k' in line 2 [C7999] (PTX line 2: second)"


def test_every_code_is_provoked_or_recorded() -> None:
    tried = {code for code, _ in PROVOKED.values()} | {code for code, _, _ in REFUSED.values()}
    assert set(ptxas_messages.RULE_OF_CODE) == (tried | set(SEEN_IN_THE_PROGRAM_ONLY)) - {""}
