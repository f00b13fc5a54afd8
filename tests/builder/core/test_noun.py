"""A name that a builder or a noun does not have: what is said of it, and that Python's own tools still work."""

from __future__ import annotations

import copy
import inspect
import math
import operator
import pickle
import re
import traceback
import types
from collections.abc import Callable

import pytest

import nvbackend as nvb
from nvbackend.builder.core.noun import Noun, missing, nouns
from nvbackend.builder.core.old_calls import INVERSES, OF_K, OF_MATH, OF_NOUNS, OF_OTHERS, OLD_CALLS


@pytest.fixture
def k() -> nvb.KernelBuilder:
    return nvb.KernelBuilder("kernel", "sm_90a", threads=128)


def test_a_prompt_completes_every_noun(k: nvb.KernelBuilder) -> None:
    """Also those that are made when they are asked for."""
    assert {*nouns(k), "thread_id", "tiled_mma"} - {"_debug"} <= {*dir(k)}
    assert [name for name in dir(k) if not hasattr(k, name)] == []


@pytest.mark.parametrize(
    ("place", "name", "instead"),
    [
        ("tma", "laod", "k.tma.load"),
        ("mbarrier", "arive", "k.mbarrier.arrive"),
        ("bulk", "commit_group", "k.tma.commit_group"),
        ("bulk", "wait_group", "k.tma.wait_group"),
        ("", "tma_load", "k.tma.load"),
        ("", "mbarrier_wait", "k.mbarrier.wait"),
        ("", "wgmma_mma_async", "k.wgmma.mma_async"),
        ("", "ldmatrix", "k.mma.ldmatrix"),
        ("", "shuffle", "k.warp.shuffle"),
        ("", "mbarier", "k.mbarrier"),
        ("", "selct", "k.select"),
        ("", "syncthreads", "k.barrier.sync"),
        ("", "mbarrier_arrive", "k.mbarrier.arrive"),
        ("", "mbarrier_init", "k.mbarrier.init"),
        ("", "syncwarp", "k.warp.sync"),
        ("", "shfl_xor", "k.warp.shuffle"),
        ("", "shuffle_down", "k.warp.shuffle"),
        ("", "while_loop", "k.loop with k.break_if"),
        ("", "cta_id", "k.block_id"),
        ("atomic", "compare_exchange", "k.atomic.cas"),
        ("", "threadfence", "k.fence.thread"),
        ("", "shfl_sync", "k.warp.shuffle"),
        ("", "variable", "k.var"),
        ("", "konst", "k.const"),
        ("", "const_i32", "k.const"),
    ],
)
def test_the_nearest_call_is_named(k: nvb.KernelBuilder, place: str, name: str, instead: str) -> None:
    owner = getattr(k, place) if place else k
    with pytest.raises(nvb.DiagnosticError) as caught:
        getattr(owner, name)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "call.unknown"
    assert found.location is not None
    assert found.location.file == __file__
    said = (found.fix or "").removeprefix("did you mean ").removeprefix("use ").partition("?")[0]
    assert instead in re.split(r" or |, or |\(", said)


def test_a_call_of_one_noun_that_is_asked_for_elsewhere_is_named(k: nvb.KernelBuilder) -> None:
    """On `k` itself: what one noun has is to be used, and of what several have it is asked which is meant."""
    owners: dict[str, list[str]] = {}
    for name, noun in nouns(k).items():
        for call in (call for call in dir(noun) if not call.startswith("_")):
            owners.setdefault(call, []).append(f"k.{name}.{call}")
    told = 0
    for call, places in owners.items():
        if (
            hasattr(type(k), call)
            or call in vars(k)
            or call in {**OF_MATH, **INVERSES, **OF_OTHERS, **OF_K, **OLD_CALLS}
        ):
            continue
        error = missing(k, call, "k", nouns(k))
        assert isinstance(error, nvb.DiagnosticError)
        fix = error.diagnostics[0].fix or ""
        told += 1
        if len(places) == 1:
            assert fix == f"use {places[0]}"
        else:
            assert fix.startswith("did you mean ")
            assert set(re.findall(r"k\.\w+\.\w+", fix)) <= {*places}
    assert told > 50


def test_a_name_that_is_like_none_names_all(k: nvb.KernelBuilder) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.fence.qqqq  # noqa: B018
    assert "k.fence.proxy_async" in str(caught.value)


def test_a_noun_is_not_a_call(k: nvb.KernelBuilder) -> None:
    with pytest.raises(nvb.DiagnosticError, match=r"k\.barrier is not a call(.|\n)*such as k\.barrier\.sync"):
        k.barrier(3)


def test_an_unknown_name_is_shown_as_a_public_error(k: nvb.KernelBuilder) -> None:
    @nvb.kernel("sm_90a", threads=32)
    def kernel(k):  # type: ignore[no-untyped-def]
        k.barrier.sync()

    for owner, name in ((k.barrier, "synch"), (k, "barier"), (kernel, "launch")):
        with pytest.raises(AttributeError) as caught:
            getattr(owner, name)
        assert isinstance(caught.value, nvb.DiagnosticError)
        shown = traceback.format_exception_only(caught.value)[0]
        assert shown.startswith("nvbackend.DiagnosticError: error[")
        copied = pickle.loads(pickle.dumps(caught.value))
        assert type(copied) is nvb.DiagnosticError
        assert str(copied) == str(caught.value)


def test_python_asks_for_names_as_ever(k: nvb.KernelBuilder) -> None:
    assert not hasattr(k, "tma_load")
    assert not hasattr(k.tma, "laod")
    assert getattr(k.tma, "laod", None) is None
    assert hasattr(k.tma, "load")
    assert copy.copy(k.tma).load is not None
    assert "load" in dir(k.tma)
    assert "proxy_async" in dict(inspect.getmembers(k.fence))
    assert "called" not in dir(k.fence)
    with pytest.raises(AttributeError, match="has no attribute '_private'"):
        k.tma._private  # noqa: B018
    with pytest.raises(nvb.DiagnosticError, match=r"call\.copy"):
        pickle.dumps(k.fence)


NOUNS = {
    *("async_store", "atomic", "barrier", "bulk", "cache", "cluster", "convert", "cp_async", "cta", "fence"),
    *("launch_control", "local", "math", "mbarrier", "mma", "multimem", "setmaxnreg", "tcgen05", "tensormap", "tma"),
    *("warp", "wgmma", "wmma"),
    *("integer", "packed", "constant", "static_assert", "location"),
}


def test_nouns_have_one_order_whatever_was_used_first(k: nvb.KernelBuilder) -> None:
    """The advice of a message is found in this order."""
    used = nvb.KernelBuilder("used", "sm_90a", threads=128)
    assert used.packed is not used.wgmma
    assert list(nouns(used)) == list(nouns(k))


def test_every_noun_knows_its_name(k: nvb.KernelBuilder) -> None:
    found = nouns(k)
    assert set(found) == NOUNS
    for name, one in found.items():
        assert type(one).__noun__ == name
        assert callable(getattr(one, type(one).__usual__))
        assert repr(one).startswith(f"<k.{name}: the calls ")
        assert " at 0x" not in repr(one)


def test_a_call_names_its_noun(k: nvb.KernelBuilder) -> None:
    with pytest.raises(nvb.DiagnosticError, match=r"k\.wmma\.load: missing a required argument"):
        k.wmma.load()  # type: ignore[call-arg]
    with pytest.raises(nvb.DiagnosticError, match=r"k\.mbarrier\.array: count must be int, not 'a'"):
        k.mbarrier.array("a", 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "use",
    [
        bool,
        range,
        int,
        lambda noun: noun == 2,
        lambda noun: noun != 2,
        lambda noun: noun > 1,
        lambda noun: noun <= 1,
        lambda noun: noun * 2,
        lambda noun: 5 % noun,
    ],
)
def test_a_noun_is_not_a_number(k: nvb.KernelBuilder, use: Callable[[Noun], object]) -> None:
    with pytest.raises(nvb.DiagnosticError, match=r"k\.cluster is not a number(.|\n)*use k\.cluster_size"):
        use(k.cluster)
    with pytest.raises(nvb.DiagnosticError, match=r"k\.barrier is not a number(.|\n)*what one of its calls returns"):
        use(k.barrier)


def test_nouns_stay_as_they_are(k: nvb.KernelBuilder) -> None:
    barrier = k.barrier
    with pytest.raises(nvb.DiagnosticError, match=r"k\.barrier cannot be replaced"):
        k.barrier = 1  # type: ignore[assignment]
    with pytest.raises(nvb.DiagnosticError, match=r"k\.barrier cannot be deleted"):
        del k.barrier
    with pytest.raises(nvb.DiagnosticError, match=r"k\.mbarrier takes no attribute 'foo'"):
        k.mbarrier.foo = 3  # type: ignore[attr-defined]
    with pytest.raises(nvb.DiagnosticError, match=r"k\.mbarrier takes no attribute 'wait'"):
        k.mbarrier.wait = 3  # type: ignore[assignment, method-assign]
    with pytest.raises(nvb.DiagnosticError, match=r"k\.mbarrier keeps its attribute 'wait'(.|\n)*leave k\.mbarrier as"):
        del k.mbarrier.wait
    assert k.barrier is barrier
    with pytest.raises(nvb.DiagnosticError, match=r"k\.wmma cannot be replaced"):  # nor before it is made
        k.wmma = 1  # type: ignore[assignment]
    with pytest.raises(nvb.DiagnosticError, match=r"k\.multimem cannot be deleted"):
        del k.multimem
    assert k.wmma is k.wmma
    k.mine = 3  # type: ignore[attr-defined]
    del k.mine  # type: ignore[attr-defined]
    assert "mine" not in vars(k)


@pytest.mark.parametrize(
    ("place", "name"),
    [("math", "relus"), ("math", "sine"), ("warp", "reduces"), ("tma", "laod"), ("cluster", "ranks"), ("", "selct")],
)
def test_a_near_spelling_is_asked_for_alone(k: nvb.KernelBuilder, place: str, name: str) -> None:
    """A name that is only near is a guess: nothing tells the user to use it."""
    owner = getattr(k, place) if place else k
    with pytest.raises(nvb.DiagnosticError) as caught:
        getattr(owner, name)
    fix = caught.value.diagnostics[0].fix or ""
    assert not fix.startswith("use k.")
    assert fix.startswith("did you mean k.") != fix.startswith("use a call that k")
    assert not fix.startswith("did you mean") or fix.count("k.") <= 3


@pytest.mark.parametrize("name", ["sign", "asin", "cosh", "mod", "atan2", "exit", "cast", "ceil_div", "relu", "square"])
def test_a_function_of_others_is_not_taken_for_one_that_is_spelled_alike(k: nvb.KernelBuilder, name: str) -> None:
    wrong = {"sign": "sin", "asin": "sin", "cosh": "cos", "mod": "sigmoid", "atan2": "tanh", "exit": "emit"}
    wrong |= {"cast": "const", "ceil_div": "ceil", "relu": "gelu", "square": "sqrt"}
    with pytest.raises(nvb.DiagnosticError) as caught:
        getattr(k.math if name in OF_MATH | INVERSES else k, name)
    assert wrong[name] not in re.findall(r"k\.(?:math\.)?(\w+)", caught.value.diagnostics[0].fix or "")


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("__syncthreads", "use k.barrier.sync"),
        ("__shfl_down_sync", 'use k.warp.shuffle(value, "down", lane)'),
        ("__popc", "use k.integer.popc"),
        ("__ldg", "use x[i] of a parameter nvb.Pointer(element, const=True)"),
        ("__expf", "use k.math.exp(x, approx=True)"),
        ("expf", "use k.math.exp"),
        ("fmaxf", "use k.math.max(x, y)"),
        ("atomicOr", "use k.atomic.or_(address, value)"),
    ],
)
def test_a_name_of_cuda_has_its_underscores(k: nvb.KernelBuilder, name: str, fix: str) -> None:
    """What Python asks for by itself ends in two of them."""
    with pytest.raises(nvb.DiagnosticError, match=rf"k\.{name} does not exist") as caught:
        getattr(k, name)
    assert [each.fix for each in caught.value.diagnostics] == [fix]
    for asked in (f"{name}__", f"_{name.removeprefix('__')}"):
        with pytest.raises(AttributeError, match="object has no attribute") as plain:
            getattr(k, asked)
        assert not isinstance(plain.value, nvb.DiagnosticError)


@pytest.mark.parametrize(
    ("place", "name", "advised"), [("math", "sqrtf", "k.math.sqrt"), ("fence", "proxy_asyncf", "k.fence.proxy_async")]
)
def test_a_function_of_c_is_one_of_k_math_alone(k: nvb.KernelBuilder, place: str, name: str, advised: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        getattr(getattr(k, place), name)
    fix = caught.value.diagnostics[0].fix or ""
    assert advised in fix
    assert ("k.math." in fix) == (place == "math")


def test_what_is_advised_for_names_of_others_exists() -> None:
    k = nvb.KernelBuilder("kernel", "sm_100a", threads=128)
    on_k = {**OF_MATH, **INVERSES, **OF_OTHERS, **OLD_CALLS, **OF_K}
    for owner, advised in [(k, on_k), *((getattr(k, noun), names) for noun, names in OF_NOUNS.items())]:
        for name, instead in advised.items():
            assert name.isidentifier()
            for place in re.findall(r"\bk\.(\w+(?:\.\w+)*)", instead):
                assert operator.attrgetter(place)(k) is not None
            if name not in vars(owner) and not hasattr(type(owner), name):
                with pytest.raises(nvb.DiagnosticError) as caught:
                    getattr(owner, name)
                assert [each.fix for each in caught.value.diagnostics] == [f"use {instead}"]


FUNCTIONS = {
    "exp10": lambda x: 10**x,
    "ln": math.log,
    "fabs": abs,
    "power": lambda x, y: x**y,
    "div": lambda x, y: x / y,
    "round": round,
    "tan": math.tan,
    "erfc": math.erfc,
    "expm1": math.expm1,
    "log1p": math.log1p,
    "relu": lambda x: max(x, 0),
    **dict.fromkeys(("square", "sqr", "pow2"), lambda x: x**2),
    "neg": operator.neg,
    "mean": lambda x: x,
    "softmax": lambda x: math.exp(x - 2) / 3,
    **dict.fromkeys(("clamp", "clip"), lambda x: sorted((0.5, x, 1.0))[1]),
    "hypot": math.hypot,
    **dict.fromkeys(("rcp", "recip", "inv"), lambda x: 1 / x),
    **dict.fromkeys(("ceil_div", "cdiv"), lambda x, y: -(-x // y)),
    "floor_div": operator.floordiv,
    **dict.fromkeys(("mod", "fmod"), math.fmod),
    "lerp": lambda x, y: x * 0.75 + y * 0.25,
    **{name: getattr(math, name) for name in ("isnan", "isinf", "isfinite", "sinh", "cosh", "asinh", "acosh", "atanh")},
    "sign": lambda x: (x > 0) - (x < 0),
    "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x),
    "logistic": lambda x: 1 / (1 + math.exp(-x)),
    "swish": lambda x: x / (1 + math.exp(-x)),
    "softplus": lambda x: math.log1p(math.exp(x)),
    **dict.fromkeys(("maximum", "fmax"), max),
    "elu": lambda x: x if x > 0 else math.exp(x) - 1,
    "leaky_relu": lambda x: x if x > 0 else 0.01 * x,
    "saturate": lambda x: min(max(x, 0.0), 1.0),
    **dict.fromkeys(("minimum", "fmin"), min),
}
OF_INTEGERS = ("ceil_div", "cdiv", "floor_div")


@pytest.mark.parametrize("name", OF_MATH)
def test_what_is_advised_for_a_function_computes_it(name: str) -> None:
    """The advice begins with an expression, computed here by Python's own functions of the names that k.math has."""
    of_python = {call: getattr(math, call) for call in ("sin", "cos", "exp", "log", "pow", "erf", "sqrt", "trunc")}
    names = {"abs": abs, "rint": round, "exp2": lambda x, approx: 2**x, "max": max, "min": min}
    names |= {"reciprocal": lambda x: 1 / x, "copysign": math.copysign}
    names |= {"sigmoid": lambda x: 0.5 + 0.5 * math.tanh(x / 2), "silu": lambda x: x * (0.5 + 0.5 * math.tanh(x / 2))}
    fake = types.SimpleNamespace(
        math=types.SimpleNamespace(**names, **of_python),
        select=lambda condition, yes, no: yes if condition else no,
        warp=types.SimpleNamespace(reduce=lambda operation, x: 32 * x),
    )
    known = {"k": fake, "math": math, "most": 2, "total": 3, "low": 0.5, "high": 1.0, "t": 0.25}
    parts = OF_MATH[name].split(",")
    (expression, *_) = [text for end in range(len(parts), 0, -1) if (text := _parsed(",".join(parts[:end])))]
    for x in _numbers(name):
        y = 4 if name in OF_INTEGERS else 1.75
        given = (x, y) if "y" in expression.co_names else (x,)
        value = eval(expression, {**known, **dict(zip("xy", (x, y), strict=True))})
        assert value == pytest.approx(FUNCTIONS[name](*given))


def _numbers(name: str) -> tuple[float, ...]:
    if name in OF_INTEGERS:
        return (0, 1, 8, 11)
    if name == "atanh":
        return (0.25, 0.5, -0.75)
    if name in ("elu", "leaky_relu", "saturate"):
        return (-1.5, -0.25, 0.25, 2.5)
    if name == "acosh":
        return (1.5, 2.5)
    odd = (math.nan, math.inf, -math.inf) if name.startswith("is") else ()
    signs = (-1.5, -0.25) if name in ("relu", "sign", "cbrt", "abs", "sinh", "softplus") else ()
    return (0.25, 0.5, 1.5, 2.5, *odd, *signs)


def _parsed(text: str) -> types.CodeType | None:
    try:
        return compile(text, "advice", "eval")
    except SyntaxError:
        return None
