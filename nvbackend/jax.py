"""Kernels as operators of JAX: `nvbackend.jax.op` makes one of a kernel, by XLA's foreign function interface.

The handler is a function of C that ctypes makes of Python, so no compiler is needed; it launches on XLA's stream.
JAX is imported when an operator is made. Source: JAX, Foreign function interface (jax.ffi).
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nvbackend.builder.kernel.definition import KernelDefinition
from nvbackend.diagnostics import DiagnosticError, printed, user_facing
from nvbackend.frameworks.operator import Operator, compiled
from nvbackend.frameworks.xla import HandlerCall, handler
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.runtime.arguments.arrays import DeviceArray
from nvbackend.runtime.launch import check_grid, full_grid
from nvbackend.runtime.module import SIMULATOR
from nvbackend.signature import Scalar

__all__ = ["op"]

_GRID = 3
_HALF = 1 << 63
"""Half of the numbers that 64 bits hold."""


@user_facing
def op(
    kernel: KernelDefinition,
    name: str,
    *,
    grid: Any,
    mutates: Sequence[str] = (),
    results: Mapping[str, Callable[..., Any]] | None = None,
    device: str | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """A function of JAX arrays, also under `jax.jit`, that launches `kernel`; `name` is that of XLA's custom call.

    It takes the kernel's parameters in order: arrays for pointers and tensor maps, Python's numbers for scalars;
    without those in `results`, which it returns: a function for each gives a `jax.ShapeDtypeStruct`. Arrays in
    `mutates` are arguments and results: it returns them changed, after those in `results`, and what was passed keeps
    its numbers.
    `grid` is a grid, or a function. These functions take the parameters that they name. `options` are those of the
    kernel's `compile`. `device="simulator"` makes an operator of arrays on the CPU, which the simulator runs. Raises
    operator.declared and operator.mutates; what a launch raises is in the text of XLA's error.
    """
    built = compiled(kernel, name, device, options)
    made = _JaxOperator(built, f"nvbackend::{name}", grid, tuple(mutates), dict(results or {}), device == SIMULATOR)
    made.check()
    return made.registered()


class _JaxOperator(Operator):
    @property
    def arrays(self) -> list[str]:
        """The arrays that it takes."""
        return [name for name in self.taken if not isinstance(self.parameters[name].type, Scalar)]

    @property
    def returned(self) -> list[str]:
        """The arrays that it returns."""
        return [*self.results, *self.mutates]

    @property
    def scalars(self) -> dict[str, ElementType]:
        """The numbers that it takes."""
        kinds = {name: parameter.type for name, parameter in self.parameters.items()}
        return {name: kind.element for name, kind in kinds.items() if isinstance(kind, Scalar)}

    def registered(self) -> Callable[..., Any]:
        """The function, whose handler XLA knows from now on."""
        jax = self.framework("jax", "JAX", "'jax[cuda13]'")
        function = handler(self.execute, on_gpu=not self.simulated)
        # XLA has its address as long as the process lives.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
        place = "cpu" if self.simulated else "CUDA"
        jax.ffi.register_ffi_target(self.name, jax.ffi.pycapsule(function), platform=place)

        @user_facing
        def call(*arguments: Any) -> Any:
            return self.called(arguments)

        call.__name__ = call.__qualname__ = self.kernel.name
        return call

    def called(self, arguments: Sequence[Any]) -> Any:
        """The call, traced or run."""
        import jax
        import numpy as np

        if len(arguments) != len(self.taken):
            takes = ", ".join(self.taken)
            self.refuse(f"it is called with {len(arguments)} arguments", f"pass {len(self.taken)}: {takes}")
        passed = dict(zip(self.taken, arguments, strict=True))
        for name in self.scalars:
            if not isinstance(passed[name], int | float | np.generic):
                advice = "pass a Python number, static under jax.jit; or have the kernel read it from an array"
                self.refuse(f"{name} is {printed(passed[name])}, not a number", advice)
        for name in self.arrays:
            if not all(hasattr(passed[name], part) for part in ("shape", "dtype")):
                self.refuse(f"{name} is {printed(passed[name])}, not an array", "pass an array of JAX or NumPy")
        shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in (passed[name] for name in self.mutates)]
        declared = [*self.made(passed).values(), *shapes]
        first = len(self.results)
        aliases = {self.arrays.index(name): first + index for index, name in enumerate(self.mutates)}
        words = [*self._grid(passed), *(self._word(name, passed[name]) for name in self.scalars)]
        foreign = jax.ffi.ffi_call(self.name, declared, input_output_aliases=aliases)
        made = foreign(*(passed[name] for name in self.arrays), words=np.array(words, np.int64))
        return made[0] if len(made) == 1 else tuple(made)

    def _grid(self, passed: Mapping[str, Any]) -> tuple[int, int, int]:
        """The grid of a call. Raises launch.grid."""
        shape = self.shape(passed)
        problems = [*check_grid(self.kernel.signature, shape)]
        if problems:
            raise DiagnosticError(problems)
        return full_grid(shape)

    def _word(self, name: str, number: Any) -> int:
        """A number as 64 bits. Raises operator.declared for one that they do not hold."""
        element = self.scalars[name]
        try:
            word = _bits(number, element)
        except (TypeError, ValueError, OverflowError, struct.error):
            word = None
        if word is None or not -_HALF <= word < 2 * _HALF:
            self.refuse(f"{name} is {printed(number)}, which {element} does not hold", f"pass a number of {element}")
        return (word + _HALF) % (2 * _HALF) - _HALF

    def execute(self, call: HandlerCall) -> None:
        """Launch it, in a thread of XLA's."""
        arrays = dict(zip(self.arrays, call.arguments, strict=True))
        arrays |= dict(zip(self.returned, call.results, strict=True))
        elements = self.scalars
        numbers = {name: _number(bits, elements[name]) for name, bits in zip(elements, call.words[_GRID:], strict=True)}
        in_order = [numbers[name] if name in numbers else arrays[name] for name in self.parameters]
        shape = call.words[:_GRID]
        if self.simulated:
            self.kernel_on(None).launch(shape, *map(_host, in_order))
            return
        from nvbackend.runtime.driver import numba_cuda

        index = numba_cuda().current_context().device.id
        self.kernel_on(index).launch(shape, *in_order, stream=call.stream)


def _bits(number: Any, element: ElementType) -> int:
    """A number as 64 bits: an integer, or those of a double."""
    if element.is_integer or element.llvm == "i1":
        return int(number)
    (bits,) = struct.unpack("<q", struct.pack("<d", number))
    return int(bits)


def _number(bits: int, element: ElementType) -> int | float | bool:
    if element.is_integer:
        return bits
    if element.llvm == "i1":
        return bool(bits)
    (number,) = struct.unpack("<d", struct.pack("<q", bits))
    return float(number)


def _host(argument: Any) -> Any:
    """An array of XLA's on the host as NumPy's."""
    if not isinstance(argument, DeviceArray):
        return argument
    import numpy as np

    count = math.prod(argument.shape) * argument.item_bytes
    memory = (ctypes.c_char * count).from_address(argument.pointer)
    try:
        dtype = np.dtype(argument.dtype)
    except TypeError:
        import ml_dtypes

        dtype = np.dtype(getattr(ml_dtypes, argument.dtype))
    return np.frombuffer(memoryview(memory), dtype).reshape(argument.shape)
