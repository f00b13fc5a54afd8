"""Kernels as text, each with what changes something that it reads: its IR or its signature differs after it."""

from __future__ import annotations

from tests.support.compiled_again import BODY, HEAD

KERNEL = HEAD + "def kernel(k, out: nvb.Pointer[f32]):\n"
CHANGES: dict[str, tuple[str, str]] = {
    "an attribute of a class of Python's library": (
        "import fractions\nfractions.Fraction.users = 1.0\n" + BODY + "fractions.Fraction.users",
        "fractions.Fraction.users = 2.0",
    ),
    "a list of a class of Python's library": (
        "import fractions\nfractions.Fraction.users = [1.0]\n" + BODY + "fractions.Fraction.users[0]",
        "fractions.Fraction.users[0] = 2.0",
    ),
    "a method of a class of Python's library": (
        "import fractions\nF = fractions.Fraction\nF.users = lambda self: 1.0\n" + BODY + "F(1).users()",
        "F.users = lambda self: 2.0",
    ),
    "a method of Python's in the place of another": (
        "import fractions\nF = fractions.Fraction\nF.users = F.__pos__\n" + BODY + "float(F(1).users())",
        "F.users = F.__neg__",
    ),
    "the name of a class of Python's library": (
        "import contextlib\nC = contextlib.ContextDecorator\nC.__name__ = 'users'\n" + BODY + "float(len(C.__name__))",
        "C.__name__ = 'ContextDecorator'",
    ),
    "an attribute of a metaclass of Python's library": (
        "import enum\nclass E(enum.Enum):\n    A = 1\nenum.EnumMeta.users = 1.0\n" + BODY + "E.users",
        "enum.EnumMeta.users = 2.0",
    ),
    "a partial's dictionary": (
        "import functools\nP = functools.partial(len)\nP.x = 1.0\n" + BODY + "P.x",
        "P.__dict__ = {'x': 2.0}",
    ),
    "what a class calls its attribute": (
        "class C: pass\nC.a = 1.0\n"
        + KERNEL
        + "    try:\n        out[0] = C.a\n    except AttributeError:\n        out[0] = C.b + 1.0",
        "C.b = C.a; del C.a",
    ),
    "a property's docstring": (
        "class C:\n    x = property(len, doc='a')\n" + BODY + "float(len(C.x.__doc__))",
        "C.x.__doc__ = 'ab'",
    ),
    "what a module does for names that it has not": (
        "import types\nM = types.ModuleType('M')\nM.__getattr__ = lambda name: 1.0\n" + BODY + "M.x",
        "M.__getattr__ = lambda name: 2.0",
    ),
    "an attribute two modules away": (
        "import types\nA, B = types.ModuleType('A'), types.ModuleType('B')\nA.B = B\nclass C: x = 1.0\n"
        "B.C = C\n" + BODY + "A.B.C.x",
        "C.x = 2.0",
    ),
    "a default's content in place": (
        "def h(x=[1.0]): return x[0]\n" + BODY + "h()",
        "h.__defaults__[0][0] = 2.0",
    ),
    "a cell's content": (
        "def made(x):\n    return lambda: x\nh = made(1.0)\n" + BODY + "h()",
        "h.__closure__[0].cell_contents = 2.0",
    ),
    "a partial's keyword in place": (
        "import functools\ndef f(x): return x\nP = functools.partial(f, x=1.0)\n" + BODY + "P()",
        "P.keywords['x'] = 2.0",
    ),
    "a partial's function alone": (
        "import functools\ndef f(x): return x\ndef g(x): return 2 * x\nP = functools.partial(f, 1.0)\n" + BODY + "P()",
        "P.__setstate__((g, P.args, P.keywords, P.__dict__))",
    ),
    "a partial's arguments alone": (
        "import functools\ndef f(x): return x\nP = functools.partial(f, 1.0)\n" + BODY + "P()",
        "P.__setstate__((f, (2.0,), P.keywords, P.__dict__))",
    ),
    "what a static method is of": (
        "def f(): return 1.0\nS = staticmethod(f)\n" + BODY + "S()",
        "A = f.__annotations__\ndef f(): return 2.0\nf.__annotations__ = A\nS.__init__(f)",
    ),
    "the class of a class": (
        "import abc, enum\nclass C(abc.ABC): pass\n" + BODY + "float(len(type(C).__name__))",
        "C.__class__ = enum.EnumMeta",
    ),
    "a name of Python's": (
        "G = {'__builtins__': {'x': 1.0}}\nexec('def h(): return x', G)\nh = G['h']\n" + BODY + "h()",
        "G['__builtins__']['x'] = 2.0",
    ),
    "where an inner function has the names of Python": (
        "G = {'__builtins__': {'x': 1.0}}\nexec('def h(): return (lambda: x)()', G)\nh = G['h']\n" + BODY + "h()",
        "G['__builtins__'] = {'x': 2.0}",
    ),
    "a view of a chain of maps": (
        "import collections, types\nE = {'a': 1.0}\nV = types.MappingProxyType(collections.ChainMap(E))\n"
        + BODY
        + "V['a']",
        "E['a'] = 2.0",
    ),
    "a partial's state": (
        "import functools\ndef f(x): return x\nP = functools.partial(f, 1.0)\n" + BODY + "P()",
        "P.__setstate__((f, (2.0,), {}, {}))",
    ),
    "an enum member's value": (
        "import enum\nclass E(enum.Enum):\n    A = 1.0\n" + BODY + "E.A.value",
        "E.A._value_ = 2.0",
    ),
    "the class of an instance": (
        "class C: x = 1.0\nclass D: x = 2.0\nc = C()\n" + BODY + "c.x",
        "c.__class__ = D",
    ),
    "the bases of a class": (
        "class A: x = 1.0\nclass B: x = 2.0\nclass C(A): pass\n" + BODY + "C.x",
        "C.__bases__ = (B,)",
    ),
    "what a class does for names it has not": (
        "class C:\n    def __getattr__(self, name): return 1.0\nc = C()\n" + BODY + "c.x",
        "C.__getattr__ = lambda self, name: 2.0",
    ),
    "a descriptor's attribute": (
        "class D:\n    v = 1.0\n    def __get__(self, *_): return self.v\nclass C: x = D()\n" + BODY + "C.x",
        "vars(C)['x'].v = 2.0",
    ),
    "a slot that is deleted": (
        "class C: __slots__ = ('x',)\nc = C(); c.x = 1.0\n"
        + KERNEL
        + "    try:\n        out[0] = c.x\n    except AttributeError:\n        out[0] = 2.0",
        "del c.x",
    ),
    "a namespace": (
        "import types\nC = types.SimpleNamespace(x=1.0)\n" + BODY + "C.x",
        "C.x = 2.0",
    ),
    "a default of a named tuple": (
        "import typing\nclass P(typing.NamedTuple):\n    x: float = 1.0\n" + BODY + "P().x",
        "P.__new__.__defaults__ = (2.0,)",
    ),
    "a user dict": (
        "import collections\nD = collections.UserDict(a=1.0)\n" + BODY + "D['a']",
        "D['a'] = 2.0",
    ),
    "a chain of maps": (
        "import collections\nE = {'a': 1.0}\nD = collections.ChainMap(E)\n" + BODY + "D['a']",
        "E['a'] = 2.0",
    ),
    "annotated metadata": (
        "from typing import Annotated\nA = Annotated[int, [1.0]]\n" + BODY + "A.__metadata__[0][0]",
        "A.__metadata__ = ([2.0],)",
    ),
    "defaults of a dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n    x: float = 1.0\n" + BODY + "C().x",
        "C.__init__.__defaults__ = (2.0,)",
    ),
    "a name of Python's that is deleted": (
        "def float(x): return 1.0\n" + BODY + "float('2')",
        "del float",
    ),
    "a view of a dictionary": (
        "import types\nD = {'a': 1.0}\nV = types.MappingProxyType(D)\n" + BODY + "V['a']",
        "D['a'] = 2.0",
    ),
    "an object in a frozen set": (
        "class C: pass\nc = C(); c.x = 1.0\nS = frozenset({c})\n" + BODY + "next(iter([e.x for e in S]))",
        "c.x = 2.0",
    ),
    "a global of the threads' function": (
        (
            "T = 32\n@nvb.kernel('sm_80', threads=lambda n: n * T)\n"
            "def kernel(k, out: nvb.Pointer[f32], *, n=1): out[0] = 1.0"
        ),
        "T = 64",
    ),
    "a list that the threads' function reads": (
        (
            "T = [32]\n@nvb.kernel('sm_80', threads=lambda n: n * T[0])\n"
            "def kernel(k, out: nvb.Pointer[f32], *, n=1): out[0] = 1.0"
        ),
        "T[0] = 64",
    ),
    "a module that the threads' function reads": (
        (
            "import types\nM = types.ModuleType('M'); M.T = 32\n"
            "@nvb.kernel('sm_80', threads=lambda n: n * M.T)\n"
            "def kernel(k, out: nvb.Pointer[f32], *, n=1): out[0] = 1.0"
        ),
        "M.T = 64",
    ),
    "a global of an annotation's function": (
        (
            "from typing import Annotated\nALIGN = 16\n@nvb.kernel('sm_80', threads=32)\n"
            "def kernel(k, out: Annotated[nvb.Pointer, lambda n: nvb.Pointer(f32, align=ALIGN)], *, n=1): out[0] = 1.0"
        ),
        "ALIGN = 4",
    ),
    "a helper of an annotation's function": (
        (
            "from typing import Annotated\ndef h(): return 16\n@nvb.kernel('sm_80', threads=32)\n"
            "def kernel(k, out: Annotated[nvb.Pointer, lambda n: nvb.Pointer(f32, align=h())], *, n=1): out[0] = 1.0"
        ),
        "def h(): return 4",
    ),
    "an object that equals everything": (
        "class C:\n    def __init__(self, x): self.x = x\n    def __eq__(self, other): return True\n"
        "    __hash__ = None\nc = C(1.0)\n" + BODY + "c.x",
        "c = C(2.0)",
    ),
    "one of two equal lists": (
        "A = [1.0]\nL = [A, A]\n" + KERNEL + "    L[1].append(0)\n    out[0] = float(len(L[0]))\n    L[1].pop()",
        "L[1] = list(A)",
    ),
    "attributes that change places": (
        "class C: pass\nc, d = C(), C()\nc.x, d.x = 1.0, 2.0\n" + BODY + "c.x",
        "c.x, d.x = d.x, c.x",
    ),
    "an item from one list to the next": (
        "A, B = [1.0, 2.0], [3.0]\n" + BODY + "A[-1]\n    out[1] = B[0]",
        "B.insert(0, A.pop())",
    ),
    "an item from one dictionary to the next": (
        "A, B = {'a': 1.0}, {}\n" + BODY + "float(len(A)) + 2 * len(B)",
        "B.update(A); A.clear()",
    ),
    "two globals that change places": (
        "A, B = [1.0], [2.0]\n" + BODY + "A[0]\n    out[1] = B[0]",
        "A, B = B, A",
    ),
    "an instance's dictionary": (
        "class C: pass\nc = C(); c.x = 1.0\n" + BODY + "c.x",
        "c.__dict__ = {'x': 2.0}",
    ),
    "a helper's dictionary": (
        "def h(): return h.x\nh.x = 1.0\n" + BODY + "h()",
        "h.__dict__ = {'x': 2.0}",
    ),
    "a helper's keyword defaults": (
        "def h(*, x=1.0): return x\n" + BODY + "h()",
        "h.__kwdefaults__ = {'x': 2.0}",
    ),
    "a helper's annotations": (
        "def h(x: 1.0): pass\n" + BODY + "h.__annotations__['x']",
        "h.__annotations__ = {'x': 2.0}",
    ),
    "a module that is imported anew": (
        "import sys, types\n"
        "sys.modules['users_c'] = types.ModuleType('users_c'); sys.modules['users_c'].x = 1.0\n"
        + KERNEL
        + "    import users_c\n    out[0] = users_c.x",
        "M = types.ModuleType('users_c'); M.x = 2.0; sys.modules['users_c'] = M",
    ),
    "a class method": (
        "class C:\n    @classmethod\n    def f(cls): return cls.x\n    x = 1.0\n" + BODY + "C.f()",
        "C.x = 2.0",
    ),
    "a callable instance": (
        "class C:\n    def __call__(self): return self.x\nc = C(); c.x = 1.0\n" + BODY + "c()",
        "c.x = 2.0",
    ),
    "a subscript method": (
        "class C:\n    def __getitem__(self, i): return N\nN = 1.0\nc = C()\n" + BODY + "c[0]",
        "N = 2.0",
    ),
    "a generator helper's global": (
        "N = 1.0\ndef g():\n    yield N\n" + BODY + "[*g()][0]",
        "N = 2.0",
    ),
    "a comprehension's global": (
        "N = 1.0\n" + BODY + "[N for _ in (0,)][0]",
        "N = 2.0",
    ),
    "a super call's base": (
        "class A:\n    def f(self): return 1.0\nclass B(A):\n    def f(self): return super().f()\nb = B()\n"
        + BODY
        + "b.f()",
        "A.f = lambda self: 2.0",
    ),
    "a method of an enum": (
        "import enum\nclass E(enum.Enum):\n    A = 1\n    def f(self): return 1.0\n" + BODY + "E.A.f()",
        "E.f = lambda self: 2.0",
    ),
    "which members an enum has": (
        "import enum\nclass E(enum.Enum):\n    A = 1\n" + BODY + "float(len(list(E)))",
        "E._member_names_.append('A')",
    ),
    "a flag": (
        "import enum\nclass E(enum.Flag):\n    A = 1\n    B = 2\ne = E.A\n" + BODY + "float(e.value)",
        "e = E.A | E.B",
    ),
    "the length of an object": (
        "class C:\n    def __len__(self): return N\nN = 1\nc = C()\n" + BODY + "float(len(c))",
        "N = 2",
    ),
    "a float of an object": (
        "class C:\n    def __float__(self): return N\nN = 1.0\nc = C()\n" + BODY + "float(c)",
        "N = 2.0",
    ),
    "a truth of an object": (
        "class C:\n    def __bool__(self): return N\nN = True\nc = C()\n" + BODY + "1.0 if c else 2.0",
        "N = False",
    ),
    "a class on one of ours": (
        "class P(nvb.MathPolicy): x = 1.0\n" + BODY + "P.x",
        "P.x = 2.0",
    ),
    "a class as a key": (
        "D = {int: 1.0}\n" + BODY + "D[int]",
        "D[int] = 2.0",
    ),
    "a code's constant by replace": (
        "def h(): return 1.0\n" + BODY + "h()",
        "h.__code__ = h.__code__.replace(co_consts=(None, 2.0))",
    ),
    "a property's getter's global": (
        "N = 1.0\nclass C:\n    @property\n    def x(self): return N\nc = C()\n" + BODY + "c.x",
        "N = 2.0",
    ),
    "a module of a class": (
        "import types\nM = types.ModuleType('M'); M.x = 1.0\nclass C: m = M\n" + BODY + "C.m.x",
        "M.x = 2.0",
    ),
    "a module in a list": (
        "import types\nM = types.ModuleType('M'); M.x = 1.0\nL = [M]\n" + BODY + "L[0].x",
        "M.x = 2.0",
    ),
    "a module's class replaced": (
        "import types\nM = types.ModuleType('M')\nclass C(types.ModuleType):\n    x = 2.0\n"
        "    def __getattr__(self, n): return 2.0\nM.x = 1.0\n"
        + KERNEL
        + "    try:\n        out[0] = M.y\n    except AttributeError:\n        out[0] = 1.0",
        "M.__class__ = C",
    ),
    "a new attribute of a module": (
        "import types\nM = types.ModuleType('M')\n"
        + KERNEL
        + "    try:\n        out[0] = M.x\n    except AttributeError:\n        out[0] = 1.0",
        "M.x = 2.0",
    ),
    "the CTAs of a multiprocessor": (
        BODY + "1.0",
        "kernel.min_ctas = 2",
    ),
    "what a class says of its subclasses": (
        "import abc\nclass A(abc.ABC):\n    @classmethod\n    def __subclasshook__(cls, c): return N\n"
        "N = True\nclass B: pass\n" + BODY + "1.0 if issubclass(B, A) else 2.0",
        "N = False; A._abc_caches_clear() if hasattr(A,'_abc_caches_clear') else __import__('_abc')._reset_caches(A)",
    ),
    "a format of an object": (
        "class C:\n    def __format__(self, s): return N\nN = '1.0'\nc = C()\n" + BODY + "float(f'{c}')",
        "N = '2.0'",
    ),
    "an iteration of an object": (
        "class C:\n    def __iter__(self): return iter(L)\nL = [1.0]\n" + BODY + "[*C()][0]",
        "L[0] = 2.0",
    ),
    "a typing alias": (
        "import typing\nA = typing.List[int]\n" + BODY + "float(len(A.__args__))",
        "A.__args__ = (int, int)",
    ),
    "globals of their own": (
        "G = {'x': 1.0}\nexec('def h(): return x', G)\nh = G['h']\n" + BODY + "h()",
        "G['x'] = 2.0",
    ),
}
"""What is followed."""
UNFOLLOWED: dict[str, tuple[str, str]] = {
    "a dispatch by class": (
        "import functools\n@functools.singledispatch\ndef h(x): return 1.0\n" + BODY + "h(1)",
        "h.register(int)(lambda x: 2.0)",
    ),
    "a wrapped function": (
        "import functools\ndef f(): return 1.0\n@functools.wraps(f)\ndef h(): return h.__wrapped__()\n" + BODY + "h()",
        "h.__wrapped__ = lambda: 2.0",
    ),
    "a cached property": (
        "import functools\nclass C:\n    @functools.cached_property\n    def x(self): return 1.0\nc = C()\n"
        + BODY
        + "c.x",
        "c.__dict__['x'] = 2.0",
    ),
    "a default dictionary": (
        "import collections\nD = collections.defaultdict(float, a=1.0)\n" + BODY + "D['a']",
        "D['a'] = 2.0",
    ),
    "an ordered dictionary": (
        "import collections\nD = collections.OrderedDict(a=1.0)\n" + BODY + "D['a']",
        "D['a'] = 2.0",
    ),
    "a counter": (
        "import collections\nD = collections.Counter('a')\n" + BODY + "float(D['a'])",
        "D['a'] = 2",
    ),
    "a metaclass's attribute": (
        "class M(type):\n    x = 1.0\nclass C(metaclass=M): pass\n" + BODY + "C.x",
        "M.x = 2.0",
    ),
    "a weak proxy": (
        "import weakref\nclass C: x = 1.0\nc = C()\nN = weakref.proxy(c)\n" + BODY + "N.x",
        "C.x = 2.0",
    ),
    "what Python's names are in a dictionary of the user's": (
        "class D(dict):\n    def __missing__(self, name): return N\nN = 1.0\nG = {'__builtins__': D()}\n"
        "exec('def h(): return x', G)\nh = G['h']\n" + BODY + "h()",
        "N = 2.0",
    ),
    "globals that are a dictionary of the user's": (
        "class D(dict): pass\nG = D(x=1.0)\nexec('def h(): return x', G)\nh = G['h']\n" + BODY + "h()",
        "G['x'] = 2.0",
    ),
}
"""What is built each time."""
