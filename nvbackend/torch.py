"""Kernels as operators of PyTorch: `nvbackend.torch.op` makes one of a kernel, by torch.library.

PyTorch is imported when an operator is made. Source: PyTorch, torch.library (custom_op, schemas, fake kernels).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nvbackend.builder.kernel.definition import KernelDefinition
from nvbackend.diagnostics import user_facing
from nvbackend.frameworks.operator import CAPTURE, Operator, compiled
from nvbackend.intrinsics.row.types import pred
from nvbackend.runtime.module import SIMULATOR
from nvbackend.signature import Scalar

__all__ = ["op"]


@user_facing
def op(
    kernel: KernelDefinition,
    name: str,
    *,
    grid: Any,
    mutates: Sequence[str] = (),
    results: Mapping[str, Callable[..., Any]] | None = None,
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., Any] | None = None,
    device: str | None = None,
    **options: Any,
) -> Any:
    """The operator `name` ("library::operator") of PyTorch that launches `kernel`, made by torch.library.custom_op.

    It takes the kernel's parameters: tensors for pointers and tensor maps, numbers for scalars; without those in
    `results`, which it makes and returns: a function for each gives the empty tensor. Tensors that the kernel writes
    are `results` or in `mutates`. `grid` is a grid, or a function. These functions take the parameters that they name.
    A launch is on PyTorch's current stream, without synchronisation. `backward` and `setup_context` are those of
    torch.library.register_autograd. `options` are those of the kernel's `compile`. `device="simulator"` makes an
    operator of CPU tensors, which the simulator runs. Raises operator.declared, operator.mutates; the first call in a
    CUDA graph's capture raises operator.capture, and calls raise what a launch raises.
    """
    built = compiled(kernel, name, device, options)
    made = _TorchOperator(built, name, grid, tuple(mutates), dict(results or {}), simulated=device == SIMULATOR)
    made.check()
    return made.registered(backward, setup_context)


class _TorchOperator(Operator):
    @property
    def schema(self) -> str:
        """The schema of PyTorch."""
        letters = iter("abcdefghijklmnopqrstuvwxyz")
        passed = []
        for name in self.taken:
            kind = self.parameters[name].type
            if isinstance(kind, Scalar):
                word = "bool" if kind.element is pred else "SymInt" if kind.element.is_integer else "float"
            else:
                word = f"Tensor({next(letters)}!)" if name in self.mutates else "Tensor"
            passed.append(f"{word} {name}")
        count = len(self.results)
        returned = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
        return f"({', '.join(passed)}) -> {returned}"

    def registered(self, backward: Callable[..., Any] | None, setup_context: Callable[..., Any] | None) -> Any:
        """The operator, known to PyTorch."""
        custom_op = self.framework("torch.library", "PyTorch", "torch").custom_op
        place = "cpu" if self.simulated else "cuda"
        made = custom_op(self.name, self.run, mutates_args=self.mutates, device_types=place, schema=self.schema)
        made.register_fake(self.fake)
        if backward is not None:
            made.register_autograd(backward, setup_context=setup_context)
        return made

    @user_facing
    def fake(self, *arguments: Any, **named: Any) -> Any:
        """What it returns, without numbers."""
        return self._returned(self.made(self._by_name(arguments, named)))

    @user_facing
    def run(self, *arguments: Any, **named: Any) -> Any:
        """Launch it on the current stream."""
        passed = self._by_name(arguments, named)
        made = self.made(passed)
        values = {**passed, **made}
        shape = self.shape(passed)
        in_order = [values[name] for name in self.parameters]
        if self.simulated:
            self.kernel_on(None).launch(shape, *(each.numpy() if hasattr(each, "numpy") else each for each in in_order))
            return self._returned(made)
        import torch

        of = next((each.device for each in in_order if isinstance(each, torch.Tensor)), None)
        with torch.cuda.device(of):
            stream = torch.cuda.current_stream().cuda_stream
            index = torch.cuda.current_device()
            if index not in self.loaded and torch.cuda.is_current_stream_capturing():
                CAPTURE.fail(name=self.name)
            self.kernel_on(index).launch(shape, *in_order, stream=stream)
        return self._returned(made)

    def _by_name(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        return {**dict(zip(self.taken, arguments, strict=False)), **named}

    def _returned(self, made: Mapping[str, Any]) -> Any:
        if not made:
            return None
        return next(iter(made.values())) if len(made) == 1 else tuple(made.values())
