"""What a program sets on classes of this package, told from what Python adds when a class is looked at."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import pytest

from nvbackend.builder.kernel.again.set_on import _members, _only_looked_at, is_ours_by_name

OURS, USERS = "nvbackend.made_here", "users"
WRITTEN: dict[str, Any] = {"n": 3}

ONLY_LOOKED_AT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "annotations that say nothing": (WRITTEN, {**WRITTEN, "__annotations__": {}}),
    "annotations of another Python": (WRITTEN, {**WRITTEN, "__annotations_cache__": {}}),
    "names of slots": (WRITTEN, {**WRITTEN, "__slotnames__": ["n"]}),
    "both": (WRITTEN, {**WRITTEN, "__annotations__": {}, "__slotnames__": []}),
    "annotations that said nothing": ({**WRITTEN, "__annotations__": {}}, WRITTEN),
}
CHANGED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "annotations": (WRITTEN, {**WRITTEN, "__annotations__": {"n": int}}),
    "no annotations": ({**WRITTEN, "__annotations__": {"n": int}}, WRITTEN),
    "a member more": (WRITTEN, {**WRITTEN, "m": 5}),
    "a member more, and it was looked at": (WRITTEN, {**WRITTEN, "m": 5, "__slotnames__": []}),
    "a member less": ({**WRITTEN, "m": 5}, WRITTEN),
    "another member": (WRITTEN, {"n": 5}),
    "another member, and it was looked at": (WRITTEN, {"n": 5, "__annotations__": {}}),
    "a class that was not as it is written": ({}, {"__annotations__": {}}),
}


@pytest.mark.parametrize("what", ONLY_LOOKED_AT)
def test_what_python_adds_is_no_change_then_or_later(what: str) -> None:
    before, after = ONLY_LOOKED_AT[what]
    first = dict(before)
    assert _only_looked_at(types.MappingProxyType(after), first)
    assert first == after


@pytest.mark.parametrize("what", CHANGED)
def test_what_a_program_changes_is_seen_each_time(what: str) -> None:
    before, after = CHANGED[what]
    first = dict(before)
    for _ in range(2):
        assert not _only_looked_at(types.MappingProxyType(after), first)
        assert first == before


def of_module(module: str, annotations: dict[str, Any] | None = None) -> Callable[..., int]:
    function = types.FunctionType((lambda *_: 3).__code__, {"__name__": module}, "made")
    function.__annotations__ = annotations or {}
    return function


def made(module: str = OURS, base: type = object, **members: Any) -> type:
    return types.new_class("Made", (base,), {}, lambda names: names.update(__module__=module, **members))


AS_WRITTEN: dict[str, Callable[[], type]] = {
    "a method": lambda: made(f=of_module(OURS)),
    "two methods": lambda: made(f=of_module(OURS), g=of_module("functools")),
    "a property": lambda: made(p=property(of_module(OURS), of_module(OURS), of_module(OURS))),
    "a cached property": lambda: made(p=functools.cached_property(of_module(OURS))),
    "a static method": lambda: made(s=staticmethod(of_module(OURS))),
    "a field": lambda: made(n=3, __annotations__={"n": int}),
    "slots": lambda: made(__slots__=("a", "b")),
    "a mark between underscores": lambda: made(__mark__=3, f=of_module(OURS)),
}
SET_BY_A_PROGRAM: dict[str, Callable[[], type]] = {
    "a method beside ours": lambda: made(f=of_module(OURS), g=of_module(USERS)),
    "a method before ours": lambda: made(f=of_module(USERS), g=of_module(OURS)),
    "a property's setter": lambda: made(p=property(of_module(OURS), of_module(USERS))),
    "a property's deleter": lambda: made(p=property(of_module(OURS), None, of_module(USERS))),
    "a cached property": lambda: made(p=functools.cached_property(of_module(USERS))),
    "what a wrapper of ours wraps": lambda: made(f=functools.wraps(of_module(USERS))(of_module(OURS))),
    "a number": lambda: made(n=3, f=of_module(OURS)),
    "a number beside a field": lambda: made(n=3, m=5, __annotations__={"n": int}),
    "a list between underscores": lambda: made(__mark__=[3], f=of_module(OURS)),
    "half a mark": lambda: made(__mark=3, f=of_module(OURS)),
    "the other half": lambda: made(mark__=3, f=of_module(OURS)),
}


@pytest.mark.parametrize("what", AS_WRITTEN)
def test_a_class_of_our_functions_is_as_it_is_written(what: str) -> None:
    cls = AS_WRITTEN[what]()
    assert _members(cls) == dict(vars(cls))


@pytest.mark.parametrize("what", SET_BY_A_PROGRAM)
def test_a_class_with_something_of_the_users_is_not(what: str) -> None:
    assert _members(SET_BY_A_PROGRAM[what]()) == {}


@pytest.mark.parametrize(("module", "ours"), [(OURS, True), ("nvbackend", True), ("nvbackends.x", False), (3, False)])
def test_whose_a_class_says_it_is(module: Any, ours: bool) -> None:
    assert is_ours_by_name(made(module)) is ours
