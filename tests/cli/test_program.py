"""The program around the commands: exit status, errors, pipes."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import nvbackend as nvb
import nvbackend.cli
from nvbackend.cli import main
from nvbackend.cli.program import parser
from nvbackend.diagnostics.boundary import Interrupted
from tests.support.golden import Golden
from tests.support.process import ROOT

Printed = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("arguments", "rule", "words"),
    [
        ([], "cli.usage", "COMMAND"),
        (["catalog"], "cli.usage", "'catalogue'"),
        (["bild"], "cli.usage", "; did you mean build?"),
        (["build", "k.py:k", "--color=alway"], "cli.usage", "; did you mean always?"),
        (["build", "k.py:k", "-o", "k.ptx"], "cli.usage", "unrecognized arguments: -o k.ptx\n"),
        (["build", "k.py:k", "--targt=sm_90"], "cli.usage", "--targt=sm_90; did you mean --target?"),
        (["catalogue", "--colour"], "cli.usage", "--colour"),
        (
            ["simulate", "k.ptx", "--blok", "32"],
            "cli.usage",
            "--blok 32; did you mean --block?\n  fix: usage: nvbackend simulate [-h]",
        ),
        (["--jsn", "targets"], "cli.usage", "--jsn\n  fix: usage: nvbackend [-h]"),
        (["explain"], "cli.usage", "spelling"),
        (["catalogue", "--family", "wgma"], "cli.family", "the nearest is wgmma"),
        (["catalogue", "--target", "sm_90b"], "target.unknown", "the nearest is sm_90"),
        (["catalogue", "--target", "sm_77"], "target.unknown", "the nearest is sm_75"),
        (["catalogue", "--target", "sm_9"], "target.unknown", "the nearest is sm_70"),
        (["catalogue", "--target", ""], "target.unknown", "''"),
        (["explain", "wgmma.fence.sync.aligned", "--target", "hopper"], "target.unknown", "'hopper'"),
        (["explain", "wgmma.fence.aligned"], "cli.spelling", "wgmma.fence.sync.aligned"),
        (["explain", ""], "cli.spelling", "use one of "),
        (["explain", "ﬀ\x00 {"], "cli.spelling", "use one of "),
    ],
)
def test_a_wrong_command_line_is_a_diagnostic(arguments: list[str], rule: str, words: str, capsys: Printed) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error[{rule}]: ")
    assert words in printed.err
    assert "Traceback" not in printed.err
    assert "  at " not in printed.err


def test_help_names_every_command(capsys: Printed) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert [name for name in ("catalogue", "targets", "explain", "draw", "simulate") if name not in printed] == []


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    """As `nvbackend catalogue --json | head -1`."""
    arguments = [sys.executable, "-m", "nvbackend", "catalogue", "--json", "--target", "sm_90a"]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"[\n"
        process.stdout.close()
        said = process.stderr.read()
    assert said == b""
    assert process.returncode == 141


def test_a_reader_that_was_never_there_is_no_traceback() -> None:
    """A short text goes out as the program ends, when Python itself would tell of the pipe."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "nvbackend", "explain", "wgmma.n-step"],
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
            stdout=pipe,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_module_is_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nvbackend", "explain", "nothing"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error[cli.spelling]: 'nothing' ")


def test_the_script_that_is_installed_calls_main() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    module, _, name = scripts["nvbackend"].partition(":")
    assert module == nvbackend.cli.__name__
    assert getattr(nvbackend.cli, name) is main


def test_the_version_is_the_packages(capsys: Printed) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"nvbackend {nvbackend.__version__}\n")


def test_a_shell_completes_commands_and_options(capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", "bash"])
    assert ended.value.code == 0
    script = capsys.readouterr().out
    syntax = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (syntax.returncode, syntax.stderr) == (0, "")
    tries = ["COMP_WORDS=(nvbackend cata)", "COMP_WORDS=(nvbackend catalogue --fam)"]
    calls = [
        f"{words}; COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _shtab_nvbackend; echo ${{COMPREPLY[@]}}" for words in tries
    ]
    done = subprocess.run(["bash"], input="\n".join([script, *calls]), capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["catalogue", "--family"]

    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--print-completion", "bash"]) == 2
    assert "nvbackend[completion]" in capsys.readouterr().err


def test_help_says_what_each_argument_is() -> None:
    """And in which words it is written, where argparse would repeat its name."""
    (commands,) = (one for one in parser()._actions if isinstance(one, argparse._SubParsersAction))
    assert sorted(one.dest for one in commands._choices_actions if one.help) == sorted(commands.choices)
    for command in commands.choices.values():
        assert command.description
        for argument in command._actions:
            assert argument.help, (command.prog, argument.dest)
            if argument.option_strings and argument.nargs != 0 and argument.choices is None:
                assert argument.metavar, (command.prog, argument.dest)


def test_a_program_that_is_interrupted_ends_as_by_the_signal(capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: argparse.Namespace) -> list[str]:
        raise Interrupted("where it was")

    monkeypatch.setattr(nvbackend.cli.targets, "run", interrupted)
    assert main(["targets"]) == 128 + signal.SIGINT
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "where it was\n")


def test_the_place_of_a_wrong_constant_is_not_the_programs(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a kernel's own mistake the place is a line of its file, of a wrong option the kernel: this file is main."""
    file = tmp_path / "kernels.py"
    file.write_text(
        'import nvbackend as nvb\n@nvb.kernel("sm_80", threads=32)\ndef k(k, *, n=1):\n    k.range(0, 4, n)\n'
    )
    for program in (__file__, str(file), "/elsewhere/main.py"):
        monkeypatch.setattr(sys.modules["__main__"], "__file__", program, raising=False)
        assert main(["build", str(file), "--constant", "m=1"]) == 2
        said = capsys.readouterr().err
        assert f"{Path(__file__).name}:" not in said and (f"at {file}:2" in said) == (program != str(file))
        assert main(["build", str(file), "--constant", "n=0"]) == 2
        assert (f"at {file}:4" in capsys.readouterr().err) == (program != str(file))


def test_the_place_of_a_warning_of_ptxas_is_the_kernel(tmp_path: Path, capsys: Printed) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(
        "import nvbackend as nvb\n"
        '@nvb.kernel("sm_80", threads=32, max_registers=24)\ndef k(k, x: nvb.Pointer[nvb.f32]):\n'
        "    values = [x[n] for n in range(64)]\n    k.barrier.sync()\n"
        "    for n in range(64):\n        x[n] = values[63 - n]\n"
    )
    with pytest.warns(nvb.DiagnosticWarning, match=r"ptxas\.spills") as warned:
        assert main(["build", str(file), "--show", "resources"]) == 0
    assert {(one.filename, one.lineno) for one in warned} == {(str(file), 2)}
    said = capsys.readouterr().out
    assert "24 a thread, of 24" in said and "or allow more registers: a higher max_registers than 24" in said


def _arguments(of: argparse.ArgumentParser, name: str) -> Iterator[str]:
    yield f"{name}: {of.description}"
    for each in of._actions:
        if isinstance(each, argparse._SubParsersAction):
            summaries = {one.dest: one.help for one in each._get_subactions()}
            yield f"  {each.metavar}{' required' * each.required}"
            for command, parsed in each.choices.items():
                yield f"\n{summaries[command]}"
                yield from _arguments(parsed, f"{name} {command}")
        elif each.dest != "help":
            said = {"choices": each.choices, "nargs": each.nargs, "const": each.const, "default": each.default}
            kind = "" if each.type is None else f" {getattr(each.type, '__name__', each.type)}"
            shown = [f"{word}={value!r}" for word, value in said.items() if value is not None]
            yield (
                " ".join(
                    [
                        f"  {', '.join(each.option_strings) or each.dest} {each.metavar}{kind}",
                        *shown,
                        "required" * each.required,
                    ]
                ).rstrip()
                + f": {each.help}"
            )


def test_the_arguments_of_every_command(golden: Golden) -> None:
    golden.check("arguments.txt", "\n".join(_arguments(parser(), "nvbackend")) + "\n")
