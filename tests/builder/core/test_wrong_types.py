"""Counts, alignments, elements and texts of another type: refused where they are given, with the argument's name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import f32
from nvbackend.builder.kernel.kernel import KernelBuilder

Call = Callable[[Any, Any], object]
INTEGERS: dict[str, tuple[str, Call]] = {
    "k.shared": ("count", lambda k, given: k.shared(f32, given)),
    "k.shared aligned": ("align", lambda k, given: k.shared(f32, 64, align=given)),
    "k.shared_static": ("count", lambda k, given: k.shared_static(f32, given)),
    "k.shared_static aligned": ("align", lambda k, given: k.shared_static(f32, 64, align=given)),
    "k.shared_address": ("align", lambda k, given: k.shared_address(k.shared(f32, 64).bytes, f32, given)),
    "k.local.array": ("count", lambda k, given: k.local.array(f32, given)),
    "k.mbarrier.array": ("count", lambda k, given: k.mbarrier.array(given, 1)),
    "Address.load": ("count", lambda k, given: k.shared(f32, 64).load(given)),
}
ELEMENTS: dict[str, Call] = {
    "k.shared": lambda k, given: k.shared(given, 64),
    "k.shared_static": lambda k, given: k.shared_static(given, 64),
    "k.shared_address": lambda k, given: k.shared_address(k.shared(f32, 64).bytes, given, 16),
    "k.local.array": lambda k, given: k.local.array(given, 4),
    "k.constant.array": lambda k, given: k.constant.array([1, 2], given),
    "Address.cast": lambda k, given: k.shared(f32, 64).cast(given),
}
TEXTS: dict[str, tuple[str, Call]] = {
    "k.print": ("text", lambda k, given: k.print(given)),
    "k.print ended": ("end", lambda k, given: k.print("text", end=given)),
    "k.trap": ("text", lambda k, given: k.trap(given)),
    "k.assert_": ("text", lambda k, given: k.assert_(k.thread_id() < 32, given)),
    "k.static_assert": ("text", lambda k, given: k.static_assert(True, given)),
    "k.shared": ("name", lambda k, given: k.shared(f32, 64, name=given)),
    "k.local.array": ("name", lambda k, given: k.local.array(f32, 4, name=given)),
    "k.constant.array": ("name", lambda k, given: k.constant.array([1], f32, name=given)),
}


def refused(call: Call, given: object) -> str:
    k = KernelBuilder("types", "sm_90a", threads=32)
    with pytest.raises(nvb.DiagnosticError) as caught:
        call(k, given)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "call.argument"
    assert found.location is not None
    assert found.location.file == __file__
    return found.message


@pytest.mark.parametrize("given", [16.0, "16", None, True])
@pytest.mark.parametrize("name", INTEGERS)
def test_what_is_no_integer(name: str, given: object) -> None:
    argument, call = INTEGERS[name]
    assert refused(call, given).startswith(f"{name.split(maxsplit=1)[0]}: {argument} must be int, not {given!r} (a ")


@pytest.mark.parametrize("given", ["f32", float, 4])
@pytest.mark.parametrize("name", ELEMENTS)
def test_what_is_no_element_type(name: str, given: object) -> None:
    assert f": element must be ElementType, not {given!r} (a" in refused(ELEMENTS[name], given)


@pytest.mark.parametrize("given", [4, b"text", ["text"]])
@pytest.mark.parametrize("name", TEXTS)
def test_what_is_no_text(name: str, given: object) -> None:
    argument, call = TEXTS[name]
    assert refused(call, given).startswith(name.split(maxsplit=1)[0])
    assert re.search(
        rf": {argument} must be str(?: \| None)?, not {re.escape(repr(given))} \(an? ", refused(call, given)
    )
