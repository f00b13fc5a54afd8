"""Random requests over all targets: whatever a user asks for, nvbackend answers, or says what is wrong in a Diagnostic.

No abort, no hang, and no exception other than DiagnosticError. Everything runs in this process, with fixed seeds.
"""

from __future__ import annotations

import dataclasses
import operator
import random
from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.builder.values.values import Arithmetic
from nvbackend.intrinsics.fragments import warpgroup as fragments
from nvbackend.isel.target.target import target_names
from tests.support.fuzz import Arguments, Attempts, methods, request_class, selectors

OPERATORS = (
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.and_),
    *(operator.or_, operator.xor, operator.lshift, operator.rshift, operator.eq, operator.lt, operator.ge),
    *(operator.iadd, operator.ixor),
)
OPERATORS_OF_ADDRESSES = (operator.getitem,)
ENDINGS = ("finish", "compile")
"""Calls that end a kernel; each program makes the first of them once, last."""
CALLS_A_PROGRAM = 40
COMPILED = 20
"""More than one program of so many compiles: about one of three does, so fewer are no chance."""


class Fuzz(Attempts):
    """A run: how many requests it made and were answered, how many programs it wrote and compiled, what went wrong."""

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed))
        self.programs = 0
        self.compiled = 0

    # -- requests that need no kernel -----------------------------------------------------------------------------

    def selections(self, until: int) -> None:
        """Requests of every family's selector, over all targets."""
        arguments = Arguments(self.rng, junk=0.04)
        while self.requests < until:
            selector = self.rng.choice(selectors())
            kind = request_class(selector)
            request = self._record(arguments, kind) if kind is not None and self.rng.random() < 0.97 else None
            target = nvb.Target.parse(self.rng.choice(target_names()))
            self.attempt(selector, arguments.anything() if request is None else request, target)

    def _record(self, arguments: Arguments, kind: type) -> object:
        """An instance of a dataclass with fields of the annotated kind, most of the time."""
        values: dict[str, Any] = {}
        for field in dataclasses.fields(kind):
            has_default = field.default is not dataclasses.MISSING
            if not has_default or self.rng.random() < 0.5:
                values[field.name] = arguments.of(field.type)
        return self.attempt(kind, **values)

    def values(self, until: int) -> None:
        """Targets, shapes, layouts, packed words and fragments."""
        arguments = Arguments(self.rng)
        functions: tuple[Callable[..., Any], ...] = (
            *(
                nvb.Target.parse,
                nvb.wgmma.mma_async,
                nvb.SmemLayout,
                nvb.SmemDescriptor,
                nvb.tileiras.TileirasDescriptor,
            ),
            *(nvb.SmemDescriptor.decode, nvb.tileiras.TileirasDescriptor.decode, nvb.KernelBuilder, nvb.kernel),
            *(fragments.accumulator_position, fragments.a_position, fragments.metadata_chunk),
            *(fragments.metadata_counts, fragments.two_of_four, fragments.one_of_two, fragments.chunk_width),
        )
        while self.requests < until:
            owners = [one for kind in ("SmemLayout", "SmemDescriptor") for one in arguments.pool.get(kind, ())]
            function: Any = self.rng.choice(functions)
            if owners and self.rng.random() < 0.4:
                owner = self.rng.choice(owners)
                function = getattr(owner, self.rng.choice(methods(owner)))
            positional, named = arguments.call(function)
            result = self.attempt(function, *positional, **named)
            if result is not None:
                arguments.keep(result)

    # -- programs -------------------------------------------------------------------------------------------------

    def program(self) -> None:
        """A kernel by random calls of its builder and of what these give, closed and verified at the end."""
        rng, arguments = self.rng, Arguments(self.rng)
        target = "sm_90a" if rng.random() < 0.6 else rng.choice(target_names())
        k, other = self._kernel(target, arguments), self._kernel("sm_90a", arguments)
        if k is None or other is None:
            return
        self._seeded(k, other, arguments)
        blocks: list[Any] = []
        names = [name for name in methods(k) if name not in ENDINGS]
        for _ in range(CALLS_A_PROGRAM):
            draw = rng.random()
            if blocks and draw < 0.08:
                self.attempt(blocks.pop().__exit__, None, None, None)
            elif draw < 0.3:
                left = self._object(arguments, ("Value", "Value", "Variable", "Address", "Accumulator"))
                operators = OPERATORS if isinstance(left, Arithmetic) else OPERATORS_OF_ADDRESSES
                arguments.keep(self.attempt(rng.choice(operators), left, arguments.of("Operand")))
            else:
                owner = k if draw < 0.75 else self._object(arguments)
                callables = names if owner is k else methods(owner)
                if callables:
                    self._call(getattr(owner, rng.choice(callables)), arguments, blocks)
        while blocks:
            self.attempt(blocks.pop().__exit__, None, None, None)
        finished = self.attempt(k.finish)
        if finished is not None:
            # LLVM would end this process on what it cannot select, so nothing of the kind may come out of a builder.
            compiled = self.attempt(finished.compile, assemble=False)
            self.compiled += compiled is not None

    def _kernel(self, target: str, arguments: Arguments) -> Any:
        parameters = (
            nvb.Parameter("p", nvb.Pointer(nvb.f32)),
            nvb.Parameter("n", nvb.Scalar(nvb.i32)),
            nvb.Parameter("t", nvb.TensorMap(nvb.f16, (64, 64))),
        )
        cluster = self.rng.choice((1, 1, 2, 4))
        threads = self.rng.choice((32, 128, 256, 384))
        k = self.attempt(
            nvb.KernelBuilder, "k", target, threads=threads, cluster=cluster, parameters=parameters
        ) or self.attempt(nvb.KernelBuilder, "k", target, threads=threads, parameters=parameters)
        if k is not None:
            arguments.keep(k.arguments)
        return k

    def _seeded(self, k: Any, other: Any, arguments: Arguments) -> None:
        """Things of both kernels that calls may meet."""
        layout = nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, nvb.f16, 64, 64)
        request = nvb.wgmma.mma_async("m64n64k16", nvb.f16, nvb.f16, nvb.f32)
        for kernel in (k, other) if self.rng.random() < 0.3 else (k,):
            for make in (
                lambda kernel=kernel: kernel.const(3, nvb.s32),
                lambda kernel=kernel: kernel.thread_id(),
                lambda kernel=kernel: kernel.thread_id() < 3,
                lambda kernel=kernel: kernel.var(0, nvb.s32),
                lambda kernel=kernel: kernel.shared_tile(layout),
                lambda kernel=kernel: kernel.wgmma.accumulator(64, nvb.f32),
                lambda kernel=kernel: kernel.mbarrier.array(2, 1),
            ):
                arguments.keep(self.attempt(make))
        arguments.keep([layout, request])

    def _object(self, arguments: Arguments, kinds: tuple[str, ...] = ()) -> Any:
        """Something of nvbackend that a call gave before, of one of these kinds."""
        kind = self.rng.choice(kinds or sorted(arguments.pool))
        found = [one for one in arguments.pool.get(kind, ()) if type(one).__module__.startswith("nvbackend.")]
        return self.rng.choice(found or arguments.pool["Value"])

    def _call(self, function: Callable[..., Any], arguments: Arguments, blocks: list[Any]) -> None:
        try:
            positional, named = arguments.call(function)
        except (TypeError, ValueError):  # a function of Python's own, without a signature
            return
        result = self.attempt(function, *positional, **named)
        if hasattr(result, "__enter__") and hasattr(result, "__exit__"):
            arguments.keep(self.attempt(result.__enter__))
            blocks.append(result)
        elif result is not None:
            arguments.keep(result)

    def run(self, count: int) -> None:
        """At least `count` requests, half of them in programs."""
        self.selections(count // 4)
        self.values(count // 2)
        while self.requests < count:
            self.program()
            self.programs += 1


def run(seed: int, count: int) -> Fuzz:
    """One run; prints nothing."""
    fuzz = Fuzz(seed)
    fuzz.run(count)
    return fuzz


@pytest.mark.parametrize("seed", [1, 2])
def test_a_few_thousand_requests(seed: int) -> None:
    fuzz = run(seed, 2500)
    assert fuzz.failures == {}
    assert fuzz.answered > fuzz.requests // 10
    assert fuzz.requests - fuzz.answered > fuzz.requests // 10
    assert fuzz.compiled > fuzz.programs // COMPILED > 0


@pytest.mark.exhaustive(seconds=40)
@pytest.mark.parametrize("seed", range(3, 23))
def test_a_hundred_thousand_requests(seed: int) -> None:
    fuzz = run(seed, 5000)
    assert fuzz.failures == {}
    assert fuzz.answered > 500
    assert fuzz.compiled > fuzz.programs // COMPILED > 0
