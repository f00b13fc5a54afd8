"""`nvbackend simulate`: run a kernel of a PTX file in the simulator; print what it did, and its arrays afterwards."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from nvbackend.cli import rules
from nvbackend.cli.files.source_file import ProgramError
from nvbackend.cli.files.text_file import text_of
from nvbackend.diagnostics import Diagnostic, DiagnosticError, Location, caller_location

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_ARRAY = re.compile(r"(?P<type>\w+)\[(?P<shape>\d+(?:,\d+)*)\](?:=(?P<content>\w+))?")
_INTEGER = re.compile(r"[+-]?(0x[0-9a-fA-F]+|\d+)")
_TYPES = {
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"{kind}{bits}": f"int{bits}" for kind in "si" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
"""Types of arrays, and NumPy's names of them."""
_KINDS = "biufcV"
"""Kinds of NumPy types that are numbers, or bits of other types."""
_MAP_SHAPE = (128,)
"""The shape of a parameter that is a tensor map."""
_CONTENTS = ("zeros", "ones", "arange", "normal", "random")
"""`random` is every bit pattern of an integer alike, and of a float 0 to 1."""
_MOST_BYTES = 1 << 33
"""Of an array: more would swap for hours before the first instruction."""
_SHOWN = 8
"""Elements of an array that are printed."""
_EXAMPLE = "nvbackend simulate kernel.ptx --grid 2 --block 128 --arg f32[256]=normal --arg f32[256] --arg 256"


def add_to(commands: Commands) -> None:
    """The command's arguments."""
    parser = commands.add_parser("simulate", help="run a kernel of a PTX file without a GPU", description=__doc__)
    parser.add_argument("file", metavar="FILE.ptx", help="the file with the kernel")
    parser.add_argument("--kernel", metavar="NAME", help="the name of the kernel; by default the first")
    for name, text, otherwise in (
        ("grid", "CTAs", ""),
        ("block", "threads of a CTA", "; by default those of .reqntid or .maxntid, else 1"),
        ("cluster", "CTAs of a cluster", ""),
    ):
        said = f"{text}, one to three numbers{otherwise}"
        parser.add_argument(f"--{name}", metavar="X,Y,Z", type=_extents, help=said)
    parser.add_argument("--shared", metavar="BYTES", type=int, default=0, help="size of dynamic shared memory")
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0, help="choose another legal order of threads and operations"
    )
    parser.add_argument("--no-checks", action="store_true", help="do not look for races and other silent mistakes")
    parser.add_argument("--limit", metavar="N", type=int, help="most instructions of the CTAs that run together (10^8)")
    parser.add_argument("--report", action="store_true", help="report bytes, bank conflicts and waits, also by line")
    parser.add_argument("--timeline", metavar="FILE.svg", help="draw the warps, their waits, and operations in flight")
    help_ = "an argument, in the order of the PTX: 7, 0.5, an .npy file, or an array f32[64,64]=" + "|".join(_CONTENTS)
    help_ += f", of {', '.join(_TYPES)}; no tensor maps"
    parser.add_argument("--arg", action="append", default=[], metavar="VALUE", help=help_)
    parser.add_argument("--json", action="store_true", help="print a JSON object with the report and the arrays")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Iterator[str]:
    """The command's output. Raises cli.simulate, and what reading and running the kernel raises."""
    import nvbackend as nvb

    text = text_of(arguments.file, rules.SIMULATE, "name a file of PTX")
    if arguments.file.endswith(".py"):
        fix = f"nvbackend build {arguments.file} --show ptx --plain prints the PTX of its kernel"
        _refuse(f"{arguments.file} is a program of Python, not PTX", fix)
    module = nvb.simulator.Simulator().load(text, source=arguments.file)
    if not module.kernels:
        _refuse(f"{arguments.file} has no kernel", "name a file of PTX with an .entry")
    kernel = arguments.kernel or module.kernels[0]
    _check_parameters(text, kernel)
    arguments.block = arguments.block or _declared_block(text, kernel)
    values = [_value(argument) for argument in arguments.arg]
    if arguments.timeline is not None and not Path(arguments.timeline).parent.is_dir():  # a run may take an hour
        rules.OUTPUT.fail(file=arguments.timeline, problem="No such file or directory")
    report = _launched(module, values, arguments)
    if arguments.json:
        if arguments.timeline is not None:
            _drawn(report, arguments.timeline)
        yield json.dumps(_data(report, arguments.arg, values), indent=1) + "\n"
        return
    yield f"{report}\n"
    if arguments.report:
        yield f"{report.by_line()}\n"
    if arguments.timeline is not None:
        yield _drawn(report, arguments.timeline)
    for place, (spelling, value) in enumerate(zip(arguments.arg, values, strict=True)):
        if getattr(value, "ndim", 0):
            yield f"{place}: {spelling}: {_shown(value)}\n"


def _refuse(problem: str, fix: str = _EXAMPLE) -> NoReturn:
    rules.SIMULATE.fail(problem=problem, fix=fix)


def _check_parameters(text: str, kernel: str) -> None:
    """Raises cli.simulate for a parameter that no --arg is: a tensor map."""
    from nvbackend.ptx import parse

    functions = (each for each in parse(text).functions if each.name == kernel)
    maps = [variable.name for each in functions for variable in each.parameters if variable.shape == _MAP_SHAPE]
    if maps:
        _refuse(
            f"{kernel} takes tensor maps ({', '.join(maps)}), which the command line cannot bind",
            "launch it in Python: nvb.simulator.Simulator().load(ptx).launch(..., "
            "args=[nvb.TensorMap(...).bind(array), ...])",
        )


def _declared_block(text: str, kernel: str) -> tuple[int, ...]:
    """The threads of a CTA that the PTX requires, or else has at most; 1 where it says neither."""
    from nvbackend.ptx import parse

    for function in (each for each in parse(text).functions if each.name == kernel):
        if said := function.directive("reqntid") or function.directive("maxntid"):
            return tuple(map(int, said))
    return (1,)


def _launched(module: Any, values: list[Any], arguments: argparse.Namespace) -> Any:
    """Run the kernel. Raises cli.simulate where memory runs out, and what a launch raises."""
    launch = partial(
        module.launch,
        arguments.kernel or module.kernels[0],
        grid=arguments.grid or (1,),
        block=arguments.block,
        cluster=arguments.cluster,
        shared=arguments.shared,
        seed=arguments.seed,
        checks=not arguments.no_checks,
        report=arguments.report or arguments.timeline is not None,
        args=values,
        **({} if arguments.limit is None else {"limit": arguments.limit}),
    )
    shell = caller_location()
    try:
        return launch()
    except DiagnosticError as error:
        raise ProgramError([_of_the_text(each, shell) for each in error.diagnostics]) from None
    except MemoryError:
        _refuse("this machine has too little memory for the launch", "try smaller arrays or CTAs")


def _of_the_text(diagnostic: Diagnostic, shell: Location | None) -> Diagnostic:
    """With its place in the PTX, or in what that was compiled from; without one that is a line of the shell."""
    at = diagnostic.location
    is_shell = at is not None and shell is not None and at.file == shell.file
    return dataclasses.replace(diagnostic, location=None) if is_shell else diagnostic


def _drawn(report: Any, file: str) -> str:
    try:
        report.timeline().save(file)
    except OSError as error:
        rules.OUTPUT.fail(file=file, problem=error.strerror)
    return f"{file}\n"


def _extents(text: str) -> tuple[int, ...]:
    """One to three numbers. Raises ArgumentTypeError."""
    try:
        extents = tuple(int(extent) for extent in text.split(","))
    except ValueError:
        extents = ()
    if not 0 < len(extents) <= 3:
        raise argparse.ArgumentTypeError(f"{text!r} is not one to three numbers, such as 4 or 4,2,1")
    return extents


def _value(text: str) -> Any:
    """The argument that a text means."""
    match = _ARRAY.fullmatch(text)
    try:
        if match is not None:
            return _array(match)
        if text.endswith(".npy"):
            return _loaded(text)
        return int(text, 0) if _INTEGER.fullmatch(text) else float(text)
    except MemoryError:
        _refuse(f"{text} does not fit into the memory of this machine")
    except ValueError:
        kinds = ", ".join(_TYPES)
        _refuse(f"{text!r} is not a number, an .npy file or an array such as f32[64,64]=normal of {kinds}")


def _loaded(file: str) -> Any:
    """The array of a file, in this machine's order of bytes."""
    import numpy as np

    try:
        with open(file, "rb") as opened:
            array = np.lib.format.read_array(opened)
    except OSError as error:
        _refuse(f"{file} cannot be read: {error.strerror}", "name an .npy file, or write an array: f32[256]=normal")
    except ValueError:
        array = None
    if array is None or array.dtype.kind not in _KINDS:
        _refuse(f"{file} is not an .npy file of numbers", "write it by numpy.save")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _array(match: re.Match[str]) -> Any:
    import numpy as np

    shape = tuple(int(extent) for extent in match["shape"].split(","))
    if match["type"] not in _TYPES:
        _refuse(f"{match[0]}: an array is of {', '.join(_TYPES)}, not of {match['type']}")
    dtype = np.dtype(_TYPES[match["type"]])
    size = math.prod(shape) * dtype.itemsize
    if size > _MOST_BYTES:
        _refuse(f"{match[0]} has {size} bytes; an array has at most {_MOST_BYTES}")
    content = match["content"] or "zeros"
    if content not in _CONTENTS:
        _refuse(f"{content} is not what an array is filled with: that is {', '.join(_CONTENTS)}")
    if content == "random":
        random = np.random.default_rng(0)
        if dtype.kind == "f":
            return random.random(shape).astype(dtype)
        ends = np.iinfo(dtype)
        return random.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    if content == "normal":
        return np.random.default_rng(0).standard_normal(shape).astype(dtype)
    if content == "arange":
        return np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)
    return np.full(shape, int(content == "ones"), dtype)


def _data(report: Any, spellings: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """The report and the arrays after the launch; numbers that JSON does not have are texts."""
    data = {"kernel": report.kernel, "grid": report.grid, "block": report.block, "cluster": report.cluster}
    data |= {"steps": report.steps, "shared_bytes": report.shared_bytes, "instructions": dict(report.instructions)}
    if report.is_whole:
        data |= {"read": dict(report.total.read), "written": dict(report.total.written)}
    arrays = zip(spellings, values, strict=True)
    numbers = [(spelling, value.ravel().tolist()) for spelling, value in arrays if getattr(value, "ndim", 0)]
    return data | {"arrays": [{"argument": name, "values": list(map(_number, every))} for name, every in numbers]}


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _shown(array: Any) -> str:
    flat = array.ravel()
    first = " ".join(f"{number:.6g}" if array.dtype.kind == "f" else str(number) for number in flat[:_SHOWN].tolist())
    return first + (" ..." if flat.size > _SHOWN else "")
