"""What is said about a case: by `build()`, and by the simulator about the kernel as it is, refused or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import nvbackend as nvb
from nvbackend.runtime.simulated import SimulatedBinder, SimulatedDevice
from nvbackend.simulator import Simulator
from nvbackend.simulator.simulator import SimulatedModule
from tests.dry_run.registry import Case, Launch, Out

SILENT, NUMBERS, NOT_BUILT = "silent", "numbers", "not-built"
_FINISHES = "nvbackend.builder.kernel.kernel.raise_all"
"""What raises the errors of a finished kernel."""


@dataclass(frozen=True)
class Built:
    """The rules that refuse a case, in order; its IR where there are none."""

    verdict: str
    ir: str | None = None

    @property
    def rules(self) -> frozenset[str]:
        return frozenset(() if self.verdict == SILENT else self.verdict.split())


def build(case: Case, **options: Any) -> Built:
    """What `build()` with these options says about the case, warnings too."""
    try:
        finished = case.build(**options)
    except nvb.DiagnosticError as error:
        return Built(rules_of(error.diagnostics))
    return Built(rules_of(finished.diagnostics), finished.ir)


def rules_of(diagnostics: Sequence[nvb.Diagnostic]) -> str:
    """The ids of their rules, each once."""
    return " ".join(dict.fromkeys(one.rule_id for one in diagnostics)) or SILENT


class Simulated:
    """A case in the simulator, whatever `build` says about it."""

    def __init__(self, case: Case) -> None:
        with mock.patch(_FINISHES, return_value=()):
            self.compiled = case.build(check=False).compile(cache=nvb.Cache.disabled(), assemble=False)
        self.module: SimulatedModule = Simulator().load(self.compiled.ptx)

    def run(self, launch: Launch, seed: int = 0) -> tuple[nvb.Diagnostic, ...] | str:
        """What the simulator says, "numbers" or "silent"."""
        given = [one.fresh() if isinstance(one, Out) else getattr(one, "copy", lambda one=one: one)()
                 for one in launch.arguments]  # fmt: skip
        signature = self.compiled.signature
        bound = SimulatedBinder(signature, SimulatedDevice(self.compiled.target)).bind(given, 0)
        assert not bound.problems, bound.problems
        bounds = signature.bounds
        try:
            self.module.launch(
                self.compiled.name,
                grid=launch.grid if isinstance(launch.grid, tuple) else (launch.grid,),
                block=bounds.shape,
                cluster=bounds.cluster_shape,
                shared=bounds.dynamic_shared_bytes,
                args=bound.values,
                seed=seed,
            )
        except nvb.DiagnosticError as error:
            return error.diagnostics
        pairs = zip(launch.arguments, given, strict=True)
        return SILENT if all(one.is_right(found) for one, found in pairs if isinstance(one, Out)) else NUMBERS


def simulator_verdict(case: Case, seeds: Sequence[int]) -> str:
    """The rule that the simulator names first, "numbers" where only the results differ, or "silent".

    What a call refuses is "not-built": there is nothing to run.
    """
    try:
        simulated = Simulated(case)
    except nvb.DiagnosticError:
        return NOT_BUILT
    for launch in case.scene.launches():
        for seed in seeds:
            found = simulated.run(launch, seed)
            if not isinstance(found, str):
                return rules_of(found)
            if found != SILENT:
                return found
    return SILENT
