"""Vector accesses with `where`, on a GPU and in the simulator, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import DiagnosticError
from nvbackend.signature import Parameter, Pointer, Scalar
from tests.support.devices import on_devices

THREADS = 32


def _kernel(body: Any, element: Any, target: str = "sm_90a") -> Any:
    kinds = {"x": Pointer(element), "out": Pointer(element), "n": Scalar(i32)}
    k: Any = KernelBuilder("masked", target, threads=THREADS, parameters=[Parameter(*one) for one in kinds.items()])
    body(k, *k.arguments)
    return k.finish()


@on_devices
@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_edge_of_an_array_is_loaded_and_stored_element_by_element(device: str, count: int) -> None:
    """Memory after the end is neither read into the result nor written; what is left out is `otherwise`."""
    from numba import cuda

    def body(k: Any, x: Any, out: Any, n: Any) -> None:
        place = k.thread_id() * count
        values = (x + place).load(count, where=n - place, otherwise=-1.0)
        (out + place).store(*(value * 2.0 for value in values), where=n - place)
        (out + place + THREADS * count).store(*values)

    loaded = nvb.runtime.load(_kernel(body, f32).compile())
    whole = THREADS * count
    for n in (0, 1, count, whole // 2 + 1, whole - 1, whole, whole + 5):
        x = np.arange(1, whole + 1, dtype=np.float32)
        out = cuda.to_device(np.full(2 * whole, 99, np.float32))
        loaded.launch(1, cuda.to_device(x), out, n)
        loaded.synchronize()
        inside = np.arange(whole) < n
        wanted = np.concatenate([np.where(inside, 2 * x, 99), np.where(inside, x, -1)])
        assert np.array_equal(out.copy_to_host(), wanted), n


@pytest.mark.parametrize("given", [{}, {"otherwise": 0}, {"otherwise": 0.0}], ids=["none", "int", "float"])
@pytest.mark.parametrize("element", [nvb.e4m3, nvb.e5m2, nvb.f16x2, nvb.bf16x2, nvb.f32x2], ids=str)
def test_zero_is_left_of_types_that_have_no_constants(element: Any, given: dict[str, Any]) -> None:
    def body(k: Any, x: Any, out: Any, n: Any) -> None:
        lane = k.thread_id()
        (value,) = (x + lane).load(where=lane < n, **given)
        out[lane] = value

    bits = f"u{element.bits // 8}"
    x, out = np.arange(1, THREADS + 1).astype(bits), np.full(THREADS, 99, bits)
    nvb.runtime.load(_kernel(body, element, "sm_100a").compile(), device="simulator").launch(1, x, out, 5)
    assert out.tolist() == [1, 2, 3, 4, 5] + [0] * (THREADS - 5)


@on_devices
def test_a_predicate_takes_all_or_nothing(device: str) -> None:
    from numba import cuda

    def body(k: Any, x: Any, out: Any, n: Any) -> None:
        lane = k.thread_id()
        values = (x + lane * 8).load(8, where=lane < n)
        (out + lane * 8).store(*values, where=lane % 2 == 0)

    loaded = nvb.runtime.load(_kernel(body, f16).compile())
    x = np.arange(THREADS * 8).astype(np.float16)
    out = cuda.to_device(np.full(THREADS * 8, 99, np.float16))
    loaded.launch(1, cuda.to_device(x), out, 5)
    loaded.synchronize()
    lane = np.arange(THREADS * 8) // 8
    assert np.array_equal(out.copy_to_host(), np.where(lane % 2 == 0, np.where(lane < 5, x, 0), 99))


def test_a_whole_vector_is_one_access() -> None:
    def body(k: Any, x: Any, out: Any, n: Any) -> None:
        place = k.thread_id() * 4
        (out + place).store(*(x + place).load(4, where=n - place), where=n - place)

    ptx = str(_kernel(body, f32).compile(assemble=False).ptx)
    assert (ptx.count("ld.global.v4.b32"), ptx.count("st.global.v4.b32")) == (1, 1)
    assert (ptx.count("ld.global.b32"), ptx.count("st.global.b32")) == (3, 3)


@pytest.mark.parametrize(
    ("rule", "call"),
    [
        ("value.type", lambda x: x.load(4, where=1.5)),
        ("memory.alignment", lambda x: (x + 1).load(4, where=3)),
        ("memory.vector", lambda x: x.load(3, where=2)),
        ("value.constant", lambda x: x.load(4, where=3, otherwise=1e99)),
    ],
)
def test_what_is_no_mask_is_refused(rule: str, call: Any) -> None:
    with pytest.raises(DiagnosticError) as refused:
        _kernel(lambda k, x, out, n: call(x), f32)
    assert [one.rule.id for one in refused.value.diagnostics] == [rule]


def test_a_refused_access_leaves_the_kernel_whole() -> None:
    def body(k: Any, x: Any, out: Any, n: Any) -> None:
        for wrong in (
            lambda: x.load(4, where=n, order="release", scope="gpu"),
            lambda: x.store(0.0, where=n, evict="L3"),
            lambda: x.store(0.0, where=n, order="acquire"),
        ):
            with pytest.raises(DiagnosticError):
                wrong()
        out.store(x[0], where=n)

    assert _kernel(body, f32).diagnostics == ()
