"""`tune`: compile candidates, try each, time them in turns, and keep the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import field
from typing import Any

from nvbackend.builder.kernel.definition import KernelDefinition
from nvbackend.codegen.cache import Cache
from nvbackend.codegen.stages.options import COMPILE_OPTIONS
from nvbackend.diagnostics import DiagnosticError, printed, record, user_facing
from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.diagnostics.classes.brief import short_repr
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.misfits import short
from nvbackend.diagnostics.spelling import unknown_argument
from nvbackend.runtime.device import Device
from nvbackend.runtime.driver import no_gpu_reason
from nvbackend.runtime.launch import PreparedLaunch
from nvbackend.runtime.module import SIMULATOR, LoadedKernel
from nvbackend.runtime.simulated import SimulatedDevice
from nvbackend.runtime.timing import A_CLOCK, Clock, Timing, check_clock, check_rounds
from nvbackend.tuning.measuring import CALL, Measuring, built, in_order
from nvbackend.tuning.progress import Steps

OPTIONS = ("target", "constants", "debug", *(option for option in COMPILE_OPTIONS if option != "cache"))
"""What `tune` hands on to `compile` by name, besides the cache."""
_PLAIN = (type(None), bool, int, float, str, bytes)


@record
@dataclass(frozen=True, slots=True)
class Tuned:
    """What `tune` chose: the best candidate's name, its kernel on the device, and the results of all candidates.

    `timings` are those of the candidates that ran right, `failed` says why the others were left out, and `measured` is
    False where the result was on disk.
    """

    best: str
    kernel: LoadedKernel
    timings: dict[str, Timing] = field(hash=False)
    failed: dict[str, DiagnosticError] = field(hash=False)
    measured: bool

    __repr__ = short_repr

    def report(self) -> str:
        """A line for each candidate: the medians in milliseconds, the best first, and why the others failed."""
        ranked = sorted(self.timings.items(), key=lambda item: item[1].median)
        least = ranked[0][1].median
        width = max(map(len, (*self.timings, *self.failed)))
        lines = [f"{self.best} is the best{'' if self.measured else ', as measured before'}"]
        for name, timing in ranked:
            ratio = f", {timing.median / least:.2f} times the least" if timing.median > least > 0 else ""
            lines.append(f"  {name:<{width}}  {timing.median:.4g} ms{ratio}")
        for name, error in self.failed.items():
            first = error.diagnostics[0]
            lines.append(f"  {name:<{width}}  {first.rule_id}: {first.message}")
        return "\n".join(lines)


@user_facing
def tune(
    candidates: Mapping[str, KernelDefinition],
    *,
    prepare: Callable[[str, LoadedKernel], PreparedLaunch | Sequence[PreparedLaunch]],
    key: object,
    check: Callable[[str], object] | None = None,
    executor: Executor | None = None,
    progress: bool | Callable[[int, int, str], object] = False,
    rounds: int = 10,
    repeats: int = 3,
    warmup: int = 2,
    stream: Any = None,
    clock: Clock | None = None,
    device: Device | str | None = None,
    cache: Cache | None = None,
    **options: Any,
) -> Tuned:
    """Compile `candidates`, run each once, time the correct ones in turns, and choose the one with the least median.

    `prepare(name, loaded)` returns the launch to measure, on `stream`. After one run of it, `check(name)` says whether
    the result is correct. Let `prepare` clear the result; otherwise a kernel that writes nothing passes with the result
    of another one. A candidate that cannot be built, loaded, prepared or run, or whose result is wrong, is in `failed`
    of the returned object. `rounds`, `repeats`, `warmup` and `clock` are those of `nvb.runtime.time_launches`.

    `prepare` may also return a list of launches over different operands, which run in turns. If these have more bytes
    than L2, no launch finds its operands there. On a `stream` other than the default ones, the launches become a CUDA
    graph, so that no time of the host counts. Times are for one launch.

    The result is kept in `cache` (None: the user's cache). It is found again by the candidates' code, the device, the
    driver, the version of nvbackend, the way of measuring, and `key`. `key` names what else the times depend on, such
    as sizes and the number of launches, as None, numbers, strings, and tuples of these. If the result is on disk, the
    best kernel is loaded, and nothing is run.

    `executor` is an executor of concurrent.futures, in which candidates compile at the same time. `progress` is True
    for a line on standard error, or a function of the number of steps done, the number of all steps, and a text.
    `device` is that of `nvb.runtime.load`; the simulator needs a `clock`, because it has no time. `options` are those
    of a kernel's `compile`. Raises tune.no-candidate if all candidates fail, call.argument without a GPU unless a
    `clock` is given, launch.timing, and what `time_launches` raises.
    """
    _check_candidates(candidates)
    _check_calls(prepare, check, executor)
    _check_values(key, options)
    check_rounds(rounds, repeats, warmup)
    _check_clock(device, clock)
    cache = Cache.default() if cache is None else cache
    how = {"rounds": rounds, "repeats": repeats, "warmup": warmup}
    with Steps(progress, 2 * len(candidates) + 1) as steps:
        measuring = Measuring(prepare, check, device, stream, clock, how, cache, steps)
        compiled, unbuilt = built(candidates, executor, {**options, "cache": cache}, steps)
        measured, kernel, is_new = measuring.result(compiled, unbuilt, key)
    failed = in_order(candidates, {**unbuilt, **measured.failed})
    return Tuned(measured.best, kernel, measured.timings, failed, is_new)


def _check_candidates(candidates: Mapping[str, KernelDefinition]) -> None:
    wrong = "" if isinstance(candidates, Mapping) and candidates else f"its candidates are {printed(candidates)}"
    if not wrong:
        odd = {name: each for name, each in candidates.items() if not isinstance(each, KernelDefinition)}
        names = [name for name in candidates if not isinstance(name, str)]
        wrong = next((f"candidate {name!r} is {printed(each)}" for name, each in odd.items()), "")
        wrong = wrong or next((f"a candidate is called {printed(name)}" for name in names), "")
    if wrong:
        advice = 'pass definitions by name: {"64": kernel.with_(columns=64), "128": kernel.with_(columns=128)}'
        ARGUMENT.fail(call=CALL, problem=wrong, advice=advice)


def _check_calls(prepare: object, check: object, executor: object) -> None:
    if not callable(prepare):
        advice = "pass lambda name, loaded: loaded.prepare(grid, ...)"
        ARGUMENT.fail(call=CALL, problem=f"prepare is {printed(prepare)}", advice=advice)
    if check is not None and not callable(check):
        advice = "pass a function of a name that says whether the numbers are right, or None"
        ARGUMENT.fail(call=CALL, problem=f"check is {printed(check)}", advice=advice)
    if executor is not None and not isinstance(executor, Executor):
        advice = "pass a concurrent.futures.ThreadPoolExecutor or ProcessPoolExecutor, or None"
        ARGUMENT.fail(call=CALL, problem=f"executor is {printed(executor)}", advice=advice)


def _check_values(key: object, options: Mapping[str, Any]) -> None:
    if not _is_plain(key):
        advice = "pass None, Python's own numbers, texts, or a tuple of these, such as key=(m, n, k)"
        ARGUMENT.fail(call=CALL, problem=f"key is {short(key)}", advice=advice)
    for name in options:
        if name not in OPTIONS:
            shown = ", ".join(f"{option}=..." for option in ("cache", *OPTIONS))
            advice = f"constants are set by definition.with_({name}=...); options of compile are: {shown}"
            ARGUMENT.fail(call=CALL, problem=unknown_argument(name, ("cache", *OPTIONS)), advice=advice)


def _is_plain(key: object) -> bool:
    """Whether equal values have one `repr` in every process."""
    return all(map(_is_plain, key)) if type(key) is tuple else type(key) in _PLAIN


def _check_clock(device: Device | str | None, clock: Clock | None) -> None:
    """Raises call.argument where nothing tells the time."""
    if clock is not None:
        check_clock(CALL, clock)
        return
    if isinstance(device, SimulatedDevice) or (isinstance(device, str) and device == SIMULATOR):
        advice = f"pass a clock, {A_CLOCK}, or leave the device out on a machine with a GPU"
        ARGUMENT.fail(call=CALL, problem="the simulator has no time to measure", advice=advice)
    reason = no_gpu_reason()
    if reason is not None:
        advice = "run on a machine with an NVIDIA GPU and its driver"
        advice += f'; to try it, pass device="{SIMULATOR}" and a clock, {A_CLOCK}'
        ARGUMENT.fail(call=CALL, problem=f"there is no GPU to measure on: {reason}", advice=advice)
