"""Launching through a device that records: what is checked before, what the driver is told, how errors are named."""

from __future__ import annotations

import functools
import re
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from nvbackend import runtime
from nvbackend.intrinsics.row import types
from nvbackend.isel.target.target import Target, target_names
from nvbackend.runtime.device import Configuration, DeviceLimits, KernelLimits, runs_on
from nvbackend.runtime.streams import same_stream, stream_handle
from nvbackend.signature import Im2col, Pointer, Scalar, Signature, TensorMap
from tests.support.process import python_output
from tests.support.runtime import Cubin, FakeArray, FakeCompiled, FakeDevice, broken, rules, signature

ADDRESS = 0x7F0000000000


def loaded(kernel: Signature, device: FakeDevice | None = None) -> tuple[runtime.LoadedKernel, FakeDevice]:
    device = device or FakeDevice()
    return runtime.load(FakeCompiled(kernel), device=device), device


def test_launch_tells_the_driver_everything() -> None:
    kernel, device = loaded(signature(Pointer(types.f16), Scalar(types.s32), cluster=2, shared=99_328))
    kernel.launch((6, 3), FakeArray((4, 4)), -5, stream=0x72A0)
    [(stream, configuration, handle, arguments)] = device.named("launch")
    assert (stream, handle) == (("stream", 0x72A0), "kernel k")
    assert configuration == Configuration((6, 3, 1), (128, 1, 1), (2, 1, 1), 99_328)
    assert arguments[0] == ADDRESS
    assert arguments[1] == 2**32 - 5
    assert device.named("allow") == [["kernel k", 99_328, 2]]
    assert device.named("load") == [["k", b"binary"]]


def test_ptx_is_loaded_where_there_is_no_cubin() -> None:
    for cubin in (None, Cubin(None)):
        device = FakeDevice()
        runtime.load(FakeCompiled(signature(), ptx="text", cubin=cubin), device=device)
        assert device.named("load") == [["k", "text"]]


def test_subscript_form_and_prepared_launches() -> None:
    kernel, device = loaded(signature(Scalar(types.f32)))
    kernel[8](1.0)
    kernel[(8, 2), 5000](1.0)
    prepared = kernel.prepare(4, 1.0, stream=0x7050)
    prepared.run()
    prepared.run()
    launches = device.named("launch")
    assert [(stream[1], configuration.grid) for stream, configuration, *_ in launches] == [
        (0, (8, 1, 1)),
        (5000, (8, 2, 1)),
        (0x7050, (4, 1, 1)),
        (0x7050, (4, 1, 1)),
    ]


def test_a_map_over_an_array_is_an_argument_of_its_own_kind_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, other, given = TensorMap(types.f16, (8, 64)), TensorMap(types.f16, (64, 8)), FakeArray((64, 64))
    monkeypatch.setattr("nvbackend.runtime.tensor_map.encode", lambda *_: b"map")
    kernel, device = loaded(signature(kind))
    for argument in (given, kind.bind(given)):
        kernel.launch(1, argument)
    assert len(device.named("launch")) == 2
    assert rules(lambda: kernel.launch(1, other.bind(given))) == ["launch.argument-kind"]


POINTER = Pointer(types.f16)


@pytest.mark.parametrize(
    ("kind", "argument", "expected"),
    [
        (POINTER, 5, "launch.argument-kind"),
        (POINTER, [1.0], "launch.argument-kind"),
        (POINTER, FakeArray((4,), "<f4"), "launch.dtype"),
        (POINTER, FakeArray((4,), "<u2"), "launch.dtype"),
        (Pointer(types.bf16), FakeArray((4,), "<f2"), "launch.dtype"),
        (Pointer(types.e4m3), FakeArray((16,), "|i1"), "launch.dtype"),
        (POINTER, FakeArray((0, 4), pointer=0), "launch.shape"),
        (POINTER, FakeArray((4, 4), strides=(16, 2)), "launch.stride"),
        (POINTER, FakeArray((4, 4), strides=(2, 8)), "launch.stride"),
        (POINTER, FakeArray((4,), pointer=ADDRESS + 8), "launch.alignment"),
        (POINTER, numpy.zeros(4, "float16"), "launch.device"),
        (POINTER, FakeArray((4,), pointer=0x1000), "launch.device"),
        (POINTER, FakeArray((4,), pointer=0x2000), "launch.device"),
        (Scalar(types.s32), 2**31, "launch.scalar-range"),
        (Scalar(types.u32), -1, "launch.scalar-range"),
        (Scalar(types.f16), 65520.0, "launch.scalar-range"),
        (Scalar(types.s32), 1.5, "launch.argument-kind"),
        (Scalar(types.s32), FakeArray((1,), "<i4"), "launch.argument-kind"),
        (TensorMap(types.f16, (8, 64)), FakeArray((64, 64), "<f4"), "launch.dtype"),
        (TensorMap(types.f16, (8, 64)), FakeArray((64,)), "tensor-map.rank"),
        (TensorMap(types.f16, (8, 64)), 7, "launch.argument-kind"),
    ],
)
def test_wrong_argument_is_found_before_the_launch(kind: Any, argument: Any, expected: str) -> None:
    device = FakeDevice(owners={0: None, 0x1000: 1, 0x2000: None})
    kernel, _ = loaded(signature(kind), device)
    assert rules(lambda: kernel.launch(1, argument)) == [expected]
    assert not device.named("launch")


@pytest.mark.parametrize(
    ("kind", "argument"),
    [
        (Pointer(types.bf16), FakeArray((4,), "<u2")),
        (Pointer(types.bf16), FakeArray((4,), "<V2")),
        (Pointer(types.e4m3), FakeArray((16,), "|u1")),
        (Pointer(types.tf32), FakeArray((4,), "<f4")),
        (Pointer(types.f16, align=8), FakeArray((4,), pointer=ADDRESS + 8)),
        (POINTER, FakeArray((1, 4), strides=(999, 2))),
    ],
)
def test_right_argument_is_launched(kind: Any, argument: Any) -> None:
    kernel, device = loaded(signature(kind))
    kernel.launch(1, argument)
    assert len(device.named("launch")) == 1


def test_every_problem_is_raised_together_at_the_users_line() -> None:
    kernel, _ = loaded(signature(POINTER, Scalar(types.s32), Pointer(types.f32), cluster=2))
    diagnostics = broken(lambda: kernel.launch(3, numpy.zeros(4, "float32"), 2**40, FakeArray((4, 4), strides=(4, 16))))
    assert [diagnostic.rule_id for diagnostic in diagnostics] == [
        "launch.grid",
        "launch.device",
        "launch.dtype",
        "launch.scalar-range",
        "launch.dtype",
        "launch.stride",
    ]
    for diagnostic in diagnostics:
        assert diagnostic.location is not None
        assert diagnostic.location.file == __file__
        assert "kernel.launch(3" in diagnostic.location.source
    assert "p0" in diagnostics[1].message
    assert "numpy.ndarray" in diagnostics[1].message
    assert str(2**40) in diagnostics[3].message


@pytest.mark.parametrize(("owner", "place"), [(1, "the memory of device 1"), (None, "no CUDA memory (address 0x1000)")])
def test_wrong_place_is_named(owner: int | None, place: str) -> None:
    kernel, _ = loaded(signature(POINTER), FakeDevice(owners={0x1000: owner}))
    [diagnostic] = broken(lambda: kernel.launch(1, FakeArray((4,), pointer=0x1000)))
    assert place in diagnostic.message


def test_argument_count() -> None:
    kernel, _ = loaded(signature(POINTER, Scalar(types.s32)))
    [diagnostic] = broken(lambda: kernel.launch(1, FakeArray((4,))))
    assert diagnostic.rule_id == "launch.argument-count"
    assert "2 arguments (p0, p1), not 1" in diagnostic.message


@pytest.mark.parametrize(
    "grid", [0, -1, (), (1, 1, 1, 1), 2.0, "4", (1, 0), 2**31, (1, 65536), (1, 1, 65536), (3, 2), 5]
)
def test_bad_grid(grid: Any) -> None:
    kernel, device = loaded(signature(cluster=4))
    found = rules(lambda: kernel.launch(grid))
    assert found
    assert set(found) == {"launch.grid"}
    assert not device.named("launch")


def test_grid_fix_names_the_next_multiple_of_the_cluster() -> None:
    kernel, _ = loaded(signature(cluster=4))
    [diagnostic] = broken(lambda: kernel.launch(13))
    assert "round it up to 16" in diagnostic.fix


@pytest.mark.parametrize("grid", [2**31, (1, 65536), (1, 1, 65536)])
def test_a_grid_is_no_larger_than_the_programming_guide_says(grid: Any) -> None:
    kernel, device = loaded(signature())
    assert rules(lambda: kernel.launch(grid)) == ["launch.grid"]
    assert device.named("launch") == []


@pytest.mark.parametrize("grid", [1, 2**31 - 1, (2, 65535, 65535), [3, 1], numpy.int64(7)])
def test_good_grid(grid: Any) -> None:
    kernel, device = loaded(signature())
    kernel.launch(grid)
    assert len(device.named("launch")) == 1


@pytest.mark.parametrize(
    ("kernel", "limits", "expected"),
    [
        (signature(threads=1025), KernelLimits(1024, 0), ["launch.threads"]),
        (signature(threads=1), KernelLimits(1024, 0), []),
        (signature(threads=0), KernelLimits(1024, 0), ["launch.threads"]),
        (signature(threads=512), KernelLimits(384, 0), ["launch.threads"]),
        (signature(threads=384), KernelLimits(384, 0), []),
        (signature(shared=232449), KernelLimits(1024, 0), ["launch.shared-memory"]),
        (signature(shared=232000), KernelLimits(1024, 449), ["launch.shared-memory"]),
        (signature(shared=232000), KernelLimits(1024, 448), []),
    ],
)
def test_launch_bounds_against_the_device(kernel: Signature, limits: KernelLimits, expected: list[str]) -> None:
    device = FakeDevice(kernel=limits)
    assert rules(lambda: runtime.load(FakeCompiled(kernel), device=device)) == expected


def test_bad_tensor_map_parameter_is_found_when_loading() -> None:
    device = FakeDevice()
    kernel = FakeCompiled(signature(TensorMap(types.f16, (8, 32), 64, Im2col(4, (0,), (0, 0)))))
    assert rules(lambda: runtime.load(kernel, device=device)) == ["tensor-map.im2col-corners"]


@pytest.mark.parametrize(
    ("target", "capability", "expected"),
    [
        ("sm_90a", (9, 0), True),
        ("sm_90a", (10, 0), False),
        ("sm_90", (9, 0), True),
        ("sm_90", (10, 0), False),
        ("sm_80", (8, 9), True),
        ("sm_89", (8, 6), False),
        ("sm_100a", (10, 3), False),
        ("sm_100f", (10, 3), True),
        ("sm_103f", (10, 0), False),
        ("sm_90a", (8, 9), False),
        ("sm_100f", (8, 0), False),
        ("sm_100f", (9, 0), False),
        ("sm_100f", (12, 0), False),
        ("sm_90", (8, 0), False),
        ("sm_120f", (12, 1), True),
    ],
)
def test_architectures(target: str, capability: tuple[int, int], expected: bool) -> None:
    parsed = Target.parse(target)
    assert runs_on(parsed, capability) == expected
    device = FakeDevice(limits=DeviceLimits(0, "other", capability, 1024, 232448, 132))
    if expected:
        runtime.load(FakeCompiled(signature(), target=parsed), device=device)
        return
    [found] = broken(lambda: runtime.load(FakeCompiled(signature(), target=parsed), device=device))
    assert found.rule_id == "launch.architecture"
    # A suffix is for its features, which chips before 9.0 have none of; every chip from there on has one with "a".
    chip = f"{capability[0]}{capability[1]}"
    nearest = f"sm_{chip}a" if target[-1] in "af" and f"sm_{chip}a" in target_names() else f"sm_{chip}"
    assert re.search(rf"\b{nearest}\b", found.fix)


@pytest.mark.parametrize(
    "capability", [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1)]
)
def test_what_runs_where(capability: tuple[int, int]) -> None:
    """CUDA C++ Programming Guide, 3.1.2 and 3.1.3: cubins on their major version, PTX on what is newer."""
    for name in target_names():
        number, suffix = int(name[3:].rstrip("af")), name[-1] if name[-1] in "af" else ""
        own = divmod(number, 10)
        is_newer = capability[1] >= own[1] and capability[0] == own[0]
        expected = {"a": capability == own, "f": is_newer, "": is_newer}[suffix]
        assert runs_on(Target.parse(name), capability) == expected
        later = capability >= own if not suffix else expected
        assert runs_on(Target.parse(name), capability, as_ptx=True) == later


def test_plain_ptx_runs_on_later_chips() -> None:
    for target, expected in (("sm_75", True), ("sm_90", True), ("sm_90a", False), ("sm_100f", True), ("sm_120", False)):
        assert runs_on(Target.parse(target), (10, 3), as_ptx=True) == expected
    device = FakeDevice(limits=DeviceLimits(0, "other", (10, 0), 1024, 232448, 132))
    kernel = FakeCompiled(signature(), target=Target.parse("sm_80"), cubin=None)
    assert not rules(lambda: runtime.load(kernel, device=device))


def test_load_failure_names_kernel_and_form() -> None:
    device = FakeDevice(failing="load")
    [diagnostic] = broken(lambda: runtime.load(FakeCompiled(signature(), cubin=None), device=device))
    assert diagnostic.rule_id == "launch.load-failed"
    assert "kernel k from its PTX: CUDA_ERROR" in diagnostic.message


def test_asynchronous_error_names_what_was_launched_on_that_stream() -> None:
    device = FakeDevice()
    first, _ = loaded(signature(), device)
    second = runtime.load(FakeCompiled(Signature("other", (), signature().bounds)), device=device)
    second.launch(1, stream=0x7070)
    second.synchronize(0x7070)
    first.launch(2, stream=0x7070)
    second.launch(3, stream=0x7080)
    device.failing = "synchronize"
    [diagnostic] = broken(lambda: second.synchronize(0x7070))
    assert diagnostic.rule_id == "launch.asynchronous-error"
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in diagnostic.message
    assert diagnostic.message.endswith(": k")
    [(note, location)] = diagnostic.notes
    assert "k (grid (2, 1, 1))" in note
    assert location is not None
    assert "first.launch(2" in location.source
    device.failing = "synchronize"
    [diagnostic] = broken(lambda: runtime.synchronize(0x7080, device=device))
    assert diagnostic.message.endswith(": other")


def test_remembered_launches_are_bounded_and_prepared_ones_count_once() -> None:
    kernel, device = loaded(signature())
    prepared = kernel.prepare(9)
    for grid in range(1, 30):
        kernel.launch(grid)
    for _ in range(100):
        prepared.run()
    device.failing = "synchronize"
    [diagnostic] = broken(kernel.synchronize)
    grids = [note.rpartition("(grid (")[2].partition(",")[0] for note, _ in diagnostic.notes]
    assert grids == [str(grid) for grid in range(15, 30)] + ["9"]


def test_refused_launch_names_the_kernel_and_the_suspects() -> None:
    kernel, device = loaded(signature())
    kernel.launch(2)
    device.failing = "launch"
    [diagnostic] = broken(lambda: kernel.launch(3))
    assert diagnostic.rule_id == "launch.failed"
    assert "kernel k (grid (3, 1, 1)): CUDA_ERROR_ILLEGAL_ADDRESS" in diagnostic.message
    assert [note for note, _ in diagnostic.notes] == ["launched before, not synchronised yet: k (grid (2, 1, 1))"]


def _prepared(kernel: Any, array: Any) -> None:
    kernel.prepare(3, array).run()


WAYS = {
    "launch": lambda kernel, array: kernel.launch(3, array),
    "subscript": lambda kernel, array: kernel[3](array),
    "prepared": _prepared,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize(("failing", "stream"), [("launch", None), ("order", 9)])
def test_what_the_driver_refuses_is_told_by_every_way_to_launch(
    way: str, before: int, failing: str, stream: int | None
) -> None:
    kernel, device = loaded(signature(POINTER))
    array = FakeArray((4,), stream=stream)
    for _ in range(before):
        WAYS[way](kernel, array)
    launched = len(device.named("launch"))
    device.failing = failing
    [diagnostic] = broken(lambda: WAYS[way](kernel, array))
    assert diagnostic.rule_id == "launch.failed"
    assert "kernel k (grid (3, 1, 1)): CUDA_ERROR_ILLEGAL_ADDRESS" in diagnostic.message
    assert len(diagnostic.notes) == before
    assert len(device.named("launch")) - launched == (failing == "launch" and device.named("launch") != [])


def test_other_streams_work_on_an_array_comes_first() -> None:
    kernel, device = loaded(signature(POINTER, POINTER, POINTER))
    kernel.launch(1, FakeArray((4,), stream=9), FakeArray((4,), stream=1), FakeArray((4,), stream=9))
    assert device.named("order") == [[9, 0]]
    assert [call[0] for call in device.calls][-2:] == ["order", "launch"]


def test_tensor_map_is_encoded_from_the_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvbackend.runtime.tensor_map.encode", lambda name, plan: (name, plan))
    kernel, device = loaded(signature(Scalar(types.u8), TensorMap(types.bf16, (8, 64))))
    kernel.launch(1, 3, FakeArray((256, 512), "<V2"))
    [(*_, arguments)] = device.named("launch")
    name, plan = arguments[1]
    assert name == "p1"
    assert (plan.data_type, plan.shape, plan.box) == ("BFLOAT16", (256, 512), (8, 64))


def test_stream_handles_of_every_library() -> None:
    streams = (
        (None, 0),
        *((handle, handle) for handle in (0, 1, 2, 4096, 0x7F00_0000_1230, (1 << 64) - 8)),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 18)), 18),
        (SimpleNamespace(__cuda_stream__=(0, 19)), 19),
        (SimpleNamespace(cuda_stream=20), 20),
        (SimpleNamespace(ptr=21), 21),
    )
    for stream, expected in streams:
        assert stream_handle(stream) == expected
    for wrong in ("0", 1.5, object(), True, -1, 3, 4095, 1 << 64, 10**30):
        assert rules(functools.partial(stream_handle, wrong)) == ["launch.stream"]
    for wrong, words in ((3, "3 "), (1 << 64, f"{1 << 64} "), (object(), "an object"), ("0", "a str")):
        [diagnostic] = broken(functools.partial(stream_handle, wrong))
        assert words in f"{diagnostic.message} ", diagnostic.message
    assert same_stream(0, 1)
    assert not same_stream(1, 2)


def test_machine_without_a_gpu_gets_a_diagnostic_and_one_line() -> None:
    code = """
import sys
sys.modules["numba.cuda"] = None
from nvbackend.runtime import gpu_available, no_gpu_reason, load, synchronize
from nvbackend.diagnostics import DiagnosticError
from tests.support.runtime import FakeCompiled, signature
assert not gpu_available()
print(no_gpu_reason())
for action in (lambda: load(FakeCompiled(signature()), device="gpu"), synchronize):
    try:
        action()
    except DiagnosticError as error:
        print(error.diagnostics[0].rule_id)
"""
    reason, *found = python_output(code).splitlines()
    assert reason
    assert found == ["launch.no-gpu", "launch.no-gpu"]


def test_importing_the_runtime_loads_no_cuda() -> None:
    code = "import sys, nvbackend.runtime; print(*{name.split('.')[0] for name in sys.modules})"
    assert not {"numpy", "numba", "cuda", "llvmlite", "torch"} & set(python_output(code).split())
