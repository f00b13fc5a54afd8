"""What is read and written again is the same program: the same tree, and to ptxas the same machine code."""

from __future__ import annotations

import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvbackend.codegen.sass import disassemble
from nvbackend.ptx import parse, print_module, resolve, syntax
from nvbackend.ptx.syntax import (
    Address,
    Float,
    Guard,
    Instruction,
    Integer,
    Label,
    Module,
    Name,
    Negated,
    Pair,
    Statement,
    Sum,
    Variable,
    Vector,
)
from nvbackend.simulator import Simulator
from tests.ptx.texts import FOREIGN, OWN, own_text
from tests.support.ptxas import ptxas

pytestmark = pytest.mark.sampled(3)

each_foreign = pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.stem)
LEAST_FOREIGN = 6


def sass(text, folder):
    """The machine code that ptxas makes of `text`, without line information."""
    target = re.search(r"\.target (\w+)", text).group(1)
    source, cubin = folder / "text.ptx", folder / "text.cubin"
    source.write_text(text)
    subprocess.run([ptxas(target), "-c", "-arch", target, str(source), "-o", str(cubin)], check=True)
    shown = disassemble(cubin.read_bytes())
    assert "EXIT" in shown
    return re.sub(r"__\d+\b", "", shown)  # ptxas puts lines of the text into names of its own


@each_foreign
def test_other_compilers_texts_keep_their_machine_code(path, tmp_path):
    text = path.read_text()
    module = parse(text, str(path))
    written = print_module(module)
    assert parse(written) == module
    assert sass(written, tmp_path) == sass(text, tmp_path)


@pytest.mark.parametrize("index", range(len(OWN)), ids=lambda index: OWN[index].__name__)
def test_our_own_texts_are_read_whole(index):
    text = own_text(index)
    module = parse(text)
    assert parse(print_module(module)) == module
    instructions = [line for line in text.splitlines() if re.match(r"\s+(@|[a-z])", line)]
    read = list(instructions_of(module.functions[0].body.statements))
    assert len(read) == text.count(";") - declarations(text) and len(read) >= len(instructions) > 0
    resolve(module)
    assert Simulator().load(text).kernels == tuple(module.kernels)


def declarations(text):
    """Semicolons that end no instruction: of registers, arrays and hints; comments have none here."""
    return len(re.findall(r"(?<![\w.])\.(?:reg|shared|local|extern|global|const|param|pragma|visible)\b[^;(]*;", text))


def instructions_of(statements):
    for statement in statements:
        if isinstance(statement, Instruction):
            yield statement
        elif isinstance(statement, syntax.Block):
            yield from instructions_of(statement.statements)


def test_the_foreign_texts_are_there():
    assert len(FOREIGN) >= LEAST_FOREIGN


def test_a_kernel_is_read_as_it_is_written():
    module = parse(
        """
        .version 9.0
        .target sm_90a, debug
        .address_size 64
        .visible .entry k(.param .u64 .ptr .global .align 16 a, .param .align 64 .b8 map[128])
        .maxntid 128, 2, 1
        {
          .reg .b32 %r<3>, %q;
          .shared .align 8 .b64 bar[2];
          @!%p0 ld.shared::cta.v2.f32 {%r0, _}, [bar+-8]; // a comment; with a semicolon
          tex.like %r1|%p1, [%rd0, {%r0, -1}], 0f3F800000, 0xFFU, !%p2;
        L1: ret;
        }
        """
    )
    kernel = module.kernels["k"]
    assert module.version == (9, 0) and module.target == ("sm_90a", "debug")
    assert kernel.directive("maxntid") == (128, 2, 1)
    assert kernel.parameters[0].pointer == syntax.Pointer("global", 16)
    assert kernel.parameters[1].shape == (128,) and kernel.parameters[1].alignment == 64
    assert kernel.body.statements == (
        Variable("reg", "b32", "%r", registers=3),
        Variable("reg", "b32", "%q"),
        Variable("shared", "b64", "bar", alignment=8, shape=(2,)),
        Instruction(
            "ld.shared::cta.v2.f32",
            (Vector((Name("%r0"), Name("_"))), Address(Name("bar"), -8)),
            Guard(Name("%p0"), negated=True),
        ),
        Instruction(
            "tex.like",
            (
                Pair(Name("%r1"), Name("%p1")),
                Address(Name("%rd0"), 0, Vector((Name("%r0"), Integer(-1)))),
                Float(0x3F800000, 32),
                Integer(255, unsigned=True),
                Negated(Name("%p2")),
            ),
        ),
        Label("L1"),
        Instruction("ret"),
    )
    assert kernel.body.statements[3].parts == ("ld", "shared::cta", "v2", "f32")
    assert kernel.body.statements[3].position == syntax.Position(10, 11)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1+2*3", 7), ("(1+2)*3", 9), ("-4", -4), ("~0", -1), ("1<<4|1", 17), ("010", 8), ("0b101", 5), ("10-3-2", 5)],
)
def test_constant_expressions_have_their_value(text, value):
    module = parse(f".version 8.0\n.target sm_80\n.address_size 64\n.global .b32 x = {text};")
    assert module.items[0].initial == Integer(value)


@pytest.mark.parametrize(
    ("text", "bits"), [("1.0", 0x3FF0000000000000), ("-2.5e0", 0xC004000000000000), ("-0d0000000000000000", 1 << 63)]
)
def test_floating_point_constants_have_their_bits(text, bits):
    module = parse(f".version 8.0\n.target sm_80\n.address_size 64\n.global .f64 x = {text};")
    assert module.items[0].initial == Float(bits, 64)


names = st.from_regex(r"[%$_]?[A-Za-z][A-Za-z0-9_$]{0,6}", fullmatch=True).filter(lambda name: name != "generic")
name = names.map(Name)
integer = st.builds(Integer, st.integers(0, 2**64 - 1), st.booleans())
signed = st.builds(Integer, st.integers(-(2**63), -1))
floats = st.builds(Float, st.integers(0, 2**32 - 1), st.just(32)) | st.builds(
    Float, st.integers(0, 2**64 - 1), st.just(64)
)
simple = name | integer | signed | floats | st.builds(Sum, name, st.integers(-64, 64), st.booleans())
vector = st.builds(Vector, st.lists(simple, max_size=3).map(tuple))
address = st.builds(Address, name, st.integers(-99, 99), st.none() | vector)
operand = simple | vector | address | st.builds(Negated, name) | st.builds(Pair, name, name)
instruction = st.builds(
    Instruction,
    st.from_regex(r"[a-z]{2,5}(\.(shared::cta|[a-z0-9]{1,4})){0,3}", fullmatch=True),
    st.lists(operand, max_size=4).map(tuple),
    st.none() | st.builds(Guard, name, st.booleans()),
)
variable = st.builds(
    Variable,
    st.sampled_from(["reg", "shared", "local"]),
    st.sampled_from(["b32", "f16x2", "pred"]),
    names,
    st.none() | st.sampled_from([4, 128]),
    st.sampled_from([1, 2, 4]),
    st.lists(st.integers(1, 99), max_size=2).map(tuple),
)
statement: st.SearchStrategy[Statement] = instruction | variable | st.builds(Label, names)
blocks = st.recursive(
    st.builds(syntax.Block, st.lists(statement, max_size=4).map(tuple)),
    lambda inner: st.builds(syntax.Block, st.lists(statement | inner, max_size=3).map(tuple)),
    max_leaves=4,
)


@settings(max_examples=100, deadline=None)
@given(blocks, st.lists(variable, max_size=3).map(tuple))
def test_any_tree_is_written_as_it_can_be_read(body, parameters):
    function = syntax.Function("k", True, parameters, body=body, linkage="visible")
    module = Module((9, 0), ("sm_90a",), 64, (function,))
    assert parse(print_module(module)) == module
