"""A flag may be 0, 1 or NumPy's bool (`is_flag`), so nothing asks whether one is the very object True or False."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f32

PACKAGE = Path(nvb.__file__).parent
OF_NUMBERS = {"nvbackend/builder/lower/loop_hints.py"}
"""Where 1 is not True: the copies of a loop's body."""
CHECKED = {("nvbackend/builder/kernel/definition.py", "check")}
"""What its call refuses to be anything but a bool."""


def compared(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Parameters that are flags and are compared with True or False by identity: line and name."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        arguments = (*function.args.args, *function.args.kwonlyargs)
        flags = {one.arg for one in arguments if one.annotation is not None and "bool" in ast.unparse(one.annotation)}
        for node in ast.walk(function):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
                other = node.comparators[0]
                if isinstance(node.left, ast.Name) and isinstance(other, ast.Constant) and type(other.value) is bool:
                    yield from ((node.lineno, name) for name in flags & {node.left.id})


def test_no_flag_is_compared_by_identity() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE.parent))
        if name not in OF_NUMBERS:
            lines = compared(ast.parse(path.read_text()))
            found += [f"{name}:{line}: {flag}" for line, flag in lines if (name, flag) not in CHECKED]
    assert found == []


def test_a_comparison_would_be_seen() -> None:
    text = "def f(a: bool | None, b: int):\n  return a is False or b is True\n"
    assert [*compared(ast.parse(text))] == [(2, "a")]


CALLS = {
    "exp2": lambda k, x, flag: k.math.exp2(x, approx=flag),
    "log2": lambda k, x, flag: k.math.log2(x, approx=flag),
    "rsqrt": lambda k, x, flag: k.math.rsqrt(x, approx=flag),
    "reciprocal": lambda k, x, flag: k.math.reciprocal(x, approx=flag),
    "flushed reciprocal": lambda k, x, flag: k.math.reciprocal(x, approx=True, ftz=flag),
    "exp": lambda k, x, flag: k.math.exp(x, approx=flag),
    "sqrt": lambda k, x, flag: k.math.sqrt(x, approx=flag),
}


def text_with(call: str, flag: object) -> str:
    @nvb.kernel("sm_90a", threads=32)
    def computed(k, x: nvb.Pointer[f32]):
        x[0] = CALLS[call](k, x[1], flag)

    return computed.build(check=False).ir


@pytest.mark.parametrize("call", CALLS)
def test_zero_and_one_are_what_false_and_true_are(call: str) -> None:
    texts = {flag: text_with(call, flag) for flag in (False, True)}
    assert texts[False] != texts[True]
    for number in (0, 1):
        assert text_with(call, number) == text_with(call, np.bool_(number)) == texts[bool(number)]


def test_apart_may_be_a_number_that_is_a_flag() -> None:
    def ir(apart: object) -> str:
        @nvb.kernel("sm_90a", threads=256)
        def ring(k, x: nvb.Pointer[f32]):
            k.pipeline(2, 1, apart=apart, row=(f32, 128), other=(f32, 64))
            k.mbarrier.ready()

        return ring.build(check=False).ir

    assert ir(0) == ir(False) != ir(True) == ir(1)
