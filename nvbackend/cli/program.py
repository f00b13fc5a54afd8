"""The program around the commands: arguments, output, and errors as diagnostics."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import nvbackend
from nvbackend.cli import build, catalogue, decode, draw, encode, explain, lint, simulate, targets
from nvbackend.cli.files.source_file import ProgramError, ProgramFailed
from nvbackend.cli.rules import USAGE
from nvbackend.diagnostics import Diagnostic, DiagnosticError, Interrupted, Location, misspelt

FAILED = 2
"""Exit status where a diagnostic was printed."""
RAISED = 1
"""Exit status where the user's own program raised an exception: that of Python."""
BROKEN_PIPE = 141
"""Exit status when the reader has gone: that of a program ended by SIGPIPE."""
INTERRUPTED = 130
"""Exit status after Ctrl-C: that of a program ended by SIGINT."""
COMMAND = "COMMAND"
"""What the usage calls the name of a command."""
COMMANDS = (build, catalogue, targets, explain, draw, simulate, lint, decode, encode)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """A wrong command line fails with a diagnostic, like everything else."""
        more = f"; {self.prog} --help explains it" if " " in self.prog else ""
        more += f"; {COMMAND} is one of {_names()}" if message.endswith(f"required: {COMMAND}") else ""
        USAGE.fail(problem=f"{message}{_meant(message)}", usage=" ".join(self.format_usage().split()) + more)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """A command refuses what it does not know itself: its own usage is the one that helps."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown and " " in self.prog:
            long = [option for option in self._option_string_actions if option.startswith("--")]
            near = misspelt(unknown[0].partition("=")[0], long)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{_question(near)}")
        return parsed, unknown


def _names() -> str:
    """The commands: the usage does not name them."""
    return ", ".join(command.__name__.rpartition(".")[2] for command in COMMANDS)


def _meant(message: str) -> str:
    """A question after what argparse says of a word that is not one of those it lists."""
    match = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
    return _question(misspelt(match[1], re.findall(r"[^\s,']+", match[2]))) if match else ""


def _question(near: Sequence[str]) -> str:
    return f"; did you mean {near[0]}?" if near else ""


class _Completion(argparse.Action):
    """Prints a script for a shell, by shtab."""

    def __call__(
        self, parser: argparse.ArgumentParser, _namespace: object, values: object, _option: object = None
    ) -> None:
        try:
            import shtab
        except ImportError:
            USAGE.fail(
                problem="there is no shtab, which writes the script", usage='pip install "nvbackend[completion]"'
            )
        sys.stdout.write(shtab.complete(parser, str(values)))
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """The arguments of every command."""
    whole = _Parser(prog="nvbackend", description="Build, explain, check and simulate NVIDIA kernels.")
    whole.add_argument("--version", action="version", version=f"nvbackend {nvbackend.__version__}")
    whole.add_argument(
        "--print-completion", choices=("bash", "zsh", "tcsh"), action=_Completion, help="print a completion script"
    )
    commands = whole.add_subparsers(title="commands", metavar=COMMAND, required=True)
    for command in COMMANDS:
        command.add_to(commands)
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command with these arguments (those of the process for None); returns the exit status.

    Prints the diagnostics of a wrong command line to stderr, or with --json as JSON to stdout, and returns 2.
    """
    as_json = "--json" in (sys.argv[1:] if arguments is None else arguments)
    try:
        parsed = parser().parse_args(arguments)
        as_json = getattr(parsed, "json", False)
        return _print(parsed.run(parsed))
    except ProgramError as error:
        _say(error.diagnostics, as_json=as_json)
        return RAISED if isinstance(error, ProgramFailed) else FAILED
    except DiagnosticError as error:
        _say(list(map(_without_shell, error.diagnostics)), as_json=as_json)
        return FAILED
    except Interrupted as interrupted:
        sys.stderr.write(f"{interrupted}\n")
        return INTERRUPTED


def _without_shell(diagnostic: Diagnostic) -> Diagnostic:
    """Without a place, which is a line of the shell and not of a program; a mistake in a text of PTX is in its file."""
    from nvbackend.ptx.rules import OF_TEXT

    return diagnostic if diagnostic.rule in OF_TEXT else dataclasses.replace(diagnostic, location=None)


def _say(faults: Sequence[Diagnostic], *, as_json: bool) -> None:
    """Diagnostics as text on stderr; as JSON they are what the command answers."""
    if not as_json:
        sys.stderr.write("\n".join(map(str, faults)) + "\n")
        return
    _print([json.dumps({"errors": list(map(_data, faults))}, indent=1), "\n"])


def _data(fault: Diagnostic) -> dict[str, Any]:
    data: dict[str, Any] = {"rule": fault.rule_id, "severity": fault.severity.value, "message": fault.message}
    data |= _place(fault.location)
    notes = [{"message": text} | _place(where) for text, where in fault.notes]
    return data | {"notes": notes, "fix": fault.fix, "see": fault.rule.reference}


def _place(location: Location | None) -> dict[str, Any]:
    return {"file": location.file, "line": location.line} if location is not None else {}


def _print(parts: Iterable[str]) -> int:
    try:
        for part in parts:
            sys.stdout.write(part)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout once more as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return 0
