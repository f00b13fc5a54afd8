"""Modules in files: every kernel comes back, for every target, and what does not fit is refused."""

from __future__ import annotations

import copy
import json
import pickle
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32, runtime
from nvbackend.codegen.saved.archive import packed, unpacked
from nvbackend.runtime.device import DeviceLimits
from tests.codegen.test_c_header import COMPILER, LAUNCH, compiled_c
from tests.support.process import python_output
from tests.support.runtime import FakeDevice, broken


@nvb.function(inline=False)
def square(k: nvb.KernelBuilder, x: f32) -> f32:  # type: ignore[valid-type]
    return x * x


@nvb.kernel("sm_80", threads=64)
def scaled(k: nvb.KernelBuilder, x: nvb.Pointer[f32], y: nvb.Pointer[f32], *, factor: float = 2.0) -> None:
    y[k.thread_id()] = factor * square(k, x[k.thread_id()])


@nvb.kernel("sm_80", threads=(32, 2))
def module(k: nvb.KernelBuilder, out: nvb.Pointer[f32], module: i32(multiple_of=4)) -> None:  # type: ignore[valid-type]
    """Called as the header calls its struct, and so is a parameter."""
    k.assert_(module < 60, "{} is {}", "module", module)
    out[k.thread_id()] = module.to(f32)


def compiled_for(target: str, **options: object) -> nvb.CompiledModule:
    return nvb.compile_module([scaled, module, scaled.with_(factor=3.0, name="tripled")], target=target, **options)


@pytest.fixture(scope="module")
def compiled() -> nvb.CompiledModule:
    return compiled_for("sm_80")


@pytest.fixture
def saved(compiled: nvb.CompiledModule, tmp_path: Path) -> Path:
    compiled.save(tmp_path / "kernels.nvb", compiled_for("sm_90", assemble=False))
    return tmp_path / "kernels.nvb"


def rule_of(path: object) -> tuple[str, str]:
    (fault,) = broken(lambda: nvb.load_compiled_module(path))  # type: ignore[arg-type]
    return fault.rule_id, fault.message


def test_every_kernel_comes_back_for_every_target(compiled: nvb.CompiledModule, saved: Path) -> None:
    loaded = nvb.load_compiled_module(saved)
    assert list(loaded) == list(compiled) == ["scaled", "module", "tripled"]
    assert (loaded.target, loaded.ptx, loaded.versions["nvbackend"]) == (
        compiled.target,
        compiled.ptx,
        nvb.__version__,
    )
    assert loaded.cubin is not None and compiled.cubin is not None
    assert (loaded.cubin.data, loaded.cubin.resources) == (compiled.cubin.data, compiled.cubin.resources)
    for name, kernel in compiled.items():
        assert (loaded[name].signature, loaded[name].machine) == (kernel.signature, str(kernel.machine))
        assert [each.target.name for each in loaded[name].variants] == ["sm_80", "sm_90"]
        assert len(loaded[name].assertions) == len(kernel.assertions) == (name == "module")
    newer = loaded.for_target("sm_90")
    assert newer.cubin is None and ".target sm_90\n" in newer.ptx and newer["module"].target.name == "sm_90"
    assert [each.target.name for each in newer.variants] == ["sm_90", "sm_80"]
    assert repr(loaded) == "<saved module for sm_80, sm_90: scaled, module, tripled>"
    with pytest.raises(nvb.DiagnosticError, match=r"call\.name.*sm_75"):
        loaded.for_target("sm_75")
    with pytest.raises(nvb.DiagnosticError, match=r"call\.name.*scald"):
        loaded["scald"]


def test_the_code_is_in_the_file_once(compiled: nvb.CompiledModule, tmp_path: Path) -> None:
    for name in ("one", "two"):
        compiled.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with zipfile.ZipFile(tmp_path / "one") as archive:
        machines = [f"0/machine{number}.txt" for number in range(3)]
        assert sorted(archive.namelist()) == ["0/kernel.cubin", "0/kernel.ptx", *machines, "manifest.json"]
        assert archive.read("0/machine1.txt").decode() == str(compiled["module"].machine)


def test_it_runs_in_the_simulator_without_llvm(saved: Path) -> None:
    code = f"""
import sys
import numpy as np
import nvbackend as nvb
x, y = np.arange(64, dtype="f4"), np.zeros(64, "f4")
loaded = nvb.runtime.load(nvb.load_compiled_module({str(saved)!r}), device="simulator")
loaded["tripled"].launch(1, x, y)
print((y == 3 * x * x).all(), list(loaded), [name for name in ("llvmlite", "numba") if name in sys.modules])
"""
    assert python_output(code).strip() == "True ['scaled', 'module', 'tripled'] []"


@pytest.mark.parametrize(("capability", "form"), [((8, 6), "cubin"), ((9, 0), "sm_90"), ((12, 0), "sm_90")])
def test_a_device_gets_what_suits_it(saved: Path, capability: tuple[int, int], form: str) -> None:
    device = FakeDevice(limits=DeviceLimits(0, "fake", capability, 1024, 232448, 132))
    file = nvb.load_compiled_module(saved)
    runtime.load(file, device=device)
    images = [image for _, image in device.named("load")]
    wanted = file.cubin and file.cubin.data if form == "cubin" else file.for_target(form).ptx
    assert images == [wanted] * 3


def test_an_assertion_has_its_text(saved: Path) -> None:
    loaded = runtime.load(nvb.load_compiled_module(saved), device="simulator")
    with pytest.raises(nvb.DiagnosticError, match=r"launch\.assertion.*module is 64"):
        loaded["module"].launch(1, np.zeros(64, np.float32), 64)


def test_damaged_and_other_files_are_refused(saved: Path, compiled: nvb.CompiledModule, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    path = tmp_path / "damaged"
    for place in random.Random(3).sample(range(len(whole)), 20):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert rule_of(path)[0] == "saved.damaged", place
    for size in (0, 100, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert rule_of(path)[0] == "saved.damaged", size
    members = unpacked(whole)
    manifest = json.loads(members["manifest.json"])
    first, second = manifest["targets"]
    first["kernels"] = first["kernels"][:2]
    for changed, rule in (
        (manifest, "saved.damaged"),
        ({**manifest, "targets": [second, {**second, "kernels": second["kernels"][::-1]}]}, "saved.damaged"),
        ({**manifest, "targets": [{**second, "kernels": second["kernels"][:1] * 2}]}, "saved.damaged"),
        ({**manifest, "targets": [{**second, "kernels": []}]}, "saved.damaged"),
        ({**manifest, "holds": "kernel"}, "saved.holds"),
        ({**manifest, "holds": "library"}, "saved.damaged"),
        ({**manifest, "format": 3}, "saved.format"),
    ):
        path.write_bytes(packed({**members, "manifest.json": json.dumps(changed).encode()}))
        assert rule_of(path)[0] == rule, changed
    compiled["scaled"].save(path)
    said = f"{path} holds a kernel, not a module, which nvb.load_compiled_module reads"
    assert rule_of(path) == ("saved.holds", said)
    (fault,) = broken(lambda: nvb.load_compiled(saved))
    assert (fault.rule_id, fault.fix) == ("saved.holds", f"write nvb.load_compiled_module({saved!r})")


def test_what_is_saved_together_is_the_same_module(compiled: nvb.CompiledModule, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for other, rule, problem in (
        (compiled, "saved.together", "the file has that target already"),
        (nvb.compile_module([scaled], target="sm_90", assemble=False), "saved.together", "its module has scaled, and"),
        (compiled["scaled"], "call.argument", "takes the same module for other targets"),
    ):
        (fault,) = broken(lambda other=other: compiled.save(path, other))  # type: ignore[misc]
        assert fault.rule_id == rule and problem in fault.message
    assert not path.exists()


def test_copies_are_the_module(compiled: nvb.CompiledModule, saved: Path) -> None:
    for each in (compiled, nvb.load_compiled_module(saved)):
        for other in (pickle.loads(pickle.dumps(each)), copy.copy(each), copy.deepcopy(each)):
            assert other == each and hash(other) == hash(each) and list(other) == list(each)
    assert compiled != compiled_for("sm_90", assemble=False)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler is installed")
def test_a_header_loads_and_launches_each(tmp_path: Path, compiled: nvb.CompiledModule, saved: Path) -> None:
    header = compiled.c_header("tools")
    assert header == nvb.load_compiled_module(saved).c_header("tools")
    text = r"""
int main(void) {
    tools_module tools;
    printf("%d\n", tools_load(&tools));
    printf("%d\n", module_launch(&tools, 1, 1, 1, 0, 0x1000, 8));
    printf("%d\n", module_launch(&tools, 1, 1, 1, 0, 0x1000, 9));
    printf("%d\n", tripled_launch(&tools, 2, 1, 1, 0, 0x1000, 0x2000));
    printf("%d\n", tools_unload(&tools));
    return 0;
}"""
    printed = compiled_c(tmp_path, header, LAUNCH.replace("ARGUMENTS", "") + text)
    launches = [f"launch {grid} 1 1 of {shape} 1 shared 0 stream 0" for grid, shape in ((1, "32 2"), (2, "64 1"))]
    names = [f"function {name}" for name in compiled]
    assert printed == [*names, "0", launches[0], "0", "1", launches[1], "0", "0"]
    for wrong in ("two words", "int", 5):
        (fault,) = broken(lambda wrong=wrong: compiled.c_header(wrong))  # type: ignore[misc]
        assert fault.rule_id == "call.argument"
