"""What tests are made of: each can fail."""

from __future__ import annotations

import ast

import pytest

from tests.support.source import functions, sources

TESTS = [source for source in sources("tests") if source.path.name.startswith("test_")]
RAISES = ("pytest.raises", "pytest.warns", "pytest.fail")


def asserts(function: ast.AST) -> bool:
    """Whether its own body says what must hold: helpers that assert have `assert` in their name, or are goldens."""
    return any(
        isinstance(node, ast.Assert) or _called(node).startswith(RAISES) or _checks(node) for node in ast.walk(function)
    )


def _called(node: ast.AST) -> str:
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def _checks(node: ast.AST) -> bool:
    name = _called(node)
    return "assert_" in name or (name.endswith(".check") and ("golden" in name.lower() or name.startswith("Verdicts(")))


def test_every_test_can_fail() -> None:
    tests = [(source, one) for source in TESTS for one in functions(source.tree) if one.name.startswith("test_")]
    assert tests
    assert [f"{source.module}:{one.lineno}: {one.name}" for source, one in tests if not asserts(one)] == []


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("run()", False),
        ("with pytest.raises(ValueError): run()", True),
        ("golden.check('a', run())", True),
        ("Verdicts('noted.txt').check(run())", True),
        ("rule.check('a')", False),
        ("numpy.testing.assert_allclose(run(), 1)", True),
        ("for one in run(): assert one", True),
    ],
)
def test_the_walk_sees_assertions(body: str, found: bool) -> None:
    assert asserts(ast.parse(body)) is found
