"""The work of `tune`: compile, look on the disk, try each candidate, time those that run right."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, as_completed
from functools import partial
from typing import Any, NoReturn, TypeVar

from nvbackend.builder.kernel.by_name import PICKLE
from nvbackend.builder.kernel.definition import KernelDefinition
from nvbackend.codegen.cache import Cache
from nvbackend.codegen.compiled import CompiledKernel
from nvbackend.diagnostics import DiagnosticError, Rule, printed, run_callback
from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.runtime.device import Device
from nvbackend.runtime.module import LoadedKernel, chosen_device, load
from nvbackend.runtime.streams import same_stream, stream_handle
from nvbackend.runtime.timing import Clock, time_launches
from nvbackend.tuning.kept import Measured, keep, kept, key_of
from nvbackend.tuning.progress import Steps
from nvbackend.tuning.rules import NO_CANDIDATE, WRONG_NUMBERS
from nvbackend.tuning.turns import Launches, each_of, per_launch, run_all, timed

CALL = "tune"
"""What its messages call it."""
Compiled = dict[str, CompiledKernel]
Failed = dict[str, DiagnosticError]
_Outcome = TypeVar("_Outcome")


@dataclass(frozen=True, slots=True)
class Measuring:
    """Candidates, and how they are run and measured."""

    prepare: Callable[[str, LoadedKernel], Launches]
    check: Callable[[str], object] | None
    device: Device | str | None
    stream: Any
    clock: Clock | None
    how: Mapping[str, int]
    """Rounds, repeats and warmup."""
    cache: Cache
    steps: Steps

    def result(self, compiled: Compiled, unbuilt: Failed, key: object) -> tuple[Measured, LoadedKernel, bool]:
        """The timings, the best kernel, and whether it was measured now. Raises tune.no-candidate."""
        if not compiled:
            _fail(unbuilt)
        device = chosen_device(self.device, next(iter(compiled.values())), {})
        place = key_of(compiled, device, key, checked=self.check is not None, **self.how)
        known = kept(self.cache, place, compiled)
        if known is not None:
            best = load(compiled[known.best], device=self.device)
            self.steps.finish(f"{known.best} is the best, as measured before")
            return known, best, False
        kernels, launches, failed = self._tried(compiled)
        if not launches:
            _fail({**unbuilt, **failed})
        with timed(launches, device, stream_handle(self.stream)) as runs:
            timings = time_launches(runs, stream=self.stream, clock=self.clock, **self.how)
        measured = Measured(per_launch(timings, launches), failed)
        keep(self.cache, place, measured)
        self.steps.finish(f"{measured.best} is the best")
        return measured, kernels[measured.best], True

    def _tried(self, compiled: Compiled) -> tuple[dict[str, LoadedKernel], dict[str, Launches], Failed]:
        """The candidates on the device, the launches of those that run right, and why the others do not."""
        kernels: dict[str, LoadedKernel] = {}
        launches: dict[str, Launches] = {}
        failed: Failed = {}
        for name, kernel in compiled.items():
            try:
                kernels[name] = load(kernel, device=self.device)
                launch = run_callback(CALL, self.prepare, name, kernels[name])
                self._check_launches(name, launch)
                run_all(each_of(launch))
            except DiagnosticError as error:
                _raise_if(error, ARGUMENT)
                failed[name] = error
            else:
                self._finish(name, kernels[name], failed)
                if name not in failed:
                    launches[name] = launch
            self.steps.say(f"{name} {'fails' if name in failed else 'runs'}")
        return kernels, launches, failed

    def _check_launches(self, name: str, launch: object) -> None:
        """Raises call.argument for what is not a launch, and for launches on another stream than the one timed."""
        launches = each_of(launch)
        if not launches:
            advice = "let prepare return loaded.prepare(grid, ...)"
            ARGUMENT.fail(call=CALL, problem=f"prepare({name!r}, loaded) gives {printed(launch)}", advice=advice)
        handle = stream_handle(self.stream)
        if len(launches) > 1 and not all(same_stream(each.handle, handle) for each in launches):
            advice = "pass one stream= to loaded.prepare(...) and to tune(...)"
            problem = f"prepare({name!r}, loaded) gives launches on another stream than the one that is timed"
            ARGUMENT.fail(call=CALL, problem=problem, advice=advice)

    def _finish(self, name: str, kernel: LoadedKernel, failed: Failed) -> None:
        """Wait for the run, and add the candidate to `failed` where its numbers are wrong.

        What a synchronisation raises is raised: after it no other candidate runs in this process.
        """
        kernel.synchronize(self.stream)
        if self.check is None:
            return
        result = run_callback(CALL, self.check, name)
        if not _truth(name, result):
            failed[name] = DiagnosticError([WRONG_NUMBERS.diagnose(name=name, result=printed(result))])


def built(
    candidates: Mapping[str, KernelDefinition], executor: Executor | None, options: Mapping[str, Any], steps: Steps
) -> tuple[Compiled, Failed]:
    """The candidates that compile, and why the others do not, in their order.

    On an error, and when the user interrupts it, what has not begun in `executor` is left out.
    """
    compiled: Compiled = {}
    failed: Failed = {}

    def take(name: str, compile_: Callable[[], CompiledKernel]) -> None:
        try:
            compiled[name] = compile_()
        except DiagnosticError as error:
            _raise_if(error, PICKLE)
            failed[name] = error
        steps.say(f"{name} {'is compiled' if name in compiled else 'does not compile'}", 1 + (name in failed))

    if executor is None:
        for name, definition in candidates.items():
            take(name, partial(definition.compile, **options))
    else:
        futures: dict[Future[CompiledKernel], str] = {}
        try:
            for name, definition in candidates.items():
                futures[_submitted(executor, definition, options)] = name
            for future in as_completed(futures):
                take(futures[future], future.result)
        finally:
            for future in futures:
                future.cancel()
    return in_order(candidates, compiled), in_order(candidates, failed)


def _submitted(executor: Executor, definition: KernelDefinition, options: Mapping[str, Any]) -> Future[CompiledKernel]:
    """The compilation in the executor. Raises call.argument for one that is closed or whose workers have died."""
    try:
        return executor.submit(definition.compile, **options)
    except RuntimeError as error:
        problem = f"executor takes no work: {error}"
        advice = "pass an open one, which stays open until tune returns: `with ThreadPoolExecutor() as executor:`"
        ARGUMENT.fail(call=CALL, problem=problem, advice=advice)


def in_order(candidates: Iterable[str], outcomes: Mapping[str, _Outcome]) -> dict[str, _Outcome]:
    """The outcomes of some candidates, in the order of all."""
    return {name: outcomes[name] for name in candidates if name in outcomes}


def _truth(name: str, result: object) -> bool:
    """What a check says. Raises call.argument for what is neither true nor false."""
    try:
        truth = None if result is None else bool(result)
    except (TypeError, ValueError):
        truth = None
    if truth is None:
        advice = "let check return True or False, as numpy.allclose does"
        text = " ".join(reprlib.repr(result).split())  # an array may be large
        ARGUMENT.fail(call=CALL, problem=f"check({name!r}) gives {text}", advice=advice)
    return truth


def _raise_if(error: DiagnosticError, rule: Rule) -> None:
    """Raise what is a mistake of the call, and of no candidate."""
    if any(diagnostic.rule is rule for diagnostic in error.diagnostics):
        raise error


def _fail(failed: Failed) -> NoReturn:
    firsts = {name: error.diagnostics[0] for name, error in failed.items()}
    name, first = next(iter(firsts.items()))
    failures = "; ".join(f"{each}: {diagnostic.message}" for each, diagnostic in firsts.items())
    notes = tuple((f"{each}: {diagnostic.rule_id}", diagnostic.location) for each, diagnostic in firsts.items())
    raise DiagnosticError(
        [NO_CANDIDATE.diagnose(failures=failures, name=name, advice=first.fix, notes=notes)]
    ) from None
