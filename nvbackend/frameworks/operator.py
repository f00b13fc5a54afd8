"""What operators of every framework have: their parameters, and the functions of them that the user gives."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, NoReturn

from nvbackend.builder.kernel.definition import KernelDefinition
from nvbackend.codegen.compiled import CompiledKernel
from nvbackend.diagnostics import Rule, parameter_names, printed, run_callback
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.frameworks.written import written_parameters
from nvbackend.runtime.module import SIMULATOR, LoadedKernel, load
from nvbackend.signature import Parameter, Pointer, Scalar

_PAGE = "docs/linking.md, Operators of frameworks"
DECLARED = Rule(
    id="operator.declared",
    message="kernel {kernel} cannot be the operator {name}: {problem}",
    fix="{advice}",
    why="A framework compiles and differentiates by what an operator declares, and believes all of it.",
    reference="PyTorch, torch.library.custom_op; JAX, jax.ffi.ffi_call; " + _PAGE,
)
MUTATES = Rule(
    id="operator.mutates",
    message="kernel {kernel} writes {parameter}, which the operator {name} declares to be read only",
    fix="pass mutates=({parameter!r},), or make it a result: results={{{parameter!r}: ...}}",
    why="The framework would reuse and reorder an array that it takes for unchanged: wrong numbers, without an error.",
    reference="PyTorch, torch.library.custom_op (mutates_args); " + _PAGE,
)
CAPTURE = Rule(
    id="operator.capture",
    message="operator {name} is called for the first time while a CUDA graph is captured",
    fix="call it once before the capture",
    why="The first call loads the kernel into the context, which a capture does not allow.",
    reference="PyTorch, CUDA semantics (CUDA Graphs); CUDA driver API, stream capture",
)


def compiled(kernel: object, name: str, device: str | None, options: Mapping[str, Any]) -> CompiledKernel:
    """The kernel of an operator (operator.declared)."""
    if not isinstance(kernel, KernelDefinition):
        _refuse(printed(kernel), name, "it is not a kernel definition", "pass what nvb.kernel made of a function")
    if device not in (None, SIMULATOR):
        _refuse(kernel.name, name, f"there is no device {device!r}", 'leave it out, or pass device="simulator"')
    return kernel.compile(**options)


def _refuse(kernel: str, name: str, problem: str, advice: str) -> NoReturn:
    DECLARED.fail(kernel=kernel, name=name, problem=problem, advice=advice)


@dataclass
class Operator:
    """A kernel with what an operator of it declares."""

    kernel: CompiledKernel
    name: str
    grid: Any
    mutates: tuple[str, ...]
    results: dict[str, Callable[..., Any]]
    simulated: bool
    loaded: dict[int | None, LoadedKernel] = field(default_factory=dict)
    """By the index of the device."""

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The kernel's parameters by name."""
        return {parameter.name: parameter for parameter in self.kernel.signature.parameters}

    @property
    def taken(self) -> list[str]:
        """The parameters that the operator takes."""
        return [name for name in self.parameters if name not in self.results]

    def check(self) -> None:
        """Raises operator.declared and operator.mutates."""
        parameters = self.parameters
        if not isinstance(self.name, str) or self.name.count("::") != 1:
            self.refuse(f"{self.name!r} is not a name of a library and an operator", 'write "library::operator"')
        if isinstance(self.mutates, str):
            self.refuse(f"mutates is the text {self.mutates!r}", f"pass a tuple of names: mutates=({self.mutates!r},)")
        for written in (*self.mutates, *self.results):
            of = parameters.get(written)
            if of is None or isinstance(of.type, Scalar):
                tensors = [each.name for each in parameters.values() if not isinstance(each.type, Scalar)]
                self.refuse(f"{written!r} is not a tensor of it", f"its tensors are: {', '.join(tensors) or 'none'}")
            if isinstance(of.type, Pointer) and of.type.const:
                self.refuse(f"{written} is declared const", "declare the pointer without const, or leave it out")
        for twice in set(self.mutates) & set(self.results):
            self.refuse(f"{twice} is mutated and a result", "name it once")
        for what, function in (("grid", self.grid), *self.results.items()):
            self._check_names(what, function)
        for written in written_parameters(self.kernel):
            if written not in self.mutates and written not in self.results:
                MUTATES.fail(kernel=self.kernel.name, parameter=written, name=self.name)

    def framework(self, module: str, title: str, package: str) -> Any:
        """A module of the framework (operator.declared where it is not installed)."""
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
                raise
        self.refuse(f"{title} is not installed", f"install it: pip install {package}")

    def _check_names(self, what: str, function: object) -> None:
        if not callable(function):
            if what != "grid":
                self.refuse(
                    f"the result {what} is {printed(function)}", "pass a function that gives an array without numbers"
                )
            return
        names = parameter_names(function)
        if names is None:
            problem = f"the function of {what} is {printed(function)}, whose parameters have no names"
            self.refuse(problem, f"wrap it in a lambda that names some of: {', '.join(self.taken)}")
        for named in names:
            if named not in self.taken:
                problem = f"the function of {what} takes {named}, which the operator does not take"
                self.refuse(problem, f"it may take: {', '.join(self.taken)}")

    def refuse(self, problem: str, advice: str) -> NoReturn:
        """Raises operator.declared."""
        _refuse(self.kernel.name, self.name, problem, advice)

    def made(self, passed: Mapping[str, Any]) -> dict[str, Any]:
        """The results, without numbers."""
        return {name: called(f"the function of {name}", function, passed) for name, function in self.results.items()}

    def shape(self, passed: Mapping[str, Any]) -> Any:
        """The grid of a launch."""
        return called("the function of grid", self.grid, passed) if callable(self.grid) else self.grid

    def kernel_on(self, index: int | None) -> LoadedKernel:
        """The kernel on the device of that index, or in the simulator."""
        known = self.loaded.get(index)
        if known is None:
            known = self.loaded[index] = load(self.kernel, device=SIMULATOR if index is None else "gpu")
        return known


def called(what: str, function: Callable[..., Any], passed: Mapping[str, Any]) -> Any:
    """What a function gives of the parameters that it names."""
    names = parameter_names(function) or ()
    return run_callback(what, function, by_name={name: passed[name] for name in names})
