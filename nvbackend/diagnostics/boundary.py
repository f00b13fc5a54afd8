"""The boundary between a user's program and this package: the numbers that come in, what a traceback shows."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import numbers
import operator
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, NoReturn, TypeVar, cast

from nvbackend.diagnostics.annotations import NUMPY
from nvbackend.diagnostics.arguments import (
    ARGUMENT,
    MARK,
    Classes,
    Kinds,
    called,
    is_plain,
    too_deep,
    too_large,
    truth_values,
    wrong_arguments,
)
from nvbackend.diagnostics.classes.late_method import LateMethod
from nvbackend.diagnostics.diagnostic import Diagnostic, DiagnosticError
from nvbackend.diagnostics.location import is_plumbing

_Answer = TypeVar("_Answer")
_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])
_PACKAGE = __name__.partition(".")[0]
_MOST_DIGITS = "for integer string conversion"
"""What Python says of an integer of more digits than it prints."""
_BOUNDARIES = (__name__, f"{__name__.rpartition('.')[0]}.records")
"""Modules whose functions are around what a user calls."""
_OWN_BOUNDARIES: set[CodeType] = set()
"""The code of methods that are boundaries themselves."""
MISUSE = (TypeError, AttributeError, ValueError, ArithmeticError, LookupError, AssertionError, RecursionError)
"""What Python raises inside a call for an argument of the wrong type."""
_TRUTH = "value.truth"
"""What a run-time value raises there."""


_LIBRARIES = sys.stdlib_module_names | {"llvmlite", "numpy"}
"""Libraries that this package calls: their exceptions count as this package's own."""


class WrongKind(TypeError):
    """An argument of the wrong kind, seen deep inside; `diagnostic` is raised where no call around it names it."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a long run, with a line that says where it was; what had been computed stays."""


_HOLDERS = (property, staticmethod, classmethod)
"""What has functions inside."""


def user_facing(decorated: _Decorated) -> _Decorated:
    """Decorator of a class or function: a DiagnosticError that leaves it shows the user's frames and none of ours.

    Of a class, every public function is covered, also those it inherits from classes of this package: methods, static
    and class methods, the functions of properties, operators and other dunder methods, and with-blocks: those made by
    `contextlib.contextmanager`, and those that the annotation of the result names. Decorate with it outermost, above
    `dataclass`. A generator's own frames stay.
    An exception of Python's own for arguments of the wrong kind becomes `call.argument`. One that the user's code
    raises, run by this package, shows the user's frames too. Any other exception keeps its whole traceback: that one is
    a bug of ours and its inside matters.
    """
    if isinstance(decorated, type):
        for name, member in _public_members(decorated).items():
            if isinstance(member, FunctionType | LateMethod):
                if not hasattr(member, MARK):
                    setattr(decorated, name, LateBoundary(name, member))
            elif isinstance(member, _HOLDERS) and (covered := _covered(member)) is not member:
                setattr(decorated, name, covered)
        refuse_changes(decorated)
        return cast("_Decorated", decorated)
    return cast("_Decorated", _covered(decorated))


def refuse_changes(cls: Any) -> None:
    """Let objects of a frozen dataclass with slots refuse a change; Python's own form fails for a name of no field."""
    parameters = getattr(cls, "__dataclass_params__", None)
    if parameters is not None and parameters.frozen and "__slots__" in vars(cls):
        cls.__setattr__ = cls.__delattr__ = _unchanged


def _unchanged(self: object, name: str, *_: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"{type(self).__name__} cannot be changed: {name!r}")


def own_boundary(method: _Decorated) -> _Decorated:
    """Decorator of a method that a wrapper would take longer than: what leaves it, it has to `cut` itself."""
    setattr(method, MARK, True)
    _OWN_BOUNDARIES.add(method.__code__)
    return method


def _public_members(cls: type) -> dict[str, object]:
    """Public and dunder members as the class bodies define them; the nearest class wins."""
    members: dict[str, object] = {}
    for owner in reversed(cls.__mro__):
        if owner.__module__.partition(".")[0] == _PACKAGE:
            members |= vars(owner)
        else:
            members = {name: member for name, member in members.items() if name not in vars(owner)}
    return {name: member for name, member in members.items() if not name.startswith("_") or name.endswith("__")}


_NAMED_BY_PYTHON = ("__setattr__", "__delattr__", "__getattr__")
"""Methods that Python calls with the name of an attribute, which is a text."""


class LateBoundary(LateMethod):
    """A method that is wrapped at its first use. In the dictionary of its class it can be called and inspected, too."""

    __slots__ = ("__wrapped__",)
    _is_boundary = True

    def __init__(self, name: str, method: Callable[..., Any] | LateMethod) -> None:
        super().__init__(name)
        self.__wrapped__ = method

    def make(self) -> Callable[..., Any]:
        """The method in its wrapper."""
        inside = self.__wrapped__
        method = inside.method() if isinstance(inside, LateMethod) else inside
        return cast("Callable[..., Any]", _covered(method, named_by_python=self.name in _NAMED_BY_PYTHON))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.method()(*args, **kwargs)


def _covered(member: object, *, named_by_python: bool = False) -> object:
    """`member` with its functions wrapped; itself if it holds none, or only wrapped ones."""
    if isinstance(member, staticmethod | classmethod):
        inner = _covered(member.__func__)
        return member if inner is member.__func__ else type(member)(cast("Callable[..., Any]", inner))
    if isinstance(member, property):
        parts = (member.fget, member.fset, member.fdel)
        fget, fset, fdel = (cast("Any", _covered(part)) for part in parts)
        unchanged = all(map(operator.is_, (fget, fset, fdel), parts))
        return member if unchanged else property(fget, fset, fdel, member.__doc__)
    if not isinstance(member, FunctionType) or hasattr(member, MARK):
        return member
    wrapper = _cutting_blocks(member) if _makes_block(member) else _cutting(member, looks=not named_by_python)
    setattr(wrapper, MARK, True)
    return wrapper


def _makes_block(function: FunctionType) -> bool:
    """Whether it returns a with-block: one made of a generator, or what it says that it returns."""
    if hasattr(function, "__wrapped__"):
        inside = inspect.unwrap(function)
        if inspect.isgeneratorfunction(inside) and not inspect.isgeneratorfunction(function):
            return True
    return str(function.__annotations__.get("return")).startswith(AbstractContextManager.__name__)


def _cutting(function: Callable[..., Any], *, looks: bool = True) -> Callable[..., Any]:
    arguments = _Arguments(looks=looks)

    def boundary(*args: Any, **kwargs: Any) -> Any:
        try:
            try:
                right = arguments.right
                if right is not None:
                    classes: Classes = tuple(map(type, args))
                    if kwargs:
                        classes = (*classes, *kwargs, *map(type, kwargs.values()))
                    if classes not in right:
                        args, kwargs = arguments.looked_at(function, classes, args, kwargs)
                return function(*args, **kwargs)
            except Exception as error:
                refuse(error, function, args, kwargs)
                raise
        except (DiagnosticError, Interrupted) as error:
            cut(error)
            raise
        except Exception as error:
            if _is_of_users_code(error.__traceback__) and _raising_method(error, function, args) is None:
                error.with_traceback(_users_frames(error.__traceback__))
            raise

    return around(boundary, function)


class _Arguments:
    """The look at the arguments of a function. Its first call prepares it: a process calls few of what it imports."""

    __slots__ = ("_kinds", "_looks", "right")

    def __init__(self, *, looks: bool) -> None:
        self._looks = looks
        self._kinds: Kinds | None = None
        self.right: Collection[Classes] | None = ()
        """The classes of arguments that need no look; None where none do."""

    def looked_at(
        self, function: Callable[..., Any], classes: Classes, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with plain numbers. Raises call.argument."""
        kinds = self._kinds or Kinds(function, looks=self._looks)
        if not kinds.always and not kinds.may_be_odd:
            self.right = None
            return args, kwargs
        self._kinds, self.right = kinds, kinds.right
        is_odd, positional, by_name = kinds.always, args, kwargs
        if kinds.may_be_odd:
            args = plain_numbers(args)
            is_odd = is_odd or args is not positional
            if kwargs and (plain := plain_numbers(named := tuple(kwargs.values()))) is not named:
                kwargs, is_odd = dict(zip(kwargs, plain, strict=True)), True
        if not is_odd or kinds.check(args, kwargs):
            kinds.keep(classes, positional, by_name)
        return args, kwargs


def around(boundary: _Decorated, function: Callable[..., Any]) -> _Decorated:
    """`boundary`, which calls `function`, with its names: as `functools.wraps`, which takes four times as long."""
    boundary.__module__, boundary.__name__ = function.__module__, function.__name__
    boundary.__qualname__ = function.__qualname__
    boundary.__doc__, boundary.__annotations__ = function.__doc__, function.__annotations__
    vars(boundary).update(vars(function), __wrapped__=function)
    return boundary


def refuse(error: Exception, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises the diagnostics of a call that failed because of what an argument is, or does when it is asked."""
    if isinstance(error, MISUSE) or _is_of_truth(error):
        try:
            blame(error, function, args, kwargs)
        except DiagnosticError:
            raise
        except RecursionError as raised:
            blame(raised, function, args, kwargs)
        except Exception as raised:  # noqa: BLE001, an argument does what its own code says
            error = raised
    if isinstance(error, DiagnosticError) and (faults := _of_outer_call(error, function, args, kwargs)):
        raise DiagnosticError(faults) from None
    refuse_method(error, function, args)


def _of_outer_call(
    error: DiagnosticError, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Diagnostic]:
    """What is wrong with the arguments of a call that has passed them to another one, by whose name they were refused.

    The outermost call is the user's. Not where the fix says more than how the inner call is written.
    """
    name = called(function, args)
    for each in error.diagnostics:
        inner = each.values.get("call")
        if each.rule is not ARGUMENT or inner == name or not each.fix.startswith(f"call it as {inner}("):
            return []
    return wrong_arguments(function, args, kwargs)


def refuse_method(error: Exception, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Raises the diagnostic of a method of an argument that raised, where a user made the call."""
    is_told = isinstance(error, DiagnosticError) or _is_called_by_us()
    method = None if is_told else _raising_method(error, function, args)
    if method is not None:
        raise DiagnosticError([method]) from None


def _raising_method(error: Exception, function: Callable[..., Any], args: tuple[Any, ...]) -> Diagnostic | None:
    from nvbackend.diagnostics.own_methods import raising_method

    frames = [frame for frame in _frames(error.__traceback__) if _is_of_no_library(frame)]
    return raising_method(error, called(function, args), frames)


def _cutting_blocks(function: Callable[..., AbstractContextManager[Any]]) -> Callable[..., _Block]:
    make = _cutting(function)

    def boundary(*args: Any, **kwargs: Any) -> _Block:
        return _Block(make(*args, **kwargs), lambda error: refuse(error, function, args, kwargs))

    return around(boundary, function)


def blame(error: Exception, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises the diagnostics of a call that failed inside this package because of an argument's type."""
    if isinstance(error, RecursionError):
        if faults := too_deep(function, args, kwargs):
            raise DiagnosticError(faults) from None
    elif not any(map(_is_of_no_library, _frames(_users_frames(error.__traceback__)))):
        faults = wrong_arguments(function, args, kwargs) or truth_values(function, args, kwargs)
        if not faults and not _is_called_by_us():
            faults = [error.diagnostic] if isinstance(error, WrongKind) else []
            faults = too_large(function, args, kwargs) if _is_too_large(error) else faults
        if faults:
            raise DiagnosticError(faults) from None


def _is_of_truth(error: Exception) -> bool:
    """Whether a run-time value was compared where a number is wanted, which refuses its truth value."""
    return isinstance(error, DiagnosticError) and error.diagnostics[0].rule_id == _TRUTH


def _is_called_by_us() -> bool:
    """Whether the boundary that an exception has reached is around a call by this package itself."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_globals.get("__name__") in _BOUNDARIES or frame.f_code in _OWN_BOUNDARIES):
        frame = frame.f_back
    return frame is not None and is_plumbing(frame)


def _is_too_large(error: Exception) -> bool:
    """Whether Python gave up on the size of an integer: to print it, to make a float of it, or to shift by it."""
    return isinstance(error, OverflowError) or _MOST_DIGITS in str(error)


def _frames(traceback: TracebackType | None) -> Iterator[FrameType]:
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def _is_of_users_code(traceback: TracebackType | None) -> bool:
    """Whether the user's code, which this package ran, raised it: the innermost frame but for libraries is the user's.

    Not where every frame is of a library: what this package called there may be wrong.
    """
    last = None
    for frame in _frames(traceback):
        if _is_of_no_library(frame):
            last = frame
    return last is not None and not is_plumbing(last)


def is_inside_libraries(traceback: TracebackType | None) -> bool:
    """Whether no frame inside that of `traceback` is of the user's program or of this package, but for boundaries."""
    frames = itertools.islice(_frames(traceback), 1, None)
    inside = (frame for frame in frames if frame.f_globals.get("__name__") not in _BOUNDARIES)
    return not any(map(_is_of_no_library, inside))


def _is_of_no_library(frame: FrameType) -> bool:
    """Whether it is of the user's program or of this package, and not of a library that this package called."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] not in _LIBRARIES


class _Block(AbstractContextManager[Any]):
    """A with-block of ours whose entry and exit are boundaries too."""

    __slots__ = ("_inside", "_refuse")

    def __init__(self, inside: AbstractContextManager[Any], refuse: Callable[[Exception], None]) -> None:
        self._inside = inside
        self._refuse = refuse

    def __enter__(self) -> Any:
        try:
            try:
                return self._inside.__enter__()
            except (DiagnosticError, *MISUSE) as error:
                self._refuse(error)
                raise
        except DiagnosticError as error:
            cut(error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        try:
            return self._inside.__exit__(kind, error, traceback)
        except DiagnosticError as raised:
            cut(raised)
            raise

    def __repr__(self) -> str:
        return repr(self._inside)

    def __getattr__(self, name: str) -> Any:
        return self._asked(lambda inside: getattr(inside, name))

    def __iter__(self) -> Iterator[Any]:
        return self._asked(iter)

    def __bool__(self) -> bool:
        return self._asked(bool)

    def _asked(self, question: Callable[[Any], _Answer]) -> _Answer:
        """The answer of the block inside to a question of Python's own statements; it may refuse."""
        try:
            return question(self._inside)
        except DiagnosticError as error:
            cut(error)
            raise


def cut(error: BaseException) -> None:
    """Strip `error` to the user's frames, without a context of ours (a look-up that failed on the way).

    The handler that calls this ends in a bare `raise`, the only form that adds no frame of its own.
    """
    context = error.__context__
    while context is not None and _users_frames(context.__traceback__) is None:
        context = context.__context__
    error.__context__ = context
    error.with_traceback(_users_frames(error.__traceback__))


def _users_frames(traceback: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while traceback is not None:
        if not is_plumbing(traceback.tb_frame):
            kept.append(traceback)
        traceback = traceback.tb_next
    chain: TracebackType | None = None
    for entry in reversed(kept):
        chain = TracebackType(chain, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return chain


def plain_number(number: Any) -> Any:
    """A NumPy integer or float as a Python number; everything else unchanged, NumPy's truth values too."""
    if type(number).__module__ != NUMPY:
        return number
    if isinstance(number, numbers.Integral):
        return operator.index(number)
    return float(number) if isinstance(number, numbers.Real) else number


def plain_numbers(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """`arguments` with its numbers plain, and those in its tuples; itself if all that it holds is plain."""
    for argument in arguments:
        kind: Any = type(argument)
        if not is_plain(kind):
            break
    else:
        return arguments  # most calls, and every operator of a value comes here
    return tuple(
        tuple(map(plain_number, entry)) if type(entry) is tuple else plain_number(entry) for entry in arguments
    )
