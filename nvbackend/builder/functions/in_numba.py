"""A compiled device function as numba-cuda calls it: declared, typed, linked.

Source: numba-cuda 0.30, Calling foreign functions (declare_device with abi="c"), Extending (intrinsic).
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nvbackend.builder.scopes.function_rules import NUMBA
from nvbackend.intrinsics.row.types import ElementType, pred
from nvbackend.signature import Pointer, Scalar


class Linked(Protocol):
    """What is needed of a compiled function."""

    @property
    def name(self) -> str:
        """Its name in the PTX."""

    @property
    def ptx(self) -> str:
        """Its PTX text."""

    @property
    def parameters(self) -> Mapping[str, Scalar | Pointer]:
        """Its parameters by name."""

    @property
    def results(self) -> tuple[ElementType, ...] | None:
        """What it returns; None for nothing."""


_NAMES = {"float": "float32", "double": "float64", "i1": "boolean"}
_ADVICE = "take and return the bits as an integer, and convert them in the function: .bitcast(nvb.f16)"


def declared_in_numba(function: Linked, lto_ir: bytes | None) -> Callable[..., Any]:
    """A function of numba's that converts arrays to their addresses and calls the linked one (function.numba).

    Its LTO-IR is linked where it is given, else its PTX.
    """
    results = [_scalar(function, "its result", element) for element in function.results or ()]
    passed = {
        name: _scalar(function, name, kind.element) if isinstance(kind, Scalar) else ""
        for name, kind in function.parameters.items()
    }
    cuda, types = _numba()
    if not hasattr(types, "CPointer"):
        advice = "install it: pip install 'numba-cuda>=0.30'"
        NUMBA.fail(function=function.name, problem="numba.cuda is not that of the package numba-cuda", advice=advice)
    arguments = [
        types.CPointer(_pointed(types, kind.element)) if isinstance(kind, Pointer) else getattr(types, passed[name])
        for name, kind in function.parameters.items()
    ]
    several = [getattr(types, name) for name in results]
    returned = types.void if not several else several[0] if len(several) == 1 else types.Tuple(several)
    if lto_ir is None:
        image = cuda.PTXSource(function.ptx.encode(), name=f"{function.name}.ptx")
    else:
        image = cuda.LTOIR(lto_ir, name=f"{function.name}.ltoir")
    declared = returned(*arguments)
    return _with_arrays(function, cuda.declare_device(function.name, declared, link=[image], abi="c"), declared)


def _numba() -> tuple[Any, Any]:
    """numba-cuda and its types, whose modules numba has of its own in an older form."""
    return importlib.import_module("numba.cuda"), importlib.import_module("numba.cuda.types")


def _scalar(function: Linked, what: str, element: ElementType) -> str:
    """numba's name of the type of a value."""
    name = _numba_name(element)
    if name is None:
        problem = f"{what} is {element}, which numba passes in another way or not at all"
        NUMBA.fail(function=function.name, problem=problem, advice=_ADVICE)
    return name


def _numba_name(element: ElementType) -> str | None:
    if element is pred or element.llvm in _NAMES:
        return _NAMES[element.llvm]
    return f"{'int' if element.is_signed else 'uint'}{element.llvm[1:]}" if element.is_integer else None


def _pointed(types: Any, element: ElementType) -> Any:
    """The type of the elements of an array; where numba lacks it, the unsigned integers that hold their bits."""
    if element.name == "f16":
        return types.float16
    return getattr(types, _numba_name(element) or f"uint{max(element.bits, 8)}")


def _with_arrays(function: Linked, linked: Any, declared: Any) -> Callable[..., Any]:
    """What numba calls: it takes the address of each array, and calls the `linked` function of type `declared`."""
    from numba.core.errors import TypingError
    from numba.cuda.extending import intrinsic

    _, types = _numba()
    kinds = list(function.parameters.items())

    def refuse(problem: str, advice: str) -> TypingError:
        said = NUMBA.diagnose(function=function.name, problem=problem, advice=advice)
        return TypingError(f"[{said.rule_id}] {said.message}; {said.fix}")

    def check(name: str, kind: Scalar | Pointer, passed: Any) -> None:
        if isinstance(kind, Scalar):
            if not isinstance(passed, (types.Number, types.Boolean)):
                raise refuse(f"{name} is {kind.element}, and the call passes {passed}", "pass a number")
            return
        wanted = _pointed(types, kind.element)
        is_fit = isinstance(passed, types.CPointer) or (isinstance(passed, types.Array) and passed.layout in "CF")
        if not is_fit or passed.dtype != wanted:
            advice = f"pass a contiguous array of {wanted}"
            raise refuse(f"{name} is a pointer to {kind.element}, and the call passes {passed}", advice)

    def call(_: Any, *kinds_passed: Any) -> Any:
        for (name, kind), each in zip(kinds, kinds_passed, strict=True):
            check(name, kind, each)

        def lowered(context: Any, builder: Any, _: Any, values: Any) -> Any:
            converted = [
                context.make_array(kind)(context, builder, value).data
                if isinstance(kind, types.Array)
                else context.cast(builder, value, kind, wanted)
                for kind, wanted, value in zip(kinds_passed, declared.args, values, strict=True)
            ]
            return context.get_function(linked, declared)(builder, converted)

        return declared.return_type(*kinds_passed), lowered

    call.__name__ = call.__qualname__ = function.name
    names = ("typing_context", *function.parameters)
    of_names = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    call.__signature__ = inspect.Signature(of_names)  # type: ignore[attr-defined]
    typed: Callable[..., Any] = intrinsic(call)
    return typed
