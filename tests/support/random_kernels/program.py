"""One random kernel: what a seed writes, and what became of it."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import nvbackend as nvb
from nvbackend.builder.kernel.kernel import FinishedKernel
from nvbackend.codegen.llvm import compile_ir
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row.types import f32
from nvbackend.isel.target.target import Target, target_names
from tests.support.fuzz import Arguments, methods
from tests.support.ptxas import witnessed
from tests.support.random_kernels import attached, control, corpus, memory, rows, scenes_async, scenes_warp
from tests.support.random_kernels.writer import HOSTILE_NUMBERS, Failed, Stop, Writer, check_refusal

SAME_TARGET = 32
"""So many seeds in a row have one target, so that one ptxas assembles them together."""
NAMES = ("k", "kernel", "_k", "k$", "main", "k.1", "k k", "9k", "é", "k\x00", "k{", 'k"', "x" * 4990, "", "bar")
ENDINGS = ("finish", "compile", "emit")


@dataclass
class Outcome:
    """What became of the kernel of a seed: `ptx` where it was built, else the rules that refused it.

    `failure` says what else happened; `trace` is the program.
    """

    seed: int
    name: str
    kind: str
    target: Target
    ptx: str = ""
    rules: tuple[str, ...] = ()
    failure: str = ""
    trace: list[str] = field(default_factory=list)
    shared_static: int = 0

    @property
    def verdict(self) -> str:
        """built, refused or failed."""
        return "failed" if self.failure else "built" if self.ptx else "refused"


def target_of(seed: int) -> Target:
    """The target of a seed, at the newest PTX version that both LLVM and a ptxas have, or an older one of the chip."""
    found = witnessed()
    return found[seed // SAME_TARGET % len(target_names())]


def write(seed: int) -> Outcome:
    """Write the kernel of a seed, finish it and print its PTX; `worker` watches the clock."""
    rng = random.Random(seed)
    kind = rng.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
    hostile = rng.choice((0.0, 0.0, 0.02, 0.15))
    w = Writer(rng, target_of(seed), hostile)
    name = f"k{seed}" if rng.random() > hostile / 2 else f"{rng.choice(NAMES)}{rng.choice((seed, ''))}"
    text: str | None = None
    failure = ""
    finished: Any = None
    try:
        try:
            text = KINDS[kind][1](w, name)
        except Stop:
            w.trace.append("# long enough")
        except DiagnosticError as error:
            w.refuse(error)
        w.calls = 0
        if text is None and w.k is not None and kind != "attached":
            finished = w.call(w.k.finish)
            text = finished.ir if isinstance(finished, FinishedKernel) else None
        ptx = _printed(text, w.target, rng.choice((3, 3, 3, 1, 0))) if text is not None else ""
    except Failed as error:
        ptx, failure = "", str(error)
    rules = tuple(sorted(w.refused))
    return Outcome(seed, name, kind, w.target, ptx, rules, failure, w.trace)


def _printed(text: str, target: Target, level: int) -> str:
    try:
        return compile_ir(text, target, optimize=level).ptx
    except DiagnosticError as error:
        check_refusal(error)
        raise Failed(f"the IR that was built is refused: {error}") from error
    except Exception as error:
        raise Failed(f"{type(error).__name__} while compiling: {error}") from error


# -- kinds of kernels ---------------------------------------------------------------------------------------------


def _start(w: Writer, name: str) -> bool:
    """A kernel with parameters of random types."""
    rng = w.rng
    types: list[Any] = [
        nvb.Pointer(w.element(*memory.STORED), w.one(16, 16, 4, 8, 128)) for _ in range(rng.randint(1, 3))
    ]
    scalars = ("s32", "u32", "f32", "s64", "u64", "f16", "f64", "u8", "s16", "bf16", "pred")
    types += [nvb.Scalar(w.element(*scalars)) for _ in range(rng.randint(0, 3))]
    names = [
        f"p{place}" if not w.odd() else w.one("p0", "x y", "", "é", "k", "p" * 300, "{") for place in range(len(types))
    ]
    bounds: dict[str, Any] = {"threads": w.count(32, 64, 128, 128, 256, 384, 1024)}
    if w.chance(0.15):
        bounds["min_ctas"] = w.count(1, 1, 2)
    if w.chance(0.1):
        bounds["max_registers"] = w.count(24, 64, 128, 255)
    if w.chance(0.2) and w.target.number >= 90:
        bounds["cluster"] = w.count(2, 4, 8)
    parameters = [nvb.Parameter(each, kind) for each, kind in zip(names, types, strict=True)]
    w.k = w.call(nvb.KernelBuilder, name, w.target, parameters=parameters, **bounds)
    if w.k is None:
        return False
    w.threads, w.cluster = w.k.threads, w.k.cluster_size
    w.keep(w.k.arguments)
    return True


def _statements(w: Writer, name: str) -> None:
    """Scalars, memory and control flow; the last value of each type is stored, so that something stays."""
    if not _start(w, name):
        return
    for _ in range(w.rng.randint(1, 5)):
        control.body(w, 6)
    _store_all(w)


def _store_all(w: Writer) -> None:
    target = next((one for one in w.addresses[0] if one.space == memory.GLOBAL_SPACE), None)
    if target is None:
        return
    for place, value in enumerate(w.values[0][-6:]):
        if value.type in (f32,) or value.type.bits >= 8:
            w.call(operator.setitem, w.call(target.cast, value.type), place, value)


def _junk(w: Writer, name: str) -> None:
    """Any call of the builder or of what it gave, with arguments by their annotations or of any kind."""
    if not _start(w, name):
        return
    arguments = Arguments(w.rng, junk=w.rng.choice((0.0, 0.05, 0.2)))
    arguments.keep(w.k.arguments)
    for pool in (*w.values, *w.addresses):
        arguments.keep(pool)
    names = [one for one in methods(w.k) if one not in ENDINGS]
    open_: list[Any] = []
    for _ in range(w.rng.randint(3, 25)):
        if open_ and w.chance(0.15):
            w.call(open_.pop().__exit__, None, None, None)
            continue
        owners = [
            one for kept in arguments.pool.values() for one in kept if type(one).__module__.startswith("nvbackend.")
        ]
        owner = w.k if not owners or w.chance(0.6) else w.rng.choice(owners)
        callables = names if owner is w.k else [one for one in methods(owner) if one not in ENDINGS]
        if not callables:
            continue
        function = getattr(owner, w.rng.choice(callables))
        try:
            positional, named = arguments.call(function)
        except (TypeError, ValueError):  # a function of Python's own, without a signature
            continue
        if w.hostile and w.chance(0.1) and positional:
            positional[w.rng.randrange(len(positional))] = w.rng.choice(HOSTILE_NUMBERS)
        result = w.call(function, *positional, **named)
        if hasattr(result, "__enter__") and hasattr(result, "__exit__"):
            refused = sum(w.refused.values())
            entered = w.call(result.__enter__)
            if sum(w.refused.values()) == refused:
                open_.append(result)
                arguments.keep(entered)
        elif result is not None:
            arguments.keep(result)
    while open_:
        w.call(open_.pop().__exit__, None, None, None)


def _scene(scenes: tuple[Callable[[Writer, str], None], ...]) -> Callable[[Writer, str], None]:
    def write_one(w: Writer, name: str) -> None:
        scene = w.rng.choice(scenes)
        w.trace.append(f"scene {scene.__name__}")
        scene(w, name)
        if w.k is not None and w.chance(0.3):
            w.some(control.EVERYWHERE, w.rng.randint(1, 4))

    return write_one


KINDS: dict[str, tuple[float, Callable[[Writer, str], Any]]] = {
    "statements": (40, _statements),
    "attached": (10, attached.write),
    "rows": (15, rows.write),
    "warp": (12, _scene(scenes_warp.SCENES)),
    "async": (13, _scene(scenes_async.SCENES)),
    "junk": (8, _junk),
    "corpus": (2, corpus.write),
}
