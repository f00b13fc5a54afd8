"""Arrays of other shapes than a sample's kernel takes: TMA would read zeros past their ends, without a word."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from samples import ampere_attention, blackwell_attention, flash_attention
from samples.attention import forward
from samples.attention.choice import Form, choose
from samples.w4a16 import __main__ as w4a16
from samples.w4a16.choice import clusters_of, streams_of
from samples.w4a16.weights import pack

RIGHT = (4, 70, 64)


@pytest.mark.parametrize(
    ("q", "keys", "values", "o", "text"),
    [
        ((3, 70, 64), RIGHT, RIGHT, RIGHT, r"Q is heads x rows x 64, of a multiple of 2 heads, not \(3, 70, 64\)"),
        ((4, 70, 128), RIGHT, RIGHT, RIGHT, "Q is heads x rows x 64"),
        ((70, 64), RIGHT, RIGHT, RIGHT, "Q is heads x rows x 64"),
        (RIGHT, RIGHT, (2, 70, 64), RIGHT, r"K is \(2, 70, 64\), as Q is \(4, 70, 64\), not \(4, 70, 64\)"),
        (RIGHT, (2, 70, 64), (2, 50, 64), RIGHT, "V is "),
        (RIGHT, (2, 70, 64), (2, 70, 64), (4, 80, 64), "O is "),
    ],
    ids=str,
)
def test_shapes_of_attention(q: Any, keys: Any, values: Any, o: Any, text: str) -> None:
    arrays: list[Any] = [np.zeros(shape, np.float16) for shape in (q, keys, values, o)]
    first: Any = arrays[:3]
    loaded: Any = None  # nothing is asked of it
    with pytest.raises(ValueError, match=text):
        flash_attention.launch(loaded, *first, arrays[3], depth=64, share=2)
    counter = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match=text):
        forward.launch(loaded, *first, counter, arrays[3], depth=64, share=2)


@pytest.mark.parametrize("depth", [0, 80, 512])
def test_depths_that_no_kernel_of_attention_has(depth: int) -> None:
    with pytest.raises(ValueError, match=f"heads have 64, 128, 256 columns, not {depth}"):
        flash_attention.kernel(depth)
    with pytest.raises(ValueError, match=f"heads have 64, 128, 256 columns, not {depth}"):
        choose(depth, 100, causal=False)


def test_a_causal_tile_is_whole_blocks() -> None:
    with pytest.raises(ValueError, match="128 queries of a causal tile are not whole blocks of 96 keys"):
        forward.kernel(Form(2, 96), 64, causal=True)


@pytest.mark.parametrize("numbers", [np.full((128, 128), 16), np.full((128, 128), -1), np.full((128, 128), 1.5)])
def test_numbers_of_more_than_four_bits(numbers: Any) -> None:
    """Their bits would go into the number beside them."""
    with pytest.raises(ValueError, match="integers from 0 to 15: add 8"):
        pack(numbers)


@pytest.mark.parametrize("shape", [(64, 128), (128, 64)], ids=str)
def test_parts_of_a_tile_of_weights(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=f"128 rows and of 128 columns, not {shape[0]} x {shape[1]}"):
        pack(np.zeros(shape, int))


@pytest.mark.parametrize(
    "wrong",
    [{"x": (5, 200)}, {"x": (5, 384)}, {"w": (100,)}, {"scales": (1, 128)}, {"scales": (2, 100)}, {"y": (128, 5)}],
    ids=str,
)
def test_shapes_of_four_bit_weights(wrong: dict[str, Any]) -> None:
    shapes = {"x": (5, 256), "w": (128 * 256 // 8,), "scales": (2, 128), "y": (5, 128)} | wrong
    loaded: Any = None
    with pytest.raises(ValueError, match="X is M x K, W N x K / 8 words"):
        w4a16.launch(loaded, *(np.zeros(shapes[name]) for name in shapes), choice=clusters_of(8, 2))  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", ["", "memory", "flags"])
def test_the_workspace_of_four_bit_weights(missing: str) -> None:
    launched: list[Any] = []
    kernel: Any = SimpleNamespace(launch=lambda *given: launched.append(given))
    choice = streams_of(8)
    size, flags = choice.workspace(5, 128, 256)
    assert (size, flags) == (2 * 128 * 8, 2 * 2)
    workspace = {"memory": Tensor(size - (missing == "memory")), "flags": Tensor(flags - (missing == "flags"))}
    arrays = Tensor(5, 256), Tensor(128 * 256 // 8), Tensor(2, 128), *workspace.values(), Tensor(5, 128)
    if not missing:
        w4a16.launch(kernel, *arrays, choice=choice)
        assert launched == [(2, *arrays, 5, 128, 2)]
        return
    with pytest.raises(ValueError, match=r"a workspace of \(2048, 4\) elements before Y"):
        w4a16.launch(kernel, *arrays, choice=choice)


class Tensor:
    """An array as PyTorch has it: its size is a method."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def size(self) -> tuple[int, ...]:
        return self.shape


def test_tensors_of_pytorch_have_the_right_shapes_too() -> None:
    launched: list[Any] = []
    kernel: Any = SimpleNamespace(launch=lambda *given: launched.append(given))
    choice = clusters_of(8, 2)
    x, words, factors, y = Tensor(5, 256), Tensor(128 * 256 // 8), Tensor(2, 128), Tensor(5, 128)
    w4a16.launch(kernel, x, words, factors, y, choice=choice)
    assert launched == [(choice.grid(5, 128), x, words, factors, y, 5, 128, 2)]
    with pytest.raises(ValueError, match="W 4095 words"):
        w4a16.launch(kernel, x, Tensor(4095), factors, y, choice=choice)


@pytest.mark.parametrize("sample", [ampere_attention, blackwell_attention], ids=lambda sample: sample.__name__)
def test_places_in_o_have_32_bits(sample: Any) -> None:
    large: Any = np.broadcast_to(np.float16(), (1024, 2**14 + 1, 128))
    with pytest.raises(ValueError, match=r"1024 x 16385 x 128 elements are more than 2\^31"):
        sample.launch(None, large, large, large, large)
