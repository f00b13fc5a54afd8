"""PTX inside of files of machine code: judged by `nvbackend lint` as a file of it is."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import nvbackend as nvb
from nvbackend.cli import main
from nvbackend.codegen import assemble
from nvbackend.codegen.toolchain import Tool, locate
from nvbackend.isel.target.target import Target

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
DECLARED = ".reg .b64 %d<2>; .shared .align 16 .b8 box[64];"
BODY = f".visible .entry k(.param .b64 x) {{{{\n{DECLARED}\nld.param.b64 %d1, [x];\n{{}}\nret;\n}}}}\n"
COPY, COMMIT, WAIT = "cp.async.cg.shared.global [box], [%d1], 16;", "cp.async.commit_group;", "cp.async.wait_group 0;"


def fatbin(folder: Path, text: str, *, with_ptx: bool = True) -> Path:
    """A fatbin of CUDA's own tool, with the cubin, and with the PTX."""
    path = locate("fatbinary")
    if path is None or locate("cuobjdump") is None:
        pytest.skip("needs fatbinary and cuobjdump, of the wheels of ptxas and the disassemblers")
    (folder / "k.ptx").write_text(text)
    (folder / "k.cubin").write_bytes(assemble(text, Target.parse("sm_80")).data)
    images = ["--image3=kind=elf,sm=80,file=k.cubin", *(["--image3=kind=ptx,sm=80,file=k.ptx"] if with_ptx else [])]
    done = Tool(path, (13, 0, 0)).run(["--create=k.fatbin", "-64", *images], folder)
    assert done.returncode == 0, done.stderr
    return folder / "k.fatbin"


def linted(capsys: pytest.CaptureFixture[str], file: Path) -> tuple[int, str]:
    status = main(["lint", str(file)])
    printed = capsys.readouterr()
    return status, printed.out + printed.err


def test_the_ptx_of_a_fatbin_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right = fatbin(tmp_path, HEAD + BODY.format(f"{COPY}\n{COMMIT}\n{WAIT}"))
    assert linted(capsys, right) == (0, f"{right}: 1 function, nothing to report\n")
    wrong = fatbin(tmp_path, HEAD + BODY.format(f"{COPY}\n{WAIT}"))
    status, said = linted(capsys, wrong)
    assert status == 2
    assert said.startswith("error[lint.never-committed]")
    assert re.search(rf"at {re.escape(str(wrong))}:[\w.]+\.ptx:\d+", said), said
    assert COPY in said


@nvb.kernel("sm_90", threads=128)
def doubled(k: nvb.KernelBuilder, x: nvb.Pointer[nvb.f32]) -> None:
    x[k.thread_id()] = 2.0 * x[k.thread_id()]


def test_the_ptx_of_a_saved_file_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kernel's file, with a text for each target, and a module's."""
    file = tmp_path / "doubled.nvb"
    doubled.compile().save(file, doubled.compile(target="sm_80", assemble=False))
    assert linted(capsys, file) == (0, f"{file}: 2 functions, nothing to report\n")
    module = tmp_path / "module.nvb"
    nvb.compile_module([doubled, doubled.with_(name="again")]).save(module)
    assert linted(capsys, module) == (0, f"{module}: 2 functions, nothing to report\n")
    kernel = doubled.compile(assemble=False)
    replace(kernel, ptx=kernel.ptx.replace("mul.", "muul.", 1)).save(file)
    status, said = linted(capsys, file)
    assert status == 2
    assert said.startswith("error[lint.opcode]")
    assert f"at {file}:sm_90:" in said
    (tmp_path / "other.zip").write_bytes(b"PK\x03\x04")
    assert "error[saved.damaged]" in linted(capsys, tmp_path / "other.zip")[1]


def test_machine_code_alone_is_refused_with_a_fix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = fatbin(tmp_path, HEAD + BODY.format(f"{COPY}\n{COMMIT}\n{WAIT}"), with_ptx=False)
    for each in (file, tmp_path / "k.cubin"):
        status, said = linted(capsys, each)
        assert status == 2
        assert said.startswith(f"error[cli.lint]: {each} holds machine code alone")
        assert "fix: give the PTX that it was made of, or embed it: nvcc -gencode" in said


def test_without_cuobjdump_the_fix_is_to_install_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nvbackend.codegen.toolchain.locate", lambda _name, _explicit=None: None)
    (tmp_path / "k.cubin").write_bytes(b"\x7fELF")
    assert "fix: pip install nvbackend[sass]" in linted(capsys, tmp_path / "k.cubin")[1]
