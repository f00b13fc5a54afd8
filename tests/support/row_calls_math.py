"""The calls of k.math, k.packed and k.integer that emit the rows of arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import u16
from tests.support.row_bench import Bench


def _numbers(u: Bench, row: Row) -> list[Any]:
    """Values of the row's own types."""
    return [u.values[u16].bitcast(one.type) if one.type.bits == u16.bits else u.values[one.type] for one in row.inputs]


def _rounded(u: Bench, row: Row) -> None:
    axes: dict[str, Any] = dict(row.axes)
    relu = {"relu": True} if axes["relu"] else {}
    flags = {"rounding": axes["rounding"], "ftz": axes["ftz"], "saturate": axes["saturate"]}
    getattr(u.k.math, axes["operation"])(*_numbers(u, row), **flags, **relu)


def _extreme(u: Bench, row: Row) -> None:
    getattr(u.k.math, row.opcode)(*_numbers(u, row), nan=row.axes["nan"], ftz=row.axes["ftz"])


_FUNCTIONS = {"rcp": "reciprocal", "lg2": "log2", "ex2": "exp2", "div": "divide"}


def _function(u: Bench, row: Row) -> None:
    axes: dict[str, Any] = dict(row.axes)
    approximate = axes["form"] in ("approx", "full")
    rounding = {} if approximate else {"rounding": axes["form"]}
    ftz = {} if row.opcode == "tanh" else {"ftz": axes["ftz"]}
    call = getattr(u.k.math, _FUNCTIONS.get(row.opcode, row.opcode))
    call(*_numbers(u, row), approx=approximate, **rounding, **ftz)


def _integer(u: Bench, row: Row) -> None:
    values = _numbers(u, row)
    name, *rest = row.ptx.split(".")
    if row.opcode == "shf":
        u.k.integer.funnel(*values, direction=rest[0], clamp=rest[1] == "clamp")
    elif row.opcode == "lop3":
        u.k.integer.lop3(*values, 0x96)
    elif row.opcode in ("add.cc", "sub.cc"):
        {"add": u.k.integer.add_carry, "sub": u.k.integer.sub_borrow}[name](*values)
    elif rest[0] == "wide":
        getattr(u.k.integer, f"{name}_wide")(*values)
    elif name == "dp2a":
        u.k.integer.dp2a(*values, half=rest[0])
    elif name in ("bfe", "bfi"):
        field = [value + 0 for value in values[-2:]]
        getattr(u.k.integer, name)(*values[:-2], *field)
    else:
        getattr(u.k.integer, {"mul": "mulhi"}.get(name, name))(*values)


def _add_or_multiply(u: Bench, row: Row) -> None:
    if row.family == "floats":
        _rounded(u, row)
    elif row.ptx.endswith(".sat.s32"):
        getattr(u.k.integer, f"{row.opcode}_sat")(*_numbers(u, row))
    else:
        _integer(u, row)


def _pair(u: Bench, row: Row) -> None:
    axes: dict[str, Any] = dict(row.axes)
    pair, values = axes.pop("pair"), _numbers(u, row)
    name = axes.pop("operation", None) or axes.pop("function", None)
    if name is None:
        u.k.packed.compare(pair, axes["relation"], *values)
        return
    axes = {axis: value for axis, value in axes.items() if value}
    getattr(u.k.packed, {"ex2": "exp2"}.get(name, name))(pair, *values, **axes)


_PAIRS = ("add", "sub", "mul", "fma", "min", "max", "abs", "neg", "ex2", "tanh", "set")
_INTEGERS = ("popc", "clz", "brev", "bfe", "bfi", "shf", "lop3", "mad", "dp4a", "dp2a", "sad", "add.cc", "sub.cc")
ARITHMETIC: dict[str, Callable[[Bench, Row], object]] = {
    **dict.fromkeys(("add", "sub", "mul", "fma"), _add_or_multiply),
    **dict.fromkeys(_INTEGERS, _integer),
    **{f"{name}.pair": _pair for name in _PAIRS},
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "div"), _function),
}
