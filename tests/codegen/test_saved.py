"""Kernels in files: what comes back, what is refused, and what loading does not need."""

from __future__ import annotations

import concurrent.futures
import copy
import dataclasses
import hashlib
import io
import json
import multiprocessing
import os
import pickle
import random
import zipfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32, runtime
from nvbackend.codegen.saved.archive import packed, unpacked
from nvbackend.runtime.device import DeviceLimits
from tests.support.process import python_output
from tests.support.runtime import FakeDevice, broken

Tile = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(64, 64))]
Pixels = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(64, 64), im2col=nvb.Im2col(4, (-1, -1), (-1, -1)))]


@nvb.kernel("sm_80", threads=64)
def scaled(k: nvb.KernelBuilder, x: nvb.Pointer[f32], y: nvb.Pointer[f32], count: i32(minimum=1, maximum=64)) -> None:  # type: ignore[valid-type]
    thread = k.thread_id()
    with k.if_(thread < count):
        k.assert_(x[thread] < 100.0, "{1} of {0}: {{}}", 64, x[thread])
        y[thread] = 2.0 * x[thread]


@nvb.kernel("sm_90a", threads=(64, 2), cluster=2)
def tile(k: nvb.KernelBuilder, a: Tile, b: Pixels, out: Annotated[nvb.Pointer, nvb.Pointer(f32, const=True)]) -> None:
    k.griddepcontrol("wait")
    k.barrier.sync()


@pytest.fixture(scope="module")
def compiled() -> nvb.CompiledKernel:
    return scaled.compile()


@pytest.fixture
def saved(compiled: nvb.CompiledKernel, tmp_path: Path) -> Path:
    compiled.save(
        tmp_path / "scaled.nvb", scaled.compile(target="sm_90"), scaled.compile(target="sm_86", assemble=False)
    )
    return tmp_path / "scaled.nvb"


def rule_of(path: object) -> tuple[str, str]:
    (fault,) = broken(lambda: nvb.load_compiled(path))  # type: ignore[arg-type]
    return fault.rule_id, fault.message


def test_everything_comes_back(compiled: nvb.CompiledKernel, saved: Path) -> None:
    loaded = nvb.load_compiled(saved)
    assert (loaded.signature, loaded.target, loaded.ptx) == (compiled.signature, compiled.target, compiled.ptx)
    assert loaded.machine == str(compiled.machine)
    assert loaded.cubin is not None and compiled.cubin is not None
    assert (loaded.cubin.data, loaded.cubin.resources) == (compiled.cubin.data, compiled.cubin.resources)
    assert [each.target.name for each in loaded.variants] == ["sm_80", "sm_90", "sm_86"]
    assert loaded.for_target("sm_86").cubin is None
    assert [each.target.name for each in loaded.for_target("sm_86").variants] == ["sm_86", "sm_80", "sm_90"]
    assert loaded.versions["nvbackend"] == nvb.__version__ and loaded.versions["ptx"] == "9.0"
    assert repr(loaded) == "<saved kernel scaled for sm_80, sm_90, sm_86, 64 threads>"
    with pytest.raises(nvb.DiagnosticError, match=r"call\.name.*sm_75"):
        loaded.for_target("sm_75")


def test_sass_is_that_of_the_cubin_or_else_of_the_ptx(compiled: nvb.CompiledKernel, saved: Path) -> None:
    """Neither needs the other: with a cubin the PTX is not read, and without one it is assembled."""
    kernel = nvb.load_compiled(saved)
    expected = compiled.sass()
    assert dataclasses.replace(kernel, ptx="not PTX").sass() == expected
    assert dataclasses.replace(kernel, cubin=None).sass() == expected


def test_every_kind_of_parameter_comes_back(tmp_path: Path) -> None:
    compiled = tile.compile(assemble=False)
    compiled.save(tmp_path / "tile.nvb")
    assert nvb.load_compiled(tmp_path / "tile.nvb").signature == compiled.signature
    assert compiled.signature.bounds.overlaps


def test_the_same_kernel_is_the_same_file(compiled: nvb.CompiledKernel, tmp_path: Path) -> None:
    for name in ("one", "two"):
        compiled.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["one", "two"]
    with zipfile.ZipFile(tmp_path / "one") as archive:
        assert archive.read("0/kernel.ptx").decode() == compiled.ptx
        assert archive.read("0/machine0.txt").decode() == str(compiled.machine)


def test_it_runs_in_the_simulator_without_llvm(saved: Path) -> None:
    code = f"""
import sys
import numpy as np
import nvbackend as nvb
x, y = np.arange(64, dtype="f4"), np.zeros(64, "f4")
nvb.runtime.load(nvb.load_compiled({str(saved)!r}), device="simulator").launch(1, x, y, 60)
print(y.sum() == 2 * x[:60].sum(), [name for name in ("llvmlite", "numba") if name in sys.modules])
"""
    assert python_output(code).strip() == "True []"


def test_an_assertion_has_its_text(saved: Path) -> None:
    x = np.full(64, 200.0, np.float32)
    loaded = runtime.load(nvb.load_compiled(saved), device="simulator")
    with pytest.raises(nvb.DiagnosticError, match=r"launch\.assertion.*200 of 64"):
        loaded.launch(1, x, x.copy(), 64)


@pytest.mark.parametrize(
    ("capability", "form"),
    [((8, 0), "sm_80"), ((8, 6), "sm_80"), ((9, 0), "sm_90"), ((8, 9), "sm_80"), ((12, 0), "PTX of sm_90")],
)
def test_a_device_gets_what_suits_it(saved: Path, capability: tuple[int, int], form: str) -> None:
    """By the rules of binary and PTX compatibility: CUDA C++ Programming Guide."""
    device = FakeDevice(limits=DeviceLimits(0, "fake", capability, 1024, 232448, 132))
    file = nvb.load_compiled(saved)
    runtime.load(file, device=device)
    ((_, image),) = device.named("load")
    target = file.for_target(form.removeprefix("PTX of "))
    assert image == (target.ptx if form.startswith("PTX") else target.cubin and target.cubin.data)


def test_a_device_that_none_suits(saved: Path) -> None:
    device = FakeDevice(limits=DeviceLimits(0, "fake", (7, 5), 1024, 65536, 40))
    faults = broken(lambda: runtime.load(nvb.load_compiled(saved), device=device))
    assert [fault.rule_id for fault in faults] == ["launch.architecture"]


def test_every_damaged_byte_is_noticed(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    path = tmp_path / "damaged"
    places = {*random.Random(1).sample(range(len(whole)), 60), *range(20), *range(len(whole) - 40, len(whole))}
    for place in sorted(places):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        assert rule_of(path)[0] == "saved.damaged", place
    for size in (0, 1, 4, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert rule_of(path)[0] == "saved.damaged", size
    path.write_bytes(whole + b"\n")
    assert rule_of(path)[0] == "saved.damaged"


def test_other_files_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert rule_of(path)[1] == f"{path} is not a whole file of a saved kernel: it is empty"
    path.write_bytes(b"\x7fELF" + bytes(500))
    assert rule_of(path)[1].endswith(": it was damaged, or is a file of another kind")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", b"b" * 1000)
    assert rule_of(path)[1].endswith(": it has no checksum at its end: it was cut off, or another program wrote it")
    path.write_bytes(packed({"a": b"b"}))
    assert rule_of(path)[1].endswith(": it has no manifest.json")
    assert rule_of(tmp_path / "none") == (
        "saved.file",
        f"{tmp_path / 'none'} cannot be read: No such file or directory",
    )
    assert rule_of(tmp_path)[0] == "saved.file"
    assert rule_of("zero\0byte")[0] == "saved.file"


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """A pipe that nobody writes to would be waited for; zeros and a large sparse file would fill the memory."""
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        assert rule_of(path) == ("saved.file", f"{path} cannot be read: it is not a regular file")
    assert rule_of(tmp_path) == ("saved.file", f"{tmp_path} cannot be read: it is a directory")
    with large.open("wb") as file:
        file.truncate(1 << 40)
    said = f"{large} cannot be read: it has 1099511627776 bytes, more than any saved kernel (1073741824)"
    assert rule_of(large) == ("saved.file", said)


def test_a_file_of_another_version(saved: Path) -> None:
    saved.write_bytes(packed(changed(unpacked(saved.read_bytes()), format=1, versions={"nvbackend": "9.9"})))
    assert rule_of(saved) == (
        "saved.format",
        f"{saved} has format 1 of nvbackend 9.9; this is nvbackend {nvb.__version__}, which reads format 2",
    )


def changed(members: dict[str, bytes], **values: object) -> dict[str, bytes]:
    manifest = json.loads(members["manifest.json"]) | values
    return {**members, "manifest.json": json.dumps(manifest).encode()}


def test_a_file_that_does_not_fit_itself(saved: Path) -> None:
    """Whole by its checksum, so made on purpose or by another program: each value is compared with its kind."""
    members = unpacked(saved.read_bytes())
    rng = random.Random(7)
    manifest = json.loads(members["manifest.json"])
    paths = list(leaves(manifest["targets"][0], ()))
    for path in rng.sample(paths, 25):
        for wrong in (None, -1, "sm_1", [], {"a": 1}, True, 1 << 70):
            data = copy.deepcopy(manifest)
            inner = data["targets"][0]
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = wrong
            saved.write_bytes(packed({**members, "manifest.json": json.dumps(data).encode()}))
            faults = broken(lambda: nvb.load_compiled(saved))
            assert {fault.rule_id for fault in faults} <= {"saved.damaged"}, (path, wrong)
    for text in (b"[]", b"nonsense", b"[" * 100_000, b"\xff"):
        saved.write_bytes(packed({**members, "manifest.json": text}))
        assert rule_of(saved)[0] == "saved.damaged"
    for name in ("0/kernel.ptx", "0/kernel.cubin"):
        saved.write_bytes(packed({**members, name: b"other"}))
        assert rule_of(saved)[0] == "saved.damaged"
        saved.write_bytes(packed({key: value for key, value in members.items() if key != name}))
        assert rule_of(saved)[1].endswith(f": it has no {name}")


def leaves(data: Any, path: tuple[Any, ...]) -> Any:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from leaves(value, (*path, key))


def test_a_compressed_member_is_refused(saved: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = b"nvbackend kernel sha256 " + b"0" * 64
        archive.writestr("manifest.json", b"0" * 1000)
    content = buffer.getvalue()[:-64]
    saved.write_bytes(content + hashlib.sha256(content).hexdigest().encode())
    assert rule_of(saved)[1].endswith(": manifest.json is compressed")


def test_kernels_of_one_file_are_one_kernel(compiled: nvb.CompiledKernel, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for other, problem in (
        (compiled, "the file has that target already"),
        (scaled.with_(name="other").compile(target="sm_90"), "it is another kernel"),
        (tile.with_(name="scaled").compile(assemble=False), "its parameters are a (TensorMap of f16), b"),
    ):
        (fault,) = broken(lambda other=other: compiled.save(path, other))  # type: ignore[misc]
        assert fault.rule_id == "saved.together" and problem in fault.message
    assert not path.exists()
    (fault,) = broken(lambda: compiled.save(tmp_path / "none" / "file"))
    assert fault.message == f"{tmp_path / 'none' / 'file'} cannot be written: No such file or directory"
    for nowhere in ("zero\0byte", ""):
        (fault,) = broken(lambda nowhere=nowhere: compiled.save(nowhere))  # type: ignore[misc]
        assert fault.rule_id == "saved.file"


def test_copies_are_the_kernel(compiled: nvb.CompiledKernel, saved: Path) -> None:
    for each in (compiled, nvb.load_compiled(saved)):
        for other in (pickle.loads(pickle.dumps(each)), copy.copy(each), copy.deepcopy(each)):
            assert other == each
            assert str(other.machine) == str(each.machine)
    assert len({compiled, pickle.loads(pickle.dumps(compiled))}) == 1


def build(target: str) -> tuple[str, nvb.CompiledKernel]:
    return target, scaled.compile(target=target, cache=nvb.Cache.disabled())


def test_processes_compile_side_by_side(compiled: nvb.CompiledKernel) -> None:
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        built = dict(pool.map(build, ["sm_80", "sm_90"]))
    assert (built["sm_80"].ptx, built["sm_80"].cubin) == (compiled.ptx, compiled.cubin)
    assert ".target sm_90\n" in built["sm_90"].ptx
