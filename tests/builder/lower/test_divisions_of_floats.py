"""Floats have no // and %: what is advised computes them, by NumPy."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, f64, pred


def advised(operation: Callable[[Any, Any], Any], element: nvb.ElementType) -> list[str]:
    """The expressions in x and y that the fix of `operation` shows, in an order that keeps the first one first."""

    @nvb.kernel("sm_80", threads=32)
    def refused(k: nvb.KernelBuilder, x: nvb.Pointer(element)) -> None:
        operation(x[0], x[1])

    with pytest.raises(nvb.DiagnosticError, match=r"value\.operation") as caught:
        refused.build()
    (found,) = caught.value.diagnostics
    return re.findall(r"(?:[xy] - [xy] \* )?k\.math\.floor\(x / y\)", found.fix)


@pytest.mark.parametrize("element", [f16, f32, f64])
@pytest.mark.parametrize("operation", [lambda x, y: x // y, lambda x, y: x % y], ids=["//", "%"])
def test_what_is_advised_gives_the_numbers_of_numpy(operation: Callable[..., Any], element: nvb.ElementType) -> None:
    (expression,) = advised(operation, element)

    @nvb.kernel("sm_80", threads=32)
    def followed(k: nvb.KernelBuilder, x: nvb.Pointer(element), out: nvb.Pointer(element)) -> None:
        thread = k.thread_id()
        out[thread] = eval(expression, {"k": k, "x": x[thread], "y": x[thread + 32]})

    random = np.random.default_rng(0)
    x, y = random.integers(-40, 40, 32), random.choice([-4, -2, -0.5, 0.5, 2, 4], 32)
    numbers = np.stack([x / 4, y]).astype(element.numpy_dtype())  # quotients and products are exact
    out = np.zeros(32, element.numpy_dtype())
    nvb.runtime.load(followed.compile(assemble=False), device="simulator").launch(1, numbers, out)
    assert np.array_equal(out, operation(numbers[0], numbers[1]))


def test_a_predicate_is_not_divided_as_a_float_is() -> None:
    @nvb.kernel("sm_80", threads=32)
    def halved(k: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> None:
        assert (x[0] > 0.0).type is pred
        (x[0] > 0.0) // (x[1] > 0.0)

    with pytest.raises(nvb.DiagnosticError) as caught:
        halved.build()
    (found,) = caught.value.diagnostics
    assert found.message == "// is not defined for pred"
    assert found.fix == "convert the operands with .to() first"


def test_a_complement_is_named_as_it_was_written() -> None:
    @nvb.kernel("sm_80", threads=32)
    def inverted(k: nvb.KernelBuilder, x: nvb.Pointer[f32], out: nvb.Pointer[nvb.u32], *, bits: bool) -> None:
        value = x[k.thread_id()]
        out[k.thread_id()] = ~(value.bitcast(nvb.u32) if bits else value)

    with pytest.raises(nvb.DiagnosticError) as caught:
        inverted.build(bits=False)
    (found,) = caught.value.diagnostics
    assert (found.message, found.fix) == ("~ is not defined for f32", "take its bits first: .bitcast(u32)")
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.uint32)
    nvb.runtime.load(inverted.compile(bits=True, assemble=False), device="simulator").launch(1, x, out)
    assert np.array_equal(out, ~x.view(np.uint32))
