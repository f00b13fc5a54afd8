"""What annotates a kernel's parameters: type checkers and `nvb.kernel` take it, and refuse what is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32
from tests.support.process import ROOT

MAP = nvb.TensorMap(f16, box=(64, 64))
PROGRAM = """\
from typing import Annotated

import nvbackend as nvb
from nvbackend import f16, f32, i32

Tile = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(64, 64))]
Aligned = Annotated[nvb.Pointer[f32], nvb.Pointer(f32, align=32)]
Plain = Annotated[nvb.Address, nvb.Pointer(f32)]


def twice(value: nvb.Value, element: nvb.ElementType) -> nvb.Value:
    return value.to(element) * 2


@nvb.kernel("sm_90a", threads=128)
def kernel(
    k: nvb.KernelBuilder, x: nvb.Pointer[f32], a: Tile, c: Aligned, d: Plain, count: i32, *, factor: float = 2.0
) -> None:
    tile = k.shared_tile(nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, f16, 64, 64))
    full = k.mbarrier.array(1, arrivals=1)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.layout.bytes)
        k.tma.load(tile, a, (count * 64, 0), full)
    k.mbarrier.wait(full, 0)
    thread: nvb.Value = k.thread_id()
    with k.if_(thread < count):
        total = k.var(0.0, f32)
        total += x[thread] * factor + twice(count, f32)
        c[thread] = d[thread] = total.value
    request = nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)
    nvb.wgmma.select(request, nvb.Target.parse("sm_90a"))
    print([nvb.Parameter("x", nvb.Pointer(f32, align=8)), nvb.Parameter("n", i32)], f16.bits)
"""
WRONG = (
    ("x: nvb.Pointer[f32]", "x: nvb.Pointer(f32)", "valid-type"),
    ("count: i32", "count: int", "arg-type"),
    ("nvb.wgmma.mma_async(", "nvb.wgmma.mma(", "attr-defined"),
    ("k.tma.load(tile, a,", "k.tma.load(tile, x,", "arg-type"),
    ("x[thread] * factor", "x.element_at(thread)", "attr-defined"),
)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What mypy says of two programs that somebody wrote with the installed package: PROGRAM, and one of mistakes."""
    folder = tmp_path_factory.mktemp("programs")
    mistaken = PROGRAM
    for right, wrong, _ in WRONG:
        assert mistaken.count(right) == 1
        mistaken = mistaken.replace(right, wrong)
    for name, text in (("right.py", PROGRAM), ("wrong.py", mistaken)):
        (folder / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"]
    command += ["right.py", "wrong.py"]
    environment = {"MYPYPATH": str(ROOT), "PATH": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def test_a_type_checker_takes_the_program(said: list[str]) -> None:
    assert "ignore" not in PROGRAM
    assert [line for line in said if not line.startswith(("wrong.py:", "Found"))] == []


def test_a_type_checker_sees_mistakes(said: list[str]) -> None:
    assert [code for _, _, code in WRONG if not any(f"[{code}]" in line for line in said)] == []


def test_the_program_builds(tmp_path: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "program"}
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    exec(compile(PROGRAM, str(path), "exec"), namespace)
    types = [one.type for one in namespace["kernel"].build().signature.parameters]
    assert types == [nvb.Pointer(f32), MAP, nvb.Pointer(f32, align=32), nvb.Pointer(f32), nvb.Scalar(i32)]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (nvb.Pointer[f16], nvb.Pointer(f16)),
        (nvb.Pointer(f16, align=64), nvb.Pointer(f16, align=64)),
        (MAP, MAP),
        (f16, nvb.Scalar(f16)),
        (Annotated[nvb.TensorMap, MAP], MAP),
        (Annotated[nvb.TensorMapParameter, "the left operand", MAP], MAP),
        (Annotated[nvb.Value, i32], nvb.Scalar(i32)),
        (Annotated[Any, nvb.Scalar(i32)], nvb.Scalar(i32)),
        (Annotated[i32, "how many"], nvb.Scalar(i32)),
        (Annotated[nvb.Pointer[f32], nvb.Pointer(f32, align=32)], nvb.Pointer(f32, align=32)),
        ("nvb.Pointer[f16]", nvb.Pointer(f16)),
        ("Annotated[nvb.TensorMap, MAP]", MAP),
    ],
    ids=str,
)
def test_an_annotation_is_a_parameter_type(annotation: object, expected: object) -> None:
    (parameter,) = _kernel(annotation).parameters()
    assert parameter.type == expected


@pytest.mark.parametrize(
    ("annotation", "rule", "said"),
    [
        (int, "kernel.parameter", "<class 'int'>"),
        (Annotated[int, "a count"], "kernel.parameter", "a count"),
        (Annotated[nvb.Value, i32, f32], "kernel.parameter", "s32, f32"),
        ("nvb.TensorMap[f16]", "kernel.parameter", "nvb.TensorMap[f16]"),
        (Annotated[nvb.Value, nvb.Pointer(f32)], "kernel.parameter-fact", "arrives as Address"),
        (Annotated[nvb.Pointer[f16], nvb.Pointer(f32)], "kernel.parameter-fact", "arrives as Address"),
        (Annotated[nvb.Address, MAP], "kernel.parameter-fact", "arrives as TensorMapParameter"),
        (Annotated[nvb.Address, i32], "kernel.parameter-fact", "arrives as Value"),
        (Annotated[nvb.Pointer[f16], MAP], "kernel.parameter-fact", "arrives as TensorMapParameter"),
        (Annotated[nvb.Pointer[f16], f16], "kernel.parameter-fact", "arrives as Value"),
        (nvb.Pointer[float], "kernel.parameter-fact", "its element is not an element type"),
    ],
    ids=str,
)
def test_another_annotation_is_a_diagnostic(annotation: object, rule: str, said: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        _kernel(annotation).build()
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.rule_id, said in diagnostic.message) == (rule, True)
    assert "nvb." in diagnostic.fix


def test_an_unknown_name_in_an_annotation_is_named() -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        _kernel("nvb.Pointer[f99]").build()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "kernel.parameter"
    assert "'nvb.Pointer[f99]', a text in which the name f99 is not known" in diagnostic.message
    assert diagnostic.fix.startswith("define or import f99 at the top of the file")


def _kernel(annotation: object) -> nvb.KernelDefinition:
    def body(k, x):
        pass

    body.__annotations__["x"] = annotation
    return nvb.kernel("sm_90a", threads=32)(body)
