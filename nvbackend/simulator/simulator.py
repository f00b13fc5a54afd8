"""`Simulator(target).load(ptx)` gives a module, `module.launch(...)` runs one of its kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nvbackend.diagnostics import Diagnostic, DiagnosticError, missing_name, raise_all, user_facing
from nvbackend.ptx import Module, parse, resolve
from nvbackend.ptx.syntax import Function, Variable
from nvbackend.simulator import scalar
from nvbackend.simulator.arguments import Binder
from nvbackend.simulator.calls import families
from nvbackend.simulator.events import Observer
from nvbackend.simulator.execution import Execution, Watch
from nvbackend.simulator.machine.compiling import Compile
from nvbackend.simulator.machine.wave import LIMIT, Dim, Launch
from nvbackend.simulator.memory import Heap, windows
from nvbackend.simulator.program.assemble import Assembler
from nvbackend.simulator.program.blocks import Program
from nvbackend.simulator.program.image import image
from nvbackend.simulator.program.pure import Domain, PureInstruction
from nvbackend.simulator.progress import Progress
from nvbackend.simulator.report.report import Report
from nvbackend.simulator.rules import LAUNCH
from nvbackend.simulator.stepping import SteppedLaunch
from nvbackend.simulator.sync.registers import share

_MOST_THREADS_OF_A_CTA, _MOST_CTAS_OF_A_CLUSTER = 1024, 16
_MOST_SHARED = 227 * 1024
_MOST_OF_A_GRID = ((1 << 31) - 1, 65535, 65535)
"""Of all chips (CUDA C++ Programming Guide, Technical Specifications per Compute Capability)."""


class Known:
    """The instructions that the simulator knows."""

    def family(self, parts: tuple[str, ...]) -> Compile | None:
        """How instructions that touch the machine are compiled."""
        return families.find(parts)

    def pure(self, parts: tuple[str, ...]) -> PureInstruction | None:
        """An instruction that only computes."""
        return scalar.find(parts)


@user_facing
class Simulator:
    """Runs PTX, as the chip does that the text is for; with a `target`, only texts for that one."""

    def __init__(self, target: str | None = None) -> None:
        if not isinstance(target, str | None):
            raise TypeError("the boundary says which")
        self.target = target

    def __repr__(self) -> str:
        return f"<simulator of {self.target or 'the chip that a text is for'}>"

    def load(self, ptx: str, *, source: str = "<ptx>") -> SimulatedModule:
        """Read and compile a PTX text. Raises ptx.* for all of its lines together, call.argument for another target.

        A kernel with an instruction that the simulator does not know raises simulator.unknown when it is launched, and
        here where no other kernel can be.
        """
        if not isinstance(ptx, str):
            raise TypeError(ptx)  # call.argument of this call, not of the parser's
        module = parse(ptx, source)
        if self.target not in (None, module.target[0]):
            from nvbackend.diagnostics.arguments import ARGUMENT

            problem = f"the text is for {module.target[0]}, and the simulator for {self.target}"
            advice = "write Simulator(): it runs each text for the target of that text"
            ARGUMENT.fail(call="Simulator.load", problem=problem, advice=advice)
        return SimulatedModule(module, Known())


@user_facing
class SimulatedModule:
    """A PTX module in the simulator, whose kernels can be launched. Its global variables live as long as it does."""

    def __init__(self, module: Module, known: Known) -> None:
        self._module = module
        names = resolve(module)
        self._image = image(module, names)
        self._programs: dict[str, Program] = {}
        self._unknown: dict[str, tuple[Diagnostic, ...]] = {}
        """What is wrong with the kernels that cannot be run."""
        for name, kernel in module.kernels.items():
            try:
                self._programs[name] = Assembler(module, names, known, self._image.places, Domain()).program(kernel)
            except DiagnosticError as error:
                self._unknown[name] = error.diagnostics
        if not self._programs:
            raise_all([one for found in self._unknown.values() for one in found])

    def __repr__(self) -> str:
        return f"<module of {', '.join(self.kernels) or 'no kernel'} for {self._module.target[0]}>"

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels."""
        return tuple(self._module.kernels)

    def static_shared_bytes(self, name: str) -> int:
        """The static shared memory of a kernel's CTA, in bytes (call.name where there is no such kernel)."""
        return self._program(name).static_shared - windows.SHARED_START

    def global_bytes(self, name: str) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The bytes of a `.global` variable, as they are now; what is written to them is written to the variable.

        Raises call.name for a variable that the module does not have.
        """
        variables = {one.name: one for one in self._module.items if isinstance(one, Variable) and one.space == "global"}
        if name not in variables:
            raise missing_name("the module", "global variable", name, variables)
        allocation = self._image.globals.at(self._image.places[variables[name].position].address)
        assert allocation is not None
        return allocation.data

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
        report: bool = False,
        limit: int = LIMIT,
        started: int | None = None,
        names: Sequence[str] = (),
        places: Sequence[tuple[str, int, int, int, str]] = (),
        observers: Sequence[Observer] = (),
    ) -> Report:
        """Run a kernel to its end.

        `grid` counts CTAs, `block` threads of a CTA, `cluster` CTAs of a cluster (None: what the PTX says), each x, y,
        z. `args` are in the order of the PTX: NumPy arrays, which are read and written in place; numbers; bytes of a
        struct; tensor maps. `shared` is the dynamic shared memory in bytes. A `seed` other than 0 chooses another
        legal order. With `report` the result has bytes, bank conflicts, waits and a timeline too, which takes longer.
        More than `limit` instructions of the CTAs that run together raise simulator.limit, which says where they were.
        Where the kernel asks for clusters that have not started (clusterlaunchcontrol), `started` of them run at first,
        and the others go to who asks; None for half of them, or for a number that the `seed` chooses.
        Diagnostics call the arguments by `names`, and shared memory by `places` (a variable of the PTX, the first byte
        in it, the bytes of all and of each part, the name), or as the PTX does.
        On a terminal a long run shows how far it is. Ctrl-C raises KeyboardInterrupt, which says where it was; the
        arrays keep what was written.
        Raises simulator.* with the line of the PTX and of the program that it was made from.
        """
        program = self._program(name)
        launch, heaps = self._prepare(program, _dim(grid), _dim(block), cluster, shared, seed, args, names, limit)
        if started is not None and (isinstance(started, bool) or started < 1):
            self._refuse(program, f"started={started!r}", "start 1 cluster or more")
        launch = replace(launch, places=places, started=started)
        execution = Execution(program, launch, heaps, Watch(checks, report, observers))
        with Progress(execution):
            return execution.run()

    def start(
        self,
        name: str,
        *,
        grid: Sequence[int] = (1, 1, 1),
        block: Sequence[int] = (1, 1, 1),
        args: Sequence[object] = (),
        cluster: Sequence[int] | None = None,
        shared: int = 0,
        checks: bool = True,
        limit: int = LIMIT,
    ) -> SteppedLaunch:
        """A launch that has not begun, to be run step by step; the arguments are those of `launch`."""
        program = self._program(name)
        launch, heaps = self._prepare(program, _dim(grid), _dim(block), cluster, shared, 0, args, (), limit)
        return SteppedLaunch(Execution(program, launch, heaps, Watch(checks)))

    def _program(self, name: str) -> Program:
        raise_all(self._unknown.get(name, ()))
        found = self._programs.get(name)
        if found is None:
            raise missing_name("the module", "kernel", name, self.kernels)
        return found

    def _prepare(
        self,
        program: Program,
        grid: Dim,
        block: Dim,
        cluster: Sequence[int] | None,
        shared: int,
        seed: int,
        args: Sequence[object],
        names: Sequence[str],
        limit: int,
    ) -> tuple[Launch, list[Heap]]:
        function = self._module.kernels[program.kernel]
        asked = cluster if cluster is not None else function.directive("reqnctapercluster")
        dims = _dim([one for one in asked or () if isinstance(one, int)])
        threads = block[0] * block[1] * block[2]
        self._check_block(program, function, block)
        self._check_grid(program, grid, dims)
        if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < 1:
            self._refuse(program, f"limit={limit!r}", "give a whole number of instructions, such as limit=10**6")
        if not 0 <= shared <= _MOST_SHARED:
            self._refuse(program, f"{shared} bytes of dynamic shared memory", f"give 0 to {_MOST_SHARED} bytes")
        if seed < 0:
            self._refuse(program, f"seed={seed}", "choose 0 or more")
        heap, parameters = Heap(self._image.globals.next, windows.WIDE_GAP), Heap(windows.PARAMETERS)
        variables = [variable for variable, _ in program.parameters]
        values = Binder(program.kernel, heap, names).bind(variables, args)
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
            limit=limit,
            clustered=bool(asked),
        )
        return launch, [heap, self._image.globals, self._image.constants, parameters]

    def _check_block(self, program: Program, function: Function, block: Dim) -> None:
        threads = math.prod(block)
        if not 1 <= threads <= _MOST_THREADS_OF_A_CTA:
            self._refuse(program, f"a CTA of {threads} threads", f"launch 1 to {_MOST_THREADS_OF_A_CTA} threads a CTA")
        required, most = (_dim([*map(int, function.directive(name) or ())]) for name in ("reqntid", "maxntid"))
        if function.directive("reqntid") and block != required:
            problem = f"a CTA of {block} threads, and the PTX has .reqntid {required}"
            spelled = ",".join(map(str, required))
            self._refuse(program, problem, f"give block={required}, on the command line --block {spelled}")
        if function.directive("maxntid") and threads > math.prod(most):
            problem = f"a CTA of {threads} threads, and the PTX has .maxntid {most}"
            self._refuse(program, problem, f"give a block of {math.prod(most)} threads at most")

    def _check_grid(self, program: Program, grid: Dim, cluster: Dim) -> None:
        if not all(1 <= extent <= most for extent, most in zip(grid, _MOST_OF_A_GRID, strict=True)):
            x, y, z = _MOST_OF_A_GRID
            self._refuse(program, f"a grid of {grid} CTAs", f"launch 1 to {x}, {y} and {z} along x, y and z")
        ctas = cluster[0] * cluster[1] * cluster[2]
        if min(cluster) < 1 or ctas > _MOST_CTAS_OF_A_CLUSTER:
            advice = f"put 1 to {_MOST_CTAS_OF_A_CLUSTER} CTAs in a cluster"
            self._refuse(program, f"a cluster of {cluster} CTAs", advice)
        if any(extent % each for extent, each in zip(grid, cluster, strict=True)):
            self._refuse(program, f"a grid of {grid} with clusters of {cluster}", "launch whole clusters")

    def _refuse(self, program: Program, problem: str, advice: str) -> None:
        LAUNCH.fail(kernel=program.kernel, problem=problem, advice=advice)


def _dim(given: Sequence[int] | int) -> Dim:
    extents = (given,) if isinstance(given, int) else tuple(given)
    x, y, z = (*extents, 1, 1, 1)[:3]
    return int(x), int(y), int(z)


def _registers(function: Function, threads: int) -> int:
    """Of a thread, by .maxnreg, or by .minnctapersm."""
    (most, *_), (ctas, *_) = (function.directive(name) or (0,) for name in ("maxnreg", "minnctapersm"))
    return int(most) or share(threads, int(ctas) or 1)
