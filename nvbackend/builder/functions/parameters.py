"""What a device function takes and returns: its annotations, the arguments of a call, the results."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NoReturn, get_args, get_origin

from nvbackend.builder.core.assumptions import assume_values
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address, own
from nvbackend.builder.core.parameters import TensorMapParameter
from nvbackend.builder.kernel.annotations import annotations_of
from nvbackend.builder.scopes.function_rules import ARGUMENT, DECLARATION, RESULT
from nvbackend.builder.scopes.in_functions import INLINE
from nvbackend.builder.scopes.parameter_types import Unresolved
from nvbackend.builder.values.values import (
    CLUSTER_SPACE,
    GLOBAL_SPACE,
    SHARED_SPACE,
    Arithmetic,
    Value,
    as_value,
    constant,
)
from nvbackend.diagnostics import Location, caller_location, element_name, printed, with_article
from nvbackend.diagnostics.boundary import plain_number
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType, Scalar, pred
from nvbackend.signature import Pointer, TensorMap

Kind = Scalar | Pointer | TensorMap | type
"""The type of a parameter: of a value, of an address, of a tensor map, or a class of this package's objects."""
_SPACES = {GLOBAL_SPACE: "global", SHARED_SPACE: "shared", CLUSTER_SPACE: "shared::cluster"}
SPACE_NUMBERS = {"global": GLOBAL_SPACE, "shared": SHARED_SPACE}
_USUAL_ALIGNMENT = 16
_PACKAGE = __name__.partition(".")[0]
_TYPES = 'an element type (nvb.f32), nvb.Pointer[element], or nvb.Pointer(element, space="shared", align=4)'


@dataclass(frozen=True, slots=True)
class Declared:
    """The parameters of a function after the builder, by name, its constants of the build, and what it returns."""

    function: str
    parameters: Mapping[str, Kind]
    constants: tuple[str, ...]
    results: tuple[ElementType, ...] | None
    """None where it returns nothing."""
    is_tuple: bool

    @property
    def returned(self) -> str | None:
        """What it returns, as diagnostics call it."""
        if self.results is None:
            return None
        return f"({', '.join(map(str, self.results))})" if self.is_tuple else str(self.results[0])


def declared(function: Callable[..., Any], name: str, *, inline: bool, advice: str = INLINE) -> Declared:
    """What the annotations of `function` declare (function.declaration)."""
    hints = annotations_of(function)
    described = list(inspect.signature(function).parameters.values())
    first, *others = described
    if isinstance(_bare(hints.get(first.name)), (ElementType, Scalar, Pointer)):
        problem = f"its first parameter, {first.name}, gets the builder and cannot be a parameter of its own"
        DECLARATION.fail(function=name, problem=problem, advice=f"write def {name}(k, {first.name}, ...)")
    values = [each for each in others if each.kind is not each.KEYWORD_ONLY]
    kinds = {each.name: _kind(name, each.name, hints.get(each.name), inline=inline, advice=advice) for each in values}
    results, is_tuple = _results(name, hints.get("return"))
    constants = tuple(each.name for each in others if each.kind is each.KEYWORD_ONLY)
    return Declared(name, kinds, constants, results, is_tuple)


def _bare(annotation: Any) -> Any:
    """The type that an annotation declares; of `Annotated` the one that it adds, if it adds one."""
    if get_origin(annotation) is not Annotated:
        return annotation
    kinds = (ElementType, Scalar, Pointer, TensorMap)
    return next((part for part in annotation.__metadata__ if isinstance(part, kinds)), annotation.__origin__)


def _kind(function: str, name: str, annotation: Any, *, inline: bool, advice: str) -> Kind:
    bare = _bare(annotation)

    def refuse(problem: str, advice: str) -> NoReturn:
        DECLARATION.fail(function=function, problem=f"parameter {name} {problem}", advice=advice)

    if annotation is None:
        refuse("has no annotation", f"annotate it with {_TYPES}; write constants of the build after a *")
    if isinstance(bare, Unresolved):
        problem = f"has the annotation {bare.text!r}, a text in which the name {bare.missing} is not known"
        refuse(problem, f"define or import {bare.missing} at the top of the file")
    if isinstance(bare, ElementType):
        bare = Scalar(bare)
    if isinstance(bare, Pointer) and bare.space not in SPACE_NUMBERS:
        refuse(f"is declared space={bare.space!r}", 'use space="global" or space="shared"')
    if isinstance(bare, (Scalar, Pointer)):
        element = bare.element
        if isinstance(bare, Scalar) and element is not pred and element.bits % 8:
            refuse(f"is {with_article(str(element))}, less than a byte", "pass packed values in an integer: nvb.u32")
        return bare
    of_ours = isinstance(bare, TensorMap) or (inspect.isclass(bare) and bare.__module__.startswith(f"{_PACKAGE}."))
    if of_ours and not inline:
        refuse(f"is {printed(bare)}, which a called function cannot take", f"{advice}, or pass {_TYPES}")
    if of_ours:
        return bare  # type: ignore[no-any-return]
    meant = element_name(getattr(bare, "__name__", "")) or _TYPES
    return refuse(f"has the annotation {printed(annotation)}, which is not a type of a kernel", f"write {meant}")


def _results(function: str, annotation: Any) -> tuple[tuple[ElementType, ...] | None, bool]:
    if annotation is None:
        return None, False
    is_tuple = get_origin(annotation) is tuple or isinstance(annotation, tuple)
    parts = get_args(annotation) if get_origin(annotation) is tuple else annotation
    parts = tuple(parts) if is_tuple else (annotation,)
    bare = [_bare(part) for part in parts]
    if not bare or not all(isinstance(part, ElementType) and (part is pred or part.bits % 8 == 0) for part in bare):
        problem = f"it is declared to return {printed(annotation)}, which is not a type of values"
        advice = "declare element types, -> nvb.f32 or -> tuple[nvb.f32, nvb.i32], or leave out what returns nothing"
        DECLARATION.fail(function=function, problem=problem, advice=advice)
    return tuple(bare), is_tuple


# -- arguments of a call ----------------------------------------------------------------------------------------------


def check_argument(core: Core, function: str, name: str, kind: Kind, argument: Any) -> Any:
    """The argument as a value of `core` or its object, of the type that is declared (function.argument)."""

    def refuse(wanted: str, actual: str, advice: str) -> NoReturn:
        ARGUMENT.fail(function=function, name=name, wanted=wanted, given=actual, advice=advice)

    if isinstance(kind, Scalar):
        return _scalar(core, kind, argument, refuse)
    if isinstance(kind, Pointer):
        return _pointer(core, kind, argument, refuse)
    if isinstance(kind, TensorMap):
        if not isinstance(argument, TensorMapParameter) or argument.type != kind:
            actual = printed(argument.type) if isinstance(argument, TensorMapParameter) else printed(argument)
            refuse(printed(kind), actual, "pass a tensor map of the kernel of this type")
    elif not isinstance(argument, kind):
        wanted = with_article(kind.__name__)
        refuse(wanted, printed(argument), f"pass {wanted} of this kernel")
    return argument


def _scalar(core: Core, kind: Scalar, argument: Any, refuse: Callable[..., NoReturn]) -> Value:
    element = kind.element
    argument = plain_number(argument)
    if isinstance(argument, Address):
        refuse(str(element), f"an address of {argument.element}", "pass an element of it: p[0]; or declare nvb.Pointer")
    if isinstance(argument, Arithmetic):
        value = as_value(core, argument)
        if value.type is not element:
            advice = "compare it with 0: x != 0" if element is pred else f"convert it: .to(nvb.{element})"
            refuse(str(element), str(value.type), advice)
    else:
        value = as_value(core, argument, element)
    known = value.constant
    if isinstance(known, int):
        if known not in kind.values:
            refuse(f"{kind.asserted} by its annotation", str(known), "pass such a number")
    elif kind.asserts:
        assume_values(core, value, kind)
    return value


def _pointer(core: Core, kind: Pointer, argument: Any, refuse: Callable[..., NoReturn]) -> Address:
    wanted = f"a pointer to {kind.element}{' of shared memory' * (kind.space == 'shared')}"
    if not isinstance(argument, Address):
        refuse(wanted, printed(argument), "pass a pointer of the kernel, or what k.shared returns")
    address = own(core, argument)
    space = _SPACES[address.space]
    if space != kind.space:
        peer = "load what another CTA has, and pass the values"
        advice = f'declare it nvb.Pointer({kind.element}, space="{space}"), or pass memory of space {kind.space}'
        refuse(wanted, f"an address of {space} memory", peer if space == "shared::cluster" else advice)
    if address.element is not kind.element:
        refuse(wanted, f"an address of {address.element}", f"see it as another type: p.cast(nvb.{kind.element})")
    if address.const != kind.const:
        actual = "a pointer that is declared const" if address.const else "a pointer that is not declared const"
        kept = f"nvb.Pointer({kind.element}, const={address.const})"
        refuse(f"{wanted}{', declared const' * kind.const}", actual, f"declare the parameter {kept}")
    return address


def check_alignment(function: str, name: str, kind: Pointer, address: Address, *, inline: bool) -> None:
    """Raises function.argument where the address is not known to be aligned as declared; 16 in place asks for nothing.

    Expanded in place, the body sees how the address of the call is aligned.
    """
    if address.align % kind.align == 0 or (inline and kind.align == _USUAL_ALIGNMENT):
        return
    advice = f"declare it nvb.Pointer({kind.element}, align={address.align}), or pass a pointer that is aligned so"
    wanted, actual = (
        f"at a multiple of {kind.align} bytes",
        f"an address that is known to be a multiple of {address.align}",
    )
    ARGUMENT.fail(function=function, name=name, wanted=wanted, given=actual, advice=advice)


# -- results ----------------------------------------------------------------------------------------------------------


def check_results(core: Core, wanted: Declared, result: Any, at: Location) -> list[Value]:
    """What the body returned as values of the declared types (function.result, at the function's last line)."""

    def refuse(actual: str, advice: str) -> NoReturn:
        place = replace(at, callers=tuple(filter(None, [caller_location()])))
        RESULT.fail(
            at=place, function=wanted.function, given=actual, wanted=wanted.returned or "nothing", advice=advice
        )

    if wanted.results is None:
        if result is not None:
            refuse(_shown(result), f"declare what it returns: def {wanted.function}(...) -> nvb.f32")
        return []
    if wanted.is_tuple != isinstance(result, (tuple, list)):
        refuse(_shown(result), f"return {wanted.returned}")
    parts: Sequence[Any] = result if wanted.is_tuple else [result]
    if len(parts) != len(wanted.results):
        refuse(f"{len(parts)} values", f"return {len(wanted.results)} of them: {wanted.returned}")
    values = []
    for part, element in zip(parts, wanted.results, strict=True):
        number = plain_number(part)
        if isinstance(number, Arithmetic):
            value = as_value(core, number)
            if value.type is not element:
                refuse(_shown(result), f"convert it: .to(nvb.{element})")
        elif isinstance(number, (bool, int, float)):
            value = constant(core, number, element)
        else:
            refuse(_shown(result), f"return {wanted.returned}")
        values.append(value)
    return values


def _shown(result: Any) -> str:
    if isinstance(result, Arithmetic):
        return str(result.type)
    if isinstance(result, types.NoneType):
        return "nothing"
    return f"({', '.join(map(_shown, result))})" if isinstance(result, tuple) else printed(result)
