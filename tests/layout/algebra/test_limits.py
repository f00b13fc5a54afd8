"""Layouts that no address reaches and no memory holds: refused at once, each by a diagnostic."""

from __future__ import annotations

import functools
import subprocess
import sys

import pytest

import nvbackend as nvb
from nvbackend import layout
from nvbackend.layout import Layout, Swizzle, parse, pictures
from tests.support.process import ROOT

SECONDS = 20
"""A process that starts Python and takes longer than this hangs: the answers take milliseconds."""
BYTES = 2 << 30

REFUSED = {
    "a hundred thousand parentheses": "parse('(' * 100_000)",
    "deep on both sides": "parse('(' * 900 + '1' + ')' * 900 + ':' + '(' * 900 + '0' + ')' * 900)",
    "5,000 digits": "parse('9' * 5000 + ':1')",
    "5,000 digits of stride": "parse('_2:_' + '9' * 5000)",
    "5,000 digits of offset": "parse('Sw<3,4,3> o ' + '9' * 5000 + ' o (_8,_64):(_64,_1)')",
    "5,000 digits of width": "parse('Sw<3,4,3> o smem_ptr[' + '9' * 5000 + 'b](unset) o (_8,_64):(_64,_1)')",
    "bits of a swizzle": "parse('Sw<99999999999,4,99999999999> o smem_ptr o (_8,_64):(_64,_1)')",
    "base of a swizzle": "parse('Sw<3,99999999999,3> o smem_ptr o (_8,_64):(_64,_1)')",
    "shift of a swizzle": "Swizzle(3, 4, -(2**70))",
    "a million integers": "parse('(' + '1,' * 1_000_000 + '1):1')",
    "a million modes": "Layout((1,) * 1_000_000)",
    "a deep tuple": "Layout(nested(100_000))",
    "a tree of shared tuples": "Layout(doubled(60))",
    "a tree of layouts": "functools.reduce(lambda one, _: layout.make_layout(one, one), range(60), Layout(2))",
    "a deep coordinate": "Layout((8, 8))(nested(100_000))",
    "a huge extent": "Layout(10**5000)",
    "a drawing": "Layout((3000, 3000)).svg()",
    "a drawing of a row": "Layout((1, 2**40)).svg()",
    "a swizzled drawing": "parse('Sw<3,4,3> o 0 o (_30000,_64):(_64,_1)').svg()",
    "a drawing of banks": "pictures.banks(Layout((3000, 3000)), 16)",
    "a drawing of memory": "pictures.memory(Layout((8, 8), (1, 2**50)), 16)",
    "a drawing of threads": "pictures.thread_values(Layout((32, 2)), (2**40, 2**40))",
    "all indices": "Layout((2**40, 2**20)).offsets()",
    "conflicts": "layout.bank_conflicts(Layout((2**30, 1)), 16, 4)",
    "the name of an atom": "atoms.atom('SM90_64x' + '9' * 5000 + 'x16_F32F16F16_SS<Major::K, Major::K>')",
    "brackets in the name of an atom": "atoms.atom('SM90_64x64x16_F32F16F16_SS<' + 'a<' * 100_000)",
    "a long name of an atom": "atoms.atom('A' * 10_000_000)",
    "the digits of a shape": "nvb.wgmma.mma_async('m64n' + '9' * 5000 + 'k16', nvb.f16, nvb.f16, nvb.f32)",
}

PROGRAM = """
import functools, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
import nvbackend as nvb
from nvbackend import atoms, layout
from nvbackend.layout import Layout, Swizzle, parse, pictures

def nested(depth):
    return functools.reduce(lambda inner, _: (inner,), range(depth), 1)

def doubled(depth):
    return functools.reduce(lambda inner, _: (inner, inner), range(depth), 1)

for line in sys.stdin.read().splitlines():
    print("asked", flush=True)
    try:
        eval(line)
    except nvb.DiagnosticError as error:
        (found,) = error.diagnostics
        assert len(str(error)) < 20_000, len(str(error))
        print(found.rule_id, flush=True)
    else:
        print("accepted", flush=True)
"""


def test_what_is_beyond_every_limit_is_refused_at_once_and_in_little_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(BYTES)],
        input="\n".join(REFUSED.values()),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    answers = done.stdout.replace("asked\n", "").split()
    told = dict(zip(REFUSED, answers, strict=False))
    assert done.returncode == 0, (told, done.stderr[-2000:])
    assert [name for name, rule in told.items() if rule == "accepted"] == []
    assert {rule.partition(".")[0] for rule in answers} <= {
        *("layout-algebra", "picture", "atom", "mma", "call", "banks")
    }


def nested(depth: int, kind: type = tuple) -> object:
    return functools.reduce(lambda inner, _: kind([inner]), range(depth), 1)


@pytest.mark.parametrize(
    ("within", "beyond"),
    [
        (lambda: Layout(2**63 - 1), lambda: Layout(2**63)),
        (lambda: Layout(2, -(2**63)), lambda: Layout(2, -(2**63) - 1)),
        (lambda: parse("(" * 32 + "1" + ")" * 32 + ":" + "(" * 32 + "0" + ")" * 32), lambda: parse("(" * 33 + "1")),
        (lambda: Layout(nested(32)), lambda: Layout(nested(33))),
        (lambda: Layout(nested(32), nested(32)), lambda: Layout(nested(32), nested(33))),
        (lambda: Layout(nested(32, list)), lambda: Layout((2, nested(32, list)))),
        (lambda: Layout((1,) * 4096), lambda: Layout((1,) * 4097)),
        (lambda: Layout(((1,) * 64,) * 64), lambda: Layout((((1,) * 64,) * 64, 1))),
        (lambda: Layout(((1, ()),) * 2048), lambda: Layout((((1, ()),) * 2048, ()))),
        (lambda: Swizzle(3, 58, 3), lambda: Swizzle(3, 59, 3)),
        (lambda: Layout((256, 512)).svg(), lambda: Layout((256, 513)).svg()),
        (lambda: Layout(1 << 22).offsets(), lambda: Layout((1 << 22) + 1).offsets()),
        (
            lambda: pictures.thread_values(Layout((32, 2)), (256, 512)),
            lambda: pictures.thread_values(Layout((32, 2)), (256, 513)),
        ),
    ],
)
def test_the_last_within_a_limit_and_the_first_beyond_it(within, beyond) -> None:
    assert within()
    with pytest.raises(nvb.DiagnosticError, match=r"layout-algebra\.|picture\.size"):
        beyond()


def test_an_error_in_a_long_text_quotes_the_place_and_marks_it() -> None:
    text = "(" + "_2," * 500 + "x," + "_2," * 500 + "_2):1"
    with pytest.raises(nvb.DiagnosticError) as caught:
        parse(text)
    first, quoted, mark = caught.value.diagnostics[0].message.splitlines()
    assert f"at character {text.index('x')} " in first
    assert quoted[mark.index("^")] == "x"
    assert len(quoted) < 160


def test_layouts_of_the_largest_tiles_are_listed() -> None:
    """All of shared memory by bits, and all of tensor memory by words."""
    assert len(layout.Layout(227 * 1024 * 8).offsets()) == 227 * 1024 * 8
    assert len(layout.Layout((128, 512), (512, 1)).offsets()) == 128 * 512
