"""Of every call and class that users have: flags are flags, and a container or a register of llvmlite is no operand."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

import nvbackend
from nvbackend import DiagnosticError, f16, f32
from nvbackend.diagnostics.arguments import Kinds
from nvbackend.diagnostics.boundary import MARK
from tests.support.members import member_of

REGISTER = ir.Constant(ir.IntType(32), 1)
ADDRESSES = "Address", "Address | None"
OPERANDS = "Operand", "Operand | None"


def calls() -> Iterator[tuple[str, Callable[..., Any], inspect.Signature]]:
    """The methods and the makers of the package's public classes."""
    for one in pkgutil.walk_packages(nvbackend.__path__, "nvbackend."):
        if one.name.endswith("__main__"):
            continue
        for cls in vars(importlib.import_module(one.name)).values():
            for name in list(vars(cls)) if isinstance(cls, type) and cls.__module__ == one.name else ():
                member = member_of(cls, name)
                if hasattr(member, MARK) and (name == "__init__" or not name.startswith("_")):
                    yield f"{cls.__module__}.{cls.__qualname__}.{name}", member, inspect.signature(member)


def told(call: Callable[..., Any], signature: inspect.Signature, place: str, given: object) -> bool:
    """Whether the call, with an object for whatever else it needs, says of this argument that it is of another kind."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    needed = {
        one.name: object() for one in signature.parameters.values() if one.default is one.empty and one.kind in kinds
    }
    try:
        call(**needed | {place: given})
    except DiagnosticError as error:
        return any(
            one.rule_id == "call.argument" and one.values["problem"].startswith(f"{place} must be ")
            for one in error.diagnostics
        )
    except Exception:  # noqa: BLE001 (what an object leads to)
        return False
    return False


def places(*annotations: str) -> list[Any]:
    return [
        pytest.param(call, signature, place, id=f"{name}-{place}")
        for name, call, signature in calls()
        for place, one in signature.parameters.items()
        if one.annotation in annotations and one.kind is not one.VAR_POSITIONAL and one.kind is not one.VAR_KEYWORD
    ]


def test_there_are_many() -> None:
    assert len(places("bool")) > 30
    assert len(places(*OPERANDS)) > 100
    assert len(places(*ADDRESSES)) > 50


@pytest.mark.parametrize(("call", "signature", "place"), places("bool"))
def test_a_flag_is_a_bool(call: Callable[..., Any], signature: inspect.Signature, place: str) -> None:
    for given in ("no", "", 2, -1, 0.5, 1.0, None, [], [True], REGISTER):
        assert told(call, signature, place, given), given
    for given in (True, False, 0, 1, np.True_):
        assert not told(call, signature, place, given), given


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("call", "signature", "place"), places(*OPERANDS, *ADDRESSES))
def test_an_operand_is_one_value(call: Callable[..., Any], signature: inspect.Signature, place: str) -> None:
    for given in ([1], (1,), [], b"x", bytearray(b"x"), {1: 1}, {1}, REGISTER):
        assert told(call, signature, place, given), given


@pytest.mark.parametrize(("call", "signature", "place"), places("int", "int | None"))
def test_a_truth_value_is_no_number(call: Callable[..., Any], signature: inspect.Signature, place: str) -> None:
    assert told(call, signature, place, True)


@pytest.mark.parametrize(
    ("call", "signature", "place"),
    places("Value", "Value | None", "Address | Value", "SharedTile | OperandDescriptor | Value"),
)
def test_a_number_is_no_state_policy_or_descriptor(
    call: Callable[..., Any], signature: inspect.Signature, place: str
) -> None:
    for given in (5, 0, 1.5, True):
        assert told(call, signature, place, given), given


@pytest.mark.parametrize("flag", ["a_in_registers", "sparse", "satfinite", "negate_a", "negate_b"])
def test_a_flag_of_a_request_is_a_bool(flag: str) -> None:
    for given in ("no", 2, None, 0.0):
        with pytest.raises(DiagnosticError, match=rf"call\.argument.*WgmmaRequest: {flag} must be bool, not "):
            nvbackend.WgmmaRequest(64, 16, f32, f16, f16, **{flag: given})  # type: ignore[arg-type]


def test_what_a_function_gives_is_no_argument() -> None:
    """Whether arguments of any class are to be looked at is of the arguments alone."""
    for kind, looked_at in (("bool", True), ("str", True), ("ElementType", True), ("Value", True), ("int", False)):

        def call(one: object) -> None:
            pass

        call.__annotations__ = {"return": kind}
        assert not Kinds(call).always
        call.__annotations__ = {"one": kind, "return": kind}
        assert Kinds(call).always is looked_at
