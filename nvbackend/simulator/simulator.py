"""`Simulator(target).load(ptx)` gives a module, `module.launch(...)` runs one of its kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nvbackend.diagnostics import DiagnosticError, gather, raise_all, user_facing
from nvbackend.ptx import Module, parse, resolve
from nvbackend.ptx.syntax import Function
from nvbackend.simulator import scalar
from nvbackend.simulator.arguments import Binder
from nvbackend.simulator.calls import families
from nvbackend.simulator.checks import ORDER, watchers
from nvbackend.simulator.events import Observer
from nvbackend.simulator.machine.compiling import Compile
from nvbackend.simulator.machine.wave import Dim, Launch, Wave
from nvbackend.simulator.memory import Failures, Heap, Memory, Private, Shape, windows
from nvbackend.simulator.program.assemble import Assembler
from nvbackend.simulator.program.blocks import Program
from nvbackend.simulator.program.image import image
from nvbackend.simulator.program.pure import Domain, PureInstruction
from nvbackend.simulator.program.scheduler import Scheduler
from nvbackend.simulator.rules import LAUNCH
from nvbackend.simulator.sync.registers import share

_MOST_THREADS = 8192
"""Threads of a wave: their registers should stay in the caches of the machine that this runs on."""
_MOST_BYTES = 1 << 29
"""Registers, shared and local memory of a wave."""
_MOST_THREADS_OF_A_CTA = 1024


class Known:
    """The instructions that the simulator knows."""

    def family(self, parts: tuple[str, ...]) -> Compile | None:
        """How instructions that touch the machine are compiled."""
        return families.find(parts)

    def pure(self, parts: tuple[str, ...]) -> PureInstruction | None:
        """An instruction that only computes."""
        return scalar.find(parts)


@dataclass(slots=True)
class Report:
    """What a launch did: how many threads executed the instructions of each opcode."""

    kernel: str
    instructions: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    """Instructions that ran, each for any number of threads at once."""


@user_facing
class Simulator:
    """Runs PTX for one target, or for the one that the text is for."""

    def __init__(self, target: str | None = None) -> None:
        self.target = target

    def __repr__(self) -> str:
        return f"<simulator of {self.target or 'the chip that a text is for'}>"

    def load(self, ptx: str, *, source: str = "<ptx>") -> SimulatedModule:
        """Read and compile a PTX text. Raises ptx.* and simulator.unknown, for all of its lines together."""
        return SimulatedModule(parse(ptx, source), Known())


@user_facing
class SimulatedModule:
    """A PTX module whose kernels can be launched. Its global variables live as long as it does."""

    def __init__(self, module: Module, known: Known) -> None:
        self._module = module
        names = resolve(module)
        self._image = image(module, names)
        self._programs: dict[str, Program] = {}

        def compile_kernel(name: str) -> None:
            assembler = Assembler(module, names, known, self._image.places, Domain())
            self._programs[name] = assembler.program(module.kernels[name])

        raise_all(gather(*(lambda name=name: compile_kernel(name) for name in module.kernels)))

    def __repr__(self) -> str:
        return f"<module of {', '.join(self._programs) or 'no kernel'} for {self._module.target[0]}>"

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels."""
        return tuple(self._programs)

    def static_shared_bytes(self, name: str) -> int:
        """The static shared memory of a kernel's CTA, in bytes."""
        return self._programs[name].static_shared - windows.SHARED_START

    def launch(
        self,
        name: str,
        *,
        grid: Sequence[int] = (1, 1, 1),
        block: Sequence[int] = (1, 1, 1),
        args: Sequence[object] = (),
        cluster: Sequence[int] | None = None,
        shared: int = 0,
        seed: int = 0,
        checks: bool = True,
        observers: Sequence[Observer] = (),
    ) -> Report:
        """Run a kernel to its end.

        `grid` counts CTAs, `block` threads of a CTA, `cluster` CTAs of a cluster (None: what the PTX says), each x, y,
        z. `args` are in the order of the PTX: NumPy arrays, which are read and written in place; numbers; bytes of a
        struct; tensor maps. `shared` is the dynamic shared memory in bytes. A `seed` other than 0 chooses another
        legal order.
        Raises simulator.* with the line of the PTX and of the program that it was made from.
        """
        if name not in self._programs:
            kernels = ", ".join(self._programs) or "none"
            LAUNCH.fail(
                kernel=name, problem=f"the module has no such kernel, only {kernels}", advice="name one of them"
            )
        program = self._programs[name]
        launch, heaps = self._prepare(program, _dim(grid), _dim(block), cluster, shared, seed, args)
        report = Report(name)
        total = launch.clusters[0] * launch.clusters[1] * launch.clusters[2]
        each = _clusters_of_a_wave(program, launch)
        for first in range(0, total, each):
            clusters = range(first, min(first + each, total))
            wave = _wave(program, launch, clusters, heaps, list(observers), checks=checks)
            scheduler = Scheduler(program, wave)
            _run(scheduler, wave.memory.failures)
            _count(report, program, scheduler, wave)
        return report

    def _prepare(
        self,
        program: Program,
        grid: Dim,
        block: Dim,
        cluster: Sequence[int] | None,
        shared: int,
        seed: int,
        args: Sequence[object],
    ) -> tuple[Launch, list[Heap]]:
        function = self._module.kernels[program.kernel]
        asked = cluster if cluster is not None else function.directive("reqnctapercluster") or (1, 1, 1)
        dims = _dim([one for one in asked if isinstance(one, int)])
        threads = block[0] * block[1] * block[2]
        if not 1 <= threads <= _MOST_THREADS_OF_A_CTA:
            self._refuse(program, f"a CTA of {threads} threads", f"launch 1 to {_MOST_THREADS_OF_A_CTA} threads a CTA")
        if any(extent % each for extent, each in zip(grid, dims, strict=True)) or min(*grid, *dims) < 1:
            self._refuse(program, f"a grid of {grid} with clusters of {dims}", "launch whole clusters")
        heap, parameters = Heap(self._image.globals.next, windows.WIDE_GAP), Heap(windows.PARAMETERS)
        variables = [variable for variable, _ in program.parameters]
        values = Binder(program.kernel, heap).bind(variables, args)
        for (variable, address), value in zip(program.parameters, values, strict=True):
            data = np.frombuffer(bytearray(value), np.uint8)
            parameters.put(variable.name, address, data, is_writable=False)
        launch = Launch(
            kernel=program.kernel,
            target=self._module.target[0],
            grid=grid,
            block=block,
            cluster=dims,
            dynamic_shared=shared,
            shared_bytes=program.static_shared + shared,
            names=tuple(variable.name for variable in variables),
            parameters=values,
            seed=seed,
            registers=_registers(function, threads),
        )
        return launch, [heap, self._image.globals, self._image.constants, parameters]

    def _refuse(self, program: Program, problem: str, advice: str) -> None:
        LAUNCH.fail(kernel=program.kernel, problem=problem, advice=advice)


def _run(scheduler: Scheduler, failures: Failures) -> None:
    """Run a wave to its end. A read of unwritten memory is reported last: a mistake of order may explain it."""
    try:
        with np.errstate(all="ignore"):
            scheduler.run()
    except DiagnosticError as error:
        if not all(one.rule in ORDER for one in error.diagnostics):
            failures.raise_held(error)
        raise
    failures.raise_held()


def _dim(given: Sequence[int] | int) -> Dim:
    extents = (given,) if isinstance(given, int) else tuple(given)
    x, y, z = (*extents, 1, 1, 1)[:3]
    return int(x), int(y), int(z)


def _registers(function: Function, threads: int) -> int:
    """Of a thread, by .maxnreg, or by .minnctapersm."""
    (most, *_), (ctas, *_) = (function.directive(name) or (0,) for name in ("maxnreg", "minnctapersm"))
    return int(most) or share(threads, int(ctas) or 1)


def _clusters_of_a_wave(program: Program, launch: Launch) -> int:
    threads = -(-launch.block_threads // 32) * 32
    of_a_cta = launch.shared_bytes * 2 + threads * (8 * len(program.slots.initial) + 2 * program.frame_bytes)
    ctas = min(max(_MOST_THREADS // threads, 1), max(_MOST_BYTES // max(of_a_cta, 1), 1))
    return max(ctas // launch.cluster_size, 1)


def _wave(
    program: Program, launch: Launch, clusters: range, heaps: list[Heap], observers: list[Observer], *, checks: bool
) -> Wave:
    ctas = len(clusters) * launch.cluster_size
    threads = -(-launch.block_threads // 32) * 32
    shared = Private(
        "shared",
        Shape(ctas, launch.shared_bytes, windows.SHARED_START, threads, launch.cluster_size),
        watches_writes=checks,
    )
    local = Private("local", Shape(ctas * threads, program.frame_bytes), watches_writes=checks)
    failures = Failures()
    memory = Memory(heaps, shared, local, failures, observers)
    wave = Wave(launch, clusters, memory, observers, program.shared)
    if checks:
        observers += watchers(wave)
    failures.named = wave.thread_name
    wave.registers = [initial(wave) for initial in program.slots.initial]
    return wave


def _count(report: Report, program: Program, scheduler: Scheduler, wave: Wave) -> None:
    report.steps += wave.steps
    for code in program.codes:
        threads = scheduler.runs.get(code.start, 0)
        for opcode in code.opcodes if threads else ():
            report.instructions[opcode] += threads
