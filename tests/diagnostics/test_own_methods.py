"""Arguments with methods that raise when they are asked: the call is refused, and what the user runs is not touched."""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.diagnostics.boundary import user_facing
from tests.support.runtime import rules

TEXT = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .func f()\n{ ret; }\n"


class Unequal:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison today")

    __hash__ = None  # type: ignore[assignment]


class Unlisted(list[int]):
    def __len__(self) -> int:
        raise RuntimeError("no length today")


class Unpaired(dict[str, int]):
    """Overrides a method of Python's own that has no underscores."""

    def items(self) -> Any:
        raise RuntimeError("no items today")


class Unnamed:
    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class today")


def _built(body: Callable[[Any], object]) -> None:
    @nvb.kernel("sm_90", threads=32)
    def kernel(k: nvb.KernelBuilder) -> None:
        body(k)

    kernel.build()


@pytest.mark.parametrize(
    ("call", "method"),
    [
        (lambda: nvb.compile_module(Unlisted([1]), target="sm_90"), "Unlisted.__len__"),  # type: ignore[arg-type]
        (lambda: nvb.LaunchBounds(Unnamed(), 3), "Unnamed.__class__"),  # type: ignore[arg-type]
        (lambda: _built(lambda k: k.barrier.sync(Unnamed())), "Unnamed.__class__"),
        (lambda: nvb.extern_function("f", Unpaired(), ptx=TEXT), "Unpaired.items"),
    ],
)
def test_a_method_that_raises_is_named(call: Callable[[], object], method: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        call()
    (found,) = caught.value.diagnostics
    assert found.rule_id == "call.argument"
    assert f"{method} of an argument raises RuntimeError" in found.message
    assert found.location is not None
    assert found.location.file == __file__


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: nvb.rows.immediate("count", Unnamed()), "row.operand"),  # type: ignore[arg-type]
        (lambda: nvb.rules.Rule(Unnamed(), "m", Unnamed()), "rule.form"),  # type: ignore[arg-type]
        (lambda: nvb.rules.Rule("own.rule", "m", "f", severity=Unnamed()), "rule.form"),  # type: ignore[arg-type]
    ],
)
def test_records_do_not_ask_an_object_for_its_class(make: Callable[[], object], rule: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        make()
    (found,) = caught.value.diagnostics
    assert found.rule_id == rule
    assert found.location is not None
    assert found.location.file == __file__


def test_a_method_of_this_package_that_raises_is_a_bug_of_it() -> None:
    """Its exception stays: the argument is not to blame."""
    text = """
class Ours:
    def __bool__(self):
        raise RuntimeError("no truth today")

@user_facing
def asked(one):
    return bool(one)
"""
    module: dict[str, Any] = {"__name__": f"{nvb.__name__}.made", "user_facing": user_facing}
    exec(text, module)
    with pytest.raises(RuntimeError, match="no truth today"):
        module["asked"](module["Ours"]())


@pytest.mark.parametrize("body", [lambda _: Unequal() == 3, lambda _: len(Unlisted())])
def test_what_the_users_program_asks_itself_raises_as_it_does(body: Callable[[Any], object]) -> None:
    with pytest.raises(RuntimeError, match="today"):
        _built(body)


def test_a_rule_without_a_printable_name_is_refused() -> None:
    class Unprinted:
        def __repr__(self) -> str:
            raise RuntimeError("no text today")

    assert rules(lambda: nvb.Rule(Unprinted(), 3, 4)) == ["rule.form"]  # type: ignore[arg-type]


def test_a_walk_without_integers_ends_at_once() -> None:
    class Long:
        def __len__(self) -> int:
            return 10**9

    assert rules(lambda: nvb.Im2col.of_convolution(Long())) == ["tensor-map.convolution"]  # type: ignore[arg-type]


def test_what_numpy_raises_about_an_argument_is_no_method_of_a_user() -> None:
    tile = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, nvb.f16, 64, 64)
    wrong: Any = np.ma.masked
    with pytest.raises(nvb.DiagnosticError) as caught:
        tile.reach(0, wrong, "x", 1)  # type: ignore[arg-type]
    assert [one.rule_id for one in caught.value.diagnostics] == ["call.argument"] * 2


def test_a_call_that_a_new_thread_begins_with_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of Python has made it."""
    raised: list[Any] = []
    ended = threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", lambda found: (raised.append(found.exc_value), ended.set()))
    _thread.start_new_thread(nvb.compile_module, (Unlisted([1]),), {"target": "sm_90"})  # type: ignore[arg-type]
    assert ended.wait(60)
    assert [each.diagnostics[0].rule_id for each in raised] == ["call.argument"]
    assert "Unlisted.__len__" in str(raised[0])
