"""The table of docs/checks.md: how many wrong kernels of each kind are refused, and how many the simulator finds."""

from __future__ import annotations

from collections.abc import Iterator

from tests.dry_run.kinds import KINDS
from tests.dry_run.measure import NOT_BUILT, SILENT
from tests.dry_run.registry import Case, cases, scenes
from tests.dry_run.verdicts import Verdicts


def mistakes() -> str:
    """What is measured, in a sentence, and a row for each kind."""
    wrong = [case for case in cases() if case.wrong]
    right = sum(1 for _ in cases()) - len(wrong)
    styles = len({scene.style for scene in scenes()})
    said = (
        f"A cell counts kernels: {len(wrong)} wrong and {right} correct ones of `tests/dry_run/kernels`, in styles of\n"
        f"{styles} libraries. A wrong kernel is a correct one with one mistake. No correct one draws a diagnostic.\n"
    )
    return "\n".join([said, *_rows(wrong), ""])


def _rows(wrong: list[Case]) -> Iterator[str]:
    build, simulator = (Verdicts(name, update=False).noted() for name in ("build.txt", "simulator.txt"))
    yield "| mistake | kernels | refused at build | found by the simulator |"
    yield "| --- | ---: | ---: | ---: |"
    for name, kind in [*KINDS.items(), ("", None)]:
        cases = [case.name for case in wrong if case.wrong and (kind is None or case.wrong.kind == name)]
        refused = sum(build[case] != SILENT for case in cases)
        run = [case for case in cases if simulator[case] != NOT_BUILT]
        found = sum(simulator[case] != SILENT for case in run)
        yield f"| {kind.what if kind else 'all'} | {len(cases)} | {refused} | {found} of {len(run)} |"
