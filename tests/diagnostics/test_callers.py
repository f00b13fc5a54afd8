"""A mistake in a helper shows the helper's line and every line of the user's that led there, innermost first."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f32
from nvbackend.builder.core.memory import Address
from nvbackend.builder.values.values import Value
from nvbackend.diagnostics import Diagnostic
from tests.support.process import run_python


def build(function: Callable[..., None], **bounds: int) -> tuple[Diagnostic, ...]:
    with pytest.raises(DiagnosticError) as raised:
        nvb.kernel("sm_90a", threads=bounds.get("threads", 128))(function).build()
    return raised.value.diagnostics


def lines(diagnostic: Diagnostic) -> list[str]:
    """The source of the diagnostic's line and of those that called it."""
    assert diagnostic.location is not None
    return [diagnostic.location.source, *(caller.source for caller in diagnostic.location.callers)]


def mirrored(k: nvb.KernelBuilder, buffer: Address, thread: Value) -> Value:
    buffer[thread] = 1.0
    return buffer[127 - thread]


def through(k: nvb.KernelBuilder, buffer: Address) -> Value:
    return mirrored(k, buffer, k.thread_id())


def test_the_chain_of_a_mistake_found_at_the_end() -> None:
    def reverse(k: nvb.KernelBuilder, out: nvb.Pointer[f32]) -> None:  # type: ignore[valid-type]
        out[k.thread_id()] = through(k, k.shared(f32, 128))

    (found,) = build(reverse)
    assert lines(found) == [
        "return buffer[127 - thread]",
        "return mirrored(k, buffer, k.thread_id())",
        "out[k.thread_id()] = through(k, k.shared(f32, 128))",
    ]
    shown = str(found).splitlines()
    assert [line.partition("    ")[2] for line in shown if line.startswith(("  at ", "  called from "))] == lines(found)
    assert str(found).count("called from") == 2, "a note by the same calls does not repeat them"


def test_the_chain_of_a_mistake_found_at_the_call() -> None:
    def wide(k: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> None:  # type: ignore[valid-type]
        load_three(x)

    (found,) = build(wide)
    assert lines(found) == ["return x.load(3)", "load_three(x)"]


def load_three(x: Address) -> list[Value]:
    return x.load(3)


def test_one_helper_called_twice_is_one_mistake_with_both_calls() -> None:
    def twice(k: nvb.KernelBuilder, out: nvb.Pointer[f32]) -> None:  # type: ignore[valid-type]
        out[0] = mirrored(k, k.shared(f32, 128), k.thread_id())
        out[1] = mirrored(k, k.shared(f32, 128), k.thread_id())

    (found,) = build(twice)
    assert lines(found)[1] == "out[0] = mirrored(k, k.shared(f32, 128), k.thread_id())"
    assert [place.source for _, place in found.notes if place][-1:] == [
        "out[1] = mirrored(k, k.shared(f32, 128), k.thread_id())"
    ]


def test_a_note_shows_the_calls_of_its_own_place() -> None:
    def apart(k: nvb.KernelBuilder, out: nvb.Pointer[f32]) -> None:  # type: ignore[valid-type]
        buffer = k.shared(f32, 128)
        fill(k, buffer)
        out[k.thread_id()] = buffer[127 - k.thread_id()]

    (found,) = build(apart)
    assert lines(found) == ["out[k.thread_id()] = buffer[127 - k.thread_id()]"]
    assert "    called from" in str(found)
    assert "fill(k, buffer)" in str(found)


def fill(k: nvb.KernelBuilder, buffer: Address) -> None:
    buffer[k.thread_id()] = 1.0


def test_a_comprehension_is_not_called_from_its_own_line() -> None:
    def several(k: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> None:  # type: ignore[valid-type]
        sums = lambda: sum(value[0] for value in (load_three(x + 4 * part) for part in range(2)))  # noqa: E731
        sums()

    (found,) = build(several)
    assert found.location is not None
    assert len(found.location.callers) > 2, "as they ran, for the line table"
    shown = [line.partition("    ")[2] for line in str(found).splitlines() if "called from" in line]
    assert [line.split(" = ")[0] for line in shown] == ["sums", "sums()"]


def test_a_deep_recursion_shows_both_ends() -> None:
    def nested(k: nvb.KernelBuilder, x: nvb.Pointer[f32]) -> None:  # type: ignore[valid-type]
        descend(x, 100)

    (found,) = build(nested)
    assert found.location is not None
    assert len(found.location.callers) == 101
    assert 5 < str(found).count("called from") < 10
    assert "descend(x, 100)" in str(found)
    assert "94 more lines" in str(found)


def descend(x: Address, depth: int) -> None:
    if depth:
        descend(x, depth - 1)
    else:
        x.load(3)


def compiled_at(file: str, text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(text, file, "exec"), names)
    return names


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("/home/user/gemm.py", True),
        ("/home/user/packages/gemm.py", True),
        ("/usr/lib/python3/site-packages/runner.py", False),
        ("/usr/lib/python3/dist-packages/runner/main.py", False),
        (str(Path(pytest.__file__)), False),
        (unittest.__file__, False),
        ("<frozen runpy>", False),
    ],
)
def test_who_started_the_users_program_is_left_out(file: str, shown: bool) -> None:
    """A launcher is of Python's library or of an installed package."""
    launcher = compiled_at(file, "def launch(main):\n    main()\n")
    program = compiled_at("/home/user/main.py", "def main(call):\n    call()\n")
    with pytest.raises(DiagnosticError) as caught:
        launcher["launch"](lambda: program["main"](lambda: nvb.Target.parse("sm_1")))
    place = caught.value.diagnostics[0].location
    assert place is not None
    files = [one.file for one in (place, *place.callers)]
    assert files[:3] == [__file__, "/home/user/main.py", __file__]
    assert files[3:4] == ([file] if shown else [])


def test_a_library_that_the_users_program_calls_is_shown() -> None:
    """The mistake is that of the other package's helper, called from the user's line; Python's own is passed over."""
    helper = compiled_at("/usr/lib/python3/site-packages/helper.py", "def parse(call):\n    call('sm_1')\n")
    with pytest.raises(DiagnosticError) as caught:
        helper["parse"](nvb.Target.parse)
    place = caught.value.diagnostics[0].location
    assert place is not None
    assert (place.file, place.callers[0].file) == ("/usr/lib/python3/site-packages/helper.py", __file__)
    mapped = compiled_at(unittest.__file__, "def parse(call):\n    call('sm_1')\n")
    with pytest.raises(DiagnosticError) as caught:
        mapped["parse"](nvb.Target.parse)
    place = caught.value.diagnostics[0].location
    assert place is not None
    assert place.file == __file__


@pytest.mark.parametrize(
    ("module", "passed_by"),
    [
        ("nvbackend", True),
        ("nvbackend.builder.made_up", True),
        ("llvmlite", True),
        ("llvmlite.ir.builder", True),  # the user's IRBuilder may call this package
        ("contextlib", True),
        ("functools", True),
        ("typing", True),
        ("nvbackends", False),
        ("my.nvbackend", False),
        ("llvmlite_kit.builder", False),
        ("typing_extensions", False),
        ("__main__", False),
        (None, False),  # as exec'd code may have it
        (3, False),
    ],
)
def test_whose_lines_are_the_users(module: object, passed_by: bool) -> None:
    between = compiled_at("between.py", "def parse(call):\n    call('sm_1')\n")
    between["__name__"] = module
    with pytest.raises(DiagnosticError) as caught:
        between["parse"](nvb.Target.parse)
    place = caught.value.diagnostics[0].location
    assert place is not None
    files = [one.file for one in (place, *place.callers)]
    assert files[0] == (__file__ if passed_by else "between.py")
    assert files.count("between.py") == (not passed_by)
    assert files.count(__file__) == 1


def test_a_program_that_is_run_shows_its_own_lines_and_none_of_the_launcher(tmp_path: Path) -> None:
    """The kernel's caller, the script's own start and Python's are not part of the mistake."""
    script = tmp_path / "own.py"
    script.write_text(
        "import nvbackend as nvb\n"
        "def helper(k):\n    k.barrier.sync(16)\n"
        "def main():\n"
        "    k = nvb.KernelBuilder('k', 'sm_90a', threads=32)\n"
        "    helper(k)\n"
        "try:\n    main()\nexcept nvb.DiagnosticError as error:\n"
        "    place = error.diagnostics[0].location\n"
        "    print([one.line for one in (place, *place.callers)])\n",
        encoding="utf-8",
    )
    run = run_python(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")
    assert run.stdout.strip() == "[3, 6, 8]", run
