"""What a user sees of a mistake of theirs: their own lines, whatever of ours is in between."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend.diagnostics import DiagnosticError, Location, user_facing
from nvbackend.layout import Layout
from tests.support.process import run_python

LIBRARY = '''
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from nvbackend.diagnostics import Rule, caller_location, user_facing

RULE = Rule("made-up.rule", "bad {what}", "do it right", "it goes wrong", "nowhere")

class Inherited:
    def inherited(self):
        self._deep()

    def overridden(self):
        self._deep()

@user_facing
class Tool(Inherited):
    def __init__(self, fine=True):
        if not fine:
            RULE.fail(what="init")

    def method(self):
        """Docstring."""
        self._deep()

    def _deep(self):
        (lambda: RULE.fail(what="method"))()

    def overridden(self):
        super().overridden()

    @staticmethod
    def static(value):
        RULE.fail(what=value)

    @classmethod
    def made(cls):
        RULE.fail(what=cls.__name__)

    @property
    def shape(self):
        """The shape."""
        self._deep()

    @shape.setter
    def shape(self, value):
        RULE.fail(what=value)

    def __add__(self, other):
        self._deep()

    def __getitem__(self, index):
        self._deep()

    @contextmanager
    def entering(self):
        RULE.fail(what="enter")
        yield

    @contextmanager
    def leaving(self):
        yield
        RULE.fail(what="exit")

    @contextmanager
    def block(self):
        yield self

    def call(self, function):
        return function(self)

    def looked_up(self):
        try:
            {}["key"]
        except KeyError:
            RULE.fail(what="key")

    def bug(self):
        return {}["key"]

    def one(self, given):
        return given

    def places(self, *given):
        return given[0]

    def names(self, **given):
        return given["one"]

    def where(self):
        return caller_location()

    @contextmanager
    def where_block(self):
        yield caller_location()

@user_facing
@dataclass(frozen=True, slots=True)
class Checked:
    value: int

    def __post_init__(self):
        if self.value < 0:
            RULE.fail(what=self.value)

@user_facing
def function(value):
    RULE.fail(what=value)

@user_facing
def place():
    return caller_location()

partial_place = partial(place)
'''


@pytest.fixture(scope="module")
def library() -> Iterator[dict[str, Any]]:
    """LIBRARY as if it were a module of the package."""
    module = ModuleType("nvbackend.made_up")
    sys.modules[module.__name__] = module
    exec(compile(LIBRARY, "nvbackend/made_up.py", "exec", dont_inherit=True), vars(module))
    yield vars(module)
    del sys.modules[module.__name__]


def _setattr(tool: Any) -> None:
    tool.shape = 4


def _entering(tool: Any) -> None:
    with tool.entering():
        pass


def _leaving(tool: Any) -> None:
    with tool.leaving():
        pass


def _nested(tool: Any) -> None:
    with tool.block() as inner, inner.block(), tool.block():
        tool.method()


def _stacked(tool: Any) -> None:
    with ExitStack() as stack:
        stack.enter_context(tool.block())
        stack.enter_context(tool.entering())


MISTAKES: dict[str, Callable[[Any], object]] = {
    "method": lambda tool: tool.method(),
    "inherited": lambda tool: tool.inherited(),
    "super": lambda tool: tool.overridden(),
    "static": lambda tool: tool.static(3),
    "static on the class": lambda tool: type(tool).static(3),
    "class method": lambda tool: type(tool).made(),
    "constructor": lambda tool: type(tool)(fine=False),
    "property": lambda tool: tool.shape,
    "property setter": _setattr,
    "operator": lambda tool: tool + 1,
    "item": lambda tool: tool[1],
    "entering a block": _entering,
    "leaving a block": _leaving,
    "in nested blocks": _nested,
    "on an exit stack": _stacked,
    "after a look-up of ours": lambda tool: tool.looked_up(),
    "in a function that we call": lambda tool: tool.call(lambda inner: inner.method()),
}


def _raised(mistake: Callable[[], object]) -> DiagnosticError:
    with pytest.raises(DiagnosticError) as raised:
        mistake()
    return raised.value


def _foreign(error: BaseException) -> list[str]:
    """The frames of `error` that are in no test file."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename}:{frame.lineno}" for frame in frames if "/tests/" not in frame.filename]


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_only_the_users_frames_are_shown(mistake: Callable[[Any], object], library: dict[str, Any]) -> None:
    error = _raised(lambda: mistake(library["Tool"]()))
    standard = [frame for frame in _foreign(error) if "contextlib" not in frame]
    assert standard == []
    frames = traceback.extract_tb(error.__traceback__)
    assert mistake.__code__.co_firstlineno <= (frames[-1].lineno or 0)
    assert error.__context__ is None
    (diagnostic,) = error.diagnostics
    assert diagnostic.location is not None
    assert diagnostic.location.file == __file__
    lines, first = inspect.getsourcelines(mistake)
    assert first <= diagnostic.location.line < first + len(lines)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: nvb.MathPolicy(contract=3),  # type: ignore[arg-type]
        lambda: nvb.Scalar(nvb.i32, minimum=5, maximum=2),
        lambda: nvb.SmemLayout(nvb.Major.K, nvb.SwizzleMode.B128, nvb.f16, 63, 64),
        lambda: Layout((2, 3), (1,)),
    ],
)
def test_a_record_that_is_wrong_shows_the_users_frames_alone(mistake: Callable[[], object]) -> None:
    assert _foreign(_raised(mistake)) == []


def test_a_boundary_inside_a_boundary_keeps_the_users_frame_between_them(library: dict[str, Any]) -> None:
    def kernel(tool: Any) -> None:
        tool.method()

    error = _raised(lambda: library["Tool"]().call(kernel))
    assert _foreign(error) == []
    assert traceback.extract_tb(error.__traceback__)[-1].name == "kernel"


def test_what_another_class_defines_is_not_covered(library: dict[str, Any]) -> None:
    """Of a method that a base class of somebody else's hides, the one that is called stays as it is."""

    def inherited(_: object) -> str:
        return "theirs"

    theirs = type("Theirs", (), {"inherited": inherited})
    own = {"__module__": library["__name__"], "_deep": library["Tool"]._deep}
    for bases in ((theirs, library["Inherited"]), (library["Inherited"], theirs)):
        tool = user_facing(type("Mixed", bases, dict(own)))()
        assert not _foreign(_raised(tool.overridden))
        if bases[0] is theirs:
            assert tool.inherited() == "theirs"
            assert type(tool).inherited is inherited
        else:
            assert not _foreign(_raised(tool.inherited))


def test_functions_and_dataclasses(library: dict[str, Any]) -> None:
    for mistake in (lambda: library["function"](7), lambda: library["Checked"](-1)):
        error = _raised(mistake)
        assert _foreign(error) == []
        assert error.diagnostics[0].location is not None
        assert error.diagnostics[0].location.line == mistake.__code__.co_firstlineno
    assert library["Checked"](3) == library["Checked"](3)


def test_a_users_exception_stays_the_context(library: dict[str, Any]) -> None:
    def mistake() -> None:
        try:
            _ = 1 // 0
        except ZeroDivisionError:
            library["Tool"]().looked_up()

    error = _raised(mistake)
    assert type(error.__context__) is ZeroDivisionError
    assert not error.__suppress_context__


def test_a_bug_of_ours_keeps_its_inside(library: dict[str, Any]) -> None:
    with pytest.raises(KeyError) as raised:
        library["Tool"]().bug()
    assert any("made_up" in frame for frame in _foreign(raised.value))


def test_a_users_exception_passes_through_blocks_unchanged(library: dict[str, Any]) -> None:
    mistake = ZeroDivisionError("the user's")
    with pytest.raises(ZeroDivisionError) as raised, library["Tool"]().block():
        raise mistake
    assert raised.value is mistake
    assert _foreign(mistake) == []


def test_a_users_exception_shows_the_users_frames_alone(library: dict[str, Any]) -> None:
    def kernel(_: Any) -> float:
        return 1 / 0

    with pytest.raises(ZeroDivisionError) as raised:
        library["Tool"]().call(kernel)
    assert _foreign(raised.value) == []
    assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "kernel"


def test_what_may_be_the_users_own_is_passed_on_unchanged(library: dict[str, Any]) -> None:
    """Numbers of NumPy become plain where the library asked for them, and not among any number of arguments."""
    tool, number = library["Tool"](), np.int64(3)
    assert type(tool.one(number)) is type(tool.one(given=number)) is int
    assert tool.places(number) is tool.names(one=number) is number


def test_what_is_decorated_stays_what_it_was(library: dict[str, Any]) -> None:
    tool = library["Tool"]
    assert tool.method.__doc__ == "Docstring."
    assert tool.method.__name__ == "method"
    assert tool.shape.__doc__ == "The shape."
    assert str(inspect.signature(tool.static)) == "(value)"
    assert str(inspect.signature(tool)) == "(fine=True)"
    assert "inherited" in vars(tool)
    assert vars(library["Inherited"])["inherited"] is not vars(tool)["inherited"]
    assert [field.name for field in dataclasses.fields(library["Checked"])] == ["value"]


def test_decorating_twice_wraps_once(library: dict[str, Any]) -> None:
    before = dict(vars(library["Tool"]))
    assert user_facing(library["Tool"]) is library["Tool"]
    assert dict(vars(library["Tool"])) == before


def test_a_method_is_wrapped_at_its_first_use() -> None:
    """As it is in the dictionary of its class before, it can be asked and called as the method can."""

    @user_facing
    class Tool:
        """Its method is inherited."""

        __module__ = "nvbackend.made_up"

        def method(self, one: int) -> int:
            return one

    @user_facing
    class Other(Tool):
        """Has the method of the other class."""

        __module__ = "nvbackend.made_up"

    late: Any = vars(Tool)["method"]
    assert late.made is None
    assert "method" not in vars(Other), "it is covered already"
    assert str(inspect.signature(late)) == "(self, one: 'int') -> 'int'"
    assert late(Tool(), 1) == 1
    once = late.made
    assert Other().method(1) == 1
    assert vars(Tool)["method"] is Other.method is once
    with pytest.raises(DiagnosticError, match=r"call\.argument.*Other\.method: one must be int, not True"):
        Other().method(True)


def test_values_and_blocks_come_through(library: dict[str, Any]) -> None:
    tool = library["Tool"]()
    assert tool.call(lambda inner: inner) is tool
    with tool.block() as inner:
        assert inner is tool


def _line() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_the_place_is_the_innermost_line_of_the_user(library: dict[str, Any]) -> None:
    tool = library["Tool"]()
    places = [
        (_line(), library["place"]()),
        (_line(), library["partial_place"]()),
        (_line(), tool.where()),
        (_line(), tool.call(lambda inner: inner.where())),
    ]
    with tool.block(), tool.block(), tool.where_block() as place:
        places.append((_line() - 1, place))
    for line, found in places:
        assert isinstance(found, Location)
        assert (found.file, found.line) == (__file__, line)
    assert places[0][1].function == "test_the_place_is_the_innermost_line_of_the_user"
    assert places[0][1].source == '(_line(), library["place"]()),'


def test_code_without_a_file_is_the_users_too() -> None:
    code = (
        "from nvbackend.isel.target.target import Target\n\n\ndef build():\n    Target.parse('sm_90b')\n\n\nbuild()\n"
    )
    done = run_python(code)
    assert done.returncode == 1
    assert "  at <string>:5\n" in done.stderr
    assert "nvbackend.DiagnosticError: error[target.unknown]: 'sm_90b'" in done.stderr
    assert [line.strip() for line in done.stderr.splitlines() if line.strip().startswith("File")] == [
        'File "<string>", line 8, in <module>',
        'File "<string>", line 5, in build',
    ]
