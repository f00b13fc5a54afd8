"""A process that writes and assembles the kernels of many seeds, and what watches it from outside.

A kernel may end its process, or never come to an end: the worker says which seed it begins, and the watcher starts
another one after the seed that did it.
"""

from __future__ import annotations

import hashlib
import json
import select
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from tests.support.process import ROOT, collect_seldom, limit_memory
from tests.support.ptxas import assemble, together
from tests.support.random_kernels.program import SAME_TARGET, Outcome, write

LONGEST_S = 10
"""Of processor time that one kernel may take, from its first call to its PTX."""
SILENT_S = 300
"""Of a clock's time, after which a worker that says nothing is taken to hang in code that no signal interrupts."""
MOST_BYTES = 6 << 30
"""Of address space that a worker may take."""
SAID_OF_CRASHES = 600
MODULE = "tests.support.random_kernels.worker"
REPLAY = "python -m tests.support.random_kernels {seed}"


class Hang(BaseException):
    """A kernel takes longer than LONGEST_S."""


def watched(seed: int) -> Outcome:
    """The outcome of a seed; a failure where it takes too long."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        return write(seed)
    except Hang as hang:
        frames = traceback.extract_tb(hang.__traceback__)
        inside = " <- ".join(f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in frames[-2:1:-1])
        return _failed(seed, f"it takes more than {LONGEST_S} s: {inside}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _failed(seed: int, failure: str) -> Outcome:
    from tests.support.random_kernels.program import target_of

    return Outcome(seed, f"k{seed}", "?", target_of(seed), failure=failure)


# -- ptxas --------------------------------------------------------------------------------------------------------


def refused_by_ptxas(outcomes: Sequence[Outcome]) -> tuple[dict[int, str], int]:
    """What ptxas says against kernels of one target, by seed, and the files that it was asked about.

    All are in one file, and where it refuses that, each half is in one.
    """
    fine, text = assemble(together([each.ptx for each in outcomes]), outcomes[0].target.name)
    if fine:
        return {}, 1
    if len(outcomes) == 1:
        return {outcomes[0].seed: text or "ptxas ended without a word"}, 1
    middle = len(outcomes) // 2
    first, asked = refused_by_ptxas(outcomes[:middle])
    second, asked_too = refused_by_ptxas(outcomes[middle:])
    return first | second, 1 + asked + asked_too


def _groups(outcomes: Sequence[Outcome]) -> Iterator[list[Outcome]]:
    """Kernels with one target and PTX version, each name once."""
    groups: dict[object, list[Outcome]] = {}
    for each in outcomes:
        key = (each.target.name, each.target.ptx_version)
        if any(other.name == each.name for other in groups.get(key, ())):
            key = (*key, str(each.seed))
        groups.setdefault(key, []).append(each)
    yield from groups.values()


# -- the process that does the work -----------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> None:
    """Seeds from the first argument up to the second; a line of JSON for each that begins, and for what came of it."""
    first, last, assembled = int(arguments[0]), int(arguments[1]), arguments[2] == "assemble"
    limit_memory(MOST_BYTES)
    collect_seldom()
    for start in range(first, last, SAME_TARGET):
        outcomes = []
        for seed in range(start, min(start + SAME_TARGET, last)):
            _say({"begin": seed})
            outcomes.append(watched(seed))
        built = [each for each in outcomes if each.verdict == "built"]
        for group in _groups(built) if assembled else ():
            refused, asked = refused_by_ptxas(group)
            _say({"files": asked})
            for seed, text in refused.items():
                next(each for each in outcomes if each.seed == seed).failure = f"ptxas refuses it: {text.strip()}"
        for each in outcomes:
            digest = hashlib.sha256(
                "\n".join((each.ptx, each.failure, *each.rules)).encode("utf-8", "replace")
            ).hexdigest()
            _say({"seed": each.seed, "kind": each.kind, "verdict": each.verdict, "failure": each.failure[:2000]}
                 | {"target": each.target.name, "rules": each.rules, "digest": digest})  # fmt: skip


def _say(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


# -- the process that watches -----------------------------------------------------------------------------------------


@dataclass
class Campaign:
    """What became of a range of seeds: how many of each kind and verdict, what failed, and a digest of each."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    targets: set[str] = field(default_factory=set)
    failures: dict[int, str] = field(default_factory=dict)
    digests: dict[int, str] = field(default_factory=dict)
    files: int = 0
    """Those that ptxas was asked about."""

    def count(self, verdict: str) -> int:
        """How many kernels met it."""
        return sum(number for (_, each), number in self.counts.items() if each == verdict)

    def report(self) -> str:
        """The failures, each with the command that shows it again; empty where there is none."""
        return "\n".join(
            f"seed {seed}: {text}\n  again: {REPLAY.format(seed=seed)}" for seed, text in self.failures.items()
        )


def run(first: int, last: int, *, assembled: bool = True, environment: dict[str, str] | None = None) -> Campaign:
    """The kernels of the seeds from `first` to `last`, exclusive, in processes of their own."""
    campaign = Campaign()
    while first < last:
        first = _run_until_death(first, last, campaign, assembled, environment)
    return campaign


def _run_until_death(
    first: int, last: int, campaign: Campaign, assembled: bool, environment: dict[str, str] | None
) -> int:
    """Runs a worker; the seed to go on with."""
    command = [sys.executable, "-m", MODULE, str(first), str(last), "assemble" if assembled else "print"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    begun, done = first - 1, set[int]()
    assert process.stdout is not None
    lines: list[str] = []
    while line := _line(process):
        lines.append(line)
        answer = json.loads(line)
        if "begin" in answer:
            begun = answer["begin"]
        elif "files" in answer:
            campaign.files += answer["files"]
        else:
            done.add(answer["seed"])
            _count(campaign, answer)
    _, said = process.communicate()
    if process.returncode == 0:
        return last
    lost = [seed for seed in range(first, begun) if seed not in done]
    campaign.failures[begun] = f"its process ended ({process.returncode}): {said[-SAID_OF_CRASHES:]}"
    campaign.counts["?", "failed"] += 1
    for start, end in _ranges(lost):  # those of the same group, which were not assembled yet
        _run_until_death(start, end, campaign, assembled, environment)
    return begun + 1


def _ranges(seeds: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Seeds in a row, as ranges."""
    if seeds:
        yield seeds[0], seeds[-1] + 1


def _line(process: subprocess.Popen[str]) -> str:
    """The next line of a worker; empty at its end, also where it has to be ended for its silence."""
    assert process.stdout is not None
    deadline = time.monotonic() + SILENT_S
    while not select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if time.monotonic() >= deadline:
            process.kill()
            return ""
    return process.stdout.readline()


def _count(campaign: Campaign, answer: dict[str, object]) -> None:
    seed = int(str(answer["seed"]))
    campaign.counts[str(answer["kind"]), str(answer["verdict"])] += 1
    campaign.targets.add(str(answer["target"]))
    campaign.digests[seed] = str(answer["digest"])
    campaign.rules.update(answer["rules"] if isinstance(answer["rules"], list) else ())
    if answer["failure"]:
        campaign.failures[seed] = str(answer["failure"])


if __name__ == "__main__":
    main(sys.argv[1:])
