"""What is not PTX is a diagnostic with its line; nothing else ever leaves the parser."""

from __future__ import annotations

import random

import pytest

from nvbackend import DiagnosticError
from nvbackend.ptx import parse, resolve
from tests.ptx.texts import FOREIGN

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
MUTANTS = 400
SYNTAX, DIRECTIVE, UNDECLARED, REDECLARED = "ptx.syntax", "ptx.directive", "ptx.undeclared", "ptx.redeclared"


def refusals(text):
    with pytest.raises(DiagnosticError) as caught:
        resolve(parse(text, "kernel.ptx"))
    return [(one.rule_id, one.location.file, one.location.line) for one in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("text", "rule", "line"),
    [
        ("", SYNTAX, 1),
        (".version nine", SYNTAX, 1),
        (".version .0", SYNTAX, 1),
        (HEAD + "add.s32;", SYNTAX, 4),
        (HEAD + ".entry k() {\n mov.b32 %r1 %r2;\n}", SYNTAX, 5),
        (HEAD + ".entry k() {\n mov.b32 %r1, \x00;\n}", SYNTAX, 5),
        (HEAD + ".entry k() {\n ret;\n", SYNTAX, 6),
        (HEAD + ".entry k() {\n .reg .b33 %r;\n}", DIRECTIVE, 5),
        (HEAD + ".entry k() {\n .frobnicate 3;\n}", DIRECTIVE, 5),
        (HEAD + ".entry k()\n.maxthreads 3\n{ ret; }", DIRECTIVE, 5),
        (HEAD + ".gobal .b32 x;", DIRECTIVE, 4),
        (HEAD + ".entry k() {\n ld.global.b32 %r0, [%rd" + "[" * 500, SYNTAX, 5),
        (HEAD + ".entry k() {\n" + "{" * 100_000, SYNTAX, 5),
        (HEAD + " " * 100_000 + "`", SYNTAX, 4),
        (HEAD + "/* more */" * 10_000 + "`", SYNTAX, 4),
        (HEAD + ".global .b32 x = " + "-" * 100_000 + "1;", SYNTAX, 4),
        (HEAD + ".global .b32 x[] = " + "{" * 100_000, SYNTAX, 4),
        (HEAD + ".entry k() {\n ret;\n mov.b32 %r1, 0;\n}", UNDECLARED, 6),
        (HEAD + ".entry k() {\n .reg .b32 %r<3>;\n mov.b32 %r3, 0;\n}", UNDECLARED, 6),
        (HEAD + ".entry k() {\n bra L;\n { L: ret; }\n}", UNDECLARED, 5),
        (HEAD + ".entry k() {\n .reg .b32 %r<3>;\n .reg .b64 %r<9>;\n}", REDECLARED, 6),
        (HEAD + ".entry k() {\n L: ret;\n L: ret;\n}", REDECLARED, 6),
    ],
)
def test_a_wrong_text_is_refused_at_its_line(text, rule, line):
    assert (rule, "kernel.ptx", line) in refusals(text)


def test_an_empty_text_is_not_quoted():
    with pytest.raises(DiagnosticError) as caught:
        parse("", "kernel.ptx")
    (found,) = caught.value.diagnostics
    assert found.message == "column 1: the end of the text where '.version' is expected"


def test_inner_blocks_may_declare_a_name_again():
    body = ".reg .b32 %r; { .reg .b64 %r; mov.b64 %r, 0; } mov.b32 %r, %tid.x; bra L; L: ret;"
    names = resolve(parse(HEAD + f".entry k() {{ {body} }}"))
    types = [declared.type for _, declared in sorted(names.of.items()) if hasattr(declared, "type")]
    assert types == ["b64", "b32"]


def test_a_row_of_registers_does_not_declare_its_prefix():
    body = ".reg .b32 a; .reg .b16 a<2>; mov.b32 {a0, a1}, a;"
    names = resolve(parse(HEAD + f".entry k() {{ {body} }}"))
    assert [declared.type for _, declared in sorted(names.of.items())] == ["b16", "b16", "b32"]
    assert refusals(HEAD + ".entry k() {\n .reg .b32 a<2>;\n mov.b32 a, 0;\n}") == [(UNDECLARED, "kernel.ptx", 6)]


def test_everything_undeclared_is_told_at_once():
    assert len(refusals(HEAD + ".entry k() {\n mov.b32 %a, %b;\n mov.b32 %c, %d;\n}")) == 4


def mutant(text, random_):
    """`text` with a piece of it taken out, doubled, or put elsewhere."""
    start = random_.randrange(len(text))
    end = start + random_.choice([1, 1, 2, 5, 30])
    other = random_.randrange(len(text))
    piece = text[start:end]
    return random_.choice(
        [
            text[:start] + text[end:],
            text[:end] + piece + text[end:],
            text[:other] + piece + text[other:],
            text[:start] + random_.choice('{}[]();,.:@!-|"\\%$0xf\n\x00é') + text[end:],
        ]
    )


def test_mutated_texts_are_read_or_refused():
    """Texts of other compilers, broken at random places: a tree or a diagnostic, each with a line that exists."""
    random_ = random.Random(20)
    texts = [text for path in FOREIGN if len(text := path.read_text()) < 7000]
    mutants = [mutant(text, random_) for _ in range(MUTANTS // len(texts)) for text in texts]
    refused = [(changed, error) for changed in mutants if (error := refusal(changed)) is not None]
    assert len(refused) > MUTANTS // 10
    for changed, error in refused:
        lines = changed.count("\n") + 1
        assert all(1 <= one.location.line <= lines for one in error.diagnostics)


def refusal(text):
    try:
        resolve(parse(text))
    except DiagnosticError as error:
        return error
    return None
