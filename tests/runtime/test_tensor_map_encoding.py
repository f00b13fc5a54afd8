"""What cuda.core is told of a tensor map, by launches through a stand-in: every number differs from every other."""

from __future__ import annotations

import enum
import sys
from types import ModuleType
from typing import Any

import pytest

from nvbackend import runtime
from nvbackend.intrinsics.row import types
from nvbackend.signature import TensorMap
from tests.support.cuda import FakeCuda
from tests.support.runtime import FakeArray, FakeCompiled, rules, signature

ADDRESS = 0x7F0000000000
NAMES = {
    "TensorMapDataType": ("UINT8", "UINT16", "FLOAT16", "BFLOAT16", "FLOAT32", "INT32", "TFLOAT32", "FLOAT64"),
    "TensorMapSwizzle": ("NONE", "SWIZZLE_32B", "SWIZZLE_64B", "SWIZZLE_128B"),
    "TensorMapL2Promotion": ("NONE", "L2_64B", "L2_128B", "L2_256B"),
    "TensorMapOOBFill": ("NONE", "NAN_REQUEST_ZERO_FMA"),
}


class View:
    """cuda.core.utils.StridedMemoryView, as far as it describes memory."""

    made: list[dict[str, Any]]
    refusal: Exception | None

    def __init__(self, interface: dict[str, Any], stream_ptr: int) -> None:
        self.interface, self.stream_ptr = interface, stream_ptr

    @classmethod
    def from_cuda_array_interface(cls, given: Any, stream_ptr: int) -> View:
        interface = given.__cuda_array_interface__
        if interface["version"] < 3:
            raise BufferError("only CUDA Array Interface v3 or above is supported")  # as cuda.core
        return cls(interface, stream_ptr)

    def as_tensor_map(
        self, box_dim: tuple[int, ...], *, data_type: Any, swizzle: Any, l2_promotion: Any, oob_fill: Any
    ) -> object:
        if type(self).refusal is not None:
            raise type(self).refusal
        said = {one.__class__.__name__: one.name for one in (data_type, swizzle, l2_promotion, oob_fill)}
        type(self).made.append(self.interface | said | {"box": box_dim, "stream_ptr": self.stream_ptr})
        return ("descriptor", len(type(self).made))


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    View.made, View.refusal = [], None
    modules = {
        "cuda.core.utils": {"StridedMemoryView": View},
        "cuda.core._tensor_map": {name: enum.Enum(name, members) for name, members in NAMES.items()},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return FakeCuda(memory={ADDRESS: 0, ADDRESS + 4096: 0}).install(monkeypatch)


def test_the_stand_ins_names_are_cuda_cores() -> None:
    real = pytest.importorskip("cuda.core._tensor_map")
    for kind, members in NAMES.items():
        for member in members:
            assert hasattr(getattr(real, kind), member)


@pytest.mark.parametrize(
    ("element", "typestr", "box", "swizzle", "expected"),
    [
        (types.f16, "<f2", (24, 64), 128, ("FLOAT16", "SWIZZLE_128B", "L2_128B", "<u2")),
        (types.bf16, "<u2", (24, 32), 64, ("BFLOAT16", "SWIZZLE_64B", "L2_128B", "<u2")),
        (types.f32, "<f4", (24, 8), 32, ("FLOAT32", "SWIZZLE_32B", "L2_128B", "<u4")),
        (types.e4m3, "|u1", (24, 48), 0, ("UINT8", "NONE", "L2_128B", "|u1")),
        (types.f16, "<f2", (24, 128), 0, ("FLOAT16", "NONE", "L2_256B", "<u2")),
    ],
)
def test_a_launch_encodes_what_the_parameter_and_the_array_say(
    cuda: FakeCuda, element: Any, typestr: str, box: tuple[int, int], swizzle: int, expected: tuple[str, ...]
) -> None:
    item = int(typestr[2])
    kernel = runtime.load(FakeCompiled(signature(TensorMap(element, box, swizzle))))
    strides = (1024, item)
    for _ in range(2):
        kernel.launch(1, FakeArray((96, 144), typestr, strides=strides))
    [made] = View.made
    assert (made["TensorMapDataType"], made["TensorMapSwizzle"], made["TensorMapL2Promotion"]) == expected[:3]
    assert made["TensorMapOOBFill"] == "NONE"
    assert made["typestr"] == expected[3]
    assert made["box"] == box
    assert (made["shape"], made["strides"], made["data"]) == ((96, 144), strides, (ADDRESS, False))
    assert made["stream_ptr"] == -1
    assert [arguments for *_, arguments in cuda.launches] == [(("descriptor", 1),)] * 2


def test_each_array_has_its_own_map(cuda: FakeCuda) -> None:
    kernel = runtime.load(FakeCompiled(signature(TensorMap(types.f16, (8, 64)), TensorMap(types.f16, (8, 32), 64))))
    first, second = FakeArray((64, 64)), FakeArray((64, 64), pointer=ADDRESS + 4096)
    for pair in ((first, second), (second, first), (first, second)):
        kernel.launch(1, *pair)
    assert [(made["data"][0], made["box"]) for made in View.made] == [
        (ADDRESS, (8, 64)),
        (ADDRESS + 4096, (8, 32)),
        (ADDRESS + 4096, (8, 64)),
        (ADDRESS, (8, 32)),
    ]
    numbers = [[number for _, number in arguments] for *_, arguments in cuda.launches]
    assert numbers == [[1, 2], [3, 4], [1, 2]]


@pytest.mark.parametrize("refusal", [ValueError("no"), RuntimeError("CUDA_ERROR_INVALID_VALUE")])
def test_a_refusal_is_a_diagnostic_each_time(cuda: FakeCuda, refusal: Exception) -> None:
    kernel = runtime.load(FakeCompiled(signature(TensorMap(types.f16, (8, 64)))))
    array = FakeArray((64, 64))
    View.refusal = refusal
    for _ in range(2):
        assert rules(lambda: kernel.launch(1, array)) == ["tensor-map.encoding-failed"]
    assert not cuda.launches
    View.refusal = None
    kernel.launch(1, array)
    assert len(cuda.launches) == 1
