"""`nvbackend lint FILE`: report what is certainly wrong with PTX of any compiler, by its line and its source line.

LLVM IR (.ll) is compiled to PTX first. In a fatbin, a library or a program, cuobjdump finds the embedded PTX. In a
file that `compiled.save(path)` wrote, the PTX of each target is judged. A cubin is refused, because it has only
machine code.
"""

from __future__ import annotations

import argparse
import json
import linecache
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nvbackend.cli import rules
from nvbackend.cli.files.source_file import ProgramError
from nvbackend.cli.files.text_file import content_of
from nvbackend.cli.text import count

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_ELF = b"\x7fELF"
_FATBIN = (b"\x50\xed\x55\xba", b"!<arch>")
_SAVED = b"PK\x03\x04"
"""How a zip begins."""
_SOURCES = {
    ".py": ("Python", "nvbackend build {} judges its kernels; or give the PTX that another compiler made of it"),
    ".cu": ("CUDA C++", "nvcc -ptx {} makes PTX of it"),
}
"""Programs in other languages, by the ends of their files' names: what makes them, or PTX of them, judged."""


def add_to(commands: Commands) -> None:
    """The command's arguments."""
    parser = commands.add_parser("lint", help="look for mistakes in PTX of any compiler", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="FILE.ptx, FILE.ll with LLVM IR, or a file with PTX in it")
    parser.add_argument("--target", metavar="T", help="the target for which to compile a .ll, such as sm_90a")
    parser.add_argument("--json", action="store_true", help="print a JSON object with the errors")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Iterator[str]:
    """The command's output where nothing is wrong. Raises cli.lint, what is wrong, and what reading PTX raises."""
    from nvbackend.lint import lint
    from nvbackend.ptx import parse

    texts = list(_texts(arguments.file, arguments.target))
    for text, source in texts:
        if source != arguments.file:
            linecache.cache[source] = (len(text), None, text.splitlines(keepends=True), source)
    diagnostics = [each for text, source in texts for each in lint(text, source)]
    if diagnostics:
        raise ProgramError(diagnostics)
    functions = sum(len(parse(text, source).functions) for text, source in texts)
    if arguments.json:
        yield json.dumps({"errors": []}, indent=1) + "\n"
        return
    yield f"{arguments.file}: {count(functions, 'function')}, nothing to report\n"


def _texts(file: str, target: str | None) -> Iterator[tuple[str, str]]:
    """PTX, and the name of each text, which diagnostics point to."""
    content = content_of(file, rules.LINT, "name a file of PTX or LLVM IR")
    if content.startswith((_ELF, *_FATBIN)):
        yield from _embedded(file, content)
        return
    if content.startswith(_SAVED):
        from nvbackend.codegen.saved.read import read_file

        yield from ((each.ptx, f"{file}:{each.target.name}") for each in read_file(file, None))
        return
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        rules.LINT.fail(problem=f"{file} is not text", fix="name a file of PTX or LLVM IR")
    for ending, (language, fix) in _SOURCES.items():
        if file.endswith(ending):
            rules.LINT.fail(problem=f"{file} is a program of {language}, not PTX", fix=fix.format(file))
    if not file.endswith((".ll", ".bc")):
        if target is not None:
            rules.LINT.fail(problem=f"{file} is PTX, which names its own target", fix="leave --target out")
        yield text, file
        return
    if target is None:
        rules.LINT.fail(problem=f"{file} is LLVM IR, which names no PTX target", fix="add --target sm_90a")
    from nvbackend.codegen.isolated import compile_ir_isolated
    from nvbackend.isel.target.target import Target

    yield compile_ir_isolated(text, Target.parse(target)).ptx, f"{file} as PTX"


def _embedded(file: str, content: bytes) -> Iterator[tuple[str, str]]:
    """The PTX texts that a file of machine code embeds, with their names. Raises cli.lint where it embeds none."""
    from nvbackend.codegen.toolchain import Tool, locate

    path = locate("cuobjdump")
    if path is None:
        problem = f"{file} holds machine code, and there is no cuobjdump to find PTX that may be embedded"
        rules.LINT.fail(problem=problem, fix="pip install nvbackend[sass], or give the PTX that it was made of")
    tool = Tool.at(path)
    name = f"code{Path(file).suffix or '.o'}"
    with tool.directory(name, content) as folder:
        tool.run(["--extract-ptx", "all", name], folder)
        texts = [(each.name, each.read_text(encoding="utf-8")) for each in sorted(folder.glob("*.ptx"))]
    if not texts:
        rules.LINT.fail(
            problem=f"{file} holds machine code alone, which cannot be turned back into PTX: what its instructions "
            "wait for is packed into bits that are not documented",
            fix="give the PTX that it was made of, or embed it: nvcc -gencode arch=compute_90,code=[sm_90,compute_90]",
        )
    yield from ((text, f"{file}:{inner}") for inner, text in texts)
