"""Operators of frameworks with absurd arguments: made, called, or refused by a Diagnostic. The frameworks are stubs."""

from __future__ import annotations

import random
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32, i32
from nvbackend.jax import op as jax_op
from nvbackend.torch import op as torch_op
from tests.fuzz.test_public_calls import ABSURD, ODD
from tests.support.fuzz import Attempts

COUNT = 300
RIGHT = (np.arange(256, dtype=np.float32), np.zeros(256, np.float32), 200, 2.0)
ANY = [one for one in (*ODD, *ABSURD) if not callable(one)]
"""What the user's own functions raise is the user's."""


@nvb.kernel("sm_80", threads=128)
def scale(k, x: nvb.Pointer(f32, align=4), out: nvb.Pointer(f32, align=4), n: i32, factor: f32):
    at = k.block_id() * 128 + k.thread_id()
    with k.if_(at < n):
        out[at] = x[at] * factor


def _torch() -> dict[str, ModuleType]:
    """PyTorch as far as an operator is registered: it gives back the function that PyTorch calls."""

    def custom_op(_name: object, function: Any, **_options: Any) -> Any:
        def made(*arguments: Any) -> Any:
            return function(*arguments)

        made.register_fake = made.register_autograd = lambda *_, **__: None  # type: ignore[attr-defined]
        return made

    torch, library = ModuleType("torch"), ModuleType("torch.library")
    library.custom_op = custom_op  # type: ignore[attr-defined]
    torch.library = library  # type: ignore[attr-defined]
    return {"torch": torch, "torch.library": library}


def _jax() -> dict[str, ModuleType]:
    """JAX as far as a call is declared: nothing runs."""
    jax = ModuleType("jax")
    ffi = SimpleNamespace(
        register_ffi_target=lambda *_, **__: None,
        pycapsule=lambda function: function,
        ffi_call=lambda _name, declared, **_options: lambda *_, **__: list(declared),
    )
    jax.ffi = ffi  # type: ignore[attr-defined]
    jax.ShapeDtypeStruct = lambda shape, dtype: SimpleNamespace(shape=shape, dtype=dtype)  # type: ignore[attr-defined]
    return {"jax": jax}


@pytest.fixture(autouse=True)
def stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in {**_torch(), **_jax()}.items():
        monkeypatch.setitem(sys.modules, name, module)


def _operator(attempts: Attempts, make: Any, name: str, **right: Any) -> Any:
    """An operator with up to two wrong arguments; None where it is refused, or is one of a GPU."""
    rng = attempts.rng
    given: dict[str, Any] = {"kernel": scale, "name": name, **right}
    for wrong in rng.sample([*given], rng.randrange(3)):
        value = rng.choice(ANY)
        given[wrong] = rng.choice((value, (value,), {"out": value})) if wrong in ("mutates", "results") else value
    made = attempts.attempt(make, given.pop("kernel"), given.pop("name"), **given)
    return made if given["device"] is right["device"] else None


def _arguments(rng: random.Random) -> list[Any]:
    """Those of a call, some of them wrong."""
    right = list(RIGHT)
    for place in rng.sample(range(4), rng.randrange(3)):
        right[place] = rng.choice(ANY)
    return right if rng.random() < 0.9 else right[:-1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("make", "name"), [(torch_op, "mine::scale"), (jax_op, "scale")], ids=["torch", "jax"])
def test_operators_are_made_or_refused(make: Any, name: str) -> None:
    attempts = Attempts(random.Random(name))
    for _ in range(COUNT):
        made = _operator(attempts, make, name, grid=2, mutates=("out",), device="simulator")
        if made is not None:
            # PyTorch compares the arguments of a call with the schema before it calls what we gave it.
            attempts.attempt(made, *(RIGHT if make is torch_op else _arguments(attempts.rng)))
    assert attempts.failures == {}
    assert attempts.answered > COUNT // 4
