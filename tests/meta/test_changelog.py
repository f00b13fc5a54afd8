"""CHANGELOG.md: every new form is a call that there is, with arguments that it has, and no old name is left."""

from __future__ import annotations

import ast
import inspect
import re

import pytest

import nvbackend as nvb
from nvbackend.builder.core.old_calls import OLD_CALLS
from tests.api.public import nouns
from tests.support.process import ROOT

ROWS = re.findall(r"^\| `k\.(\w+)` \| `([^`]+)` \|$", (ROOT / "CHANGELOG.md").read_text(), re.M)


@pytest.fixture(scope="module")
def k() -> nvb.KernelBuilder:
    return nvb.KernelBuilder("kernel", "sm_90a", threads=128)


def test_the_table_has_rows() -> None:
    assert len(ROWS) > 100
    assert len({old for old, _ in ROWS}) == len(ROWS)


def test_every_new_form_exists(k: nvb.KernelBuilder) -> None:
    wrong = []
    for _, form in ROWS:
        tree = ast.parse(form, mode="eval").body
        named = [one.arg for one in tree.keywords] if isinstance(tree, ast.Call) else []
        function = tree.func if isinstance(tree, ast.Call) else tree
        assert isinstance(function, ast.Attribute)
        assert isinstance(function.value, ast.Attribute)
        noun = getattr(k, function.value.attr, None)
        call = getattr(noun, function.attr, None)
        if not callable(call):
            wrong.append(form)
            continue
        signature = inspect.signature(call)
        wrong += [f"{form}: {name}" for name in named if name not in signature.parameters]
        if isinstance(tree, ast.Call) and "..." not in form:
            signature.bind(*tree.args, **dict.fromkeys(named))
    assert wrong == []


def test_the_table_is_the_one_that_advises(k: nvb.KernelBuilder) -> None:
    """An old name that no noun has now draws call.unknown, whose fix is the new form."""
    assert dict(ROWS) == OLD_CALLS
    for old, form in ROWS:
        if old not in nouns():
            with pytest.raises(nvb.DiagnosticError) as caught:
                getattr(k, old)
            assert [one.fix for one in caught.value.diagnostics] == [f"use {form}"]


def test_no_old_name_is_left(k: nvb.KernelBuilder) -> None:
    """Of those that are nouns too, such as `k.barrier`, none is a call."""
    nouns = {form.split(".")[1] for _, form in ROWS}
    left = [old for old, _ in ROWS if hasattr(type(k), old)]
    assert left == []
    assert [old for old, _ in ROWS if old not in nouns and hasattr(k, old)] == []
