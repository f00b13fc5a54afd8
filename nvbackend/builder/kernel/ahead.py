"""LLVM and ptxas at work on a verified kernel while its dry run goes on."""

from __future__ import annotations

from collections.abc import Callable, Generator
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

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
    """A compile with `options` that goes on while the kernel has its dry run, and ends with the block.

    LLVM has a thread of its own: a compile is mostly calls of it, in which Python can go on with something else.

    The result is that of `FinishedKernel.compile`. Where the beginning fails, all is done again after the dry run: its
    diagnostics come first.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._steps: Generator[None, None, CompiledKernel] | None = None
        self._compiled: CompiledKernel | None = None
        self._thread: Thread | None = None

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._join()
        if self._steps is not None:
            self._steps.close()

    def start(self, ir_text: str, signature: Signature, machine: MachineFunction) -> None:
        """Begin to compile to PTX, and then to assemble. What is to be dumped waits for the dry run."""
        from nvbackend.codegen.looking.asked import DUMP, asked
        from nvbackend.codegen.stages.compiling import compile_kernel, compiling

        arguments = ir_text, signature, machine, machine.target
        if asked(DUMP) or wrong_arguments(compile_kernel, arguments, self._options):
            return
        steps = compiling(*arguments, **self._options)
        self._thread = Thread(target=self._begin, args=(steps,), name="nvbackend compile")
        self._thread.start()

    def _begin(self, steps: Generator[None, None, CompiledKernel]) -> None:
        try:
            next(steps)
            self._steps = steps
        except StopIteration as end:
            self._compiled = end.value
        except Exception:  # noqa: BLE001 (it comes again, after the dry run)
            pass

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def compiled(
        self, finished: _Finished, completed: Callable[[_Finished, CompiledKernel], CompiledKernel]
    ) -> CompiledKernel:
        """The kernel that `finished` compiles to; `completed` adds to it what is known of `finished`.

        Raises what its `compile` raises.
        """
        from nvbackend.codegen.ptxas import last

        self._join()
        if self._steps is not None:
            self._compiled, self._steps = last(self._steps), None
        return finished.compile(**self._options) if self._compiled is None else completed(finished, self._compiled)
