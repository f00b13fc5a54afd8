"""`nvbackend lint FILE`: what is certainly wrong with PTX of any compiler, by its line and that of its source.

A file of LLVM IR (.ll) is compiled to PTX first. A cubin holds machine code alone, which is not judged.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nvbackend.cli import rules
from nvbackend.cli.files.source_file import ProgramError
from nvbackend.cli.text import count

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_ELF = b"\x7fELF"
_FATBIN = (b"\x50\xed\x55\xba", b"!<arch>")


def add_to(commands: Commands) -> None:
    """The command's arguments."""
    parser = commands.add_parser("lint", help="look for mistakes in PTX of any compiler", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="FILE.ptx, or FILE.ll of LLVM IR")
    parser.add_argument("--target", metavar="T", help="what a .ll is compiled for, such as sm_90a")
    parser.add_argument("--json", action="store_true", help="a JSON object with the errors")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Iterator[str]:
    """The command's output where nothing is wrong. Raises cli.lint, what is wrong, and what reading PTX raises."""
    from nvbackend.lint import lint
    from nvbackend.ptx import parse

    text, source = _text(arguments.file, arguments.target)
    diagnostics = lint(text, source)
    if diagnostics:
        raise ProgramError(diagnostics)
    functions = parse(text, source).functions
    if arguments.json:
        yield json.dumps({"errors": []}, indent=1) + "\n"
        return
    yield f"{arguments.file}: {count(len(functions), 'function')}, nothing to report\n"


def _text(file: str, target: str | None) -> tuple[str, str]:
    """PTX, and the name of the text that diagnostics point to."""
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        rules.LINT.fail(problem=f"{file} cannot be read: {error.strerror}", fix="name a file of PTX or LLVM IR")
    if content.startswith((_ELF, *_FATBIN)):
        rules.LINT.fail(
            problem=f"{file} holds machine code: what its instructions wait for is packed into bits that are not "
            "documented",
            fix=f"give the PTX that it was made of; if it is embedded: cuobjdump --dump-ptx {file}",
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        rules.LINT.fail(problem=f"{file} is not text", fix="name a file of PTX or LLVM IR")
    if not file.endswith((".ll", ".bc")):
        return text, file
    if target is None:
        rules.LINT.fail(problem=f"{file} is LLVM IR, which names no PTX target", fix="add --target sm_90a")
    from nvbackend.codegen.isolated import compile_ir_isolated
    from nvbackend.isel.target.target import Target

    return compile_ir_isolated(text, Target.parse(target)).ptx, f"{file} as PTX"
