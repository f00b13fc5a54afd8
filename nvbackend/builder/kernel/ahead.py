"""ptxas at work on a verified kernel while its dry run goes on."""

from __future__ import annotations

from collections.abc import Callable, Generator
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
    """A compile with `options` that begins before the kernel has passed its dry run, and ends with the block.

    The result is that of `FinishedKernel.compile`. Where the beginning fails, all is done again after the dry run: its
    diagnostics come first.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._steps: Generator[None, None, CompiledKernel] | None = None
        self._compiled: CompiledKernel | None = None

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._steps is not None:
            self._steps.close()

    def start(self, ir_text: str, signature: Signature, machine: MachineFunction) -> None:
        """Compile to PTX, and start ptxas. What is to be dumped waits for the dry run."""
        from nvbackend.codegen.looking.asked import DUMP, asked
        from nvbackend.codegen.stages.compiling import compile_kernel, compiling

        arguments = ir_text, signature, machine, machine.target
        if asked(DUMP) or wrong_arguments(compile_kernel, arguments, self._options):
            return
        try:
            self._steps = compiling(*arguments, **self._options)
            next(self._steps)
        except StopIteration as end:
            self._compiled, self._steps = end.value, None
        except Exception:  # noqa: BLE001 (it comes again, after the dry run)
            self._steps = None

    def compiled(
        self, finished: _Finished, completed: Callable[[_Finished, CompiledKernel], CompiledKernel]
    ) -> CompiledKernel:
        """The kernel that `finished` compiles to; `completed` adds to it what is known of `finished`.

        Raises what its `compile` raises.
        """
        from nvbackend.codegen.ptxas import last

        if self._steps is not None:
            self._compiled, self._steps = last(self._steps), None
        return finished.compile(**self._options) if self._compiled is None else completed(finished, self._compiled)
