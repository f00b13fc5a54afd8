"""From a Python function to a device function: the `function` decorator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast, overload

from nvbackend.builder.core.core import Core
from nvbackend.builder.functions.called import call
from nvbackend.builder.functions.expanded import Source, expand
from nvbackend.builder.functions.exported import CompiledFunction, compile_function
from nvbackend.builder.functions.parameters import Declared, check_alignment, check_argument, declared
from nvbackend.builder.kernel.by_name import ByName
from nvbackend.builder.kernel.python_function import constants_of, function_problem
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.scopes.function_rules import CALL, DECLARATION, RECURSION
from nvbackend.builder.scopes.in_functions import EXPORTED, INLINE, Entered
from nvbackend.builder.scopes.names import is_ptx_name, suggested_kernel_name
from nvbackend.builder.values.math_policy import MathPolicy
from nvbackend.builder.values.values import Value
from nvbackend.diagnostics import printed, user_facing
from nvbackend.diagnostics.misfits import short
from nvbackend.diagnostics.spelling import asked
from nvbackend.isel.target.target import Target
from nvbackend.signature import Extents, Pointer


@overload
def function(decorated: Callable[..., Any], /) -> FunctionDefinition: ...


@overload
def function(*, inline: bool = True, name: str | None = None) -> Callable[[Callable[..., Any]], FunctionDefinition]: ...


@user_facing
def function(
    decorated: Callable[..., Any] | None = None, /, *, inline: bool = True, name: str | None = None
) -> FunctionDefinition | Callable[[Callable[..., Any]], FunctionDefinition]:
    """Decorate a device function, which kernels and other functions call: `y = scaled(k, x, 2.0)`.

    Its first parameter is the builder that calls it. The others are annotated with an element type (`nvb.f32`, packed
    values `nvb.u32`), `nvb.Pointer[element]` or `nvb.Pointer(element, space="shared", align=4)`; keyword-only
    parameters are constants of the build. `-> nvb.f32` or `-> tuple[nvb.f32, nvb.i32]` says what it returns. Python's
    numbers are passed as constants, variables by their values. `k.return_` in it ends the function.

    With `inline`, the function is expanded at each call, in its own scope, and its parameters may be objects of a
    kernel, annotated with their classes (`nvb.Variable`, `nvb.Tensor`). Without it, the function is a `.func` of the
    PTX, and is called. The checks of a kernel then see its body in place of each call, so the Python function runs once
    for itself and once for each call. A called function may not contain wgmma, tcgen05, setmaxnreg, allocations of
    shared memory or assertions (function.instruction), and has access to nothing of the kernel but its arguments.

    Raises function.declaration; a call raises function.call, function.argument, function.result, function.recursion,
    function.differs.
    """

    @user_facing
    def decorate(decorated: Callable[..., Any]) -> FunctionDefinition:
        return FunctionDefinition(decorated, inline, name)

    return decorate if decorated is None else decorate(decorated)


_OPTIONS = ("target", "threads", "cluster", "name", "debug", "math", "constants")
"""What `compile` takes besides constants of the build."""


@user_facing
class FunctionDefinition(ByName):
    """A device function, which is called with a builder and its arguments."""

    def __init__(self, function: Callable[..., Any], inline: bool, name: str | None) -> None:
        called = str(getattr(function, "__name__", None) or short(function) if name is None else name)
        if (fault := function_problem(function)) is not None:
            by_name = f"; a name is given by @nvb.function(name={function!r})" if isinstance(function, str) else ""
            DECLARATION.fail(function=called, problem=fault[0], advice=fault[1] + by_name)
        if not is_ptx_name(called):
            advice = f"name it with letters, digits, _ and $: name={suggested_kernel_name(called)!r}"
            DECLARATION.fail(function=called, problem=f"{called!r} is not a name of PTX", advice=advice)
        functools.update_wrapper(cast("Any", self), function)
        self._function = function
        self.name: str = called
        self.inline = inline

    def _made_of(self) -> tuple[Any, ...]:
        return self._function, self.inline, self.name

    def __call__(self, k: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call it at the present place of the builder `k`; returns its results."""
        core = self._core(k)
        core.check_live()
        self._check_cycle(core)
        wanted = self._declared(core)
        passed, constants = self._bound(wanted, args, kwargs)
        arguments = {
            name: check_argument(core, self.name, name, kind, passed[name]) for name, kind in wanted.parameters.items()
        }
        for name, kind in wanted.parameters.items():
            if isinstance(kind, Pointer):
                check_alignment(self.name, name, kind, arguments[name], inline=self.inline)
        source = Source(self._function, Entered(self, self.name, not self.inline), wanted, constants)
        results = (expand if self.inline else call)(k, source, arguments)
        return self._given_back(wanted, results)

    def compile(
        self,
        target: str | Target,
        *,
        threads: Extents | None = None,
        cluster: Extents = 1,
        name: str | None = None,
        debug: bool = True,
        math: MathPolicy | None = None,
        constants: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> CompiledFunction:
        """PTX of only this function, `.visible` with C's calling convention, for others to link: see CompiledFunction.

        `threads` are those of a CTA of its callers, and `cluster` the CTAs of a cluster; without `threads` any caller
        may call it, and a function that depends on them is refused (function.threads). `name` is that in the PTX;
        `debug` and `math` are those of a kernel, and constants of the build are given by name or together. The verifier
        judges it as it does an attached function, without a dry run: `CompiledFunction.unknown` says what it cannot
        know. Raises function.declaration, function.call, function.instruction, and what the body raises.
        """
        wanted = declared(self._function, self.name, inline=False, advice=EXPORTED)
        chosen = {**(constants or {}), **more}
        advice = f"its constants are: {', '.join(wanted.constants) or 'none'}"
        for constant in chosen:
            if constant not in wanted.constants:
                problem = f"it has no constant {asked(constant, [*wanted.constants, *_OPTIONS])}"
                advice += f"; options of compile are: {', '.join(_OPTIONS)}"
                CALL.fail(call=f"{self.name}.compile", problem=problem, advice=advice)
        defaults = constants_of(self._function)
        for constant in wanted.constants:
            if constant not in chosen and constant not in defaults:
                advice = f"pass {constant}=..., or give it a default"
                CALL.fail(call=f"{self.name}.compile", problem=f"it lacks the constant {constant!r}", advice=advice)
        source = Source(self._function, Entered(self, self.name, True, EXPORTED), wanted, {**defaults, **chosen})
        own = self.name if name is None else str(name)
        options: dict[str, Any] = {"threads": threads, "cluster": cluster, "debug": debug, "math": math}
        return compile_function(source, Target.parse(target), name=own, **options)

    @staticmethod
    def _given_back(wanted: Declared, results: list[Value]) -> Any:
        if wanted.results is None:
            return None
        return tuple(results) if wanted.is_tuple else results[0]

    def _core(self, k: Any) -> Core:
        """The core of the builder that calls (function.call)."""
        if not isinstance(k, FunctionBuilder):
            problem = f"its first argument is {printed(k)}, not a builder"
            CALL.fail(
                call=self.name, problem=problem, advice=f"pass the builder of the kernel first: {self.name}(k, ...)"
            )
        core = k.core
        if not self.inline and core.attached is not None:
            problem = f"function {core.name} is attached to a compiler of its own, which places calls itself"
            CALL.fail(call=self.name, problem=problem, advice=INLINE)
        return core

    def _check_cycle(self, core: Core) -> None:
        names = [entered.name for entered in core.functions.open]
        for index, entered in enumerate(core.functions.open):
            if entered.definition is self:
                RECURSION.fail(function=self.name, cycle=" -> ".join([*names[index:], self.name]))

    def _declared(self, core: Core) -> Declared:
        """What it takes and returns; annotations are read at the first call, when all of their names are known.

        It is kept with what is built, not here: a kernel that calls this reads it, and it stays the same.
        """
        known = core.functions.declared
        if id(self) not in known:
            known[id(self)] = self, declared(self._function, self.name, inline=self.inline)
        return cast("Declared", known[id(self)][1])

    def _bound(
        self, wanted: Declared, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments and the constants of a call, by name (function.call)."""
        try:
            bound = inspect.signature(self._function).bind(None, *args, **kwargs)
        except TypeError as error:
            takes = ", ".join(["k", *wanted.parameters, *(f"{name}=..." for name in wanted.constants)])
            problem = f"{error}, besides the builder"
            CALL.fail(call=f"{self.name}({takes})", problem=problem, advice=f"call it as {self.name}({takes})")
        bound.apply_defaults()
        constants = {name: bound.arguments[name] for name in wanted.constants}
        return {name: bound.arguments[name] for name in wanted.parameters}, constants

    def __repr__(self) -> str:
        return f"<function {self.name}, {'expanded in place' if self.inline else 'called'}>"
