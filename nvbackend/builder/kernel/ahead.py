"""LLVM and ptxas at work on a kernel while it is verified and has its dry run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from nvbackend.builder.kernel.switch_interval import ShortTurns
from nvbackend.diagnostics.arguments import wrong_arguments

if TYPE_CHECKING:
    from nvbackend.codegen.compiled import CompiledKernel
    from nvbackend.isel.machine.function import MachineFunction
    from nvbackend.signature import Signature


class Finished(Protocol):
    """A kernel that has passed its dry run."""

    def compile(self, **options: Any) -> CompiledKernel:
        """The kernel, compiled with `options`."""


_Finished = TypeVar("_Finished", bound=Finished)


class Ahead:
    """A compile with `options` that goes on while the kernel is verified and has its dry run, and ends with the block.

    LLVM has a thread of its own: its passes are one call, in which Python can go on with something else. What may end
    the process, its code generator, waits until the kernel is `verified`.

    The result is that of `FinishedKernel.compile`. Where the beginning fails, all is done again after the dry run: the
    diagnostics of the verifier and of the dry run come first.
    """

    def __init__(self, options: dict[str, Any], meanwhile: Callable[[], None] = lambda: None) -> None:
        self._options = options
        self._meanwhile = meanwhile
        """What is done where ptxas is still at work, and nothing else is left to do."""
        self._steps: Generator[str, None, CompiledKernel] | None = None
        self._compiled: CompiledKernel | None = None
        self._thread: Thread | None = None
        self._is_begun = False
        self._is_judged = Event()
        self._is_idle = Event()
        """Whether ptxas waits for nothing that the thread has to do in Python."""
        self._is_idle.set()
        self._is_refused = False
        self._turns = ShortTurns()

    @property
    def _assembles(self) -> bool:
        """Whether ptxas may come after LLVM."""
        return self._options.get("assemble", True) in (True, None)

    def __enter__(self) -> Ahead:
        from nvbackend.codegen.stages.early import load_early

        load_early()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._turns.end()
        if not self._is_judged.is_set():
            self._is_refused = True
            self._is_judged.set()
            if self._thread is not None:
                return  # nobody waits for the passes: the thread ends by itself
        self._join()
        if self._steps is not None:
            self._steps.close()

    def start(self, ir_text: str, signature: Signature, machine: MachineFunction) -> None:
        """Begin to compile to PTX, and then to assemble. What is to be dumped waits for the dry run."""
        self._is_begun = True
        from nvbackend.codegen.llvm import OPTIMISE, PRINT
        from nvbackend.codegen.looking.asked import DUMP, asked
        from nvbackend.codegen.stages.compiling import compile_kernel, compiling
        from nvbackend.codegen.toolchain import ask_early

        arguments = ir_text, signature, machine, machine.target
        if asked(DUMP) or wrong_arguments(compile_kernel, arguments, self._options, again=False):
            return
        # Here up to the passes: another thread would wait for its turn between any two calls of LLVM.
        stage = self._go_on(compiling(*arguments, **self._options, meanwhile=self._meanwhile))
        if stage in (OPTIMISE, PRINT):
            thread = Thread(target=self._continue, args=(stage,), name="nvbackend compile")
            with contextlib.suppress(RuntimeError):  # no more threads: the steps are left for the end
                thread.start()
                self._thread = thread
                self._turns.begin()
            if self._assembles and self._options.get("tool") is None:
                ask_early()

    def verified(self, ir_text: str, signature: Signature, machine: MachineFunction) -> None:
        """Let it go on to what may end the process; it begins here, if it has not begun."""
        if not self._is_begun:
            self.start(ir_text, signature, machine)
        self._is_judged.set()

    def _go_on(self, steps: Generator[str, None, CompiledKernel]) -> str | None:
        """The stage that comes next; None where nothing does."""
        self._steps = None
        try:
            stage = next(steps)
        except StopIteration as end:
            self._compiled = end.value
        except Exception:  # noqa: BLE001 (it comes again, after the dry run)
            pass
        else:
            self._steps = steps
            return stage
        return None

    def _continue(self, stage: str) -> None:
        """LLVM's part: its passes, where these come next, and what may end the process, once it is judged."""
        from nvbackend.codegen.llvm import OPTIMISE, PRINTED

        if stage == OPTIMISE and self._steps is not None:
            self._go_on(self._steps)
        self._is_judged.wait()
        if self._is_refused and self._steps is not None:
            self._steps.close()
        elif self._steps is not None and self._go_on(self._steps) == PRINTED:
            if self._assembles:
                self._is_idle.clear()
            try:
                self._go_on(self._steps)
            finally:
                self._is_idle.set()

    def give_way(self) -> None:
        """Wait while the thread works in Python, after LLVM: ptxas begins then, and it would get every other turn."""
        if not self._is_idle.is_set():
            self._is_idle.wait()

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def compiled(
        self, finished: _Finished, completed: Callable[[_Finished, CompiledKernel], CompiledKernel]
    ) -> CompiledKernel:
        """The kernel that `finished` compiles to; `completed` adds to it what is known of `finished`.

        Raises what its `compile` raises.
        """
        from nvbackend.codegen.stages.steps import last

        self._join()
        if self._steps is not None:
            self._compiled, self._steps = last(self._steps), None
        return finished.compile(**self._options) if self._compiled is None else completed(finished, self._compiled)
