"""The names that code uses: those that Python's own disassembler tells, for all code of a few modules."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvbackend.builder.kernel.again.code_names import named_by_dis, named_instructions, names_of, names_of_text
from nvbackend.builder.kernel.again.pure_names import code_of
from tests.support.process import ROOT


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)


def compiled(path: Path) -> types.CodeType:
    return compile(path.read_text("utf-8"), str(path), "exec")


@pytest.mark.parametrize("folder", ["builder/kernel", "diagnostics", "intrinsics/mma", "codegen"])
def test_names_are_those_that_the_disassembler_tells(folder: str) -> None:
    found = [each for path in sorted((ROOT / "nvbackend" / folder).rglob("*.py")) for each in codes_in(compiled(path))]
    assert len(found) > 50
    for code in found:
        assert list(named_instructions(code)) == list(named_by_dis(code))


def test_names_beyond_the_first_256_are_told_apart() -> None:
    many = [f"name{place}" for place in range(70_000)]
    code = compile("\n".join(f"{name}.of_{name}" for name in many), "many.py", "exec")
    names = names_of(code)
    assert names.globals == tuple(many)
    assert list(names.attributes) == [f"of_{name}" for name in many]


@pytest.mark.parametrize(
    ("text", "imports", "unknown"),
    [
        ("import a.b", ("a.b",), ""),
        ("from a import b", ("a",), ""),
        ("from .a import b", ("a",), "a relative import"),
        ("def f():\n    from . import b", ("",), "a relative import"),
    ],
)
def test_imports_are_told_with_where_they_begin(text: str, imports: tuple[str, ...], unknown: str) -> None:
    names = names_of(compile(text, "imports.py", "exec"))
    assert (names.imports, names.unknown) == (imports, unknown)


def test_a_pattern_of_a_class_reads_by_name() -> None:
    matching = "def f(x):\n    match x:\n        case int(real=1): pass"
    assert names_of(compile(matching, "match.py", "exec")).by_name
    assert not names_of(compile(matching.replace("int(real=1)", "1"), "match.py", "exec")).by_name


ANNOTATIONS = ("a", "a.b.c", "a.b.a", "a.__dict__", "a.getattr", "a.format", "len", "match.type", "_", "None")
MORE = ("__debug__", "a.", ".a", "a..b", "a.1", "a b", "a|b", "f(a)", "'a.b'", '"a"', "'\"a\"'", "lambda: a", "not")
MOST = ("a.not", "\ufb01.a", "")


@pytest.mark.parametrize("text", [*ANNOTATIONS, *MORE, *MOST])
def test_names_of_text_are_those_of_its_code(text: str) -> None:
    try:
        expected = names_of(code_of(text))
    except SyntaxError:
        expected = None
    assert names_of_text(text) == expected
