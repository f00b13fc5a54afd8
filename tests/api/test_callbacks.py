"""Functions that a user passes: what they raise leaves as theirs, and what is no such function is a Diagnostic."""

from __future__ import annotations

import functools
import inspect
import operator
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32
from nvbackend.diagnostics import user_facing
from nvbackend.frameworks.operator import Operator
from nvbackend.layout import Layout, gmma_atom
from tests.api.public import names, nouns
from tests.support.inside import is_inside


class Own(Exception):
    """What a user's function raises."""


def raises(*_: Any) -> Any:
    raise Own("mine")


def ends(*_: Any) -> Any:
    return next(iter(()))


class Callback:
    """A function that has no code of its own, and raises as one."""

    def __call__(self, *_: Any) -> Any:
        raise Own("mine")


def of_build(warps: int) -> Any:
    raise Own(warps)


def of_operator(x: int) -> Any:
    raise Own(x)


WRONG: tuple[Any, ...] = (
    *(object, int, float, str, len, iter, range, dict, type, abs, max, divmod, next, open, vars, 3, "x", ...),
    *(
        np.add,
        np.where,
        np.float32,
        operator.itemgetter(3),
        functools.partial(int, base=3),
        Callback,
        StopIteration,
        ends,
    ),
    *(
        lambda: 1,
        lambda *, a: a,
        lambda *_: None,
        lambda *_: "text",
        lambda *_: object(),
        lambda *_: nvb,
        lambda *_: 1j,
    ),
    *(
        lambda *_: [1],
        lambda *_: np.zeros(3),
        lambda *_: 10**5000,
        nvb.Pointer,
        nvb.f32,
        nvb.Location,
        nvb.layout.Layout,
    ),
)
"""Functions of Python's, of this package and of users that take or give something else, and what is no function."""


class Clock:
    def mark(self) -> int:
        return 0

    def milliseconds(self, start: int, end: int) -> float:
        return 1.0


def scenes() -> dict[str, Callable[[Any], object]]:
    """A call with a user's function for each parameter that takes one, by the call and the parameter."""
    parameters = [nvb.Parameter("x", nvb.Pointer(f32))]
    k = nvb.KernelBuilder("kernel", "sm_90a", threads=128, parameters=parameters)
    acc = k.tiled_mma(nvb.wgmma.mma_async("m64n64k16", f16, f16, f32)).accumulator()
    acc.fill(0.0)
    values, fragment = acc.elements(), k.wmma.accumulator("m16n16k16", f32)
    rows, registers, x = acc.rows(0.0), k.register_tensor(f32, (4, 4)), k.arguments[0]
    tensor, coordinates = k.tensor(x, Layout((64, 64))), k.identity_tensor((64, 64))
    swizzled = gmma_atom(nvb.Major.K, nvb.SwizzleMode.B128, f16)
    thread = k.thread_id()
    return {
        "map function": acc.map,
        "TileValues.map function": lambda f: values.map(f, rows),
        "AxisValues.map function": rows.map,
        "WmmaFragment.map function": fragment.map,
        "rows value": values.rows,
        "columns value": values.columns,
        "where keep": lambda f: values.where(f, 0.0),
        "reduce_rows operation": values.reduce_rows,
        "reduce_columns operation": values.reduce_columns,
        "reduce_lanes operation": rows.reduce_lanes,
        "partition cut": tensor.partition,
        "Coordinates.partition cut": coordinates.partition,
        "Inside.partition cut": coordinates.below(3, 3).partition,
        "retile by": registers.retile,
        "with_layout function": swizzled.with_layout,
        "reduce operation": lambda f: k.warp.reduce(f, thread),
        "cta.reduce operation": lambda f: k.cta.reduce(f, (thread, thread)),
        "cluster.reduce operation": lambda f: k.cluster.reduce(f, thread),
        "scan operation": lambda f: k.warp.scan(f, thread),
        "cta.scan operation": lambda f: k.cta.scan(f, thread, exclusive=True, initial=0),
        "time_launches functions": lambda f: nvb.runtime.time_launches({"one": f}, clock=Clock()),
        "tune prepare": lambda f: _tuned(prepare=f),
        "tune check": lambda f: _tuned(check=f),
        "tune progress": lambda f: _tuned(progress=f),
        "kernel": nvb.kernel("sm_90a", threads=32),
        "kernel threads": lambda f: _built(threads=f),
        "kernel cluster": lambda f: _built(threads=32, cluster=f),
        "kernel annotation": lambda f: _built(Annotated[nvb.Pointer, f], threads=32),
        "function decorated": nvb.function(),
        "op results": user_facing(lambda f: _operator({"y": f}, 1).made({"x": 1})),
        "op grid": user_facing(lambda f: _operator({"y": lambda x: x}, f).shape({"x": 1})),
    }


def _built(annotation: Any = nvb.Pointer[f32], **bounds: Any) -> object:
    def kernel(k: nvb.KernelBuilder, x: Any, *, warps: int = 1) -> None:
        pass

    kernel.__annotations__ |= {"k": Any, "x": annotation}
    return nvb.kernel("sm_90a", **bounds)(kernel).build()


def _tuned(**functions: Any) -> object:
    usual: dict[str, Any] = {"prepare": lambda name, loaded: loaded.prepare(1), "clock": Clock(), "key": None}
    usual |= {"device": "simulator", "cache": nvb.Cache.disabled(), "assemble": False}
    return nvb.tune({"one": empty}, **{**usual, **functions})


@nvb.kernel("sm_90a", threads=32)
def empty(k: nvb.KernelBuilder) -> None:
    pass


def _operator(results: dict[str, Any], grid: Any) -> Operator:
    @nvb.kernel("sm_90a", threads=32)
    def kernel(k: nvb.KernelBuilder, x: nvb.Pointer[f32], y: nvb.Pointer[f32]) -> None:
        pass

    made = Operator(kernel.compile(assemble=False), "a::b", grid, (), results, simulated=True)
    made.check()
    return made


NAMED = {"kernel threads": of_build, "kernel cluster": of_build, "kernel annotation": of_build}
NAMED |= {"op results": of_operator, "op grid": of_operator}
"""Functions that raise, of parameters by name."""
KEPT = {"kernel", "function decorated"}
"""What keeps a function and does not run it."""
ELSEWHERE = {
    *("KernelDefinition function", "FunctionDefinition function", "MmaAtom make_row", "CopyAtom make_row"),
    *("Rule analysis", "Semantics computes", "op backward", "op setup_context", "ClusterOfTiles reduction"),
}
"""What this package makes, rules and rows of a user's own, which their tests try, and what PyTorch calls."""


def _parameters() -> Iterator[str]:
    """The parameters of public calls that take functions, by the call and their own name."""
    owners = {**names(), "k": nvb.KernelBuilder, **{name: type(noun) for name, noun in nouns().items()}}
    for name, given in owners.items():
        calls = [getattr(given, part) for part in dir(given) if part[0] != "_"] if isinstance(given, type) else []
        for call in [given, *calls]:
            if inspect.isfunction(call) or (inspect.isclass(call) and call is given):
                for parameter in _signature(call):
                    if re.search(r"Callable|\bCut\b|\bOperation\b", str(parameter.annotation)):
                        yield f"{getattr(call, '__name__', name)} {parameter.name}"


def _signature(call: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    try:
        yield from inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return


def test_every_parameter_that_takes_a_function_is_tried() -> None:
    tried = {name.rpartition(".")[2] for name in scenes()}
    assert sorted(set(_parameters()) - tried - ELSEWHERE) == []
    assert set(_parameters()) >= ELSEWHERE


def test_what_a_function_raises_is_its_own() -> None:
    for name, call in scenes().items():
        for function in [NAMED[name]] if name in NAMED else [raises, Callback()] if name not in KEPT else []:
            assert _of_user(call, function), name


def test_what_is_no_such_function_is_refused() -> None:
    calls = scenes().items()
    problems = [f"{name}: {_problem(call, function)}" for name, call in calls for function in WRONG]
    assert [text for text in problems if not text.endswith(": ")] == []


def test_the_line_of_the_call_is_named() -> None:
    call = scenes()["map function"]
    for function in (object, lambda: 1, len, nvb.WgmmaRequest):
        with pytest.raises(
            nvb.DiagnosticError, match=r"TileValues.map: \S+ cannot be called with 1 argument"
        ) as caught:
            call(function)
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.rule_id == "call.argument"
        assert diagnostic.location.source == "call(function)"


def test_a_function_that_gives_out_is_at_its_own_line() -> None:
    with pytest.raises(nvb.DiagnosticError, match="ends raises StopIteration") as caught:
        scenes()["reduce operation"](ends)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.location.source == "return next(iter(()))"


def _of_user(call: Callable[[Any], object], function: Any) -> bool:
    """Whether a call ends in the exception of the user's function, innermost, with no line of the package's."""
    try:
        call(function)
    except Own as error:
        files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        return files[-1] == __file__ and not any(is_inside(file) for file in files)
    return False


def _problem(call: Callable[[Any], object], function: Any) -> str:
    try:
        call(function)
    except nvb.DiagnosticError as error:
        last = traceback.extract_tb(error.__traceback__)[-1].filename
        return f"{function} shows {last}" if is_inside(last) or not str(error) else ""
    except Exception as error:  # noqa: BLE001
        return f"{function} raises {error!r}"
    return ""
