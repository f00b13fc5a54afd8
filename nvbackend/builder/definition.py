"""From a Python function to a kernel: the `kernel` decorator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.types import ElementType
from nvbackend.isel.target import Target
from nvbackend.signature import Parameter, ParameterType, Pointer, Scalar, TensorMap

if TYPE_CHECKING:
    from nvbackend.builder.kernel import FinishedKernel
    from nvbackend.codegen.compiled import CompiledKernel


@user_facing
def kernel(
    target: str | Target,
    *,
    threads: int,
    cluster: int = 1,
    min_ctas: int | None = None,
    max_registers: int | None = None,
    name: str | None = None,
) -> Callable[[Callable[..., None]], KernelDefinition]:
    """Decorate a function that builds a kernel.

    Its first parameter is the KernelBuilder; the others are the kernel's parameters, annotated with an element type
    (`nvb.i32`), `nvb.Pointer(element)` or `nvb.TensorMap(element, box)`. Keyword-only parameters with a default are
    build-time constants, which `build` and `compile` can set. Raises target.unknown at the decorated line.
    """
    found = Target.parse(target)

    def decorate(function: Callable[..., None]) -> KernelDefinition:
        return KernelDefinition(function, found, threads, cluster, min_ctas, max_registers, name or function.__name__)

    return decorate


@user_facing
class KernelDefinition:
    """A function that builds a kernel, with its target and launch bounds."""

    def __init__(
        self,
        function: Callable[..., None],
        target: Target,
        threads: int,
        cluster: int,
        min_ctas: int | None,
        max_registers: int | None,
        name: str,
    ) -> None:
        functools.update_wrapper(cast(Any, self), function)
        self._function = function
        self.target = target
        self.threads = threads
        self.cluster = cluster
        self.min_ctas = min_ctas
        self.max_registers = max_registers
        self.name = name

    def build(self, *, target: str | Target | None = None, **constants: Any) -> FinishedKernel:
        """Run the function and verify what it built. Raises every diagnostic found, together."""
        from nvbackend.builder.kernel import KernelBuilder

        k = KernelBuilder(
            self.name,
            self.target if target is None else target,
            threads=self.threads,
            cluster=self.cluster,
            min_ctas=self.min_ctas,
            max_registers=self.max_registers,
            parameters=self.parameters(),
        )
        self._function(k, *k.arguments, **constants)
        return k.finish()

    def compile(
        self, *, target: str | Target | None = None, constants: dict[str, Any] | None = None, **options: Any
    ) -> CompiledKernel:
        """Build and compile to PTX and cubin; options are those of nvbackend.codegen.compiled.compile_kernel."""
        return self.build(target=target, **(constants or {})).compile(**options)

    def parameters(self) -> tuple[Parameter, ...]:
        """The kernel's parameters from the function's annotations (kernel.parameter where one is no parameter type)."""
        described = list(inspect.signature(self._function).parameters.values())[1:]
        hints = self._annotations()
        return tuple(
            Parameter(parameter.name, _parameter_type(self.name, parameter.name, hints.get(parameter.name)))
            for parameter in described
            if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
        )

    def _annotations(self) -> dict[str, Any]:
        """Annotations as objects; those that are text (PEP 563) are evaluated in the function's scope."""
        closure = inspect.getclosurevars(self._function)
        names = {**closure.builtins, **closure.globals, **closure.nonlocals}
        found: dict[str, Any] = {}
        for name, annotation in self._function.__annotations__.items():
            is_text = isinstance(annotation, str)
            found[name] = _evaluated(annotation, self._function.__globals__, names) if is_text else annotation
        return found


def _evaluated(text: str, namespace: dict[str, Any], names: dict[str, Any]) -> Any:
    try:
        return eval(text, namespace, names)
    except NameError:
        return text


def _parameter_type(kernel_name: str, name: str, annotation: Any) -> ParameterType:
    if isinstance(annotation, ElementType):
        return Scalar(annotation)
    if isinstance(annotation, (Scalar, Pointer, TensorMap)):
        return annotation
    from nvbackend.builder import rules

    rules.PARAMETER_TYPE.fail(name=name, kernel=kernel_name, given=annotation)
