"""Changes of classes, of their descriptors and of what typing and modules say, as the others."""

from __future__ import annotations

from tests.support.changes import KERNEL
from tests.support.compiled_again import BODY

CHANGES_OF_CLASSES: dict[str, tuple[str, str]] = {
    "a method set on an enum of numbers": (
        "import enum\nclass E(enum.IntEnum):\n    A = 1\n" + BODY + "float(E.A + 1)",
        "E.__add__ = lambda a, b: 7",
    ),
    "an enum of texts": (
        "import enum\nclass E(enum.StrEnum):\n    A = 'a'\n    B = 'bb'\ne = E.A\n" + BODY + "float(len(e))",
        "e = E.B",
    ),
    "an optional annotation": (
        "from typing import Optional\nclass C:\n    x: Optional[int] = None\n    y = 1.0\n" + BODY + "C.y",
        "C.y = 2.0",
    ),
    "a private slot": (
        "class C:\n    __slots__ = ('__x',)\n    def f(self): return self.__x\nc = C(); c._C__x = 1.0\n"
        + BODY
        + "c.f()",
        "c._C__x = 2.0",
    ),
    "a slot by another name": (
        "class B: __slots__ = ('a', 'b')\nclass C(B): x = B.a\nc = C(); c.a, c.b = 1.0, 2.0\n" + BODY + "c.x",
        "C.x = B.b",
    ),
    "which slot": (
        "class C: __slots__ = ('a', 'bc')\nS = C.a\n" + BODY + "float(len(S.__name__))",
        "S = C.bc",
    ),
    "which field of a named tuple": (
        "import collections\nP = collections.namedtuple('P', 'x y')\nF = P.x\n" + BODY + "F.__get__((1.0, 2.0))",
        "F = P.y",
    ),
    "the docstring that a field has not": (
        "import collections\nC = collections.namedtuple('C', 'x y')\nC.x.__doc__ = None\n"
        + BODY
        + "float(len(C.x.__doc__ or ''))",
        "C.x.__doc__ = 'abc'",
    ),
    "the docstring of a field": (
        "import collections\nP = collections.namedtuple('P', 'x y')\n" + BODY + "float(len(P.x.__doc__))",
        "P.x.__doc__ = 'a'",
    ),
    "which method of a text": (
        "M = str.count\n" + BODY + "float(M('aab', 'b'))",
        "M = str.find",
    ),
    "which operation of a number": (
        "M = int.__add__\n" + BODY + "float(M(2, 3))",
        "M = int.__mul__",
    ),
    "what a pattern of a class matches": (
        "class C:\n    __match_args__ = ('x',)\n    x, y = 1.0, 2.0\nc = C()\n"
        + KERNEL
        + "    match c:\n        case C(value):\n            out[0] = value",
        "C.__match_args__ = ('y',)",
    ),
    "which slots a class says it has": (
        "class C: __slots__ = ('x',)\n" + BODY + "float(len(C.__slots__))",
        "C.__slots__ = ('x', 'y')",
    ),
    "what is abstract": (
        "import abc\nclass C(abc.ABC):\n    @abc.abstractmethod\n    def f(self): pass\n"
        + KERNEL
        + "    try:\n        C()\n        out[0] = 1.0\n    except TypeError:\n        out[0] = 2.0",
        "C.__abstractmethods__ = frozenset()",
    ),
    "an alias that is unpacked": (
        "A = tuple[int]\n" + BODY + "1.0 if A.__unpacked__ else 2.0",
        "(A,) = (*A,)",
    ),
    "an attribute of a cached property": (
        "import functools\nclass C:\n    @functools.cached_property\n    def x(self): return 1.0\n"
        "C.x.users = 1.0\n" + BODY + "C.x.users",
        "C.x.users = 2.0",
    ),
    "a function of C on a class of Python's library": (
        "import fractions\nfractions.Fraction.users = len\n" + BODY + "1.0 if fractions.Fraction.users is len else 2.0",
        "fractions.Fraction.users = max",
    ),
    "the text of a module": (
        "import types\nM = types.ModuleType('M')\n" + BODY + "float(len(str(M)))",
        "M.__name__ = 'other'",
    ),
    "a module without a name": (
        "import types\nM = types.ModuleType('M'); M.x = 1.0\ndel M.__name__\n" + BODY + "M.x",
        "M.x = 2.0",
    ),
}
"""What is followed."""
UNFOLLOWED_OF_CLASSES: dict[str, tuple[str, str]] = {
    "a module's state": (
        "import types\nM = types.ModuleType('M'); M.x = 1.0\n" + BODY + "M.__getstate__()['x']",
        "M.x = 2.0",
    ),
    "the names of a module": (
        "import types\nM = types.ModuleType('M')\n" + BODY + "float(len(dir(M)))",
        "M.x = 1",
    ),
    "what a module holds, by a method that is held": (
        "import types\nM = types.ModuleType('M'); M.x = 1.0\nG = object.__getattribute__\n" + BODY + "G(M, 'x')",
        "M.x = 2.0",
    ),
    "globals by their descriptor": (
        "import types\nN = 1.0\ndef h(): pass\nG = types.FunctionType.__globals__\n" + BODY + "G.__get__(h)['N']",
        "N = 2.0",
    ),
    "what text was evaluated to": (
        "import typing\nT = int\nA = typing.ForwardRef('T')\nA._evaluate(globals(), {}, recursive_guard=frozenset())\n"
        + BODY
        + "1.0 if A.__forward_value__ is int else 2.0",
        "A.__forward_value__ = float",
    ),
    "the bases that a class statement names": (
        "import typing\nT = typing.TypeVar('T')\nclass B(typing.Generic[T]): pass\nclass C(B[int]): pass\n"
        + BODY
        + "1.0 if C.__orig_bases__ == (B[int],) else 2.0",
        "C.__orig_bases__ = (B[float],)",
    ),
}
"""What is built each time."""
