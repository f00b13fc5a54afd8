"""The callers of the user's lines in PTX and SASS. The witnesses are the source of this file, ptxas and nvdisasm."""

from __future__ import annotations

import inspect
import json
import re

import pytest

import nvbackend as nvb
from nvbackend import f32
from nvbackend.builder.lower import lines
from nvbackend.cli import main
from nvbackend.codegen.looking.listings import ptx_lines, sass_lines
from nvbackend.codegen.ptxas_messages import diagnose
from nvbackend.codegen.stages.inlined import FIRST_KEY, LAST_KEY, TABLE, moved, with_callers
from nvbackend.codegen.user_lines import at_user_lines

UNCACHED = nvb.Cache.disabled()
REMARK = (
    "ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma "
    "instructions defining accumulator registers of a wgmma between start and end of the pipeline stage"
)


def loaded(x, i):
    return x[i]  # inner


def plus(x, i):
    return loaded(x, i) + 1.0  # outer


@nvb.kernel("sm_90a", threads=32)
def two(k: nvb.KernelBuilder, x: nvb.Pointer[f32], y: nvb.Pointer[f32]) -> None:  # type: ignore[valid-type]
    i = k.thread_id()
    first = plus(x, i)  # of x
    second = plus(y, i)  # of y
    y[i] = first * second


@pytest.fixture(scope="module")
def compiled() -> nvb.CompiledKernel:
    return two.compile(cache=UNCACHED)


def line_of(text: str) -> tuple[str, int]:
    source = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    return __file__, next(number for number, line in enumerate(source, start=1) if line.endswith(text))


def chain(*ends: str) -> tuple[tuple[str, int], ...]:
    return tuple(map(line_of, ends))


CHAINS = {chain("# inner", "# outer", "# of x"), chain("# inner", "# outer", "# of y")}


def test_each_load_has_the_lines_by_which_it_was_reached(compiled):
    found = [(line.place, *line.callers) for line in ptx_lines(compiled) if "ld.global" in line.text]
    assert set(found) == CHAINS
    (stored,) = ((line.place, *line.callers) for line in ptx_lines(compiled) if "st.global" in line.text)
    assert stored == chain("y[i] = first * second")


def test_machine_code_has_the_callers_too(compiled):
    """nvdisasm says nothing where the callers alone change: the second of two loads in a row has none of its own."""
    chains = {(line.place, *line.callers) for line in sass_lines(compiled)}
    assert chains & CHAINS == {chain("# inner", "# outer", "# of x")}
    assert {chain("# outer", "# of x"), chain("y[i] = first * second")} <= chains


def test_functions_have_their_names(compiled):
    section = compiled.ptx[compiled.ptx.index(".debug_str") :]
    names = [bytes(map(int, codes.split(","))) for codes in re.findall(r"\.b8 ([\d,]+)", section)]
    assert names == [b"plus\0", b"loaded\0"]
    assert nvb.ptx.print_module(nvb.ptx.parse(compiled.ptx)).count(", inlined_at ") == compiled.ptx.count(
        ", inlined_at "
    )


def test_ptxas_is_told_by_whom_a_line_was_called(compiled):
    """Of two loads by one line, what ptxas says is at that of its caller: the callers are those of the machine form."""

    @nvb.kernel("sm_90a", threads=32)
    def waits(k):
        def wait():
            k.nanosleep(20)

        wait()  # once
        wait()  # again

    kernel = waits.compile(assemble=False, cache=UNCACHED)
    numbers = [number for number, line in enumerate(kernel.ptx.splitlines(), start=1) if "nanosleep" in line]
    said = f"{REMARK} in the function 'waits' in line {{}}"
    for number, end in zip(numbers, ("# once", "# again"), strict=True):
        (found,) = at_user_lines(diagnose(said.format(number), kernel.ptx), kernel.ptx, kernel.machine)
        assert [(each.file, each.line) for each in found.location.callers] == [line_of(end)]
        assert [where for _, where in found.notes if where == found.location] == []


def test_places_of_a_language_call_each_other():
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)
    for line in (3, 4):
        with k.location("a.dsl", line, 7, "main"), k.location("b.dsl", 1, 5, "wait"):
            k.nanosleep(20 * line)
    kernel = k.compile(assemble=False, cache=UNCACHED)
    places = [
        (line.text.split()[1].rstrip(";"), line.place, line.callers)
        for line in ptx_lines(kernel)
        if "nanosleep" in line.text
    ]
    assert places == [("60", ("b.dsl", 1), (("a.dsl", 3),)), ("80", ("b.dsl", 1), (("a.dsl", 4),))]
    assert re.search(r"\.loc\t(\d) 3 7\n\t\.loc\t(\d) 1 5, function_name \S+, inlined_at \1 3 7\n", kernel.ptx)


def test_who_builds_a_kernel_is_no_part_of_it():
    """The same PTX from another line, so that a cache finds it."""

    def built():
        k = nvb.KernelBuilder("k", "sm_90a", threads=32)
        loaded(k.shared(f32, 32), k.thread_id())
        return k.compile(assemble=False, cache=UNCACHED).ptx

    first = built()
    assert first == built()


def test_kernels_of_one_module_keep_their_callers():
    def wait(k):
        k.nanosleep(20)

    @nvb.kernel("sm_90a", threads=32)
    def one(k):
        wait(k)  # one's

    @nvb.kernel("sm_90a", threads=32)
    def other(k):
        wait(k)  # other's

    module = nvb.compile_module([one, other], assemble=False, cache=UNCACHED)
    chains = [line.callers for line in ptx_lines(module["one"]) if "nanosleep" in line.text]
    assert chains == [chain("# one's"), chain("# other's")]


def test_older_ptx_has_lines_alone(compiled):
    directive = f"\t.loc\t1 {line_of('# inner')[1]}"
    line = line_of("# inner")[1]
    key = re.search(rf"DILocation\(column: (\d+), line: {line}\b", compiled.ir)[1]
    text = f'{directive} {key}\n\t.file\t1 "{__file__}"\n'
    assert with_callers(text, compiled.ir, (7, 1)).startswith(f"{directive} 0\n")
    assert f"{directive} 0, function_name " in with_callers(text, compiled.ir, (7, 2))


def test_a_key_of_another_line_says_nothing(compiled):
    text = f'\t.loc\t1 5 {FIRST_KEY}\n\t.file\t1 "{__file__}"\n'
    assert with_callers(text, compiled.ir, (9, 0)) == text.replace(str(FIRST_KEY), "0")


def test_keys_that_do_not_fit_are_left_out(compiled):
    text, count = moved(compiled.ir, LAST_KEY - FIRST_KEY)
    assert (count, f"!{TABLE} =" in text) == (0, False)
    assert not re.search(rf"column: {FIRST_KEY}\b", text)


def test_a_column_that_is_taken_for_a_key_is_kept():
    @nvb.kernel("sm_90a", threads=32)
    def kernel(k, x: nvb.Pointer[f32]):
        x[0] = plus(x, 1)  # a table of one caller
        with k.location("own.dsl", 7, FIRST_KEY, "f"):
            k.nanosleep(20)

    assert f" 7 {FIRST_KEY}\n" in kernel.compile(assemble=False, cache=UNCACHED).ptx


def test_a_table_that_is_full_leaves_lines_without_callers(monkeypatch):
    monkeypatch.setattr(lines, "LAST_KEY", FIRST_KEY + 1)

    @nvb.kernel("sm_90a", threads=32)
    def many(k, x: nvb.Pointer[f32]):
        plus(x, 0)  # in the table
        x[1] = plus(x, 2)  # in no table

    again = many.compile(cache=UNCACHED)
    found = {line.place: line.callers for line in ptx_lines(again) if "ld.global" in line.text}
    assert again.cubin
    assert found[line_of("# inner")] == ()


def test_the_command_line_says_who_called(tmp_path, capsys):
    file = tmp_path / "waits.py"
    file.write_text(
        "import nvbackend as nvb\n\n\ndef wait(k):\n    k.nanosleep(20)\n\n\n"
        '@nvb.kernel("sm_90a", threads=32)\ndef waits(k):\n    wait(k)\n'
    )
    for form in ("machine", "ptx"):
        assert main(["build", str(file), "--show", form]) == 0
        assert "# waits.py:5  k.nanosleep(20)  (called at waits.py:10)\n" in capsys.readouterr().out
    assert main(["build", str(file), "--show", "ptx", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["lines"]
    (found,) = (line for line in lines if "nanosleep" in line["text"])
    assert (found["line"], found["called_at"]) == (5, [{"file": str(file), "line": 10}])


def test_places_of_a_language_are_reached_by_their_callers_from_the_first_line_on():
    """LLVM begins the function at line 0, after which ptxas would leave out the callers."""

    @nvb.kernel("sm_90a", threads=32)
    def language(k: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> None:  # type: ignore[valid-type]
        with k.location("program.dsl", 3, 5, "main"), k.location("library.dsl", 7, 1, "add"):
            x[k.thread_id()] += 1.0

    whole = (("library.dsl", 7), ("program.dsl", 3))
    compiled = language.compile(cache=UNCACHED)
    for listed, opcode in ((ptx_lines, "st.global"), (sass_lines, "STG")):
        assert {(line.place, *line.callers) for line in listed(compiled) if opcode in line.text} == {whole}
