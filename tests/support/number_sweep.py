"""Every number that a public call takes, replaced by others in kernels that are right: refused, or assembled.

The kernels are those of the corpus, the samples and, for single instructions, of the calls of `row_calls`. A site is a
parameter of a call with a number (or a default) in it; `cases` has each site once, with the numbers to try. A process
of its own goes through them, since a number may end it or never come to an end: what is said of each is its verdict.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import pkgutil
import random
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nvbackend.builder
from nvbackend.builder.kernel.definition import KernelDefinition
from nvbackend.builder.kernel.kernel import KernelBuilder, kernel_text
from nvbackend.codegen.llvm import compile_ir
from nvbackend.diagnostics import DiagnosticError
from nvbackend.diagnostics.boundary import MARK
from nvbackend.diagnostics.location import is_plumbing
from nvbackend.intrinsics.catalogue import rows
from nvbackend.intrinsics.row.row import Row
from tests.corpus import attention, copies, rings, shared, tensor_memory
from tests.support.members import member_of
from tests.support.process import ROOT, collect_seldom, limit_memory
from tests.support.ptxas import assemble
from tests.support.random_kernels.writer import check_refusal
from tests.support.row_bench import Bench
from tests.support.row_calls import call_of
from tests.support.rows import newest_target

NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 15, 16, 17, 24, 31, 32, 33, 63, 64, 100, 127, 128, 255, 256, 257, 1023, 1024, 1025),
    *(65535, 65536, (1 << 20) - 1, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 63, 1 << 64),
    *(-(1 << 31), -(1 << 31) - 1, 10**30, 10**400, 10**5000, True, 0.5, -1.0, float("nan"), float("inf")),
)
LONGEST_S = 10
MOST_BYTES = 6 << 30
SILENT_S = 120
MODULE = "tests.support.number_sweep"
SAMPLES = ("hopper_gemm", "blackwell_gemm", "ampere_gemm", "ada_gemm", "consumer_blackwell_gemm", "turing_gemm")
_USERS = (ROOT / "tests/corpus", ROOT / "samples")
"""Where the kernels are written."""
_NUMERIC = ("int", "float", "Operand", "Number")


# -- kernels ------------------------------------------------------------------------------------------------------


def _defined(definition: KernelDefinition) -> KernelBuilder:
    k = KernelBuilder(
        definition.__name__,
        definition.target,
        threads=definition.threads,
        cluster=definition.cluster,
        min_ctas=definition.min_ctas,
        max_registers=definition.max_registers,
        parameters=definition.parameters(),
    )
    definition._function(k, *k.arguments)
    return k


def _of_row(row: Row) -> KernelBuilder:
    bench = Bench(newest_target(row), cluster=2 if newest_target(row).number >= 90 else 1)
    call_of(row)(bench, row)
    return bench.k  # type: ignore[no-any-return]


@functools.cache
def scenes() -> dict[str, Callable[[], KernelBuilder]]:
    """What makes each kernel, not finished yet, small ones first; of rows one of each opcode and set of operands."""
    found: dict[str, Callable[[], KernelBuilder]] = {}
    for row in rows():
        name = f"{row.opcode} {' '.join(one.name for one in row.inputs)}"
        found.setdefault(name, functools.partial(_of_row, row))
    modules = [*(rings, attention, shared, copies, tensor_memory)]
    modules += [importlib.import_module(f"samples.{name}") for name in SAMPLES]
    for module in modules:
        for one in vars(module).values():
            if isinstance(one, KernelDefinition):
                found[f"{module.__name__.rpartition('.')[2]}.{one.__name__}"] = functools.partial(_defined, one)
    return found


# -- calls --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """A parameter of one call of a kernel: of the call `number` in it, of what is called `name`."""

    scene: str
    number: int
    name: str
    parameter: str


class Calls:
    """Watches the public calls that a kernel's own lines make; at `site` it puts `value` in the parameter."""

    def __init__(self, site: Site | None = None, value: object = None) -> None:
        self.number = 0
        self.seen: list[tuple[str, str]] = []
        self.changed = False
        self._site = site
        self._value = value

    def __call__(self, function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        number, self.number = self.number, self.number + 1
        if self._site is None:
            self.seen += [(name, parameter) for parameter in _numeric(function, args, kwargs)]
            self.seen_at = number
        elif number == self._site.number:
            self.changed = True
            bound = inspect.signature(function).bind(*args, **kwargs)
            bound.apply_defaults()
            given = bound.arguments[self._site.parameter]
            value = self._value
            if isinstance(given, (tuple, list)):
                value = type(given)([value, *given[1:]])
            bound.arguments[self._site.parameter] = value
            return function(*bound.args, **bound.kwargs)
        return function(*args, **kwargs)


def _numeric(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[str]:
    """The parameters that take numbers, of a call with these arguments."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    for name, given in bound.arguments.items():
        parameter = inspect.signature(function).parameters[name]
        if name == "self" or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        annotation = str(parameter.annotation)
        if any(word in annotation for word in _NUMERIC) and not (isinstance(given, (tuple, list)) and not given):
            yield name


@functools.cache
def _public() -> tuple[tuple[type, str, Callable[..., Any]], ...]:
    """The public functions of the classes of the builder, with the boundary around them."""
    found = []
    for module in pkgutil.walk_packages(nvbackend.builder.__path__, f"{nvbackend.builder.__name__}."):
        for cls in vars(importlib.import_module(module.name)).values():
            if isinstance(cls, type) and cls.__module__ == module.name:
                for name in list(vars(cls)):
                    member = member_of(cls, name)
                    if hasattr(member, MARK) and (not name.startswith("_") or name in _DUNDERS):
                        found.append((cls, name, member))
    return tuple(found)


_DUNDERS = ("__init__", "__getitem__", "__setitem__")


@contextmanager
def watching(calls: Calls) -> Iterator[None]:
    """Every public call from outside of nvbackend goes through `calls`."""

    def watched(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_plumbing(sys._getframe(1)):
                return function(*args, **kwargs)
            return calls(function, name, args, kwargs)

        return functools.update_wrapper(call, function)

    for cls, name, member in _public():
        setattr(cls, name, watched(member, f"{cls.__name__}.{name}"))
    try:
        yield
    finally:
        for cls, name, member in _public():
            setattr(cls, name, member)


# -- cases --------------------------------------------------------------------------------------------------------


def sites() -> list[Site]:
    """Each parameter of each public call that some kernel makes, once."""
    found: dict[tuple[str, str], Site] = {}
    for scene in scenes():
        for site in sites_of(scene):
            found.setdefault((site.name, site.parameter), site)
    return list(found.values())


def sites_of(scene: str) -> list[Site]:
    """Each parameter of each public call of one kernel, as often as it is there."""
    calls = Calls()
    with watching(calls):
        numbers = _numbers(calls)
        scenes()[scene]()
    return [Site(scene, *one) for one in numbers]


def _numbers(calls: Calls) -> list[tuple[int, str, str]]:
    """A list that fills with (number of the call, its name, parameter) as the kernel is made."""
    found: list[tuple[int, str, str]] = []

    class Noted(list):  # type: ignore[type-arg]
        def __iadd__(self, other: Any) -> Noted:
            found.extend((calls.number - 1, *one) for one in other)
            return self

    calls.seen = Noted()
    return found


@functools.cache
def rules_of(scene: str) -> frozenset[str]:
    """The rules that the kernel breaks as it is: of single instructions nobody waits for, say."""
    k = scenes()[scene]()
    try:
        k.finish()
    except DiagnosticError as error:
        return frozenset(one.rule_id for one in error.diagnostics)
    return frozenset()


def verdict(site: Site, value: object) -> tuple[str, str]:
    """What becomes of the kernel with the number in it: ("refused", rule), ("ptx", text) or ("failed", why).

    ("own", why) for an exception of the kernel's own lines: with another number of values, say, its `zip` may fail.
    """
    calls, before = Calls(site, value), rules_of(site.scene)
    k = None
    try:
        try:
            with watching(calls):
                k = scenes()[site.scene]()
                k.finish()
        except DiagnosticError as error:
            check_refusal(error)
            if k is None or not {one.rule_id for one in error.diagnostics} <= before:
                return "refused", error.diagnostics[0].rule_id
        if not calls.changed:
            return "failed", "the call was not made again"
        return "ptx", compile_ir(kernel_text(k.module, k), k.target).ptx
    except Exception as error:  # noqa: BLE001 (that there is none is what is tested)
        return _blamed(error)


def _blamed(error: Exception) -> tuple[str, str]:
    """Whose exception it is, by the frame that raised it: "own" is that of a line of the corpus or of a sample."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    file = Path(frame.filename)
    users = any(folder in file.parents for folder in _USERS)
    return "own" if users else "failed", f"{type(error).__name__}: {error} ({file.name}:{frame.lineno})"


# -- the process that does the work, and the one that watches ------------------------------------------------------


class Hang(BaseException):
    """A kernel takes longer than LONGEST_S."""


def main(arguments: Sequence[str]) -> None:
    """Cases of a seed from a place on, `share` of all; a line of JSON before and after each, then what ptxas says."""
    seed, share, start = int(arguments[0]), float(arguments[1]), int(arguments[2])
    limit_memory(MOST_BYTES)
    collect_seldom()

    def ring(_signal: int, _frame: object) -> None:
        raise Hang

    signal.signal(signal.SIGPROF, ring)
    for place, (site, index) in enumerate(chosen(seed, share)):
        if place < start:
            continue
        name = f"{site.name}({site.parameter}=NUMBERS[{index}]) of call {site.number} in {site.scene!r}"
        _say({"begin": place, "case": name})
        signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
        try:
            kind, text = verdict(site, NUMBERS[index])
        except Hang as hang:
            frame = traceback.extract_tb(hang.__traceback__)[-1]
            kind, text = "failed", f"it takes more than {LONGEST_S} s ({Path(frame.filename).name}:{frame.lineno})"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if kind == "ptx":
            fine, said = _assembled(text, site.scene)
            kind, text = ("built", "") if fine else ("failed", said)
        _say({"case": name, "verdict": kind, "said": text[:600]})


@functools.cache
def _target(scene: str) -> str:
    return scenes()[scene]().target.name


@functools.cache
def _assembled(ptx: str, scene: str) -> tuple[bool, str]:
    return assemble(ptx, _target(scene))


def chosen(seed: int, share: float) -> Iterator[tuple[Site, int]]:
    """The cases of a seed: this share of all, by site."""
    rng = random.Random(seed)
    for site in sites():
        for index in range(len(NUMBERS)):
            if rng.random() < share:
                yield site, index


def _say(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def run(seed: int, share: float) -> dict[str, tuple[str, str]]:
    """The verdict on every chosen case, and what was said, by the text of the case."""
    found: dict[str, tuple[str, str]] = {}
    start = 0
    while start >= 0:
        command = [sys.executable, "-m", MODULE, str(seed), str(share), str(start)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        begun, case = start, ""
        while line := _line(process):
            answer = json.loads(line)
            if "begin" in answer:
                begun, case = answer["begin"], answer["case"]
            else:
                found[answer["case"]] = answer["verdict"], answer["said"]
        said = process.communicate()[1]
        start = -1 if process.returncode == 0 else begun + 1
        if process.returncode:
            assert case, said
            found[case] = "failed", f"its process ended ({process.returncode}): {said[-400:]}"
    return found


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    deadline = time.monotonic() + SILENT_S
    while not select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if time.monotonic() >= deadline:
            process.kill()
            return ""
    return process.stdout.readline()


if __name__ == "__main__":
    main(sys.argv[1:])
