"""The language of samples/tensor_dsl: NumPy's numbers on three targets, and mistakes at the lines of its programs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from nvbackend import DiagnosticError, bf16, f16, f32
from samples.program import Device, largest_error, target_for
from samples.tensor_dsl import __main__ as program
from samples.tensor_dsl.kernel import Kernel
from samples.tensor_dsl.language import Tensor, apply, einsum, relu
from samples.tensor_dsl.products import WAYS

x, w = Tensor("mk", f16, "x"), Tensor("nk", f16, "w")
SIZES = {"m": 136, "n": 72, "k": 72}
NUMPY = {f16: np.float16, f32: np.float32}


def arrays_of(kernel, sizes=SIZES):
    random = np.random.default_rng(sum(sizes.values()))
    return {
        name: random.standard_normal([sizes[axis] for axis in tensor.axes]).astype(NUMPY[tensor.element])
        for name, tensor in kernel.tensors.items()
    }


def product(arrays):
    return arrays["x"].astype(np.float32) @ arrays["w"].astype(np.float32).T


def all_of_it():
    """Every way to be beside a product: for a row, a column, an element, and a number; and the function of two."""
    row, column, element = Tensor("m", f32, "row"), Tensor("n", f16, "column"), Tensor("mn", f16, "element")
    return relu(einsum("mk,nk->mn", x, w) * row + column * 0.5) + element


def of_numpy(arrays):
    row, column, element = (arrays[name].astype(np.float32) for name in ("row", "column", "element"))
    return (product(arrays) * row[:, None] + column * np.float32(0.5)).clip(0) + element


RESULTS = {
    "all": (all_of_it, of_numpy),
    "rows": (lambda: all_of_it().sum("n"), lambda arrays: of_numpy(arrays).sum(1)),
    "columns": (lambda: einsum("mk,nk->mn", x, w).sum("m"), lambda arrays: product(arrays).sum(0)),
}


def error(target, result, chip, reason):
    make, numpy = RESULTS[result]
    kernel = Kernel("kernel", make(), target, chip)
    arrays = arrays_of(kernel)
    return largest_error(kernel(Device(reason), **arrays), numpy(arrays))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("target", WAYS)
def test_numbers_are_numpys_in_the_simulator(target, result):
    assert error(target, result, None, "the test asks for it") < 2**-18


@pytest.mark.gpu((9, 0))
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("target", WAYS)
def test_numbers_are_numpys_on_a_gpu(target, result):
    chip, reason = target_for(target)
    if reason is not None:
        pytest.skip(reason)
    assert error(target, result, chip, None) < 2**-18


def mistake(make):
    """The mistake's text and fix; it is at the line of `make`."""
    with pytest.raises(DiagnosticError) as raised:
        make()
    (found,) = raised.value.diagnostics
    assert found.rule_id == "language.mistake"
    assert (found.location.file, found.location.line) == (__file__, inspect.getsourcelines(make)[1])
    return f"{found.message}: {found.fix}"


def test_a_mistake_is_at_the_line_of_the_program():
    y = einsum("mk,nk->mn", x, w)
    assert "mk,kn->mn" in mistake(lambda: einsum("mk,kn->mn", x, w))
    assert "v is f32" in mistake(lambda: einsum("mk,nk->mn", x, Tensor("nk", f32, "v")))
    assert "v is bf16" in mistake(lambda: einsum("mk,nk->mn", x, Tensor("nk", bf16, "v")))
    assert "along k" in mistake(lambda: y.sum("k"))
    assert "axes mn and p" in mistake(lambda: y + Tensor("p", f32, "v"))
    assert "axes mn and nm" in mistake(lambda: y - Tensor("nm", f32, "v"))
    assert "along mn" in mistake(lambda: y.sum("mn"))
    assert "sm_80, sm_90a, sm_100a" in mistake(lambda: Kernel("kernel", 2.0 * y, "sm_75"))
    assert "out is taken" in mistake(lambda: Kernel("kernel", y * Tensor("n", f32, "out"), "sm_80"))
    assert "m is taken" in mistake(lambda: Kernel("kernel", y * Tensor("n", f32, "m"), "sm_80"))
    assert "x is taken" in mistake(lambda: Kernel("kernel", y * Tensor("n", f32, "x"), "sm_80"))
    assert "2 products" in mistake(lambda: Kernel("kernel", y + einsum("mk,nk->mn", x, w), "sm_80"))
    assert "0 products" in mistake(lambda: Kernel("kernel", x * 2.0, "sm_80"))
    assert "make a kernel of the sum" in mistake(lambda: Kernel("kernel", relu(y.sum("n")), "sm_80"))


def refused(kernel, arrays):
    """The rule, message and fix of what a launch with these arrays raises."""
    with pytest.raises(DiagnosticError) as raised:
        kernel(Device("the test asks for it"), **arrays)
    (found,) = raised.value.diagnostics
    return found.rule_id, found.message, found.fix, found.location


def test_extents_that_do_not_fit_are_refused():
    kernel = Kernel("kernel", einsum("mk,nk->mn", x, w), "sm_80")
    arrays = arrays_of(kernel)
    assert refused(kernel, {**arrays, "w": arrays["w"][:, :64]})[1:3] == (
        "x has the shape (136, 72)",
        "give it (136, 64)",
    )
    assert refused(kernel, {"x": arrays["x"]})[1:3] == ("w has the shape ()", "give it ('n', 72)")
    flat = refused(kernel, {**arrays, "w": arrays["w"][0]})
    assert flat[:3] == ("language.mistake", "w has the shape (72,)", "give it (72, 72)")
    assert flat[3].line == x.place.line == w.place.line
    odd = refused(kernel, arrays_of(kernel, {**SIZES, "k": 76}))
    assert odd[0].startswith("launch.")
    assert "k" in odd[1].split()
    assert "76" in odd[1]


def test_ptx_and_diagnostics_name_the_line_of_the_expression():
    product = einsum("mk,nk->mn", x, w)
    halved = product * 0.5
    line = inspect.currentframe().f_lineno - 1
    ptx = Kernel("kernel", halved, "sm_90a").compiled.ptx
    assert f'.file\t1 "{__file__}"' in ptx
    places = set(re.findall(r"\.loc\t1 (\d+)", ptx))
    assert {str(line - 1), str(line)} <= places

    wrong = apply("wrong", lambda k, value: k.math.expp(value), product)
    with pytest.raises(AttributeError) as raised:
        Kernel("kernel", wrong, "sm_90a")
    assert f"at {__file__}:{line + 7}" in str(raised.value)


def test_it_has_less_than_400_lines():
    folder = Path(program.__file__).parent
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in folder.glob("*.py")) < 400


def test_the_program_says_that_its_numbers_are_right(monkeypatch, capsys):
    monkeypatch.setattr(program, "target_for", lambda target: (None, "the test asks for it"))
    monkeypatch.setattr(program, "TARGETS", ("sm_90a",))
    assert program.main() == 0
    assert [line.partition(" on ")[0] for line in capsys.readouterr().out.splitlines()] == ["layer", "totals"]
