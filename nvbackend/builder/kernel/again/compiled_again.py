"""Kernels that a definition has compiled before, in this process or another, by all that they were compiled from."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nvbackend.builder.kernel.again.builds_in_flight import BuildsInFlight
from nvbackend.builder.kernel.again.constants import ATOMS
from nvbackend.builder.kernel.again.content import Content, UnknownRead, Unread

if TYPE_CHECKING:
    from nvbackend.builder.kernel.again.on_disk import KernelsOnDisk
    from nvbackend.builder.kernel.again.reads import Reads
    from nvbackend.builder.kernel.again.snapshot import Snapshot
    from nvbackend.codegen.compiled import CompiledKernel

MOST_KERNELS = 64
"""How many kernels a definition keeps; with one more it forgets them all."""


class CompileRequest:
    """All that `compile` is called with: the values of words and whole numbers, and which objects the others are.

    `bounds` may be functions of the user's, which are called with the constants.
    """

    __slots__ = ("bounds", "key", "values")

    def __init__(self, bounds: tuple[object, ...], values: tuple[object, ...], *named: dict[str, Any]) -> None:
        self.bounds = bounds
        self.values = (*bounds, *values, *(value for each in named for value in each.values()))
        objects = [value if type(value) in ATOMS else id(value) for value in self.values]
        self.key = tuple(map(tuple, named)), tuple(map(id, map(type, self.values))), tuple(objects)


def _may_be_kept(options: dict[str, Any]) -> bool:
    cache = options.get("cache")
    return cache is None or getattr(cache, "directory", None) is not None


class CompiledBefore(Unread):
    """The kernels that a definition has compiled.

    By the content of all that they were compiled from, and by the call, with a snapshot of what that was read from.
    What reads that is imported where a kernel may be kept: not with Cache.disabled().
    """

    def __init__(self) -> None:
        from nvbackend.codegen.toolchain import PtxasSearch

        self._in_flight = BuildsInFlight()
        self._ptxas = PtxasSearch()
        self._known: dict[tuple[object, ...], tuple[CompiledKernel, Content]] = {}
        self._snapshots: dict[object, tuple[CompiledKernel, CompileRequest, object, Snapshot]] = {}

    @functools.cached_property
    def _reads(self) -> Reads:
        from nvbackend.builder.kernel.again.reads import Reads

        return Reads()

    @functools.cached_property
    def _on_disk(self) -> KernelsOnDisk:
        from nvbackend.builder.kernel.again.on_disk import KernelsOnDisk

        return KernelsOnDisk()

    def unchanged(self, request: CompileRequest, options: dict[str, Any]) -> CompiledKernel | None:
        """The kernel that the same call had, if nothing has changed since; else None."""
        known = self._snapshots.get(request.key)
        if known is None:
            return None
        from nvbackend.builder.kernel.again.set_on import class_with_more

        kernel, _, program, snapshot = known
        if program == self._program(options) and not class_with_more() and snapshot.is_unchanged():
            return kernel
        self._snapshots.pop(request.key, None)
        return None

    def get(
        self,
        function: Callable[..., Any],
        inputs: tuple[object, ...],
        options: dict[str, Any],
        compile_: Callable[[], CompiledKernel],
        request: CompileRequest | None = None,
        inputs_now: Callable[[], tuple[object, ...]] | None = None,
    ) -> CompiledKernel:
        """The kernel that `compile_` returned for the same function, inputs and options, or what it returns now.

        `function` is the kernel's; all that it reads must be as it was. It is kept only where building it changed
        nothing of that: a function that writes what it reads, a counter, is run each time. With `request`, `unchanged`
        has the kernel too. `inputs_now` works the inputs out again. While another thread compiles the same, this one
        waits for its kernel.
        """
        if not _may_be_kept(options):
            return compile_()
        try:
            content = self._content(function, inputs, options)
        except UnknownRead as unknown:
            return replace(compile_(), not_kept=str(unknown))

        def now() -> Content | None:
            try:
                return self._content(function, inputs if inputs_now is None else inputs_now(), options)
            except UnknownRead:
                return None

        if (kernel := self._known_kernel(content, request, now)) is not None:
            return kernel
        with self._in_flight.build(content.parts) as has_waited:
            latest = now() if has_waited else content
            if latest is None:
                return compile_()
            kernel = self._known_kernel(latest, request, now)
            return self._made(function, latest, options, compile_, request, now) if kernel is None else kernel

    def _known_kernel(
        self, content: Content, request: CompileRequest | None, now: Callable[[], Content | None]
    ) -> CompiledKernel | None:
        """The kernel that was made of such content here; None where none was."""
        known = self._known.get(content.parts)
        if known is None:
            return None
        self._remember(request, known[0], content, self._snapshot(request, content, now))
        return known[0]

    def _made(
        self,
        function: Callable[..., Any],
        content: Content,
        options: dict[str, Any],
        compile_: Callable[[], CompiledKernel],
        request: CompileRequest | None,
        now: Callable[[], Content | None],
    ) -> CompiledKernel:
        """The kernel from disk, or what `compile_` returns, kept here and there; `content` is read again by `now`."""
        key = self._on_disk.key(function, content, content.program)
        if key is not None:
            snapshot = self._snapshot(request, content, now)  # before warnings are given, which may run any code
            kernel = self._on_disk.get(key, options)
            if kernel is not None:
                self._keep(content, kernel)
                self._remember(request, kernel, content, snapshot)
                return kernel
        compiled = compile_()
        after = now()
        if after is not None and after.parts == content.parts:
            kernel = compiled.again()
            self._keep(after, kernel)
            self._remember(request, kernel, after, self._snapshot(request, after, now))
            if key is not None and key == self._on_disk.key(function, after, after.program):
                self._on_disk.put(key, options, kernel)
            return compiled
        return replace(compiled, not_kept="what it changes")

    def _keep(self, content: Content, kernel: CompiledKernel) -> None:
        if len(self._known) >= MOST_KERNELS:
            self._known.clear()
            self._snapshots.clear()
        self._known[content.parts] = kernel, content

    def _snapshot(
        self, request: CompileRequest | None, content: Content, now: Callable[[], Content | None]
    ) -> Snapshot | None:
        """A snapshot of what `content` was read from a moment ago, and of what else counts for the request.

        Where another thread may have changed something in that moment, the content of `now` is compared.
        """
        snapshot = None if request is None else self._reads.snapshot(content, request.bounds)
        if snapshot is not None and len(sys._current_frames()) > 1:
            again = now()
            if again is None or again.parts != content.parts or not snapshot.is_unchanged():
                return None
        return snapshot

    def _remember(
        self, request: CompileRequest | None, kernel: CompiledKernel, content: Content, snapshot: Snapshot | None
    ) -> None:
        if request is None or snapshot is None:
            return
        if len(self._snapshots) >= MOST_KERNELS:
            self._snapshots.clear()
        self._snapshots[request.key] = kernel, request, content.program, snapshot

    def _content(self, function: Callable[..., Any], inputs: tuple[object, ...], options: dict[str, Any]) -> Content:
        """All that the kernel is compiled from. Raises UnknownRead."""
        chosen = {name: value for name, value in options.items() if name != "cache"}
        program = self._program(options)
        content = self._reads.of(function, inputs, (chosen, program), options.get("cache"))
        content.program = program
        return content

    def _program(self, options: dict[str, Any]) -> tuple[str, object] | None:
        """The ptxas that is found, where compiling with `options` takes that (`assemble` None: where there is one)."""
        assemble = options.get("assemble")
        seeks = options.get("tool") is None and (assemble is None or bool(assemble))
        return self._ptxas.program() if seeks else None
