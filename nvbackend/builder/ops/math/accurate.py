"""The accurate functions of k.math by their names: series of fused multiply-adds, of f32 and of f64."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.ops.math import double_powers, double_waves, powers, waves
from nvbackend.builder.ops.math.doubles import Doubles
from nvbackend.builder.ops.math.power import power
from nvbackend.builder.ops.math.singles import Singles

_Function = Callable[..., ir.Value]
_FUNCTIONS: dict[str, tuple[_Function, _Function]] = {
    "tanh": (waves.tanh, double_waves.tanh),
    "erf": (waves.erf, double_waves.erf),
    "sigmoid": (waves.sigmoid, double_waves.sigmoid),
    "silu": (waves.silu, double_waves.silu),
    "gelu": (waves.gelu, double_waves.gelu),
    "gelu_tanh": (waves.gelu_tanh, double_waves.gelu_tanh),
    "wave": (waves.wave, double_waves.wave),
    "exp": (powers.exp, double_powers.exp),
    "exp2": (powers.exp2, double_powers.exp2),
    "log": (powers.log, double_powers.log),
    "power": (power, double_powers.power),
}
"""Each of f32, and of f64."""


def of_f32(name: str, k: Core, *arguments: ir.Value, **options: str) -> ir.Value:
    """The function of f32."""
    function, _ = _FUNCTIONS[name]
    return function(Singles(k), *arguments, **options)


def of_f64(name: str, k: Core, *arguments: ir.Value, **options: str) -> ir.Value:
    """The function of f64."""
    _, function = _FUNCTIONS[name]
    return function(Doubles(k), *arguments, **options)
