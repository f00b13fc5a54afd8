"""Random arguments of launches, on a device that records: they are bound to the kernel, or refused by a Diagnostic."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import runtime
from nvbackend.intrinsics.row.types import ELEMENT_TYPES
from tests.support.fuzz import JUNK, Attempts
from tests.support.hostile import HOSTILE
from tests.support.runtime import FakeArray, FakeCompiled, FakeDevice, signature

COUNT = 3000
LONG_COUNT = 100_000
TYPESTRS = ("<f2", "<f4", "<f8", "<i4", "<u4", "|u1", "|i1", "<i8", "<c8", "|b1", "<V2", ">f4", "f4", "", "<f99", "|O")
EXTENTS: tuple[Any, ...] = (0, 1, 3, 8, 16, 64, 128, 1000, 2**31, 2**40, -1, 1.5, None, "4", 10**5000)
POINTERS: tuple[Any, ...] = (0x7F0000000000, 0x7F0000000008, 0, 1, -16, 2**64, 2**70, None, "0x7f", 1.0, True)
SCALARS: tuple[Any, ...] = (
    *(0, 1, -1, 127, 255, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5, -0.0, 1e39, float("nan"), float("inf")),
    *(True, np.int8(-3), np.uint64(2**64 - 1), np.float16(65504), np.float32("nan"), np.bool_(1), np.array(3)),
    *(
        np.array([1]),
        np.complex64(1j),
        ml_dtypes.bfloat16(1.5),
        ml_dtypes.float8_e4m3fn(2),
        np.datetime64("2020"),
        10**5000,
    ),
)
GRIDS: tuple[Any, ...] = (
    1,
    2,
    (1, 2),
    (1, 2, 3),
    0,
    -1,
    2**31,
    (1, 70000),
    (),
    (1, 2, 3, 4),
    None,
    "1",
    1.0,
    True,
    (1.5,),
)
STREAMS: tuple[Any, ...] = (None, 0, 1, 2, 0x7F00, -1, "s", 1.5, object())


class Odd:
    """An object that says of itself what it is not."""

    def __init__(self, rng: random.Random) -> None:
        self.__cuda_array_interface__ = rng.choice((None, {}, {"shape": (4,)}, [], {"data": 3, "typestr": 4}))
        self.shape = rng.choice(((), (4,), None, 4, ("x",)))
        self.dtype = rng.choice((None, "f4", np.dtype("f4"), object()))


class Awkward:
    """An object whose attributes raise."""

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        raise RuntimeError("no array today")


def kind_of(rng: random.Random) -> Any:
    element = rng.choice(ELEMENT_TYPES)
    draw = rng.random()
    if draw < 0.4:
        return nvb.Pointer(element, rng.choice((1, 4, 16, 128)))
    if draw < 0.75:
        return nvb.Scalar(element)
    while True:  # until it is one that can be declared
        box = rng.choice(((64, 64), (8,), (1, 2, 3, 4, 16), (256, 8), (64, 16)))
        with suppress(nvb.DiagnosticError):
            return nvb.TensorMap(rng.choice((nvb.f16, nvb.f32, nvb.u8, nvb.bf16)), box, rng.choice((0, 32, 64, 128)))


def array_of(rng: random.Random, kind: Any) -> Any:
    fitting = {"float16": "<f2", "float32": "<f4", "float64": "<f8", "int32": "<i4", "uint8": "|u1", "int8": "|i1"}
    typestr = fitting.get(kind.element.storage, "|u1") if rng.random() < 0.7 else rng.choice(TYPESTRS)
    rank = len(kind.box) if isinstance(kind, nvb.TensorMap) and rng.random() < 0.8 else rng.randrange(6)
    usual = rng.random() < 0.8
    shape = tuple(rng.choice((64, 128, 1000, 16) if usual else EXTENTS) for _ in range(rank))
    strides: Any = None
    if rng.random() < 0.3:
        strides = tuple(rng.choice((2, 4, 16, 128, 0, -4, 3, 2**40, "x", None)) for _ in range(rng.choice((rank, 1))))
    pointer = POINTERS[0] if usual else rng.choice(POINTERS)
    return FakeArray(
        shape, typestr, pointer=pointer, strides=strides, stream=rng.choice((None, None, 1, 2, 0, -3, "x"))
    )


def argument_of(rng: random.Random, kind: Any) -> Any:
    draw = rng.random()
    if draw < 0.06:
        return rng.choice((*JUNK, *HOSTILE))
    if draw < 0.12:
        return rng.choice(
            (Odd(rng), Awkward(), np.zeros(rng.choice(((), (4,), (64, 64))), rng.choice(("f4", "f2", "i4"))))
        )
    return rng.choice(SCALARS) if isinstance(kind, nvb.Scalar) else array_of(rng, kind)


def run(seed: int, count: int) -> Attempts:
    attempts = Attempts(random.Random(seed))
    rng = attempts.rng
    for _ in range(count // 10):
        kinds = [kind_of(rng) for _ in range(rng.randrange(5))]
        device = FakeDevice()
        loaded = attempts.attempt(
            runtime.load, FakeCompiled(signature(*kinds, cluster=rng.choice((1, 2)))), device=device
        )
        for _ in range(10 if loaded is not None else 0):
            arguments = [argument_of(rng, kind) for kind in kinds]
            if rng.random() < 0.03:
                arguments = rng.choice((arguments[:-1], [*arguments, 1]))
            grid = rng.choice((2, (2, 2))) if rng.random() < 0.8 else rng.choice(GRIDS)
            grid = rng.choice(HOSTILE) if rng.random() < 0.02 else grid
            stream = {"stream": rng.choice((*STREAMS, *HOSTILE))} if rng.random() < 0.2 else {}
            before = len(device.named("launch"))
            done = attempts.answered
            attempts.attempt(loaded.launch, grid, *arguments, **stream)
            launched = len(device.named("launch")) - before
            if launched != attempts.answered - done:
                attempts.failures[f"{arguments!r:.200}"] = f"{launched} launches of a call that was answered or not"
    return attempts


@pytest.mark.parametrize("seed", [1, 2])
def test_thousands_of_launches(seed: int) -> None:
    attempts = run(seed, COUNT // 2)
    assert attempts.failures == {}
    assert COUNT // 20 < attempts.answered < attempts.requests - COUNT // 10


@pytest.mark.exhaustive(seconds=60)
@pytest.mark.parametrize("seed", range(3, 7))
def test_many_more_launches(seed: int) -> None:
    attempts = run(seed, LONG_COUNT // 4)
    assert attempts.failures == {}
    assert attempts.answered > LONG_COUNT // 50
