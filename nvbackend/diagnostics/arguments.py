"""Which argument of a call was of the wrong type, found after the call has failed inside.

A call that works costs nothing here: its arguments are compared with its annotations only once it has failed with an
exception of Python's own.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from nvbackend.diagnostics.annotations import LLVMLITE, NUMPY, alternatives, fits, is_flag, is_llvmlites, outer, text
from nvbackend.diagnostics.diagnostic import (
    AT_RUN_TIME,
    Diagnostic,
    DiagnosticError,
    MissingName,
    Rule,
)
from nvbackend.diagnostics.misfits import misfit, of_argument, of_form, short, shown
from nvbackend.diagnostics.spelling import with_unknown

ARGUMENT = Rule(
    id="call.argument",
    message="{call}: {problem}",
    fix="{advice}",
    why="The call would stop inside nvbackend, at a line that is not yours.",
    reference="docs/api.md",
)
NAME = Rule(
    id="call.name",
    message="{owner} has no {kind} {name!r}, {known}",
    fix="{advice}",
    why="There is nothing to give back.",
    reference="Python Language Reference, KeyError",
)
_MOST = 8
MARK = "_is_boundary"
"""The attribute that a wrapper carries."""


def missing_name(owner: object, kind: str, name: object, known: Collection[str]) -> MissingName:
    """The error for a `kind` of thing that `owner` does not have by this name; `known` are the names that it has."""
    shown, advice = "and no other", "do not ask for one"
    if known:
        shown = f"only {', '.join([*known][:_MOST])}{' and others' if len(known) > _MOST else ''}"
        advice = "name one of them"
    return MissingName([NAME.diagnose(owner=owner, kind=kind, name=name, known=shown, advice=advice)])


@lru_cache(1024)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def wrong_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], *, again: bool = True
) -> list[Diagnostic]:
    """What is wrong with the arguments of a call of `function`: their number and names, or else their types.

    Not `again`: records that cannot change are not looked into, since they were compared when they were made.
    """
    function = inspect.unwrap(function)
    signature = _signature(function)
    name = called(function, args)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        return [_diagnose(name, with_unknown(error, kwargs, signature), signature, of_form(name, args, kwargs))]
    scope = getattr(function, "__globals__", {})
    return [
        _diagnose(name, misfit(place, value, wanted), signature, of_argument(name, parameter, value))
        for parameter, argument in bound.items()
        if parameter not in _BOUND
        for place, value, wanted in islice(_misfits_of(signature.parameters[parameter], argument, scope, again), _MOST)
    ]


def wrong_entries(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Diagnostic]:
    """What is wrong with keys and values of the dicts among the arguments of a call."""
    signature = _signature(function)
    bound, scope = signature.bind(*args, **kwargs).arguments, function.__globals__
    return [
        _diagnose(called(function, args), misfit(place, value, wanted), signature)
        for name, argument in bound.items()
        if isinstance(argument, dict)
        for node in alternatives(str(signature.parameters[name].annotation), scope)
        if isinstance(node, ast.Subscript) and text(node.value) in ("Mapping", "dict")
        for place, value, wanted in islice(_misfits_of_entries(name, argument, node, scope), _MOST)
    ]


def truth_values(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Diagnostic]:
    """The truth values given for numbers: Python accepts them, and this package does not."""
    function = inspect.unwrap(function)
    signature = _signature(function)
    bound = signature.bind(*args, **kwargs).arguments
    wanted = {each: signature.parameters[each].annotation for each in bound}
    return [
        _diagnose(called(function, args), f"{each} must be {shown(wanted[each])}, not {argument} (a bool)", signature)
        for each, argument in bound.items()
        if isinstance(argument, bool) and wanted[each] in _NUMBERS
    ]


def as_tuples(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with a tuple for each list where `function` takes tuples and no lists."""
    if not any(isinstance(arg, list) for arg in (*args, *kwargs.values())):
        return args, dict(kwargs)
    names = function.__code__.co_varnames
    wanted = {
        name for name, annotation in function.__annotations__.items() if _takes_tuples(annotation, function.__globals__)
    }
    plain = tuple(
        tuple(arg) if isinstance(arg, list) and name in wanted else arg for name, arg in zip(names, args, strict=False)
    )
    return (*plain, *args[len(plain) :]), {
        name: tuple(arg) if isinstance(arg, list) and name in wanted else arg for name, arg in kwargs.items()
    }


def _takes_tuples(annotation: object, scope: Mapping[str, Any]) -> bool:
    kinds = {text(outer(alternative)) for alternative in alternatives(str(annotation), scope)}
    return "tuple" in kinds and not {"list", "Sequence"} & kinds


def too_deep(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Diagnostic]:
    """The arguments of a call that are nested deeper than any sensible argument, and too deep for Python."""
    function = inspect.unwrap(function)
    signature = _signature(function)
    bound = signature.bind(*args, **kwargs).arguments
    problem = f"is nested more than {MOST_DEPTH} deep"
    name = called(function, args)
    return [_diagnose(name, f"{each} {problem}", signature) for each, argument in bound.items() if _is_deep(argument)]


def too_large(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Diagnostic]:
    """The arguments of a call that are, or hold, numbers of more bits than any sensible number."""
    function = inspect.unwrap(function)
    signature = _signature(function)
    name = called(function, args)
    return [
        _diagnose(name, f"{each} has a number of {bits} bits, more than the {MOST_BITS} of any kernel's", signature)
        for each, argument in signature.bind(*args, **kwargs).arguments.items()
        for bits in sorted(_excesses(argument))[-1:]
    ]


def _excesses(argument: object) -> Iterator[int]:
    """The bits of each integer of an argument that has too many, including those in tuples, lists and dicts."""
    numbers = (entry for level in _levels(argument) for entry in level if isinstance(entry, int))
    return (number.bit_length() for number in numbers if number.bit_length() > MOST_BITS)


def _is_deep(argument: object) -> bool:
    *_, last = _levels(argument)
    return any(isinstance(entry, (tuple, list)) for entry in last)


def _levels(argument: object) -> Iterator[list[object]]:
    """The argument, then what it holds, then what that holds: tuples, lists and dicts, MOST_DEPTH deep."""
    level = [argument]
    yield level
    for _ in range(MOST_DEPTH):
        inside = [list(entry.values()) if isinstance(entry, dict) else entry for entry in level]
        level = list(
            {id(part): part for entries in inside if isinstance(entries, (tuple, list)) for part in entries}.values()
        )
        yield level


MOST_DEPTH = MOST_BITS = 64
_NUMBERS = ("int", "int | None", "float", "float | None")


Classes = tuple[Hashable, ...]
"""Those of the arguments of a call, with the names of those that are given by name."""


class Kinds:
    """What a call checks of its arguments before it runs: a flag is a bool, an operand is one value, a run-time
    value is not a name, and a name is not an element type.

    Other objects would be accepted: anything has a truth value, and an operand may be several registers. Whether an
    annotation allows a class of arguments is found once.
    """

    __slots__ = ("_allowed", "_function", "_names", "_said", "always", "may_be_odd", "right")

    def __init__(self, function: Callable[..., Any], *, looks: bool = True) -> None:
        self._function = inspect.unwrap(function) if hasattr(function, "__wrapped__") else function
        annotations = getattr(self._function, "__annotations__", {})
        each = ((name, _said(str(annotation))) for name, annotation in annotations.items() if name != "return")
        self._said = {name: said for name, said in each if said}
        self.always = looks and bool(self._said)
        """Whether arguments of any class are to be looked at."""
        code = self._function.__code__
        self._names = code.co_varnames[: code.co_argcount]
        of_any_number = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        self.may_be_odd = not of_any_number and (self._names != ("self",) or bool(code.co_kwonlyargcount))
        """Whether there may be NumPy's numbers and containers among the arguments, where these are looked into: any
        number of arguments may be the user's own objects and are passed on unchanged."""
        self._allowed: dict[tuple[str, type], bool] = {}
        self.right = set[Classes]()
        """The classes of arguments that were looked at and are right: other arguments of these classes are, too."""

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether all arguments are allowed at sight. Raises call.argument for every one that is wrong."""
        are_allowed = all(map(self._is_allowed, self._names, args))
        if are_allowed and all(map(self._is_allowed, kwargs, kwargs.values())):
            return True
        call = self._function, args, kwargs
        if faults := [*wrong_arguments(*call), *truth_values(*call)]:
            raise DiagnosticError(faults)
        return False

    def keep(self, classes: Classes, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Arguments of these classes are right where that depends on nothing but their classes."""
        if len(self.right) == _MOST_CLASSES or not all(map(_says_all, (*map(type, args), *map(type, kwargs.values())))):
            return
        named = (*zip(self._names, args, strict=False), *kwargs.items()) if self._said else ()
        if not any(type(argument) is int and self._said.get(name) in _FLAGS for name, argument in named):
            self.right.add(classes)

    def _is_allowed(self, name: str, argument: Any) -> bool:
        kind: Any = type(argument)
        said = self._said.get(name)
        if said in _FLAGS:
            return is_flag(argument) or (argument is None and said != "bool")
        if said is _VALUE and isinstance(argument, (int, float)):
            return False
        if is_plain(kind):
            return said != (_ELEMENT if kind is str else _TEXT if kind.__name__ in AT_RUN_TIME else "")
        if kind is bool:
            return self._function.__annotations__.get(name) not in _NUMBERS
        if isinstance(argument, (list, tuple)) and any(map(is_llvmlites, argument)):
            return False
        if (name, kind) not in self._allowed:
            annotation = self._function.__annotations__.get(name)
            scope = self._function.__globals__
            samples = (argument, ()) if kind is list else (argument,)  # a list counts as a tuple
            self._allowed[name, kind] = not isinstance(annotation, str) or any(
                fits(sample, text(outer(node)), scope) for node in alternatives(annotation, scope) for sample in samples
            )
        return self._allowed[name, kind]


_MOST_CLASSES = 256
_CONTAINERS = (tuple, list, dict, set, frozenset, bytes, bytearray)
_FLAGS = ("bool", "bool | None")
_VALUE, _TEXT, _ELEMENT = "a value", "a text", "an element type"
_SAID = (
    {each: each for each in _FLAGS}
    | {"str": _TEXT, "str | None": _TEXT}
    | dict.fromkeys(("ElementType", "ElementType | None"), _ELEMENT)
)
_WITH_NUMBERS = {"Operand", "Number", "int", "float", "bool", "object", "Any"}


@lru_cache(1024)
def _said(annotation: str) -> str:
    """What an annotation says that a call checks, if anything; a value cannot be a number of Python's."""
    parts = annotation.split(" | ")
    return _SAID.get(annotation, _VALUE if "Value" in parts and _WITH_NUMBERS.isdisjoint(parts) else "")


@lru_cache(1024)
def is_plain(kind: type) -> bool:
    """Whether an object of this class is one thing: no container, no bool, nothing of NumPy or llvmlite."""
    return (
        not issubclass(kind, (*_CONTAINERS, bool))
        and kind.__module__ != NUMPY
        and not kind.__module__.startswith(LLVMLITE)
    )


@lru_cache(1024)
def _says_all(kind: type) -> bool:
    """Whether a call takes all objects of this class, or none; but for numbers that are flags."""
    return kind is bool or is_plain(kind)


Misfit = tuple[str, object, str]
"""The place of a value in the call, the value, and the annotation that it does not fit."""


def _misfits_of(parameter: inspect.Parameter, argument: Any, scope: Mapping[str, Any], again: bool) -> Iterator[Misfit]:
    """What does not fit in the argument of a parameter, or in each argument of a starred parameter."""
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        each = [(f"{parameter.name}[{place}]", element) for place, element in enumerate(argument)]
    elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
        each = list(argument.items())
    else:
        each = [(parameter.name, argument)]
    for place, entry in each:
        yield from _misfits(place, entry, parameter.annotation, scope, again)


def _misfits(
    place: str, argument: object, annotation: object, scope: Mapping[str, Any], again: bool
) -> Iterator[Misfit]:
    """`argument` where it does not fit; else those of its elements, or of its fields if it is a record, that do not."""
    if not isinstance(annotation, str):
        return
    fitting = [node for node in alternatives(annotation, scope) if fits(argument, text(outer(node)), scope)]
    if not fitting:
        yield place, argument, annotation
        return
    if isinstance(argument, (tuple, list, str, bytes)) and len(fitting) == 1 and isinstance(fitting[0], ast.Subscript):
        yield from _misfits_of_elements(place, argument, fitting[0], scope, again)
    elif dataclasses.is_dataclass(argument) and not isinstance(argument, type):
        if not again and was_compared(type(argument)):
            return
        inner = vars(sys.modules[type(argument).__module__])
        for field in dataclasses.fields(argument):
            yield from _misfits(f"{place}.{field.name}", getattr(argument, field.name, None), field.type, inner, again)


@lru_cache(1024)
def was_compared(kind: Any) -> bool:
    """Whether its objects were compared when they were made, and cannot change."""
    return bool(kind.__dataclass_params__.frozen and hasattr(kind.__init__, MARK))


def _misfits_of_elements(
    place: str, argument: Sequence[object], annotation: ast.Subscript, scope: Mapping[str, Any], again: bool
) -> Iterator[Misfit]:
    inside = annotation.slice
    wanted = list(inside.elts) if isinstance(inside, ast.Tuple) else [inside]
    is_single = len(wanted) == 1 and text(annotation.value) != "tuple"
    of_any_length = is_single or text(wanted[-1]) == "..."
    wanted = wanted[:1] * len(argument) if of_any_length else wanted
    if len(wanted) != len(argument):
        yield place, argument, text(annotation)
        return
    for index, (entry, kind) in enumerate(zip(argument, wanted, strict=True)):
        yield from _misfits(f"{place}[{index}]", entry, text(kind), scope, again)


def _misfits_of_entries(
    place: str, argument: Mapping[object, object], annotation: ast.Subscript, scope: Mapping[str, Any]
) -> Iterator[Misfit]:
    keys, values = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else (annotation.slice,) * 2
    for key, entry in argument.items():
        yield from _misfits(f"a key of {place}", key, text(keys), scope, True)
        yield from _misfits(f"{place}[{short(key)}]", entry, text(values), scope, True)


def called(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """The name of what the user called: a method with the class of its object, a class by its own name."""
    if "." not in function.__qualname__ or not args:
        return _of_package(function)
    noun = getattr(type(args[0]), "__noun__", None)
    if function.__name__ == "__init__":
        return f"k.{noun}" if isinstance(noun, str) else type(args[0]).__name__
    kind = args[0] if isinstance(args[0], type) else type(args[0])
    owner = f"k.{noun}" if isinstance(noun, str) else getattr(kind, "__written__", kind.__name__)
    if function.__name__ == "__call__":
        return owner
    if function.__name__ in _INDEXING:
        return f"{owner}{_INDEX}"
    operator = _OPERATORS.get(function.__name__, _OPERATORS.get(function.__name__.replace("__r", "__", 1), ""))
    return f"{owner} {operator}{_OPERATOR}" if operator else f"{owner}.{function.__name__}"


_INDEXING, _BOUND = ("__getitem__", "__setitem__"), ("self", "cls")
_INDEX, _OPERATOR = "[...]", " ..."
_OPERATORS = (
    {"__add__": "+", "__sub__": "-", "__mul__": "*", "__truediv__": "/", "__floordiv__": "//", "__mod__": "%"}
    | {"__and__": "&", "__or__": "|", "__xor__": "^", "__lshift__": "<<", "__rshift__": ">>"}
    | {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">=", "__eq__": "==", "__ne__": "!="}
)


def _of_package(function: Callable[..., Any]) -> str:
    """What a user writes for a function: `nvb.attach`, of a request `nvb.mma.sync`, of a selector `nvb.mma.select`."""
    name, module = function.__qualname__, function.__module__.split(".")
    if module[1:2] == ["requests"]:
        return f"nvb.{module[2]}.{name}"
    if module[1:3] == ["isel", "select"] and name.startswith("select_"):
        return f"nvb.{module[3]}.select"
    return f"nvb.{name}" if name in sys.modules[__name__.partition(".")[0]].__all__ else name


def _diagnose(name: str, problem: str, signature: inspect.Signature, advice: str = "") -> Diagnostic:
    if advice:
        return ARGUMENT.diagnose(call=name, problem=problem, advice=advice)
    written = as_written(signature).replace(return_annotation=inspect.Signature.empty)
    if name.endswith(_INDEX):
        advice = f"write {name.removesuffix(_INDEX)}[index], with {str(written)[1:-1]}"
    elif name.endswith(_OPERATOR):
        advice = f"give it {' and '.join(shown(each.annotation.text) for each in written.parameters.values())}"
    else:
        advice = f"call it as {name}{written}"
    return ARGUMENT.diagnose(call=name, problem=problem, advice=advice)


def as_written(signature: inspect.Signature) -> inspect.Signature:
    """The signature of a call, whose text has annotations without quotes, and no `self`."""
    plain = [each.replace(annotation=_Plain(each.annotation)) for each in signature.parameters.values()]
    returned = signature.return_annotation
    return signature.replace(
        parameters=[each for each in plain if each.name not in _BOUND],
        return_annotation=_Plain(returned) if isinstance(returned, str) else returned,
    )


class _Plain:
    """An annotation that prints as it is written."""

    def __init__(self, text: object) -> None:
        self.text = str(text)

    def __repr__(self) -> str:
        return self.text
