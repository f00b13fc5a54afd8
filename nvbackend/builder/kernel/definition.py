"""From a Python function to a kernel: the `kernel` decorator."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar, cast

from nvbackend.builder.kernel.again.compiled_again import CompiledBefore, CompileRequest
from nvbackend.builder.kernel.ahead import Ahead
from nvbackend.builder.kernel.annotations import (
    annotations_of,
    has_function,
    is_parameter_type,
    parameter_type,
    resolved,
    without_functions,
)
from nvbackend.builder.kernel.by_name import ByName
from nvbackend.builder.kernel.check import Check, sizes_of
from nvbackend.builder.kernel.garbage import RarelyCollected
from nvbackend.builder.kernel.not_called import not_called
from nvbackend.builder.kernel.python_function import check_function, constants_of, first_line, last_line, misused
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.math_policy import MathPolicy
from nvbackend.codegen.stages.options import COMPILE_OPTIONS
from nvbackend.diagnostics import Diagnostic, DiagnosticError, Location, Rule, Severity, printed, raise_all, user_facing
from nvbackend.diagnostics.location import placed
from nvbackend.diagnostics.spelling import asked
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.isel.target.target import Target
from nvbackend.launch_calls import LAUNCH_CALL, NotLoaded
from nvbackend.signature import Extents, Parameter, ParameterType, shape_of

if TYPE_CHECKING:
    from nvbackend.builder.kernel.kernel import FinishedKernel, KernelBuilder
    from nvbackend.codegen.compiled import CompiledKernel
RUNS_THE_USERS_FUNCTION = True
"""A mistake in that function has the lines of the function and of what it calls: see diagnostics.location."""
_LAMBDA = "<lambda>"
_OWN_OPTIONS = ("target", "constants", "check", "debug")
"""What a definition's compile takes by name before those of a finished kernel's."""
_T = TypeVar("_T")
OfConstants: TypeAlias = (
    Callable[[Any], _T]
    | Callable[[Any, Any], _T]
    | Callable[[Any, Any, Any], _T]
    | Callable[[Any, Any, Any, Any], _T]
    | Callable[[Any, Any, Any, Any, Any], _T]
    | Callable[[Any, Any, Any, Any, Any, Any], _T]
)
"""A function of those of the build's constants that it names.

`Callable[..., T]` would leave the parameters of a lambda unknown to pyright."""


@user_facing
def kernel(
    target: str | Target,
    *,
    threads: Extents | OfConstants[Extents],
    cluster: Extents | OfConstants[Extents] = 1,
    min_ctas: int | OfConstants[int | None] | None = None,
    max_registers: int | OfConstants[int | None] | None = None,
    math: MathPolicy | None = None,
    name: str | None = None,
    examples: Sequence[Mapping[str, int]] = (),
    allow: Mapping[str, str] | Sequence[str] = (),
    severity: Mapping[str, str | Severity] | None = None,
    rules: Sequence[Rule] = (),
) -> Callable[[Callable[..., None]], KernelDefinition]:
    """Decorate a function that builds a kernel.

    The function's first parameter is the KernelBuilder. The others are the kernel's parameters, annotated with an
    element type (`nvb.i32`), with `nvb.Pointer[element]`, or in full with
    `Annotated[nvb.TensorMap, nvb.TensorMap(element, box)]` or `Annotated[nvb.Pointer, nvb.Pointer(element, align=32)]`.
    Keyword-only parameters with a default are build-time constants, which `build` and `compile` can set.

    `threads`, `cluster`, `min_ctas`, `max_registers` and the type of a parameter may depend on these constants: write a
    function whose parameters are named like the constants, `threads=lambda warps: 32 * warps` or
    `Annotated[nvb.TensorMap, lambda rows: nvb.TensorMap(nvb.f16, box=(rows, 64))]`.

    `examples` are typical values of the integer parameters, by name. The build checks the kernel with these instead of
    choosing values itself. `allow` are the ids of rules of protocols that are not reported, or a mapping from ids to
    reasons. `severity` maps ids of such rules to "warning" or "error". `rules` are rules of your own, which look at the
    finished kernel: see `nvb.rules`. `math` says what floating-point arithmetic may do: see MathPolicy. Raises
    target.unknown at the decorated line.
    """
    parsed = Target.parse(target)

    @user_facing
    def decorate(function: Callable[..., None]) -> KernelDefinition:
        check_function(function)
        chosen = function.__name__ if name is None else name
        bounds = threads, cluster, min_ctas, max_registers
        return KernelDefinition(function, parsed, *bounds, chosen, examples, None, allow, math, severity, rules)

    return decorate


@user_facing
class KernelDefinition(ByName, NotLoaded):
    """A function that builds a kernel, with its target and launch bounds."""

    def __init__(
        self,
        function: Callable[..., None],
        target: Target,
        threads: Extents | OfConstants[Extents],
        cluster: Extents | OfConstants[Extents],
        min_ctas: int | OfConstants[int | None] | None,
        max_registers: int | OfConstants[int | None] | None,
        name: str,
        examples: Sequence[Mapping[str, int]] = (),
        bound: Mapping[str, Any] | None = None,
        allow: Mapping[str, str] | Sequence[str] = (),
        math: MathPolicy | None = None,
        severity: Mapping[str, str | Severity] | None = None,
        rules: Sequence[Rule] = (),
    ) -> None:
        functools.update_wrapper(cast(Any, self), function)
        self._function = function
        self.target = target
        self.threads = threads
        self.cluster = cluster
        self.min_ctas = min_ctas
        self.max_registers = max_registers
        self.name = name
        self.examples = tuple(examples)
        self._bound = dict(bound or {})
        """The constants of the build that `with_` has set."""
        self.allow, self.severity = allow, severity
        self.rules = tuple(rules) if isinstance(rules, Iterator) else rules  # each build asks them anew
        self.math = math
        self._before = CompiledBefore()

    def build(
        self,
        *,
        target: str | Target | None = None,
        constants: dict[str, Any] | None = None,
        check: bool | Sequence[Mapping[str, int]] = True,
        debug: bool = True,
        **more: Any,
    ) -> FinishedKernel:
        """Run the function, verify what it built, and try it in a dry run. Raises every diagnostic found, together.

        Constants of the build are given by name, or all together as `constants`, the only way for one called `check` or
        `debug`: `check` is that of `KernelBuilder.finish` (kernel.check), and `debug=False` leaves out `k.print`,
        `k.assert_`, `k.trap`, `k.breakpoint` and `k.clock`.
        """
        with RarelyCollected():
            return self._build(target, self._together(constants, more), check, debug=debug)

    def _build(
        self,
        target: str | Target | None,
        values: dict[str, Any],
        check: Check,
        *,
        debug: bool,
        ahead: Ahead | None = None,
    ) -> FinishedKernel:
        """As `build`; `ahead` is started on the verified kernel."""
        from nvbackend.builder.kernel.kernel import KernelBuilder

        check = self.examples if check is True and self.examples else check
        chosen = self.target if target is None else Target.parse(target)
        first = first_line(self._function)
        try:
            bounds = self._bounds(values)
            parameters = self.parameters(values)
            allowed: dict[str, Any] = {
                "allow": self.allow,
                "severity": self.severity,
                "math": self.math,
                "rules": self.rules,
            }
            with placed(first):  # code that its parameters need is the same for every caller
                k = KernelBuilder(self.name, chosen, **bounds, parameters=parameters, debug=debug, **allowed)
        except DiagnosticError as error:
            # What is wrong is written at the function, not where it is built.
            raise DiagnosticError([replace(diagnostic, location=first) for diagnostic in error.diagnostics]) from None
        self._check_options(values, check, debug=debug)
        self._check_constants(values)
        try:
            self._run(k, values)
        except (TypeError, AttributeError, LookupError, RecursionError) as error:
            if (fault := misused(error)) is None:
                raise
            raise DiagnosticError([fault]) from None
        with placed():
            return k._finish(last_line(self._function), check, ahead)

    def with_(self, *, name: str | None = None, **constants: Any) -> KernelDefinition:
        """The same kernel with some constants of the build set, which `build` and `compile` can set again.

        `name` is that of the kernel in the PTX. Raises kernel.function for a name that no constant of it has.
        """
        for constant in constants:
            self._check_constants({constant: None}, needed=False)
        made = KernelDefinition(*self._with({**self._bound, **constants}, self.name if name is None else name))
        made._before = self._before  # by name and constants: what is asked for once more is not compiled once more
        return made

    def _made_of(self) -> tuple[Any, ...]:
        return self._with(self._bound, self.name)

    def _with(self, bound: dict[str, Any], name: str) -> tuple[Any, ...]:
        """The arguments of a definition with these constants and this name."""
        bounds = self.threads, self.cluster, self.min_ctas, self.max_registers
        more = self.allow, self.math, self.severity, self.rules
        return self._function, self.target, *bounds, name, self.examples, bound, *more

    def _bounds(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The launch bounds for constants of the build, each of its own or of its default."""
        bounds = {name: getattr(self, name) for name in ("threads", "cluster", "min_ctas", "max_registers")}
        if not any(map(callable, bounds.values())):
            return bounds
        constants = self._constants(values)
        return {name: resolved(self._function, name, bound, constants) for name, bound in bounds.items()}

    def _constants(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """All constants of the build: those given, and the defaults of the others."""
        self._check_constants(dict(values))
        return {**constants_of(self._function), **self._bound, **values}

    def check(
        self,
        *examples: Mapping[str, int],
        target: str | Target | None = None,
        constants: dict[str, Any] | None = None,
        **sizes: Any,
    ) -> FinishedKernel:
        """Build it, and execute it on its own control values with the integer parameters of each of `examples`.

        `kernel.check(n=3, steps=7)` is one example; constants of the build may be given by their names, too. Parameters
        that an example leaves out are chosen; without any example, all are. Raises as `build` does.
        """
        declared = self._declared
        values = {name: sizes.pop(name) for name in list(sizes) if name in declared}
        several = [*examples, sizes] if sizes else examples
        return self.build(target=target, constants=self._together(constants, values), check=several or True)

    def _check_options(self, values: dict[str, Any], check: Check, *, debug: bool) -> None:
        """Raises kernel.check, and kernel.function where an option may be meant for the constant of that name."""
        for name, option in (("check", check), ("debug", debug)):
            if name in self._declared and name not in values:
                problem = f"its build-time constant {name!r} is called like the option {name} of build"
                advice = f"pass constants={{{name!r}: {option!r}}}, or give the constant another name"
                rules.KERNEL_FUNCTION.fail(kernel=self.name, problem=problem, advice=advice)
        if not isinstance(check, bool):
            sizes_of(check, self.name, self.parameters(values))

    def _run(self, k: KernelBuilder, values: dict[str, Any]) -> None:
        """Run the function; until it ends, no kernel whose function asked for this one gets any instruction."""
        around = [builder.core for builder in _builders_around(sys._getframe(1)) if builder.core.inner is None]
        for core in around:
            core.inner = self.name
        raise_all(not_called(self._function, k))
        k._made_by(self._function)
        try:
            with placed():
                result = self._function(k, *k.arguments, **{**self._bound, **values})
        finally:
            for core in around:
                core.inner = None
        if result is not None and self._function.__name__ != _LAMBDA:
            problem = f"it returns {printed(result)}, and a kernel has no result"
            advice = (
                "leave the return out, and write results to memory: out[index] = value, where out is a parameter such "
                "as nvb.Pointer[nvb.f32]"
            )
            last = last_line(self._function)
            raise DiagnosticError([_function_fault(self.name, problem, advice, last)])

    def __repr__(self) -> str:
        threads = "a number of" if callable(self.threads) else self.threads
        return f"<kernel {self.name} for {self.target}, {threads} threads>"

    def __call__(self, *arguments: object, **more: object) -> NoReturn:
        """Refused by launch.call."""
        from nvbackend.builder.kernel.operations import Operations

        if any(isinstance(each, Operations) for each in arguments):
            problem = "a kernel cannot call another one"
            advice = "write what both do as a device function, @nvb.function, and call that in both"
            LAUNCH_CALL.fail(call="kernel(k, ...)", kernel=self.name, problem=problem, advice=advice)
        super().__call__(*arguments, **more)

    def _stage(self) -> tuple[str, int, bool]:
        return self.name, 0 if callable(self.threads) else math.prod(shape_of(self.threads)), False

    @functools.cached_property
    def _declared(self) -> dict[str, bool]:
        """The constants of the build, each with whether it lacks a default."""
        return {
            parameter.name: parameter.default is parameter.empty
            for parameter in inspect.signature(self._function).parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY
        }

    def _together(self, constants: dict[str, Any] | None, more: dict[str, Any]) -> dict[str, Any]:
        """The constants given as one dictionary and those given by name. Raises kernel.function for one in both."""
        if constants is not None and not isinstance(constants, dict):
            raise TypeError(constants)  # the boundary names the argument
        twice = sorted(set(constants or ()) & set(more))
        if twice:
            problem = f"its build-time constant {twice[0]!r} is given twice"
            rules.KERNEL_FUNCTION.fail(
                kernel=self.name, problem=problem, advice=f"give it once: {twice[0]}=..., or in constants"
            )
        return {**(constants or {}), **more}

    def _check_constants(self, values: dict[str, Any], options: Sequence[str] = (), *, needed: bool = True) -> None:
        """kernel.function unless `values` names constants of this kernel, and all that are `needed`.

        `options` are what else the call takes, where it is compile.
        """
        declared = self._declared
        for name in values:
            if name not in declared:
                from nvbackend.builder.kernel.python_function import for_unknown_constant

                problem = f"it has no build-time constant {asked(name, [*declared, *options])}"
                advice = for_unknown_constant(self._function, name, declared, options)
                rules.KERNEL_FUNCTION.fail(kernel=self.name, problem=problem, advice=advice)
        for name, lacks_default in declared.items():
            if needed and lacks_default and name not in values and name not in self._bound:
                problem = f"its build-time constant {name!r} has no default and was not given"
                rules.KERNEL_FUNCTION.fail(kernel=self.name, problem=problem, advice=f"pass {name}=..., or a default")

    def compile(
        self,
        *,
        target: str | Target | None = None,
        constants: dict[str, Any] | None = None,
        check: bool | Sequence[Mapping[str, int]] = True,
        debug: bool = True,
        **options: Any,
    ) -> CompiledKernel:
        """Build and compile to PTX and cubin; options are those of nvb.compile_kernel.

        Give constants of the build by name, or all together as `constants`, which is the only way for a constant with
        the name of an option. `check` and `debug` are those of `build`.

        Another call returns the same kernel at no cost while everything is unchanged: the target, the constants, the
        options, the ptxas that is found, and everything that the function reads (globals, closures, defaults, and those
        of the helpers, classes and modules that it uses). Another process finds the kernel in the cache without
        building it, if their code and lines, this package, llvmlite and Python are also the same. The function runs
        each time if it reads what cannot be compared (files, the clock, random numbers), prints, or changes what it
        reads; so does every function with Cache.disabled() or with rules of your own.
        """
        request = self._request(target, constants, check, debug, options)
        if request is not None and (kernel := self._before.unchanged(request, options)) is not None:
            return kernel
        constants = self._together(
            constants, {name: options.pop(name) for name in list(options) if name not in COMPILE_OPTIONS}
        )
        self._check_constants(constants, (*_OWN_OPTIONS, *COMPILE_OPTIONS))
        self._check_options(constants, check, debug=debug)

        def inputs() -> tuple[object, ...]:
            bounds, types = tuple(self._bounds(constants).values()), self._dependent_types(constants)
            named = self.name, self.target, bounds, types, self._bound, self.math
            return (*named, self.allow, self.severity, self.examples), target, constants, check, debug

        facts = inputs()

        def compile_() -> CompiledKernel:
            from nvbackend.builder.kernel.kernel import completed

            with Ahead(options, collector.waiting) as ahead:
                built = self._build(target, constants, check, debug=debug, ahead=ahead)
                collector.built()
                built.machine.forget()  # or the kernel would keep all that it was built of
                return ahead.compiled(built, completed)

        with RarelyCollected() as collector:
            if self.rules:  # what their analyses read is not known
                return compile_()
            return self._before.get(self._function, facts, options, compile_, request, inputs)

    def _request(
        self, target: object, constants: object, check: object, debug: object, options: dict[str, Any]
    ) -> CompileRequest | None:
        """All that `compile` is given, here and there; None where its constants are not a dictionary."""
        if constants is None:
            constants = {}
        if type(constants) is not dict:
            return None
        bounds = self.threads, self.cluster, self.min_ctas, self.max_registers
        diagnosed = self.allow, self.severity, self.examples, self.rules
        own = self._function, self.name, self.target, self.math, *diagnosed
        return CompileRequest(bounds, (*own, target, check, debug), self._bound, constants, options)

    def _dependent_types(self, constants: Mapping[str, Any]) -> tuple[object, ...]:
        """The types of parameters where some depend on constants of the build; those of others are read with the rest.

        The builder's annotation is left alone: it imports all of the builder, for a kernel that may be on disk.
        """
        hints = annotations_of(self._function, but=(self._builder,))
        return tuple(self._types(constants, hints)) if any(map(has_function, hints.values())) else ()

    def parameters(self, constants: Mapping[str, Any] | None = None) -> tuple[Parameter, ...]:
        """The kernel's parameters from the function's annotations (kernel.parameter for any other annotation).

        Types that depend on constants of the build are those for `constants`, and the defaults of the others.
        """
        first = self._builder
        hints = annotations_of(self._function)
        if is_parameter_type(hints.pop(first, None)):
            problem = f"its first parameter, {first}, gets the builder and cannot be a parameter of the kernel"
            advice = f"write def {self._function.__name__}(k, {first}, ...)"
            raise DiagnosticError([_function_fault(self.name, problem, advice, first_line(self._function))])
        return tuple(Parameter(*each) for each in self._types(constants or {}, hints))

    def _types(
        self, constants: Mapping[str, Any], hints: dict[str, Any]
    ) -> Iterator[tuple[str, ParameterType | ElementType]]:
        """The types that the parameters have by `hints`, their annotations, each with the name of its parameter."""
        described = list(inspect.signature(self._function).parameters.values())[1:]
        if any(map(has_function, hints.values())):
            known = self._constants(constants)
            hints = {name: without_functions(self._function, name, hint, known) for name, hint in hints.items()}
        for parameter in described:
            if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
                yield parameter.name, parameter_type(self.name, parameter.name, hints.get(parameter.name))

    @property
    def _builder(self) -> str:
        """The name of the function's first parameter."""
        return next(iter(inspect.signature(self._function).parameters))


def _function_fault(kernel: str, problem: str, advice: str, at: Location) -> Diagnostic:
    return rules.KERNEL_FUNCTION.diagnose(at=at, kernel=kernel, problem=problem, advice=advice)


def _builders_around(frame: FrameType | None) -> Iterator[KernelBuilder]:
    """The builders of the kernels whose functions run in `frame` and further out."""
    while frame is not None:
        if frame.f_code is KernelDefinition._run.__code__:
            yield frame.f_locals["k"]
        frame = frame.f_back
