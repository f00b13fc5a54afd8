"""The types of a kernel's parameters, from the annotations of its function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from types import FunctionType
from typing import Annotated, Any, get_origin

from nvbackend.builder.kernel.again.pure_names import code_of, unquoted
from nvbackend.builder.kernel.python_function import first_line
from nvbackend.builder.scopes import rules
from nvbackend.builder.scopes.parameter_types import Unresolved, not_a_type
from nvbackend.diagnostics import (
    Diagnostic,
    DiagnosticError,
    functions_in,
    parameter_names,
    printed,
    raise_all,
    run_callback,
)
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.signature import ParameterType, Pointer, Scalar, TensorMap


def annotations_of(function: Callable[..., Any], *, but: Collection[str] = ()) -> dict[str, Any]:
    """Annotations as objects, without those of the names in `but`.

    Those that are text (PEP 563) are evaluated in the scope of the function that they were written at: functools.wraps
    gives a wrapper the annotations of what it wraps.
    """
    functions = functions_in(function)
    evaluated: dict[str, Any] = {}
    faults: list[Diagnostic] = []
    for name, annotation in function.__annotations__.items():
        if name in but:
            continue
        try:
            evaluated[name] = _evaluated(functions, name, annotation) if isinstance(annotation, str) else annotation
        except DiagnosticError as error:  # of a type that is made there
            faults += error.diagnostics
    raise_all(faults)
    return evaluated


def _has(function: FunctionType, name: str, text: str) -> bool:
    annotation = function.__annotations__.get(name)
    return isinstance(annotation, str) and annotation == text


def _nonlocals(function: FunctionType) -> dict[str, Any]:
    """The variables of enclosing functions that a function names, those that have a value."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    outside: dict[str, Any] = {}
    for name, cell in cells:
        with suppress(ValueError):
            outside[name] = cell.cell_contents
    return outside


def _evaluated(functions: list[FunctionType], name: str, text: str) -> Any:
    annotated = next(each for each in reversed(functions) if _has(each, name, text))
    try:
        return eval(code_of(text), annotated.__globals__, _nonlocals(annotated))
    except DiagnosticError as error:
        first = first_line(annotated)  # a text has no line of its own
        raise DiagnosticError([replace(each, location=first) for each in error.diagnostics]) from None
    except NameError as error:
        return Unresolved(unquoted(text), error.name) if error.name else unquoted(text)
    except Exception:  # noqa: BLE001
        # It is not a parameter type; kernel.parameter says so and shows its text.
        return unquoted(text)


def is_parameter_type(annotation: Any) -> bool:
    """Whether an annotation declares a parameter of a kernel."""
    parts = (annotation.__origin__, *annotation.__metadata__) if get_origin(annotation) is Annotated else (annotation,)
    return any(isinstance(part, (ElementType, Scalar, Pointer, TensorMap)) for part in parts)


def parameter_type(kernel_name: str, name: str, annotation: Any) -> ParameterType | ElementType:
    """The type that an annotation is, or that `Annotated` adds to the class of what arrives in the body."""
    is_annotated = get_origin(annotation) is Annotated
    stated, more = (annotation.__origin__, annotation.__metadata__) if is_annotated else (annotation, ())
    kinds = (ElementType, Scalar, Pointer, TensorMap)
    added = [part for part in more if isinstance(part, kinds)]
    types = added or [stated]
    if len(types) != 1 or not isinstance(types[0], kinds):
        raise DiagnosticError([not_a_type(kernel_name, name, annotation)])
    if added:
        _check_class(name, annotation, types[0])
    return types[0]


def _check_class(name: str, annotation: Any, kind: ParameterType | ElementType) -> None:
    """kernel.parameter-fact where type checkers would take the parameter for another class than what arrives."""
    stated = annotation.__origin__
    if stated in (type(kind), Any):
        return
    if isinstance(kind, Scalar) and stated is kind.element:
        return
    if isinstance(stated, Pointer) and isinstance(kind, Pointer) and stated.element is kind.element:
        return
    # Only a class of the builder is left, or a mistake: a kernel on disk does without the import of all of it.
    from nvbackend.builder.core.memory import Address
    from nvbackend.builder.core.parameters import TensorMapParameter
    from nvbackend.builder.values.values import Value

    arrives = {Pointer: Address, TensorMap: TensorMapParameter}.get(type(kind), Value)
    if stated is not arrives:
        needs = f"{kind} arrives as {arrives.__name__}"
        advice = f"write Annotated[nvb.{arrives.__name__}, ...]"
        rules.PARAMETER_FACT.fail(name=name, given=annotation, needs=needs, advice=advice)


# -- what depends on constants of the build ---------------------------------------------------------------------------


def has_function(annotation: Any) -> bool:
    """Whether the type depends on constants: `Annotated[nvb.TensorMap, lambda rows: nvb.TensorMap(...)]`."""
    return get_origin(annotation) is Annotated and any(map(inspect.isfunction, annotation.__metadata__))


def without_functions(function: Callable[..., Any], name: str, annotation: Any, constants: Mapping[str, Any]) -> Any:
    """The annotation of the parameter `name` for these constants of the build."""
    if not has_function(annotation):
        return annotation
    more = [
        resolved(function, f"the type of {name}", part, constants) if inspect.isfunction(part) else part
        for part in annotation.__metadata__
    ]
    return Annotated[(annotation.__origin__, *more)]


def resolved(function: Callable[..., Any], what: str, bound: Any, constants: Mapping[str, Any]) -> Any:
    """What a bound of a kernel is for these constants of the build (kernel.function for one that there is not)."""
    if not callable(bound):
        return bound
    known = ", ".join(constants) or "none"
    names = parameter_names(bound)
    if names is None:
        problem = f"{what} is {printed(bound)}, whose parameters have no names"
        advice = f"wrap it in a lambda that names constants of the build: {known}"
        rules.KERNEL_FUNCTION.fail(kernel=function.__name__, problem=problem, advice=advice)
    for name in names:
        if name not in constants:
            problem = f"{what} depends on {name!r}, which is not one of its build-time constants, or has no value"
            rules.KERNEL_FUNCTION.fail(
                kernel=function.__name__, problem=problem, advice=f"name some of its constants: {known}"
            )
    return run_callback(what, bound, by_name={name: constants[name] for name in names})
