"""What is assumed of values: LLVM compiles for it, and the dry run of a build keeps to it."""

from __future__ import annotations

from nvbackend.builder.core.core import Core
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import Rule, printed
from nvbackend.intrinsics.row.types import Scalar, pred

CONTRADICTION = Rule(
    id="control.assume",
    message="k.assume({condition}): it does not hold in a thread that comes here",
    fix="assume what holds, or leave out the threads for which it does not: with k.if_(condition)",
    why="LLVM drops all code that such a thread runs.",
    reference="LLVM Language Reference, llvm.assume",
)


def assume(k: Core, condition: Operand) -> None:
    """llvm.assume: `condition` (a predicate) holds in every thread that comes here (control.assume where it cannot)."""
    test = as_value(k, condition, pred)
    if k.execution.decided(test.ir) is False and not k.execution.is_unreached():
        CONTRADICTION.fail(condition=printed(condition))
    k.intrinsic("llvm.assume", None, [test.ir])


def assume_values(k: Core, value: Value, scalar: Scalar) -> None:
    """`value` is an argument that `scalar` asserts something of."""
    if scalar.minimum is not None:
        assume(k, value >= scalar.values[0])
    if scalar.maximum is not None:
        assume(k, value <= scalar.values[-1])
    if scalar.multiple_of != 1:
        k.places.multiples.promise(value.ir, scalar.multiple_of)
        assume(k, value % scalar.multiple_of == 0)
