"""Two programs that differ in anything that a function reads have contents apart, and equal ones have one.

The witness is a small model: values made at random, and beside each what it is as text, which says where each part
ends. Then the content of one function over a global is equal exactly where the text is.
"""

from __future__ import annotations

import builtins
import collections
import enum
import functools
import io
import itertools
import math
import pathlib
import random
import sys
import time
import types
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.again import objects, reads
from nvbackend.builder.kernel.again.reads import Content, Reads, UnknownRead

ROUNDS = 300


class Plain:
    """Has what is set on it."""


class Other:
    """The same as another class."""


class Slotted:
    """Has up to three attributes."""

    __slots__ = ("a", "b", "c")


class Hue(enum.Enum):
    RED = 2
    BLUE = 3


Pair = collections.namedtuple("Pair", "left right")
NAMES = ("a", "b", "c")
WORDS: tuple[Any, ...] = (
    1,
    True,
    1.0,
    -0.0,
    0.0,
    1j,
    "a",
    b"a",
    None,
    ...,
    Hue.RED,
    Hue.BLUE,
    nvb.Major.K,
    nvb.Major.MN,
    Plain,
    Slotted,
    int,
)


def of_a_cell(value: Any) -> Callable[[], Any]:
    def inner() -> Any:
        return value

    return inner


def with_attributes(made: Any, attributes: dict[str, Any]) -> Any:
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def function_of(values: list[Any], attributes: dict[str, Any], annotations: dict[str, Any]) -> Any:
    def inner(x: Any = None, *, y: Any = None) -> None: ...

    inner.__defaults__, inner.__kwdefaults__ = (values[0],), {"y": values[1]}
    inner.__annotations__ = annotations
    return with_attributes(inner, attributes)


class Maker:
    """Values at random, of which no part is in two places."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, depth: int) -> tuple[Any, str]:
        """A value and what it is."""
        if depth == 0 or self.random.random() < 0.25:
            word = self.random.choice(WORDS)
            return word, repr(word)
        kind = self.random.choice(sorted(MAKERS))
        value, said = MAKERS[kind](self, depth - 1)
        return value, f"{kind}<{said}>"

    def values(self, depth: int, count: int | None = None) -> tuple[list[Any], str]:
        pairs = [self.value(depth) for _ in range(self.random.randrange(3) if count is None else count)]
        return [value for value, _ in pairs], ";".join(said for _, said in pairs)

    def named(self, depth: int) -> tuple[dict[str, Any], str]:
        names = self.random.sample(NAMES, self.random.randrange(3))
        values, said = self.values(depth, len(names))
        return dict(zip(names, values, strict=True)), f"{names}{said}"


def of_values(make: Callable[..., Any], count: int | None = None) -> Callable[[Maker, int], tuple[Any, str]]:
    def made(maker: Maker, depth: int) -> tuple[Any, str]:
        values, said = maker.values(depth, count)
        return make(*values), said

    return made


def of_named(make: Callable[[dict[str, Any]], Any]) -> Callable[[Maker, int], tuple[Any, str]]:
    def made(maker: Maker, depth: int) -> tuple[Any, str]:
        named, said = maker.named(depth)
        return make(named), said

    return made


def a_function(maker: Maker, depth: int) -> tuple[Any, str]:
    values, said = maker.values(depth, 2)
    attributes, more = maker.named(depth)
    annotations, most = maker.named(depth)
    return function_of(values, attributes, annotations), f"{said}|{more}|{most}"


def a_partial(maker: Maker, depth: int) -> tuple[Any, str]:
    values, said = maker.values(depth)
    named, more = maker.named(depth)
    attributes, most = maker.named(depth)
    return with_attributes(functools.partial(len, *values, **named), attributes), f"{said}|{more}|{most}"


MAKERS: dict[str, Callable[[Maker, int], tuple[Any, str]]] = {
    "list": of_values(lambda *values: list(values)),
    "tuple": of_values(lambda *values: (*values,)),
    "dictionary": of_named(dict),
    "a view": of_named(types.MappingProxyType),
    "an instance": of_named(lambda named: with_attributes(Plain(), named)),
    "another instance": of_named(lambda named: with_attributes(Other(), named)),
    "slots": of_named(lambda named: with_attributes(Slotted(), dict(sorted(named.items())))),
    "a named tuple": of_values(Pair, 2),
    "a slice": of_values(slice, 3),
    "a property": of_values(property, 3),
    "an alias": of_values(lambda *values: types.GenericAlias(list, values)),
    "annotated": of_values(lambda value: Annotated[int, [value], 7], 1),
    "a cell": of_values(of_a_cell, 1),
    "a function": a_function,
    "a partial": a_partial,
    "a static method": of_named(lambda named: with_attributes(staticmethod(len), named)),
}


READS = Reads()


def reading(body: str) -> tuple[types.FunctionType, dict[str, Any]]:
    """A function of the user's and its globals, which are the program's."""
    members: dict[str, Any] = {"__name__": "users"}
    exec(f"def reading():\n    {body}", members)
    return members["reading"], members


FUNCTION, GLOBALS = reading("return V")


def parts_of(value: Any) -> tuple[object, ...]:
    GLOBALS["V"] = value
    return READS.of(FUNCTION, (), ()).parts


def test_contents_are_equal_exactly_where_what_is_read_is() -> None:
    by_text: dict[str, set[object]] = collections.defaultdict(set)
    by_parts: dict[object, set[str]] = collections.defaultdict(set)
    for seed, depth in itertools.product(range(ROUNDS), (1, 2, 3)):
        value, said = Maker(seed).value(depth)
        parts = parts_of(value)
        by_text[said].add(parts)
        by_parts[parts].add(said)
        assert parts_of(Maker(seed).value(depth)[0]) == parts, said
    assert [said for said, parts in by_text.items() if len(parts) > 1] == []
    assert [said for said in by_parts.values() if len(said) > 1] == []
    assert {kind for kind in MAKERS if any(said.startswith(kind) for said in by_text)} == set(MAKERS)


@pytest.mark.parametrize("number", range(1, 4))
def test_which_of_several_objects_has_an_attribute_is_read(number: int) -> None:
    """Nothing else tells these apart: the objects hold one another, and what is in them is the same."""

    def chain(place: int) -> Plain:
        objects = [Plain() for _ in range(4)]
        for above, below in itertools.pairwise(objects):
            above.below = below  # type: ignore[attr-defined]
        objects[place].mark = 7  # type: ignore[attr-defined]
        return objects[0]

    assert parts_of(chain(number)) == parts_of(chain(number)) != parts_of(chain(number - 1))


def test_which_of_two_modules_has_a_name_is_read() -> None:
    modules = [types.ModuleType(name) for name in "ab"]
    function, members = reading("return [each.N for each in V if each.N]")
    members["V"] = modules
    vars(modules[0])["N"] = 1.0
    first = READS.of(function, (), ()).parts
    vars(modules[1])["N"] = vars(modules[0]).pop("N")
    assert READS.of(function, (), ()).parts != first


PROGRAMS: dict[str, tuple[str, str, str]] = {
    "which global is missing": ("return A, B", "A = 1.0", "B = 1.0"),
    "which name of Python's is there": ("return users_a, users_b", "b.users_a = 1.0", "b.users_b = 1.0"),
    "what a name of Python's is": ("return users_a", "b.users_a = 1.0", "b.users_a = 2.0"),
    "the folder of an imported module": (
        "import users_m.part\n    return users_m.N",
        "sys.modules['users_m'].N = 1.0",
        "sys.modules['users_m'].N = 2.0",
    ),
    "what a module does for names that it has not": (
        "return M.N",
        "M = types.ModuleType('M'); M.__getattr__ = lambda name: 1.0",
        "M.__getattr__ = lambda name: 2.0",
    ),
    "which module": ("return M", "M = types.ModuleType('M')", "M = types.ModuleType('M')"),
    "whose boundary": (
        "return F()",
        "F = lambda: 1.0; F.__wrapped__ = F._is_boundary = F",
        "G = lambda: 2.0; G.__wrapped__ = F.__wrapped__; G._is_boundary = F; F.__code__ = G.__code__",
    ),
    "what a boundary of the user's holds": (
        "return F()",
        "def made(x):\n    return lambda: x\nH = print.__class__\nF = made(1.0)\nF.__wrapped__ = F._is_boundary = len",
        "F.__closure__[0].cell_contents = 2.0",
    ),
    "an attribute that only a module's function names": (
        "return M.f()",
        "M = types.ModuleType('M'); M.f = lambda: M.N; M.N = 1.0",
        "M.N = 2.0",
    ),
    "what a partial calls": (
        "return P(1)",
        "import functools; P = functools.partial(float)",
        "P = functools.partial(int)",
    ),
    "what a static method calls": (
        "return S()",
        "from functools import partial; S = staticmethod(partial(float, 2))",
        "S = staticmethod(partial(float, 3))",
    ),
    "which class of Python's": ("return C()", "import itertools; C = itertools.chain", "C = itertools.cycle"),
    "which number of Python's": ("return C()", "C = int", "C = float"),
    "what a class calls its attribute": ("return C", "class C: pass\nC.a = 1.0", "del C.a; C.b = 1.0"),
    "which function of ours that keeps its results": (
        "return F()",
        "from nvbackend.diagnostics import arguments; F = arguments.is_plain",
        "F = arguments.was_compared",
    ),
    "which function of C": ("return F(1)", "import math; F = math.sin", "F = math.cos"),
    "what Python's library wraps": (
        "return F()",
        "import contextlib\nN = 1.0\n@contextlib.contextmanager\ndef F():\n    yield N",
        "N = 2.0",
    ),
}


@pytest.fixture
def outside() -> Iterator[None]:
    """Names and modules of the program's, taken away again."""
    yield
    for name in ("users_a", "users_b"):
        vars(builtins).pop(name, None)
    for name in ("users_m", "users_m.part"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("what", PROGRAMS)
def test_programs_that_differ_in_one_thing_are_told_apart(what: str) -> None:
    body, first, second = PROGRAMS[what]
    function, members = reading(body)
    members.update(b=builtins, sys=sys, types=types)
    for name in ("users_m", "users_m.part"):
        sys.modules[name] = types.ModuleType(name)
    contents = []
    for text in (first, second):
        for name in ("A", "users_a"):
            members.pop(name, None)
            vars(builtins).pop(name, None)
        exec(text, members)
        contents.append(READS.of(function, (), ()).parts)
        assert READS.of(function, (), ()).parts == contents[-1]
    assert contents[0] != contents[1]


def test_settings_and_the_place_count_and_only_the_place_does_not_last() -> None:
    def of(settings: object, place: object) -> Content:
        return READS.of(FUNCTION, (), settings, place)

    path = pathlib.Path("a.cubin")
    first, *others = of((path, 3), [5]), of((path, 7), [5]), of((path, 3), [11]), of((path.with_name("b"), 3), [5])
    assert of((path, 3), [5]).parts == first.parts
    assert [each.parts != first.parts for each in others] == [True] * 3
    assert [each.parts[: each.lasts] != first.parts[: first.lasts] for each in others] == [True, False, True]
    with pytest.raises(UnknownRead, match="Path"):
        READS.of(FUNCTION, (path,), ())


def test_what_is_named_is_where_its_parts_are_and_what_is_read_is_kept() -> None:
    held, pointer = [[3], [5]], nvb.Pointer(nvb.f32)
    GLOBALS["V"] = [held, pointer, FUNCTION]
    content = READS.of(FUNCTION, (), ())
    assert {id(held), id(held[0]), id(held[1])} <= {id(each) for each in content.kept}
    named = {value: content.parts[place] for place, value in content.named if isinstance(value, Content)}
    constant = READS.constant(pointer)
    assert constant is not None
    assert named[constant] == constant.parts
    assert (FUNCTION.__code__, id(FUNCTION.__code__)) in [(each, content.parts[at]) for at, each in content.named]


def test_as_many_values_as_are_followed_and_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(count: int) -> int:
        GLOBALS["V"] = [[] for _ in range(count)]
        return len(READS.of(FUNCTION, (), ()).kept)

    most = look(5)
    monkeypatch.setattr(reads, "MOST_VALUES", most)
    assert look(5) == most
    with pytest.raises(UnknownRead, match=rf"^more than {most} values$"):
        look(6)


@pytest.mark.parametrize("body", ["return getattr(M, NAME)", "return vars(M)[NAME]"])
def test_names_made_at_run_time_are_unknown_of_modules_of_the_users_alone(body: str) -> None:
    function, members = reading(body)
    members.update(NAME="N", M=types.ModuleType("users_m"))
    with pytest.raises(UnknownRead, match="users_m, by names made at run time"):
        READS.of(function, (), ())
    members["M"] = math
    assert READS.of(function, (), ()).parts


class OwnError(ValueError):
    """Of the user's."""


class OwnDict(dict[str, int]):
    """Of the user's."""


CLAIMED: Any = types.new_class("dict", (dict,))
FOLLOWED = [len, math.sqrt, dict.fromkeys, int.from_bytes, ValueError, OwnError, getattr, Plain(), 1j]
NOT_FOLLOWED = [open, eval, id, [].append, {}.get, OwnDict.fromkeys, collections.OrderedDict.fromkeys, OwnDict()]
NOT_FOLLOWED += [ValueError.__new__, int.__subclasses__, typing.ForwardRef, io.StringIO, memoryview]
NOT_FOLLOWED += [CLAIMED.fromkeys]  # says that it is Python's own
NOT_FOLLOWED += [functools.cache(len), functools.cache(reading), itertools.count(), random.random, time.time]


def shown(value: object) -> str:
    """Without the address, which is another one in each process."""
    return repr(value).partition(" at 0x")[0]


@pytest.mark.parametrize("value", FOLLOWED, ids=shown)
def test_what_follows_from_its_arguments_is_known(value: Any) -> None:
    assert parts_of(value) == parts_of(value)


@pytest.mark.parametrize("value", NOT_FOLLOWED, ids=shown)
def test_what_holds_or_reads_more_is_unknown(value: Any) -> None:
    with pytest.raises(UnknownRead):
        parts_of(value)


@pytest.mark.parametrize(
    ("cls", "hidden"),
    [
        (object, False),
        (Plain, False),
        (Slotted, False),
        (complex, False),  # real and imag are slots
        (types.new_class("Weak", (), {}, lambda names: names.update(__slots__=("a", "__weakref__"))), False),
        (types.CellType, True),
        (int, True),
        (tuple, True),
        (bytes, True),
        (OwnDict, True),
        (types.new_class("Number", (int,)), True),
        (itertools.count, True),
    ],
)
def test_classes_of_c_hide_what_their_slots_do_not_say(cls: type, hidden: bool) -> None:
    assert objects.hides(cls, len(objects.slots_of(cls))) is hidden


def test_what_a_method_of_ours_has_learnt_of_its_arguments_is_not_read() -> None:
    method = nvb.Pointer.__init__
    before = parts_of(method)
    nvb.Pointer(nvb.f64, align=8)
    assert parts_of(method) == before


def test_what_an_object_of_ours_has_worked_out_of_the_rest_is_not_read() -> None:
    @nvb.kernel("sm_80", threads=32)
    def other(k: Any, out: nvb.Pointer[nvb.f32]) -> None:
        out[0] = 1.0

    names = [name for name, member in vars(type(other)).items() if isinstance(member, functools.cached_property)]
    before = parts_of(other)
    assert [getattr(other, name) for name in names]
    assert set(names) <= set(vars(other))
    assert parts_of(other) == before
