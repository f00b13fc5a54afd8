"""Compiling a definition again: nothing is built where all is as it was, and what is not known is built each time."""

# ruff: noqa: PLW0108 (a function that reads a global is not the method that the global has)

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import dataclasses
import datetime
import enum
import functools
import importlib
import io
import itertools
import math
import mmap
import operator
import os
import random
import re
import shelve
import shutil
import socket
import tempfile
import threading
import time
import types
import weakref
import zipfile
from collections import deque, namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import nvbackend as nvb
from nvbackend.codegen.toolchain import find_ptxas
from nvbackend.layout import Layout
from tests.support.compiled_again import BODY, OUT, Runs, compiled, defined, in_module


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


Pair = namedtuple("Pair", "x y")


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass(frozen=True)
class Config:
    rows: int


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (2, 2, 3),
        (1, 1, True),
        (1, 1, 1.0),
        (0.0, 0.0, -0.0),
        ([1, 2], [1, 2], [2, 1]),
        ({"a": [1]}, {"a": [1]}, {"a": [2]}),
        ((1, (2,)), (1, (2,)), ((1, 2),)),
        (Pair(1, 2), Pair(1, 2), Pair(2, 1)),
        (Colour.RED, Colour.RED, Colour.BLUE),
        (Config(2), Config(2), Config(3)),
        (nvb.f16, nvb.f16, nvb.bf16),
        (Layout((2, 3)), Layout((2, 3)), Layout((3, 2))),
        (functools.partial(max, 1), functools.partial(max, 1), functools.partial(max, 2)),
        (slice(1, 2), slice(1, 2), slice(1, 3)),
    ],
    ids=lambda given: type(given).__name__,
)
def test_constants_are_compared_by_their_content(one: Any, same: Any, other: Any, runs: Runs) -> None:
    @defined
    def kernel(k: Any, out: OUT, *, constant: Any) -> None:
        out[0] = 1.0

    compiled(kernel, constants={"constant": one})
    compiled(kernel, constants={"constant": same})
    assert runs.count == 1
    compiled(kernel, constants={"constant": other})
    assert runs.count == 2


COUNTER = itertools.count()
GENERATOR = (number for number in itertools.count())
NUMBERS = iter(range(1 << 30))
ARRAY = numpy.array([1.0])
PATTERN = re.compile("a")
GETTER = operator.itemgetter(0)
SEEN: list[object] = []
STATE = {"runs": 0}
MODULE = types.ModuleType("by_name")
MODULE.value = 1.0  # type: ignore[attr-defined]


def counting() -> float:
    STATE["runs"] += 1
    return float(STATE["runs"])


SWITCH = {"on": False}


def switching() -> None:
    SWITCH["on"] = not SWITCH["on"]


FILE = Path(__file__)


@dataclasses.dataclass(frozen=True)
class Tuned:
    table: Path


TUNED = Tuned(FILE)


def read_by_helper() -> int:
    return len(TUNED.table.read_bytes())


@functools.cache
def cached() -> float:
    return float(STATE["runs"])


@functools.lru_cache(maxsize=4)
def cached_by_size(_key: int) -> float:
    return float(STATE["runs"])


class Thing:
    """Something that a weak reference can be made to."""


def generated() -> Iterator[int]:
    yield from range(1 << 30)


class Local(threading.local):
    value = 1.0


THING = Thing()
WEAK = weakref.ref(THING)
WEAK_VALUES = weakref.WeakValueDictionary({"a": THING})
RUNNING = generated()
LOCAL = threading.local()
LOCAL.value = 1.0
LOCAL_OF_OURS = Local()
CONTEXT = contextvars.ContextVar("CONTEXT", default=1.0)
DICE = random.Random(1)
NUMPY_DICE = numpy.random.default_rng(1)
NOW = datetime.datetime.now
TODAY = datetime.date.today
NUMBER_OF_C = ctypes.c_int(1)
BYTES = bytearray(b"a")
QUEUE = deque([1.0])
IN_MEMORY = io.StringIO("1.0")
MAPPED = mmap.mmap(-1, 16)
SHELF = shelve.Shelf({})
CYCLE = itertools.cycle((1.0, 2.0))


UNKNOWN: dict[str, Callable[[], object]] = {
    "the clock": time.perf_counter,
    "random numbers": random.random,
    "a file": lambda: len(Path(__file__).read_text()),
    "open": lambda: open(__file__).close(),
    "a counter": lambda: next(COUNTER),
    "a generator": lambda: next(GENERATOR),
    "an iterator": lambda: next(NUMBERS),
    "an array": lambda: ARRAY[0],
    "a pattern": lambda: PATTERN.match("a"),
    "an object of C": lambda: GETTER([1.0]),
    "text that is shown": lambda: print(end=""),  # noqa: T201
    "a list that grows": lambda: SEEN.append(1),
    "a count that is kept": counting,
    "a state that comes back": switching,
    "a module by a name made at run time": lambda: getattr(MODULE, "val" + "ue"),
    "names by text": lambda: eval("STATE"),
    "all globals": lambda: globals()["STATE"],
    "an exec": lambda: exec("pass"),
    "the process": os.getpid,
    "a path's text": lambda: FILE.read_text(),
    "a path's file": lambda: FILE.open().close(),
    "whether a path is there": lambda: FILE.exists(),
    "a path's size": lambda: FILE.stat().st_size,
    "a path's folder": lambda: list(FILE.parent.glob("*.py")),
    "a path's method": FILE.exists,
    "a path in a dataclass": lambda: TUNED.table.exists(),
    "a path by a helper": read_by_helper,
    "a path that is made": lambda: Path(__file__).exists(),
    "a path's method in a partial": functools.partial(Path.exists, FILE),
    "a file in memory": lambda: IN_MEMORY.getvalue(),
    "memory that is mapped": lambda: MAPPED[0],
    "a temporary file": lambda: tempfile.gettempdir(),
    "an archive": lambda: zipfile.is_zipfile(__file__),
    "a shelf": lambda: SHELF.get("a"),
    "the name of the machine": lambda: socket.gethostname(),
    "a cache": lambda: cached(),
    "a cache of some size": lambda: cached_by_size(1),
    "a generator that runs": lambda: next(RUNNING),
    "a cycle": lambda: next(CYCLE),
    "a thread's own": lambda: LOCAL.value,
    "a thread's own, of a class": lambda: LOCAL_OF_OURS.value,
    "a context's variable": lambda: CONTEXT.get(),
    "dice": lambda: DICE.random(),
    "dice of NumPy": lambda: NUMPY_DICE.random(),
    "dice bound by name": DICE.random,
    "now": lambda: NOW(),
    "today": lambda: TODAY(),
    "the time by its class": lambda: datetime.datetime.now(),
    "a weak reference": lambda: WEAK(),
    "weak values": lambda: WEAK_VALUES.get("a"),
    "a number of C": lambda: NUMBER_OF_C.value,
    "bytes that change": lambda: BYTES[0],
    "a queue": lambda: QUEUE[0],
    "a module's dictionary": lambda: MODULE.__dict__["value"],
    "a function's globals": lambda: counting.__globals__["STATE"],
    "a class's children": lambda: Thing.__subclasses__(),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_cannot_be_compared_is_run_each_time(what: str, runs: Runs) -> None:
    read = UNKNOWN[what]

    @defined
    def kernel(k: Any, out: OUT) -> None:
        read()
        out[0] = 1.0

    for count in (1, 2, 3):
        compiled(kernel)
        assert runs.count == count


def test_a_path_among_the_constants_is_read_each_time(runs: Runs, tmp_path: Path) -> None:
    @defined
    def kernel(k: Any, out: OUT, *, table: Path) -> None:
        out[0] = float(table.read_text())

    texts = []
    for value in ("1.0", "2.0"):
        (tmp_path / "table").write_text(value)
        texts.append(compiled(kernel, constants={"table": tmp_path / "table"}).ptx)
    assert texts[0] != texts[1]
    assert runs.count == 2


def test_the_environment_is_compared(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    @defined
    def kernel(k: Any, out: OUT) -> None:
        out[0] = float(os.environ["VALUE_OF_THE_TEST"])

    texts = []
    for value in ("1.0", "2.0"):
        monkeypatch.setenv("VALUE_OF_THE_TEST", value)
        texts.append(compiled(kernel).ptx)
    assert texts[0] != texts[1]


def test_values_in_values_without_end_are_run_each_time(runs: Runs) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    ring: list[Any] = []
    ring.append(ring)

    @defined
    def kernel(k: Any, out: OUT, *, constant: Any) -> None:
        out[0] = 1.0

    for _ in range(2):
        compiled(kernel, constants={"constant": deep})
    assert runs.count == 2
    for _ in range(2):
        compiled(kernel, constants={"constant": ring})
    assert runs.count == 3
    for _ in range(2):
        compiled(kernel, constants={"constant": list(range(200_000))})
    while deep:
        deep = deep.pop()


def test_pure_functions_of_python_are_known(runs: Runs) -> None:
    @defined
    def kernel(k: Any, out: OUT) -> None:
        for at, value in enumerate(sorted([math.ceil(1.5), max(1, 2)])):
            out[at] = float(functools.reduce(operator.mul, range(1, value + 1), 1))
        for at, value in itertools.product(range(2), (1.0,)):
            out[at] = value

    compiled(kernel)
    compiled(kernel)
    assert runs.count == 1


def test_options_and_targets_are_compared(runs: Runs, tmp_path: Path) -> None:
    module = in_module(BODY + "1.0")
    kernel = module.kernel
    for count, options in enumerate(
        [
            {},
            {"optimize": 2},
            {"target": "sm_90"},
            {"cache": nvb.Cache(tmp_path / "a")},
            {"cache": nvb.Cache(tmp_path / "b")},
        ],
        1,
    ):
        first = compiled(kernel, **options)  # type: ignore[arg-type]
        again = compiled(kernel, **options)  # type: ignore[arg-type]
        assert runs.count == count
        assert (again.ptx, again.target) == (first.ptx, first.target)
    assert len(list((tmp_path / "b").iterdir())) == 1


def test_a_cache_that_keeps_nothing_keeps_no_kernel(runs: Runs) -> None:
    module = in_module(BODY + "1.0")
    for _ in range(2):
        compiled(module.kernel, cache=nvb.Cache.disabled())
    assert runs.count == 2


def test_another_ptxas_assembles_anew(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wheels out of the way, one ptxas on PATH, then another program in its place, then one in a folder before it."""
    real = find_ptxas().path
    toolchain = importlib.import_module("nvbackend.codegen.toolchain")
    monkeypatch.setattr(toolchain, "wheel_directories", lambda: iter(()))
    monkeypatch.setattr(toolchain, "STANDARD_DIRECTORIES", ())
    for name in ("early", "late"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'early'}:{tmp_path / 'late'}:/usr/bin:/bin")

    def program(folder: str, release: str) -> None:
        path = tmp_path / folder / "ptxas"
        path.write_text(
            f'#!/bin/sh\ncase "$1" in --version) echo "Cuda compilation tools, release {release}, V{release}.1";;'
            f' *) exec {real} "$@";; esac\n'
        )
        path.chmod(0o755)

    kernel = in_module(BODY + "1.0").kernel
    program("late", "13.7")
    for _ in range(2):
        assert kernel.compile().cubin.ptxas_version[:2] == (13, 7)
    assert runs.count == 1
    program("late", "13.81")
    for _ in range(2):
        assert kernel.compile().cubin.ptxas_version[:2] == (13, 81)
    assert runs.count == 2
    program("early", "13.9")
    assert kernel.compile().cubin.ptxas_version[:2] == (13, 9)
    shutil.rmtree(tmp_path / "early")
    shutil.rmtree(tmp_path / "late")
    with pytest.raises(nvb.DiagnosticError) as caught:
        kernel.compile()
    assert caught.value.diagnostics[0].rule_id == "ptxas.missing"
    assert kernel.compile(assemble=None).cubin is None


def test_a_kernel_that_fails_fails_again(runs: Runs) -> None:
    module = in_module("N = object()\n" + BODY + "N")
    for count in (1, 2):
        with pytest.raises(nvb.DiagnosticError):
            compiled(module.kernel)
        assert runs.count == count
    exec("N = 1.0", vars(module))
    compiled(module.kernel)


def test_times_of_a_kernel_that_was_compiled_before() -> None:
    module = in_module(BODY + "1.0")
    first, again, third = (compiled(module.kernel) for _ in range(3))
    assert sum(first.timings.values()) > 0
    assert sum(again.timings.values()) == 0
    assert again.cached == tuple(first.timings)
    assert "build" in again.report()
    assert again == first
    assert third is again


def test_kernels_that_are_kept_are_bounded(runs: Runs) -> None:
    @defined
    def kernel(k: Any, out: OUT, *, value: float) -> None:
        out[0] = value

    count = 70
    for value in range(count):
        compiled(kernel, constants={"value": float(value)})
    compiled(kernel, constants={"value": float(count - 1)})
    assert runs.count == count
    compiled(kernel, constants={"value": 0.0})
    assert runs.count == count + 1, "the oldest is forgotten"


def test_every_sample_is_known(runs: Runs) -> None:
    for name in ("hopper_gemm", "ada_gemm", "ampere_gemm", "blackwell_gemm", "consumer_blackwell_gemm", "turing_gemm"):
        definition = importlib.import_module(f"samples.{name}").gemm
        definition.compile(assemble=None)
        before = runs.count
        assert definition.compile(assemble=None).ir == definition.build().ir
        assert runs.count == before + 1, f"{name}: the one here"


@contextlib.contextmanager
def with_attribute(holder: Any, name: str, value: object) -> Iterator[None]:
    old = getattr(holder, name)
    setattr(holder, name, value)
    yield
    setattr(holder, name, old)


def test_what_is_put_back_is_known_again(runs: Runs) -> None:
    config = types.SimpleNamespace(value=1.0)

    @defined
    def kernel(k: Any, out: OUT) -> None:
        out[0] = config.value

    first = compiled(kernel)
    with with_attribute(config, "value", 2.0):
        assert compiled(kernel).ir != first.ir
    assert compiled(kernel).ir == first.ir
    assert runs.count == 2
