"""Launching again: what was found right is not checked again, and what differs in anything is checked anew."""

from __future__ import annotations

import ctypes
import gc
import weakref
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from nvbackend import DiagnosticError, runtime
from nvbackend.intrinsics.row import types
from nvbackend.runtime import tensor_map
from nvbackend.runtime.arguments import binder
from nvbackend.runtime.arguments.arrays import array_facts, read_array
from nvbackend.runtime.arguments.binder import Binder, Bound
from nvbackend.signature import Pointer, Scalar, TensorMap
from tests.support.like_torch import ADDRESS, Keyed, SimpleDevice, Sparse, Tensor
from tests.support.runtime import FakeArray, FakeCompiled, FakeDevice, broken, rules, signature

MAP = TensorMap(types.f16, (8, 64))
POINTER = Pointer(types.f16)


@pytest.fixture(autouse=True)
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[tensor_map.TensorMapPlan]:
    """Every plan that is encoded, in order."""
    plans: list[tensor_map.TensorMapPlan] = []

    def encode(_name: str, plan: tensor_map.TensorMapPlan) -> tuple[str, tensor_map.TensorMapPlan]:
        plans.append(plan)
        return ("map", plan)

    monkeypatch.setattr(tensor_map, "encode", encode)
    return plans


def loaded(*kinds: Any, **bounds: Any) -> tuple[runtime.LoadedKernel, FakeDevice]:
    device = FakeDevice()
    return runtime.load(FakeCompiled(signature(*kinds, **bounds)), device=device), device


@pytest.mark.parametrize("kind", [MAP, POINTER], ids=["map", "pointer"])
@pytest.mark.parametrize("make", [Tensor, lambda: FakeArray((64, 128))], ids=["torch", "interface"])
def test_the_same_array_is_checked_once(
    kind: Any, make: Any, monkeypatch: pytest.MonkeyPatch, encoded: list[tensor_map.TensorMapPlan]
) -> None:
    checked: list[str] = []
    check = binder.check_array

    def counted(name: str, *rest: Any) -> Any:
        checked.append(name)
        return check(name, *rest)

    monkeypatch.setattr(binder, "check_array", counted)
    kernel, device = loaded(kind, kind)
    asked: list[int] = []
    monkeypatch.setattr(device, "ordinal_of", lambda pointer: asked.append(pointer) or 0)
    array = make()
    for _ in range(5):
        kernel.launch(3, array, array)
    assert checked == ["p0", "p1"]
    assert len(encoded) == (1 if kind is MAP else 0)
    assert len(asked) <= 2
    first, *again = [arguments for *_, arguments in device.named("launch")]
    assert again == [first] * 4


@pytest.mark.parametrize("kind", [MAP, POINTER], ids=["map", "pointer"])
def test_another_array_at_the_same_address_is_asked_for_its_device_alone(
    kind: Any, monkeypatch: pytest.MonkeyPatch, encoded: list[tensor_map.TensorMapPlan]
) -> None:
    """What its interface says was checked; only its memory may have gone to another device in between."""
    kernel, device = loaded(kind, kind)
    asked: list[int] = []
    monkeypatch.setattr(device, "ordinal_of", lambda pointer: asked.append(pointer) or 0)
    first, others = FakeArray((64, 128)), [FakeArray((64, 128)) for _ in range(5)]
    for other in others:
        kernel.launch(3, first, other)
    assert len(asked) == 1 + len(others)
    assert len(encoded) == (1 if kind is MAP else 0)
    kernel.launch(3, first, others[-1])
    assert len(asked) == 1 + len(others)


TORCH_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"pointer": ADDRESS + 2}, "address"),
    ({"shape": (64, 128, 1), "strides": (128, 1, 1)}, "rank"),
    ({"shape": (0, 128)}, "shape"),
    ({"strides": (128, 2)}, "strides"),
    ({"strides": (132, 1)}, "row stride"),
    ({"dtype": "torch.bfloat16"}, "dtype"),
    ({"dtype": "torch.float32", "item_bytes": 4}, "dtype"),
    ({"device": SimpleDevice("cuda", 1)}, "other device"),
    ({"device": SimpleDevice("cpu", 0)}, "host"),
]
EXPECTED = {
    "address": ("tensor-map.address", "launch.alignment"),
    "rank": ("tensor-map.rank", None),
    "shape": ("tensor-map.extent", "launch.shape"),
    "strides": ("tensor-map.inner-stride", "launch.stride"),
    "row stride": ("tensor-map.stride", "launch.stride"),
    "dtype": ("launch.dtype", "launch.dtype"),
    "other device": ("launch.device", "launch.device"),
    "host": ("launch.device", "launch.device"),
}


@pytest.mark.parametrize("kind", [MAP, POINTER], ids=["map", "pointer"])
@pytest.mark.parametrize("make", [Tensor, Keyed], ids=["facts", "key"])
@pytest.mark.parametrize(("changes", "what"), TORCH_CHANGES, ids=lambda given: given if isinstance(given, str) else "")
def test_a_tensor_that_has_changed_is_checked_anew(kind: Any, make: Any, changes: dict[str, Any], what: str) -> None:
    kernel, device = loaded(kind)
    tensor = make()
    for launches in range(4):  # the first is checked, the next ones are known by more and more
        for name in changes:
            setattr(tensor, name, getattr(make(), name))
        kernel.launch(1, tensor)
        for name, value in changes.items():
            setattr(tensor, name, value)
        expected = EXPECTED[what][0 if kind is MAP else 1]
        if expected is None:
            kernel.launch(1, tensor)
            continue
        assert expected in rules(lambda: kernel.launch(1, tensor))
        assert expected in rules(lambda: kernel.launch(1, tensor)), "what was refused is refused again"
        assert len(device.named("launch")) == launches + 1


def test_a_tensor_with_a_key_is_asked_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    facts: list[object] = []
    monkeypatch.setattr(binder, "array_facts", lambda given: facts.append(given) or array_facts(given))
    kernel, device = loaded(MAP, POINTER)
    tensors = [Keyed(), Keyed(ADDRESS + 4096)]
    for _ in range(5):
        kernel.launch(1, *tensors)
    asked = len(facts)
    for _ in range(3):
        kernel.launch(1, *(type(each)(each.pointer) for each in tensors))
    assert len(facts) == asked <= 6
    first, *again = [values for *_, values in device.named("launch")]
    assert again == [first] * 7
    assert (first[0][1].pointer, first[1]) == (ADDRESS, ADDRESS + 4096)


def test_a_tensor_whose_key_cannot_be_asked_for() -> None:
    kernel, device = loaded(POINTER)
    tensor = Keyed()
    for _ in range(3):
        kernel.launch(1, tensor)
    vars(tensor)["data_ptr"] = Sparse().data_ptr
    assert rules(lambda: kernel.launch(1, tensor)) == ["launch.argument-kind"]
    assert rules(lambda: kernel.launch(1, Sparse())) == ["launch.argument-kind"]
    assert len(device.named("launch")) == 3


@pytest.mark.parametrize(("extents", "strides"), [((1, 128), (7, 1)), ((64, 1), (1, 1))], ids=str)
def test_strides_of_one_element_do_not_matter_to_a_key(extents: tuple[int, int], strides: tuple[int, int]) -> None:
    kernel, device = loaded(POINTER)
    tensor = Keyed()
    for given in ((extents[1], 1), strides, (extents[1], 1)) * 2:
        tensor.shape, tensor.strides = extents, given
        kernel.launch(1, tensor)
    assert {values for *_, values in device.named("launch")} == {(ADDRESS,)}


@pytest.mark.parametrize("kind", [MAP, POINTER], ids=["map", "pointer"])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"typestr": "<f4"}, "launch.dtype"),
        ({"typestr": ">f2"}, "launch.dtype"),
        ({"data": (ADDRESS + 8, False)}, ("tensor-map.address", "launch.alignment")),
        ({"strides": (2, 128)}, ("tensor-map.inner-stride", "launch.stride")),
        ({"shape": (64, 0)}, ("tensor-map.extent", "launch.shape")),
        ({"shape": None}, "launch.argument-kind"),
        ({"data": (0x1000, False)}, "launch.device"),
        ({"data": (0x2000, False)}, "launch.device"),
    ],
)
def test_an_interface_that_has_changed_is_checked_anew(kind: Any, changes: dict[str, Any], expected: Any) -> None:
    kernel, device = loaded(kind)
    device.owners |= {0x1000: 1, 0x2000: None}
    array = FakeArray((64, 128))
    kernel.launch(1, array)
    array.__cuda_array_interface__ |= changes
    rule = expected if isinstance(expected, str) else expected[0 if kind is MAP else 1]
    assert rule in rules(lambda: kernel.launch(1, array))
    assert len(device.named("launch")) == 1


def test_a_name_that_the_type_string_lacks_is_part_of_what_an_array_says() -> None:
    kernel, _ = loaded(Pointer(types.e4m3))
    array = FakeArray((64,), "|V1", dtype=SimpleNamespace(name="float8_e4m3fn"))
    kernel.launch(1, array)
    array.dtype = SimpleNamespace(name="float8_e5m2")
    assert rules(lambda: kernel.launch(1, array)) == ["launch.dtype"]


def test_memory_that_now_belongs_to_another_device() -> None:
    """Freed and allocated again: the same address, the same type and shape, another device."""
    kernel, device = loaded(POINTER)
    first = FakeArray((64,))
    kernel.launch(1, first)
    device.owners[ADDRESS] = 1
    assert rules(lambda: kernel.launch(1, FakeArray((64,)))) == ["launch.device"]
    del first
    gc.collect()
    assert rules(lambda: kernel.launch(1, FakeArray((64,)))) == ["launch.device"]
    device.owners[ADDRESS] = 0
    kernel.launch(1, FakeArray((64,)))


class Slotted:
    """An array that no weak reference can be made to."""

    __slots__ = ("__cuda_array_interface__",)

    def __init__(self) -> None:
        self.__cuda_array_interface__ = FakeArray((64,)).__cuda_array_interface__


def test_an_object_without_weak_references_is_asked_each_time() -> None:
    kernel, device = loaded(POINTER)
    array = Slotted()
    kernel.launch(1, array)
    kernel.launch(1, array)
    device.owners[ADDRESS] = 1
    assert rules(lambda: kernel.launch(1, array)) == ["launch.device"]


@pytest.mark.parametrize("make", [Tensor, Keyed], ids=["facts", "key"])
def test_each_content_has_its_own_map(make: Any, encoded: list[tensor_map.TensorMapPlan]) -> None:
    wide, narrow, plain = MAP, TensorMap(types.f16, (8, 32), 64), TensorMap(types.f16, (8, 32), 0)
    kernel, device = loaded(wide, narrow, plain)
    tensor = make()
    variants: list[dict[str, Any]] = [
        {},
        {"pointer": ADDRESS + 4096},
        {"shape": (32, 128)},
        {"strides": (256, 1)},
        {"strides": (384, 1)},
    ]
    for _ in range(4):
        for changes in variants:
            tensor.__dict__.update(make().__dict__ | changes)
            kernel.launch(1, tensor, tensor, tensor)
    assert len(encoded) == len(set(encoded)) == 3 * len(variants)
    launches = [arguments for *_, arguments in device.named("launch")]
    assert launches == launches[: len(variants)] * 4
    for arguments_, changes in zip(launches, variants, strict=False):
        plans = [plan for _, plan in arguments_]
        assert [(plan.box, plan.swizzle) for plan in plans] == [((8, 64), 128), ((8, 32), 64), ((8, 32), 0)]
        for plan in plans:
            assert plan.pointer == changes.get("pointer", ADDRESS)
            assert plan.shape == changes.get("shape", (64, 128))
            assert plan.strides[0] == 2 * changes.get("strides", (128, 1))[0]


def test_types_of_equal_width_have_maps_of_their_own(encoded: list[tensor_map.TensorMapPlan]) -> None:
    kernel, _ = loaded(MAP, TensorMap(types.bf16, (8, 64)))
    kernel.launch(1, Tensor(), Tensor(dtype="torch.bfloat16"))
    assert [plan.data_type for plan in encoded] == ["FLOAT16", "BFLOAT16"]


@pytest.mark.parametrize(
    ("good", "bad"), [(2, 2.0), ((2, 3), (2, 3.0)), ((4, 1, 1), (4, 1, 1.0)), (6, 6 + 0j)], ids=str
)
def test_grids_that_compare_equal_are_not_one(good: Any, bad: Any) -> None:
    kernel, device = loaded(cluster=2)
    for launches in range(4):
        found = []
        for grid in (good, bad):  # one line, as launches are known by it
            found += rules(lambda: kernel.launch(grid))  # noqa: B023
        assert set(found) == {"launch.grid"}
        assert len(device.named("launch")) == launches + 1


def test_a_grid_that_was_refused_is_refused_again() -> None:
    kernel, device = loaded(cluster=4)
    for _ in range(3):
        assert rules(lambda: kernel.launch((6, 2))) == ["launch.grid"]
    kernel.launch((8, 2))
    kernel.launch((8, 3))
    kernel.launch([8, 2])
    grids = [configuration.grid for _, configuration, *_ in device.named("launch")]
    assert grids == [(8, 2, 1), (8, 3, 1), (8, 2, 1)]


def test_names_are_refused_also_where_the_rest_was_launched() -> None:
    kernel, device = loaded(POINTER)
    array = Tensor()
    in_brackets: Any = kernel[2]
    for launch in (lambda **named: kernel.launch(2, array, **named), lambda **named: in_brackets(array, **named)):
        for _ in range(2):
            launch()
        count = len(device.named("launch"))
        with pytest.raises(DiagnosticError) as caught:
            launch(p0=array)
        assert len(device.named("launch")) == count
        assert caught.value.diagnostics[0].rule_id in ("launch.call", "call.argument")
        assert "p0" in str(caught.value)


def test_numbers_are_read_at_each_launch() -> None:
    kernel, device = loaded(Scalar(types.s32), Scalar(types.f32), Scalar(types.u8))
    for values in ((1, 1.0, 1), (-1, -0.0, 255), (1, 0.0, True), (2**31 - 1, 2, 0), (-(2**31), 1.5, False)):
        kernel.launch(1, *values)
    bits = [[int(argument) for argument in arguments_] for *_, arguments_ in device.named("launch")]
    assert bits == [
        [1, 0x3F800000, 1],
        [2**32 - 1, 0x80000000, 255],
        [1, 0, 1],
        [2**31 - 1, 0x40000000, 0],
        [2**31, 0x3FC00000, 0],
    ]
    for wrong in ((2**31, 1.0, 1), (-(2**31) - 1, 1.0, 1), (1, 1.0, 256), (1, 1.0, -1)):
        assert rules(lambda wrong=wrong: kernel.launch(1, *wrong)) == ["launch.scalar-range"]  # type: ignore[misc]


def test_a_number_that_passed_means_the_same_later() -> None:
    """Also where Python calls numbers equal that are not the same argument, and after more than are remembered."""
    kernel, device = loaded(Scalar(types.s32), Scalar(types.f32))
    wanted = []
    for number in (1, 0, *range(3000, 3000 + 3 * binder.KNOWN_NUMBERS), 1, 0):
        kernel.launch(1, number, number)
        wanted.append([number, int(numpy.float32(number).view("uint32"))])
    for given, bits in ((True, 1), (numpy.int64(1), 1), (False, 0)):
        kernel.launch(1, given, 0.0)
        wanted.append([bits, 0])
    kernel.launch(1, 0, -0.0)
    wanted.append([0, 0x80000000])
    assert [[int(value) for value in values] for *_, values in device.named("launch")] == wanted
    assert rules(lambda: kernel.launch(1, 1.0, 1.0)) == ["launch.argument-kind"]


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (4.0, "4, an integer"),
        (4.5, "an integer: round it first"),
        (numpy.float32(4.0), "4, an integer"),
        (numpy.float16(4.5), "an integer: round it first"),
        (numpy.array(4.5), "an integer: round it first"),
        ("4", "a scalar of s32"),
        (numpy.zeros(1, numpy.float32), "a scalar of s32"),
        (SimpleNamespace(dtype=numpy.dtype("f4"), shape=()), "a scalar of s32"),
    ],
)
def test_the_fix_for_a_whole_float_is_the_integer(number: object, advice: str) -> None:
    kernel, _ = loaded(Scalar(types.s32))
    with pytest.raises(DiagnosticError) as caught:
        kernel.launch(1, number)
    assert caught.value.diagnostics[0].fix.endswith(advice)
    kernel.launch(1, 4)


def test_other_streams_are_waited_for_at_each_launch() -> None:
    kernel, device = loaded(POINTER)
    array = FakeArray((64,), stream=0x9000)
    for stream in (0, 0, 0x9000, 0x5000):
        kernel.launch(1, array, stream=stream)
    array.__cuda_array_interface__["stream"] = 7
    kernel.launch(1, array)
    assert device.named("order") == [[0x9000, 0], [0x9000, 0], [0x9000, 0x5000], [7, 0]]


@pytest.mark.parametrize("kind", [MAP, POINTER], ids=["map", "pointer"])
def test_a_negated_view_of_the_same_memory_is_refused(kind: Any) -> None:
    """PyTorch's z.conj().imag: everything else that it says is what its base says."""
    kernel, device = loaded(kind)
    for tensor in (Tensor(), Keyed()):
        given: Any = tensor
        before = len(device.named("launch"))
        for launches in range(4):
            given.is_neg = lambda: False
            kernel.launch(1, given)
            given.is_neg = lambda: True
            [diagnostic] = broken(lambda: kernel.launch(1, given))  # noqa: B023
            assert diagnostic.rule_id == "launch.dtype"
            assert "resolve_neg()" in diagnostic.message
            assert len(device.named("launch")) == before + launches + 1


def test_what_is_known_is_bound_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[object] = []
    bind = Binder.bind

    def counted(binder: Binder, given: Any, stream: int) -> Bound:
        bound.append(given)
        return bind(binder, given, stream)

    monkeypatch.setattr(Binder, "bind", counted)
    kernel, device = loaded(MAP, POINTER, Scalar(types.s32), Scalar(types.f32))
    tensor, array = Tensor(), FakeArray((64, 128))
    for number in range(5):
        kernel.launch((2, 1), tensor, array, number, number / 2)
    assert len(bound) == 1
    numbers = [[int(value) for value in values[2:]] for *_, values in device.named("launch")]
    assert numbers == [[0, 0], [1, 0x3F000000], [2, 0x3F800000], [3, 0x3FC00000], [4, 0x40000000]]
    other = FakeArray((64, 128))
    kernel.launch((2, 1), tensor, other, 0, 0.0)
    kernel.launch((3, 1), tensor, other, 0, 0.0)
    assert len(bound) == 3, "another object at the address, another grid"


@pytest.mark.parametrize(
    ("shape", "strides", "dtype", "stream"),
    [((64, 128), (256, 2), "f2", 0), ((64, 128), (512, 2), "f2", 7), ((3,), (-8,), "i8", 0), ((2, 1), (4, 4), "V4", 0)],
)
def test_arrays_of_numba_are_what_their_interface_says(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, stream: int
) -> None:
    kind = pytest.importorskip("numba.cuda.cudadrv.devicearray").DeviceNDArray
    array = kind.__new__(kind)  # its constructor asks the driver
    memory = SimpleNamespace(device_ctypes_pointer=ctypes.c_size_t(ADDRESS))
    vars(array).update(shape=shape, strides=strides, dtype=numpy.dtype(dtype), stream=stream, gpu_data=memory)
    array.ndim = len(shape)
    view = SimpleNamespace(__cuda_array_interface__=array.__cuda_array_interface__, dtype=array.dtype)
    found, expected = read_array(array), read_array(view)
    assert found is not None and expected is not None
    assert found == replace(expected, owner=array)
    assert (found.strides, found.stream) == (strides, stream or None)


@pytest.mark.parametrize("kind", [MAP, POINTER], ids=["map", "pointer"])
def test_an_array_that_was_launched_with_is_not_kept(kind: Any) -> None:
    kernel, _ = loaded(kind)
    for array in (FakeArray((64, 128)), Tensor()):
        kernel.launch(1, array)
    gone = weakref.ref(array)
    del array
    gc.collect()
    assert gone() is None


def test_a_prepared_launch_keeps_its_arrays() -> None:
    kernel, _ = loaded(POINTER)
    for _ in range(2):
        array = Tensor()
        prepared = kernel.prepare(1, array)
        kept = weakref.ref(array)
        del array
        gc.collect()
        assert kept() is not None
        prepared.run()
