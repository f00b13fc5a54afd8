"""The expressions: tensors with named axes, a product of two, functions of elements, sums along an axis.

    c = relu(einsum("mk,nk->mn", a, b) * 0.5 + bias)

An axis is a letter. What has fewer axes than its neighbour counts for all of the others: a bias of axis n for each m.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import nvbackend as nvb


class MistakeError(Exception):
    """What is wrong with a program, and the line of it."""

    def __init__(self, place: tuple[str, int], text: str) -> None:
        super().__init__(f"{place[0]}:{place[1]}: {text}")


def _place() -> tuple[str, int]:
    """File and line of the user's program: the innermost frame outside of this module."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals["__name__"] == __name__:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


@dataclass(frozen=True, eq=False)
class Expression:
    """A tensor that is computed of `inputs`; `axes` are its letters."""

    axes: str
    inputs: tuple[Operand, ...] = field(default=(), kw_only=True)
    place: tuple[str, int] = field(default_factory=_place, kw_only=True)

    def parts(self) -> Iterator[Expression]:
        """What it is made of, itself last."""
        for one in self.inputs:
            yield from one.parts() if isinstance(one, Expression) else ()
        yield self

    def __add__(self, other: Operand) -> Expression:
        return apply("+", lambda _, x, y: x + y, lambda x, y: x + y, self, other)

    def __mul__(self, other: Operand) -> Expression:
        return apply("*", lambda _, x, y: x * y, lambda x, y: x * y, self, other)

    def __sub__(self, other: Operand) -> Expression:
        return apply("-", lambda _, x, y: x - y, lambda x, y: x - y, self, other)

    __radd__, __rmul__ = __add__, __mul__

    def sum(self, axis: str) -> Expression:
        """The sums along an axis."""
        if axis not in tuple(self.axes):
            raise MistakeError(_place(), f"the sum is along {axis}, the tensor has the axes {', '.join(self.axes)}")
        return Sum(self.axes.replace(axis, ""), self, axis, inputs=(self,))


Operand = Expression | float


@dataclass(frozen=True, eq=False)
class Tensor(Expression):
    """An array that the kernel gets."""

    element: nvb.ElementType
    name: str


@dataclass(frozen=True, eq=False)
class Product(Expression):
    """The sum over `depth`, the axis that `a` and `b` share and the result has not."""

    a: Tensor
    b: Tensor
    depth: str


@dataclass(frozen=True, eq=False)
class Applied(Expression):
    """A function of elements at the same indices: `emit` of the KernelBuilder and values, `numpy` of arrays."""

    emit: Callable[..., Any]
    numpy: Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Sum(Expression):
    """The sums of `of` along `axis`."""

    of: Expression
    axis: str


def einsum(pattern: str, a: Tensor, b: Tensor) -> Expression:
    """NumPy's einsum for patterns such as mk,nk->mn: both operands have the summed axis last."""
    m, n, depth = a.axes[0], b.axes[0], a.axes[-1]
    if pattern != f"{m}{depth},{n}{depth}->{m}{n}" or (a.axes, b.axes) != (m + depth, n + depth):
        raise MistakeError(_place(), f"{pattern} of {a.axes} and {b.axes}: no product with the summed axis last")
    if a.element != b.element or a.element not in (nvb.f16, nvb.bf16):
        raise MistakeError(_place(), f"{a.name} is {a.element.name}, {b.name} {b.element.name}: make both f16 or bf16")
    return Product(m + n, a, b, depth, inputs=(a, b))


def apply(name: str, emit: Callable[..., Any], numpy: Callable[..., Any], *arguments: Operand) -> Expression:
    """The function of elements, with all axes of its arguments."""
    axes = max((one.axes for one in arguments if isinstance(one, Expression)), key=len)
    for one in arguments:
        if isinstance(one, Expression) and one.axes != "".join(axis for axis in axes if axis in one.axes):
            raise MistakeError(_place(), f"{name} of the axes {axes} and {one.axes}: one needs all, in the same order")
    return Applied(axes, emit, numpy, inputs=arguments)


def relu(x: Expression) -> Expression:
    """The larger of x and 0."""
    return apply("relu", lambda k, x: k.math.max(x, 0.0), lambda x: x.clip(0), x)
