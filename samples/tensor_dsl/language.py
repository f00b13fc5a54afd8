"""The expressions: tensors with named axes, a product of two, functions of elements, sums along an axis.

    c = relu(einsum("mk,nk->mn", a, b) * 0.5 + bias)

An axis is a letter. What has fewer axes than its neighbour counts for all of the others: a bias of axis n for each m.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import nvbackend as nvb

MISTAKE = nvb.Rule("language.mistake", message="{problem}", fix="{fix}")
"""What is wrong with a program: `fail` raises it at the program's line, as nvbackend raises its own."""


@dataclass(frozen=True, eq=False)
class Expression:
    """A tensor that is computed of `inputs`; `axes` are its letters, `place` is where the program makes it."""

    axes: str
    inputs: tuple[Operand, ...] = field(default=(), kw_only=True)
    place: nvb.Location = field(default_factory=nvb.user_line, kw_only=True)

    def parts(self) -> Iterator[Expression]:
        """What it is made of, itself last."""
        for one in self.inputs:
            yield from one.parts() if isinstance(one, Expression) else ()
        yield self

    def __add__(self, other: Operand) -> Expression:
        return apply("+", lambda _, x, y: x + y, self, other)

    def __mul__(self, other: Operand) -> Expression:
        return apply("*", lambda _, x, y: x * y, self, other)

    def __sub__(self, other: Operand) -> Expression:
        return apply("-", lambda _, x, y: x - y, self, other)

    __radd__, __rmul__ = __add__, __mul__

    def sum(self, axis: str) -> Expression:
        """The sums along an axis."""
        if axis not in tuple(self.axes):
            MISTAKE.fail(problem=f"a sum along {axis} of a tensor of {self.axes}", fix="name one of its axes")
        return Sum(self.axes.replace(axis, ""), inputs=(self,))


Operand = Expression | float


@dataclass(frozen=True, eq=False)
class Tensor(Expression):
    """An array that the kernel gets."""

    element: nvb.ElementType
    name: str


@dataclass(frozen=True, eq=False)
class Product(Expression):
    """The sum over `depth`, the axis that both tensors share and the result has not."""

    a: Tensor
    b: Tensor
    depth: str


@dataclass(frozen=True, eq=False)
class Applied(Expression):
    """A function of elements at the same indices: `emit` of the KernelBuilder and their values."""

    emit: Callable[..., Any]


class Sum(Expression):
    """The sums of its input along the axis that it has not."""


def einsum(pattern: str, a: Tensor, b: Tensor) -> Expression:
    """NumPy's einsum for patterns such as mk,nk->mn: both operands have the summed axis last."""
    m, n, depth = a.axes[0], b.axes[0], a.axes[-1]
    if pattern != f"{m}{depth},{n}{depth}->{m}{n}" or (a.axes, b.axes) != (m + depth, n + depth):
        MISTAKE.fail(problem=f"{pattern} of {a.axes} and {b.axes}", fix="sum over the last axis of both: mk,nk->mn")
    if a.element != b.element or a.element not in (nvb.f16, nvb.bf16):
        MISTAKE.fail(problem=f"{a.name} is {a.element}, {b.name} is {b.element}", fix="make both f16 or bf16")
    return Product(m + n, a, b, depth, inputs=(a, b))


def apply(name: str, emit: Callable[..., Any], *arguments: Operand) -> Expression:
    """The function of elements, with all axes of its arguments."""
    axes = max((one.axes for one in arguments if isinstance(one, Expression)), key=len)
    for one in arguments:
        if isinstance(one, Expression) and one.axes != "".join(axis for axis in axes if axis in one.axes):
            MISTAKE.fail(
                problem=f"{name} of the axes {axes} and {one.axes}", fix="give one all axes, in the same order"
            )
    return Applied(axes, emit, inputs=arguments)


def relu(x: Expression) -> Expression:
    """The larger of x and 0."""
    return apply("relu", lambda k, x: k.math.max(x, 0.0), x)
