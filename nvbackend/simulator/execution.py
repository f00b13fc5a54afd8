"""A launch that runs: its waves of CTAs one after another, what watches them, and its report."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from nvbackend.diagnostics import DiagnosticError, Interrupted
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.calls.tensor.tmem import TensorMemory
from nvbackend.simulator.checks import ORDER, watchers
from nvbackend.simulator.events import Observer, Site
from nvbackend.simulator.machine.wave import Launch, NotStarted, Wave
from nvbackend.simulator.memory import Failures, Heap, Memory, Private, Shape, windows
from nvbackend.simulator.program.blocks import Program
from nvbackend.simulator.program.scheduler import Scheduler, running_site
from nvbackend.simulator.report import overlap
from nvbackend.simulator.report.classes import class_of
from nvbackend.simulator.report.record import Recorder, RecordingScheduler
from nvbackend.simulator.report.report import Report

_MOST_THREADS = 8192
"""Threads of a wave: their registers should stay in the caches of the machine that this runs on."""
_MOST_BYTES = 1 << 29
"""Registers, shared and local memory of a wave."""
_ALL_THREADS, _ALL_BYTES = 1 << 18, 1 << 31
"""The same where CTAs may wait for one another: about as many as run at once on a large GPU."""
_TAKING = "clusterlaunchcontrol.try_cancel"
_MEETING = re.compile(r"(ld|atom|fence)\.(?!proxy)(.*\.)?(acquire|acq_rel|sc)\.(gpu|sys)|ld\.volatile|membar\.(gl|sys)")


@dataclass(frozen=True, slots=True)
class Watch:
    """What watches a launch: the checks, the report, and others."""

    checks: bool = True
    report: bool = False
    observers: Sequence[Observer] = ()


class Execution:
    """One launch of a program."""

    def __init__(self, program: Program, launch: Launch, heaps: list[Heap], watch: Watch) -> None:
        self.program = program
        self.launch = launch
        self._heaps = heaps
        self._watch = watch
        self.report = Report(
            launch.kernel,
            launch.grid,
            launch.block,
            launch.cluster,
            launch.seed,
            shared_bytes=launch.shared_bytes - windows.SHARED_START,
            is_whole=watch.report,
        )
        x, y, z = launch.clusters
        self._not_started = NotStarted(0, x * y * z)
        self.done = 0
        """CTAs of the waves that have ended, and those that they have taken over."""
        self.wave: Wave | None = None
        """The wave that runs, or ran last."""

    @property
    def ctas(self) -> int:
        """CTAs of the grid."""
        x, y, z = self.launch.grid
        return x * y * z

    def run(self) -> Report:
        """To its end."""
        for wave in self.waves():
            recorder = Recorder(self.report.record, wave, keeps=not self.done) if self._watch.report else None
            scheduler = Scheduler(self.program, wave)
            if recorder is not None:
                wave.observers.append(recorder)
                scheduler = RecordingScheduler(self.program, wave, recorder)
            with self.guarded():
                scheduler.run()
            self.end(scheduler)
            if recorder is not None:
                self._add(recorder)
        return self.report

    def waves(self) -> Iterator[Wave]:
        """Each wave, which is to be run to its end before the next."""
        rest = self._not_started
        each = min(_clusters_of_a_wave(self.program, self.launch), _started(self.program, self.launch, rest.end))
        while rest.first < rest.end:
            clusters = range(rest.first, min(rest.first + each, rest.end))
            rest.first = clusters.stop
            self.wave = self._wave(clusters)
            yield self.wave

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Around what runs instructions: Ctrl-C says where it was.

        A read of unwritten memory is reported last: a mistake of order may explain it.
        """
        wave = self.wave
        assert wave is not None
        try:
            with np.errstate(all="ignore"):
                yield
        except DiagnosticError as error:
            if not all(one.rule in ORDER for one in error.diagnostics):
                wave.memory.failures.raise_held(error)
            raise
        except KeyboardInterrupt as error:
            raise Interrupted(self._interrupted(error)) from None

    def _interrupted(self, error: KeyboardInterrupt) -> str:
        """Where it was."""
        site = running_site(error.__traceback__)
        place = f" at {site.location}, PTX {site}" if site is not None else ""
        return f"{self.launch.kernel} was interrupted{place}; {self.done} of {self.ctas} CTAs have ended"

    def end(self, scheduler: Scheduler) -> None:
        """A wave has run to its end. Raises what it has found on the way."""
        wave = self.wave
        assert wave is not None
        wave.memory.failures.raise_held()
        taken = self._not_started.first - wave.clusters.stop
        self.done += wave.cta_count + taken * wave.cluster_size
        self._count(scheduler, wave)

    def _count(self, scheduler: Scheduler, wave: Wave) -> None:
        """The instructions of a wave: it is known how many threads ran each block."""
        report = self.report
        report.steps += wave.steps
        for code in self.program.codes:
            threads = scheduler.runs.get(code.start, 0)
            if not threads:
                continue
            every = list(zip(code.opcodes, code.sites, strict=True))
            if code.end_opcode:
                every.append((code.end_opcode, code.end_site))
            for opcode, site in every:
                name = opcode.partition(".")[0]
                report.instructions[name] += threads
                report.classes.setdefault(class_of(opcode), Counter())[name] += threads
                report.record.use(site).threads += threads

    def _add(self, recorder: Recorder) -> None:
        """What the recorder of a wave has seen."""
        report, record = self.report, self.report.record
        recorder.finish()
        report.warp_steps, report.waits, report.engines = record.steps, record.waits, record.engines
        tensor_memory = recorder.wave.made(TensorMemory)
        if tensor_memory is not None:
            report.tensor_columns = max(report.tensor_columns, tensor_memory.most)
        report.total = record.total()
        overlap.fill(record)

    def _wave(self, clusters: range) -> Wave:
        launch, program, checks = self.launch, self.program, self._watch.checks
        ctas = len(clusters) * launch.cluster_size
        threads = -(-launch.block_threads // 32) * 32
        shared = Private(
            "shared",
            Shape(ctas, launch.shared_bytes, windows.SHARED_START, threads, launch.cluster_size),
            watches_writes=checks,
        )
        local = Private("local", Shape(ctas * threads, program.frame_bytes), watches_writes=checks)
        failures, observers = Failures(), list(self._watch.observers)
        memory = Memory(self._heaps, shared, local, failures, observers)
        wave = Wave(launch, clusters, memory, observers, self._not_started, program.shared, partial(_sites, program))
        if checks:
            observers += watchers(wave)
        failures.named = wave.thread_name
        wave.polls = program.polls
        wave.registers = [initial(wave) for initial in program.slots.initial]
        return wave


def _sites(program: Program) -> list[Site]:
    """The instructions of a program, in the order of its text."""
    return sorted((site for code in program.codes for site in (*code.sites, code.end_site)), key=lambda one: one.line)


def _started(program: Program, launch: Launch, clusters: int) -> int:
    """How many clusters start together: a GPU may start few, and let these take over what is left, if they ask.

    Where CTAs may wait for one another all start, unless the launch says how many.
    """
    opcodes = {opcode for code in program.codes for opcode in code.opcodes}
    if not any(opcode.startswith(_TAKING) for opcode in opcodes):
        return clusters
    if launch.started is not None:
        return launch.started
    if _meets(program):
        return clusters
    return random.Random(launch.seed).randint(1, clusters) if launch.seed else -(-clusters // 2)


def _clusters_of_a_wave(program: Program, launch: Launch) -> int:
    most_threads, most_bytes = (_ALL_THREADS, _ALL_BYTES) if _meets(program) else (_MOST_THREADS, _MOST_BYTES)
    threads = -(-launch.block_threads // 32) * 32
    of_a_cta = launch.shared_bytes * 2 + threads * (8 * len(program.slots.initial) + 2 * program.frame_bytes)
    ctas = min(max(most_threads // threads, 1), max(most_bytes // max(of_a_cta, 1), 1))
    return max(ctas // launch.cluster_size, 1)


def _meets(program: Program) -> bool:
    """Whether CTAs may wait for one another: there are acquires of the GPU's scope, or volatile loads."""
    opcodes = {opcode for code in program.codes for opcode in code.opcodes}
    return any(_MEETING.match(opcode) for opcode in opcodes)
