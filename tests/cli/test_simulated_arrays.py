"""Arrays that a command line makes: their numbers against NumPy's, their limits, and what is no array."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nvbackend import DiagnosticError
from nvbackend.cli import simulate

TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s8": np.int8, "u8": np.uint8, "s32": np.int32}
FLOATS = ("f16", "f32", "f64")


@pytest.mark.parametrize("name", TYPES)
def test_an_array_is_filled_as_it_says(name: str) -> None:
    kind, shape = np.dtype(TYPES[name]), (3, 5)
    made = {content: simulate._value(f"{name}[3,5]={content}") for content in ("zeros", "ones", "arange")}
    made["nothing"] = simulate._value(f"{name}[3,5]")
    wanted = {"zeros": np.zeros(shape), "ones": np.ones(shape), "arange": np.arange(15).reshape(shape)}
    for content, array in made.items():
        assert (array.dtype, array.shape) == (kind, shape)
        assert np.array_equal(array, wanted.get(content, wanted["zeros"]))


@pytest.mark.parametrize("name", TYPES)
def test_random_numbers_are_of_the_whole_type_or_below_one(name: str) -> None:
    kind = np.dtype(TYPES[name])
    array = simulate._value(f"{name}[64,64]=random")
    assert (array.dtype, array.shape) == (kind, (64, 64))
    assert np.array_equal(array, simulate._value(f"{name}[64,64]=random")), "the same at every run"
    if name in FLOATS:
        assert 0 <= array.min() < 0.01
        assert 0.99 < array.max() <= 1
    else:
        ends = np.iinfo(kind)
        size = float(ends.max) - float(ends.min)
        assert (float(array.min()) - ends.min) / size < 0.01
        assert (ends.max - float(array.max())) / size < 0.01
        assert kind.itemsize > 1 or {array.min(), array.max()} == {ends.min, ends.max}


@pytest.mark.parametrize("name", FLOATS)
def test_normal_numbers_are_about_zero(name: str) -> None:
    array = simulate._value(f"{name}[64,64]=normal")
    assert array.dtype == np.dtype(TYPES[name])
    assert abs(array.mean()) < 0.1
    assert abs(array.astype(np.float64).std() - 1) < 0.1
    assert np.array_equal(array, simulate._value(f"{name}[64,64]=normal"))


@pytest.mark.parametrize("count", range(6))
def test_extents_are_one_to_three(count: int) -> None:
    numbers = (2, 3, 5, 7, 11)[:count]
    text = ",".join(map(str, numbers))
    if 1 <= count <= 3:
        assert simulate._extents(text) == numbers
    else:
        with pytest.raises(argparse.ArgumentTypeError, match="is not one to three numbers, such as 4 or 4,2,1"):
            simulate._extents(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("f32[4]=twos", "twos is not what an array is filled with: that is "),
        ("f31[4]", "f31[4]: an array is of "),
        ("f32[17]", "f32[17] has 68 bytes; an array has at most 64"),
        ("s8[5,13]", "s8[5,13] has 65 bytes; an array has at most 64"),
        ("x", "'x' is not a number, an .npy file or an array such as f32[64,64]=normal of "),
        ("none.npy", "none.npy cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_array(text: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate, "_MOST_BYTES", 64)
    assert simulate._value("f32[16]").nbytes == simulate._value("s8[4,16]").nbytes == 64
    with pytest.raises(DiagnosticError) as caught:
        simulate._value(text)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "cli.simulate"
    assert found.message.startswith(problem)


def _empty(_file: Path) -> bytes:
    return b""


def _truncated(file: Path) -> bytes:
    np.save(file, np.ones(4, np.float32))
    return file.read_bytes()[:-1]


def _texts(file: Path) -> bytes:
    np.save(file, np.array(["one", "two"]))
    return file.read_bytes()


@pytest.mark.parametrize("content", [_empty, lambda _: b"\xff\xfe\x00", lambda _: b"PK\x03\x04", _truncated, _texts])
def test_what_is_no_npy_file(content: Callable[[Path], bytes], tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    file.write_bytes(content(file))
    with pytest.raises(DiagnosticError) as caught:
        simulate._value(str(file))
    (found,) = caught.value.diagnostics
    assert found.message == f"{file} is not an .npy file of numbers"


def test_bits_of_a_type_that_is_not_numpys_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    np.save(file, np.arange(4, dtype=np.uint16).view("V2"))
    assert simulate._value(str(file)).tobytes() == np.arange(4, dtype=np.uint16).tobytes()


def test_numbers_of_another_order_of_bytes_are_the_same_numbers(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    for order in "<>":
        np.save(file, np.arange(4).astype(f"{order}f4"))
        assert simulate._value(str(file)).view(np.uint8).tobytes() == np.arange(4, dtype=np.float32).tobytes()
