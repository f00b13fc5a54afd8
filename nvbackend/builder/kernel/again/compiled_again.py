"""Kernels that a definition has compiled before, in this process or another, by all that they were compiled from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nvbackend.builder.kernel.again.on_disk import KernelsOnDisk
from nvbackend.builder.kernel.again.reads import Content, Reads, UnknownRead, Unread

if TYPE_CHECKING:
    from nvbackend.codegen.compiled import CompiledKernel

MOST_KERNELS = 64
"""How many kernels a definition keeps; with one more it forgets them all."""


class CompiledBefore(Unread):
    """The kernels that a definition has compiled."""

    __slots__ = ("_known", "_on_disk", "_ptxas", "_reads")

    def __init__(self) -> None:
        from nvbackend.codegen.toolchain import PtxasSearch

        self._reads = Reads()
        self._on_disk = KernelsOnDisk()
        self._ptxas = PtxasSearch()
        self._known: dict[tuple[object, ...], tuple[CompiledKernel, Content]] = {}

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
        known = self._known.get(content.parts)
        if known is not None:
            return known[0]
        ptxas = self._program(options)
        key = self._on_disk.key(function, content, ptxas)
        kernel = None if key is None else self._on_disk.get(key, options)
        if kernel is not None:
            self._keep(content, kernel)
            return kernel
        compiled = compile_()
        after = self._content(function, inputs, options)
        if after is not None and after.parts == content.parts:
            kernel = compiled.again()
            self._keep(after, kernel)
            if key is not None and key == self._on_disk.key(function, after, ptxas):
                self._on_disk.put(key, options, kernel)
        return compiled

    def _keep(self, content: Content, kernel: CompiledKernel) -> None:
        if len(self._known) >= MOST_KERNELS:
            self._known.clear()
        self._known[content.parts] = kernel, content

    def _content(
        self, function: Callable[..., Any], inputs: tuple[object, ...], options: dict[str, Any]
    ) -> Content | None:
        """All that the kernel is compiled from, None where that is not known or no result may be kept."""
        cache = options.get("cache")
        if cache is not None and getattr(cache, "directory", None) is None:
            return None
        chosen = {name: value for name, value in options.items() if name != "cache"}
        try:
            return self._reads.of(function, inputs, (chosen, self._program(options)), cache)
        except UnknownRead:
            return None

    def _program(self, options: dict[str, Any]) -> tuple[str, object] | None:
        """The ptxas that is found, where compiling with `options` takes that (`assemble` None: where there is one)."""
        assemble = options.get("assemble")
        seeks = options.get("tool") is None and (assemble is None or bool(assemble))
        return self._ptxas.program() if seeks else None
