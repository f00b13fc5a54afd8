"""Kernels that a definition has compiled before, by all that they were compiled from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nvbackend.builder.kernel.reads import Reads, UnknownRead, Unread
from nvbackend.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from nvbackend.codegen.compiled import CompiledKernel

MOST_KERNELS = 64
"""How many kernels a definition keeps; with one more it forgets them all."""


class CompiledBefore(Unread):
    """The kernels that a definition has compiled."""

    __slots__ = ("_known", "_ptxas", "_reads")

    def __init__(self) -> None:
        from nvbackend.codegen.toolchain import PtxasSearch

        self._reads = Reads()
        self._ptxas = PtxasSearch()
        self._known: dict[tuple[object, ...], tuple[CompiledKernel, list[object]]] = {}

    def get(
        self,
        function: Callable[..., Any],
        inputs: tuple[object, ...],
        options: dict[str, Any],
        compile_: Callable[[], CompiledKernel],
    ) -> CompiledKernel:
        """The kernel that `compile_` returned for the same function, inputs and options, or what it returns now.

        `function` is the kernel's; all that it reads must be as it was. It is kept only where building it changed
        nothing of that: a function that writes what it reads, a counter, is run each time.
        """
        content = self._content(function, inputs, options)
        if content is None:
            return compile_()
        known = self._known.get(content[0])
        if known is not None:
            return known[0]
        compiled = compile_()
        after = self._content(function, inputs, options)
        if after is not None and after[0] == content[0]:
            if len(self._known) >= MOST_KERNELS:
                self._known.clear()
            self._known[content[0]] = compiled.again(), after[1]
        return compiled

    def _content(
        self, function: Callable[..., Any], inputs: tuple[object, ...], options: dict[str, Any]
    ) -> tuple[tuple[object, ...], list[object]] | None:
        """All that the kernel is compiled from, None where that is not known or no result may be kept."""
        cache = options.get("cache")
        if cache is not None and getattr(cache, "directory", None) is None:
            return None
        try:
            ptxas = self._ptxas.tool() and self._ptxas.identity if _seeks_ptxas(options) else None
            return self._reads.of(function, inputs, (options, ptxas))
        except (UnknownRead, DiagnosticError):
            return None


def _seeks_ptxas(options: dict[str, Any]) -> bool:
    """Whether compiling with `options` takes the ptxas that is found (`assemble` None: where there is one)."""
    return options.get("tool") is None and options.get("assemble", True) is not False
