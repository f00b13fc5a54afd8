"""The page of a kernel: whole, without requests, and with lines that belong together under one key."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import nvbackend as nvb
from nvbackend import f32
from nvbackend.codegen.looking.listings import FORMS
from tests.support.pages import read


@nvb.kernel("sm_80", threads=64, min_ctas=2)
def scaled(k: nvb.KernelBuilder, x: nvb.Pointer[f32], y: nvb.Pointer[f32]) -> None:
    thread = k.thread_id()
    with k.if_(x[thread] < 2.0):
        y[thread] = x[thread] * 3.0  # <&> "quoted"


@pytest.fixture(scope="module")
def compiled() -> nvb.CompiledKernel:
    return scaled.compile()


def test_every_line_is_there(compiled: nvb.CompiledKernel) -> None:
    """As the forms themselves have them; the Python is the kernel's, from the file."""
    python, *columns = read(compiled.html()).columns
    for form, column in zip(("machine", "ptx", "sass"), columns, strict=True):
        assert [text for _, text in column] == [line.text.expandtabs(4) for line in FORMS[form](compiled)]
    assert '        y[thread] = x[thread] * 3.0  # <&> "quoted"' in [text for _, text in python]


def test_lines_of_one_place_have_one_key(compiled: nvb.CompiledKernel) -> None:
    python, _, ptx, sass = read(compiled.html()).columns
    of_python = {key: text for key, text in python if key is not None}
    assert len(of_python) == len([key for key, _ in python if key is not None])
    store = next(key for key, text in python if "* 3.0" in text)
    for column, opcode in ((ptx, "st.global"), (sass, "STG")):
        assert [key for key, text in column if opcode in text] == [store]
        assert {key for key, _ in column if key is not None} <= set(of_python)


def test_it_asks_for_nothing(compiled: nvb.CompiledKernel) -> None:
    text = compiled.html()
    assert {name for name, _ in read(text).attributes} == {"lang", "charset", "class", "style", "data-p"}
    assert not re.search(
        r"https?:|//[a-z]+\.|@import|url\(|fetch|XMLHttp", re.sub(r"(?s)<section>.*</section>", "", text)
    )
    assert text == scaled.compile().html()


def test_bars_show_parts(compiled: nvb.CompiledKernel) -> None:
    """64 threads and two CTAs at least: an SM of sm_80 holds 32 of 164 KiB."""
    text = compiled.html()
    assert compiled.cubin is not None
    registers = compiled.cubin.kernel("scaled").registers
    assert f"{registers} a thread, of 255" in text
    assert f'<div style="width: {registers / 255:.0%}"></div>' in text
    assert "0 bytes a CTA, of 167936 an SM" in text
    assert '<div style="width: 100%"></div></div></td><td>32 CTAs an SM, 2048 of 2048 threads' in text


@pytest.mark.parametrize(("stores", "loads", "said"), [(0, 0, "none"), (12, 20, "32 bytes"), (8, 0, "8 bytes")])
def test_spills(compiled: nvb.CompiledKernel, stores: int, loads: int, said: str) -> None:
    assert compiled.cubin is not None
    used = replace(compiled.cubin.kernel("scaled"), spill_stores_bytes=stores, spill_loads_bytes=loads)
    spilled = replace(compiled, cubin=replace(compiled.cubin, resources=(used,)))
    assert f"<td>spills</td><td></td><td>{said}</td>" in spilled.html()


def test_a_kernel_that_was_not_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvbackend.codegen.toolchain.locate", lambda *_: None)
    text = scaled.compile(assemble=False).html()
    assert "error[ptxas.missing]" in "".join(read(text).texts)
    assert "a thread, of" not in text


def test_notebooks_show_things_as_html(compiled: nvb.CompiledKernel) -> None:
    shown = compiled._repr_html_()
    assert read(shown).texts[0].startswith("<compiled kernel: <machine form of scaled")
    assert compiled.summary() in "".join(read(shown).texts)
    assert "".join(read(compiled.machine._repr_html_()).texts) == str(compiled.machine)
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.Target.parse("<sm>")
    (diagnostic,) = caught.value.diagnostics
    assert "".join(read(diagnostic._repr_html_()).texts) == str(diagnostic)
