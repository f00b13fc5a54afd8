"""`k.location`: everything that is emitted in the block is of a place in the source of another language."""

from __future__ import annotations

import re
from pathlib import PurePath

import numpy as np
import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import f32
from nvbackend.codegen.llvm import compile_ir
from nvbackend.codegen.looking.listings import counts_by_line
from nvbackend.codegen.looking.page import page
from nvbackend.diagnostics.ascii_paths import ascii_path

SOURCE = """let scale(x) = twice(x)
let twice(x) =
    x + x
"""


@pytest.fixture
def program(tmp_path):
    """A program of another language, on disk."""
    file = tmp_path / "scale.dsl"
    file.write_text(SOURCE)
    return str(file)


def scaled(k, file, x, amount=20):
    """What its compiler does with it."""
    with k.location(file, 1, name="scale"):
        thread = k.thread_id()
        with k.location(file, 3, 5, "twice"):
            value = x[thread]
            x[thread] = value + value
            k.barrier.sync()
            k.nanosleep(amount)


def builder():
    return nvb.KernelBuilder("scaled", "sm_90a", threads=32, parameters=[nvb.Parameter("x", nvb.Pointer(f32))])


def compiled(file):
    k = builder()
    scaled(k, file, *k.arguments)
    return k.compile(cache=nvb.Cache.disabled())


def test_the_machine_form_has_the_place_and_its_callers(program):
    kernel = compiled(program)
    found = {each.opcode: each.location for block in kernel.machine.blocks.values() for each in block.instructions}
    wait = found["nanosleep"]
    assert (wait.file, wait.line, wait.column, wait.function) == (program, 3, 5, "twice")
    assert wait.source == "x + x"
    outer, *python = wait.callers
    assert (outer.file, outer.line, outer.function, str(outer)) == (program, 1, "scale", f"{program}:1 in scale")
    assert {each.file for each in python} == {__file__}
    assert found["ret"].file == __file__  # it ends after the block


def test_a_kept_line_is_a_place():
    k = builder()
    line = nvb.user_line()
    with k.location(line), k.location(nvb.Location("a.dsl", 7, "", column=5)):
        k.barrier.sync()
    (place,) = [one.location for one in next(iter(k.finish().machine.blocks.values())).instructions][:1]
    assert (place.file, place.line, place.column) == ("a.dsl", 7, 5)
    assert (place.callers[0].file, place.callers[0].line) == (__file__, line.line)
    assert line.source == "line = nvb.user_line()"


def test_a_kept_line_that_is_the_caller_is_shown_once():
    """As a language embedded in Python keeps it: the line of its call, which is the place of what it emits."""
    language = {"nvb": nvb, "__name__": "language", "__nvbackend_plumbing__": True}
    exec("def sleep(k, amount):\n    with k.location(nvb.user_line()):\n        k.nanosleep(amount)\n", language)
    with pytest.raises(nvb.DiagnosticError) as raised:
        language["sleep"](builder(), -1)
    shown = [line for line in str(raised.value).splitlines() if "language[" in line]
    assert [line.split()[0] for line in shown] == ["at"]


def test_diagnostics_list_the_place_then_its_callers_then_python(program):
    k = builder()
    with pytest.raises(nvb.DiagnosticError) as raised:
        scaled(k, program, *k.arguments, amount=-1)
    first, inner, outer, python = str(raised.value).splitlines()[:4]
    assert first.startswith("error[nanosleep.range]")
    assert inner == f"  at {program}:3:5 in twice    x + x"
    assert outer == f"  called from {program}:1 in scale    let scale(x) = twice(x)"
    assert python.startswith(f"  called from {__file__}:") and python.endswith("k.nanosleep(amount)")


def test_a_place_inside_itself_is_there_once(program):
    k = builder()
    with k.location(program, 1), k.location(program, 3), k.location(program, 3), k.location(program, 1):
        k.nanosleep(20)
    (wait,) = (
        each
        for block in k.finish().machine.blocks.values()
        for each in block.instructions
        if each.opcode == "nanosleep"
    )
    assert [(at.file, at.line) for at in (wait.location, *wait.location.callers)][:4] == [
        *((program, line) for line in (1, 3, 1)),
        (__file__, wait.location.callers[2].line),
    ]


@pytest.mark.parametrize(("inner", "column"), [(9, 9), (0, 2)])
def test_of_one_line_the_inner_column_is_the_place(program, inner, column):
    k = builder()
    with k.location(program, 3, 2, "twice"), k.location(program, 3, inner, "twice"):
        with pytest.raises(nvb.DiagnosticError) as raised:
            k.nanosleep(-1)
        k.nanosleep(20)
    place, python = str(raised.value).splitlines()[1:3]
    assert place.startswith(f"  at {program}:3:{column} in twice") and __file__ in python
    assert re.search(rf"\.loc\s+\d+ 3 {column}\n", k.compile(cache=nvb.Cache.disabled()).ptx)


def test_what_is_found_when_the_kernel_ends_has_the_place(program):
    k = builder()
    (x,) = k.arguments
    tile = k.shared(f32, 32, name="tile")
    with k.location(program, 3, name="twice"):
        tile[k.thread_id()] = x[k.thread_id()]
    with k.location(program, 1, name="scale"):
        x[k.thread_id()] = tile[(k.thread_id() + 1) % 32]
    with pytest.raises(nvb.DiagnosticError) as raised:
        k.finish()
    places = [(each.location.file, each.location.line) for each in raised.value.diagnostics]
    assert places and set(places) <= {(program, 1), (program, 3)}


def test_ptx_and_looking_name_the_place(program):
    kernel = compiled(program)
    files = dict(re.findall(r'\.file\s+(\d+) "(.*)"', kernel.ptx))
    here, places = None, {}
    for text in kernel.ptx.splitlines():
        if (loc := re.match(r"\s+\.loc\s+(\d+) (\d+) (\d+)", text)) is not None:
            here = files[loc[1]], int(loc[2]), int(loc[3])
        elif (opcode := re.match(r"\s+([a-z][\w.]+)\s", text)) is not None:
            places.setdefault(opcode[1], here)
    encoded = ascii_path(program)
    assert places["nanosleep.u32"] == places["ld.global.b32"] == places["bar.sync"] == (encoded, 3, 5)
    assert places["mov.u32"] == (encoded, 1, 0)
    assert counts_by_line(kernel, ("machine", "ptx", "sass"))[encoded, 3]["sass"] > 0
    python, _ = page(kernel).split("Machine form", 1)
    assert "x + x" in python and "let scale(x)" in python


def test_a_report_names_the_place(program):
    loaded = nvb.runtime.load(compiled(program), device="simulator", report=True)
    x = np.arange(32, dtype=np.float32)
    loaded.launch(1, x)
    assert x.tolist() == list(range(0, 64, 2))
    assert loaded.report.by_line()[3].written == {"global": 128}
    assert re.search(r"^ *3 .*x \+ x$", str(loaded.report.by_line()), re.MULTILINE)


def test_lines_of_python_come_back_after_the_block_and_after_an_error(program):
    k = builder()
    with pytest.raises(ZeroDivisionError), k.location(program, 1):
        raise ZeroDivisionError
    k.nanosleep(20)
    (instr,) = [each for each in k.machine.blocks["entry"].instructions if each.opcode == "nanosleep"]
    assert instr.location.file == __file__


def test_a_kernel_that_is_built_inside_has_its_own_lines(program):
    @nvb.kernel("sm_90a", threads=32)
    def inside(k):
        k.nanosleep(20)

    alone = inside.build()
    k = builder()
    with k.location(program, 3):
        assert inside.build().ir == alone.ir


def test_an_attached_functions_places_are_in_its_machine_form(program):
    module = ir.Module("own")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "own")
    function.calling_convention = "ptx_kernel"
    own = ir.IRBuilder(function.append_basic_block("entry"))
    k = nvb.attach(own, "sm_90a", threads=32)
    with k.location(program, 3):
        k.nanosleep(20)
    own.ret_void()
    k.verify()
    assert k.machine.blocks["entry"].instructions[0].location.file == program
    assert ".loc" not in compile_ir(str(module), k.target).ptx  # those are the owner's


def test_the_block_must_be_entered(program):
    k = builder()
    k.location(program, 3)
    with pytest.raises(nvb.DiagnosticError, match=r"control\.not-entered.*k\.location"):
        k.finish()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("", 1), "file is ''"),
        ((7, 1), "file is 7"),
        (("a\nb", 1), r"file is 'a\nb'"),
        (("a", 0), "line is 0, and it must be an integer from 1 to 2147483647"),
        (("a", -4), "line is -4"),
        (("a", "4"), "line is '4'"),
        (("a", 2**31), "line is 2147483648"),
        (("a", 1, -1), "column is -1, and it must be an integer from 0 to 65535"),
        (("a", 1, 65536), "column is 65536"),
        (("a", 1, 0, ""), "name is ''"),
        (("a", 1, 0, 5), "name is 5"),
        ((nvb.Location("a", 1, ""), 3), "line is 3, and it must be left out beside a Location, which has its own"),
        ((nvb.Location("a", 1, ""), 0, 3), "column is 3"),
        ((PurePath("a"), 1), "file is Pure"),
    ],
)
def test_wrong_places(given, problem):
    k = builder()
    with pytest.raises(nvb.DiagnosticError) as raised:
        k.location(*given)
    (found,) = raised.value.diagnostics
    assert found.rule_id == "location.place" and problem in found.message
    k.finish()  # nothing is left of it


def test_the_greatest_numbers_reach_ptxas():
    k = builder()
    with k.location("é.dsl", 2**31 - 1, 65535):
        k.nanosleep(20)
    kernel = k.compile(cache=nvb.Cache.disabled())
    assert re.search(r"\.loc\s+\d+ 2147483647 65535\n", kernel.ptx)
