"""Local arrays and register tensors with run-time indices, on a GPU and in the simulator, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32, u8, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import DiagnosticError
from nvbackend.signature import Parameter, Pointer
from tests.support.devices import on_devices
from tests.support.numbers_kernel import words

THREADS = 32


def _refused(body: Any) -> list[str]:
    k: Any = KernelBuilder("local", "sm_90a", threads=THREADS, parameters=[Parameter("out", Pointer(u32))])
    with pytest.raises(DiagnosticError) as refused:
        body(k, *k.arguments)
    return [one.rule.id for one in refused.value.diagnostics]


@on_devices
def test_a_histogram_of_each_thread(device: str) -> None:
    """Counts in a local array, whose indices are data."""

    def body(k: Any, source: Any, out: Any) -> None:
        counts = k.local.array(u32, 8, fill=0)
        with k.range(16) as i:
            value = source[k.thread_id() * 16 + i]
            counts[value] = counts[value] + 1
        for index in range(8):
            out[k.thread_id() * 8 + index] = counts[index]

    given = np.random.default_rng(0).integers(0, 8, (THREADS, 16)).astype(np.uint32)
    wanted = np.array([np.bincount(row, minlength=8) for row in given])
    assert np.array_equal(words(body, given, THREADS * 8).reshape(THREADS, 8), wanted)


@on_devices
@pytest.mark.parametrize("element", [u8, f16, f32])
def test_elements_of_every_width_are_permuted(device: str, element: Any) -> None:
    """out[i] is element (5 i + lane) % 16 of what was stored by another run-time index."""

    def body(k: Any, source: Any, out: Any) -> None:
        array, lane = k.local.array(element, 16), k.thread_id()
        with k.range(16) as i:
            array[(i * 3) % 16] = (source[i] & 63).to(f32).to(element)
        with k.range(16) as i:
            out[lane * 16 + i] = array[(5 * i + lane.to(i32)) % 16].to(f32).to(u32)

    given = np.random.default_rng(1).integers(0, 1 << 32, 16, np.uint64).astype(np.uint32)
    stored = np.zeros(16, np.uint32)
    stored[np.arange(16) * 3 % 16] = given & 63
    index = (5 * np.arange(16) + np.arange(THREADS)[:, None]) % 16
    assert np.array_equal(words(body, given, THREADS * 16).reshape(THREADS, 16), stored[index])


@on_devices
@pytest.mark.parametrize("by", ["select", "local"])
@pytest.mark.parametrize("element", [u32, f16])
def test_a_register_tensor_is_read_and_written_by_a_run_time_index(device: str, by: str, element: Any) -> None:
    def body(k: Any, source: Any, out: Any) -> None:
        tensor, lane = k.register_tensor(element, (2, 4)), k.thread_id()
        for index in range(8):
            tensor.write(source[lane] % 8 ^ index, k.const(index + 1, f32).to(element))
        out[lane] = tensor.read((source[lane] >> 3) % 8, by=by).to(f32).to(u32)

    given = np.random.default_rng(2).integers(0, 1 << 16, THREADS, np.uint64).astype(np.uint32)
    wanted = ((given >> 3) % 8 ^ given % 8) + 1
    assert np.array_equal(words(body, given, THREADS), wanted)


def test_only_run_time_indices_take_local_memory() -> None:
    def ptx(index: Any, by: str) -> str:
        parameters = [
            Parameter("out", Pointer(f32)),
            Parameter("n", i32),
        ]
        k: Any = KernelBuilder("local", "sm_90a", threads=THREADS, parameters=parameters)
        out, n = k.arguments
        tensor = k.register_tensor(f32, 4)
        tensor.set([out[place] for place in range(4)])
        array = k.local.array(f32, 4)
        for place in range(4):
            array[place] = out[8 + place]
        out[16] = tensor.read(n, by=by) + array[n if index is None else index]
        return str(k.finish().compile(assemble=False).ptx)

    assert ".local" not in ptx(2, "select")
    assert "ld.local" in ptx(None, "select")
    assert "ld.local" in ptx(2, "local")


def test_a_loop_over_an_array_is_judged_by_no_number_of_it() -> None:
    """The dry run takes each element for unknown, so that a branch on one is right either way."""

    def body(k: Any, out: Any) -> None:
        array = k.local.array(u32, 4, fill=0)
        with k.range(4) as i:
            array[i] = i.to(u32)
        with k.if_(array[out[0] % 4] == 0):
            out[1] = array[1]

    k: Any = KernelBuilder("local", "sm_90a", threads=THREADS, parameters=[Parameter("out", Pointer(u32))])
    body(k, *k.arguments)
    assert k.finish().diagnostics == ()


@pytest.mark.parametrize(
    ("rule", "body"),
    [
        ("local.extent", lambda k, out: k.local.array(f32, 0)),
        ("local.extent", lambda k, out: k.local.array(u8, 512 * 1024 + 1)),
        ("local.extent", lambda k, out: k.local.array(f32, 1 << 20)),
        ("local.index", lambda k, out: k.local.array(f32, 4, name="a")[4]),
        ("local.index", lambda k, out: k.local.array(f32, 4, name="a")[-1]),
        ("memory.element", lambda k, out: k.local.array(nvb.e2m1, 4)),
        ("value.type", lambda k, out: k.local.array(f32, 4, fill=out[0])),
        ("value.operation", lambda k, out: k.local.array(f32, 4)[out[0].to(f32)]),
        ("call.noun", lambda k, out: k.local(f32, 4)),
        ("instruction.variant", lambda k, out: k.register_tensor(f32, 4).read(out[0], by="memory")),
    ],
)
def test_what_is_no_local_array_is_refused(rule: str, body: Any) -> None:
    assert _refused(body) == [rule]


def test_one_byte_and_all_of_a_threads_memory_are_arrays() -> None:
    k: Any = KernelBuilder("local", "sm_90a", threads=THREADS)
    assert [k.local.array(u8, count).count for count in (1, 512 * 1024)] == [1, 512 * 1024]


def test_an_index_of_every_type_counts_elements() -> None:
    """Of 8 and 16 bits as well: an unsigned one past half of its range is no negative one."""
    kinds = (nvb.u8, nvb.u16, u32, nvb.u64, nvb.s8, nvb.s16, i32, nvb.s64)

    @nvb.kernel("sm_90a", threads=THREADS)
    def indexed(k, out: nvb.Pointer[u32]):
        array = k.local.array(u32, 256)
        with k.range(256) as i:
            array[i] = (i * 3).to(u32)
        for place, kind in enumerate(kinds):
            index = k.thread_id() + (0 if kind is nvb.s8 else 200)
            out[place * THREADS + k.thread_id()] = array[index.to(kind)]

    got = np.zeros((len(kinds), THREADS), np.uint32)
    nvb.runtime.load(indexed.compile(assemble=False), device="simulator").launch(1, got)
    for kind, row in zip(kinds, got, strict=True):
        assert row.tolist() == [3 * (lane + (0 if kind is nvb.s8 else 200)) for lane in range(THREADS)], kind


def test_an_array_ends_with_its_block() -> None:
    def body(k: Any, out: Any) -> None:
        with k.if_(out[0] == 1):
            array = k.local.array(u32, 4)
        out[0] = array[0]

    assert _refused(body) == ["value.scope"]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"name": np.int64(7)}, "call.argument"),
        ({"name": f32}, "call.argument"),
        ({"name": "\ud800"}, "value.name"),
        ({"name": "x" * 300}, "value.name"),
    ],
)
def test_a_name_is_printable_text(options: Any, rule: str) -> None:
    assert _refused(lambda k, out: k.local.array(f32, 4, **options)) == [rule]


def test_the_count_is_known_when_the_kernel_is_built() -> None:
    assert _refused(lambda k, out: k.local.array(f32, k.thread_id())) == ["call.argument"]


def _built(body: Any) -> list[str]:
    """The rules that a build of it breaks."""
    k: Any = KernelBuilder("local", "sm_90a", threads=THREADS, parameters=[Parameter("out", Pointer(u32))])
    body(k, k.arguments[0], k.local.array(u32, 4, name="own"))
    try:
        k.finish()
    except DiagnosticError as error:
        return [one.rule_id for one in error.diagnostics if one.location is not None and one.location.file == __file__]
    return []


def _counted(k: Any, out: Any, own: Any, last: int, first: int = 0) -> None:
    own[0] = 1
    with k.range(first, last) as i:
        own[i] = own[i] + 1


@pytest.mark.parametrize(
    ("rules", "body"),
    [
        (["local.index"], lambda k, out, own: _counted(k, out, own, 5)),
        (["local.index"], lambda k, out, own: _counted(k, out, own, 4, -1)),
        ([], lambda k, out, own: _counted(k, out, own, 4)),
        (["local.index"], lambda k, out, own: own.__setitem__(k.thread_id(), 1)),
        ([], lambda k, out, own: own.__setitem__(k.thread_id() % 4, 1)),
        ([], lambda k, out, own: own.__setitem__(out[0], 1)),  # nobody knows
        (["local.unwritten"], lambda k, out, own: out.store(own[2])),
        (["local.unwritten"], lambda k, out, own: out.store(own[out[1]])),
        ([], lambda k, out, own: (own.__setitem__(out[0], 1), out.store(own[2]))),
    ],
)
def test_indices_that_a_build_knows(rules: list[str], body: Any) -> None:
    assert _built(body) == rules


@pytest.mark.parametrize(("first", "last", "told"), [(0, 5, 4), (-1, 4, -1), (7, 8, 7)])
def test_the_element_of_a_local_array_is_told(first: int, last: int, told: int) -> None:
    """Counted in elements of 4 bytes, not in bytes."""
    k: Any = KernelBuilder("local", "sm_90a", threads=THREADS, parameters=[Parameter("out", Pointer(u32))])
    _counted(k, k.arguments[0], k.local.array(u32, 4, name="own"), last, first)
    with pytest.raises(DiagnosticError) as caught:
        k.finish()
    texts = {one.message for one in caught.value.diagnostics if one.rule_id == "local.index"}
    assert {text.split(",")[0] for text in texts} == {f"element {told} of own"}


@pytest.mark.parametrize("index", [-1, 4, 9])
def test_numbers_outside_a_register_tensor(index: int) -> None:
    def tensor(k: Any) -> Any:
        return k.register_tensor(u32, (4,))

    assert _refused(lambda k, out: tensor(k).read(index)) == ["tensor.coordinate"]
    assert _refused(lambda k, out: tensor(k).write(index, k.const(1, u32))) == ["tensor.coordinate"]
