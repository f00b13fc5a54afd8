"""What a kernel's function reads is compared before a kernel that was compiled before is given again.

The witness is the build itself: whatever was changed, `compile` gives the IR of a new `build`.
"""

from __future__ import annotations

import copyreg
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.definition import KernelDefinition
from tests.support.compiled_again import BODY, HEAD, OUT, Runs, classes_as_they_are, compiled, defined, in_module

Case = tuple[KernelDefinition, Callable[[], object]]
"""A kernel, and what changes something that it reads."""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


TEXTS = {
    "a global": ("N = 1.0\n" + BODY + "N", "N = 2.0"),
    "a global of a helper": ("N = 1.0\ndef h(): return N\n" + BODY + "h()", "N = 2.0"),
    "a global of a helper's helper": ("N = 1.0\ndef g(): return N\ndef h(): return g()\n" + BODY + "h()", "N = 2.0"),
    "a helper": ("def h(): return 1.0\n" + BODY + "h()", "def h(): return 2.0"),
    "a helper's default": ("def h(x=1.0): return x\n" + BODY + "h()", "h.__defaults__ = (2.0,)"),
    "a helper's keyword": ("def h(*, x=1.0): return x\n" + BODY + "h()", "h.__kwdefaults__['x'] = 2.0"),
    "a module's module": (
        "import types\nC, D = map(types.ModuleType, 'cd')\nC.E, D.N = D, 1.0\ndel D\n" + BODY + "C.E.N",
        "C.E.N = 2.0",
    ),
    "a helper's attribute": ("def h(): return h.x\nh.x = 1.0\n" + BODY + "h()", "h.x = 2.0"),
    "a helper's code": ("def h(): return 1.0\ndef g(): return 2.0\n" + BODY + "h()", "h.__code__ = g.__code__"),
    "an annotation that is an object": (
        "def f(k, out: nvb.Pointer[f32]): out[0] = 1.0\nkernel = nvb.kernel('sm_80', threads=32)(f)",
        "f.__annotations__['out'] = nvb.Pointer(nvb.f64)",
    ),
    "a list": ("L = [1.0]\n" + BODY + "L[0]", "L[0] = 2.0"),
    "which of two lists": ("A, B = [1.0], [2.0]\nL = [A, B, A]\n" + BODY + "L[2][0]", "L[2] = B"),
    "a list in a dictionary": ("D = {'a': [1.0, 1.0]}\n" + BODY + "D['a'][1]", "D['a'][1] = 2.0"),
    "a key": ("D = {'a': 1.0}\n" + BODY + "float(len(list(D)[0]))", "D.clear(); D['bc'] = 1.0"),
    "the order of a dictionary": ("D = {1.0: 0, 2.0: 0}\n" + BODY + "list(D)[0]", "D.pop(1.0); D[1.0] = 0"),
    "a set": ("S = {1.0}\n" + BODY + "sum(S)", "S.add(2.0)"),
    "a sign of zero": ("N = 0.0\n" + BODY + "N", "N = -0.0"),
    "a part of a complex number": ("L = [1.0j]\n" + BODY + "L[0].imag", "L[0] = 2.0j"),
    "a sign of a complex number's zero": ("L = [1.0j]\n" + BODY + "L[0].real", "L[0] = complex(-0.0, 1.0)"),
    "a kind of number": ("N = 1\n" + BODY + "float(isinstance(N, bool))", "N = True"),
    "a range": ("R = range(1, 3)\n" + BODY + "float(R[0])", "R = range(2, 3)"),
    "a nested function's global": ("N = 1.0\n" + BODY + "(lambda: (lambda: N)())()", "N = 2.0"),
    "a lambda in a list": ("L = [lambda: 1.0]\n" + BODY + "L[0]()", "L[0] = lambda: 2.0"),
    "a partial": (
        "import functools\nP = functools.partial(float, 1)\n" + BODY + "P()",
        "P = functools.partial(float, 2)",
    ),
    "a class's attribute": ("class C:\n    x = 1.0\n" + BODY + "C.x", "C.x = 2.0"),
    "a base's attribute": ("class B:\n    x = 1.0\nclass C(B): pass\n" + BODY + "C.x", "B.x = 2.0"),
    "which class of ours": ("T = nvb.Pointer\n" + BODY + "float(len(str(T)))", "T = nvb.TensorMap"),
    "a method": ("class C:\n    def f(self): return 1.0\n" + BODY + "C().f()", "C.f = lambda self: 2.0"),
    "a method's global": ("N = 1.0\nclass C:\n    def f(self): return N\nc = C()\n" + BODY + "c.f()", "N = 2.0"),
    "a static method": (
        "class C:\n    @staticmethod\n    def f(): return 1.0\n" + BODY + "C.f()",
        "C.f = staticmethod(lambda: 2.0)",
    ),
    "an instance's attribute": (
        "class C:\n    def __init__(self): self.x = 1.0\nc = C()\n" + BODY + "c.x",
        "c.x = 2.0",
    ),
    "a slot": ("class C:\n    __slots__ = ('x',)\nc = C()\nc.x = 1.0\n" + BODY + "c.x", "c.x = 2.0"),
    "a slot that is set later": (
        "class C: __slots__ = ('x', 'y')\nc = C()\nc.x = 1.0\n" + BODY + "getattr(c, 'y', c.x)",
        "c.y = 2.0",
    ),
    "an instance's property": (
        "class C:\n    y = 1.0\n    @property\n    def x(self): return self.y\nc = C()\n" + BODY + "c.x",
        "C.x = property(lambda self: 2.0)",
    ),
    "an instance's cached property": (
        "import functools\nclass C:\n    y = 1.0\n    @functools.cached_property\n    def x(self): return self.y\n"
        + BODY
        + "C().x",
        "C.y = 2.0",
    ),
    "a cached property": (
        "import functools\nclass C:\n    @functools.cached_property\n    def x(self): return 1.0\n" + BODY + "C().x",
        "C.x = functools.cached_property(lambda self: 2.0); C.x.__set_name__(C, 'x')",
    ),
    "a callable's alias": (
        "import collections.abc\nF = collections.abc.Callable[[int], int]\n" + BODY + "float(len(F.__args__))",
        "F = collections.abc.Callable[[int, int], int]",
    ),
    "a list's alias": ("F = list[int]\n" + BODY + "float(F.__args__[0] is int)", "F = list[float]"),
    "an attribute of an attribute": (
        "class C: pass\nc = C()\nc.d = C()\nc.d.x = 1.0\n" + BODY + "c.d.x",
        "c.d.x = 2.0",
    ),
    "attributes by name": ("class C: pass\nc = C()\nc.x = 1.0\n" + BODY + "getattr(c, 'x')", "c.x = 2.0"),
    "a bound method": (
        "class C:\n    def f(self): return self.x\nc = C()\nc.x = 1.0\nf = c.f\n" + BODY + "f()",
        "c.x = 2.0",
    ),
    "a dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n    x: float = 1.0\nc = C()\n" + BODY + "c.x",
        "c.x = 2.0",
    ),
    "a frozen dataclass": (
        "import dataclasses\n@dataclasses.dataclass(frozen=True, slots=True)\nclass C:\n    x: float = 1.0\nc = C()\n"
        + BODY
        + "c.x",
        "c = C(2.0)",
    ),
    "a named tuple": (
        "import collections\nC = collections.namedtuple('C', 'x y')\nc = C(0.0, 1.0)\n" + BODY + "c.y",
        "c = C(0.0, 2.0)",
    ),
    "an annotation of a named tuple": (
        "import typing\nclass C(typing.NamedTuple):\n    x: 'int'\n"
        + BODY
        + "float(len(C.__annotations__['x'].__forward_arg__))",
        "C.__annotations__['x'] = typing.ForwardRef('float')",
    ),
    "a typed named tuple": (
        "import typing\nclass C(typing.NamedTuple):\n    x: 'float'\nc = C(1.0)\n" + BODY + "c.x",
        "c = C(2.0)",
    ),
    "an enum's member": (
        "import enum\nclass E(enum.Enum):\n    A = 1.0\n    B = 2.0\ne = E.A\n" + BODY + "e.value",
        "e = E.B",
    ),
    "an attribute of a member": (
        "import enum\nclass E(enum.Enum):\n    A = 1\nE.A.width = 1.0\n" + BODY + "E.A.width",
        "E.A.width = 2.0",
    ),
    "an annotation of a helper": (
        "def h(x: 1.0): pass\n" + BODY + "h.__annotations__['x']",
        "h.__annotations__['x'] = 2.0",
    ),
    "what is registered on a class": (
        "import abc\nclass A(abc.ABC): pass\nclass B: pass\n" + BODY + "float(isinstance(B(), A))",
        "A.register(B)",
    ),
    "what is registered on a class of Python's": (
        "import numbers\nclass B: pass\n" + BODY + "float(isinstance(B(), numbers.Real))",
        "numbers.Real.register(B)",
    ),
    "on what a class is registered, which nothing names": (
        "import collections.abc\nclass B:\n    def __len__(self): return 0\nb = B()\n"
        + HEAD
        + "def kernel(k, out: nvb.Pointer[f32]):\n    match b:\n"
        + "        case []:\n            out[0] = 2.0\n        case _:\n            out[0] = 1.0",
        "collections.abc.Sequence.register(B)",
    ),
    "a class that says it is of Python's": (
        "import types\nC = types.new_class('C', (), {}, lambda names: names.update(x=1.0))\n" + BODY + "C.x",
        "C.x = 2.0",
    ),
    "an attribute of a partial": (
        "import functools\nP = functools.partial(len)\nP.x = 1.0\n" + BODY + "P.x",
        "P.x = 2.0",
    ),
    "an attribute of a static method": ("S = staticmethod(len)\nS.x = 1.0\n" + BODY + "S.x", "S.x = 2.0"),
    "the name of a helper": ("def h(): pass\n" + BODY + "float(len(h.__name__))", "h.__name__ = 'ab'"),
    "the qualified name of a helper": (
        "def h(): pass\n" + BODY + "float(len(h.__qualname__))",
        "h.__qualname__ = 'ab'",
    ),
    "the module of a helper": ("def h(): pass\n" + BODY + "float(len(h.__module__))", "h.__module__ = 'ab'"),
    "the name of a class": ("class C: pass\n" + BODY + "float(len(C.__name__))", "C.__name__ = 'ab'"),
    "the qualified name of a class": (
        "class C: pass\n" + BODY + "float(len(C.__qualname__))",
        "C.__qualname__ = 'ab'",
    ),
    "the module of a class": ("class C: pass\n" + BODY + "float(len(C.__module__))", "C.__module__ = 'ab'"),
    "which attribute a module has": (
        "import types\nC = types.ModuleType('C')\nC.a = 1.0\n"
        + HEAD
        + "def kernel(k, out: nvb.Pointer[f32]):\n    try:\n        out[0] = C.a\n"
        + "    except AttributeError:\n        out[0] = C.b + 1.0",
        "C.b = C.a; del C.a",
    ),
    "what was set in a module of Python's": (
        "import math\nmath.users = 1.0\n" + BODY + "math.users",
        "math.users = 2.0",
    ),
    "the sign of a NaN": ("N = float('nan')\n" + BODY + "N", "N = -N"),
    "an annotation that is no expression": (
        "def h(x: 'the rows'): return x\n" + BODY + "float(len(h.__annotations__['x']))",
        "h.__annotations__['x'] = 'rows'",
    ),
    "which cell is empty": (
        "def made():\n    a = b = 1.0\n    def h():\n        try:\n            return a\n"
        "        except NameError:\n            return b + 1.0\n    return h\n"
        "h = made()\ndel h.__closure__[1].cell_contents\n" + BODY + "h()",
        "a, b = h.__closure__; b.cell_contents = a.cell_contents; del a.cell_contents",
    ),
    "a docstring": ('def h():\n    "a"\n' + BODY + "float(len(h.__doc__))", 'h.__doc__ = "ab"'),
    "annotations of a class": (
        "class C:\n    a: 1\n" + BODY + "float(len(C.__annotations__))",
        'C.__annotations__["b"] = 2',
    ),
    "an attribute of a with-block": (
        "import contextlib\n@contextlib.contextmanager\ndef h():\n    yield\nh.width = 1.0\n" + BODY + "h.width",
        "h.width = 2.0",
    ),
    "a with-block's global": (
        "import contextlib\nN = 1.0\n@contextlib.contextmanager\ndef h():\n    yield N\n"
        + HEAD
        + "def kernel(k, out: nvb.Pointer[f32]):\n    with h() as x:\n        out[0] = x",
        "N = 2.0",
    ),
    "a constant's default": (
        HEAD + "def kernel(k, out: nvb.Pointer[f32], *, x=1.0):\n    out[0] = x",
        "kernel._function.__kwdefaults__['x'] = 2.0",
    ),
    "a constant's default's content": (
        HEAD + "def kernel(k, out: nvb.Pointer[f32], *, x=[1.0]):\n    out[0] = x[0]",
        "kernel._function.__kwdefaults__['x'][0] = 2.0",
    ),
    "an annotation": (
        "A = nvb.Pointer(f32)\n" + HEAD + "def kernel(k, out: 'A'):\n    out[0] = 1.0",
        "A = nvb.Pointer(nvb.f16)",
    ),
    "an annotation in quotes twice": (
        "A = nvb.Pointer(f32)\n" + HEAD + "def kernel(k, out: '\"A\"'):\n    out[0] = 1.0",
        "A = nvb.Pointer(nvb.f16)",
    ),
    "an annotation's part": (
        "ALIGN = 16\n" + HEAD + "def kernel(k, out: 'nvb.Pointer(f32, align=ALIGN)'):\n    out[0] = 1.0",
        "ALIGN = 4",
    ),
    "a name of Python's": (BODY + "float(len('ab'))", "len = lambda text: 7"),
    "the threads": (BODY + "1.0", "kernel.threads = 64"),
    "the registers": (BODY + "1.0", "kernel.max_registers = 40"),
    "the name": (BODY + "1.0", "kernel.name = 'other'"),
    "the target": (BODY + "1.0", "kernel.target = nvb.Target.parse('sm_90')"),
    "another definition's content": (
        "N = 1.0\n" + HEAD + "def other(k): pass\n" + BODY + "float(other.threads)",
        "other.threads = 64",
    ),
}


@pytest.mark.parametrize("what", TEXTS)
def test_what_is_read_is_compared(what: str, runs: Runs) -> None:
    text, change = TEXTS[what]
    module = in_module(text)
    before = compiled(module.kernel)
    assert compiled(module.kernel).ir == before.ir
    assert runs.count == 1, "nothing has changed"
    exec(change, vars(module))
    after = compiled(module.kernel)
    assert after.ir == module.kernel.build().ir
    assert (after.ir, after.signature, after.target) != (before.ir, before.signature, before.target)


CONFIG = "import types\nC = types.ModuleType('c')\nC.N = 1.0\n"
UNFOLLOWED = {
    "a helper that keeps its results": (
        "import functools\n@functools.cache\ndef h(): return {'n': 1.0}\n" + BODY + "h()['n']",
        "h().update(n=2.0)",
    ),
    "a module's dictionary": (CONFIG + BODY + "C.__dict__['N']", "C.N = 2.0"),
    "an attribute by its name": ("import operator\n" + CONFIG + BODY + "operator.attrgetter('N')(C)", "C.N = 2.0"),
    "an attribute in a format": (CONFIG + BODY + "float('{0.N}'.format(C))", "C.N = 2.0"),
    "a pattern of a class": (
        CONFIG
        + HEAD
        + "def kernel(k, out: nvb.Pointer[f32]):\n    match C:\n"
        + "        case types.ModuleType(N=n):\n            out[0] = n",
        "C.N = 2.0",
    ),
    "an attribute by its name, of every object": (CONFIG + BODY + "C.__getattribute__('N')", "C.N = 2.0"),
    "an attribute in a format of a formatter": (
        "import string\nF = string.Formatter()\n" + CONFIG + BODY + "float(F.vformat('{0.N}', (C,), {}))",
        "C.N = 2.0",
    ),
    "annotations that are evaluated": (
        "import typing\nT = f32\nclass C:\n    x: 'T'\n" + BODY + "float(typing.get_type_hints(C)['x'].bits)",
        "T = nvb.f16",
    ),
    "a method set on a class of ours": (
        "nvb.KernelBuilder.users = lambda k: 1.0\n" + BODY + "k.users()",
        "nvb.KernelBuilder.users = lambda k: 2.0",
    ),
    "a method of a list": ("L = [1.0]\nG = L.copy\n" + BODY + "G()[0]", "L[0] = 2.0"),
    "a method of an array": (
        "import array\nL = array.array('d', [1.0])\nG = L.tolist\n" + BODY + "G()[0]",
        "L[0] = 2.0",
    ),
}
"""Reads that nothing follows: such a kernel is built each time."""


@pytest.mark.parametrize("what", UNFOLLOWED)
def test_what_cannot_be_followed_is_built_each_time(what: str) -> None:
    text, change = UNFOLLOWED[what]
    with classes_as_they_are():
        module = in_module(text)
        before = compiled(module.kernel)
        exec(change, vars(module))
        assert compiled(module.kernel).ir == module.kernel.build().ir != before.ir


def test_a_class_of_ours_that_was_looked_at_is_the_same(runs: Runs) -> None:
    """Python makes a class's annotations when they are read first, and copyreg its slots' names."""
    module = in_module(BODY + "1.0")
    cls: Any = nvb.KernelBuilder
    assert cls.__annotations__ == {}
    compiled(module.kernel)
    del cls.__annotations__
    compiled(module.kernel)
    assert cls.__annotations__ == {}
    assert copyreg._slotnames(cls) is not None  # type: ignore[attr-defined]
    compiled(module.kernel)
    assert runs.count == 1
    cls.__annotations__["users"] = 1
    try:
        compiled(module.kernel)
    finally:
        del cls.__annotations__["users"]
    assert runs.count == 2


def test_a_helper_of_the_package_that_keeps_its_results_is_followed(runs: Runs) -> None:
    """Its results do not change; one of the user's may keep what was true at another time."""
    module = in_module("from nvbackend.isel.target.target import targets_with\n" + BODY + "float(len(targets_with()))")
    assert hasattr(module.targets_with, "cache_info")
    assert compiled(module.kernel).ir == compiled(module.kernel).ir
    assert runs.count == 1


def test_what_is_not_read_costs_nothing(runs: Runs) -> None:
    module = in_module("N = 1.0\nUNUSED = 1\ndef unused(): return UNUSED\n" + BODY + "N")
    compiled(module.kernel)
    exec("UNUSED = 2\ndef unused(): return 3", vars(module))
    compiled(module.kernel)
    assert runs.count == 1


def closure() -> Case:
    value = 1.0

    @defined
    def kernel(k: Any, out: OUT) -> None:
        out[0] = value

    def change() -> None:
        nonlocal value
        value = 2.0

    return kernel, change


def closure_of_a_helper() -> Case:
    values = [1.0]

    def helper() -> float:
        return values[-1]

    @defined
    def kernel(k: Any, out: OUT) -> None:
        out[0] = helper()

    return kernel, lambda: values.append(2.0)


def a_modules_attribute() -> Case:
    config = types.ModuleType("config")
    config.value = 1.0  # type: ignore[attr-defined]

    @defined
    def kernel(k: Any, out: OUT) -> None:
        out[0] = config.value

    return kernel, lambda: setattr(config, "value", 2.0)


def a_modules_attribute_that_a_helper_reads() -> Case:
    config = types.ModuleType("config")
    config.value = 1.0  # type: ignore[attr-defined]

    def helper(module: Any) -> float:
        return float(module.value)

    @defined
    def kernel(k: Any, out: OUT) -> None:
        out[0] = helper(config)

    return kernel, lambda: setattr(config, "value", 2.0)


def a_modules_function() -> Case:
    config = in_module("N = 1.0\ndef f(): return N")

    @defined
    def kernel(k: Any, out: OUT) -> None:
        out[0] = config.f()

    return kernel, lambda: setattr(config, "N", 2.0)


def an_imported_module() -> Case:
    sys.modules["users_config"] = config = types.ModuleType("users_config")
    config.value = 1.0  # type: ignore[attr-defined]

    @defined
    def kernel(k: Any, out: OUT) -> None:
        from users_config import value  # type: ignore[import-not-found]

        out[0] = value

    return kernel, lambda: setattr(config, "value", 2.0)


@pytest.mark.parametrize(
    "make",
    [
        closure,
        closure_of_a_helper,
        a_modules_attribute,
        a_modules_attribute_that_a_helper_reads,
        a_modules_function,
        an_imported_module,
    ],
)
def test_what_is_reached_from_outside_is_compared(make: Callable[[], Case], runs: Runs) -> None:
    kernel, change = make()
    before = compiled(kernel)
    compiled(kernel)
    assert runs.count == 1
    change()
    assert compiled(kernel).ir == kernel.build().ir != before.ir
