"""Which of a function's values are strided: what LLVM's instructions make of the indices and extents of the launch."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from nvbackend.builder.thread_tables.tables import AXES, NATIVE, Cta, signed
from nvbackend.builder.value_tracking import strides
from nvbackend.builder.value_tracking.known import Known, meet
from nvbackend.builder.value_tracking.strides import Strided
from nvbackend.intrinsics.row.semantics import Scope

_REGISTER = "llvm.nvvm.read.ptx.sreg."
_SAME_NUMBER = ("zext", "sext", "freeze")
_UNSIGNED = ("u", "lshr")
"""How operations begin that take numbers without a sign."""
_WIDE = 32
"""A number that is cut to as many bits or more counts as the same."""


def refined(known: Known, node: ir.Instruction, operands: Sequence[Known], cta: Cta) -> Known:
    """What is `known` of a result, and over which groups what it is computed from shows it to be the same."""
    value = node.operands[0] if node.opname == "icmp" else node
    if known.is_whole or not isinstance(value.type, ir.IntType) or value.type.width > NATIVE:
        return known
    if node.opname != "icmp":
        return known.refined(_computed(node, operands, cta))
    left, right = _sides(node.op, node, operands)
    if left is None or right is None:
        return known
    return known.refined(strides.decided(node.op, left, right), strides.compared(node.op, left, right))


def promised(known: Known, value: ir.Value, divisor: int) -> Known:
    """What is `known` of a parameter that is a multiple of `divisor`."""
    if not isinstance(value, ir.Argument):
        return known
    return known.refined(strides.strided(divisor, None, known.apparent))


def _computed(node: ir.Instruction, operands: Sequence[Known], cta: Cta) -> Strided | None:
    name = node.opname
    if name == "call":
        return _register(str(getattr(node.callee, "name", "")), cta)
    if name == "select":
        return _selected(node.type.width, *operands)
    if name == "trunc" or name in _SAME_NUMBER:
        return _cast(node, operands[0].strided)
    if name not in strides.OPERATIONS:
        return None
    left, right = _sides(name, node, operands)
    return None if left is None or right is None else strides.computed(name, left, right)


def _cast(node: ir.Instruction, before: Strided | None) -> Strided | None:
    if before is None or node.opname != "trunc" or node.type.width >= _WIDE:
        return before
    return strides.computed("urem", before, strides.number(1 << node.type.width))


def _selected(width: int, condition: Known, yes: Known, no: Known) -> Strided | None:
    taken = None if condition.strided is None else condition.strided.number
    if taken is not None:
        return strided_of(yes if taken else no, width)
    merged = meet((yes, no))
    return None if merged is None or merged.strided is None else merged.strided.within(condition.apparent)


def _sides(operation: str, node: ir.Instruction, operands: Sequence[Known]) -> list[Strided | None]:
    with_sign = not operation.startswith(_UNSIGNED) and node.operands[0].type.width > 1
    return [
        strided_of(known, value.type.width, with_sign=with_sign)
        for known, value in zip(operands, node.operands, strict=True)
    ]


def strided_of(known: Known, width: int, *, with_sign: bool = True) -> Strided | None:
    """What is known of an integer of this width; None where it is too large."""
    if known.strided is not None:
        return known.strided
    if not known.is_whole or known.numbers is None:
        return strides.unknown(known.apparent)
    return strides.known_numbers(signed(known.numbers, width if with_sign else NATIVE))


def _register(name: str, cta: Cta) -> Strided | None:
    """The index of a CTA along an axis, or how many there are: whole clusters, and the rank along that axis."""
    register, _, axis = name.removeprefix(_REGISTER).partition(".")
    if axis not in AXES or register not in ("ctaid", "nctaid"):
        return None
    extent, rank = cta.cluster_shape[AXES.index(axis)], cta.rank_along(AXES.index(axis))
    if rank is None:
        return None
    if register == "nctaid":
        return strides.strided(extent, None, Scope.GRID, positive=True)
    return strides.strided(extent, rank, Scope.CLUSTER, positive=True)
