"""Assembling: resources, refusals of target and version, and ptxas that is too old, broken or dying."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

import nvbackend as nvb
from nvbackend.codegen.cubin import Resources, is_cubin
from nvbackend.codegen.ptxas import Assembly, assemble, interpret, parse_resources
from nvbackend.codegen.toolchain import Tool, find_ptxas
from nvbackend.diagnostics import DiagnosticError, Severity
from nvbackend.isel.target.target import Target
from tests.rules.ptxas import A_OVERWRITTEN, HINTED_COPY, REGISTER_LOST
from tests.support.ptxas import ptxas
from tests.support.wgmma_ptx import COMMIT, FENCE, WAIT, kernel, mma, mma_register_a

HOPPER = Target.parse("sm_90a")
CLEAN = kernel(FENCE + mma() + COMMIT + WAIT)
HINT = "cp.async.cg.shared.global.L2::cache_hint [%r2], [%rd0], 16, %rd2;"
REGISTER_A = kernel(FENCE + mma_register_a() + COMMIT + WAIT)
EMPTY = ".version {version}\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\n"

TWO_KERNELS = """.version 8.0
.target sm_90a
.address_size 64
.shared .align 4 .b8 tile[100];
.visible .entry first(.param .u64 p)
{ .reg .b64 %a; .reg .b32 %r; .local .align 4 .b8 array[64];
  ld.param.u64 %a, [p]; cvta.to.global.u64 %a, %a; mov.u32 %r, %tid.x; st.volatile.shared.u32 [tile], %r;
  st.global.u32 [%a], %r; bar.sync 3; ret; }
.visible .entry second() .maxnreg 24 { bar.sync 0; ret; }
"""


@pytest.mark.parametrize("machine", [0, 62, 190, 190 << 8, 191])
@pytest.mark.parametrize("magic", [b"\x7fELF", b"\x7fELG", b"ELF\x7f", b""])
def test_a_cubin_is_an_elf_image_for_cuda(magic: bytes, machine: int) -> None:
    """ELF-64: 16 bytes of identification, the type in two, the machine in two more; EM_CUDA is 190 (elf.h)."""
    data = magic.ljust(4, b"\0") + bytes(12) + (2).to_bytes(2, "little") + machine.to_bytes(2, "little") + bytes(44)
    assert is_cubin(data) is (magic == b"\x7fELF" and machine == 190)
    assert not is_cubin(data[:18])


def rules_of(caught: pytest.ExceptionInfo[DiagnosticError]) -> list[str]:
    return [found.rule_id for found in caught.value.diagnostics]


def fake_tool(folder: Path, script: str, version: tuple[int, int, int] = (13, 5, 0)) -> Tool:
    path = folder / "ptxas"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Tool(path, version)


def test_a_cubin_is_an_elf_image_for_cuda_with_its_resources() -> None:
    cubin = assemble(CLEAN, HOPPER)
    assert cubin.data[:4] == b"\x7fELF"
    machine = int.from_bytes(cubin.data[18:20], "little")
    assert machine == 190  # EM_CUDA
    (used,) = cubin.resources
    assert used.kernel == "k"
    assert 4 <= used.registers <= 64
    assert cubin.kernel("k") is used
    assert cubin.ptxas_version == find_ptxas().version
    with pytest.raises(KeyError):
        cubin.kernel("other")


def test_resources_of_every_kernel() -> None:
    cubin = assemble(TWO_KERNELS, HOPPER)
    first, second = cubin.kernel("first"), cubin.kernel("second")
    assert (first.shared_bytes, first.stack_bytes, first.barriers) == (100, 64, 4)
    assert (second.shared_bytes, second.stack_bytes, second.barriers) == (0, 0, 1)


def test_a_called_function_does_not_change_the_resources_of_its_caller() -> None:
    log = """ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 30 registers, used 2 barriers, 8 bytes cumulative stack size, 48 bytes smem
ptxas info    : Function properties for callee
    99 bytes stack frame, 98 bytes spill stores, 97 bytes spill loads
"""
    assert parse_resources(log) == (Resources("k", 30, 2, 48, 8, 4, 12),)


def test_what_ptxas_does_not_say_is_none_of_it() -> None:
    entry = "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
    assert parse_resources(entry) == (Resources("k", 0, 0, 0, 0, 0, 0),)
    assert parse_resources(entry + "ptxas info    : Used 7 registers\n") == (Resources("k", 7, 0, 0, 0, 0, 0),)
    assert parse_resources("") == ()


@pytest.mark.parametrize(("stores", "loads", "warned"), [(0, 0, False), (8, 0, True), (0, 12, True), (8, 12, True)])
def test_spills_one_way_are_spills(stores: int, loads: int, warned: bool) -> None:
    log = f"""ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    8 bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads
ptxas info    : Used 40 registers
"""
    found = interpret(Assembly(b"", log), CLEAN, find_ptxas()).diagnostics
    assert [one.rule_id for one in found] == (["ptxas.spills"] if warned else [])


@pytest.mark.parametrize(
    ("directives", "advice"),
    [
        (".maxnreg 40", "a higher max_registers than 40"),
        (".maxntid 1024 .minnctapersm 2", "a lower min_ctas than 2"),
        (".maxntid 1024 .minnctapersm 1", "fewer threads per CTA, setmaxnreg"),
        (".minnctapersm 2 .maxnreg 64", "a lower min_ctas than 2"),
    ],
)
def test_spills_name_what_bounds_the_registers(directives: str, advice: str) -> None:
    log = """ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    8 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers
"""
    others = ".entry kk() .maxnreg 8 { ret; } .entry other() .maxnreg 8 { ret; }"
    ptx = f"{others} .visible .entry k(.param .b32 k_0)\n{directives}\n{{ ret; }} {others}"
    (found,) = interpret(Assembly(b"", log), ptx, find_ptxas()).diagnostics
    assert found.fix.endswith(f"or allow more registers: {advice}")


def test_spills_are_a_warning_with_their_bytes() -> None:
    cubin = assemble(kernel("bar.sync 0;\n", wide=128, attributes=".maxnreg 32"), HOPPER)
    (found,) = cubin.diagnostics
    used = cubin.kernel("k")
    assert found.rule_id == "ptxas.spills"
    assert found.severity is Severity.WARNING
    # 128 values and an address in 32 registers: about a hundred of them are elsewhere.
    assert 4 * 90 < used.spill_stores_bytes < 4 * 180
    assert str(used.spill_stores_bytes) in found.message


def test_the_same_ptx_gives_the_same_cubin() -> None:
    assert assemble(CLEAN, HOPPER).data == assemble(CLEAN, HOPPER).data


def test_a_register_limit_is_kept_or_said_to_be_ignored() -> None:
    ptx = kernel("bar.sync 0;\n", wide=64, attributes="")
    free = assemble(ptx, HOPPER).kernel("k").registers
    kept = assemble(ptx, HOPPER, register_limit=40)
    assert kept.kernel("k").registers <= 40 < free
    assert "ptxas.register-limit" not in [found.rule_id for found in kept.diagnostics]
    ignored = assemble(kernel("bar.sync 0;\n", wide=64), HOPPER, register_limit=40)
    assert ignored.kernel("k").registers > 40
    assert [found.rule_id for found in ignored.diagnostics] == ["ptxas.register-limit"]


@pytest.mark.parametrize("name", ["sm_70", "sm_72", "sm_101a", "sm_101f"])
def test_a_chip_that_ptxas_13_dropped_names_the_ptxas_that_has_it(name: str) -> None:
    target = Target.parse(name)
    version = ".".join(map(str, target.ptx_version))
    with pytest.raises(DiagnosticError) as caught:
        assemble(EMPTY.format(version=version, target=name), target)
    assert rules_of(caught) == ["ptxas.target"]
    (found,) = caught.value.diagnostics
    assert name in found.message
    assert "the ptxas of CUDA 12.9 (pip install" in found.fix


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        # PTX ISA, Release Notes: the version in which a target came, and the release of CUDA with that version
        ("sm_89", "the ptxas of CUDA 11.8 or later"),
        ("sm_90", "the ptxas of CUDA 11.8 or later"),
        ("sm_90a", "the ptxas of CUDA 12.0 or later"),
        ("sm_100a", "the ptxas of CUDA 12.7 or later"),
        ("sm_120", "the ptxas of CUDA 12.8 or later"),
        ("sm_120a", "the ptxas of CUDA 12.8 or later"),
        ("sm_100f", "the ptxas of CUDA 12.9 or later"),
        ("sm_103a", "the ptxas of CUDA 12.9 or later"),
        ("sm_121a", "the ptxas of CUDA 12.9 or later"),
        ("sm_110a", "the ptxas of CUDA 13.0 or later"),
        ("sm_75", "a ptxas that reads PTX 6.3"),
        ("sm_86", "a ptxas that reads PTX 7.1"),
    ],
)
def test_a_chip_newer_than_ptxas_names_the_release(tmp_path: Path, name: str, needed: str) -> None:
    tool = fake_tool(
        tmp_path, f"echo \"ptxas fatal   : Value '{name}' is not defined for option 'gpu-name'\"; exit 255"
    )
    with pytest.raises(DiagnosticError) as caught:
        assemble(EMPTY.format(version="8.6", target=name), Target.parse(name), tool=tool)
    assert rules_of(caught) == ["ptxas.target"]
    assert needed in str(caught.value)


def test_ptx_newer_than_ptxas() -> None:
    with pytest.raises(DiagnosticError) as caught:
        assemble(EMPTY.format(version="19.9", target="sm_90a"), HOPPER)
    assert rules_of(caught) == ["ptxas.ptx-version"]
    assert "PTX 19.9" in str(caught.value)


def test_ptx_for_another_chip_is_ptxas_own_error() -> None:
    with pytest.raises(DiagnosticError) as caught:
        assemble(CLEAN, Target.parse("sm_90"))
    assert rules_of(caught) == ["ptxas.error"]
    assert "sm_90a" in str(caught.value)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("version", "looked"), [((12, 8, 93), True), ((13, 2, 0), True), ((13, 3, 0), False)])
@pytest.mark.parametrize(
    ("sass", "problem"),
    [
        (A_OVERWRITTEN, "LDG.E.128 R4, desc[UR4][R2.64] writes R4, which HGMMA.64x64x16.F32 R24, R4,"),
        ("no code", "its code cannot be followed, it has no instructions"),
        (None, "no disassembler was found that reads its code"),
    ],
)
def test_the_code_of_an_old_ptxas_is_read_where_a_is_in_registers(
    version: tuple[int, int, int], looked: bool, sass: str | None, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = replace(find_ptxas(), version=version)
    assert assemble(REGISTER_A, HOPPER, tool=old).data

    def disassemble(_cubin: bytes) -> str:
        if sass is None:
            raise DiagnosticError([])
        return sass

    monkeypatch.setattr("nvbackend.codegen.sass.disassemble", disassemble)
    assert assemble(CLEAN, HOPPER, tool=old).data
    if not looked:
        assert assemble(REGISTER_A, HOPPER, tool=old).data
        return
    with pytest.raises(DiagnosticError) as caught:
        assemble(REGISTER_A, HOPPER, tool=old)
    assert rules_of(caught) == ["ptxas.old-rs-wgmma"]
    line = REGISTER_A.splitlines().index(mma_register_a().strip()) + 1
    assert f"PTX line {line}" in str(caught.value)
    assert problem in str(caught.value)
    assert ("nvbackend[sass]" in str(caught.value)) == (sass is None)


def test_ptxas_12_9_loses_the_uniform_register_of_a_hinted_copy() -> None:
    old = Tool.at(ptxas("sm_70"))
    with pytest.raises(DiagnosticError) as caught:
        assemble(HINTED_COPY, HOPPER, tool=old)
    assert rules_of(caught) == ["ptxas.old-hinted-cp-async"]
    assert "+UR0" in str(caught.value)
    assert f"PTX line {HINTED_COPY.splitlines().index(HINT) + 1}" in str(caught.value)
    assert assemble(HINTED_COPY, HOPPER).data, "the newest has no such mistake"
    assert assemble(HINTED_COPY.replace(".L2::cache_hint", "").replace("16, %rd2", "16"), HOPPER, tool=old).data
    assert assemble(HINTED_COPY.replace("sm_90a", "sm_80"), Target.parse("sm_80"), tool=old).data


@pytest.mark.parametrize(
    ("version", "sass", "refused"),
    [
        ((12, 4, 0), REGISTER_LOST, True),
        ((13, 3, 73), REGISTER_LOST, True),
        ((13, 4, 0), REGISTER_LOST, False),
        ((13, 3, 73), REGISTER_LOST.replace("+0x800", ""), True),
        ((13, 3, 73), REGISTER_LOST.replace("R13+UR0", "UR0"), True),
        ((13, 3, 73), REGISTER_LOST.replace("R13+UR0", "R13").replace("UR1", "UR4"), False),
        ((13, 3, 73), None, True),
    ],
)
def test_the_code_of_an_old_ptxas_is_read_where_a_copy_has_a_policy(
    version: tuple[int, int, int], sass: str | None, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disassemble(_cubin: bytes) -> str:
        if sass is None:
            raise DiagnosticError([])
        return sass

    monkeypatch.setattr("nvbackend.codegen.sass.disassemble", disassemble)
    old = replace(find_ptxas(), version=version)
    if not refused:
        assert assemble(HINTED_COPY, HOPPER, tool=old).data
        return
    with pytest.raises(DiagnosticError) as caught:
        assemble(HINTED_COPY, HOPPER, tool=old)
    assert rules_of(caught) == ["ptxas.old-hinted-cp-async"]
    assert ("nvbackend[sass]" in str(caught.value)) == (sass is None)


def test_a_ptxas_that_dies_is_a_diagnostic(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError) as caught:
        assemble(CLEAN, HOPPER, tool=fake_tool(tmp_path, "kill -SEGV $$"))
    assert rules_of(caught) == ["ptxas.crash"]
    assert "signal 11" in str(caught.value)


def test_a_ptxas_that_does_not_start_is_a_diagnostic(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError) as caught:
        assemble(CLEAN, HOPPER, tool=Tool(tmp_path / "nothing", (13, 5, 0)))
    assert rules_of(caught) == ["toolchain.broken"]


def test_levels() -> None:
    assert assemble(CLEAN, HOPPER, opt_level=0).data != assemble(CLEAN, HOPPER, opt_level=3).data
    with pytest.raises(DiagnosticError) as caught:
        assemble(CLEAN, HOPPER, opt_level=4)
    assert rules_of(caught) == ["ptxas.opt-level"]
    assert "opt_level=4 is not" in str(caught.value)


def test_a_level_is_called_as_the_caller_does() -> None:
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)
    with pytest.raises(DiagnosticError, match=r"error\[ptxas\.opt-level\]: ptxas_level=4 is not"):
        k.compile(ptxas_level=4)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 0", "No such file or directory"),
        (": > kernel.cubin", "0 bytes that are not"),
        ("echo no image > kernel.cubin", "9 bytes that are not"),
        ("mkdir kernel.cubin", "Is a directory"),
    ],
)
def test_a_ptxas_that_ends_well_without_a_cubin_is_told(tmp_path: Path, script: str, reason: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        assemble(CLEAN, HOPPER, tool=fake_tool(tmp_path, script))
    assert rules_of(caught) == ["ptxas.no-cubin"]
    assert reason in str(caught.value)


@pytest.mark.parametrize("given", [-1, 0, 23, 256, 2**32 + 24, 2**64, 2**70, 32.0, "32"])
def test_a_register_limit_that_ptxas_would_change_is_refused(given: object) -> None:
    """ptxas makes 24 of 2^32 + 24, and of 23, and nothing of 256."""
    with pytest.raises(DiagnosticError) as caught:
        assemble(CLEAN, HOPPER, register_limit=given)  # type: ignore[arg-type]
    assert rules_of(caught) == ["ptxas.register-limit-range"]


@pytest.mark.parametrize("given", [3.0, "3", None, -1, 4, 2**70])
def test_a_level_is_one_of_four_integers(given: object) -> None:
    with pytest.raises(DiagnosticError) as caught:
        assemble(CLEAN, HOPPER, opt_level=given)  # type: ignore[arg-type]
    assert rules_of(caught) == ["ptxas.opt-level"]


@pytest.mark.parametrize("name", ["register_limit", "opt_level"])
def test_a_truth_value_is_no_number(name: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        assemble(CLEAN, HOPPER, **{name: True})
    assert rules_of(caught) == ["call.argument"]


def test_the_default_target_of_an_old_chip_is_assembled_by_the_ptxas_that_knows_it() -> None:
    target = Target.parse("sm_70")
    version = ".".join(map(str, target.ptx_version))
    cubin = assemble(EMPTY.format(version=version, target="sm_70"), target, tool=Tool.at(ptxas("sm_70")))
    assert cubin.kernel("k").registers > 0
