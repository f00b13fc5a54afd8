"""`nvbackend build FILE.py:kernel`: build a kernel and show what it becomes, each line with its line of Python."""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from nvbackend.cli.files.commits import file_in, in_repository, is_commit
from nvbackend.cli.files.source_file import definition_at, fail, file_of, users_program
from nvbackend.cli.rules import OUTPUT
from nvbackend.cli.text import columns, count
from nvbackend.diagnostics import Location, functions_in
from nvbackend.isel.target.target import target_names

if TYPE_CHECKING:
    import nvbackend as nvb
    from nvbackend.codegen.compiled import CompiledKernel
    from nvbackend.codegen.looking.ir_places import Place
    from nvbackend.codegen.looking.listings import ListedLine

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

FORMS = ("machine", "ir", "ir-opt", "ptx", "sass")
STAGES = (*FORMS, "resources", "source")
_LIKE_A_TARGET = re.compile(r"sm_?\d")
_MOST_COMMITS = 2
_COUNTED = ("machine", "ptx", "sass")
_DIM, _BOLD, _PLAIN = "\033[2m", "\033[1m", "\033[0m"


def add_to(commands: Commands) -> None:
    """The command's arguments."""
    parser = commands.add_parser("build", help="build a kernel of a Python file and show it", description=__doc__)
    parser.add_argument("kernel", metavar="FILE.py:KERNEL", help="KERNEL may be left out if the file has only one")
    parser.add_argument("--target", metavar="T", help="the target in place of the kernel's own, such as sm_90a")
    help_ = "a constant of the build, as Python writes it; may be repeated"
    parser.add_argument("--constant", metavar="NAME=VALUE", action="append", default=[], help=help_)
    help_ = "what to show (default machine); source counts the instructions of each line of Python"
    parser.add_argument(
        "--show", metavar="FORM", choices=STAGES, default="machine", help=f"{help_}: {', '.join(STAGES)}"
    )
    help_ = "show what changes with another target, another value of a constant, or since a commit; may be repeated"
    parser.add_argument("--diff", metavar="T|NAME=VALUE|COMMIT", action="append", default=[], help=help_)
    parser.add_argument("--plain", action="store_true", help="print only the text, without lines of Python")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    help_ = "write one page with Python, machine form, PTX and SASS side by side"
    help_ += "; print its name, or with --json what --show names"
    parser.add_argument("--html", metavar="FILE.html", help=help_)
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="auto: only in a terminal")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Iterator[str]:
    """The command's output. Raises cli.build, and what building and compiling the kernel raises."""
    definition = definition_at(arguments.kernel)
    constants = _constants(arguments.constant, definition)
    if arguments.html is not None and arguments.diff:
        fail("--html writes a page of one build, and --diff compares two", "leave --html or --diff out")
    stage = "sass" if arguments.html is not None else arguments.show
    file = file_of(arguments.kernel)
    first = _compiled(file, definition, arguments.target, constants, stage)
    if arguments.html is not None:
        return _written(first, arguments)
    if not arguments.diff:
        return _json(first, arguments.show) if arguments.json else _shown(first, arguments)
    return _compared_builds(first, constants, definition, arguments)


def _compared_builds(
    first: CompiledKernel, constants: dict[str, Any], definition: nvb.KernelDefinition, arguments: argparse.Namespace
) -> Iterator[str]:
    """What changes from `first` with what --diff names; what a commit has comes first. Raises cli.build."""
    file, target, changed = file_of(arguments.kernel), arguments.target, constants
    commits = []
    _refuse_two_of_one(arguments.diff, file)
    for each in arguments.diff:
        if "=" in each:
            changed = changed | _constants([each], definition)
        elif each not in target_names() and is_commit(each, file):
            commits.append(each)
        elif not _LIKE_A_TARGET.match(each):
            _unknown(each, file)
        else:
            target = each
    second = first
    if target != arguments.target or changed is not constants:
        second = _compiled(file, definition, target, changed, arguments.show)
    builds = [(first, _title(first, constants)), (second, _title(second, changed))]
    if len(commits) > 1:
        builds = [_of_commit(commit, definition.name, target, changed, arguments) for commit in commits]
    elif commits:
        builds = [_of_commit(commits[0], definition.name, target, changed, arguments), builds[1]]
    (old, old_title), (new, new_title) = builds
    return _difference(old, new, [old_title, new_title], arguments)


def _refuse_two_of_one(changes: Sequence[str], file: Path) -> None:
    """Raise cli.build for two values of a constant, two targets or three commits: two builds are compared."""
    seen: dict[str, list[str]] = {}
    for each in changes:
        name, is_constant, _ = each.partition("=")
        is_of_commit = not is_constant and each not in target_names() and is_commit(each, file)
        seen.setdefault(name if is_constant else "commit" if is_of_commit else "target", []).append(each)
    for what, changed in seen.items():
        if len(changed) <= (_MOST_COMMITS if what == "commit" else 1):
            continue
        advice = f"name {_MOST_COMMITS} commits at most"
        if what != "commit":
            option = f"--constant {changed[0]}" if "=" in changed[0] else f"--target {changed[0]}"
            advice = f"give one of them by its own option: {option} --diff {changed[1]}"
        fail(f"--diff {' --diff '.join(changed)} names {len(changed)} builds that differ in one thing", advice)


def _unknown(text: str, file: Path) -> NoReturn:
    """Raise cli.build for what is neither a target nor a constant nor a commit."""
    if in_repository(file):
        problem = f"{text!r} is not a target, and the repository of {file} has no commit that git finds by it"
        fail(problem, "name a target such as sm_90a, NAME=VALUE, or a commit, tag or branch that git log takes")
    problem = f"{text!r} is not a target, and git knows no repository that {file} is in"
    fail(problem, "name a target such as sm_90a, or NAME=VALUE; a commit only of a file in a repository")


def _of_commit(
    commit: str, kernel: str, target: str | None, constants: dict[str, Any], arguments: argparse.Namespace
) -> tuple[CompiledKernel, str]:
    """The kernel as the commit has it, and its title."""
    with file_in(commit, file_of(arguments.kernel)) as there:
        before = definition_at(f"{there}:{arguments.kernel.partition(':')[2] or kernel}")
        compiled = _compiled(there, before, target, constants, arguments.show)
        return compiled, f"{_title(compiled, constants)} at {commit}"


def _written(kernel: CompiledKernel, arguments: argparse.Namespace) -> Iterator[str]:
    """Write the page, and say where or what --json asks for. Raises cli.output."""
    file = arguments.html
    try:
        Path(file).write_text(kernel.html(), encoding="utf-8")
    except (OSError, ValueError) as error:
        OUTPUT.fail(file=file or "''", problem=getattr(error, "strerror", None) or error)
    if arguments.json:
        yield from _json(kernel, arguments.show)
        return
    yield f"{file}\n"


def _constants(spellings: list[str], definition: nvb.KernelDefinition) -> dict[str, Any]:
    """The constants of the build by name. Raises cli.build; names are judged by the kernel itself."""
    constants = {}
    for each in spellings:
        name, equals, text = each.partition("=")
        if not equals:
            fail(f"{each!r} is not a constant of the build", "write NAME=VALUE")
        try:
            constants[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            constants[name] = _named(text, definition)
    return constants


def _named(text: str, definition: nvb.KernelDefinition) -> Any:
    """The element type of this name, or what the kernel's file calls so. Raises cli.build."""
    from nvbackend.intrinsics.row.types import BY_NAME

    known = {**BY_NAME, **functions_in(definition)[-1].__globals__}
    if text not in known:
        fail(
            f"{text!r} is neither a literal of Python nor a name of the kernel's file",
            "write 128, True, f16 or, with its quotes, 'text'",
        )
    return known[text]


def _compiled(
    file: Path, definition: nvb.KernelDefinition, target: str | None, constants: dict[str, Any], stage: str
) -> CompiledKernel:
    """Assembled where the stage needs it. Diagnostics have their places in the user's file, or are of its kernel."""
    from nvbackend.diagnostics.location import placed
    from nvbackend.isel.target.target import Target

    chosen = None if target is None else Target.parse(target)
    code = functions_in(definition)[-1].__code__
    of_kernel = Location(code.co_filename, code.co_firstlineno, code.co_name)
    with users_program(file, definition.name), placed(of_kernel):
        needs_cubin = stage in ("sass", "source", "resources")
        return definition.compile(target=chosen, constants=constants, assemble=needs_cubin)


def _title(kernel: CompiledKernel, constants: dict[str, Any]) -> str:
    return " ".join((kernel.name, kernel.target.name, *(f"{name}={value!r}" for name, value in constants.items())))


def _shown(kernel: CompiledKernel, arguments: argparse.Namespace) -> Iterator[str]:
    colors = arguments.color == "always" or (arguments.color == "auto" and sys.stdout.isatty())
    if arguments.show == "resources":
        yield f"{kernel.summary()}\n"
    elif arguments.show == "source":
        yield from _by_source(kernel)
    elif arguments.plain:
        yield _plain(kernel, arguments.show)
    else:
        yield from _beside(_lines(kernel, arguments.show), colors=colors)


def _plain(kernel: CompiledKernel, form: str) -> str:
    if form == "sass":
        return kernel.sass()
    text = {"machine": str(kernel.machine), "ir": kernel.ir, "ir-opt": kernel.optimized_ir, "ptx": kernel.ptx}[form]
    return text.rstrip("\n") + "\n"


def _lines(kernel: CompiledKernel, form: str) -> list[ListedLine]:
    from nvbackend.codegen.looking import listings

    return list(listings.FORMS[form](kernel))


def _beside(lines: list[ListedLine], *, colors: bool) -> Iterator[str]:
    """Each line after its line number, below the text of the line of Python where that changes."""
    width = max((len(str(line.place[1])) for line in lines if line.place), default=1)
    before: tuple[Place, ...] = ()
    for line in lines:
        here = (line.place, *line.callers) if line.place is not None else before
        if here != before:
            yield _painted(f"{' ' * width} # {_source(here[0])}{_called(here[1:])}", _DIM, colors=colors) + "\n"
        before = here
        number = "" if line.place is None else str(line.place[1])
        text = line.text.expandtabs(4)
        is_heading = line.place is None and text[:1].strip() != ""
        shown = _painted(text, _BOLD, colors=colors and is_heading)
        yield f"{_painted(f'{number:>{width}}', _DIM, colors=colors)} {shown}".rstrip() + "\n"


def _painted(text: str, color: str, *, colors: bool) -> str:
    return f"{color}{text}{_PLAIN}" if colors else text


def _source(place: Place) -> str:
    """The file's name, the line and its text."""
    file, line = place
    text = Location(file, line, "").source
    return f"{Path(file).name}:{line}" + (f"  {text}" if text else "")


def _called(callers: tuple[Place, ...]) -> str:
    """The lines by which a helper's line was reached, innermost first."""
    return f"  (called at {', '.join(f'{Path(file).name}:{line}' for file, line in callers)})" if callers else ""


def _by_source(kernel: CompiledKernel) -> Iterator[str]:
    """The instructions of each line of Python, counted."""
    from nvbackend.codegen.looking.listings import counts_by_line

    counts = counts_by_line(kernel, _COUNTED)
    rows = [("PLACE", *(form.upper() for form in _COUNTED), "LINE")]
    for (file, line), of_line in counts.items():
        numbers = (str(of_line[form]) for form in _COUNTED)
        rows.append((f"{Path(file).name}:{line}", *numbers, Location(file, line, "").source))
    yield from columns(rows)
    totals = (f"{sum(each[form] for each in counts.values())} of {form}" for form in _COUNTED)
    yield f"{count(len(counts), 'line')}, {', '.join(totals)}\n"


def _json(kernel: CompiledKernel, stage: str) -> Iterator[str]:
    data: dict[str, Any] = {"kernel": kernel.name, "target": kernel.target.name, "show": stage}
    if stage == "resources":
        data |= kernel.figures()
    elif stage == "source":
        from nvbackend.codegen.looking.listings import counts_by_line

        counted = counts_by_line(kernel, _COUNTED).items()
        data["lines"] = [{"file": file, "line": line, **counts} for (file, line), counts in counted]
    else:
        data["lines"] = [
            {"text": line.text} | (_json_place(line.place, line.callers) if line.place else {})
            for line in _lines(kernel, stage)
        ]
    yield json.dumps(data, indent=1) + "\n"


def _json_place(place: Place, callers: tuple[Place, ...]) -> dict[str, Any]:
    called = [{"file": file, "line": line} for file, line in callers]
    return {"file": place[0], "line": place[1]} | ({"called_at": called} if called else {})


def _difference(
    first: CompiledKernel, second: CompiledKernel, titles: list[str], arguments: argparse.Namespace
) -> Iterator[str]:
    """A unified difference; places in Python are left out."""
    old, new = (_compared(kernel, arguments.show) for kernel in (first, second))
    lines = list(difflib.unified_diff(old, new, titles[0], titles[1], lineterm=""))
    if arguments.json:
        yield json.dumps({"show": arguments.show, "from": titles[0], "to": titles[1], "difference": lines}, indent=1)
        yield "\n"
        return
    yield from (f"{line}\n" for line in lines)
    if not lines:
        yield f"{titles[0]} and {titles[1]} have the same {arguments.show}\n"


def _compared(kernel: CompiledKernel, stage: str) -> list[str]:
    if stage == "resources":
        return kernel.summary().splitlines()
    if stage == "source":
        return [line.rstrip("\n") for line in _by_source(kernel)]
    return [line.text for line in _lines(kernel, stage)]
